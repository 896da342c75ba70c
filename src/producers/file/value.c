/* An arena of blocks, and three tables over it: of texts, of shared lists, and of the keys that dicts share. The tables
 * use open addressing and are at most half full. */
#include "producers/file/value.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_value none;

const char *mt_value_kind_name(mt_value_kind kind)
{
    static const char *const names[] = {
        [MT_VALUE_NONE] = "none",        [MT_VALUE_BOOL] = "bool", [MT_VALUE_INTEGER] = "integer",
        [MT_VALUE_REAL] = "real number", [MT_VALUE_TEXT] = "text", [MT_VALUE_BYTES] = "bytes",
        [MT_VALUE_LIST] = "list",        [MT_VALUE_DICT] = "dict"};
    return names[kind];
}

uint32_t mt_value_count(const struct mt_value *value)
{
    assert(value->kind <= MT_VALUE_DICT &&
           (value->kind < MT_VALUE_LIST || value->items->count <= value->items->capacity));
    if (value->kind == MT_VALUE_LIST)
        return value->items->count;
    return value->kind == MT_VALUE_DICT ? value->items->count / 2 : 0;
}

const struct mt_value *mt_value_at(const struct mt_value *list, uint32_t index)
{
    if (list->kind != MT_VALUE_LIST || index >= list->items->count)
        return &none;
    return &list->items->values[index];
}

static const struct mt_value *key_at(const struct mt_items *items, uint32_t pair)
{
    return items->keys != NULL ? &items->keys[pair] : &items->values[2 * pair];
}

static const struct mt_value *value_at(const struct mt_items *items, uint32_t pair)
{
    return items->keys != NULL ? &items->values[pair] : &items->values[2 * pair + 1];
}

const struct mt_value *mt_value_key_at(const struct mt_value *dict, uint32_t index)
{
    return dict->kind == MT_VALUE_DICT && index < dict->items->count / 2 ? key_at(dict->items, index) : &none;
}

const struct mt_value *mt_value_value_at(const struct mt_value *dict, uint32_t index)
{
    return dict->kind == MT_VALUE_DICT && index < dict->items->count / 2 ? value_at(dict->items, index) : &none;
}

static bool is_key(const struct mt_value *value, const struct mt_value_key *key)
{
    return value->kind == MT_VALUE_TEXT && value->length == key->length &&
           memcmp(value->text, key->name, key->length) == 0;
}

const struct mt_value *mt_value_get(const struct mt_value *dict, struct mt_value_key *key)
{
    assert(strlen(key->name) == key->length);
    if (dict->kind != MT_VALUE_DICT)
        return &none;
    const struct mt_items *items = dict->items;
    if (key->hint < items->count / 2 && is_key(key_at(items, key->hint), key))
        return value_at(items, key->hint);
    for (uint32_t i = 0; i < items->count / 2 && i < MT_VALUE_MOST_KEYS; i++)
        if (is_key(key_at(items, i), key)) {
            key->hint = i;
            return value_at(items, i);
        }
    return &none;
}

const struct mt_value *mt_value_find(const struct mt_value *dict, const char *name)
{
    return mt_value_get(dict, &(struct mt_value_key){.name = name, .length = (uint32_t)strlen(name)});
}

bool mt_value_is(const struct mt_value *value, const char *text)
{
    return value->kind == MT_VALUE_TEXT && strcmp(value->text, text) == 0;
}

const char *mt_value_text(const struct mt_value *value)
{
    if (value->kind != MT_VALUE_TEXT)
        return "";
    return value->length <= MT_VALUE_MOST_TEXT_BYTES ? value->text : "(a text that is too long)";
}

bool mt_value_integer(const struct mt_value *value, int64_t *out)
{
    if (value->kind != MT_VALUE_INTEGER)
        return false;
    *out = value->integer;
    return true;
}

enum { FIRST_BLOCK = 1 << 12, LARGEST_BLOCK = 1 << 20, ALIGNMENT = 8, FIRST_SLOTS = 64, FIRST_ITEMS = 4 };

/* A piece of the arena, followed by its bytes. */
struct block {
    struct block *previous;
};

/* An entry of a table: a text, the keys of dicts (of kind MT_VALUE_BYTES), or the items of a list or dict. */
struct slot {
    uint64_t hash;
    const void *found; /* NULL: the slot is free */
    uint32_t kind, length;
};

/* Invariants: count * 2 <= capacity, which is a power of two or 0. */
struct table {
    struct slot *slots;
    size_t count, capacity;
};

/* Invariants: [at, end) is the free part of the newest block; bytes <= limits.bytes. */
struct mt_value_store {
    struct mt_value_limits limits;
    uint64_t bytes; /* allocated: blocks, tables, and bytes that readers counted */
    struct block *newest;
    char *at, *end;
    struct table texts, shared, keys;
    uint64_t seed; /* of the hashes, random, so that no file can cause collisions */
};

/* A snapshot's values use 5 bytes for each byte of a pickle. */
struct mt_value_limits mt_value_limits_of(uint64_t file_bytes, uint64_t most_bytes)
{
    const uint64_t longest = UINT64_C(1) << 40, least = UINT64_C(64) << 20;
    file_bytes = file_bytes < longest ? file_bytes : longest;
    const uint64_t usual = least + 16 * file_bytes;
    return (struct mt_value_limits){.bytes = most_bytes == 0 || usual < most_bytes ? usual : most_bytes, .depth = 200};
}

mt_status mt_value_fail_over(uint64_t bytes)
{
    char size[MT_BYTES_TEXT];
    return mt_fail(MT_BAD_TRACE, "reading it needs more than %s of memory, " MT_VALUE_OVER,
                   mt_format_bytes(bytes, size));
}

struct mt_value_store *mt_value_store_create(const struct mt_value_limits *limits)
{
    assert(limits->bytes > 0 && limits->depth > 0);
    struct mt_value_store *store = mt_host_alloc(sizeof *store);
    store->limits = *limits;
    store->seed = mt_splitmix64(mt_clock_ns());
    return store;
}

void mt_value_store_destroy(struct mt_value_store *store)
{
    if (store == NULL)
        return;
    for (struct block *block = store->newest, *previous; block != NULL; block = previous) {
        previous = block->previous;
        free(block);
    }
    free(store->texts.slots);
    free(store->shared.slots);
    free(store->keys.slots);
    free(store);
}

const struct mt_value_limits *mt_value_store_limits(const struct mt_value_store *store)
{
    return &store->limits;
}

uint64_t mt_value_store_bytes(const struct mt_value_store *store)
{
    return store->bytes;
}

mt_status mt_value_store_count(struct mt_value_store *store, uint64_t bytes)
{
    assert(store->bytes <= store->limits.bytes);
    if (bytes > store->limits.bytes - store->bytes)
        return mt_value_fail_over(store->limits.bytes);
    store->bytes += bytes;
    return MT_OK;
}

/* Returns the size of the next block: the sum of all blocks before it, within bounds. A request for more than a quarter
 * of that gets a block of its own. */
static size_t block_bytes(const struct mt_value_store *store, size_t least)
{
    size_t usual = store->bytes < FIRST_BLOCK     ? FIRST_BLOCK
                   : store->bytes < LARGEST_BLOCK ? (size_t)store->bytes
                                                  : LARGEST_BLOCK;
    return sizeof(struct block) + (least > usual / 4 ? least : usual);
}

static mt_status add_block(struct mt_value_store *store, size_t least)
{
    size_t bytes = block_bytes(store, least);
    MT_TRY(mt_value_store_count(store, bytes));
    struct block *block = malloc(bytes);
    if (block == NULL)
        return mt_fail(MT_NO_HOST_MEMORY, "there is no memory left for %zu bytes more", bytes);
    block->previous = store->newest;
    store->newest = block;
    store->at = (char *)(block + 1);
    store->end = (char *)block + bytes;
    return MT_OK;
}

/* Allocates bytes in the arena, not zeroed. */
static mt_status take(struct mt_value_store *store, size_t bytes, void *out)
{
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > (size_t)(store->end - store->at)) {
        MT_TRY(add_block(store, bytes));
    }
    *(void **)out = store->at;
    store->at += bytes;
    assert(store->at <= store->end);
    return MT_OK;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_bytes(uint64_t seed, const void *data, size_t length)
{
    const char *at = data;
    uint64_t hash = seed ^ length, word;
    for (; length >= sizeof word; length -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = mix(hash, word);
    }
    word = 0;
    memcpy(&word, at, length);
    return mix(mix(hash, word), seed);
}

/* True if the items of a list or dict are these values. */
static bool has_values(const struct mt_items *items, const struct mt_value *values, size_t bytes)
{
    if (items->keys == NULL)
        return bytes == 0 || memcmp(items->values, values, bytes) == 0;
    for (uint32_t i = 0; i < items->count / 2; i++)
        if (memcmp(&items->keys[i], &values[2 * i], sizeof *values) != 0 ||
            memcmp(&items->values[i], &values[2 * i + 1], sizeof *values) != 0)
            return false;
    return true;
}

/* Returns the slot of these bytes, or the free slot where they belong. */
static struct slot *find(const struct table *table, struct slot wanted, size_t bytes, const void *data)
{
    assert(table->count < table->capacity);
    size_t mask = table->capacity - 1;
    for (size_t i = (size_t)wanted.hash & mask;; i = (i + 1) & mask) {
        struct slot *slot = &table->slots[i];
        if (slot->found == NULL)
            return slot;
        if (slot->hash != wanted.hash || slot->kind != wanted.kind || slot->length != wanted.length)
            continue;
        const bool is_list = wanted.kind == MT_VALUE_LIST || wanted.kind == MT_VALUE_DICT;
        if (is_list ? has_values(slot->found, data, bytes) : memcmp(slot->found, data, bytes) == 0)
            return slot;
    }
}

static mt_status make_room(struct mt_value_store *store, struct table *table)
{
    if ((table->count + 1) * 2 <= table->capacity)
        return MT_OK;
    struct table larger = {.count = table->count, .capacity = table->capacity == 0 ? FIRST_SLOTS : table->capacity * 2};
    MT_TRY(mt_value_store_count(store, (larger.capacity - table->capacity) * sizeof *larger.slots));
    larger.slots = mt_host_alloc(larger.capacity * sizeof *larger.slots);
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].found == NULL)
            continue;
        size_t at = (size_t)table->slots[i].hash & (larger.capacity - 1);
        while (larger.slots[at].found != NULL)
            at = (at + 1) & (larger.capacity - 1);
        larger.slots[at] = table->slots[i];
    }
    free(table->slots);
    *table = larger;
    assert(table->count * 2 <= table->capacity);
    return MT_OK;
}

static mt_status copy_text(struct mt_value_store *store, const char *data, uint32_t length, const char **out)
{
    char *copy;
    MT_TRY(take(store, (size_t)length + 1, &copy));
    memcpy(copy, data, length);
    copy[length] = '\0';
    *out = copy;
    return MT_OK;
}

mt_status mt_value_store_text(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out)
{
    MT_TRY(make_room(store, &store->texts));
    const struct slot wanted = {.hash = hash_bytes(store->seed, data, length), .kind = MT_VALUE_TEXT, .length = length};
    struct slot *slot = find(&store->texts, wanted, length, data);
    const char *text = slot->found;
    if (text == NULL) {
        MT_TRY(copy_text(store, data, length, &text));
        *slot = wanted;
        slot->found = text;
        store->texts.count++;
    }
    *out = (struct mt_value){.kind = MT_VALUE_TEXT, .length = length, .text = text};
    return MT_OK;
}

mt_status mt_value_store_blob(struct mt_value_store *store, const char *data, uint32_t length, struct mt_value *out)
{
    *out = (struct mt_value){.kind = MT_VALUE_BYTES, .length = length};
    return copy_text(store, data, length, &out->text);
}

mt_status mt_value_store_open(struct mt_value_store *store, mt_value_kind kind, struct mt_value *out)
{
    assert(kind == MT_VALUE_LIST || kind == MT_VALUE_DICT);
    struct mt_items *items;
    MT_TRY(take(store, sizeof *items, &items));
    *items = (struct mt_items){.depth = 1};
    *out = (struct mt_value){.kind = (uint32_t)kind, .items = items};
    return MT_OK;
}

static bool holds_others(const struct mt_value *value)
{
    return value->kind == MT_VALUE_LIST || value->kind == MT_VALUE_DICT;
}

/* Closes the values that are lists, and raises *depth above each of them. */
static mt_status close_all(const struct mt_value_store *store, const struct mt_value *values, uint32_t count,
                           uint32_t *depth)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!holds_others(&values[i]))
            continue;
        values[i].items->closed = true;
        if (values[i].items->depth >= *depth)
            *depth = values[i].items->depth + 1;
    }
    if (*depth > store->limits.depth)
        return mt_fail(MT_BAD_TRACE, "its lists are nested more than %" PRIu32 " deep", store->limits.depth);
    return MT_OK;
}

/* Makes room for `count` more. Items that outgrow their place are copied to one of twice the size; the arena keeps
 * the old place. */
static mt_status grow(struct mt_value_store *store, struct mt_items *items, uint32_t count)
{
    if (count <= items->capacity - items->count)
        return MT_OK;
    if (count > UINT32_MAX / 4 || items->count > UINT32_MAX / 4)
        return mt_fail(MT_BAD_TRACE, "it has a list of more than %" PRIu32 " values", UINT32_MAX / 4);
    uint32_t least = items->count + count;
    uint32_t capacity = items->count == 0 ? least : least > items->capacity * 2 ? least : items->capacity * 2;
    capacity = capacity < FIRST_ITEMS ? FIRST_ITEMS : capacity;
    struct mt_value *values;
    MT_TRY(take(store, capacity * sizeof *values, &values));
    if (items->count > 0)
        memcpy(values, items->values, items->count * sizeof *values);
    items->values = values;
    items->capacity = capacity;
    return MT_OK;
}

/* Finds the keys of a dict among the shared keys, or adds them. *out is NULL if they are not shared: there are too few
 * or too many, they are not texts, or the file has more kinds of dicts than usual files. */
static mt_status find_keys(struct mt_value_store *store, const struct mt_value *values, uint32_t count,
                           const struct mt_value **out)
{
    enum { LEAST_KEYS = 3, MOST_KEYS = 32, MOST_KINDS = 4096 };
    struct mt_value keys[MOST_KEYS];
    const uint32_t pairs = count / 2;
    *out = NULL;
    if (pairs < LEAST_KEYS || pairs > MOST_KEYS)
        return MT_OK;
    for (uint32_t i = 0; i < pairs; i++) {
        if (values[2 * i].kind != MT_VALUE_TEXT)
            return MT_OK;
        keys[i] = values[2 * i];
    }
    MT_TRY(make_room(store, &store->keys));
    const size_t bytes = pairs * sizeof *keys;
    const struct slot wanted = {.hash = hash_bytes(store->seed, keys, bytes), .kind = MT_VALUE_BYTES, .length = pairs};
    struct slot *slot = find(&store->keys, wanted, bytes, keys);
    if (slot->found == NULL && store->keys.count < MOST_KINDS) {
        struct mt_value *copy;
        MT_TRY(take(store, bytes, &copy));
        memcpy(copy, keys, bytes);
        *slot = wanted;
        slot->found = copy;
        store->keys.count++;
    }
    *out = slot->found;
    return MT_OK;
}

/* Fills an empty dict whose keys are shared. */
static mt_status fill(struct mt_value_store *store, struct mt_items *items, const struct mt_value *keys,
                      const struct mt_value *values, uint32_t count)
{
    assert(items->count == 0 && items->keys == NULL);
    struct mt_value *copy;
    MT_TRY(take(store, count / 2 * sizeof *copy, &copy));
    for (uint32_t i = 0; i < count / 2; i++)
        copy[i] = values[2 * i + 1];
    items->keys = keys;
    items->values = copy;
    items->count = items->capacity = count;
    return MT_OK;
}

/* Gives a dict its own keys, so that it can grow. */
static mt_status own_keys(struct mt_value_store *store, struct mt_items *items)
{
    struct mt_value *values;
    MT_TRY(take(store, items->count * sizeof *values, &values));
    for (uint32_t i = 0; i < items->count / 2; i++) {
        values[2 * i] = items->keys[i];
        values[2 * i + 1] = items->values[i];
    }
    items->keys = NULL;
    items->values = values;
    return MT_OK;
}

mt_status mt_value_store_add(struct mt_value_store *store, const struct mt_value *to, const struct mt_value *values,
                             uint32_t count)
{
    assert(to->kind != MT_VALUE_DICT || count % 2 == 0);
    struct mt_items *items = to->items;
    MT_TRY(close_all(store, values, count, &items->depth));
    if (items->closed)
        return mt_fail(MT_BAD_TRACE, "it adds to a %s that is in another one already, or in itself",
                       mt_value_kind_name((mt_value_kind)to->kind));
    const struct mt_value *keys = NULL;
    if (to->kind == MT_VALUE_DICT && items->count == 0)
        MT_TRY(find_keys(store, values, count, &keys));
    if (keys != NULL)
        return fill(store, items, keys, values, count);
    if (items->keys != NULL && count > 0)
        MT_TRY(own_keys(store, items));
    MT_TRY(grow(store, items, count));
    if (count > 0)
        memcpy(items->values + items->count, values, count * sizeof *values);
    items->count += count;
    return MT_OK;
}

static mt_status make_closed(struct mt_value_store *store, mt_value_kind kind, const struct mt_value *values,
                             uint32_t count, struct mt_value *out)
{
    mt_status status = mt_value_store_open(store, kind, out);
    MT_THEN(status, mt_value_store_add(store, out, values, count));
    if (status == MT_OK)
        out->items->closed = true;
    return status;
}

mt_status mt_value_store_share(struct mt_value_store *store, mt_value_kind kind, const struct mt_value *values,
                               uint32_t count, struct mt_value *out)
{
    MT_TRY(make_room(store, &store->shared));
    size_t bytes = count * sizeof *values;
    const struct slot wanted = {
        .hash = hash_bytes(store->seed + kind, values, bytes), .kind = (uint32_t)kind, .length = count};
    struct slot *slot = find(&store->shared, wanted, bytes, values);
    if (slot->found != NULL) {
        *out = (struct mt_value){.kind = (uint32_t)kind, .items = (struct mt_items *)slot->found};
        return MT_OK;
    }
    MT_TRY(make_closed(store, kind, values, count, out));
    *slot = wanted;
    slot->found = out->items;
    store->shared.count++;
    return MT_OK;
}
