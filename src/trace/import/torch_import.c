#include "trace/import/torch_import.h"

#include "base/memory.h"
#include "trace/import/import_run.h"
#include "trace/import/torch_facts.h"
#include "trace/import/torch_own.h"

#include <string.h>

/* Who says what the blocks of the snapshot are for. */
struct reading {
    const struct mt_import_plan *plan;
    const struct mt_document *document;
    const struct mt_rules *rules;
    struct mt_torch_snapshot snapshot;
    const struct mt_sink *sink;
    struct mt_foreign *foreign;
};

static void report_counts(const struct mt_torch_snapshot *snapshot, struct mt_import_report *out)
{
    out->device = snapshot->device;
    out->elsewhere = snapshot->elsewhere;
    out->entries = snapshot->event_count;
    for (int action = 0; action < MT_TORCH_ACTION_COUNT; action++) {
        const char *name =
            action == MT_TORCH_OTHER ? "of unknown kinds" : mt_torch_action_name((mt_torch_action)action);
        mt_import_count(out, name, out->before.events[action]);
    }
}

/* Whether there are as many events as people choose for max_entries: a recording that was full has exactly so many. */
static bool is_round(uint64_t events)
{
    return events >= 1000 && (events % 1000 == 0 || (events & (events - 1)) == 0);
}

/* What was live before the recording began is no loss: the recording just began later. Lost is what it saw, and then
 * overwrote when it was full. */
static bool is_beginning_lost(const struct mt_import_report *report)
{
    return is_round(report->entries) && (report->before.freed_before > 0 || report->coverage.before_recorded > 0);
}

static void report_labels(struct mt_torch_labels *labels, struct mt_import_report *out)
{
    struct mt_torch_uncovered uncovered[MT_IMPORT_MOST_UNCOVERED];
    out->coverage = mt_torch_labels_coverage(labels);
    out->uncovered_count = mt_torch_labels_uncovered(labels, MT_IMPORT_MOST_UNCOVERED, uncovered);
    for (size_t i = 0; i < out->uncovered_count; i++)
        out->uncovered[i] =
            (struct mt_import_uncovered){mt_host_strdup(uncovered[i].who), uncovered[i].bytes, uncovered[i].blocks};
}

static void replay_by_rules(const struct reading *reading, struct mt_import_report *out)
{
    struct mt_torch_labels *labels =
        mt_torch_labels_create(&reading->snapshot, reading->rules, reading->sink, reading->foreign);
    const struct mt_torch_reader reader = mt_torch_labels_reader(labels);
    mt_torch_replay(&reading->snapshot, &reader, reading->foreign, &out->before);
    mt_torch_labels_end(labels);
    report_labels(labels, out);
    mt_torch_labels_destroy(labels);
}

static void replay_own(const struct reading *reading, struct mt_import_report *out)
{
    struct mt_torch_own *own =
        mt_torch_own_create(mt_document_root(reading->document), &reading->snapshot, reading->sink, reading->foreign);
    const struct mt_torch_reader reader = mt_torch_own_reader(own);
    mt_torch_replay(&reading->snapshot, &reader, reading->foreign, &out->before);
    mt_torch_own_end(own);
    mt_torch_own_destroy(own);
}

/* Tells the run everything. */
static void replay(struct reading *reading, const struct mt_sink *sink, struct mt_import_report *out)
{
    reading->sink = sink;
    reading->foreign = mt_foreign_create(sink);
    bool is_own = mt_torch_own_is_one(mt_document_root(reading->document));
    out->kind = is_own ? MT_IMPORT_OWN : MT_IMPORT_TORCH;
    if (is_own)
        replay_own(reading, out);
    else
        replay_by_rules(reading, out);
    out->foreign = mt_foreign_counts(reading->foreign);
    report_counts(&reading->snapshot, out);
    out->ends_refused = out->before.ends_refused;
    out->lost_beginning = out->kind == MT_IMPORT_TORCH && is_beginning_lost(out);
    out->rounds_by_size = out->kind == MT_IMPORT_TORCH && !mt_torch_settings_is_uniform(&reading->snapshot.settings);
    mt_foreign_destroy(reading->foreign);
}

/* How the run ended, by what is said of it or by its events. Of one that was going on when it was exported a part is there. */
static mt_run_state end_of(const char *said, const struct mt_import_report *report)
{
    for (int state = 0; state < MT_RUN_STATE_COUNT; state++)
        if (strcmp(said, mt_run_state_name((mt_run_state)state)) == 0)
            return state == MT_RUN_RUNNING ? MT_RUN_INTERRUPTED : (mt_run_state)state;
    return report->ends_refused ? MT_RUN_OOM : MT_RUN_DONE;
}

static mt_status record(struct reading *reading, struct mt_import_report *out)
{
    struct mt_torch_facts facts;
    struct mt_recorder *recorder;
    mt_torch_facts_read(mt_document_root(reading->document), &reading->snapshot, &facts);
    const struct mt_import_source source = {.device = facts.device,
                                            .name = facts.name,
                                            .format = mt_document_format(reading->document),
                                            .capacity_bytes = facts.capacity_bytes,
                                            .settings = facts.settings,
                                            .setting_count = facts.setting_count};
    mt_status status = mt_import_run_open(reading->plan, &source, &recorder);
    if (status == MT_OK) {
        out->run = mt_recorder_run(recorder);
        replay(reading, mt_recorder_sink(recorder), out);
        status = mt_recorder_close(recorder, end_of(facts.state, out));
    }
    mt_torch_facts_release(&facts);
    return status;
}

mt_status mt_torch_import(const struct mt_import_plan *plan, const struct mt_document *document,
                          const struct mt_rules *rules, struct mt_import_report *out)
{
    struct reading reading = {.plan = plan, .document = document, .rules = rules};
    out->format = strcmp(mt_document_format(document), "pickle") == 0 ? "PyTorch memory snapshot (pickle)"
                                                                      : "PyTorch memory snapshot (JSON)";
    mt_status status = mt_torch_snapshot_read(mt_document_root(document), plan->device, &reading.snapshot);
    if (status == MT_OK)
        status = record(&reading, out);
    else
        mt_fail_context(status, "%s can't be imported", plan->file);
    mt_torch_snapshot_release(&reading.snapshot);
    return status;
}
