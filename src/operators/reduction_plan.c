/* Reductions of tensors of any shape: their dimensions are sorted and joined as PyTorch's TensorIterator does, and the
 * dimensions that are left decide how the launcher spreads the work. */
#include "operators/operator_memory.h"
#include "operators/operator_plan.h"

#include <assert.h>
#include <math.h>

enum { MOST_DIMS = 16, INDEX_BYTES = 8, VARIANCE_BYTES = 16 };

/* A dimension: `output_stride` is 0 if it is reduced. Strides are in elements. */
struct dimension {
    int64_t size, stride, output_stride;
};

/* Dimensions, the reduced ones first. */
struct space {
    struct dimension dims[MOST_DIMS];
    int count, reduced;
};

static bool is_reduced(const struct mt_argument *dims, int dimension, int count)
{
    if (dims == NULL)
        return true;
    if (dims->kind == MT_ARGUMENT_INTEGER)
        return dimension == (dims->integer + count) % count;
    for (int64_t i = 0; i < dims->count; i++)
        if (dimension == (dims->integers[i] + count) % count)
            return true;
    return dims->count == 0;
}

/* True if dimension `a` comes before `b`: reduced ones first, then by the result's stride, then by the input's. */
static bool is_before(const struct dimension *a, const struct dimension *b)
{
    if ((a->output_stride == 0) != (b->output_stride == 0))
        return a->output_stride == 0;
    if (a->output_stride != b->output_stride)
        return a->output_stride < b->output_stride;
    return a->stride != 0 && b->stride != 0 && a->stride < b->stride;
}

static void insert(struct space *space, struct dimension added)
{
    int place = space->count++;
    for (; place > 0 && is_before(&added, &space->dims[place - 1]); place--)
        space->dims[place] = space->dims[place - 1];
    space->dims[place] = added;
}

/* Joins a dimension with the one before it where both step through memory as one would. */
static void join(struct space *space)
{
    int last = 0;
    for (int i = 1; i < space->count; i++) {
        struct dimension *before = &space->dims[last];
        const struct dimension *next = &space->dims[i];
        if (before->size * before->stride == next->stride &&
            before->size * before->output_stride == next->output_stride &&
            (before->output_stride == 0) == (next->output_stride == 0))
            before->size *= next->size;
        else
            space->dims[++last] = *next;
    }
    space->count = space->count == 0 ? 0 : last + 1;
    for (int i = 0; i < space->count; i++)
        space->reduced += space->dims[i].output_stride == 0;
}

/* Sorts the dimensions of a tensor, from the last to the first. Those of one element do not count. */
static void sort_dimensions(const struct mt_operand *input, const struct mt_argument *dims, struct space *out)
{
    int64_t stride = 1;
    *out = (struct space){0};
    for (int i = input->dims - 1; i >= 0; i--) {
        const bool reduced = is_reduced(dims, i, input->dims);
        if (input->sizes[i] != 1)
            insert(out, (struct dimension){input->sizes[i], input->strides[i], reduced ? 0 : stride});
        if (!reduced)
            stride *= input->sizes[i];
    }
    join(out);
}

/* Returns how many neighbouring outputs a thread may compute: all addresses must be multiples of it. */
static int64_t vector_of(const struct mt_operand *input, const struct space *space)
{
    int64_t vector = 4;
    const int fastest = space->reduced;
    while (input->offset % vector != 0 || space->dims[fastest].size % vector != 0)
        vector /= 2;
    for (int i = 0; i < space->count; i++)
        while (i != fastest && space->dims[i].stride % vector != 0)
            vector /= 2;
    return vector;
}

static struct mt_reduction describe(const struct mt_operand *input, const struct mt_argument *dims, int64_t accumulator)
{
    struct space space;
    struct mt_reduction made = {.outputs = 1, .inputs = 1, .vector = 1, .accumulator_bytes = accumulator};
    sort_dimensions(input, dims, &space);
    for (int i = 0; i < space.count; i++)
        *(i < space.reduced ? &made.inputs : &made.outputs) *= space.dims[i].size;
    made.loads_vectors = accumulator != VARIANCE_BYTES; /* Welford's kernel has two values a thread */
    made.is_flat = space.count == 1;
    const bool is_all = space.reduced == space.count;
    made.is_along_rows = is_all || (space.reduced > 0 && space.dims[0].stride < space.dims[space.reduced].stride);
    made.is_dense = space.count > 0 && space.dims[made.is_along_rows ? 0 : space.reduced].stride == 1;
    if (!made.is_along_rows && made.is_dense)
        made.vector = vector_of(input, &space);
    return made;
}

void mt_inner_stage(struct mt_operator_plan *plan, const struct mt_reduction *reduction)
{
    int64_t staging_bytes, counter_bytes;
    mt_reduction_staging(plan->card, reduction, &staging_bytes, &counter_bytes);
    if (staging_bytes == 0)
        return;
    const int staging = mt_inner_take(plan, staging_bytes);
    mt_inner_use(plan, counter_bytes);
    mt_inner_give(plan, staging);
}

void mt_inner_stage_truth(struct mt_operator_plan *plan, int64_t count)
{
    const struct mt_reduction reduction = {.outputs = 1,
                                           .inputs = count,
                                           .vector = 1,
                                           .accumulator_bytes = 1,
                                           .is_along_rows = true,
                                           .is_dense = true,
                                           .is_flat = true,
                                           .loads_vectors = true};
    const int truth = mt_inner_take(plan, 1);
    mt_inner_stage(plan, &reduction);
    mt_inner_give(plan, truth);
}

void mt_inner_reduce(struct mt_operator_plan *plan, const struct mt_operand *input, const struct mt_argument *dims,
                     int64_t accumulator)
{
    if (input->dims > MOST_DIMS)
        return;
    const struct mt_reduction reduction = describe(input, dims, accumulator);
    mt_inner_stage(plan, &reduction);
}

/* sum, mean, prod: the input is cast to the dtype of the result first, unless the kernel reads 16 bits and writes
 * 32. */
MT_RULE(sum)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || call->output_count != 1 || input->elements == 0)
        return;
    const struct mt_operand *output = &call->outputs[0];
    struct mt_operand cast = *input;
    const bool is_cast =
        input->dtype != output->dtype && !(mt_operand_is_narrow(input) && output->dtype == MT_SCALAR_FLOAT);
    if (is_cast) {
        cast.item_bytes = output->item_bytes;
        cast.offset = 0;
        mt_inner_take_like(plan, &cast);
    }
    mt_inner_reduce(plan, &cast, mt_call_find(call, "dim"), mt_operand_sum_bytes(&cast));
}

/* Returns losses of elements, of the shape of the input, that become their mean or sum; NULL if they stay as they
 * are. */
static const struct mt_operand *reduced_losses(const struct mt_operator_call *call)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    return input != NULL && input->elements > 0 && mt_call_number(call, "reduction", 0) != 0 ? input : NULL;
}

static void stage_losses(struct mt_operator_plan *plan, const struct mt_operand *losses)
{
    struct mt_operand made = *losses;
    made.offset = 0;
    mt_inner_reduce(plan, &made, NULL, mt_operand_sum_bytes(&made));
}

/* mse_loss, smooth_l1_loss: the result's block has room for all losses, which have a block of their own, too. */
MT_RULE(loss)
{
    const struct mt_operand *losses = reduced_losses(call);
    mt_inner_wide_output(plan, 0, mt_operand_bytes(losses));
    if (losses == NULL)
        return;
    mt_inner_take_like(plan, losses);
    stage_losses(plan, losses);
}

/* huber_loss: all losses, then the result. */
MT_RULE(huber_loss)
{
    const struct mt_operand *losses = reduced_losses(call);
    mt_inner_take_like(plan, losses);
    mt_inner_output(plan, 0);
    if (losses != NULL)
        stage_losses(plan, losses);
}

/* binary_cross_entropy: the result's block holds all losses; then their mean is copied into it. */
MT_RULE(entropy_loss)
{
    const struct mt_operand *losses = reduced_losses(call);
    mt_inner_wide_output(plan, 0, mt_operand_bytes(losses));
    if (losses == NULL)
        return;
    mt_inner_take(plan, losses->item_bytes);
    stage_losses(plan, losses);
}

/* Finds the least and the greatest value of a tensor. */
static void find_bounds(struct mt_operator_plan *plan, const struct mt_operand *input)
{
    for (int bound = 0; bound < 2; bound++) {
        const int value = mt_inner_take(plan, input->item_bytes);
        mt_inner_reduce(plan, input, NULL, mt_operand_sum_bytes(input));
        mt_inner_give(plan, value);
    }
}

/* bincount: the number of its results follows from the bounds. */
MT_RULE(bin_count)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    if (input != NULL && input->elements > 0)
        find_bounds(plan, input);
}

/* Adds what checks probabilities: their bounds, and the sum of each row. Keeps both answers, of a byte each. */
static void check_probabilities(struct mt_operator_plan *plan, const struct mt_operand *input)
{
    const int64_t last = input->dims - 1, rows = input->elements / input->sizes[last];
    const struct mt_argument row = {.kind = MT_ARGUMENT_INTEGERS, .integers = &last, .count = 1};
    int bounds[2], answers[2];
    for (int bound = 0; bound < 2; bound++) {
        bounds[bound] = mt_inner_take(plan, input->item_bytes);
        mt_inner_reduce(plan, input, NULL, mt_operand_sum_bytes(input));
        answers[bound] = mt_inner_take(plan, 1);
    }
    mt_inner_take(plan, 1);
    for (int bound = 1; bound >= 0; bound--) {
        mt_inner_give(plan, answers[bound]);
        mt_inner_give(plan, bounds[bound]);
    }
    const int sums = mt_inner_take(plan, MT_PRODUCT(rows, input->item_bytes));
    mt_inner_reduce(plan, input, &row, mt_operand_sum_bytes(input));
    const int is_zero = mt_inner_take(plan, rows);
    mt_inner_take(plan, 1);
    mt_inner_give(plan, is_zero);
    mt_inner_give(plan, sums);
    mt_inner_use(plan, 1);
}

/* multinomial: with replacement a copy, normalized probabilities and their sums up to each. Otherwise as many
 * exponential numbers, whose largest quotients are found: of several samples by topk, with their values. */
MT_RULE(multinomial)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    const int64_t samples = mt_call_integer(call, "num_samples", 1);
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || input->elements == 0 || input->dims == 0)
        return;
    if (samples > 1 && mt_call_number(call, "replacement", 0) != 0) {
        for (int table = 0; table < 3; table++)
            mt_inner_take_like(plan, input);
        return;
    }
    check_probabilities(plan, input);
    const int numbers = mt_inner_take_like(plan, input);
    if (samples > 1) {
        mt_inner_use(plan, MT_PRODUCT(input->elements / input->sizes[input->dims - 1], samples, input->item_bytes));
        mt_inner_uncounted(plan);
    }
    mt_inner_give(plan, numbers);
}

/* histc: the bounds are sought unless they are given. */
MT_RULE(histogram)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (input != NULL && input->elements > 0 && mt_call_number(call, "min", 0) == mt_call_number(call, "max", 0))
        find_bounds(plan, input);
}

/* isin: comparisons with each value, if they are few; else it sorts. */
MT_RULE(is_in)
{
    const struct mt_operand *elements = mt_call_tensor(call, "elements");
    const struct mt_operand *values = mt_call_tensor(call, "test_elements");
    mt_inner_outputs(plan, call, 0);
    if (elements == NULL || values == NULL)
        return;
    if ((double)values->elements >= 10 * pow((double)elements->elements, 0.145)) {
        mt_inner_uncounted(plan);
        return;
    }
    mt_inner_take(plan, MT_PRODUCT(elements->elements, values->elements));
    mt_inner_take(plan, elements->elements); /* whether any is equal */
}

/* count_nonzero: the sum of a comparison, as whole numbers. */
MT_RULE(count)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    if (input == NULL || input->elements == 0)
        return;
    struct mt_operand cast = *input;
    cast.item_bytes = INDEX_BYTES;
    cast.offset = 0;
    mt_inner_take(plan, input->elements);
    mt_inner_outputs(plan, call, 0);
    mt_inner_take_like(plan, &cast);
    mt_inner_reduce(plan, &cast, mt_call_find(call, "dim"), INDEX_BYTES);
}

const struct mt_operand *mt_inner_results(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    return input != NULL && input->elements > 0 ? input : NULL;
}

/* amax, amin: staged in their own dtype. */
MT_RULE(extreme)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input != NULL)
        mt_inner_reduce(plan, input, mt_call_find(call, "dim"), input->item_bytes);
}

/* any, all: one element is cast. */
MT_RULE(any)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input == NULL)
        return;
    if (input->elements == 1 && input->dtype != MT_SCALAR_BOOL)
        mt_inner_use(plan, 1);
    else
        mt_inner_reduce(plan, input, mt_call_find(call, "dim"), input->item_bytes);
}

/* Norms. */
MT_RULE(reduce)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input != NULL)
        mt_inner_reduce(plan, input, mt_call_find(call, "dim"), mt_operand_sum_bytes(input));
}

/* Returns the bytes of a partial result: a value and its index, the least and the greatest value, or one value. */
static int64_t bytes_of_extreme(const struct mt_operator_call *call, const struct mt_operand *input)
{
    const struct mt_operand *last = &call->outputs[call->output_count - 1];
    if (last->dtype == MT_SCALAR_LONG)
        return 2 * INDEX_BYTES;
    return call->output_count == 2 ? 2 * input->item_bytes : mt_operand_sum_bytes(input);
}

/* max, min, argmax, argmin, aminmax: a value and its index travel together where a dimension is named. With "other"
 * they compare two tensors element by element. */
MT_RULE(reduce_pair)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input == NULL || mt_call_tensor(call, "other") != NULL)
        return;
    mt_inner_reduce(plan, input, mt_call_find(call, "dim"), bytes_of_extreme(call, input));
}

/* var, std, with or without the mean: Welford's four numbers. */
MT_RULE(variance)
{
    const struct mt_operand *input = mt_inner_results(plan, call);
    if (input != NULL)
        mt_inner_reduce(plan, input, mt_call_find(call, "dim"), VARIANCE_BYTES);
}
