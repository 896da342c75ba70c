/* What was live on two sides, as kinds that can be compared. */
#include "analysis/diff_parts.h"
#include "base/memory.h"
#include "trace/query/query.h"

#include <stdlib.h>
#include <string.h>

bool diff_kinds_share_row(const struct diff_kind *left, const struct diff_kind *right)
{
    return left->category == right->category && left->role == right->role && left->phase == right->phase &&
           left->op == right->op;
}

bool diff_is_last_gradient(const struct diff_live *live, const struct mt_block_row *block)
{
    return block->alloc_event < live->step_begin &&
           strcmp(live->labels[block->label].role, mt_role_name(MT_ROLE_GRAD)) == 0;
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
    kinds->items = mt_host_room(kinds->items, kinds->count, sizeof *kinds->items);
    kinds->items[kinds->count++] = kind;
}

void diff_kinds_add(struct diff_kinds *kinds, mt_side side, const struct diff_live *live)
{
    for (size_t i = 0; i < live->label_count; i++)
        append(kinds, kind_of_label(&live->labels[i], side));
    for (size_t i = 0; i < live->block_count; i++)
        append(kinds, kind_of_block(&live->blocks[i], live, side));
}

static int compare_texts(const char *left, const char *right)
{
    return left == right ? 0 : strcmp(left, right);
}

static int compare_numbers(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
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
    int order = (int)a->is_of_earlier_step - (int)b->is_of_earlier_step;
    if (order == 0)
        order = compare_texts(a->dtype, b->dtype);
    if (order == 0)
        order = compare_texts(a->shape, b->shape);
    return order != 0 ? order : compare_numbers(a->requested_bytes, b->requested_bytes);
}

void diff_kinds_merge(struct diff_kinds *kinds)
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
