#include "words/advice_words.h"

#include "answer/answer.h"
#include "base/memory.h"
#include "words/change_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A change in the words of each program; NULL: it has none. */
struct hint_words {
    const char *change;  /* for all of them */
    const char *option;  /* of memtrace run */
    const char *pytorch; /* a name or a line */
};

static const struct hint_words hints[MT_HINT_COUNT] = {
    [MT_HINT_ZERO_GRAD_EARLY] = {.option = "--zero-grad before-forward",
                                 .pytorch = "optimizer.zero_grad(set_to_none=True) right after optimizer.step()"},
    [MT_HINT_FREE_AFTER_USE] = {"let go of it after its last use", NULL,
                                "del the variable or leave the function that holds it"},
    [MT_HINT_NO_BACKWARD] = {"it was saved for a backward pass that does not read it: run without one", "--mode infer",
                             "torch.no_grad()"},
    [MT_HINT_ALLOCATE_AT_USE] = {"allocate it where it is first used", NULL, NULL},
    [MT_HINT_OFFLOAD_PARAMETERS] = {"keep parameters on the host, or on other cards, while their layer does not run",
                                    NULL, "FSDP with CPU offload"},
    [MT_HINT_UPDATE_IN_BACKWARD] = {"update each parameter as soon as its gradient is there, so that none waits for "
                                    "the optimizer",
                                    "--impl fused --optimizer-in-backward on", "register_post_accumulate_grad_hook"},
    [MT_HINT_OFFLOAD_STATE] = {"move it to the host between two updates, shard it over cards, or keep it in 8 bits",
                               "--impl fused --moments 8bit", "ZeRO-Offload, ZeRO or FSDP, an 8-bit optimizer"},
    [MT_HINT_CHECKPOINT] = {"compute it again in backward, or move it to the host until then",
                            "--impl fused --checkpoint block",
                            "torch.utils.checkpoint, torch.autograd.graph.save_on_cpu"},
    [MT_HINT_RECOMPUTE] = {"compute it again when it is needed again, or finish with it before what comes between",
                           NULL, NULL},
    [MT_HINT_CAST_AGAIN] = {"cast it again when it is needed again", NULL, NULL},
    [MT_HINT_SHRINK_WORKSPACE] = {"give the workspace back after use, or ask the library for a smaller one", NULL,
                                  "CUBLAS_WORKSPACE_CONFIG"},
    [MT_HINT_COPY_AGAIN] = {"copy it from the host when it is needed again", NULL, NULL},
    [MT_HINT_DO_NOT_ALLOCATE] = {"do not allocate it", NULL, NULL},
    [MT_HINT_DO_NOT_WRITE] = {"leave out what writes it, or write it where it is read", NULL, NULL},
    [MT_HINT_CAST_WEIGHTS_AGAIN] = {"cast weights again in backward, or keep them in bf16 and their fp32 copies with "
                                    "the optimizer, off the card",
                                    NULL, NULL},
    [MT_HINT_KEEP_ONE_PRECISION] = {"keep one of the two for backward, and make the other again there", NULL, NULL},
    [MT_HINT_DROP_REFERENCE] = {"something holds on to it across steps, such as a list of losses", NULL,
                                "keep loss.item() there, not the tensor"},
    [MT_HINT_ALLOCATE_LONG_FIRST] = {"the other policy would not do with less: allocate what lives long first, and in "
                                     "fewer sizes",
                                     NULL, NULL},
    [MT_HINT_POLICY_TORCH] = {.option = "--alloc policy=torch",
                              .pytorch = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"},
    [MT_HINT_POLICY_TIGHT] = {.option = "--alloc policy=tight",
                              .pytorch = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
};

/* Returns the words without those that this program has no use for. */
static struct hint_words words_for(mt_hint hint, const struct mt_program *program)
{
    struct hint_words words = hints[hint];
    bool is_policy = hint == MT_HINT_POLICY_TIGHT || hint == MT_HINT_POLICY_TORCH;
    bool has_policy = is_policy && program->grows_segments == (hint == MT_HINT_POLICY_TIGHT);
    if (program->kind != MT_PROGRAM_MODEL || has_policy)
        words.option = NULL;
    if (is_policy && program->kind == MT_PROGRAM_LIBRARY) {
        words.change = hint == MT_HINT_POLICY_TIGHT ? "the allocator's setting policy=tight"
                                                    : "the allocator's setting policy=torch";
        words.pytorch = NULL;
    }
    return words;
}

void mt_hint_add(mt_hint hint, const struct mt_program *program, struct mt_text *out)
{
    assert(hint < MT_HINT_COUNT);
    const struct hint_words words = words_for(hint, program);
    bool is_bracketed = words.change != NULL && (words.option != NULL || words.pytorch != NULL);
    mt_text_add(out, "%s%s", words.change != NULL ? words.change : "", is_bracketed ? " (" : "");
    if (words.option != NULL)
        mt_text_add(out, "memtrace run %s%s", words.option, words.pytorch != NULL ? "; " : "");
    if (words.pytorch != NULL)
        mt_text_add(out, "in PyTorch, %s", words.pytorch);
    if (is_bracketed)
        mt_text_add(out, ")");
}

void mt_replayed_allocator_add(const struct mt_advice_input *input, struct mt_text *out)
{
    mt_text_add(out, "%s allocator (", input->settings.policy == MT_POLICY_TIGHT ? "memtrace's" : "PyTorch's");
    mt_alloc_settings_format_short(&input->settings, out);
    mt_text_add(out, ")");
}

void mt_finding_add_blocks(const struct mt_finding *finding, struct mt_text *out)
{
    bool has_op = finding->op[0] != '\0';
    const char *const words[] = {finding->category, has_op ? "" : finding->role, finding->op, finding->phase};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i][0] != '\0' && (i != 2 || strcmp(finding->op, finding->category) != 0))
            mt_text_add(out, "%s%s", out->length > 0 ? " " : "", words[i]);
    if (finding->place[0] != '\0')
        mt_text_add(out, ", %s", finding->place);
}

void mt_finding_add_short_blocks(const struct mt_finding *finding, struct mt_text *out)
{
    static const char layers[] = "layers.*.";
    const char *layer = strstr(finding->place, layers);
    if (finding->op[0] != '\0')
        mt_text_add(out, "%s", finding->op);
    else
        mt_text_add(out, "%s%s%s", finding->category, finding->category[0] != '\0' ? " " : "", finding->role);
    if (finding->place[0] != '\0')
        mt_text_add(out, ", %s", layer != NULL ? layer + strlen(layers) : finding->place);
}

void mt_finding_add_mended(const struct mt_finding *finding, struct mt_text *out)
{
    static const char *const mended[MT_PATTERN_COUNT] = {[MT_PATTERN_KEPT_GRADIENTS] = "gone before forward",
                                                         [MT_PATTERN_LATE_FREE] = "freed after the last use",
                                                         [MT_PATTERN_EARLY_ALLOCATION] = "allocated at the first use",
                                                         [MT_PATTERN_IDLE] = "not kept while idle",
                                                         [MT_PATTERN_NEVER_USED] = "not allocated",
                                                         [MT_PATTERN_DEAD_WRITE] = "not written",
                                                         [MT_PATTERN_TWO_PRECISIONS] = "made again when needed",
                                                         [MT_PATTERN_LEAK] = "not left behind by steps"};
    bool has_category = finding->category[0] != '\0', has_op = finding->op[0] != '\0';
    char size[MT_BYTES_TEXT];
    assert(mended[finding->pattern] != NULL);
    mt_text_add(out, "%s", has_category ? finding->category : finding->role);
    if (has_category && !has_op)
        mt_text_add(out, " %s", finding->role);
    if (has_op)
        mt_text_add(out, " of %s", finding->op);
    if (finding->place[0] != '\0')
        mt_text_add(out, " at %s", finding->place);
    mt_text_add(out, " (%s) %s", mt_format_bytes(finding->bytes, size), mended[finding->pattern]);
}

void mt_alternative_add(const struct mt_alloc_settings *alloc, const struct mt_program *program, struct mt_text *out)
{
    if (program->kind == MT_PROGRAM_PYTORCH)
        mt_text_add(out, "expandable_segments:%s", mt_alloc_grows(alloc) ? "True" : "False");
    else
        mt_text_add(out, "%spolicy=%s", program->kind == MT_PROGRAM_MODEL ? "--alloc " : "",
                    mt_policy_name(alloc->policy));
}

#define ROW struct mt_replay_result
static const struct mt_field replay_fields[] = {
    MT_BYTES(ROW, requested_bytes, "requested_bytes", NULL, NULL),
    MT_BYTES(ROW, allocated_bytes, "allocated_bytes", NULL, NULL),
    MT_BYTES(ROW, reserved_bytes, "reserved_bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type replay_type = MT_ROW_TYPE(ROW, replay_fields);
#undef ROW

/* The same in the order of mt_measure. */
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
    MT_ROW(ROW, peak, "peak", &replay_type, "of the whole run with it, simulated"),
    MT_FLAG(ROW, peak.fits, "fits", NULL, "false if it ended out of memory"),
    MT_INTEGER(ROW, saved_bytes, "saved_bytes", NULL, "by which the peak of requested bytes falls"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.requested_bytes, "requested", "requested"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.allocated_bytes, "allocated", "allocated"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.reserved_bytes, "reserved", "reserved"),
    MT_SHOWN(DIGITS, char *, ROW, difference.data, "difference", "difference"),
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

/* A finding with its words. Of fragmentation, which is not timed, numbers are -1 and byte_seconds is NAN. */
struct finding_row {
    struct mt_finding finding;
    const char *pattern, *cost;
    struct mt_text alloc, hint;
    int64_t events, ns, total_blocks;
    double byte_seconds;
};

#define ROW struct finding_row
static const struct mt_field finding_fields[] = {
    MT_TEXT(ROW, pattern, "pattern", NULL, "the kind of waste"),
    MT_BYTES(ROW, finding.saved_bytes, "saved_bytes", NULL,
             "by which the peak of requested bytes falls if it is mended; of fragmentation, that of reserved bytes"),
    MT_NAME(ROW, finding.category, "category", NULL, "of its blocks; this and the next four: null where they differ"),
    MT_NAME(ROW, finding.role, "role", NULL, NULL),
    MT_NAME(ROW, finding.op, "op", NULL, NULL),
    MT_NAME(ROW, finding.phase, "phase", NULL, NULL),
    MT_NAME(ROW, finding.place, "place", NULL, NULL),
    MT_COUNT(ROW, finding.blocks, "blocks", NULL, "that have them; of fragmentation, free pieces"),
    MT_BYTES(ROW, finding.bytes, "bytes", NULL, "wasted at the peak or, if nothing is then, when most is"),
    MT_KNOWN(ROW, events, "events", NULL, "for which each block is wasted, the median; null: of fragmentation"),
    MT_KNOWN(ROW, ns, "ns", NULL, "the same in time"),
    MT_KNOWN(ROW, total_blocks, "total_blocks", NULL, "that are wasted over the run"),
    MT_NUMBER(ROW, byte_seconds, "byte_seconds", NULL, "that are wasted over the run"),
    MT_BYTES(ROW, finding.claim_bytes, "claimed_bytes", NULL, "the peak of requested bytes if mended, by adding up"),
    MT_ROW(ROW, finding.replay, "replayed", &replay_type, "the peaks if mended, by replay"),
    MT_FLAG(ROW, finding.replay.fits, "fits", NULL, "false if the replay ran out of memory"),
    MT_OWNED(ROW, alloc, "alloc", NULL, "of the replay, as `--alloc` spells it"),
    MT_TEXT(ROW, cost, "cost", NULL,
            "of mending: `option`, one option; `program`, a change of the program; `time`, computing or copying in "
            "every step"),
    MT_OWNED(ROW, hint, "hint", NULL, "what to do, in words"),
    MT_FIELDS_END,
};
static const struct mt_row_type finding_type = MT_ROW_TYPE(ROW, finding_fields);
#undef ROW

#define ROW struct mt_peak_line
static const struct mt_field line_fields[] = {
    MT_TEXT(ROW, line, "line", "line", "of the program's own code that asked"),
    MT_BYTES(ROW, bytes, "bytes", "requested", NULL),
    MT_COUNT(ROW, blocks, "blocks", "blocks", NULL),
    MT_NAME(ROW, span, "span", "the largest for", "the module that the largest of them is for"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_peak_line_type = MT_ROW_TYPE(ROW, line_fields);
#undef ROW

/* The answer as JSON has it. */
struct advice_row {
    struct mt_replay_result peak; /* of the run itself */
    struct mt_advice advice;      /* borrowed */
    const struct mt_replay_result *used_only;
    const char *alloc;
    int64_t first_step, last_step, left_out;
    struct finding_row *findings;
    size_t finding_count;
    const struct mt_replay_result *as_it_is;
    const struct mt_advice_option_row *options;
    size_t option_count;
    struct mt_change_rows changes;
    const struct mt_peak_line *lines;
    size_t line_count;
};

#define ROW struct advice_row
static const struct mt_field answer_fields[] = {
    MT_ROW(ROW, peak, "peak", &peak_type, "the run's peaks"),
    MT_ROW(ROW, advice.as_it_was, "replayed", &replay_type,
           "the same of a replay without a change, which replays of findings are compared with"),
    MT_ROW_OR_NULL(ROW, used_only, "used_only", &replay_type,
                   "the same if every block were there from its first to its last use only; null: no use is known"),
    MT_TEXT(ROW, alloc, "alloc", NULL, "the allocator of replays and simulations, as `--alloc` spells it"),
    MT_FLAG(ROW, advice.knows_uses, "knows_uses", NULL, "false if the program told no use of any block"),
    MT_KNOWN(ROW, first_step, "first_step", NULL, "of the window that is looked at; null: the whole run is"),
    MT_KNOWN(ROW, last_step, "last_step", NULL, NULL),
    MT_ROW(ROW, advice.fragmentation, "fragmentation", &fragmentation_type, "when most was reserved"),
    MT_ROWS(ROW, findings, finding_count, "findings", &finding_type,
            "first what one option mends if it saves a tenth of the most, then the largest saving; "
            "two findings may speak of the same bytes"),
    MT_ROW_OR_NULL(ROW, as_it_is, "simulated_as_it_is", &replay_type,
                   "the peaks of the run simulated without a change; null: nothing was simulated"),
    MT_ROWS(ROW, options, option_count, "simulated", &mt_advice_option_type,
            "options that lower the peak, of which no replay could tell what they do"),
    MT_ROWS(ROW, changes.items, changes.count, "changes", &mt_change_type,
            "changes of a program that can't be made again, each replayed with the run's blocks"),
    MT_ROWS(ROW, changes.gaps, changes.gap_count, "unknown", &mt_gap_type,
            "kinds of changes that the trace does not tell"),
    MT_ROWS(
        ROW, lines, line_count, "lines", &mt_peak_line_type,
        "of the program that asked for most of what is live at the peak of allocated bytes; none without call stacks"),
    MT_INTEGER(ROW, left_out, "left_out", NULL, "kinds of blocks that could be there for less time and are not told"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_advice_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

static struct finding_row finding_row_of(const struct mt_finding *finding, const struct mt_program *program)
{
    bool is_timed = finding->pattern != MT_PATTERN_FRAGMENTATION;
    assert(!finding->replay.fits || !is_timed || finding->claim_bytes == finding->replay.requested_bytes);
    struct finding_row row = {.finding = *finding,
                              .pattern = mt_finding_kinds[finding->pattern].name,
                              .cost = mt_remedy_cost_name(mt_finding_cost(finding)),
                              .events = is_timed ? finding->events : -1,
                              .ns = is_timed ? (int64_t)finding->ns : -1,
                              .total_blocks = is_timed ? (int64_t)finding->total_blocks : -1,
                              .byte_seconds = is_timed ? finding->byte_seconds : NAN};
    mt_alloc_settings_format_short(&finding->alloc, &row.alloc);
    mt_hint_add(mt_finding_hint(finding), program, &row.hint);
    return row;
}

static void finding_row_release(struct finding_row *row)
{
    mt_text_release(&row->alloc);
    mt_text_release(&row->hint);
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
    char saved[MT_BYTES_TEXT];
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
                    row->peak.fits ? mt_format_difference(-row->saved_bytes, saved) : "ends out of memory");
    }
    return rows;
}

void mt_advice_options_release(struct mt_advice_option_row *rows, size_t option_count)
{
    for (size_t i = 0; i <= option_count; i++) {
        mt_text_release(&rows[i].change);
        mt_text_release(&rows[i].command);
        mt_text_release(&rows[i].difference);
    }
    free(rows);
}

json_t *mt_advice_json(const struct mt_advice_answer *answer)
{
    const struct mt_advice_material *material = &answer->material;
    const struct mt_advice *advice = &answer->advice;
    const struct mt_simulated_advice *simulated = &answer->simulated;
    struct mt_advice_option_row *options = mt_advice_options_create(simulated);
    struct mt_text alloc = {0};
    mt_alloc_settings_format_short(&material->input.settings, &alloc);
    struct advice_row row = {.peak = {.requested_bytes = answer->peaks[MT_MEASURE_REQUESTED].bytes,
                                      .allocated_bytes = answer->peaks[MT_MEASURE_ALLOCATED].bytes,
                                      .reserved_bytes = answer->peaks[MT_MEASURE_RESERVED].bytes},
                             .advice = *advice,
                             .used_only = advice->knows_uses ? &advice->used_only : NULL,
                             .alloc = mt_text_get(&alloc),
                             .first_step = material->is_whole ? -1 : material->first_step,
                             .last_step = material->is_whole ? -1 : material->last_step,
                             .left_out = (int64_t)advice->left_out,
                             .lines = answer->lines.items,
                             .line_count = answer->lines.count,
                             .findings = mt_host_alloc((advice->count + 1) * sizeof *row.findings),
                             .finding_count = advice->count,
                             .as_it_is = simulated->count > 0 ? &options[0].peak : NULL,
                             .options = options + 1,
                             .option_count = simulated->count};
    for (size_t i = 0; i < advice->count; i++)
        row.findings[i] = finding_row_of(&advice->findings[i], &material->input.program);
    mt_change_rows_create(&answer->changes, &material->input.program, &row.changes);
    json_t *object = mt_answer_begin("advise", answer->question->run);
    mt_row_add_json(&mt_advice_type, &row, object);
    mt_advice_options_release(options, simulated->count);
    for (size_t i = 0; i < advice->count; i++)
        finding_row_release(&row.findings[i]);
    free(row.findings);
    mt_change_rows_release(&row.changes);
    mt_text_release(&alloc);
    return object;
}
