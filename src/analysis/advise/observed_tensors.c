#include "analysis/advise/observed_tensors.h"

#include "base/memory.h"
#include "base/order.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_PART = 3 }; /* results of broadcasting and logits count if they are this part of the peak */

/* ---- shapes ---- */

/* Returns the number of elements of a shape such as "8,512,768"; 0 if it is not known. Numbers of damaged traces
 * saturate. */
static uint64_t count_elements(const char *shape)
{
    uint64_t elements = shape[0] != '\0';
    for (const char *at = shape; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        const uint64_t size = strtoull(at, NULL, 10);
        elements = size != 0 && elements > UINT64_MAX / size ? UINT64_MAX : elements * size;
    }
    return elements;
}

static uint64_t last_size(const char *shape)
{
    const char *comma = strrchr(shape, ',');
    return comma != NULL ? strtoull(comma + 1, NULL, 10) : 0;
}

/* ---- callers ---- */

/* The blocks at the peak with the frames that allocated them. */
struct called {
    const struct mt_moment_blocks *peak;
    struct mt_stack_row *stacks;
    uint32_t *callers; /* by block; 0: not recorded */
};

static mt_status called_create(const struct mt_question *question, const struct mt_moment_blocks *peak,
                               struct called *out)
{
    size_t count = 0;
    *out = (struct called){.peak = peak};
    MT_TRY(mt_trace_stacks(question->trace, question->run, &out->stacks, &count));
    out->callers = mt_host_alloc((peak->count + 1) * sizeof *out->callers);
    return mt_trace_callers(question->trace, question->run, peak->blocks, peak->count, count, out->callers);
}

static void called_release(struct called *called)
{
    free(called->stacks);
    free(called->callers);
}

/* True for a file of PyTorch whose functions pass tensors on to an operator: functional.py, _tensor.py. */
static bool passes_on(const char *file)
{
    static const char *const files[] = {"torch/_tensor.py", "torch/functional.py", "torch/nn/functional.py"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strstr(file, files[i]) != NULL)
            return true;
    return false;
}

/* True if the program's own code, not a library's module, called the operator that allocated the block. */
static bool is_of_own_code(const struct called *called, size_t index)
{
    uint32_t at = called->callers[index];
    while (at != 0 && passes_on(called->stacks[at].file))
        at = called->stacks[at].parent;
    return at != 0 && mt_stack_file_is_own(called->stacks[at].file);
}

static const struct mt_label_row *label_at(const struct mt_moment_blocks *moment, size_t index)
{
    return &moment->labels[moment->blocks[index].label];
}

static bool is_forward(const struct mt_label_row *label)
{
    return mt_label_is_in_phase(label, MT_PHASE_FORWARD) || mt_label_is_in_phase(label, MT_PHASE_LOSS);
}

/* Adds an observation about tensors with one label. Nothing if the sum is not worth it. */
static mt_status add_tensor(const struct mt_question *question, const struct mt_moment_blocks *peak,
                            struct mt_block_sum sum, const struct mt_label_row *label, struct mt_observed found,
                            struct mt_observations *out)
{
    const size_t before = out->count;
    MT_TRY(mt_observations_add_sum(question, peak, sum, found.kind, found.change, out));
    if (out->count == before)
        return MT_OK;
    out->items[before].op = label->op;
    out->items[before].dtype = label->dtype;
    out->items[before].shape = label->shape;
    return MT_OK;
}

/* ---- broadcasting ---- */

/* True if an operator of PyTorch has one of the names, without "aten::". */
static bool is_operator(const struct mt_label_row *label, const char *const *names, size_t count)
{
    static const char begin[] = "aten::";
    if (strncmp(label->op, begin, sizeof begin - 1) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(label->op + sizeof begin - 1, names[i]) == 0)
            return true;
    return false;
}

static bool is_elementwise(const struct mt_label_row *label)
{
    static const char *const names[] = {"add",     "sub",     "rsub",        "mul",        "div", "where",
                                        "eq",      "ne",      "lt",          "le",         "gt",  "ge",
                                        "maximum", "minimum", "logical_and", "logical_or", "pow", "fmod"};
    return is_operator(label, names, sizeof names / sizeof names[0]);
}

/* True for an operator that copies a tensor on the card, also an expanded one. */
static bool is_copy(const struct mt_label_row *label)
{
    static const char *const names[] = {"clone", "contiguous"};
    return is_operator(label, names, sizeof names / sizeof names[0]);
}

/* True for a conversion to another dtype, or a copy from the host. */
static bool is_conversion(const struct mt_label_row *label)
{
    static const char *const names[] = {"_to_copy"};
    return is_operator(label, names, sizeof names / sizeof names[0]);
}

/* Sums the blocks with as many elements as the tensor of a block, and sets that block's event. */
static struct mt_block_sum sum_of_size(const struct mt_moment_blocks *peak, size_t index)
{
    struct mt_block_sum sum = {0};
    const uint64_t elements = count_elements(label_at(peak, index)->shape);
    for (size_t i = 0; i < peak->count; i++)
        if (count_elements(label_at(peak, i)->shape) == elements)
            mt_block_sum_add(peak, i, &sum);
    sum.event = peak->blocks[index].alloc_event;
    return sum;
}

/* True if a block may be an input of the size of `result`, or of a quarter of it at least. Other results of the same
 * operator, as of another iteration, are not. */
static bool may_be_input(const struct mt_moment_blocks *moment, size_t index, const struct mt_block_row *result)
{
    enum { MOST_GROWTH = 4 };
    const struct mt_label_row *label = label_at(moment, index), *ours = &moment->labels[result->label];
    const uint64_t elements = count_elements(label->shape);
    if (moment->blocks[index].label == result->label || mt_label_is_role(label, MT_ROLE_WORKSPACE) ||
        mt_label_is_role(label, MT_ROLE_OPTIMIZER_STATE))
        return false;
    if (elements == 0)
        return moment->blocks[index].requested_bytes >= result->requested_bytes / MOST_GROWTH;
    return elements >= count_elements(ours->shape) / MOST_GROWTH;
}

/* What was live when an operator allocated its result. */
struct inputs {
    bool has_other;            /* a tensor of at least a quarter of its size */
    struct mt_block_row alike; /* the last one with as many elements; alloc_event 0: none */
};

static mt_status find_inputs(const struct mt_question *question, const struct mt_moment_blocks *peak,
                             const struct mt_block_row *result, struct inputs *out)
{
    const uint64_t elements = count_elements(peak->labels[result->label].shape);
    struct mt_moment_blocks moment = *peak;
    struct mt_block_row *blocks = NULL;
    *out = (struct inputs){.has_other = false};
    mt_status status = mt_moment_blocks_read(question, result->alloc_event, &blocks, &moment);
    for (size_t i = 0; i < moment.count && status == MT_OK; i++) {
        if (!may_be_input(&moment, i, result))
            continue;
        if (count_elements(label_at(&moment, i)->shape) == elements)
            out->alike = blocks[i]; /* in the order of their allocation */
        else
            out->has_other = true;
    }
    free(blocks);
    return status;
}

/* Finds the first of the results of one size from which a result was computed, whose inputs are all much smaller.
 * alloc_event 0: there is none. */
static mt_status find_origin(const struct mt_question *question, const struct mt_moment_blocks *peak,
                             const struct mt_block_row *result, struct mt_block_row *out)
{
    enum { MOST_RESULTS = 4 };
    *out = *result;
    for (int i = 0; i < MOST_RESULTS; i++) {
        struct inputs inputs;
        MT_TRY(find_inputs(question, peak, out, &inputs));
        if (inputs.has_other)
            break;
        if (inputs.alike.alloc_event == 0)
            return MT_OK;
        *out = inputs.alike;
    }
    *out = (struct mt_block_row){.alloc_event = 0};
    return MT_OK;
}

/* Adds the tensors of an origin's size: of an operator that broadcasts, or copies of an expanded tensor. */
static mt_status add_of_origin(const struct mt_question *question, const struct called *called,
                               const struct mt_block_row *origin, struct mt_block_sum sum, struct mt_observations *out)
{
    const struct mt_label_row *label = &called->peak->labels[origin->label];
    sum.event = origin->alloc_event;
    if (is_elementwise(label))
        return add_tensor(
            question, called->peak, sum, label,
            (struct mt_observed){.kind = MT_OBSERVED_BROADCAST, .change = MT_OBSERVED_CHANGE_NO_BROADCAST}, out);
    if (!is_copy(label))
        return MT_OK;
    return add_tensor(question, called->peak, sum, label,
                      (struct mt_observed){.kind = MT_OBSERVED_REPEATED, .change = MT_OBSERVED_CHANGE_EXPAND}, out);
}

/* Adds the first result of broadcasting, or copy of an expanded tensor, whose size is a third of the peak. */
static mt_status add_broadcast(const struct mt_question *question, const struct called *called,
                               struct mt_observations *out)
{
    const struct mt_moment_blocks *peak = called->peak;
    const size_t before = out->count;
    for (size_t i = 0; i < peak->count && out->count == before; i++) {
        const struct mt_label_row *label = label_at(peak, i);
        struct mt_block_row origin;
        if (!(is_elementwise(label) || is_copy(label) || is_conversion(label)) || !is_forward(label) ||
            label->shape[0] == '\0' || !is_of_own_code(called, i))
            continue;
        const struct mt_block_sum sum = sum_of_size(peak, i);
        if (sum.bytes < peak->bytes / LEAST_PART)
            continue;
        MT_TRY(find_origin(question, peak, &peak->blocks[i], &origin));
        if (origin.alloc_event != 0)
            MT_TRY(add_of_origin(question, called, &origin, sum, out));
    }
    return MT_OK;
}

/* ---- pairs ---- */

/* True for an operator that may compute a value for each pair of rows of two tensors. */
static bool is_of_pairs(const struct mt_label_row *label)
{
    static const char *const names[] = {"_cdist_forward", "_euclidean_dist", "cdist", "mm", "matmul", "bmm"};
    return is_operator(label, names, sizeof names / sizeof names[0]) && !mt_label_is_in_phase(label, MT_PHASE_BACKWARD);
}

/* Adds the values of all pairs, if they are half of the peak and much larger than the tensors that they are of. */
static mt_status add_pairs(const struct mt_question *question, const struct called *called, struct mt_observations *out)
{
    const struct mt_moment_blocks *peak = called->peak;
    for (size_t i = 0; i < peak->count; i++) {
        struct inputs inputs;
        if (!is_of_pairs(label_at(peak, i)) || !is_of_own_code(called, i))
            continue;
        const struct mt_block_sum sum = sum_of_size(peak, i);
        if (sum.bytes < peak->bytes / 2)
            continue;
        MT_TRY(find_inputs(question, peak, &peak->blocks[i], &inputs));
        if (!inputs.has_other && inputs.alike.alloc_event == 0)
            return add_tensor(question, peak, sum, label_at(peak, i),
                              (struct mt_observed){.kind = MT_OBSERVED_PAIRS, .change = MT_OBSERVED_CHANGE_PARTS}, out);
    }
    return MT_OK;
}

/* ---- repeats ---- */

/* Adds the copies that repeat() makes. */
static mt_status add_repeated(const struct mt_question *question, const struct called *called,
                              struct mt_observations *out)
{
    const struct mt_moment_blocks *peak = called->peak;
    const struct mt_label_row *label = NULL;
    struct mt_block_sum sum = {0};
    for (size_t i = 0; i < peak->count; i++) {
        const struct mt_label_row *of = label_at(peak, i);
        if ((strcmp(of->op, "aten::repeat") != 0 && strcmp(of->op, "aten::repeat_interleave") != 0) ||
            !is_forward(of) || !is_of_own_code(called, i))
            continue;
        const uint64_t largest = sum.largest;
        mt_block_sum_add(peak, i, &sum);
        label = sum.largest > largest ? of : label;
    }
    if (label == NULL)
        return MT_OK;
    return add_tensor(question, peak, sum, label,
                      (struct mt_observed){.kind = MT_OBSERVED_REPEATED, .change = MT_OBSERVED_CHANGE_EXPAND}, out);
}

/* ---- classes ---- */

/* True for labels with a value for each class, as torch.nn.functional.one_hot makes them. */
static bool is_one_hot(const struct mt_label_row *label)
{
    enum { LEAST_CLASSES = 16 };
    return strcmp(label->op, "aten::zeros") == 0 && strcmp(label->dtype, "int64") == 0 &&
           last_size(label->shape) >= LEAST_CLASSES && is_forward(label);
}

enum { LEAST_CLASSES = 4096 };

/* Returns the label of the cross entropy with the most classes; NULL if none has many. */
static const struct mt_label_row *label_of_cross_entropy(const struct mt_moment_blocks *peak)
{
    const struct mt_label_row *found = NULL;
    uint64_t most = LEAST_CLASSES - 1;
    for (size_t i = 0; i < peak->label_count; i++) {
        const struct mt_label_row *label = &peak->labels[i];
        if (strcmp(label->op, "aten::_log_softmax") != 0 || last_size(label->shape) <= most)
            continue;
        found = label;
        most = last_size(label->shape);
    }
    return found;
}

/* True if a span is an attribute of the module at another span, and not of a module inside it. */
static bool is_attribute(const char *span, const char *module)
{
    const size_t length = strlen(module);
    return length > 0 && strncmp(span, module, length) == 0 && span[length] == '.' &&
           strchr(span + length + 1, '.') == NULL;
}

/* True for the parameter of a module whose forward looks up rows in it. */
static bool is_table(const struct mt_moment_blocks *peak, const struct mt_label_row *label)
{
    if (!mt_label_is_role(label, MT_ROLE_PARAMETER))
        return false;
    for (size_t i = 0; i < peak->label_count; i++) {
        const struct mt_label_row *other = &peak->labels[i];
        if (strcmp(other->category, mt_category_name(MT_CATEGORY_EMBED)) == 0 && is_attribute(label->span, other->span))
            return true;
    }
    return false;
}

/* Returns the number of rows of the largest embedding table, such as a vocabulary; 0 if there is none. */
static uint64_t count_embedded(const struct mt_moment_blocks *peak)
{
    uint64_t most = 0;
    for (size_t i = 0; i < peak->label_count; i++)
        if (is_table(peak, &peak->labels[i]))
            most = mt_larger(most, strtoull(peak->labels[i].shape, NULL, 10));
    return most;
}

/* Returns the label of logits of many classes: of a cross entropy, or of the largest tensor with a value for each
 * embedded token, where a run ends before its loss. NULL: there are none. */
static const struct mt_label_row *label_of_logits(const struct mt_moment_blocks *peak)
{
    const struct mt_label_row *found = label_of_cross_entropy(peak);
    const uint64_t classes = found == NULL ? count_embedded(peak) : 0;
    uint64_t most = 0;
    for (size_t i = 0; i < peak->count && classes >= LEAST_CLASSES; i++) {
        const struct mt_label_row *label = label_at(peak, i);
        if (!is_forward(label) || last_size(label->shape) != classes || peak->blocks[i].block_bytes <= most)
            continue;
        found = label;
        most = peak->blocks[i].block_bytes;
    }
    return found;
}

/* Adds the logits, their softmax and their gradients, if they are a third of the peak and no loop keeps them. */
static mt_status add_logits(const struct mt_question *question, const struct mt_moment_blocks *peak,
                            struct mt_observations *out)
{
    const struct mt_label_row *logits = label_of_logits(peak);
    struct mt_block_sum sum = {0};
    for (size_t i = 0; i < peak->count && logits != NULL; i++) {
        const struct mt_label_row *label = label_at(peak, i);
        if (last_size(label->shape) == last_size(logits->shape) &&
            (mt_label_is_role(label, MT_ROLE_ACTIVATION) || mt_label_is_role(label, MT_ROLE_TEMPORARY)))
            mt_block_sum_add(peak, i, &sum);
    }
    if (sum.bytes < peak->bytes / LEAST_PART || sum.bytes == 0 || mt_observations_have_growth(out))
        return MT_OK;
    return add_tensor(question, peak, sum, logits,
                      (struct mt_observed){.kind = MT_OBSERVED_LOGITS, .change = MT_OBSERVED_CHANGE_SLICED_LOSS}, out);
}

/* ---- precision ---- */

static bool is_double(const struct mt_label_row *label)
{
    return strcmp(label->dtype, "fp64") == 0;
}

static mt_status add_doubles(const struct mt_question *question, const struct mt_moment_blocks *peak,
                             struct mt_observations *out)
{
    enum { LEAST_DOUBLES = 4 };
    const struct mt_block_sum sum = mt_block_sum_of(peak, is_double);
    if (sum.bytes < peak->bytes / LEAST_DOUBLES)
        return MT_OK;
    return mt_observations_add_sum(question, peak, sum, MT_OBSERVED_DOUBLES, MT_OBSERVED_CHANGE_FLOAT32, out);
}

/* ---- inference ---- */

static bool is_of_backward(const struct mt_label_row *label)
{
    return mt_label_is_in_phase(label, MT_PHASE_BACKWARD);
}

/* True for what a forward pass computes, and its operators' scratch memory. */
static bool is_computed(const struct mt_label_row *label)
{
    return is_forward(label) &&
           (mt_label_is_role(label, MT_ROLE_ACTIVATION) || mt_label_is_role(label, MT_ROLE_TEMPORARY));
}

/* True for results with several samples. */
static bool is_of_batch(const struct mt_label_row *label)
{
    return is_computed(label) && strtoull(label->shape, NULL, 10) > 1 && strchr(label->shape, ',') != NULL;
}

/* Returns the label of the largest block of a batch; NULL if there is none. */
static const struct mt_label_row *largest_of_batch(const struct mt_moment_blocks *peak)
{
    const struct mt_label_row *found = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < peak->count; i++) {
        if (!is_of_batch(label_at(peak, i)) || peak->blocks[i].block_bytes <= most)
            continue;
        found = label_at(peak, i);
        most = peak->blocks[i].block_bytes;
    }
    return found;
}

/* True if much more is reserved than allocated, which smaller batches help less than other settings of the
 * allocator. */
static mt_status is_fragmented(const struct mt_question *question, const struct mt_moment_blocks *peak, bool *out)
{
    struct mt_peak_row reserved;
    mt_status status = mt_trace_peak(question->trace, question->run, MT_MEASURE_RESERVED, &reserved);
    *out = reserved.bytes / 2 > peak->bytes;
    mt_peak_row_release(&reserved);
    return status;
}

/* Adds a forward pass without gradients that is nearly the whole peak, if nothing else explains it. */
static mt_status add_one_forward(const struct mt_question *question, const struct mt_moment_blocks *peak,
                                 const char *phase, struct mt_observations *out)
{
    enum { EIGHTHS = 6 };
    const struct mt_block_sum sum = mt_block_sum_of(peak, is_computed);
    const struct mt_label_row *largest = largest_of_batch(peak);
    bool is_of_gaps = false;
    if (out->count > 0 || largest == NULL || strcmp(phase, mt_phase_name(MT_PHASE_FORWARD)) != 0 ||
        !mt_run_is(question->run, MT_RUN_DONE) || mt_moment_has_label(peak, is_of_backward) ||
        sum.bytes / EIGHTHS < peak->bytes / 8)
        return MT_OK;
    MT_TRY(is_fragmented(question, peak, &is_of_gaps));
    if (is_of_gaps)
        return MT_OK;
    return add_tensor(question, peak, sum, largest,
                      (struct mt_observed){.kind = MT_OBSERVED_ONE_FORWARD, .change = MT_OBSERVED_CHANGE_SLICE_BATCH},
                      out);
}

/* ---- all ---- */

mt_status mt_observations_add_tensors(const struct mt_question *question, const struct mt_moment_blocks *peak,
                                      const char *phase, struct mt_observations *out)
{
    struct called called;
    mt_status status = called_create(question, peak, &called);
    MT_THEN(status, mt_observations_add_sum(question, peak, mt_block_sum_of(peak, is_one_hot), MT_OBSERVED_ONE_HOT,
                                            MT_OBSERVED_CHANGE_CLASS_INDICES, out));
    MT_THEN(status, add_broadcast(question, &called, out));
    MT_THEN(status, add_repeated(question, &called, out));
    MT_THEN(status, add_pairs(question, &called, out));
    MT_THEN(status, add_logits(question, peak, out));
    MT_THEN(status, add_doubles(question, peak, out));
    MT_THEN(status, add_one_forward(question, peak, phase, out));
    called_release(&called);
    return status;
}
