#include "trace/store/allocations.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>

enum { LEB128_MOST_BYTES = 10, FIRST_ROWS = 1024, FIRST_BUCKETS = 1024 };

void mt_live_create(struct mt_live *live)
{
    *live = (struct mt_live){.mask = FIRST_BUCKETS - 1, .used = 1};
    live->buckets = mt_host_alloc(FIRST_BUCKETS * sizeof *live->buckets);
    live->blocks = mt_host_alloc(sizeof *live->blocks);
}

void mt_live_release(struct mt_live *live)
{
    free(live->buckets);
    free(live->blocks);
    *live = (struct mt_live){0};
}

/* Returns the bucket of a place. The highest bits of the product depend on every bit of the sum. */
static uint32_t *bucket_of(const struct mt_live *live, struct mt_place place)
{
    uint64_t hash = (place.offset + ((uint64_t)place.segment << 40 | place.segment)) * 0x9E3779B97F4A7C15u;
    return &live->buckets[hash >> 32 & live->mask];
}

/* Returns the link to the entry of a place; the link contains 0 if there is none. */
static uint32_t *find_link(const struct mt_live *live, struct mt_place place)
{
    uint32_t *link = bucket_of(live, place);
    for (; *link != 0; link = &live->blocks[*link].chained) {
        const struct mt_place *found = &live->blocks[*link].place;
        if (found->offset == place.offset && found->segment == place.segment)
            break;
    }
    return link;
}

static void chain(struct mt_live *live, uint32_t entry)
{
    uint32_t *bucket = bucket_of(live, live->blocks[entry].place);
    live->blocks[entry].chained = *bucket;
    *bucket = entry;
}

static void double_buckets(struct mt_live *live)
{
    free(live->buckets);
    live->mask = live->mask * 2 + 1;
    live->buckets = mt_host_alloc(((size_t)live->mask + 1) * sizeof *live->buckets);
    for (uint32_t entry = live->blocks[0].next; entry != 0; entry = live->blocks[entry].next)
        chain(live, entry);
}

static uint32_t new_entry(struct mt_live *live)
{
    uint32_t entry = live->free;
    if (entry != 0) {
        live->free = live->blocks[entry].next;
        return entry;
    }
    live->blocks = mt_host_room(live->blocks, live->used, sizeof *live->blocks);
    return live->used++;
}

void mt_live_add(struct mt_live *live, struct mt_place place, int64_t event, uint32_t label)
{
    mt_live_take(live, place);
    if (live->count > live->mask)
        double_buckets(live);
    uint32_t entry = new_entry(live);
    struct mt_live_block *end = &live->blocks[0];
    assert(end->previous == 0 || live->blocks[end->previous].event < event);
    live->blocks[entry] =
        (struct mt_live_block){.event = event, .place = place, .previous = end->previous, .next = 0, .label = label};
    live->blocks[end->previous].next = entry;
    end->previous = entry;
    chain(live, entry);
    live->count++;
    assert(live->count < live->used);
}

struct mt_live_block *mt_live_find(const struct mt_live *live, struct mt_place place)
{
    uint32_t entry = *find_link(live, place);
    return entry != 0 ? &live->blocks[entry] : NULL;
}

int64_t mt_live_take(struct mt_live *live, struct mt_place place)
{
    uint32_t *link = find_link(live, place), entry = *link;
    if (entry == 0)
        return 0;
    struct mt_live_block *block = &live->blocks[entry];
    assert(entry < live->used && live->count > 0);
    *link = block->chained;
    live->blocks[block->previous].next = block->next;
    live->blocks[block->next].previous = block->previous;
    block->next = live->free;
    live->free = entry;
    live->count--;
    return block->event;
}

static unsigned char *put_leb128(unsigned char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    return at;
}

size_t mt_live_encode(const struct mt_live *live, int64_t base, unsigned char **out)
{
    unsigned char *at = *out = mt_host_alloc(live->count * LEB128_MOST_BYTES + 1);
    for (uint32_t entry = live->blocks[0].next; entry != 0; entry = live->blocks[entry].next) {
        assert(live->blocks[entry].event >= base);
        at = put_leb128(at, (uint64_t)(live->blocks[entry].event - base));
        base = live->blocks[entry].event;
    }
    return (size_t)(at - *out);
}

static size_t home(const struct mt_allocations *allocations, uint32_t label, uint64_t requested_bytes)
{
    /* Each multiplication carries bits upwards, so that the highest depend on both values. */
    uint64_t hash = (requested_bytes * 0x9E3779B97F4A7C15u ^ label) * 0xBF58476D1CE4E5B9u;
    return (size_t)(hash >> 32) & allocations->mask;
}

static __attribute__((unused)) bool is_sound(const struct mt_allocations *allocations)
{
    size_t size = allocations->mask + 1;
    return (size & allocations->mask) == 0 && allocations->used * 2 <= size;
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

/* Returns the row of the pair, or the free slot where it belongs. */
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

/* Raises complete_from_bytes so that about MT_SUMMARY_ALLOCATIONS rows remain. A size remains with all its labels or
 * with none. */
static void raise_bound(struct mt_allocations *allocations)
{
    uint64_t *sizes = mt_host_alloc(allocations->used * sizeof *sizes);
    size_t count = 0;
    for (size_t i = 0; i <= allocations->mask; i++)
        if (allocations->rows[i].count != 0)
            sizes[count++] = allocations->rows[i].requested_bytes;
    assert(count == allocations->used && count >= MT_SUMMARY_ALLOCATIONS);
    qsort(sizes, count, sizeof *sizes, mt_compare_uint64);
    assert(sizes[count - MT_SUMMARY_ALLOCATIONS] >= allocations->complete_from_bytes);
    allocations->complete_from_bytes = sizes[count - MT_SUMMARY_ALLOCATIONS];
    free(sizes);
}

static void make_room(struct mt_allocations *allocations)
{
    size_t size = allocations->mask + 1;
    if (allocations->used >= allocations->limit) {
        raise_bound(allocations);
        rebuild(allocations, size);
        /* One size has so many labels that they all remain: the next reduction is due at twice as many. */
        if (allocations->used * 2 > allocations->limit)
            allocations->limit = allocations->used * 2;
    }
    if ((allocations->used + 1) * 2 > size)
        rebuild(allocations, size * 2);
    assert(is_sound(allocations));
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
