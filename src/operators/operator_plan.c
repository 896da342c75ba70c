#include "operators/operator_plan.h"

#include "base/checked.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1024, LONGEST_NAME = 96 };

/* ---- the table ---- */

/* True if the word stands between blanks in the text. */
static bool has_word(const char *text, const char *word, size_t length)
{
    for (const char *found = strstr(text, word); found != NULL; found = strstr(found + 1, word))
        if ((found == text || found[-1] == ' ') && (found[length] == ' ' || found[length] == '\0'))
            return true;
    return false;
}

static const struct mt_operator_row *find_word(const char *word, size_t length)
{
    for (int i = 0; i < mt_operator_row_count; i++)
        if (has_word(mt_operator_rows[i].names, word, length))
            return &mt_operator_rows[i];
    return NULL;
}

const struct mt_operator_row *mt_operator_find(const char *name)
{
    static const char ATEN[] = "aten::";
    char word[LONGEST_NAME];
    const char *begin = strncmp(name, ATEN, sizeof ATEN - 1) == 0 ? name + sizeof ATEN - 1 : name;
    const size_t length = strlen(begin);
    if (length == 0 || length >= sizeof word)
        return NULL;
    memcpy(word, begin, length + 1);
    const struct mt_operator_row *row = find_word(word, length);
    if (row != NULL || word[length - 1] != '_')
        return row;
    word[length - 1] = '\0';
    return find_word(word, length - 1);
}

int mt_operator_plan(const struct mt_card *card, const struct mt_convolution_source *convolutions,
                     const struct mt_operator_call *call, struct mt_inner *out)
{
    const struct mt_operator_row *row = mt_operator_find(call->name);
    struct mt_operator_plan plan = {.card = card, .convolutions = convolutions};
    if (row == NULL)
        return MT_INNER_UNKNOWN;
    if (row->rule != NULL)
        row->rule(&plan, call);
    for (int block = plan.taken - 1; block >= 0; block--)
        if (!plan.is_given[block])
            mt_inner_give(&plan, block);
    memcpy(out, plan.actions, (size_t)plan.count * sizeof *out);
    return plan.count;
}

/* ---- actions ---- */

static void add(struct mt_operator_plan *plan, enum mt_inner_kind kind, int number, int64_t bytes)
{
    assert(plan->count < MT_INNER_MOST && number >= 0 && bytes >= 0);
    plan->actions[plan->count++] = (struct mt_inner){.kind = kind, .number = number, .bytes = bytes};
}

int mt_inner_take(struct mt_operator_plan *plan, int64_t bytes)
{
    add(plan, MT_INNER_TAKE, plan->taken, bytes);
    return plan->taken++;
}

int mt_inner_take_like(struct mt_operator_plan *plan, const struct mt_operand *tensor)
{
    return tensor == NULL ? -1 : mt_inner_take(plan, mt_operand_bytes(tensor));
}

int mt_inner_copy(struct mt_operator_plan *plan, const struct mt_operand *tensor)
{
    return mt_inner_take_like(plan, tensor == NULL || tensor->is_contiguous ? NULL : tensor);
}

void mt_inner_copy_each(struct mt_operator_plan *plan, const struct mt_operator_call *call, const char *const *names)
{
    for (; *names != NULL; names++)
        mt_inner_copy(plan, mt_call_tensor(call, *names));
}

void mt_inner_give(struct mt_operator_plan *plan, int block)
{
    assert(block < plan->taken);
    if (block < 0)
        return;
    add(plan, MT_INNER_GIVE, block, 0);
    plan->is_given[block] = true;
}

void mt_inner_use(struct mt_operator_plan *plan, int64_t bytes)
{
    mt_inner_give(plan, mt_inner_take(plan, bytes));
}

void mt_inner_trial(struct mt_operator_plan *plan)
{
    add(plan, MT_INNER_TRIAL, 0, 0);
}

void mt_inner_try(struct mt_operator_plan *plan, int way, int64_t bytes)
{
    add(plan, MT_INNER_TRY, way, bytes);
}

/* Sets the range of the last action. */
static void set_range(struct mt_operator_plan *plan, struct mt_byte_range range)
{
    struct mt_inner *last = &plan->actions[plan->count - 1];
    assert(range.high == 0 || (range.low <= last->bytes && last->bytes <= range.high));
    last->range = range;
}

void mt_inner_use_about(struct mt_operator_plan *plan, int64_t bytes, struct mt_byte_range range)
{
    const int block = mt_inner_take(plan, bytes);
    set_range(plan, range);
    mt_inner_give(plan, block);
}

void mt_inner_try_about(struct mt_operator_plan *plan, int way, int64_t bytes, struct mt_byte_range range)
{
    mt_inner_try(plan, way, bytes);
    set_range(plan, range);
}

void mt_inner_output(struct mt_operator_plan *plan, int output)
{
    add(plan, MT_INNER_OUTPUT, output, 0);
}

void mt_inner_wide_output(struct mt_operator_plan *plan, int output, int64_t bytes)
{
    add(plan, MT_INNER_OUTPUT, output, bytes);
}

void mt_inner_host(struct mt_operator_plan *plan, int output)
{
    add(plan, MT_INNER_HOST, output, 0);
}

void mt_inner_keep(struct mt_operator_plan *plan, int workspace, int64_t bytes)
{
    assert(workspace < MT_WORKSPACE_COUNT);
    add(plan, MT_INNER_KEEP, workspace, bytes);
}

void mt_inner_guess(struct mt_operator_plan *plan)
{
    add(plan, MT_INNER_GUESS, 0, 0);
}

void mt_inner_uncounted(struct mt_operator_plan *plan)
{
    add(plan, MT_INNER_UNCOUNTED, 0, 0);
}

void mt_inner_outputs(struct mt_operator_plan *plan, const struct mt_operator_call *call, int first)
{
    for (int i = first; i < call->output_count; i++)
        mt_inner_output(plan, i);
}

int64_t mt_product_of(const int64_t *factors, size_t count)
{
    uint64_t product = 1;
    for (size_t i = 0; i < count; i++)
        if (!mt_checked_mul(product, (uint64_t)factors[i], &product) || product > INT64_MAX)
            return INT64_MAX;
    return (int64_t)product;
}

/* ---- arguments ---- */

const struct mt_argument *mt_call_find(const struct mt_operator_call *call, const char *name)
{
    for (int32_t i = 0; i < call->argument_count; i++)
        if (strcmp(call->arguments[i].name, name) == 0)
            return call->arguments[i].kind != MT_ARGUMENT_NONE ? &call->arguments[i] : NULL;
    return NULL;
}

const struct mt_argument *mt_call_list(const struct mt_operator_call *call, const char *name,
                                       enum mt_argument_kind kind)
{
    const struct mt_argument *given = mt_call_find(call, name);
    return given != NULL && given->kind == kind ? given : NULL;
}

const struct mt_operand *mt_call_tensor(const struct mt_operator_call *call, const char *name)
{
    const struct mt_argument *given = mt_call_list(call, name, MT_ARGUMENT_TENSORS);
    return given != NULL && given->count > 0 ? given->tensors : NULL;
}

double mt_call_number(const struct mt_operator_call *call, const char *name, double otherwise)
{
    const struct mt_argument *given = mt_call_find(call, name);
    if (given == NULL)
        return otherwise;
    return given->kind == MT_ARGUMENT_NUMBER                                       ? given->number
           : given->kind == MT_ARGUMENT_INTEGER || given->kind == MT_ARGUMENT_BOOL ? (double)given->integer
                                                                                   : otherwise;
}

int64_t mt_call_integer(const struct mt_operator_call *call, const char *name, int64_t otherwise)
{
    return (int64_t)mt_call_number(call, name, (double)otherwise);
}

bool mt_call_is_text(const struct mt_operator_call *call, const char *name, const char *text)
{
    const struct mt_argument *given = mt_call_list(call, name, MT_ARGUMENT_TEXT);
    return given != NULL && strcmp(given->text, text) == 0;
}

int64_t mt_call_dimension(const struct mt_operator_call *call, const struct mt_operand *tensor, int64_t otherwise)
{
    const int64_t dim = mt_call_integer(call, "dim", otherwise), found = dim < 0 ? dim + tensor->dims : dim;
    assert(found >= 0 && found < tensor->dims);
    return found;
}

uint64_t mt_matmul_workspace(const char *configuration, uint64_t otherwise)
{
    uint64_t sum = 0;
    if (configuration == NULL || configuration[0] != ':')
        return otherwise;
    for (const char *next = configuration; *next == ':';) {
        char *end;
        const uint64_t kib = strtoull(next + 1, &end, 10);
        if (end == next + 1 || *end != ':')
            return otherwise;
        const char *second = end + 1;
        const uint64_t count = strtoull(second, &end, 10);
        uint64_t bytes;
        if (end == second || !mt_checked_mul(kib, count, &bytes) || !mt_checked_mul(bytes, KIB, &bytes) ||
            !mt_checked_add(sum, bytes, &sum))
            return otherwise;
        next = end;
    }
    return sum;
}
