/* Entries before the position are searched from the newest on, and each at most once. The remaining entries are
 * counted by name, so a node that undoes none of them searches nothing. PyTorch has some hundreds of operators that
 * can be undone; a tape with more than MOST_NAMES names is not from a snapshot, and ignores further names. */
#include "producers/file/forward_tape.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "producers/file/call_stack.h"

#include <assert.h>
#include <stdlib.h>

enum { MOST_NAMES = 2048 };

/* The largest type has 16 bytes. A loss consists of few scalars, at the end of forward. */
enum { SCALAR_BYTES = 16, MOST_SCALARS = 64 };

/* Invariants: position <= count; entries [0, position) are not undone yet, and left[n] of them have the name n; if
 * `undoes`, entries[position] is the operator that `node` undoes. */
struct mt_forward_tape {
    struct mt_forward_op *entries;
    size_t count, position;
    const char *node; /* the last node that ran; NULL: none since an operator ran */
    bool undoes;
    bool is_deep;              /* a tensor was undone since an operator ran */
    struct mt_number_map left; /* by the name's pointer */
};

struct mt_forward_tape *mt_forward_tape_create(void)
{
    struct mt_forward_tape *tape = mt_host_alloc(sizeof *tape);
    mt_number_map_create(&tape->left);
    return tape;
}

void mt_forward_tape_destroy(struct mt_forward_tape *tape)
{
    if (tape == NULL)
        return;
    mt_number_map_release(&tape->left);
    free(tape->entries);
    free(tape);
}

/* Changes the count of a name. False if there are too many names. */
static bool count_left(struct mt_forward_tape *tape, const char *name, int64_t change)
{
    assert(change == 1 || change == -1);
    uint64_t left = 0, key = (uint64_t)(uintptr_t)name;
    if (!mt_number_map_get(&tape->left, key, &left) && tape->left.count == MOST_NAMES)
        return false;
    mt_number_map_put(&tape->left, key, left + (uint64_t)change);
    return true;
}

static bool is_alike(const struct mt_forward_op *a, const struct mt_forward_op *b)
{
    return a->name == b->name && a->caller == b->caller;
}

void mt_forward_tape_add(struct mt_forward_tape *tape, const struct mt_forward_op *op)
{
    assert(tape->position <= tape->count && op->name[0] != '\0');
    tape->count = tape->position;
    tape->node = NULL;
    tape->undoes = tape->is_deep = false;
    if (tape->count > 0 && is_alike(&tape->entries[tape->count - 1], op))
        return;
    if (!count_left(tape, op->name, 1))
        return;
    tape->entries = mt_host_room(tape->entries, tape->count, sizeof *tape->entries);
    tape->entries[tape->count++] = *op;
    tape->position = tape->count;
}

/* True if an operator is left that the node undoes. */
static bool has_left(const struct mt_forward_tape *tape, const char *node)
{
    for (size_t i = 0; i <= tape->left.mask; i++) {
        const struct mt_number_pair *pair = &tape->left.pairs[i];
        if (pair->key != MT_NUMBER_MAP_NO_KEY && pair->value > 0 &&
            mt_node_undoes(node, (const char *)(uintptr_t)pair->key))
            return true;
    }
    return false;
}

/* True if the last operator that the node may undo made a scalar. */
static bool has_scalar(const struct mt_forward_tape *tape, const char *node)
{
    size_t end = tape->position > MOST_SCALARS ? tape->position - MOST_SCALARS : 0;
    for (size_t i = tape->position; i > end; i--)
        if (mt_node_undoes(node, tape->entries[i - 1].name))
            return tape->entries[i - 1].bytes <= SCALAR_BYTES;
    return false;
}

bool mt_forward_tape_undo(struct mt_forward_tape *tape, const char *node, uint64_t bytes)
{
    if (node == tape->node)
        return tape->undoes;
    if (bytes <= SCALAR_BYTES && !tape->is_deep && !has_scalar(tape, node))
        return false; /* the node may yet take more */
    tape->node = node;
    tape->undoes = has_left(tape, node);
    if (!tape->undoes)
        return false;
    do {
        assert(tape->position > 0);
        count_left(tape, tape->entries[--tape->position].name, -1);
    } while (!mt_node_undoes(node, tape->entries[tape->position].name));
    tape->is_deep |= tape->entries[tape->position].bytes > SCALAR_BYTES;
    return true;
}

const struct mt_forward_op *mt_forward_tape_current(const struct mt_forward_tape *tape)
{
    assert(!tape->undoes || tape->position < tape->count);
    return tape->position < tape->count ? &tape->entries[tape->position] : NULL;
}

const struct mt_forward_op *mt_forward_tape_source(const struct mt_forward_tape *tape)
{
    assert(tape->position <= tape->count);
    size_t at = tape->position;
    while (at > 0 && tape->undoes && tape->entries[at - 1].name == tape->entries[tape->position].name)
        at--;
    return at > 0 ? &tape->entries[at - 1] : NULL;
}

const struct mt_forward_op *mt_forward_tape_passed(const struct mt_forward_tape *tape)
{
    const struct mt_forward_op *next = tape->position > 0 ? &tape->entries[tape->position - 1] : NULL;
    if (next != NULL && (mt_node_undoes("AddBackward0", next->name) || mt_node_undoes("SubBackward0", next->name)))
        return next;
    return mt_forward_tape_current(tape);
}
