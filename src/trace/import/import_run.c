#include "trace/import/import_run.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *name_of(const struct mt_import_plan *plan, const struct mt_import_source *source)
{
    if (plan->name != NULL)
        return plan->name;
    return source->name != NULL && source->name[0] != '\0' ? source->name : NULL;
}

/* Of equal names the recorder keeps the last. */
mt_status mt_import_run_open(const struct mt_import_plan *plan, const struct mt_import_source *source,
                             struct mt_recorder **out)
{
    enum { OWN_SETTINGS = 2 };
    size_t count = source->setting_count;
    struct mt_run_setting *settings = mt_host_alloc((count + OWN_SETTINGS) * sizeof *settings);
    if (count > 0)
        memcpy(settings, source->settings, count * sizeof *settings);
    settings[count++] = (struct mt_run_setting){"file", file_name(plan->file)};
    settings[count++] = (struct mt_run_setting){"format", source->format};
    const struct mt_run_info info = {.name = name_of(plan, source),
                                     .device = source->device,
                                     .capacity_bytes = source->capacity_bytes,
                                     .settings = settings,
                                     .setting_count = count};
    mt_status status = mt_recorder_open(plan->trace, &info, out);
    free(settings);
    return status;
}

void mt_import_count(struct mt_import_report *report, const char *what, uint64_t count)
{
    assert(report->count_count < sizeof report->counts / sizeof report->counts[0]);
    report->counts[report->count_count++] = (struct mt_import_count){what, count};
}
