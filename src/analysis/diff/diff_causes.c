/* Each pair of blocks has one cause, or two that share its bytes, so that no bytes are left unexplained. */
#include "analysis/diff/diff_kinds.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *mt_cause_name(mt_cause cause)
{
    static const char *const names[] = {
#define X(name, text) [MT_CAUSE_##name] = text,
        MT_CAUSES(X)
#undef X
    };
    assert(cause < MT_CAUSE_COUNT);
    return names[cause];
}

/* A cause during summation. */
struct cause {
    struct mt_diff_cause cause;
    const struct diff_pair *most_up, *most_down; /* the pairs with the largest increase and decrease; NULL: none */
    int64_t most_up_bytes, most_down_bytes;
};

struct causes {
    struct cause *items;
    size_t count;
};

/* Returns the kind of the pair's blocks; A's kind if both sides have some. */
static const struct diff_kind *kind_of(const struct diff_pair *pair)
{
    return pair->of[pair->of[MT_SIDE_A] != NULL ? MT_SIDE_A : MT_SIDE_B];
}

static bool has_role(const struct diff_kind *kind, mt_role role)
{
    return strcmp(kind->role, mt_role_name(role)) == 0;
}

/* True if the blocks are operands of matrix products, converted for them and kept until the product's backward. */
static bool is_operand_copy(const struct diff_kind *kind)
{
    return has_role(kind, MT_ROLE_ACTIVATION) && strcmp(kind->op, "cast") == 0 &&
           strcmp(kind->category, mt_category_name(MT_CATEGORY_EINSUM)) == 0;
}

/* Finds the cause if the blocks' role determines it. False if it does not. */
static bool find_cause_of_role(const struct diff_kind *kind, mt_cause *out)
{
    static const struct {
        mt_role role;
        mt_cause cause;
    } causes[] = {{MT_ROLE_PARAMETER, MT_CAUSE_PARAMETERS},
                  {MT_ROLE_GRADIENT, MT_CAUSE_GRADIENTS},
                  {MT_ROLE_OPTIMIZER_STATE, MT_CAUSE_OPTIMIZER_STATE},
                  {MT_ROLE_TEMPORARY, MT_CAUSE_TEMPORARIES},
                  {MT_ROLE_WEIGHT_CAST, MT_CAUSE_WEIGHT_CASTS},
                  {MT_ROLE_WORKSPACE, MT_CAUSE_WORKSPACES},
                  {MT_ROLE_INPUT, MT_CAUSE_DATA}};
    *out = kind->is_of_earlier_step ? MT_CAUSE_LAST_GRADIENTS : MT_CAUSE_OPERAND_COPIES;
    if (kind->is_of_earlier_step || is_operand_copy(kind))
        return true;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        *out = causes[i].cause;
        if (has_role(kind, causes[i].role))
            return true;
    }
    return false;
}

/* Returns the cause with this kind and category, and adds it if necessary. */
static struct cause *cause_of(struct causes *causes, mt_cause kind, const char *category)
{
    for (size_t i = 0; i < causes->count; i++)
        if (causes->items[i].cause.kind == kind && causes->items[i].cause.category == category)
            return &causes->items[i];
    causes->items = mt_host_room(causes->items, causes->count, sizeof *causes->items);
    causes->items[causes->count] = (struct cause){.cause = {.kind = kind, .category = category}};
    return &causes->items[causes->count++];
}

static void add_to(struct cause *cause, const struct diff_pair *pair, int64_t bytes)
{
    struct mt_diff_cause *sum = &cause->cause;
    sum->bytes = (int64_t)((uint64_t)sum->bytes + (uint64_t)bytes);
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        if (pair->of[side] == NULL)
            continue;
        sum->blocks[side] += pair->count;
        sum->requested_bytes[side] += pair->count * pair->of[side]->requested_bytes;
    }
    if (bytes > cause->most_up_bytes) {
        cause->most_up = pair;
        cause->most_up_bytes = bytes;
    }
    if (bytes < cause->most_down_bytes) {
        cause->most_down = pair;
        cause->most_down_bytes = bytes;
    }
}

/* Returns the bytes of an element; 0 for an unknown precision. */
static uint64_t element_bytes(const char *dtype)
{
    for (int i = 0; i < MT_DTYPE_COUNT; i++)
        if (strcmp(dtype, mt_dtype_name((mt_dtype)i)) == 0)
            return mt_dtype_bytes((mt_dtype)i);
    return 0;
}

/* Returns the part of a pair's bytes that its precision explains. If n elements of s bytes become m elements of t
 * bytes, then n s - m t = (s - t)(n + m)/2 + (n - m)(s + t)/2; returns the first term. */
static int64_t precision_bytes(const struct diff_pair *pair)
{
    const struct diff_kind *a = pair->of[MT_SIDE_A], *b = pair->of[MT_SIDE_B];
    if (a->dtype == b->dtype)
        return 0;
    if (a->shape == b->shape)
        return diff_pair_bytes(pair);
    uint64_t a_element = element_bytes(a->dtype), b_element = element_bytes(b->dtype);
    if (a_element == 0 || b_element == 0)
        return 0;
    uint64_t elements = a->requested_bytes / a_element + b->requested_bytes / b_element;
    return (int64_t)((b_element - a_element) * elements * pair->count) / 2;
}

static void add_share(struct cause *cause, const struct diff_pair *pair, int64_t bytes, bool is_shared)
{
    add_to(cause, pair, bytes);
    cause->cause.is_shared = cause->cause.is_shared || is_shared;
}

static void collect_activation(const struct diff_pair *pair, const struct diff_kind *kind, struct causes *out)
{
    int64_t bytes = diff_pair_bytes(pair);
    if (pair->is_momentary) {
        add_to(cause_of(out, MT_CAUSE_ACTIVATION_MOMENT, ""), pair, bytes);
        return;
    }
    if (pair->of[MT_SIDE_A] == NULL || pair->of[MT_SIDE_B] == NULL) {
        add_to(cause_of(out, MT_CAUSE_ACTIVATION_COUNT, kind->category), pair, bytes);
        return;
    }
    int64_t of_precision = precision_bytes(pair), of_size = (int64_t)((uint64_t)bytes - (uint64_t)of_precision);
    bool is_shared = of_precision != 0 && of_size != 0;
    if (of_precision != 0)
        add_share(cause_of(out, MT_CAUSE_ACTIVATION_PRECISION, kind->category), pair, of_precision, is_shared);
    if (of_size != 0)
        add_share(cause_of(out, MT_CAUSE_ACTIVATION_SIZE, kind->category), pair, of_size, is_shared);
}

static void collect(const struct diff_pairs *pairs, struct causes *out)
{
    for (size_t i = 0; i < pairs->count; i++) {
        const struct diff_pair *pair = &pairs->items[i];
        const struct diff_kind *kind = kind_of(pair);
        mt_cause cause;
        if (find_cause_of_role(kind, &cause))
            add_to(cause_of(out, cause, ""), pair, diff_pair_bytes(pair));
        else
            collect_activation(pair, kind, out);
    }
}

static bool is_on_both_sides(const struct diff_pair *pair)
{
    return pair->of[MT_SIDE_A] != NULL && pair->of[MT_SIDE_B] != NULL;
}

/* True if one side keeps a tensor for a matrix product unchanged, and the other side a copy in another precision. */
static bool stands_for(const struct diff_pair *copy, const struct diff_pair *original)
{
    if (is_on_both_sides(copy) || is_on_both_sides(original))
        return false;
    const struct diff_kind *of_copy = kind_of(copy), *of_original = kind_of(original);
    bool is_other_side = (copy->of[MT_SIDE_A] == NULL) != (original->of[MT_SIDE_A] == NULL);
    return is_other_side && is_operand_copy(of_copy) && !is_operand_copy(of_original) &&
           has_role(of_original, MT_ROLE_ACTIVATION) && copy->count == original->count && of_copy->shape[0] != '\0' &&
           of_copy->shape == of_original->shape && of_copy->dtype != of_original->dtype;
}

/* Returns the blocks of the other side that `most` replaces, or that replace it; NULL if there are none. */
static const struct diff_pair *find_counterpart(const struct diff_pairs *pairs, mt_cause kind,
                                                const struct diff_pair *most)
{
    if (most == NULL || (kind != MT_CAUSE_OPERAND_COPIES && kind != MT_CAUSE_ACTIVATION_COUNT))
        return NULL;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct diff_pair *pair = &pairs->items[i];
        if (kind == MT_CAUSE_OPERAND_COPIES ? stands_for(most, pair) : stands_for(pair, most))
            return pair;
    }
    return NULL;
}

static struct mt_diff_tensor tensor_of(const struct diff_kind *kind)
{
    return (struct mt_diff_tensor){.category = kind->category,
                                   .op = kind->op,
                                   .place = kind->place,
                                   .dtype = kind->dtype,
                                   .shape = kind->shape,
                                   .requested_bytes = kind->requested_bytes,
                                   .is_operand_copy = is_operand_copy(kind)};
}

/* Returns the example of a cause; zeros for NULL. */
static struct mt_diff_pair example_of(const struct diff_pair *pair)
{
    struct mt_diff_pair example = {.count = pair != NULL ? pair->count : 0};
    for (int side = 0; side < MT_SIDE_COUNT && pair != NULL; side++) {
        example.is_on[side] = pair->of[side] != NULL;
        if (example.is_on[side])
            example.of[side] = tensor_of(pair->of[side]);
    }
    return example;
}

static void add_cause(struct mt_diff_parts *parts, struct mt_diff_cause cause)
{
    if (cause.bytes == 0)
        return;
    *MT_HOST_ADD(parts->causes, parts->cause_count) = cause;
}

static int64_t rounding(const struct mt_diff_side *side)
{
    assert(side->allocated_bytes >= side->requested_bytes);
    return (int64_t)(side->allocated_bytes - side->requested_bytes);
}

void diff_causes_add(const struct diff_kinds *kinds, const struct mt_diff_side *side, struct mt_diff_parts *out)
{
    struct diff_pairs pairs = {0};
    struct causes causes = {0};
    diff_kinds_pair(kinds, &pairs);
    collect(&pairs, &causes);
    for (size_t i = 0; i < causes.count; i++) {
        struct cause *cause = &causes.items[i];
        const struct diff_pair *most = cause->cause.bytes > 0 ? cause->most_up : cause->most_down;
        cause->cause.most = example_of(most);
        cause->cause.counterpart = example_of(find_counterpart(&pairs, cause->cause.kind, most));
        add_cause(out, cause->cause);
    }
    add_cause(out, (struct mt_diff_cause){.kind = MT_CAUSE_ROUNDING,
                                          .category = "",
                                          .bytes = rounding(&side[MT_SIDE_B]) - rounding(&side[MT_SIDE_A])});
    free(causes.items);
    free(pairs.items);
}
