#include "trace/import/torch_import.h"

#include "base/memory.h"
#include "trace/recorder.h"

#include <inttypes.h>
#include <string.h>

/* What is told of the file and the allocator in a run's settings. */
struct settings {
    struct mt_run_setting rows[8];
    size_t count;
    struct mt_text device;
};

static void add_setting(struct settings *settings, const char *name, const char *value)
{
    settings->rows[settings->count++] = (struct mt_run_setting){name, value};
}

static const char *format_of(const struct mt_document *document)
{
    return strcmp(mt_document_format(document), "pickle") == 0 ? "PyTorch memory snapshot (pickle)"
                                                               : "PyTorch memory snapshot (JSON)";
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static mt_status open_run(const struct mt_import_plan *plan, const char *format, struct mt_recorder **out)
{
    struct settings settings = {0};
    add_setting(&settings, "file", file_name(plan->file));
    add_setting(&settings, "format", format);
    add_setting(&settings, "alloc", "policy=torch");
    const struct mt_run_info info = {
        .name = plan->name, .device = "PyTorch snapshot", .settings = settings.rows, .setting_count = settings.count};
    return mt_recorder_open(plan->trace, &info, out);
}

static void report_counts(const struct mt_torch_snapshot *snapshot, const struct mt_torch_tally *tally,
                          struct mt_import_report *out)
{
    out->entries = snapshot->event_count;
    out->before = *tally;
    for (int action = 0; action < MT_TORCH_ACTION_COUNT; action++) {
        const char *name =
            action == MT_TORCH_OTHER ? "of unknown kinds" : mt_torch_action_name((mt_torch_action)action);
        out->counts[out->count_count++] = (struct mt_import_count){name, tally->events[action]};
    }
}

static void report_labels(struct mt_torch_labels *labels, struct mt_import_report *out)
{
    struct mt_torch_uncovered uncovered[MT_IMPORT_MOST_UNCOVERED];
    out->coverage = mt_torch_labels_coverage(labels);
    out->lost_beginning = out->before.freed_before > 0 || out->coverage.before_recorded > 0;
    out->uncovered_count = mt_torch_labels_uncovered(labels, MT_IMPORT_MOST_UNCOVERED, uncovered);
    for (size_t i = 0; i < out->uncovered_count; i++)
        out->uncovered[i] =
            (struct mt_import_uncovered){mt_host_strdup(uncovered[i].who), uncovered[i].bytes, uncovered[i].blocks};
}

static void replay(const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules, const struct mt_sink *sink,
                   struct mt_import_report *out)
{
    struct mt_torch_tally tally;
    struct mt_foreign *foreign = mt_foreign_create(sink);
    struct mt_torch_labels *labels = mt_torch_labels_create(snapshot, rules, sink, foreign);
    const struct mt_torch_reader reader = mt_torch_labels_reader(labels);
    mt_torch_replay(snapshot, &reader, foreign, &tally);
    mt_torch_labels_end(labels);
    out->foreign = mt_foreign_counts(foreign);
    report_counts(snapshot, &tally, out);
    report_labels(labels, out);
    mt_torch_labels_destroy(labels);
    mt_foreign_destroy(foreign);
}

mt_status mt_torch_import(const struct mt_import_plan *plan, const struct mt_document *document,
                          const struct mt_rules *rules, struct mt_import_report *out)
{
    struct mt_torch_snapshot snapshot;
    struct mt_recorder *recorder;
    mt_status status = mt_torch_snapshot_read(mt_document_root(document), plan->device, &snapshot);
    if (status != MT_OK)
        mt_fail_context(status, "%s can't be imported", plan->file);
    out->kind = MT_IMPORT_TORCH;
    out->format = format_of(document);
    if (status == MT_OK)
        status = open_run(plan, out->format, &recorder);
    if (status == MT_OK) {
        out->run = mt_recorder_run(recorder);
        replay(&snapshot, rules, mt_recorder_sink(recorder), out);
        status = mt_recorder_close(recorder, out->before.events[MT_TORCH_OOM] > 0 ? MT_RUN_OOM : MT_RUN_DONE);
    }
    mt_torch_snapshot_release(&snapshot);
    return status;
}
