/* Values are looked up by name, so a snapshot may contain unknown ones. A value that is used must have the right
 * kind. */
#include "producers/file/torch_snapshot.h"

#include "base/memory.h"
#include "producers/file/import_reader.h"
#include "producers/file/torch_totals.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The keys, each with the place where it was found last. */
struct keys {
    struct mt_value_key action, addr, address, size, requested_size, total_size, stream, time_us, frames, state, blocks,
        device, device_free, is_expandable, stage, name, block_bytes, history, real_size, pool_id, segment_pool_id;
};

/* A reading under way. */
struct reading {
    struct keys keys;
    struct mt_import_sizes sizes;
    struct mt_torch_snapshot *out;
    bool has_time;        /* an event has one */
    bool has_block_sizes; /* events have the sizes of blocks, not of requests */
};

static struct keys make_keys(void)
{
#define KEY(name) .name = MT_VALUE_KEY(#name)
    return (struct keys){
        KEY(action),      KEY(addr),          KEY(address),        KEY(size),  KEY(requested_size), KEY(total_size),
        KEY(stream),      KEY(time_us),       KEY(frames),         KEY(state), KEY(blocks),         KEY(device),
        KEY(device_free), KEY(is_expandable), KEY(stage),          KEY(name),  KEY(block_bytes),    KEY(history),
        KEY(real_size),   KEY(pool_id),       KEY(segment_pool_id)};
#undef KEY
}

bool mt_torch_snapshot_is_one(const struct mt_value *root)
{
    if (mt_torch_is_list(root))
        return true;
    return mt_value_find(root, "segments")->kind == MT_VALUE_LIST &&
           mt_value_find(root, "device_traces")->kind == MT_VALUE_LIST;
}

uint64_t mt_torch_snapshot_most_bytes(const struct mt_value *root)
{
    enum { REPLAY_BYTES = 48 }; /* for each event: its moment, the bytes of its block, and the block it may replace */
    const struct mt_value *traces = mt_value_find(root, "device_traces");
    uint64_t most = mt_value_count(mt_value_find(root, "host_traces"));
    for (uint32_t i = 0; i < mt_value_count(traces); i++)
        most = mt_value_count(mt_value_at(traces, i)) > most ? mt_value_count(mt_value_at(traces, i)) : most;
    most += mt_value_count(mt_value_find(mt_value_find(root, "memtrace"), "after"));
    return most * (sizeof(struct mt_torch_event) + REPLAY_BYTES);
}

/* The place of a row, for messages. */
struct place {
    const char *what; /* "event" */
    uint32_t index;
};

static mt_status fail_at(struct place place, const char *key, const char *expected)
{
    return mt_fail(MT_BAD_TRACE, "the snapshot is damaged: %s %" PRIu32 " has no %s that is %s", place.what,
                   place.index, key, expected);
}

/* Reads a number of bytes, or an address. */
static mt_status read_natural(const struct mt_value *dict, struct mt_value_key *key, struct place place, uint64_t *out)
{
    int64_t integer;
    if (!mt_value_integer(mt_value_get(dict, key), &integer) || integer < 0)
        return fail_at(place, key->name, "a natural number");
    *out = (uint64_t)integer;
    return MT_OK;
}

/* The same, but returns `otherwise` if there is none, as in older snapshots. */
static uint64_t natural_or(const struct mt_value *dict, struct mt_value_key *key, uint64_t otherwise)
{
    int64_t integer;
    return mt_value_integer(mt_value_get(dict, key), &integer) && integer >= 0 ? (uint64_t)integer : otherwise;
}

static bool is_about_memory(mt_torch_action action)
{
    return action <= MT_TORCH_SEGMENT_UNMAP;
}

/* Checks a size at an address. */
static mt_status check_size(struct reading *reading, struct place place, uint64_t address, uint64_t bytes)
{
    mt_status status = mt_import_sizes_add(&reading->sizes, bytes);
    if (status != MT_OK)
        return mt_fail_context(status, "the snapshot is damaged: %s %" PRIu32, place.what, place.index);
    if (bytes > INT64_MAX - address)
        return fail_at(place, "size", "within its address space");
    return MT_OK;
}

static mt_status read_size(struct reading *reading, const struct mt_value *dict, struct mt_value_key *key,
                           struct place place, uint64_t address, uint64_t *out)
{
    mt_status status = read_natural(dict, key, place, out);
    return status == MT_OK ? check_size(reading, place, address, *out) : status;
}

/* Reads the fields of an event about memory. */
static mt_status read_memory(struct reading *reading, const struct mt_value *value, struct place place,
                             struct mt_torch_event *out)
{
    struct keys *keys = &reading->keys;
    mt_status status = read_natural(value, &keys->addr, place, &out->address);
    MT_THEN(status, read_size(reading, value, &keys->size, place, out->address, &out->bytes));
    out->block_bytes = natural_or(value, &keys->block_bytes, reading->has_block_sizes ? out->bytes : 0);
    if (status == MT_OK && out->block_bytes > 0)
        status = check_size(reading, place, out->address, out->block_bytes);
    return status;
}

static mt_status read_event(struct reading *reading, const struct mt_value *value, struct place place,
                            struct mt_torch_event *out)
{
    struct keys *keys = &reading->keys;
    int64_t time_us = 0;
    *out = (struct mt_torch_event){.event = value};
    if (mt_value_get(value, &keys->action)->kind != MT_VALUE_TEXT)
        return fail_at(place, "action", "a text");
    out->action = (uint8_t)mt_torch_action_find(mt_value_get(value, &keys->action));
    out->stream = natural_or(value, &keys->stream, 0);
    out->pool = mt_torch_pools_find(&reading->out->pools, mt_value_get(value, &keys->pool_id));
    out->frames = mt_value_get(value, &keys->frames);
    reading->has_time |= mt_value_integer(mt_value_get(value, &keys->time_us), &time_us);
    out->time_us = time_us;
    if (is_about_memory((mt_torch_action)out->action))
        return read_memory(reading, value, place, out);
    out->bytes = natural_or(value, &keys->size, 0); /* of the refused request: any number */
    if (out->action == MT_TORCH_OOM)
        out->address = natural_or(value, &keys->device_free, UINT64_MAX);
    if (out->action == MT_TORCH_ANNOTATE || out->action == MT_TORCH_WORKSPACE)
        out->address = natural_or(value, &keys->addr, 0);
    return MT_OK;
}

/* True if one of the two entries before the next event announces it as the allocation of a workspace. */
static bool is_workspace(const struct mt_torch_snapshot *snapshot)
{
    const struct mt_torch_event *event = &snapshot->events[snapshot->event_count];
    for (size_t back = 1; back <= 2 && back <= snapshot->event_count; back++)
        if (event->action == MT_TORCH_ALLOC && event[-(ptrdiff_t)back].action == MT_TORCH_WORKSPACE)
            return event[-(ptrdiff_t)back].address == event->address;
    return false;
}

static mt_status read_list(struct reading *reading, const struct mt_value *list)
{
    struct mt_torch_snapshot *out = reading->out;
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < mt_value_count(list) && status == MT_OK; i++) {
        struct mt_torch_event *event = &out->events[out->event_count];
        status = read_event(reading, mt_value_at(list, i), (struct place){"event", i}, event);
        event->is_workspace = is_workspace(out);
        event->block_bytes = event->is_workspace ? event->bytes : event->block_bytes;
        out->event_count += status == MT_OK;
    }
    return status;
}

static void number_moments(struct mt_torch_snapshot *out)
{
    out->is_untimed = true;
    for (size_t i = 0; i < out->event_count; i++)
        out->events[i].time_us = (int64_t)i;
}

/* Reads the events before the snapshot's state and, in one of our exports, the events after it. */
static mt_status read_events(struct reading *reading, const struct mt_value *before, const struct mt_value *after)
{
    struct mt_torch_snapshot *out = reading->out;
    size_t most = (size_t)mt_value_count(before) + mt_value_count(after) + 1;
    out->events = mt_host_alloc(most * sizeof *out->events);
    mt_status status = read_list(reading, before);
    out->state_event = out->event_count;
    MT_THEN(status, read_list(reading, after));
    if (out->event_count > 0 && !reading->has_time)
        number_moments(out);
    return status;
}

static mt_status read_block(struct reading *reading, const struct mt_value *value, struct place place, uint64_t next,
                            struct mt_torch_block *out)
{
    struct keys *keys = &reading->keys;
    /* PyTorch 2.0 lists the requests that the block served, the last one first. */
    const struct mt_value *last = mt_value_at(mt_value_get(value, &keys->history), 0);
    *out = (struct mt_torch_block){.address = natural_or(value, &keys->address, next),
                                   .frames = mt_value_get(value, &keys->frames)};
    if (out->frames->kind != MT_VALUE_LIST)
        out->frames = mt_value_get(last, &keys->frames);
    MT_TRY(read_size(reading, value, &keys->size, place, out->address, &out->bytes));
    out->requested_bytes = natural_or(value, &keys->requested_size, natural_or(last, &keys->real_size, out->bytes));
    return check_size(reading, place, out->address, out->requested_bytes);
}

/* Reads the blocks of a segment that are not free. */
static mt_status read_blocks(struct reading *reading, const struct mt_value *list,
                             const struct mt_torch_segment *segment)
{
    assert(segment->bytes <= MT_IMPORT_MOST_BYTES);
    struct mt_torch_snapshot *out = reading->out;
    mt_status status = MT_OK;
    uint64_t next = segment->address; /* older snapshots lack addresses: blocks are adjacent */
    for (uint32_t i = 0; i < mt_value_count(list) && status == MT_OK; i++) {
        const struct mt_value *value = mt_value_at(list, i);
        struct mt_torch_block *block = &out->blocks[out->block_count];
        status = read_block(reading, value, (struct place){"block", i}, next, block);
        block->stream = segment->stream;
        block->pool = segment->pool;
        next = block->address + block->bytes;
        out->block_count += status == MT_OK && !mt_value_is(mt_value_get(value, &reading->keys.state), "inactive");
    }
    return status;
}

static mt_status read_segment(struct reading *reading, const struct mt_value *value, struct place place,
                              struct mt_torch_segment *out)
{
    struct keys *keys = &reading->keys;
    const struct mt_value *expandable = mt_value_get(value, &keys->is_expandable);
    *out = (struct mt_torch_segment){
        .stream = natural_or(value, &keys->stream, 0),
        .pool = mt_torch_pools_find(&reading->out->pools, mt_value_get(value, &keys->segment_pool_id)),
        .is_expandable = expandable->kind == MT_VALUE_BOOL && expandable->integer != 0};
    mt_status status = read_natural(value, &keys->address, place, &out->address);
    MT_THEN(status, read_size(reading, value, &keys->total_size, place, out->address, &out->bytes));
    MT_THEN(status, read_blocks(reading, mt_value_get(value, &keys->blocks), out));
    return status == MT_OK ? MT_OK : mt_fail_context(status, "segment %" PRIu32, place.index);
}

/* For pinned memory, PyTorch writes device -1. */
static bool is_of_device(const struct mt_value *value, struct keys *keys, int64_t device)
{
    return device == MT_IMPORT_HOST || natural_or(value, &keys->device, 0) == (uint64_t)device;
}

/* Returns the number of blocks in the device's segments. A list that several segments share counts for each. */
static uint64_t count_blocks(const struct mt_value *list, struct keys *keys, int64_t device)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < mt_value_count(list); i++)
        if (is_of_device(mt_value_at(list, i), keys, device))
            count += mt_value_count(mt_value_get(mt_value_at(list, i), &keys->blocks));
    return count;
}

static mt_status read_segments(struct reading *reading, const struct mt_value *list)
{
    enum { MOST_BLOCKS = 1 << 22 };
    struct mt_torch_snapshot *out = reading->out;
    mt_status status = MT_OK;
    uint64_t blocks = count_blocks(list, &reading->keys, out->device);
    if (blocks > MOST_BLOCKS)
        return mt_fail(MT_BAD_TRACE, "the snapshot is damaged: it has %" PRIu64 " blocks", blocks);
    out->segments = mt_host_alloc((mt_value_count(list) + 1) * sizeof *out->segments);
    out->blocks = mt_host_alloc((blocks + 1) * sizeof *out->blocks);
    for (uint32_t i = 0; i < mt_value_count(list) && status == MT_OK; i++) {
        const struct mt_value *value = mt_value_at(list, i);
        if (!is_of_device(value, &reading->keys, out->device))
            continue;
        status = read_segment(reading, value, (struct place){"segment", i}, &out->segments[out->segment_count]);
        out->segment_count += status == MT_OK;
    }
    return status;
}

static void read_annotations(struct reading *reading, const struct mt_value *list)
{
    struct mt_torch_snapshot *out = reading->out;
    struct keys *keys = &reading->keys;
    out->annotations = mt_host_alloc((mt_value_count(list) + 1) * sizeof *out->annotations);
    for (uint32_t i = 0; i < mt_value_count(list); i++) {
        const struct mt_value *value = mt_value_at(list, i);
        struct mt_torch_annotation *annotation = &out->annotations[out->annotation_count];
        if (!is_of_device(value, keys, out->device))
            continue;
        annotation->name = mt_value_text(mt_value_get(value, &keys->name));
        annotation->is_end = mt_value_is(mt_value_get(value, &keys->stage), "END");
        out->annotation_count += mt_value_integer(mt_value_get(value, &keys->time_us), &annotation->time_us);
    }
}

/* Ascend's allocator adds PADDING_BYTES to requests, except on newer chips. A live block without room for them shows
 * that it added none. */
static void find_padding(struct mt_torch_snapshot *out)
{
    enum { PADDING_BYTES = 32 };
    out->settings.padding_bytes = out->settings.device == MT_TORCH_ASCEND ? PADDING_BYTES : 0;
    for (size_t i = 0; i < out->block_count; i++)
        if (out->blocks[i].bytes < out->blocks[i].requested_bytes + PADDING_BYTES)
            out->settings.padding_bytes = 0;
}

/* Fails with MT_USAGE if the snapshot has no such device. */
static mt_status check_device(const struct mt_torch_totals *totals, int64_t device)
{
    if (device == MT_IMPORT_CPU)
        return mt_fail(MT_USAGE, "a snapshot does not describe the CPU's memory, except pinned memory (host)");
    if (device == MT_IMPORT_HOST)
        return totals->has_host ? MT_OK
                                : mt_fail(MT_USAGE, "the snapshot has no pinned memory of the host, which "
                                                    "_record_memory_history(record_pinned_host_memory=True) records");
    return device >= 0 && device < totals->device_count
               ? MT_OK
               : mt_fail(MT_USAGE, "the snapshot has %" PRIu32 " devices, from 0, and no device %" PRId64,
                         totals->device_count, device);
}

mt_status mt_torch_snapshot_read(const struct mt_value *root, int64_t device, struct mt_torch_snapshot *out)
{
    assert(device >= MT_IMPORT_HOST);
    struct reading reading = {.keys = make_keys(), .out = out};
    struct mt_torch_totals totals;
    *out = (struct mt_torch_snapshot){.device = device};
    if (!mt_torch_snapshot_is_one(root))
        return mt_fail(MT_BAD_TRACE, "it is not a snapshot of PyTorch: it has no segments and device_traces");
    mt_torch_totals_count(root, &totals);
    if (device == MT_IMPORT_ANY_DEVICE)
        out->device = mt_torch_totals_busiest(&totals);
    MT_TRY(check_device(&totals, out->device));
    if (out->device == MT_IMPORT_HOST)
        mt_torch_settings_of_host(&out->settings);
    else
        mt_torch_settings_read(root, &out->settings);
    reading.has_block_sizes = !mt_torch_settings_is_pytorch(&out->settings);
    MT_TRY(read_events(&reading, mt_torch_events_of(root, out->device),
                       mt_value_find(mt_value_find(root, "memtrace"), "after")));
    MT_TRY(read_segments(&reading, mt_torch_segments_of(root, out->device)));
    const struct mt_torch_total elsewhere = mt_torch_totals_without(&totals, out->device);
    out->elsewhere = elsewhere.events;
    out->elsewhere_bytes = elsewhere.reserved_bytes;
    out->has_host = totals.has_host && out->device != MT_IMPORT_HOST;
    read_annotations(&reading, mt_value_find(root, "external_annotations"));
    find_padding(out);
    return MT_OK;
}

void mt_torch_snapshot_release(struct mt_torch_snapshot *snapshot)
{
    free(snapshot->events);
    free(snapshot->blocks);
    free(snapshot->segments);
    free(snapshot->annotations);
    mt_torch_pools_release(&snapshot->pools);
    *snapshot = (struct mt_torch_snapshot){0};
}
