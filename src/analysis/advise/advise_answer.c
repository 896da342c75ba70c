#include "analysis/advise/advise_answer.h"

#include "analysis/advise/observe.h"
#include "analysis/run_settings.h"
#include "analysis/traced_card.h"
#include "base/memory.h"
#include "base/order.h"
#include "device/device.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Plans the unchanged run on a simulated device of its capacity. Fails with MT_USAGE if the run can't be repeated. */
static mt_status plan_simulation(const struct mt_question *question, struct mt_simulated_advice *advice,
                                 struct mt_run_plan *out)
{
    const struct mt_run *run = question->run;
    struct mt_traced_card traced;
    MT_TRY(mt_run_plan_of_run(question->trace, run, out));
    MT_TRY(mt_traced_card_find(question->trace, run, &traced));
    out->card = mt_traced_card_with(&traced, run->capacity_bytes, &advice->card);
    out->device = mt_device_spell_simulated(&traced.card, run->capacity_bytes, advice->device);
    return MT_OK;
}

/* Simulates the run with one setting changed, and keeps the result if the peak falls. */
static mt_status add_option(const struct mt_run_plan *plan, mt_setting change, struct mt_simulated_advice *out)
{
    assert(out->count < MT_MOST_SIMULATED_OPTIONS);
    struct mt_simulated_option *option = &out->options[out->count];
    if (!mt_fit_remedy_make(plan, change, &option->remedy))
        return MT_OK;
    MT_TRY(mt_simulate(&option->remedy.plan, &option->simulation));
    out->count += option->simulation.peak_requested_bytes < out->as_it_is.peak_requested_bytes;
    return MT_OK;
}

static mt_status simulate(const struct mt_question *question, const struct mt_alloc_settings *alloc,
                          struct mt_simulated_advice *out)
{
    static const mt_setting changes[MT_MOST_SIMULATED_OPTIONS] = {MT_SETTING_IMPL, MT_SETTING_OPTIMIZER_IN_BACKWARD,
                                                                  MT_SETTING_CHECKPOINT, MT_SETTING_MOMENTS,
                                                                  MT_SETTING_LOSS_SLICES};
    struct mt_run_plan plan;
    mt_status status = plan_simulation(question, out, &plan);
    if (status != MT_OK)
        return status == MT_USAGE ? MT_OK : status;
    plan.alloc = *alloc;
    MT_TRY(mt_simulate(&plan, &out->as_it_is));
    for (int i = 0; i < MT_MOST_SIMULATED_OPTIONS; i++)
        MT_TRY(add_option(&plan, changes[i], out));
    return MT_OK;
}

static mt_status load_peaks(struct mt_advice_answer *answer)
{
    const struct mt_question *question = answer->question;
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        MT_TRY(mt_trace_peak(question->trace, question->run, (mt_measure)i, &answer->peaks[i]));
    return MT_OK;
}

enum { MOST_BLOCKS = 4096, MOST_LINES = 256 };

/* Returns the entry of the block's line, and adds one if there is none; NULL if there are too many. */
static struct mt_peak_line *line_of(struct mt_peak_line *lines, size_t *count, const struct mt_top_row *block)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(lines[i].line, block->line) == 0)
            return &lines[i];
    if (*count == MOST_LINES)
        return NULL;
    lines[*count] = (struct mt_peak_line){.line = block->line, .span = block->span};
    return &lines[(*count)++];
}

static int compare_bytes(const void *left, const void *right)
{
    const struct mt_peak_line *a = left, *b = right;
    int order = MT_COMPARE(b->bytes, a->bytes);
    return order != 0 ? order : strcmp(a->line, b->line);
}

/* Sums blocks by line. */
static void find_lines(const struct mt_top_row *blocks, size_t block_count, struct mt_peak_lines *out)
{
    struct mt_peak_line lines[MOST_LINES];
    size_t count = 0;
    for (size_t i = 0; i < block_count; i++) {
        const bool has_line = blocks[i].line != NULL && blocks[i].line[0] != '\0';
        struct mt_peak_line *line = has_line ? line_of(lines, &count, &blocks[i]) : NULL;
        if (line == NULL)
            continue;
        line->bytes += blocks[i].total_bytes;
        line->blocks += blocks[i].count;
    }
    qsort(lines, count, sizeof *lines, compare_bytes);
    out->count = count < MT_MOST_PEAK_LINES ? count : MT_MOST_PEAK_LINES;
    memcpy(out->items, lines, out->count * sizeof *lines);
}

static bool is_same_tensor(const struct mt_top_row *a, const struct mt_top_row *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->dtype, b->dtype) == 0 && strcmp(a->shape, b->shape) == 0 &&
           strcmp(a->line != NULL ? a->line : "", b->line != NULL ? b->line : "") == 0;
}

/* True for a tensor of the program. A workspace, also of a benchmark, is not. */
static bool is_tensor(const struct mt_top_row *block)
{
    return block->shape[0] != '\0' && strcmp(block->role, mt_role_name(MT_ROLE_WORKSPACE)) != 0;
}

/* Finds the tensors that request most together. Blocks are ordered by size, so equal ones begin at the first. */
static void find_largest(const struct mt_top_row *blocks, size_t count, struct mt_peak_tensor *out)
{
    for (size_t i = 0; i < count && i < MOST_LINES; i++) {
        const char *line = blocks[i].line != NULL ? blocks[i].line : "";
        struct mt_peak_tensor found = {blocks[i].op, blocks[i].dtype, blocks[i].shape, blocks[i].span, line, 0, 0};
        for (size_t other = i; other < count && is_tensor(&blocks[i]); other++) {
            if (!is_same_tensor(&blocks[i], &blocks[other]))
                continue;
            found.bytes += blocks[other].total_bytes;
            found.blocks += blocks[other].count;
        }
        if (found.bytes > out->bytes)
            *out = found;
    }
}

/* Finds the lines and the tensors of the largest blocks, which hold nearly all bytes. */
static mt_status find_parts_of_peak(const struct mt_question *question, struct mt_advice_answer *out)
{
    const struct mt_top_choice choice = {.grouping = MT_TOP_EACH, .moment = MT_TOP_AT_PEAK};
    struct mt_top_row *blocks;
    size_t count;
    bool is_complete;
    MT_TRY(mt_trace_top(question->trace, question->run, &choice, MOST_BLOCKS, &blocks, &count, &is_complete));
    find_lines(blocks, count, &out->lines);
    find_largest(blocks, count, &out->largest);
    free(blocks);
    return MT_OK;
}

/* Sets each finding's line: the one that allocated its blocks. */
static mt_status find_lines_of_findings(const struct mt_question *question, struct mt_advice *advice)
{
    int64_t *events = mt_host_alloc((advice->count + 1) * sizeof *events);
    const char **lines = mt_host_alloc((advice->count + 1) * sizeof *lines);
    for (size_t i = 0; i < advice->count; i++)
        events[i] = advice->findings[i].event;
    mt_status status = mt_trace_lines(question->trace, question->run, events, advice->count, lines);
    for (size_t i = 0; i < advice->count && status == MT_OK; i++)
        advice->findings[i].taken_at = lines[i];
    free(events);
    free(lines);
    return status;
}

/* True if a holder keeps what an operator allocates that the finding is about. A finding about several operators has
 * the line of its largest block, so the holder must keep most of all. */
static bool keeps_alike(const struct mt_holder_row *holder, const struct mt_finding *finding)
{
    return finding->op[0] != '\0' ? strcmp(holder->op, finding->op) == 0 : holder->held_bytes >= finding->bytes / 2;
}

/* Returns the holder of blocks that the finding's line and operator allocate in other steps; NULL: unknown. */
static const struct mt_holder_row *holder_of_line(const struct mt_observations *known, const struct mt_finding *finding)
{
    for (size_t i = 0; i < known->holder_count && finding->taken_at[0] != '\0'; i++)
        if (strcmp(known->holders[i].taken_at, finding->taken_at) == 0 && keeps_alike(&known->holders[i], finding))
            return &known->holders[i];
    return NULL;
}

/* Returns the holder of growing graphs, which keep blocks of many lines; NULL: unknown, or several. */
static const struct mt_holder_row *holder_of_graphs(const struct mt_observations *known)
{
    const struct mt_holder_row *found = NULL;
    for (size_t i = 0; i < known->count; i++) {
        if (known->items[i].kind != MT_OBSERVED_KEPT_GRAPHS)
            continue;
        if (found != NULL && found != known->items[i].holder)
            return NULL;
        found = known->items[i].holder;
    }
    return found;
}

/* True if a holder may be named for a finding: of a leak, it keeps most blocks. A holder in a loop was measured after a
 * few iterations, and keeps more later. */
static bool explains(const struct mt_holder_row *holder, const struct mt_finding *finding)
{
    return holder != NULL && (finding->pattern != MT_PATTERN_LEAK || holder->loop_file[0] != '\0' ||
                              holder->held_bytes >= finding->bytes / 2);
}

/* Returns the holder of a finding's blocks: of its largest one, or inferred from other blocks; NULL: unknown. */
static const struct mt_holder_row *holder_of_finding(const struct mt_observations *known,
                                                     const struct mt_holder_row *of_largest,
                                                     const struct mt_finding *finding)
{
    const struct mt_holder_row *of_line = holder_of_line(known, finding);
    if (explains(of_largest, finding))
        return of_largest;
    if (explains(of_line, finding))
        return of_line;
    return finding->pattern == MT_PATTERN_LEAK ? holder_of_graphs(known) : NULL;
}

/* Sets each finding's holder to one of the holders of the observations. Call it after the lines are set. */
static mt_status find_holders_of_findings(const struct mt_question *question, const struct mt_observations *known,
                                          struct mt_advice *advice)
{
    int64_t *events = mt_host_alloc((advice->count + 1) * sizeof *events);
    const struct mt_holder_row **found = mt_host_alloc((advice->count + 1) * sizeof *found);
    for (size_t i = 0; i < advice->count; i++)
        events[i] = advice->findings[i].event;
    mt_status status = mt_trace_holders_of(question->trace, question->run, known->holders, known->holder_count, events,
                                           advice->count, found);
    for (size_t i = 0; i < advice->count && status == MT_OK; i++)
        advice->findings[i].holder = holder_of_finding(known, found[i], &advice->findings[i]);
    free(events);
    free(found);
    return status;
}

/* True if an observation is about a call of a model that needs no gradients. */
static bool keeps_graphs(const struct mt_observations *observations)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].change == MT_OBSERVED_CHANGE_NO_GRAD)
            return true;
    return false;
}

/* ---- what a library's modules keep ---- */

/* True if another package than PyTorch allocated it for the program: nearer to it than the program's own code. */
static bool is_called_by_library(const struct mt_stack_row *stacks, uint32_t stack)
{
    for (uint32_t at = stack; at != 0 && !mt_stack_file_is_own(stacks[at].file); at = stacks[at].parent)
        if (strstr(stacks[at].file, "-packages/") != NULL && strstr(stacks[at].file, "-packages/torch/") == NULL)
            return true;
    return false;
}

static int compare_block(const void *event, const void *block)
{
    return MT_COMPARE(*(const int64_t *)event, ((const struct mt_block_row *)block)->alloc_event);
}

/* True if the largest block of a finding was freed in the phase that allocated it, such as one call of a model. */
static bool is_freed_in_phase(const struct mt_advice_input *input, const struct mt_finding *finding)
{
    const struct mt_block_row *block =
        bsearch(&finding->event, input->blocks, input->block_count, sizeof *input->blocks, compare_block);
    if (block == NULL || block->free_event == 0)
        return false;
    for (size_t i = 0; i < input->mark_count; i++)
        if (input->marks[i].event > block->alloc_event && input->marks[i].kind == MT_EVENT_PHASE)
            return block->free_event < input->marks[i].event;
    return false;
}

/* Drops findings of variables inside a library's modules, which a program cannot free earlier. */
static mt_status drop_findings_of_libraries(const struct mt_question *question, const struct mt_advice_input *input,
                                            struct mt_advice *advice)
{
    struct mt_stack_row *stacks;
    size_t stack_count, kept = 0;
    mt_status status = mt_trace_stacks(question->trace, question->run, &stacks, &stack_count);
    for (size_t i = 0; i < advice->count && status == MT_OK; i++) {
        struct mt_finding *finding = &advice->findings[i];
        uint32_t stack = 0;
        if (mt_finding_hint(finding) == MT_HINT_FREE_AFTER_USE && is_freed_in_phase(input, finding))
            status = mt_trace_event_stack(question->trace, question->run, finding->event, &stack);
        if (stack < stack_count && is_called_by_library(stacks, stack))
            advice->left_out++;
        else
            advice->findings[kept++] = *finding;
    }
    advice->count = status == MT_OK ? kept : advice->count;
    free(stacks);
    return status;
}

mt_status mt_advice_answer_load(const struct mt_question *question, const struct mt_alloc_settings *alloc,
                                mt_advice_extent extent, size_t limit, struct mt_advice_answer *out)
{
    *out = (struct mt_advice_answer){.question = question};
    if (question->run->event_count == 0)
        return mt_fail(MT_USAGE, "run %" PRId64 " has no events: there is nothing to advise on", question->run->id);
    MT_TRY(mt_advice_material_load(question, alloc, &out->material));
    MT_TRY(load_peaks(out));
    MT_TRY(mt_advice_create(&out->material.input, extent, limit, &out->advice));
    mt_program_kind kind = out->material.input.program.kind;
    if (kind == MT_PROGRAM_PYTORCH && extent == MT_ADVICE_WORTHWHILE)
        MT_TRY(drop_findings_of_libraries(question, &out->material.input, &out->advice));
    if (kind != MT_PROGRAM_MODEL) {
        MT_TRY(find_parts_of_peak(question, out));
        MT_TRY(find_lines_of_findings(question, &out->advice));
        MT_TRY(mt_observations_load(question, &out->observations));
        out->material.input.program.keeps_graphs = keeps_graphs(&out->observations);
        MT_TRY(find_holders_of_findings(question, &out->observations, &out->advice));
    }
    if (kind == MT_PROGRAM_PYTORCH || kind == MT_PROGRAM_LIBRARY)
        return mt_program_changes_create(&out->material.input, &out->changes);
    return simulate(question, &out->material.input.settings, &out->simulated);
}

void mt_advice_answer_release(struct mt_advice_answer *answer)
{
    mt_observations_release(&answer->observations);
    mt_program_changes_release(&answer->changes);
    mt_advice_release(&answer->advice);
    mt_advice_material_release(&answer->material);
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        mt_peak_row_release(&answer->peaks[i]);
}
