#include "analysis/verdict.h"

#include "analysis/oom/oom.h"
#include "analysis/traced_card.h"
#include "trace/query/caveats.h"
#include "trace/query/holders.h"
#include "trace/query/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sets the card's memory, and the process's memory outside the allocator. */
static mt_status find_card(const struct mt_question *question, struct mt_verdict *out)
{
    struct mt_traced_card traced;
    struct mt_outside_row *rows = NULL;
    size_t count = 0;
    MT_TRY(mt_traced_card_find(question->trace, question->run, &traced));
    const bool is_size = !traced.is_spelled || traced.card.context_bytes == 0;
    out->card_bytes = is_size ? question->run->capacity_bytes : mt_card_free_bytes(&traced.card);
    out->is_shared = !is_size && traced.card.others_bytes > 0;
    if (is_size)
        return MT_OK;
    mt_status status = mt_trace_outside(question->trace, question->run, &rows, &count);
    if (status == MT_OK)
        out->outside_bytes = mt_outside_sum(rows, count, 0).bytes;
    free(rows);
    return status;
}

static mt_status find_peaks(const struct mt_question *question, struct mt_verdict *out)
{
    struct mt_peak_row peak;
    uint64_t *const bytes[] = {&out->live_bytes, &out->reserved_bytes};
    const mt_measure measures[] = {MT_MEASURE_ALLOCATED, MT_MEASURE_RESERVED};
    for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
        mt_status status = mt_trace_peak(question->trace, question->run, measures[i], &peak);
        *bytes[i] = status == MT_OK ? peak.bytes : 0;
        mt_peak_row_release(&peak);
        MT_TRY(status);
    }
    return MT_OK;
}

/* Sets *out to the last measurement of that name; leaves it if there is none. */
static mt_status find_bound(const struct mt_question *question, const char *name, double *out)
{
    struct mt_measurement_row *rows = NULL;
    size_t count = 0;
    mt_status status = mt_trace_measurements(question->trace, question->run, name, &rows, &count);
    if (status == MT_OK && count > 0 && rows[count - 1].value >= 0)
        *out = rows[count - 1].value;
    free(rows);
    return status;
}

static struct mt_peak_range range_around(uint64_t bytes, double less, double more)
{
    return (struct mt_peak_range){less < (double)bytes ? bytes - (uint64_t)less : 0, bytes + (uint64_t)more};
}

/* Sets the ranges of the peaks. */
static mt_status find_ranges(const struct mt_question *question, struct mt_verdict *out)
{
    enum { LIVE_LESS, LIVE_MORE, RESERVED_LESS, RESERVED_MORE, BOUNDS };
    static const char *const names[BOUNDS] = {"bounds:live_less", "bounds:live_more", "bounds:reserved_less",
                                              "bounds:reserved_more"};
    double bounds[BOUNDS] = {-1, -1, -1, -1};
    for (int i = 0; i < BOUNDS; i++)
        MT_TRY(find_bound(question, names[i], &bounds[i]));
    out->has_bounds = bounds[RESERVED_MORE] >= 0;
    for (int i = 0; i < BOUNDS; i++)
        bounds[i] = bounds[i] > 0 && bounds[i] < (double)INT64_MAX ? bounds[i] : 0;
    out->live_range = range_around(out->live_bytes, bounds[LIVE_LESS], bounds[LIVE_MORE]);
    out->needed_range = range_around(out->needed_bytes, bounds[RESERVED_LESS], bounds[RESERVED_MORE]);
    return MT_OK;
}

/* Sets the line of the request that was refused. */
static mt_status find_line(const struct mt_question *question, const struct mt_oom_answer *answer, struct mt_text *out)
{
    struct mt_stack_row *stacks = NULL;
    size_t count = 0;
    uint32_t stack;
    MT_TRY(mt_trace_event_stack(question->trace, question->run, answer->event, &stack));
    mt_status status = mt_trace_stacks(question->trace, question->run, &stacks, &count);
    if (status == MT_OK)
        mt_stack_line(stacks, count, stack, out);
    free(stacks);
    return status;
}

/* Sets how much memory the refused request lacked, and its place. */
static mt_status find_refusal(const struct mt_question *question, struct mt_verdict *out)
{
    struct mt_oom_answer answer;
    mt_status status = mt_oom_answer_load_refusal(question, &answer);
    if (status == MT_OK) {
        const struct mt_advice_input *input = &answer.material.input;
        out->short_bytes = answer.refusal.short_bytes;
        out->step = answer.step;
        out->phase = input->labels[answer.refusal.mark.label].phase;
        status = find_line(question, &answer, &out->line);
    }
    mt_oom_answer_release(&answer);
    return status;
}

uint64_t mt_growth_rest(const struct mt_caveat *growth)
{
    if (growth->kind != MT_CAVEAT_GROWTH || growth->bytes <= 0 || isnan(growth->value) || growth->value < 0 ||
        (double)growth->total <= growth->value)
        return 0;
    const double rest = ((double)growth->total - growth->value) * (double)growth->bytes;
    return rest < (double)INT64_MAX ? (uint64_t)rest : INT64_MAX;
}

/* Sets what iterations that did not run would add, of the loop that would add most. */
static mt_status find_rest(const struct mt_question *question, struct mt_verdict *out)
{
    struct mt_caveat *rows = NULL;
    size_t count = 0;
    MT_TRY(mt_trace_caveats(question->trace, question->run, &rows, &count));
    for (size_t i = 0; i < count; i++) {
        const uint64_t rest = mt_growth_rest(&rows[i]);
        if (rest > out->rest_bytes && rows[i].total <= out->grows_until) {
            out->rest_bytes = rest;
            out->iterations = rows[i].total;
        }
    }
    free(rows);
    return MT_OK;
}

/* Sets the end of growth if LBFGS's history, which has the length 100 by default, keeps all that grows. */
static mt_status find_history(const struct mt_question *question, struct mt_verdict *out)
{
    enum { HISTORY_SIZE = 100 };
    struct mt_holder_row *holders;
    size_t count;
    bool is_history = false, is_other = false;
    MT_TRY(mt_trace_holders(question->trace, question->run, &holders, &count));
    for (size_t i = 0; i < count; i++) {
        const bool is_of_optimizer = strstr(holders[i].file, "torch/optim/lbfgs.py") != NULL;
        is_history |= is_of_optimizer;
        is_other |= !is_of_optimizer && holders[i].loop_file[0] != '\0';
    }
    free(holders);
    out->grows_until = is_history && !is_other ? HISTORY_SIZE : INT64_MAX;
    return MT_OK;
}

mt_status mt_verdict_find(const struct mt_question *question, struct mt_verdict *out)
{
    *out = (struct mt_verdict){.steps = question->run->steps, .step = -1, .iterations = -1};
    out->is_out_of_memory = mt_run_is(question->run, MT_RUN_OOM);
    MT_TRY(find_card(question, out));
    MT_TRY(find_peaks(question, out));
    MT_TRY(find_history(question, out));
    out->needed_bytes = out->reserved_bytes + out->outside_bytes;
    MT_TRY(find_ranges(question, out));
    if (out->is_out_of_memory)
        return find_refusal(question, out);
    MT_TRY(find_rest(question, out));
    out->fits = out->needed_bytes <= out->card_bytes;
    out->free_bytes = out->fits ? out->card_bytes - out->needed_bytes : 0;
    out->short_bytes = out->fits ? 0 : out->needed_bytes - out->card_bytes;
    return MT_OK;
}

void mt_verdict_release(struct mt_verdict *verdict)
{
    mt_text_release(&verdict->line);
}
