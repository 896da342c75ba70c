/* Operators that scan or sort by CUB: running sums, and the backward of embeddings. */
#include "operators/cub_memory.h"
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    FEWEST_TO_SORT = 3072,    /* fewer indices are added one by one */
    SORT_TILE_SEGMENT = 5760, /* pairs that a block sorts, with numbers of segments as keys */
    SORT_FEW = 4096,          /* elements that one block sorts */
    SORT_MANY_SEGMENTS = 128,
    SORT_LONG_ROW = 1000000, /* that keeps a card busy alone */
    SORT_MOST_LISTED = 20,   /* rows; the workspaces of more, one after the other, change no peak */
    SORT_DIGIT_BITS = 8,
    SORT_DIGITS = 256,
    CUB_FIXED_BYTES = 511, /* two counters, and the alignment of all */
    CUB_ALIGNMENT = 256,
    CUB_SCAN_BYTES = 1279, /* of a scan and of unique_by_key, CUDA 13.0 */
    COUNT_BYTES = 8,
    SEGMENT = 10, /* indices of a partial sum */
    FEW_ROWS = 33
};

/* What is known of the sorted indices: the segments of equal ones, cut into pieces that are summed apart. */
struct segments {
    int64_t indices, item_bytes, rows, pieces, width;
    bool is_small;  /* few rows are summed in place */
    bool is_narrow; /* or, of 16 bits, in fp32 beside it */
};

/* Adds sums of the pieces of segments. */
static void sum_pieces(struct mt_operator_plan *plan, const struct segments *s)
{
    mt_inner_take(plan, COUNT_BYTES);
    mt_inner_take(plan, MT_PRODUCT(s->pieces, s->item_bytes)); /* their offsets */
    mt_inner_take(plan, MT_PRODUCT(s->pieces, s->is_small ? COUNT_BYTES : s->width * MT_FLOAT_BYTES));
    if (s->is_small && s->is_narrow)
        mt_inner_use(plan, MT_PRODUCT(s->rows, s->width, MT_FLOAT_BYTES));
}

static void find_segments(struct mt_operator_plan *plan, const struct segments *s)
{
    mt_inner_take(plan, MT_PRODUCT(s->indices, s->item_bytes)); /* their offsets */
    mt_inner_take(plan, COUNT_BYTES);
    const int keys = mt_inner_take(plan, MT_PRODUCT(s->indices, s->item_bytes));
    mt_inner_use(plan, CUB_SCAN_BYTES);
    mt_inner_give(plan, keys);
    mt_inner_take(plan, MT_PRODUCT(s->rows, s->item_bytes)); /* the pieces of each */
    mt_inner_take(plan, MT_PRODUCT(s->rows, s->item_bytes)); /* the first of them */
    mt_inner_use(plan, mt_cub_scan_bytes(s->rows, s->item_bytes));
    sum_pieces(plan, s);
}

static struct segments segments_of(const struct mt_operand *indices, int64_t table_rows, int64_t width)
{
    const int64_t n = indices->elements, rows = n < table_rows ? n : table_rows;
    return (struct segments){
        .indices = n, .item_bytes = indices->item_bytes, .rows = rows, .pieces = n / SEGMENT + rows, .width = width};
}

static void sort_and_sum(struct mt_operator_plan *plan, const struct segments *segments)
{
    const int64_t n = segments->indices, i = segments->item_bytes;
    mt_inner_take(plan, MT_PRODUCT(n, i)); /* sorted indices */
    mt_inner_take(plan, MT_PRODUCT(n, i)); /* their places before */
    const int range = mt_inner_take(plan, MT_PRODUCT(n, i));
    mt_inner_use(plan, mt_cub_sort_bytes(n, i, i, i));
    mt_inner_give(plan, range);
    mt_inner_output(plan, 0);
    find_segments(plan, segments);
}

MT_RULE(embedding_backward)
{
    const struct mt_operand *gradient = mt_call_tensor(call, "grad_output"), *indices = mt_call_tensor(call, "indices");
    if (gradient == NULL || indices == NULL || gradient->dims == 0)
        return;
    const int64_t width = gradient->sizes[gradient->dims - 1];
    const bool is_scaled = mt_call_number(call, "scale_grad_by_freq", 0) != 0;
    mt_inner_copy(plan, indices);
    mt_inner_copy(plan, gradient);
    struct segments segments = segments_of(indices, mt_call_integer(call, "num_weights", 0), width);
    segments.is_small = segments.rows < FEW_ROWS;
    segments.is_narrow = gradient->item_bytes < MT_FLOAT_BYTES;
    if (indices->elements <= FEWEST_TO_SORT && !is_scaled)
        mt_inner_output(plan, 0);
    else
        sort_and_sum(plan, &segments);
}

/* True if several blocks search one row for its largest elements (TensorTopK.cu, should_use_multiblock). */
static bool has_several_blocks(int64_t rows, int64_t length)
{
    static const int64_t LIMITS[][2] = {{20, 20000}, {40, 10000}, {80, 8000}, {199, 5000}, {799, 3000}, {4000, 800}};
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++)
        if (rows <= LIMITS[i][0])
            return length >= LIMITS[i][1];
    return length >= 400;
}

/* Returns how many blocks search a row (TensorTopK.cu, get_items_per_thread): as few as keep all multiprocessors busy,
 * but a thread has 4 to 64 elements. */
static int64_t blocks_of_row(const struct mt_card *card, int64_t rows, int64_t length)
{
    enum {
        THREADS = 256,
        RESIDENT = 6,
        FEWEST = 4,
        MOST = 64
    }; /* resident: blocks that a multiprocessor has registers for */
    const int64_t busy = (int64_t)card->multiprocessors * RESIDENT * THREADS;
    int64_t elements = mt_smaller(mt_divide_up(MT_PRODUCT(rows, length), busy), MOST);
    elements = elements < FEWEST ? FEWEST : elements;
    return mt_divide_up(length, elements * THREADS);
}

/* Adds the search of rows by several blocks each: by 8 bits at once, they count how many elements have which value. */
static void search_rows(struct mt_operator_plan *plan, const struct mt_operand *input, int64_t length)
{
    enum { DIGIT_VALUES = 256, NUMBER_BYTES = 4, SHORT_BYTES = 2 };
    const int64_t rows = input->elements / length, blocks = MT_PRODUCT(rows, blocks_of_row(plan->card, rows, length));
    const int first = plan->taken;
    mt_inner_take(plan, MT_PRODUCT(rows, input->item_bytes)); /* the least of the largest elements */
    mt_inner_take(plan, MT_PRODUCT(2, rows, NUMBER_BYTES));   /* how many are still sought */
    mt_inner_take(plan, MT_PRODUCT(2, rows, input->item_bytes > NUMBER_BYTES ? input->item_bytes : NUMBER_BYTES));
    mt_inner_take(plan, MT_PRODUCT(blocks, DIGIT_VALUES, SHORT_BYTES));
    mt_inner_take(plan, MT_PRODUCT(rows, DIGIT_VALUES, NUMBER_BYTES));
    mt_inner_take(plan, MT_PRODUCT(blocks, NUMBER_BYTES));
    const int last = mt_inner_take(plan, MT_PRODUCT(blocks, NUMBER_BYTES));
    mt_inner_use(plan, CUB_SCAN_BYTES);
    mt_inner_use(plan, CUB_SCAN_BYTES);
    for (int block = last; block >= first; block--)
        mt_inner_give(plan, block);
}

/* Adds the sort of found elements that one block can't sort: sorted values and their places, by which indices are
 * gathered. */
static void sort_found(struct mt_operator_plan *plan, const struct mt_operand *found, int64_t count)
{
    const int places = mt_inner_take(plan, MT_PRODUCT(found->elements, COUNT_BYTES));
    const int values = mt_inner_take_like(plan, found);
    mt_inner_sort(plan, found, count);
    mt_inner_use(plan, MT_PRODUCT(found->elements, COUNT_BYTES));
    mt_inner_give(plan, values);
    mt_inner_give(plan, places);
}

MT_RULE(top)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || input->dims == 0 || input->elements == 0 || call->output_count == 0 ||
        call->outputs[0].elements == 0)
        return;
    const int64_t length = input->sizes[mt_call_dimension(call, input, -1)], count = mt_call_integer(call, "k", 0);
    const int copy = mt_inner_copy(plan, input);
    if (has_several_blocks(input->elements / length, length))
        search_rows(plan, input, length);
    mt_inner_give(plan, copy);
    if (count > SORT_FEW && mt_call_integer(call, "sorted", 1) != 0)
        sort_found(plan, &call->outputs[0], count);
}

/* _embedding_bag: the words' bags before the sums of the bags. */
MT_RULE(bag)
{
    enum { SUMS, BAGS, SIZES };
    for (int i = SIZES; i >= SUMS && call->output_count > SIZES; i--)
        mt_inner_output(plan, i);
}

MT_RULE(bag_backward)
{
    enum { MODE_MAX = 2 };
    const struct mt_operand *gradient = mt_call_tensor(call, "grad"), *indices = mt_call_tensor(call, "indices");
    if (gradient == NULL || indices == NULL || gradient->dims == 0 || indices->elements == 0 ||
        mt_call_number(call, "mode", 0) == MODE_MAX)
        return;
    const struct segments segments =
        segments_of(indices, mt_call_integer(call, "num_weights", 0), gradient->sizes[gradient->dims - 1]);
    mt_inner_copy(plan, gradient);
    sort_and_sum(plan, &segments);
}

/* cumsum, cumprod, _logcumsumexp: the input is cast to the result's dtype, and made contiguous. Along the only
 * dimension CUB scans. */
MT_RULE(running_sum)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (input == NULL || call->output_count != 1 || input->elements == 0 || input->dims == 0)
        return;
    const struct mt_operand *output = &call->outputs[0];
    if (input->dtype != output->dtype)
        mt_inner_take(plan, MT_PRODUCT(input->elements, output->item_bytes));
    if (!input->is_contiguous)
        mt_inner_take(plan, MT_PRODUCT(input->elements, output->item_bytes));
    if (input->elements == input->sizes[mt_call_dimension(call, input, 0)])
        mt_inner_use(plan, mt_cub_scan_bytes(input->elements, output->item_bytes));
}

/* Takes what a check of an index's bounds takes: its least or its greatest value, and whether it is inside. */
static void check_bound(struct mt_operator_plan *plan)
{
    const int bound = mt_inner_take(plan, COUNT_BYTES);
    mt_inner_use(plan, 1);
    mt_inner_give(plan, bound);
}

/* Returns the number of digits of the numbers below `count` that a radix sort looks at. */
static int64_t digits_below(int64_t count)
{
    int64_t bits = 1;
    while (bits < 63 && INT64_C(1) << bits < count)
        bits++;
    return mt_divide_up(bits, SORT_DIGIT_BITS);
}

/* Takes the places of the elements that `n` indices name, as one number each. Returns how many rows they may name. */
static int64_t linear_index(struct mt_operator_plan *plan, const struct mt_operator_call *call, int64_t n)
{
    const bool is_checked = mt_call_number(call, "unsafe", 0) == 0;
    const struct mt_operand *self = mt_call_tensor(call, "self");
    const struct mt_argument *indices = mt_call_find(call, "indices");
    int64_t rows = 1;
    bool has_linear = false;
    for (int64_t i = 0; i < indices->count && i < self->dims; i++) {
        if (indices->tensors[i].sizes == NULL)
            continue;
        for (int bound = 0; is_checked && bound < 2; bound++)
            check_bound(plan);
        const int wrapped = mt_inner_take(plan, MT_PRODUCT(n, COUNT_BYTES));
        const int strided = mt_inner_take(plan, MT_PRODUCT(n, COUNT_BYTES));
        mt_inner_give(plan, wrapped);
        if (has_linear)
            mt_inner_give(plan, strided);
        has_linear = true;
        rows *= self->sizes[i];
    }
    return rows;
}

/* Returns the first index of a list that has dimensions without one; NULL: none of whole numbers. */
static const struct mt_operand *first_index(const struct mt_operator_call *call)
{
    const struct mt_argument *indices = mt_call_list(call, "indices", MT_ARGUMENT_TENSORS);
    for (int64_t i = 0; indices != NULL && i < indices->count; i++)
        if (indices->tensors[i].sizes != NULL)
            return indices->tensors[i].dtype == MT_SCALAR_LONG ? &indices->tensors[i] : NULL;
    return NULL;
}

/* _index_put_impl: where values are added, the places are sorted first. */
MT_RULE(index_put)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    const bool is_added = mt_call_number(call, "accumulate", 0) != 0;
    const struct mt_operand *first = is_added ? first_index(call) : NULL;
    if (self == NULL || first == NULL || first->elements == 0)
        return;
    const int64_t n = first->elements, rows = linear_index(plan, call, n);
    for (int i = 0; i < 3; i++)
        mt_inner_take(plan, MT_PRODUCT(n, COUNT_BYTES));
    mt_inner_use(plan, mt_cub_sort_bytes(n, COUNT_BYTES, COUNT_BYTES, digits_below(rows)));
}

/* Sorts a few long rows: all elements by value, and then by their row. */
static void sort_twice(struct mt_operator_plan *plan, const struct mt_operand *self)
{
    const int64_t n = self->elements, places = MT_PRODUCT(n, COUNT_BYTES);
    const int first = mt_inner_take(plan, places), second = mt_inner_take(plan, places);
    const int keys = mt_inner_take(plan, MT_PRODUCT(n, self->item_bytes));
    mt_inner_use(plan, mt_cub_sort_bytes(n, self->item_bytes, COUNT_BYTES, self->item_bytes));
    mt_inner_give(plan, keys);
    const int64_t tiles = mt_divide_up(n, SORT_TILE_SEGMENT);
    mt_inner_use(plan, MT_PRODUCT(tiles, SORT_DIGITS, MT_FLOAT_BYTES) + MT_PRODUCT(SORT_DIGITS, COUNT_BYTES) +
                           CUB_FIXED_BYTES);
    mt_inner_give(plan, second);
    mt_inner_give(plan, first);
}

/* Sorts each row for itself, one after the other. */
static void sort_each(struct mt_operator_plan *plan, const struct mt_operand *self, int64_t row)
{
    const int places = mt_inner_take(plan, MT_PRODUCT(row, COUNT_BYTES));
    for (int64_t i = 0; i < mt_smaller(self->elements / row, SORT_MOST_LISTED); i++)
        mt_inner_use(plan, mt_cub_sort_bytes(row, self->item_bytes, COUNT_BYTES, self->item_bytes));
    mt_inner_give(plan, places);
}

void mt_inner_sort(struct mt_operator_plan *plan, const struct mt_operand *self, int64_t row)
{
    const int64_t rows = self->elements / row;
    if (row <= SORT_FEW) {
        mt_inner_use(plan, MT_PRODUCT(row, COUNT_BYTES));
    } else if (rows == 1 || row >= SORT_LONG_ROW) {
        sort_each(plan, self, row);
    } else if (rows < SORT_MANY_SEGMENTS) {
        sort_twice(plan, self);
    } else {
        const int places = mt_inner_take(plan, MT_PRODUCT(self->elements, COUNT_BYTES));
        mt_inner_use(plan, mt_round_up(MT_PRODUCT(self->elements, self->item_bytes), CUB_ALIGNMENT) +
                               mt_round_up(MT_PRODUCT(self->elements, COUNT_BYTES), CUB_ALIGNMENT) + CUB_ALIGNMENT - 1);
        mt_inner_give(plan, places);
    }
}

MT_RULE(sort)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (self != NULL && self->dims > 0 && self->elements > 0)
        mt_inner_sort(plan, self, self->sizes[mt_call_dimension(call, self, -1)]);
}

/* Takes sorted elements while their places are sorted with them. */
static void sort_elements(struct mt_operator_plan *plan, const struct mt_operand *self, int64_t row)
{
    mt_inner_take_like(plan, self);
    const int places = mt_inner_take(plan, MT_PRODUCT(self->elements, COUNT_BYTES));
    mt_inner_sort(plan, self, row);
    mt_inner_give(plan, places);
}

/* embedding_renorm: the rows that indices name, each once. */
MT_RULE(embedding_renorm)
{
    const struct mt_operand *indices = mt_call_tensor(call, "indices");
    if (indices == NULL || indices->dims == 0 || indices->elements == 0)
        return;
    sort_elements(plan, indices, indices->sizes[indices->dims - 1]);
    mt_inner_take_like(plan, indices);
    mt_inner_take(plan, COUNT_BYTES);
    mt_inner_use(plan, mt_cub_select_bytes(indices->elements));
}

/* Takes a copy of the input if it is not contiguous, and sorts all elements unless a dimension is named. Returns the
 * input if they are sorted, else NULL. */
static const struct mt_operand *sort_all(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    const int copy = mt_inner_copy(plan, self);
    if (self == NULL || self->elements == 0 || mt_call_find(call, "dim") != NULL)
        return NULL;
    sort_elements(plan, self, self->elements);
    mt_inner_give(plan, copy);
    return self;
}

/* median: the greatest element may be a NaN. */
MT_RULE(median)
{
    if (sort_all(plan, call) != NULL)
        mt_inner_take(plan, 1);
    mt_inner_outputs(plan, call, 0);
}

/* nanmedian: the NaNs are counted, as whole numbers. Of the other elements, it finds the place of the middle one. */
MT_RULE(nanmedian)
{
    const struct mt_operand *self = sort_all(plan, call);
    if (self != NULL) {
        struct mt_operand counted = *self;
        counted.item_bytes = COUNT_BYTES;
        counted.offset = 0;
        const int truths = mt_inner_take(plan, self->elements), count = mt_inner_take(plan, COUNT_BYTES);
        const int numbers = mt_inner_take_like(plan, &counted);
        mt_inner_reduce(plan, &counted, NULL, COUNT_BYTES);
        mt_inner_give(plan, numbers);
        const int rest = mt_inner_take(plan, COUNT_BYTES), half = mt_inner_take(plan, MT_FLOAT_BYTES);
        mt_inner_take(plan, COUNT_BYTES);
        const int last[] = {half, rest, count, truths};
        for (size_t i = 0; i < sizeof last / sizeof last[0]; i++)
            mt_inner_give(plan, last[i]);
    }
    mt_inner_outputs(plan, call, 0);
}

/* mode: rows are contiguous. Long ones are sorted by Thrust, one after the other, in memory that is not known. */
MT_RULE(mode)
{
    enum { MOST_IN_ONE_BLOCK = 2048 };
    const struct mt_operand *self = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (self == NULL || self->dims == 0 || self->elements == 0)
        return;
    const int64_t dim = mt_call_dimension(call, self, -1), row = self->sizes[dim];
    const bool is_turned = dim != self->dims - 1 || !self->is_contiguous;
    if (row == 1)
        return;
    if (is_turned || row > MOST_IN_ONE_BLOCK)
        mt_inner_take_like(plan, self);
    if (row > MOST_IN_ONE_BLOCK)
        mt_inner_uncounted(plan);
}

/* scatter_reduce: a mean counts the elements that each result has. */
MT_RULE(scatter_reduce)
{
    const struct mt_operand *self = mt_call_tensor(call, "self");
    mt_inner_outputs(plan, call, 0);
    if (self == NULL || !mt_call_is_text(call, "reduce", "mean"))
        return;
    mt_inner_take_like(plan, mt_call_tensor(call, "src"));
    mt_inner_take_like(plan, self);
    mt_inner_use(plan, self->elements); /* whether a count is 0 */
}

/* index_reduce: the same. Without the elements that were there before, indices of 8 bytes name what is filled. */
MT_RULE(index_reduce)
{
    const struct mt_operand *self = mt_call_tensor(call, "self"), *index = mt_call_tensor(call, "index");
    mt_inner_outputs(plan, call, 0);
    if (self == NULL || index == NULL)
        return;
    if (mt_call_integer(call, "include_self", 1) == 0 && index->dtype != MT_SCALAR_LONG)
        mt_inner_use(plan, MT_PRODUCT(index->elements, COUNT_BYTES));
    if (!mt_call_is_text(call, "reduce", "mean"))
        return;
    mt_inner_take_like(plan, self);
    mt_inner_use(plan, mt_operand_bytes(mt_call_tensor(call, "source")));
    mt_inner_use(plan, self->elements);
}
