/* Hash tables with open addressing over growing arrays of values.
 *
 *   slots[hash] -> number -> values[number - 1]
 *
 * Values live in chunks that never move, so that a borrowed pointer stays valid. */
#include "base/interner.h"

#include "base/category_set.h"
#include "base/memory.h"
#include "base/number_map.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_VALUES = 256, FIRST_SLOTS = 512, MOST_LABELS = (1 << MT_LABEL_NUMBER_BITS) - 1 };

#define FREE_SLOT UINT32_MAX

/* The number of a value, FREE_SLOT if there is none, and the half of its hash that finds it. */
struct slot {
    uint32_t hash, number;
};

/* Values of one size, numbered from 1, and a hash index over them.
 * Invariants: count * 2 <= slot_count, which is a power of two; each number from 1 to count is in one slot. */
struct table {
    size_t value_bytes;
    void **chunks;
    uint32_t count;
    struct slot *slots;
    uint32_t slot_count;
};

struct mt_interner {
    struct table labels; /* struct mt_label */
    struct table spans;  /* struct mt_span */
    struct table frames; /* struct mt_frame */
    struct table stacks; /* struct mt_stack */
    struct mt_category_set categories;
};

/* Makes all slots free. They are not zeros from the system: a page of these that is read is mapped once more when it is
 * written, which took a fifth of an import with many call stacks. */
static void make_slots(struct table *table)
{
    table->slots = mt_host_resize(NULL, table->slot_count, sizeof *table->slots);
    memset(table->slots, 0xFF, table->slot_count * sizeof *table->slots);
}

static void table_create(struct table *table, size_t value_bytes)
{
    *table = (struct table){.value_bytes = value_bytes, .slot_count = FIRST_SLOTS};
    make_slots(table);
}

static void *table_value(const struct table *table, uint32_t number)
{
    if (number == 0 || number > table->count)
        return NULL;
    assert(table->count * 2 <= table->slot_count);
    uint32_t index = number - 1;
    return (char *)table->chunks[index / CHUNK_VALUES] + index % CHUNK_VALUES * table->value_bytes;
}

static void table_destroy(struct table *table)
{
    for (uint32_t i = 0; i * CHUNK_VALUES < table->count; i++)
        free(table->chunks[i]);
    free(table->chunks);
    free(table->slots);
}

static struct slot *table_free_slot(const struct table *table, uint32_t hash)
{
    assert((table->slot_count & (table->slot_count - 1)) == 0);
    uint32_t slot = hash & (table->slot_count - 1);
    while (table->slots[slot].number != FREE_SLOT)
        slot = (slot + 1) & (table->slot_count - 1);
    return &table->slots[slot];
}

static void table_grow(struct table *table)
{
    struct table old = *table;
    table->slot_count = old.slot_count * 2;
    make_slots(table);
    for (uint32_t i = 0; i < old.slot_count; i++)
        if (old.slots[i].number != FREE_SLOT)
            *table_free_slot(table, old.slots[i].hash) = old.slots[i];
    free(old.slots);
}

/* Returns the number of the value with that hash that `equal` accepts; 0 if there is none. */
static uint32_t table_find(const struct table *table, uint64_t hash, bool (*equal)(const void *, const void *),
                           const void *key)
{
    uint32_t slot = (uint32_t)hash & (table->slot_count - 1);
    for (; table->slots[slot].number != FREE_SLOT; slot = (slot + 1) & (table->slot_count - 1))
        if (table->slots[slot].hash == (uint32_t)hash && equal(table_value(table, table->slots[slot].number), key))
            return table->slots[slot].number;
    return 0;
}

/* Makes room for one more value. Returns it, and sets *number. */
static void *table_add(struct table *table, uint64_t hash, uint32_t *number)
{
    if ((table->count + 1) * 2 > table->slot_count)
        table_grow(table);
    if (table->count % CHUNK_VALUES == 0) {
        uint32_t chunk = table->count / CHUNK_VALUES;
        table->chunks = mt_host_resize(table->chunks, chunk + 1, sizeof *table->chunks);
        table->chunks[chunk] = mt_host_alloc(CHUNK_VALUES * table->value_bytes);
    }
    *number = ++table->count;
    assert(table->count * 2 <= table->slot_count);
    *table_free_slot(table, (uint32_t)hash) = (struct slot){(uint32_t)hash, *number};
    return table_value(table, *number);
}

/* Returns `hash` continued over the bytes, by FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001B3u;
    return hash;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_label(const struct mt_label *label)
{
    uint64_t hash = mix(0xCBF29CE484222325u, (uint64_t)label->category << 32 | (uint64_t)label->role << 16 |
                                                 (uint64_t)label->phase << 8 | (uint64_t)label->dtype);
    hash = mix(hash, (uint64_t)label->span << 32 | (uint32_t)label->layer);
    hash = mix(hash, label->role_source);
    for (int i = 0; i < label->dims; i++)
        hash = mix(hash, (uint64_t)label->shape[i]);
    return hash_bytes(hash, label->op, strlen(label->op));
}

static bool labels_equal(const void *stored, const void *wanted)
{
    const struct mt_label *a = stored, *b = wanted;
    return a->category == b->category && a->role == b->role && a->role_source == b->role_source &&
           a->phase == b->phase && a->dtype == b->dtype && a->span == b->span && a->layer == b->layer &&
           a->dims == b->dims && memcmp(a->shape, b->shape, (size_t)a->dims * sizeof a->shape[0]) == 0 &&
           strcmp(a->op, b->op) == 0;
}

static bool spans_equal(const void *stored, const void *wanted)
{
    const struct mt_span *a = stored, *b = wanted;
    return a->parent == b->parent && strcmp(a->name, b->name) == 0;
}

static bool frames_equal(const void *stored, const void *wanted)
{
    const struct mt_frame *a = stored, *b = wanted;
    return a->line == b->line && strcmp(a->function, b->function) == 0 && strcmp(a->file, b->file) == 0;
}

static bool stacks_equal(const void *stored, const void *wanted)
{
    const struct mt_stack *a = stored, *b = wanted;
    return a->parent == b->parent && a->frame == b->frame;
}

struct mt_interner *mt_interner_create(void)
{
    struct mt_interner *interner = mt_host_alloc(sizeof *interner);
    table_create(&interner->labels, sizeof(struct mt_label));
    table_create(&interner->spans, sizeof(struct mt_span));
    table_create(&interner->frames, sizeof(struct mt_frame));
    table_create(&interner->stacks, sizeof(struct mt_stack));
    return interner;
}

void mt_interner_destroy(struct mt_interner *interner)
{
    if (interner == NULL)
        return;
    for (uint32_t i = 1; i <= interner->labels.count; i++)
        free((char *)((struct mt_label *)table_value(&interner->labels, i))->op);
    for (uint32_t i = 1; i <= interner->spans.count; i++) {
        struct mt_span *span = table_value(&interner->spans, i);
        free((char *)span->name);
        free((char *)span->path);
    }
    for (uint32_t i = 1; i <= interner->frames.count; i++) {
        struct mt_frame *frame = table_value(&interner->frames, i);
        free((char *)frame->function);
        free((char *)frame->file);
    }
    table_destroy(&interner->labels);
    table_destroy(&interner->spans);
    table_destroy(&interner->frames);
    table_destroy(&interner->stacks);
    mt_category_set_release(&interner->categories);
    free(interner);
}

static mt_label_id label_id(const struct mt_label *label, uint32_t number)
{
    assert(number > 0 && number <= MOST_LABELS);
    return (mt_label_id)label->category << MT_LABEL_NUMBER_BITS | number;
}

mt_label_id mt_interner_label(struct mt_interner *interner, const struct mt_label *label, bool *is_new)
{
    assert(label->op != NULL && label->dims >= 0 && label->dims <= MT_LABEL_MAX_DIMS);
    assert(label->category < MT_MOST_CATEGORIES);
    uint64_t hash = hash_label(label);
    uint32_t number = table_find(&interner->labels, hash, labels_equal, label);
    if (is_new != NULL)
        *is_new = number == 0;
    if (number != 0)
        return label_id(label, number);
    if (interner->labels.count == MOST_LABELS)
        mt_host_exhausted("label numbers");
    struct mt_label *stored = table_add(&interner->labels, hash, &number);
    *stored = *label;
    stored->op = mt_host_strdup(label->op);
    return label_id(label, number);
}

static char *join_path(const char *parent, const char *name)
{
    if (parent == NULL || parent[0] == '\0')
        return mt_host_strdup(name);
    size_t bytes = strlen(parent) + strlen(name) + 2;
    char *path = mt_host_alloc(bytes);
    snprintf(path, bytes, "%s.%s", parent, name);
    return path;
}

mt_span_id mt_interner_span(struct mt_interner *interner, mt_span_id parent, const char *name, bool *is_new)
{
    struct mt_span wanted = {.parent = parent, .name = name};
    uint64_t hash = hash_bytes(mix(0xCBF29CE484222325u, parent), name, strlen(name));
    uint32_t number = table_find(&interner->spans, hash, spans_equal, &wanted);
    if (is_new != NULL)
        *is_new = number == 0;
    if (number != 0)
        return number;
    const struct mt_span *up = mt_interner_find_span(interner, parent);
    char *path = join_path(up != NULL ? up->path : NULL, name);
    struct mt_span *stored = table_add(&interner->spans, hash, &number);
    *stored = (struct mt_span){.parent = parent, .name = mt_host_strdup(name), .path = path};
    return number;
}

mt_frame_id mt_interner_frame(struct mt_interner *interner, const struct mt_frame *frame, bool *is_new)
{
    uint64_t hash = hash_bytes(mix(0xCBF29CE484222325u, frame->line), frame->function, strlen(frame->function));
    hash = hash_bytes(hash, frame->file, strlen(frame->file));
    uint32_t number = table_find(&interner->frames, hash, frames_equal, frame);
    if (is_new != NULL)
        *is_new = number == 0;
    if (number != 0)
        return number;
    struct mt_frame *stored = table_add(&interner->frames, hash, &number);
    *stored = (struct mt_frame){mt_host_strdup(frame->function), mt_host_strdup(frame->file), frame->line};
    return number;
}

mt_stack_id mt_interner_stack(struct mt_interner *interner, mt_stack_id parent, mt_frame_id frame, bool *is_new)
{
    const struct mt_stack wanted = {.parent = parent, .frame = frame};
    uint64_t hash = mix(0xCBF29CE484222325u, (uint64_t)parent << 32 | frame);
    uint32_t number = table_find(&interner->stacks, hash, stacks_equal, &wanted);
    assert(frame != 0 && parent <= interner->stacks.count && frame <= interner->frames.count);
    if (is_new != NULL)
        *is_new = number == 0;
    if (number == 0)
        *(struct mt_stack *)table_add(&interner->stacks, hash, &number) = wanted;
    return number;
}

mt_category mt_interner_category(struct mt_interner *interner, const char *name)
{
    return mt_category_set_add(&interner->categories, name);
}

const char *mt_interner_category_name(const struct mt_interner *interner, mt_category category)
{
    return mt_category_set_name(&interner->categories, category);
}

const struct mt_label *mt_interner_find_label(const struct mt_interner *interner, mt_label_id id)
{
    return table_value(&interner->labels, mt_label_number(id));
}

const struct mt_span *mt_interner_find_span(const struct mt_interner *interner, mt_span_id id)
{
    return table_value(&interner->spans, id);
}

const struct mt_frame *mt_interner_find_frame(const struct mt_interner *interner, mt_frame_id id)
{
    return table_value(&interner->frames, id);
}

const struct mt_stack *mt_interner_find_stack(const struct mt_interner *interner, mt_stack_id id)
{
    return table_value(&interner->stacks, id);
}

/* ---- a sink without a trace ---- */

static mt_label_id discard_label(void *context, const struct mt_label *label)
{
    return mt_interner_label(context, label, NULL);
}

static mt_span_id discard_span(void *context, mt_span_id parent, const char *name)
{
    return mt_interner_span(context, parent, name, NULL);
}

static mt_frame_id discard_frame(void *context, const struct mt_frame *frame)
{
    return mt_interner_frame(context, frame, NULL);
}

static mt_stack_id discard_stack(void *context, mt_stack_id parent, mt_frame_id frame)
{
    return mt_interner_stack(context, parent, frame, NULL);
}

static mt_category discard_category(void *context, const char *name)
{
    return mt_interner_category(context, name);
}

static const char *discard_category_name(void *context, mt_category category)
{
    return mt_interner_category_name(context, category);
}

struct mt_sink mt_sink_discarding(struct mt_interner *interner)
{
    return (struct mt_sink){.context = interner,
                            .intern_label = discard_label,
                            .intern_category = discard_category,
                            .category_name = discard_category_name,
                            .intern_span = discard_span,
                            .intern_frame = discard_frame,
                            .intern_stack = discard_stack};
}

/* Invariant: every value of `places` is a number of `names`; at its key, a pointer, that name was found last. */
struct mt_name_set {
    struct mt_interner *names; /* as spans inside the root */
    struct mt_number_map places;
};

struct mt_name_set *mt_name_set_create(void)
{
    struct mt_name_set *set = mt_host_alloc(sizeof *set);
    set->names = mt_interner_create();
    mt_number_map_create(&set->places);
    return set;
}

void mt_name_set_destroy(struct mt_name_set *set)
{
    if (set == NULL)
        return;
    mt_interner_destroy(set->names);
    mt_number_map_release(&set->places);
    free(set);
}

uint32_t mt_name_set_number(struct mt_name_set *set, const char *name, bool *is_new)
{
    uint64_t number, place = (uintptr_t)name;
    if (is_new != NULL)
        *is_new = false;
    if (mt_number_map_get(&set->places, place, &number) && strcmp(mt_name_set_name(set, (uint32_t)number), name) == 0)
        return (uint32_t)number;
    number = mt_interner_span(set->names, 0, name, is_new);
    mt_number_map_put(&set->places, place, number);
    return (uint32_t)number;
}

const char *mt_name_set_name(const struct mt_name_set *set, uint32_t number)
{
    const struct mt_span *span = mt_interner_find_span(set->names, number);
    assert(span != NULL);
    return span->name;
}
