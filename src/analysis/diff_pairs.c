/* Which block of one side has become which of the other?
 *
 * Within one row and place, what both sides have cancels out. Of the rest, blocks of one shape are the same tensor in
 * another precision, blocks of one precision the same tensor in another size. What then is left on one side has no
 * partner. Each pass goes through both sides by falling size, so the answer is the same whichever side is A. */
#include "analysis/diff_parts.h"
#include "base/memory.h"
#include "trace/query/query.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of a kind that have no partner yet: all on one side, since equal ones have cancelled out. */
struct rest {
    const struct diff_kind *kind;
    mt_side side;
    uint64_t count;
};

/* What is left of one row and place, and what the runs have of it at all. */
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
    rests->items = mt_host_room(rests->items, rests->count, sizeof *rests->items);
    rests->items[rests->count++] =
        a > b ? (struct rest){kind, MT_SIDE_A, a - b} : (struct rest){kind, MT_SIDE_B, b - a};
}

/* By falling size; alike sizes by what they hold. */
static int compare_sizes(const struct rest *a, const struct rest *b)
{
    if (a->kind->requested_bytes != b->kind->requested_bytes)
        return a->kind->requested_bytes < b->kind->requested_bytes ? 1 : -1;
    int order = strcmp(a->kind->dtype, b->kind->dtype);
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

static bool have_one_shape(const struct rest *left, const struct rest *right)
{
    return left->kind->shape == right->kind->shape;
}

static bool have_one_dtype(const struct rest *left, const struct rest *right)
{
    return left->kind->dtype == right->kind->dtype;
}

static bool have_anything(const struct rest *left, const struct rest *right)
{
    (void)left;
    (void)right;
    return true;
}

static void add_pair(struct diff_pairs *pairs, const struct diff_kind *a, const struct diff_kind *b, uint64_t count)
{
    pairs->items = mt_host_room(pairs->items, pairs->count, sizeof *pairs->items);
    pairs->items[pairs->count++] = (struct diff_pair){.of = {a, b}, .count = count};
}

/* What has no partner. */
static void add_single(struct diff_pairs *pairs, const struct rests *rests, const struct rest *rest)
{
    mt_side other = rest->side == MT_SIDE_A ? MT_SIDE_B : MT_SIDE_A;
    add_pair(pairs, rest->side == MT_SIDE_A ? rest->kind : NULL, rest->side == MT_SIDE_B ? rest->kind : NULL,
             rest->count);
    pairs->items[pairs->count - 1].is_momentary = rests->is_made[other] && !rests->is_live[other];
}

/* The next of that side that has blocks, from `at` on. */
static size_t next_of_side(const struct rest *rests, size_t count, size_t at, mt_side side)
{
    while (at < count && (rests[at].side != side || rests[at].count == 0))
        at++;
    return at;
}

/* Pairs what may be paired at all, as it comes. */
static void pair_bucket(struct rest *rests, size_t count, struct diff_pairs *pairs)
{
    for (size_t a = 0, b = 0;;) {
        a = next_of_side(rests, count, a, MT_SIDE_A);
        b = next_of_side(rests, count, b, MT_SIDE_B);
        if (a == count || b == count)
            return;
        uint64_t common = rests[a].count < rests[b].count ? rests[a].count : rests[b].count;
        add_pair(pairs, rests[a].kind, rests[b].kind, common);
        rests[a].count -= common;
        rests[b].count -= common;
    }
}

/* The passes, the nearest likeness first. */
static const struct pass {
    int (*compare)(const void *, const void *);
    bool (*may_pair)(const struct rest *, const struct rest *); /* holds for neighbours in the order of `compare` */
} passes[] = {{compare_by_shape, have_one_shape}, {compare_by_dtype, have_one_dtype}, {compare_by_size, have_anything}};

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
