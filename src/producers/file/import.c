/* The table of readers and the steps that all imports share: recognize, check, open the run, replay, close it. */
#include "producers/file/import.h"

#include "base/interner.h"
#include "base/memory.h"
#include "producers/file/nccl_log.h"
#include "run/live_run.h"
#include "trace/store/trace_file.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Tried in this order. */
static const struct mt_import_reader *const readers[] = {&mt_nsys_reader, &mt_rmm_reader, &mt_nccl_reader,
                                                         &mt_torch_reader};

static const struct mt_import_reader *find_reader(const struct mt_import_input *input)
{
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++)
        if (readers[i]->recognizes(input))
            return readers[i];
    return NULL;
}

/* Replays into a sink that discards everything, so that a damaged file fails before it adds a run. */
static mt_status rehearse(const struct mt_import_reader *reader, const struct mt_import_input *input)
{
    struct mt_import_report unused = {0};
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    mt_status status = reader->replay(input, &sink, &unused);
    mt_interner_destroy(interner);
    mt_import_report_release(&unused);
    return status;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* True if a file's name has a rank: "rank3.pickle", "snapshot_rank_3.json.gz", "Rank-3". False if the number is too
 * large for a rank. */
static bool find_rank(const char *name, struct mt_run_rank *out)
{
    static const char WORD[] = "rank";
    for (const char *found = strcasestr(name, WORD); found != NULL; found = strcasestr(found + 1, WORD)) {
        const char *digits = found + strlen(WORD);
        digits += *digits != '\0' && strchr("_-=", *digits) != NULL;
        if (isdigit((unsigned char)*digits)) {
            const unsigned long number = strtoul(digits, NULL, 10); /* ULONG_MAX if it has too many digits */
            *out = (struct mt_run_rank){.rank = (int64_t)number, .local_rank = -1, .world_size = -1};
            return number <= INT32_MAX;
        }
    }
    return false;
}

static const char *run_name(const struct mt_import_plan *plan, const struct mt_import_source *source)
{
    if (plan->name != NULL)
        return plan->name;
    return source->name != NULL && source->name[0] != '\0' ? source->name : NULL;
}

/* Adds the run to the trace. If two settings have one name, the recorder keeps the last, which is ours. */
static mt_status open_run(const struct mt_import_plan *plan, const struct mt_import_source *source,
                          struct mt_live_run **out)
{
    enum { OWN_SETTINGS = 2 };
    size_t count = source->setting_count;
    struct mt_run_setting *settings = mt_host_alloc((count + OWN_SETTINGS) * sizeof *settings);
    if (count > 0)
        memcpy(settings, source->settings, count * sizeof *settings);
    settings[count++] = (struct mt_run_setting){"file", file_name(plan->file)};
    settings[count++] = (struct mt_run_setting){"format", source->format};
    struct mt_run_rank rank;
    const bool has_rank = find_rank(file_name(plan->file), &rank);
    const struct mt_live_settings live = {.trace = plan->trace,
                                          .info = {.name = run_name(plan, source),
                                                   .origin = MT_RUN_IMPORTED,
                                                   .rank = has_rank ? &rank : NULL,
                                                   .device = source->device,
                                                   .start_us = source->start_us,
                                                   .capacity_bytes = source->capacity_bytes,
                                                   .wait_seconds = plan->wait_seconds,
                                                   .settings = settings,
                                                   .setting_count = count}};
    mt_status status = mt_live_run_open(&live, out);
    free(settings);
    return status;
}

/* Returns the run's state: the one in the file, or one derived from its events. A run that was still going on when it
 * was exported is only partly in the file. */
static mt_run_state end_of(const struct mt_import_source *source, const struct mt_import_report *report)
{
    for (int state = 0; state < MT_RUN_STATE_COUNT && source->state != NULL; state++)
        if (strcmp(source->state, mt_run_state_name((mt_run_state)state)) == 0)
            return state == MT_RUN_RUNNING ? MT_RUN_INTERRUPTED : (mt_run_state)state;
    return report->ends_refused ? MT_RUN_OOM : MT_RUN_DONE;
}

/* Adds NCCL's memory to the run. Its file has no times, so it counts for the whole run. */
static void hold_nccl(const struct mt_nccl_holders *holders, struct mt_live_run *run, struct mt_import_report *out)
{
    for (size_t i = 0; i < holders->count; i++) {
        const struct mt_nccl_holder *holder = &holders->rows[i];
        mt_live_run_outside(
            run, &(struct mt_outside){.kind = MT_OUTSIDE_NCCL, .name = holder->name, .bytes = holder->bytes});
        out->nccl_bytes += holder->bytes;
    }
}

static mt_status add_run(const struct mt_import_reader *reader, const struct mt_import_input *input,
                         const struct mt_import_source *source, struct mt_import_report *out)
{
    struct mt_live_run *run;
    MT_TRY(open_run(input->plan, source, &run));
    out->kind = reader->kind;
    out->format = source->title;
    out->run = mt_live_run_number(run);
    hold_nccl(input->nccl, run, out);
    mt_status status = reader->replay(input, mt_live_run_sink(run), out);
    struct mt_error error = mt_error_save(status);
    const struct mt_torch_refusal *refusal = &out->torch.refusal;
    if (refusal->is_known)
        mt_live_run_measure(run, MT_FREE_AT_REFUSAL, refusal->step, (double)refusal->free_bytes);
    size_t steps = out->torch.times.count;
    mt_step_times_store(&out->torch.times, steps > 0 && out->ends_refused ? steps - 1 : steps, run);
    mt_run_state state = status == MT_OK ? end_of(source, out) : MT_RUN_FAILED;
    return mt_error_restore(&error, mt_live_run_close(run, state));
}

static mt_status import_by(const struct mt_import_reader *reader, struct mt_import_input *input,
                           struct mt_import_report *out)
{
    assert((reader->read == NULL) == (reader->release == NULL));
    struct mt_import_source source = reader->source;
    mt_status status = MT_OK;
    if (input->plan->device < MT_IMPORT_ANY_DEVICE && reader->kind != MT_IMPORT_TORCH)
        return mt_fail(MT_USAGE, "%s can't be imported: it does not describe the CPU's memory", input->plan->file);
    status = reader->read != NULL ? reader->read(input, &source) : rehearse(reader, input);
    if (status == MT_OK)
        status = add_run(reader, input, &source, out);
    else
        mt_fail_context(status, "%s can't be imported", input->plan->file);
    if (reader->release != NULL)
        reader->release(input);
    assert(input->state == NULL);
    return status;
}

/* Reads NCCL's memory. Fails with MT_USAGE if the ranks of both files are known and differ. */
static mt_status read_nccl(const struct mt_import_plan *plan, uint64_t most_bytes, struct mt_nccl_holders *out)
{
    struct mt_run_rank rank;
    if (plan->nccl == NULL)
        return MT_OK;
    MT_TRY(mt_nccl_holders_read(plan->nccl, most_bytes, out));
    if (out->rank >= 0 && find_rank(file_name(plan->file), &rank) && rank.rank != out->rank)
        return mt_fail(MT_USAGE, "%s is of rank %" PRId64 ", and %s of rank %" PRId64, plan->nccl, out->rank,
                       plan->file, rank.rank);
    return MT_OK;
}

static mt_status import_file(const struct mt_import_plan *plan, const struct mt_rules *rules,
                             struct mt_import_report *out)
{
    const uint64_t most_bytes = plan->most_bytes != 0 ? plan->most_bytes : MT_IMPORT_USUAL_BYTES;
    struct mt_nccl_holders nccl = {0};
    struct mt_import_input input = {
        .plan = plan, .rules = rules, .is_database = mt_trace_file_is_database(plan->file), .nccl = &nccl};
    mt_status status = read_nccl(plan, most_bytes, &nccl);
    if (status == MT_OK && !input.is_database)
        status = mt_whole_file_read(plan->file, most_bytes, &input.file);
    input.file.is_asked = plan->most_bytes != 0;
    const struct mt_import_reader *reader = status == MT_OK ? find_reader(&input) : NULL;
    if (reader != NULL)
        status = import_by(reader, &input, out);
    else if (status == MT_OK)
        status = mt_fail_context(mt_document_refuse(&input.file), "%s can't be imported", plan->file);
    mt_whole_file_release(&input.file);
    mt_nccl_holders_release(&nccl);
    return status;
}

mt_status mt_import(const struct mt_import_plan *plan, struct mt_import_report *out)
{
    assert(plan->file != NULL && plan->trace != NULL && plan->device >= MT_IMPORT_HOST);
    struct mt_rules *rules = mt_rules_create();
    *out = (struct mt_import_report){0};
    mt_status status = plan->rules != NULL ? mt_rules_add_file(rules, plan->rules) : MT_OK;
    MT_THEN(status, mt_rules_add_built_in(rules));
    MT_THEN(status, import_file(plan, rules, out));
    out->rule_count = mt_rules_count(rules);
    mt_rules_destroy(rules);
    return status;
}

void mt_import_report_release(struct mt_import_report *report)
{
    assert(report->uncovered_count <= MT_IMPORT_MOST_UNCOVERED);
    for (size_t i = 0; i < report->uncovered_count; i++)
        free(report->uncovered[i].who);
    mt_step_times_release(&report->torch.times);
    *report = (struct mt_import_report){0};
}
