#include "analysis/advise/observed_forward.h"

#include "analysis/advise/observed_casts.h"
#include "analysis/advise/observed_sums.h"
#include "base/memory.h"
#include "base/order.h"
#include "trace/query/lookup.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

/* Two calls of models: the one with the peak, and the next. 0: unknown, or there is none. */
struct calls {
    int64_t begin[2], end[2]; /* the events; begin[0] is 0 */
    int64_t backward;         /* that begins next after the peak; the last event if none does */
    int64_t refusal;          /* the next request that the card had no memory for */
};

static mt_status find_calls(const struct mt_question *question, int64_t peak, struct calls *out)
{
    struct mt_trace *trace = question->trace;
    const struct mt_run *run = question->run;
    *out = (struct calls){.backward = 0};
    MT_TRY(mt_trace_next_event(trace, run, peak, MT_EVENT_PHASE, MT_PHASE_COUNT, &out->end[0]));
    MT_TRY(mt_trace_next_event(trace, run, peak, MT_EVENT_PHASE, MT_PHASE_FORWARD, &out->begin[1]));
    if (out->begin[1] != 0)
        MT_TRY(mt_trace_next_event(trace, run, out->begin[1] + 1, MT_EVENT_PHASE, MT_PHASE_COUNT, &out->end[1]));
    MT_TRY(mt_trace_next_event(trace, run, peak, MT_EVENT_PHASE, MT_PHASE_BACKWARD, &out->backward));
    MT_TRY(mt_trace_next_event(trace, run, peak, MT_EVENT_OOM, MT_PHASE_COUNT, &out->refusal));
    if (out->backward == 0)
        out->backward = run->first_event + run->event_count - 1;
    return MT_OK;
}

/* True if the next call follows before backward, and neither of them ran out of memory. */
static bool have_two_calls(const struct calls *calls)
{
    return calls->end[0] != 0 && calls->end[1] != 0 && calls->end[1] <= calls->backward &&
           (calls->refusal == 0 || calls->refusal > calls->backward);
}

static int compare_block(const void *event, const void *block)
{
    return MT_COMPARE(*(const int64_t *)event, ((const struct mt_block_row *)block)->alloc_event);
}

static bool has_block(const struct mt_moment_blocks *moment, int64_t event)
{
    return bsearch(&event, moment->blocks, moment->count, sizeof *moment->blocks, compare_block) != NULL;
}

/* Sums the activations that a call allocated, that are live when it ends, and no more when backward begins. */
static struct mt_block_sum sum_without_backward(const struct mt_moment_blocks *end, int64_t begin,
                                                const struct mt_moment_blocks *later)
{
    struct mt_block_sum sum = {0};
    for (size_t i = 0; i < end->count; i++)
        if (end->blocks[i].alloc_event > begin && !has_block(later, end->blocks[i].alloc_event) &&
            mt_label_is_role(&end->labels[end->blocks[i].label], MT_ROLE_ACTIVATION))
            mt_block_sum_add(end, i, &sum);
    return sum;
}

static bool is_call_of_module(const struct mt_stack_row *frame)
{
    static const char end[] = "torch/nn/modules/module.py";
    const size_t length = strlen(frame->file);
    return length >= sizeof end - 1 && strcmp(frame->file + length - (sizeof end - 1), end) == 0;
}

/* Returns the program's frame that called the outermost module; NULL: unknown. */
static const struct mt_stack_row *caller_of_model(const struct mt_stack_row *stacks, uint32_t stack)
{
    uint32_t outermost = 0;
    for (uint32_t i = stack; i != 0; i = stacks[i].parent)
        if (is_call_of_module(&stacks[i]))
            outermost = i;
    for (uint32_t i = outermost; i != 0; i = stacks[i].parent)
        if (mt_stack_file_is_own(stacks[i].file))
            return &stacks[i];
    return NULL;
}

/* Sets the function and the line that called the model. */
static mt_status find_caller(const struct mt_question *question, int64_t event, struct mt_observed *observed)
{
    struct mt_stack_row *stacks;
    size_t count;
    uint32_t stack = 0;
    MT_TRY(mt_trace_stacks(question->trace, question->run, &stacks, &count));
    mt_status status = mt_trace_event_stack(question->trace, question->run, event, &stack);
    const struct mt_stack_row *caller = stack < count ? caller_of_model(stacks, stack) : NULL;
    if (caller != NULL) {
        observed->name = caller->function;
        observed->file = caller->file;
        observed->line = (int64_t)caller->line;
    }
    free(stacks);
    return status;
}

/* True if a loop that keeps graphs is the reason why they are there. */
static bool has_kept_graphs(const struct mt_observations *observations)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].kind == MT_OBSERVED_KEPT_GRAPHS)
            return true;
    return false;
}

/* Reads the blocks that are live when backward begins, or at the end. Then sums up what each of both calls allocated
 * for no backward, and what is live when the first call ends. `moment` has the labels. */
static mt_status sum_calls(const struct mt_question *question, const struct calls *calls,
                           struct mt_moment_blocks moment, struct mt_block_sum sums[2], uint64_t *out_bytes)
{
    struct mt_moment_blocks later = moment;
    struct mt_block_row *at_later = NULL, *at_end = NULL;
    mt_status status = mt_moment_blocks_read(question, calls->backward, &at_later, &later);
    *out_bytes = 0;
    for (int i = 0; i < 2 && status == MT_OK; i++) {
        struct mt_moment_blocks end = moment;
        status = mt_moment_blocks_read(question, calls->end[i], &at_end, &end);
        if (status != MT_OK)
            break;
        sums[i] = sum_without_backward(&end, calls->begin[i], &later);
        *out_bytes = i == 0 ? end.bytes : *out_bytes;
        free(at_end);
    }
    free(at_later);
    return status;
}

/* Adds the activations of the first call if the next call's are also for no backward, as in a loop of evaluation.
 * After a failed attempt, the next one is read. */
static mt_status add_unread(const struct mt_question *question, const struct calls *calls,
                            struct mt_moment_blocks moment, struct mt_observations *out)
{
    struct mt_block_sum sums[2] = {{0}};
    const size_t before = out->count;
    mt_status status = sum_calls(question, calls, moment, sums, &moment.bytes);
    if (status != MT_OK || sums[1].bytes < sums[0].bytes / 4)
        return status;
    MT_TRY(
        mt_observations_add_sum(question, &moment, sums[0], MT_OBSERVED_UNREAD_GRAPH, MT_OBSERVED_CHANGE_NO_GRAD, out));
    return out->count > before ? find_caller(question, sums[0].event, &out->items[before]) : MT_OK;
}

/* Adds activations at the peak that autograd keeps for a backward that does not run. `moment` has the labels only. */
static mt_status find_unread(const struct mt_question *question, const struct mt_peak_row *peak,
                             struct mt_moment_blocks moment, struct mt_observations *out)
{
    struct calls calls;
    if (strcmp(peak->phase, mt_phase_name(MT_PHASE_FORWARD)) != 0 || out->ran_out || out->phase_count == 0 ||
        has_kept_graphs(out))
        return MT_OK;
    MT_TRY(find_calls(question, peak->event, &calls));
    return have_two_calls(&calls) ? add_unread(question, &calls, moment, out) : MT_OK;
}

mt_status mt_observations_add_forward(const struct mt_question *question, struct mt_observations *out)
{
    struct mt_label_row *labels = NULL;
    struct mt_peak_row peak;
    struct mt_moment_blocks moment = {0};
    if (question->run->event_count == 0)
        return MT_OK;
    mt_status status = mt_trace_peak(question->trace, question->run, MT_MEASURE_ALLOCATED, &peak);
    MT_THEN(status, mt_trace_labels(question->trace, question->run, &labels, &moment.label_count));
    moment.labels = labels;
    MT_THEN(status, mt_observations_add_casts(question, &peak, moment, out));
    MT_THEN(status, find_unread(question, &peak, moment, out));
    mt_peak_row_release(&peak);
    free(labels);
    return status;
}
