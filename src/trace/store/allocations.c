#include "trace/store/allocations.h"

#include "base/memory.h"
#include "trace/store/summary.h"

#include <stdlib.h>

enum { FIRST_ROWS = 1024 };

static size_t home(const struct mt_allocations *allocations, uint32_t label, uint64_t requested_bytes)
{
    /* Each multiplication carries a value's bits upwards; the highest come to depend on both. */
    uint64_t hash = (requested_bytes * 0x9E3779B97F4A7C15u ^ label) * 0xBF58476D1CE4E5B9u;
    return (size_t)(hash >> 32) & allocations->mask;
}

static void set_size(struct mt_allocations *allocations, size_t rows)
{
    allocations->rows = mt_host_alloc(rows * sizeof *allocations->rows);
    allocations->mask = rows - 1;
    allocations->used = 0;
}

void mt_allocations_create(struct mt_allocations *allocations)
{
    set_size(allocations, FIRST_ROWS);
    allocations->complete_from_bytes = 0;
    allocations->limit = 2 * MT_SUMMARY_ALLOCATIONS;
}

void mt_allocations_release(struct mt_allocations *allocations)
{
    free(allocations->rows);
    *allocations = (struct mt_allocations){0};
}

/* The row of the pair, or the free one where it would go. */
static struct mt_allocation_row *find(const struct mt_allocations *allocations, uint32_t label,
                                      uint64_t requested_bytes)
{
    size_t slot = home(allocations, label, requested_bytes);
    struct mt_allocation_row *row = &allocations->rows[slot];
    while (row->count != 0 && (row->requested_bytes != requested_bytes || row->label != label)) {
        slot = (slot + 1) & allocations->mask;
        row = &allocations->rows[slot];
    }
    return row;
}

/* Moves the rows of at least complete_from_bytes into a table of `size` slots. */
static void rebuild(struct mt_allocations *allocations, size_t size)
{
    struct mt_allocations old = *allocations;
    set_size(allocations, size);
    for (size_t i = 0; i <= old.mask; i++) {
        const struct mt_allocation_row *row = &old.rows[i];
        if (row->count == 0 || row->requested_bytes < allocations->complete_from_bytes)
            continue;
        *find(allocations, row->label, row->requested_bytes) = *row;
        allocations->used++;
    }
    free(old.rows);
}

static int descending(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left < right) - (left > right);
}

/* Raises complete_from_bytes so that about MT_SUMMARY_ALLOCATIONS rows stay: a size is kept with all its labels or with
 * none. */
static void raise_bound(struct mt_allocations *allocations)
{
    uint64_t *sizes = mt_host_alloc(allocations->used * sizeof *sizes);
    size_t count = 0;
    for (size_t i = 0; i <= allocations->mask; i++)
        if (allocations->rows[i].count != 0)
            sizes[count++] = allocations->rows[i].requested_bytes;
    qsort(sizes, count, sizeof *sizes, descending);
    allocations->complete_from_bytes = sizes[MT_SUMMARY_ALLOCATIONS - 1];
    free(sizes);
}

static void make_room(struct mt_allocations *allocations)
{
    size_t size = allocations->mask + 1;
    if (allocations->used >= allocations->limit) {
        raise_bound(allocations);
        rebuild(allocations, size);
        /* So many labels of one size that they stay: look again only when there are twice as many. */
        if (allocations->used * 2 > allocations->limit)
            allocations->limit = allocations->used * 2;
    }
    if ((allocations->used + 1) * 2 > size)
        rebuild(allocations, size * 2);
}

void mt_allocations_add(struct mt_allocations *allocations, uint32_t label, uint64_t requested_bytes, int64_t event)
{
    if (requested_bytes < allocations->complete_from_bytes)
        return;
    struct mt_allocation_row *row = find(allocations, label, requested_bytes);
    if (row->count++ != 0)
        return;
    *row = (struct mt_allocation_row){requested_bytes, event, 1, label};
    allocations->used++;
    make_room(allocations);
}
