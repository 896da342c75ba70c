/* Kinds are sorted by their texts, so that kinds with the same row and place are neighbours. Within these, each pass
 * pairs both sides by size, largest first, so that swapping the sides gives the same pairs. */
#include "analysis/diff/diff_kinds.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool diff_kinds_share_row(const struct diff_kind *left, const struct diff_kind *right)
{
    return left->category == right->category && left->role == right->role && left->phase == right->phase &&
           left->op == right->op;
}

static struct diff_kind kind_of_label(const struct mt_label_row *label, mt_side side)
{
    struct diff_kind kind = {.category = label->category,
                             .role = label->role,
                             .phase = label->phase,
                             .op = label->op,
                             .place = label->place,
                             .dtype = label->dtype,
                             .shape = label->shape};
    kind.is_made[side] = true;
    return kind;
}

static struct diff_kind kind_of_block(const struct mt_block_row *block, const struct diff_live *live, mt_side side)
{
    const struct mt_label_row *label = &live->labels[block->label];
    struct diff_kind kind = kind_of_label(label, side);
    kind.requested_bytes = block->requested_bytes;
    kind.is_of_earlier_step = diff_is_last_gradient(live, block);
    kind.count[side] = 1;
    kind.block_bytes[side] = block->block_bytes;
    return kind;
}

static void append(struct diff_kinds *kinds, struct diff_kind kind)
{
    *MT_HOST_ADD(kinds->items, kinds->count) = kind;
}

/* Adds the labels of a side and the blocks of its peak, before merging. */
static void add_side(struct diff_kinds *kinds, mt_side side, const struct diff_live *live)
{
    for (size_t i = 0; i < live->label_count; i++)
        append(kinds, kind_of_label(&live->labels[i], side));
    for (size_t i = 0; i < live->block_count; i++)
        append(kinds, kind_of_block(&live->blocks[i], live, side));
}

/* Equal texts have equal pointers. */
static int compare_texts(const char *left, const char *right)
{
    return left == right ? 0 : strcmp(left, right);
}

static int compare_kinds(const void *left, const void *right)
{
    const struct diff_kind *a = left, *b = right;
    const char *const texts[][2] = {
        {a->category, b->category}, {a->role, b->role}, {a->phase, b->phase}, {a->op, b->op}, {a->place, b->place}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int order = compare_texts(texts[i][0], texts[i][1]);
        if (order != 0)
            return order;
    }
    int order = MT_COMPARE(a->is_of_earlier_step, b->is_of_earlier_step);
    if (order == 0)
        order = compare_texts(a->dtype, b->dtype);
    if (order == 0)
        order = compare_texts(a->shape, b->shape);
    return order != 0 ? order : MT_COMPARE(a->requested_bytes, b->requested_bytes);
}

/* Sorts kinds by text and merges equal ones. The order does not change if the sides are swapped. */
static void merge(struct diff_kinds *kinds)
{
    if (kinds->count == 0)
        return;
    qsort(kinds->items, kinds->count, sizeof *kinds->items, compare_kinds);
    size_t kept = 0;
    for (size_t i = 1; i < kinds->count; i++) {
        struct diff_kind *last = &kinds->items[kept], *next = &kinds->items[i];
        if (compare_kinds(last, next) != 0) {
            kinds->items[++kept] = *next;
            continue;
        }
        for (int side = 0; side < MT_SIDE_COUNT; side++) {
            last->is_made[side] = last->is_made[side] || next->is_made[side];
            last->count[side] += next->count[side];
            last->block_bytes[side] += next->block_bytes[side];
        }
    }
    kinds->count = kept + 1;
}

void diff_kinds_create(const struct diff_live live[MT_SIDE_COUNT], struct diff_kinds *out)
{
    *out = (struct diff_kinds){0};
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        add_side(out, (mt_side)side, &live[side]);
    merge(out);
}

void diff_kinds_release(struct diff_kinds *kinds)
{
    free(kinds->items);
    *kinds = (struct diff_kinds){0};
}

/* Blocks of a kind that have no partner yet. Invariant: all are on one side, since equal blocks cancel out. */
struct rest {
    const struct diff_kind *kind;
    mt_side side;
    uint64_t count;
};

/* The unpaired blocks of one row and place, and which runs have any blocks there. */
struct rests {
    struct rest *items;
    size_t count;
    bool is_made[MT_SIDE_COUNT]; /* at any time */
    bool is_live[MT_SIDE_COUNT]; /* at the peak */
};

static bool share_place(const struct diff_kind *left, const struct diff_kind *right)
{
    return diff_kinds_share_row(left, right) && left->place == right->place &&
           left->is_of_earlier_step == right->is_of_earlier_step;
}

static void add_rest(struct rests *rests, const struct diff_kind *kind)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        rests->is_made[side] = rests->is_made[side] || kind->is_made[side];
        rests->is_live[side] = rests->is_live[side] || kind->count[side] > 0;
    }
    uint64_t a = kind->count[MT_SIDE_A], b = kind->count[MT_SIDE_B];
    if (a == b)
        return;
    *MT_HOST_ADD(rests->items, rests->count) =
        a > b ? (struct rest){kind, MT_SIDE_A, a - b} : (struct rest){kind, MT_SIDE_B, b - a};
}

/* Orders by size, largest first; equal sizes by precision, then shape. */
static int compare_sizes(const struct rest *a, const struct rest *b)
{
    int order = MT_COMPARE(b->kind->requested_bytes, a->kind->requested_bytes);
    if (order == 0)
        order = strcmp(a->kind->dtype, b->kind->dtype);
    return order != 0 ? order : strcmp(a->kind->shape, b->kind->shape);
}

static int compare_by_shape(const void *left, const void *right)
{
    const struct rest *a = left, *b = right;
    int order = strcmp(a->kind->shape, b->kind->shape);
    return order != 0 ? order : compare_sizes(a, b);
}

static int compare_by_dtype(const void *left, const void *right)
{
    const struct rest *a = left, *b = right;
    int order = strcmp(a->kind->dtype, b->kind->dtype);
    return order != 0 ? order : compare_sizes(a, b);
}

static int compare_by_size(const void *left, const void *right)
{
    return compare_sizes(left, right);
}

/* True if the tensor is not known, as in a recording. */
static bool is_unknown(const struct diff_kind *kind)
{
    return strcmp(kind->dtype, mt_dtype_name(MT_NONE)) == 0;
}

static int compare_unknown_first(const void *left, const void *right)
{
    const struct diff_kind *a = ((const struct rest *)left)->kind, *b = ((const struct rest *)right)->kind;
    int order = MT_COMPARE(b->requested_bytes, a->requested_bytes);
    if (order == 0)
        order = MT_COMPARE(is_unknown(b), is_unknown(a));
    return order != 0 ? order : compare_sizes(left, right);
}

static bool may_be_equal(const struct rest *left, const struct rest *right)
{
    return left->kind->requested_bytes == right->kind->requested_bytes && is_unknown(left->kind);
}

static bool have_one_shape(const struct rest *left, const struct rest *right)
{
    return left->kind->shape == right->kind->shape && !is_unknown(left->kind) && !is_unknown(right->kind);
}

static bool have_one_dtype(const struct rest *left, const struct rest *right)
{
    return left->kind->dtype == right->kind->dtype;
}

static bool are_any(const struct rest *left, const struct rest *right)
{
    (void)left;
    (void)right;
    return true;
}

static void add_pair(struct diff_pairs *pairs, const struct diff_kind *a, const struct diff_kind *b, uint64_t count)
{
    assert((a != NULL || b != NULL) && count > 0);
    *MT_HOST_ADD(pairs->items, pairs->count) = (struct diff_pair){.of = {a, b}, .count = count};
}

/* Adds a rest without a partner. */
static void add_single(struct diff_pairs *pairs, const struct rests *rests, const struct rest *rest)
{
    mt_side other = rest->side == MT_SIDE_A ? MT_SIDE_B : MT_SIDE_A;
    add_pair(pairs, rest->side == MT_SIDE_A ? rest->kind : NULL, rest->side == MT_SIDE_B ? rest->kind : NULL,
             rest->count);
    pairs->items[pairs->count - 1].is_momentary = rests->is_made[other] && !rests->is_live[other];
}

/* Returns the index of the side's next rest with blocks, from `at` on; count if there is none. */
static size_t next_of_side(const struct rest *rests, size_t count, size_t at, mt_side side)
{
    while (at < count && (rests[at].side != side || rests[at].count == 0))
        at++;
    return at;
}

/* Pairs rests that may be paired, in order. */
static void pair_bucket(struct rest *rests, size_t count, struct diff_pairs *pairs)
{
    for (size_t a = 0, b = 0;;) {
        a = next_of_side(rests, count, a, MT_SIDE_A);
        b = next_of_side(rests, count, b, MT_SIDE_B);
        if (a == count || b == count)
            return;
        assert(rests[a].side == MT_SIDE_A && rests[b].side == MT_SIDE_B);
        const struct diff_kind *of_a = rests[a].kind, *of_b = rests[b].kind;
        uint64_t common = rests[a].count < rests[b].count ? rests[a].count : rests[b].count;
        if (of_a->requested_bytes != of_b->requested_bytes || (!is_unknown(of_a) && !is_unknown(of_b)))
            add_pair(pairs, of_a, of_b, common);
        rests[a].count -= common;
        rests[b].count -= common;
    }
}

/* The passes over the rests of one row and place. Equal bytes are the same tensor if one run does not know it. Blocks
 * with equal shapes are the same tensor in another precision, and blocks with equal precisions the same tensor in
 * another size. The remaining blocks are paired by size. */
static const struct pass {
    int (*compare)(const void *, const void *);
    bool (*may_pair)(const struct rest *, const struct rest *); /* holds for neighbours in the order of `compare` */
} passes[] = {{compare_unknown_first, may_be_equal},
              {compare_by_shape, have_one_shape},
              {compare_by_dtype, have_one_dtype},
              {compare_by_size, are_any}};

static void run_pass(const struct pass *pass, struct rests *rests, struct diff_pairs *pairs)
{
    qsort(rests->items, rests->count, sizeof *rests->items, pass->compare);
    for (size_t begin = 0, end; begin < rests->count; begin = end) {
        end = begin + 1;
        while (end < rests->count && pass->may_pair(&rests->items[begin], &rests->items[end]))
            end++;
        pair_bucket(&rests->items[begin], end - begin, pairs);
    }
}

static void pair_rests(struct rests *rests, struct diff_pairs *pairs)
{
    for (size_t i = 0; i < sizeof passes / sizeof passes[0] && rests->count > 1; i++)
        run_pass(&passes[i], rests, pairs);
    for (size_t i = 0; i < rests->count; i++)
        if (rests->items[i].count > 0)
            add_single(pairs, rests, &rests->items[i]);
}

void diff_kinds_pair(const struct diff_kinds *kinds, struct diff_pairs *out)
{
    struct rests rests = {0};
    for (size_t i = 0; i < kinds->count; i++) {
        add_rest(&rests, &kinds->items[i]);
        if (i + 1 < kinds->count && share_place(&kinds->items[i], &kinds->items[i + 1]))
            continue;
        pair_rests(&rests, out);
        free(rests.items);
        rests = (struct rests){0};
    }
}

int64_t diff_pair_bytes(const struct diff_pair *pair)
{
    uint64_t of[MT_SIDE_COUNT] = {0};
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        if (pair->of[side] != NULL)
            of[side] = pair->count * pair->of[side]->requested_bytes;
    return (int64_t)(of[MT_SIDE_B] - of[MT_SIDE_A]);
}
