#include "words/advice_words.h"

#include "answer/answer.h"
#include "answer/escape.h"
#include "base/memory.h"
#include "words/change_words.h"
#include "words/finding_words.h"
#include "words/observed_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void mt_replayed_allocator_add(const struct mt_advice_input *input, struct mt_text *out)
{
    mt_text_add(out, "%s allocator (", input->settings.policy == MT_POLICY_TIGHT ? "memtrace's" : "PyTorch's");
    mt_alloc_settings_format_short(&input->settings, out);
    mt_text_add(out, ")");
}

/* Peaks in the order of mt_measure. */
#define ROW struct mt_replay_result
static const struct mt_field peak_fields[] = {
    MT_BYTES(ROW, allocated_bytes, "allocated_bytes", NULL, NULL),
    MT_BYTES(ROW, requested_bytes, "requested_bytes", NULL, NULL),
    MT_BYTES(ROW, reserved_bytes, "reserved_bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type peak_type = MT_ROW_TYPE(ROW, peak_fields);
#undef ROW

#define ROW struct mt_advice_option_row
static const struct mt_field option_fields[] = {
    MT_OWNED(ROW, change, "change", "simulated with", "the options"),
    MT_OWNED(ROW, command, "command", NULL, "to run it"),
    MT_ROW(ROW, peak, "peak", &mt_replay_peak_type, "of the whole run with it, simulated"),
    MT_FLAG(ROW, peak.fits, "fits", NULL, "false if it ended out of memory"),
    MT_INTEGER(ROW, saved_bytes, "saved_bytes", NULL, "by which the peak of requested bytes falls"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.requested_bytes, "requested", "requested"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.allocated_bytes, "allocated", "allocated"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.reserved_bytes, "reserved", "reserved"),
    MT_SHOWN_OWNED(DIGITS, ROW, difference, "difference", "difference"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_advice_option_type = MT_ROW_TYPE(ROW, option_fields);
#undef ROW

#define ROW struct mt_fragmentation
static const struct mt_field fragmentation_fields[] = {
    MT_BYTES(ROW, reserved_bytes, "reserved_bytes", NULL, NULL),
    MT_BYTES(ROW, allocated_bytes, "allocated_bytes", NULL, NULL),
    MT_BYTES(ROW, idle_bytes, "idle_bytes", NULL, "in segments without a block"),
    MT_BYTES(ROW, hole_bytes, "hole_bytes", NULL, "between blocks"),
    MT_COUNT(ROW, hole_count, "hole_count", NULL, "pieces that these are in"),
    MT_BYTES(ROW, largest_bytes, "largest_bytes", NULL, "of the free pieces"),
    MT_BYTES(ROW, pool_bytes, "pool_bytes", NULL, "of the free ones, in private pools of PyTorch"),
    MT_BYTES(ROW, asked_bytes, "asked_bytes", NULL, "by the block that memory was mapped for last"),
    MT_FIELDS_END,
};
static const struct mt_row_type fragmentation_type = MT_ROW_TYPE(ROW, fragmentation_fields);
#undef ROW

#define ROW struct mt_finding_row
static const struct mt_field finding_fields[] = {
    MT_SHOWN(INTEGER, int64_t, ROW, number, "number", "#"),
    MT_TEXT(ROW, pattern, "pattern", "pattern", "the kind of waste"),
    MT_BYTES(
        ROW, finding.saved_bytes, "saved_bytes", "saves",
        "by which the peak of requested bytes falls with the change; for fragmentation, the peak of reserved bytes"),
    MT_SHOWN_OWNED(TEXT, ROW, what, "what", "what"),
    MT_NAME(ROW, finding.category, "category", NULL, "of its blocks; this and the next four: null where they differ"),
    MT_NAME(ROW, finding.role, "role", NULL, NULL),
    MT_NAME(ROW, finding.op, "op", NULL, NULL),
    MT_NAME(ROW, finding.phase, "phase", NULL, NULL),
    MT_NAME(ROW, finding.place, "place", NULL, NULL),
    MT_NAME(ROW, finding.taken_at, "allocated_at", NULL,
            "the line of the program that allocated the largest; null: not recorded"),
    MT_ROW_OR_NULL(ROW, finding.holder, "holder", &mt_holder_type, "of the largest; null: not known"),
    MT_COUNT(ROW, finding.blocks, "blocks", NULL, "that have them; of fragmentation, free pieces"),
    MT_SHOWN(POSITIVE, int64_t, ROW, known_blocks, "known_blocks", "blocks"),
    MT_BYTES(ROW, finding.bytes, "bytes", "bytes", "wasted at the peak or, if nothing is then, when most is"),
    MT_KNOWN(ROW, events, "events", NULL, "for which each block is wasted, the median; null: of fragmentation"),
    MT_KNOWN(ROW, ns, "ns", NULL, "the same in time"),
    MT_SHOWN_OWNED(DIGITS, ROW, duration, "for", "for"),
    MT_KNOWN(ROW, total_blocks, "total_blocks", NULL, "that are wasted over the run"),
    MT_NUMBER(ROW, byte_seconds, "byte_seconds", NULL, "that are wasted over the run"),
    MT_BYTES(ROW, finding.claim_bytes, "claimed_bytes", NULL, "the peak of requested bytes if mended, by adding up"),
    MT_ROW(ROW, finding.replay, "replayed", &mt_replay_peak_type, "the peaks if mended, by replay"),
    MT_FLAG(ROW, finding.replay.fits, "fits", NULL, "false if the replay ran out of memory"),
    MT_OWNED(ROW, alloc, "alloc", NULL, "of the replay, as `--alloc` spells it"),
    MT_TEXT(ROW, cost, "cost", "costs",
            "of mending: `option`, one option; `program`, a change of the program; `time`, computing or copying in "
            "every step"),
    MT_OWNED(ROW, hint, "hint", NULL, "what to do, in words"),
    MT_SHOWN(BYTES, uint64_t, ROW, finding.replay.reserved_bytes, "reserved", "reserved then"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_finding_type = MT_ROW_TYPE(ROW, finding_fields);
#undef ROW

#define ROW struct mt_peak_line
static const struct mt_field line_fields[] = {
    MT_TEXT(ROW, line, "line", "line", "of the program's own code that allocated"),
    MT_BYTES(ROW, bytes, "bytes", "requested", NULL),
    MT_COUNT(ROW, blocks, "blocks", "blocks", NULL),
    MT_NAME(ROW, span, "span", "the largest for", "the module that the largest of them is for"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_peak_line_type = MT_ROW_TYPE(ROW, line_fields);
#undef ROW

#define ROW struct mt_peak_tensor
static const struct mt_field tensor_fields[] = {
    MT_TEXT(ROW, op, "op", NULL, "that allocated them"),
    MT_TEXT(ROW, dtype, "dtype", NULL, NULL),
    MT_TEXT(ROW, shape, "shape", NULL, NULL),
    MT_NAME(ROW, span, "span", NULL, "the module that the first of them is for; null: none"),
    MT_NAME(ROW, line, "allocated_at", NULL, "the line of the program; null: not recorded"),
    MT_BYTES(ROW, bytes, "bytes", NULL, "requested"),
    MT_COUNT(ROW, blocks, "blocks", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type tensor_type = MT_ROW_TYPE(ROW, tensor_fields);
#undef ROW

void mt_peak_tensor_add(const struct mt_advice_answer *answer, struct mt_text *out)
{
    enum { LEAST_PART = 5, PERCENT = 100 };
    const struct mt_peak_tensor *tensor = &answer->largest;
    const uint64_t peak = answer->peaks[MT_MEASURE_REQUESTED].bytes;
    if (tensor->bytes == 0 || tensor->bytes < peak / LEAST_PART)
        return;
    const bool is_parameter = strcmp(tensor->op, "Parameter") == 0;
    mt_text_add(out, "At the peak, %s (%.0f%%) are %s", MT_SIZE(tensor->bytes),
                PERCENT * (double)tensor->bytes / (double)peak, is_parameter ? "" : "results of ");
    mt_text_add_visible(out, is_parameter ? "parameters" : tensor->op);
    mt_text_add(out, ", %s (%s)", tensor->dtype, tensor->shape);
    if (tensor->line[0] != '\0') {
        mt_text_add(out, ", allocated at ");
        mt_text_add_visible(out, tensor->line);
    }
    mt_text_add(out, ".");
}

/* The answer as JSON has it. */
struct advice_row {
    struct mt_replay_result peak; /* of the run itself */
    struct mt_advice advice;      /* borrowed */
    const struct mt_replay_result *used_only;
    const char *alloc;
    int64_t first_step, last_step, left_out;
    const struct mt_finding_row *findings;
    size_t finding_count;
    const struct mt_replay_result *as_it_is;
    const struct mt_advice_option_row *options;
    size_t option_count;
    struct mt_change_rows changes;
    const struct mt_peak_line *lines;
    size_t line_count;
    const struct mt_peak_tensor *largest;
    struct mt_observations observations; /* borrowed */
};

#define ROW struct advice_row
static const struct mt_field answer_fields[] = {
    MT_ROW(ROW, peak, "peak", &peak_type, "the run's peaks"),
    MT_ROW(ROW, advice.as_it_was, "replayed", &mt_replay_peak_type,
           "the same of a replay without a change, which replays of findings are compared with"),
    MT_ROW_OR_NULL(ROW, used_only, "used_only", &mt_replay_peak_type,
                   "the same if every block were allocated only from its first to its last use; null: no use is known"),
    MT_TEXT(ROW, alloc, "alloc", NULL, "the allocator of replays and simulations, as `--alloc` spells it"),
    MT_FLAG(ROW, advice.knows_uses, "knows_uses", NULL, "false if no use of a block was recorded"),
    MT_KNOWN(ROW, first_step, "first_step", NULL, "of the window that is looked at; null: the whole run is"),
    MT_KNOWN(ROW, last_step, "last_step", NULL, NULL),
    MT_ROW(ROW, advice.fragmentation, "fragmentation", &fragmentation_type, "when most was reserved"),
    MT_ROWS(ROW, findings, finding_count, "findings", &mt_finding_type,
            "first what one option mends if it saves a tenth of the most, then the largest saving; "
            "two findings may speak of the same bytes"),
    MT_ROW_OR_NULL(ROW, as_it_is, "simulated_as_it_is", &mt_replay_peak_type,
                   "the peaks of the run simulated without a change; null: nothing was simulated"),
    MT_ROWS(ROW, options, option_count, "simulated", &mt_advice_option_type,
            "options that lower the peak in a way that no replay can show"),
    MT_ROWS(ROW, changes.items, changes.count, "changes", &mt_change_type,
            "changes of a program that can't be made again, each replayed with the run's blocks"),
    MT_ROWS(ROW, changes.gaps, changes.gap_count, "left_out", &mt_gap_type,
            "kinds of changes that the trace has no data for"),
    MT_ROWS(ROW, lines, line_count, "lines", &mt_peak_line_type,
            "of the program that allocated most of the peak of allocated bytes; none without call stacks"),
    MT_ROW_OR_NULL(ROW, largest, "largest", &tensor_type,
                   "the tensors of one operator, dtype, shape and line that are most of the peak; null: not known"),
    MT_PART(ROW, observations, &mt_observations_type),
    MT_INTEGER(ROW, left_out, "unlisted", NULL, "kinds of blocks that could be freed earlier and are not listed"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_advice_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

static bool has_whole(const struct mt_advice *advice, const struct mt_finding *finding)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_part(finding, &advice->findings[i]))
            return true;
    return false;
}

struct mt_finding_row *mt_finding_rows_create(const struct mt_advice *advice, const struct mt_program *program)
{
    struct mt_finding_row *rows = mt_host_alloc((advice->count + 1) * sizeof *rows);
    for (size_t i = 0; i < advice->count; i++) {
        const struct mt_finding *finding = &advice->findings[i];
        bool is_timed = !mt_finding_is_of_reserved(finding);
        assert(!finding->replay.fits || !is_timed || finding->claim_bytes == finding->replay.requested_bytes);
        assert(finding->saved_bytes == 0 || finding->bytes > 0);
        rows[i] = (struct mt_finding_row){.finding = *finding,
                                          .number = (int64_t)i + 1,
                                          .known_blocks = (int64_t)finding->blocks,
                                          .pattern = mt_finding_kinds[finding->pattern].name,
                                          .cost = mt_remedy_cost_name(mt_finding_cost(finding)),
                                          .events = is_timed ? finding->events : -1,
                                          .ns = is_timed ? (int64_t)finding->ns : -1,
                                          .total_blocks = is_timed ? (int64_t)finding->total_blocks : -1,
                                          .byte_seconds = is_timed ? finding->byte_seconds : NAN};
        mt_alloc_settings_format_short(&finding->alloc, &rows[i].alloc);
        mt_finding_add_hint(finding, program, &rows[i].hint);
        mt_text_add(&rows[i].what, "%s", has_whole(advice, finding) ? "· " : "");
        mt_finding_add_short_blocks(finding, &rows[i].what);
        if (is_timed)
            mt_text_add(&rows[i].duration, "%.2f ms", (double)finding->ns * 1e-6);
    }
    return rows;
}

static struct mt_replay_result peak_of(const struct mt_simulation *simulation)
{
    return (struct mt_replay_result){.requested_bytes = simulation->peak_requested_bytes,
                                     .allocated_bytes = simulation->peak_allocated_bytes,
                                     .reserved_bytes = simulation->peak_reserved_bytes,
                                     .fits = simulation->fits};
}

struct mt_advice_option_row *mt_advice_options_create(const struct mt_simulated_advice *simulated)
{
    struct mt_advice_option_row *rows = mt_host_alloc((simulated->count + 1) * sizeof *rows);
    mt_text_add(&rows[0].change, simulated->as_it_is.fits ? "(as it is)" : "(as it is, until memory ended)");
    rows[0].peak = peak_of(&simulated->as_it_is);
    for (size_t i = 0; i < simulated->count; i++) {
        const struct mt_simulated_option *option = &simulated->options[i];
        struct mt_advice_option_row *row = &rows[i + 1];
        row->peak = peak_of(&option->simulation);
        row->saved_bytes = (int64_t)(rows[0].peak.requested_bytes - row->peak.requested_bytes);
        mt_fit_remedy_add_changes(&option->remedy, &row->change);
        mt_run_command_add(&option->remedy.plan, &row->command);
        mt_text_add(&row->difference, "%s",
                    row->peak.fits ? MT_SIZE_DIFFERENCE(-row->saved_bytes) : "ends out of memory");
    }
    return rows;
}

struct mt_replay_result mt_advice_peaks(const struct mt_advice_answer *answer)
{
    return (struct mt_replay_result){.requested_bytes = answer->peaks[MT_MEASURE_REQUESTED].bytes,
                                     .allocated_bytes = answer->peaks[MT_MEASURE_ALLOCATED].bytes,
                                     .reserved_bytes = answer->peaks[MT_MEASURE_RESERVED].bytes};
}

json_t *mt_advice_json(const struct mt_advice_answer *answer)
{
    const struct mt_advice_material *material = &answer->material;
    const struct mt_advice *advice = &answer->advice;
    const struct mt_simulated_advice *simulated = &answer->simulated;
    struct mt_advice_option_row *options = mt_advice_options_create(simulated);
    struct mt_finding_row *findings = mt_finding_rows_create(advice, &material->input.program);
    struct mt_text alloc = {0};
    mt_alloc_settings_format_short(&material->input.settings, &alloc);
    struct advice_row row = {.peak = mt_advice_peaks(answer),
                             .advice = *advice,
                             .used_only = advice->knows_uses ? &advice->used_only : NULL,
                             .alloc = mt_text_get(&alloc),
                             .first_step = material->is_whole ? -1 : material->first_step,
                             .last_step = material->is_whole ? -1 : material->last_step,
                             .left_out = (int64_t)advice->left_out,
                             .lines = answer->lines.items,
                             .line_count = answer->lines.count,
                             .largest = answer->largest.bytes > 0 ? &answer->largest : NULL,
                             .observations = answer->observations,
                             .findings = findings,
                             .finding_count = advice->count,
                             .as_it_is = simulated->count > 0 ? &options[0].peak : NULL,
                             .options = options + 1,
                             .option_count = simulated->count};
    mt_change_rows_create(&answer->changes, &material->input.program, &row.changes);
    json_t *object = mt_answer_begin("advise", answer->question->run);
    mt_row_add_json(&mt_advice_type, &row, object);
    mt_rows_release(&mt_advice_option_type, options, simulated->count + 1);
    mt_rows_release(&mt_finding_type, findings, advice->count);
    mt_change_rows_release(&row.changes);
    mt_text_release(&alloc);
    return object;
}
