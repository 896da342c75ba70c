/* memtrace advise: what would lower the peak. */
#include "cli/explain/advice_report.h"
#include "cli/explain/advice_simulated.h"
#include "cli/explain/hint_words.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <inttypes.h>

struct advise_options {
    struct mt_trace_options trace;
    int64_t limit;
    bool all;
};

static const struct mt_option options[] = {
    {.name = "--top",
     .value = "N",
     .help = "how many findings (5 unless given; all of them with --all)",
     .kind = MT_OPTION_INTEGER,
     .offset = offsetof(struct advise_options, limit),
     .low = 1,
     .high = INT32_MAX},
    {.name = "--all",
     .help = "tell also of what saves nothing, and of the parts of what is told",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct advise_options, all)},
    MT_TRACE_OPTIONS,
};

static json_t *replay_json(const struct mt_replay_result *replay)
{
    return json_pack("{s:I, s:I, s:I}", "requested_bytes", (json_int_t)replay->requested_bytes, "allocated_bytes",
                     (json_int_t)replay->allocated_bytes, "reserved_bytes", (json_int_t)replay->reserved_bytes);
}

/* What the blocks have in common; null where they differ. */
static json_t *common_text(const char *text)
{
    return text[0] != '\0' ? mt_json_text(text) : json_null();
}

static void add_common(json_t *row, const struct mt_finding *finding)
{
    json_object_set_new(row, "category", common_text(finding->category));
    json_object_set_new(row, "role", common_text(finding->role));
    json_object_set_new(row, "op", common_text(finding->op));
    json_object_set_new(row, "phase", common_text(finding->phase));
    json_object_set_new(row, "place", common_text(finding->place));
}

static json_t *finding_json(const struct mt_finding *finding)
{
    bool is_timed = finding->pattern != MT_PATTERN_FRAGMENTATION;
    json_t *row = json_pack("{s:s, s:I}", "pattern", mt_pattern_name(finding->pattern), "saved_bytes",
                            (json_int_t)finding->saved_bytes);
    add_common(row, finding);
    json_object_set_new(row, "blocks", json_integer((json_int_t)finding->blocks));
    json_object_set_new(row, "bytes", json_integer((json_int_t)finding->bytes));
    json_object_set_new(row, "events", is_timed ? json_integer(finding->events) : json_null());
    json_object_set_new(row, "ns", is_timed ? json_integer((json_int_t)finding->ns) : json_null());
    json_object_set_new(row, "total_blocks", is_timed ? json_integer((json_int_t)finding->total_blocks) : json_null());
    json_object_set_new(row, "byte_seconds", is_timed ? json_real(finding->byte_seconds) : json_null());
    json_object_set_new(row, "claimed_bytes", json_integer((json_int_t)finding->claim_bytes));
    json_object_set_new(row, "replayed", replay_json(&finding->replay));
    json_object_set_new(row, "fits", json_boolean(finding->replay.fits));
    json_object_set_new(row, "policy", json_string(mt_policy_name(finding->policy)));
    json_object_set_new(row, "cost", json_string(mt_remedy_cost_name(mt_finding_cost(finding))));
    json_object_set_new(row, "hint", json_string(mt_hint_words(mt_finding_hint(finding))));
    return row;
}

static json_t *fragmentation_json(const struct mt_fragmentation *found)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "reserved_bytes", (json_int_t)found->reserved_bytes,
                     "allocated_bytes", (json_int_t)found->allocated_bytes, "idle_bytes", (json_int_t)found->idle_bytes,
                     "hole_bytes", (json_int_t)found->hole_bytes, "hole_count", (json_int_t)found->hole_count,
                     "largest_bytes", (json_int_t)found->largest_bytes, "asked_bytes", (json_int_t)found->asked_bytes);
}

static void print_json(const struct mt_question *question, const struct mt_advice_material *material,
                       const struct mt_run_peaks *peaks, const struct mt_advice *advice,
                       const struct mt_simulated_advice *simulated)
{
    json_t *object = mt_question_json(question, "advise"), *rows = json_array(), *peak = json_object();
    char key[32];
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        snprintf(key, sizeof key, "%s_bytes", mt_measure_name((mt_measure)measure));
        json_object_set_new(peak, key, json_integer((json_int_t)peaks->of[measure].bytes));
    }
    json_object_set_new(object, "peak", peak);
    json_object_set_new(object, "replayed", replay_json(&advice->as_it_was));
    json_object_set_new(object, "used_only", advice->knows_uses ? replay_json(&advice->used_only) : json_null());
    json_object_set_new(object, "knows_uses", json_boolean(advice->knows_uses));
    json_object_set_new(object, "first_step", material->is_whole ? json_null() : json_integer(material->first_step));
    json_object_set_new(object, "last_step", material->is_whole ? json_null() : json_integer(material->last_step));
    json_object_set_new(object, "fragmentation", fragmentation_json(&advice->fragmentation));
    for (size_t i = 0; i < advice->count; i++)
        json_array_append_new(rows, finding_json(&advice->findings[i]));
    json_object_set_new(object, "findings", rows);
    mt_simulated_advice_add_json(simulated, object);
    json_object_set_new(object, "left_out", json_integer((json_int_t)advice->left_out));
    mt_json_print(object);
}

/* Nobody who asks for all has to say how many that are. */
static size_t count_told(const struct advise_options *advise)
{
    enum { USUAL = 5 };
    if (advise->limit > 0)
        return (size_t)advise->limit;
    return advise->all ? INT32_MAX : USUAL;
}

static mt_status answer(const struct mt_question *question, const struct advise_options *advise)
{
    struct mt_advice_material material;
    struct mt_run_peaks peaks = {0};
    struct mt_advice advice = {0};
    struct mt_simulated_advice simulated;
    mt_status status = mt_advice_material_load(question, &material);
    if (status == MT_OK)
        status = mt_run_peaks_load(question, &peaks);
    if (status == MT_OK)
        status = mt_advice_create(&material.input, advise->all ? MT_ADVICE_ALL : MT_ADVICE_WORTHWHILE,
                                  count_told(advise), &advice);
    if (status == MT_OK)
        status = mt_simulated_advice_load(question, &advice, &simulated);
    if (status == MT_OK && advise->trace.json) {
        print_json(question, &material, &peaks, &advice, &simulated);
    } else if (status == MT_OK) {
        mt_advice_print(question, &material, &peaks, &advice);
        mt_simulated_advice_print(&simulated);
    }
    mt_advice_release(&advice);
    mt_run_peaks_release(&peaks);
    mt_advice_material_release(&material);
    return status;
}

static mt_status run_advise(const void *given)
{
    const struct advise_options *advise = given;
    struct mt_question question;
    mt_status status = mt_question_open(&advise->trace, &question);
    if (status != MT_OK)
        return status;
    if (question.run->event_count == 0)
        status = mt_fail(MT_USAGE, "run %" PRId64 " has no events: there is nothing to advise on", question.run->id);
    else
        status = answer(&question, advise);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_advise = {
    .name = "advise",
    .summary = "Finds what would lower the peak, and checks by replay by how much.",
    .usage = "[OPTIONS]",
    .details =
        "Looks for blocks that are there when nothing needs them: freed late, allocated early, idle between uses, "
        "never\n"
        "used, written and never read, kept in two precisions, left behind by every step, gradients kept through the\n"
        "forward pass; and for reserved memory that holds no block. What it saves is told of the peak of requested\n"
        "bytes (of fragmentation, which comes last, of reserved ones), and each claim is checked: the run's\n"
        "allocations are made again with the change, by an allocator of the same settings. What one option mends\n"
        "comes first if it saves a tenth of the most or more; then the largest saving. Savings do not add up: two\n"
        "findings may speak of the same bytes. Of a run of memtrace run, options that findings name though no replay\n"
        "could tell what they do, checkpointing and the optimizer in backward, are simulated.\n",
    .examples = "  memtrace advise\n"
                "  memtrace advise --all\n"
                "  memtrace advise --run 1 --json | jq '.findings[0]'\n",
    .options = options,
    .defaults = &(const struct advise_options){.trace.trace = MT_DEFAULT_TRACE},
    .options_bytes = sizeof(struct advise_options),
    .run = run_advise,
};
