#include "trace/import/import_run.h"

#include <assert.h>
#include <string.h>

enum { MOST_SETTINGS = 3 };

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

mt_status mt_import_run_open(const struct mt_import_plan *plan, const struct mt_import_source *source,
                             struct mt_recorder **out)
{
    struct mt_run_setting settings[MOST_SETTINGS] = {{"file", file_name(plan->file)}, {"format", source->format}};
    size_t count = 2;
    if (source->alloc != NULL)
        settings[count++] = (struct mt_run_setting){"alloc", source->alloc};
    const struct mt_run_info info = {.name = plan->name,
                                     .device = source->device,
                                     .capacity_bytes = source->capacity_bytes,
                                     .settings = settings,
                                     .setting_count = count};
    return mt_recorder_open(plan->trace, &info, out);
}

void mt_import_count(struct mt_import_report *report, const char *what, uint64_t count)
{
    assert(report->count_count < sizeof report->counts / sizeof report->counts[0]);
    report->counts[report->count_count++] = (struct mt_import_count){what, count};
}
