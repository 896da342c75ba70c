#include "analysis/advise/observed_peak.h"

#include "analysis/advise/observed_sums.h"
#include "analysis/advise/observed_tensors.h"
#include "base/memory.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_LAYERS = 3 }; /* of a segment: while one layer is recomputed, the gradients of the next exist, too */

static bool begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* ---- classification of blocks ---- */

/* True for what a backward allocates. torch.autograd.grad() begins no phase, but its functions have names. */
static bool is_of_backward(const struct mt_label_row *label)
{
    return mt_label_is_in_phase(label, MT_PHASE_BACKWARD) || strstr(label->op, "ackward") != NULL;
}

static bool is_gathered(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_GATHERED_PARAMETER);
}

/* True if FSDP gathered it for the outermost module: "FSDPNet.gathered". */
static bool is_gathered_by_root(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_GATHERED_PARAMETER) && strchr(label->span, '.') == strrchr(label->span, '.');
}

/* True if FSDP gathered it for a module inside. */
static bool is_gathered_by_block(const struct mt_label_row *label)
{
    return is_gathered(label) && !is_gathered_by_root(label);
}

/* True for a bucket of DDP, which allocates them when it is made, and again in the forward of the second step. */
static bool is_bucket(const struct mt_label_row *label)
{
    const char *dot = strrchr(label->span, '.');
    return mt_label_is_role(label, MT_ROLE_GRADIENT) && strcmp(dot != NULL ? dot + 1 : label->span, "buckets") == 0;
}

/* True for the gradient of a parameter. A bucket whose views are the gradients of many has no span. */
static bool is_other_gradient(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_GRADIENT) && !is_bucket(label) && label->span[0] != '\0';
}

/* True if a module's forward allocated it during backward. Blocks of autograd's functions have the functions' names. */
static bool is_recomputed(const struct mt_label_row *label)
{
    return mt_label_is_in_phase(label, MT_PHASE_BACKWARD) && label->layer >= 0 &&
           strstr(label->op, "Backward") == NULL &&
           (mt_label_is_role(label, MT_ROLE_TEMPORARY) || mt_label_is_role(label, MT_ROLE_ACTIVATION));
}

/* True for a parameter that is allocated before the first call of a model. */
static bool is_early_parameter(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_PARAMETER) && mt_label_is_in_phase(label, MT_PHASE_INIT);
}

/* Outside of modules, any tensor that grows by torch.cat() has this role. */
static bool is_of_cache(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_KEY_VALUE_CACHE) && label->span[0] != '\0';
}

static bool is_activation(const struct mt_label_row *label)
{
    return mt_label_is_role(label, MT_ROLE_ACTIVATION);
}

/* True for data that the program moved to the card before its first step. */
static bool is_early_data(const struct mt_label_row *label)
{
    return mt_label_is_in_phase(label, MT_PHASE_INIT) &&
           (mt_label_is_role(label, MT_ROLE_INPUT) || mt_label_is_role(label, MT_ROLE_KEPT));
}

static bool is_dropout_of_lora(const struct mt_label_row *label)
{
    return strstr(label->span, "lora_dropout") != NULL;
}

/* True for a shape whose last two dimensions are equal and not small: "2,12,2048,2048". */
static bool is_square(const char *shape)
{
    enum { LEAST_LENGTH = 256 };
    const char *last = strrchr(shape, ','), *before = last;
    while (before != NULL && before > shape && before[-1] != ',')
        before--;
    return last != NULL && before > shape && atoll(before) == atoll(last + 1) && atoll(before) >= LEAST_LENGTH;
}

/* True for attention scores that a program computes step by step, with one value for each pair of positions. */
static bool is_scores(const struct mt_label_row *label)
{
    const bool is_of_attention =
        strcmp(label->category, mt_category_name(MT_CATEGORY_ATTN)) == 0 || strstr(label->op, "bmm") != NULL;
    return is_of_attention && mt_label_is_role(label, MT_ROLE_ACTIVATION) && is_square(label->shape);
}

static bool is_list_of_optimizer(const struct mt_label_row *label)
{
    return begins_with(label->op, "aten::_foreach_") && mt_label_is_in_phase(label, MT_PHASE_OPTIMIZER) &&
           mt_label_is_role(label, MT_ROLE_TEMPORARY);
}

/* ---- tables ---- */

/* True if an embedding's backward computed the gradient. Its label is another one of the table's module. */
static bool is_gradient_of_table(const struct mt_moment_blocks *peak, const struct mt_label_row *label)
{
    enum { LEAST_ROWS = 1 << 19 }; /* larger than vocabularies, whose rows a batch uses more densely */
    if (!mt_label_is_role(label, MT_ROLE_GRADIENT) || atoll(label->shape) < LEAST_ROWS)
        return false;
    for (size_t i = 0; i < peak->label_count; i++) {
        const struct mt_label_row *other = &peak->labels[i];
        if (begins_with(other->op, "Embedding") && strcmp(other->shape, label->shape) == 0 &&
            begins_with(label->span, other->span))
            return true;
    }
    return false;
}

/* True for what a forward pass computes. */
static bool is_result(const struct mt_label_row *label)
{
    return is_activation(label) ||
           (mt_label_is_role(label, MT_ROLE_TEMPORARY) && mt_label_is_in_phase(label, MT_PHASE_FORWARD));
}

/* True if a label's tensor has as many samples as a result of a forward pass, so it is a batch. */
static bool is_batch(const struct mt_moment_blocks *peak, const struct mt_label_row *label)
{
    for (size_t i = 0; i < peak->label_count; i++)
        if (is_result(&peak->labels[i]) && peak->labels[i].shape[0] != '\0' &&
            atoll(peak->labels[i].shape) == atoll(label->shape))
            return true;
    return false;
}

/* Sums the data that was on the card before the first call of a model, but not a batch that the model reads. */
static struct mt_block_sum sum_of_early_data(const struct mt_moment_blocks *peak)
{
    enum { MOST_BATCHES = 2 };
    struct mt_block_sum sum = {0};
    size_t *counts = mt_host_alloc((peak->label_count + 1) * sizeof *counts);
    for (size_t i = 0; i < peak->count; i++)
        counts[peak->blocks[i].label]++;
    for (size_t i = 0; i < peak->count; i++) {
        const uint32_t number = peak->blocks[i].label;
        if (is_early_data(&peak->labels[number]) &&
            (counts[number] > MOST_BATCHES || !is_batch(peak, &peak->labels[number])))
            mt_block_sum_add(peak, i, &sum);
    }
    free(counts);
    return sum;
}

static struct mt_block_sum sum_of_tables(const struct mt_moment_blocks *peak)
{
    struct mt_block_sum sum = {0};
    for (size_t i = 0; i < peak->count; i++)
        if (is_gradient_of_table(peak, &peak->labels[peak->blocks[i].label]))
            mt_block_sum_add(peak, i, &sum);
    return sum;
}

/* ---- Jacobians ---- */

/* True for a frame of torch.func's jacrev, jacfwd or hessian, or of torch.autograd.functional's jacobian or hessian. */
static bool is_of_jacobian(const struct mt_stack_row *frame)
{
    const bool is_of_file = strstr(frame->file, "torch/_functorch/eager_transforms.py") != NULL ||
                            strstr(frame->file, "torch/autograd/functional.py") != NULL;
    return is_of_file && (strstr(frame->function, "jac") != NULL || strstr(frame->function, "hessian") != NULL);
}

/* Returns for each call stack whether one of its frames computes a Jacobian; NULL: no frame does. The caller frees
 * it. */
static bool *find_jacobians(const struct mt_stack_row *stacks, size_t count)
{
    bool *computes = mt_host_alloc((count + 1) * sizeof *computes), any = false;
    for (size_t i = 1; i < count; i++) {
        computes[i] = computes[stacks[i].parent] || is_of_jacobian(&stacks[i]);
        any |= computes[i];
    }
    if (any)
        return computes;
    free(computes);
    return NULL;
}

/* Sums the blocks that were allocated while a Jacobian was computed. */
static mt_status sum_of_jacobians(const struct mt_question *question, const struct mt_moment_blocks *peak,
                                  struct mt_block_sum *out)
{
    struct mt_stack_row *stacks;
    size_t count;
    *out = (struct mt_block_sum){0};
    MT_TRY(mt_trace_stacks(question->trace, question->run, &stacks, &count));
    bool *computes = find_jacobians(stacks, count);
    free(stacks);
    if (computes == NULL)
        return MT_OK;
    uint32_t *callers = mt_host_alloc((peak->count + 1) * sizeof *callers);
    mt_status status = mt_trace_callers(question->trace, question->run, peak->blocks, peak->count, count, callers);
    for (size_t i = 0; i < peak->count && status == MT_OK; i++)
        if (computes[callers[i]])
            mt_block_sum_add(peak, i, out);
    free(callers);
    free(computes);
    return status;
}

/* ---- observations ---- */

static bool has_change(const struct mt_observations *observations, mt_observed_change change)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].change == change)
            return true;
    return false;
}

static int count_layers(uint64_t layers)
{
    int count = 0;
    for (; layers != 0; layers &= layers - 1)
        count++;
    return count;
}

/* Adds the weights at a peak before the first step, of a program that shards them later. */
static mt_status add_not_yet_sharded(const struct mt_question *question, const struct mt_moment_blocks *peak,
                                     struct mt_observations *out)
{
    if (!peak->is_loading || !mt_moment_has_label(peak, is_gathered))
        return MT_OK;
    return mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_early_parameter),
                                   MT_OBSERVED_NOT_YET_SHARDED, MT_OBSERVED_CHANGE_META, out);
}

/* Adds gathered weights: of the whole model, or of more blocks than are in use and prefetched. */
static mt_status add_gathered(const struct mt_question *question, const struct mt_moment_blocks *peak,
                              struct mt_observations *out)
{
    enum { MOST_IN_USE = 3 };
    if (!mt_moment_has_label(peak,
                             is_gathered_by_block)) /* the outermost module has all parameters, not only the rest */
        return mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_gathered_by_root), MT_OBSERVED_GATHERED,
                                       MT_OBSERVED_CHANGE_SHARD_BLOCKS, out);
    const struct mt_block_sum sum = mt_block_sum_of(peak, is_gathered_by_block);
    if (count_layers(sum.layers) <= MOST_IN_USE)
        return MT_OK;
    return mt_observations_add_sum(question, peak, sum, MT_OBSERVED_UNSHARDED, MT_OBSERVED_CHANGE_RESHARD, out);
}

/* Adds data on the card, unless a copy of the weights or a checkpoint explains them. */
static mt_status add_early_data(const struct mt_question *question, const struct mt_moment_blocks *peak,
                                struct mt_observations *out)
{
    if (has_change(out, MT_OBSERVED_CHANGE_COPY_ON_HOST) || has_change(out, MT_OBSERVED_CHANGE_MAP_LOCATION))
        return MT_OK;
    return mt_observations_add_sum(question, peak, sum_of_early_data(peak), MT_OBSERVED_EARLY_DATA,
                                   MT_OBSERVED_CHANGE_BATCH_AT_USE, out);
}

/* Adds caches, unless the growth of a loop explains the peak. */
static mt_status add_caches(const struct mt_question *question, const struct mt_moment_blocks *peak,
                            struct mt_observations *out)
{
    if (mt_observations_have_growth(out))
        return MT_OK;
    return mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_of_cache), MT_OBSERVED_CACHE,
                                   MT_OBSERVED_CHANGE_SHORTER_CACHE, out);
}

/* Adds DDP's buckets if gradients also have memory of their own. */
static mt_status add_buckets(const struct mt_question *question, const struct mt_moment_blocks *peak,
                             struct mt_observations *out)
{
    if (!mt_block_sum_counts(peak, mt_block_sum_of(peak, is_other_gradient)))
        return MT_OK;
    return mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_bucket), MT_OBSERVED_BUCKETS,
                                   MT_OBSERVED_CHANGE_BUCKET_VIEW, out);
}

static mt_status add_jacobian(const struct mt_question *question, const struct mt_moment_blocks *peak,
                              struct mt_observations *out)
{
    struct mt_block_sum sum;
    MT_TRY(sum_of_jacobians(question, peak, &sum));
    return mt_observations_add_sum(question, peak, sum, MT_OBSERVED_JACOBIAN, MT_OBSERVED_CHANGE_JVP, out);
}

static bool has_cycles(const struct mt_observations *observations)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].kind == MT_OBSERVED_CYCLES)
            return true;
    return false;
}

/* Adds blocks that a checkpointed segment of many layers recomputes. Cycles may keep as much from segments of one
 * layer. */
static mt_status add_recomputed(const struct mt_question *question, const struct mt_moment_blocks *peak,
                                struct mt_observations *out)
{
    const struct mt_block_sum sum = mt_block_sum_of(peak, is_recomputed);
    if (count_layers(sum.layers) < LEAST_LAYERS || has_cycles(out))
        return MT_OK;
    return mt_observations_add_sum(question, peak, sum, MT_OBSERVED_ONE_SEGMENT, MT_OBSERVED_CHANGE_CHECKPOINT_EACH,
                                   out);
}

/* True if the program may run backward: it did, or it did not come to its end. */
static bool runs_backward(const struct mt_question *question, const struct mt_moment_blocks *peak)
{
    return !mt_run_is(question->run, MT_RUN_DONE) || mt_moment_has_label(peak, is_of_backward);
}

/* Adds activations of a program that never runs backward. */
static mt_status add_inference(const struct mt_question *question, const struct mt_moment_blocks *peak,
                               struct mt_observations *out)
{
    if (out->phase_count == 0 || runs_backward(question, peak) || has_change(out, MT_OBSERVED_CHANGE_NO_GRAD))
        return MT_OK;
    return mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_activation), MT_OBSERVED_UNREAD_GRAPH,
                                   MT_OBSERVED_CHANGE_NO_GRAD, out);
}

static mt_status add_all(const struct mt_question *question, const struct mt_moment_blocks *peak,
                         struct mt_observations *out)
{
    MT_TRY(add_inference(question, peak, out));
    MT_TRY(add_not_yet_sharded(question, peak, out));
    MT_TRY(add_gathered(question, peak, out));
    MT_TRY(add_early_data(question, peak, out));
    MT_TRY(add_caches(question, peak, out));
    MT_TRY(add_buckets(question, peak, out));
    MT_TRY(add_recomputed(question, peak, out));
    MT_TRY(mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_scores), MT_OBSERVED_SCORES,
                                   MT_OBSERVED_CHANGE_SDPA, out));
    MT_TRY(mt_observations_add_sum(question, peak, sum_of_tables(peak), MT_OBSERVED_TABLES, MT_OBSERVED_CHANGE_SPARSE,
                                   out));
    MT_TRY(add_jacobian(question, peak, out));
    MT_TRY(mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_dropout_of_lora), MT_OBSERVED_LORA_DROPOUT,
                                   MT_OBSERVED_CHANGE_NO_LORA_DROPOUT, out));
    return mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_list_of_optimizer), MT_OBSERVED_FOREACH,
                                   MT_OBSERVED_CHANGE_FUSED, out);
}

mt_status mt_observations_add_peak(const struct mt_question *question, struct mt_observations *out)
{
    struct mt_block_row *blocks = NULL;
    struct mt_label_row *labels = NULL;
    struct mt_peak_row peak;
    struct mt_moment_blocks found = {0};
    if (question->run->event_count == 0)
        return MT_OK;
    mt_status status = mt_trace_peak(question->trace, question->run, MT_MEASURE_ALLOCATED, &peak);
    found.bytes = peak.bytes;
    found.is_loading = status == MT_OK && peak.step < 0;
    MT_THEN(status, mt_trace_labels(question->trace, question->run, &labels, &found.label_count));
    MT_THEN(status, mt_trace_live(question->trace, question->run, peak.event, &blocks, &found.count));
    found.blocks = blocks;
    found.labels = labels;
    MT_THEN(status, add_all(question, &found, out));
    MT_THEN(status, mt_observations_add_tensors(question, &found, peak.phase, out));
    mt_peak_row_release(&peak);
    free(blocks);
    free(labels);
    return status;
}
