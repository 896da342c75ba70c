#include "producers/file/torch_profile.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "producers/file/profile_cache.h"
#include "producers/file/profile_frames.h"
#include "producers/file/profile_pairs.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* PyTorch's numbers of device types. Ascend, Neuron and others outside PyTorch share the last one. */
enum { DEVICE_CPU = 0, DEVICE_CUDA = 1, DEVICE_HIP = 6, DEVICE_XPU = 12, DEVICE_MTIA = 19, DEVICE_PRIVATE = 20 };

enum { MOST_DEVICES = 1024 };

/* The address of the block for memory whose allocation and free are not in the trace: above the addresses of
 * processes. */
#define UNSEEN_ADDRESS (UINT64_C(1) << 62)

/* An event that is used: about memory, or a call that may allocate memory. Times are in microseconds. */
struct row {
    const struct mt_value *event;
    int64_t thread;
    double begin_us, end_us;
    uint32_t index; /* in the file */
    bool is_memory;
    mt_profile_kind kind; /* of a call */
    struct mt_value frames;
};

/* A reading under way. Invariant: rows[0 .. count) are of the chosen device, or calls. */
struct reading {
    struct mt_value_store *store;
    struct mt_torch_snapshot *out;
    struct row *rows;
    size_t count;
    size_t memory_count;
    int64_t device;
    const struct mt_value *unseen_frames;
    struct mt_import_sizes sizes;
    bool has_addresses, lacks_addresses; /* blocks have them, or not */
    bool has_totals;
};

bool mt_torch_profile_is_one(const struct mt_value *root)
{
    return mt_value_find(root, "traceEvents")->kind == MT_VALUE_LIST;
}

uint64_t mt_torch_profile_capacity(const struct mt_value *root, int64_t device)
{
    const struct mt_value *all = mt_value_find(root, "deviceProperties");
    int64_t bytes, id;
    for (uint32_t i = 0; i < mt_value_count(all); i++)
        if (mt_value_integer(mt_value_find(mt_value_at(all, i), "id"), &id) && id == device &&
            mt_value_integer(mt_value_find(mt_value_at(all, i), "totalGlobalMem"), &bytes) && bytes > 0)
            return (uint64_t)bytes;
    return 0;
}

static bool is_refusal(const struct mt_value *event)
{
    return mt_value_is(mt_value_find(event, "name"), "[OutOfMemory]");
}

static bool is_memory(const struct mt_value *event)
{
    return mt_value_is(mt_value_find(event, "name"), "[memory]") || is_refusal(event);
}

static int64_t integer_or(const struct mt_value *dict, const char *key, int64_t otherwise)
{
    int64_t integer = otherwise;
    mt_value_integer(mt_value_find(dict, key), &integer);
    return integer;
}

/* Returns the number of the event's GPU; MT_IMPORT_ANY_DEVICE for the CPU and other devices. */
static int64_t gpu_of(const struct mt_value *event)
{
    const struct mt_value *args = mt_value_find(event, "args");
    int64_t type = integer_or(args, "Device Type", DEVICE_CPU), number = integer_or(args, "Device Id", -1);
    bool is_gpu = type == DEVICE_CUDA || type == DEVICE_HIP || type == DEVICE_XPU || type == DEVICE_MTIA ||
                  type == DEVICE_PRIVATE;
    return is_gpu && number >= 0 && number < MOST_DEVICES ? number : MT_IMPORT_ANY_DEVICE;
}

/* Chooses the device, and counts the events of others. Fails as mt_torch_profile_read does. */
static mt_status choose_device(struct reading *reading, const struct mt_value *events)
{
    uint64_t *counts = mt_host_alloc((MOST_DEVICES + 1) * sizeof *counts); /* of the CPU first */
    uint64_t all = 0, busiest = 0;
    for (uint32_t i = 0; i < mt_value_count(events); i++)
        if (is_memory(mt_value_at(events, i))) {
            counts[gpu_of(mt_value_at(events, i)) + 1]++;
            all++;
        }
    for (uint64_t i = 1; i <= MOST_DEVICES; i++)
        if (counts[i] > 0 && (busiest == 0 || counts[i] > counts[busiest]))
            busiest = i;
    int64_t wanted = reading->device;
    uint64_t found = wanted == MT_IMPORT_ANY_DEVICE                      ? busiest
                     : wanted == MT_IMPORT_CPU || wanted >= MOST_DEVICES ? 0
                                                                         : (uint64_t)wanted + 1;
    reading->device = (int64_t)found - 1;
    reading->out->elsewhere = all - counts[found];
    bool is_absent = wanted != MT_IMPORT_ANY_DEVICE && (counts[found] == 0 || (found == 0 && wanted != MT_IMPORT_CPU));
    free(counts);
    if (all == 0)
        return mt_fail(MT_BAD_TRACE, "it is a trace of torch.profiler without events of memory: make it with "
                                     "profile_memory=True");
    if (is_absent)
        return wanted == MT_IMPORT_CPU
                   ? mt_fail(MT_USAGE, "the trace has no event of the CPU's memory")
                   : mt_fail(MT_USAGE, "the trace has no event of memory of device %" PRId64, wanted);
    return MT_OK;
}

/* Reads a time in microseconds. False if it is missing, or out of the range of clocks. */
static bool read_us(const struct mt_value *event, const char *key, double *out)
{
    const struct mt_value *value = mt_value_find(event, key);
    const double most_us = 9e15;
    int64_t integer = 0;
    if (value->kind == MT_VALUE_REAL)
        *out = value->real;
    else if (mt_value_integer(value, &integer))
        *out = (double)integer;
    else
        return false;
    return isfinite(*out) && *out >= 0 && *out <= most_us;
}

static mt_status fail_at(uint32_t index, const char *what)
{
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRIu32 ", of memory, has no %s", index, what);
}

/* Adds an event of the device's memory. */
static mt_status add_memory(struct reading *reading, struct row *row)
{
    if (!read_us(row->event, "ts", &row->begin_us))
        return fail_at(row->index, "\"ts\" that is a time");
    row->end_us = row->begin_us;
    row->is_memory = true;
    const struct mt_value *args = mt_value_find(row->event, "args");
    const bool has_address = mt_value_find(args, "Addr")->kind != MT_VALUE_NONE;
    reading->has_addresses |= has_address;
    reading->lacks_addresses |= !has_address && !is_refusal(row->event);
    reading->has_totals |= mt_value_find(args, "Total Allocated")->kind != MT_VALUE_NONE;
    reading->memory_count++;
    reading->rows[reading->count++] = *row;
    return MT_OK;
}

/* Adds an event with a duration, if it is a call. Events on streams of a GPU have no thread number, or another kind. */
static void add_call(struct reading *reading, struct row *row)
{
    row->kind = mt_profile_kind_of(row->event);
    if (row->kind == MT_PROFILE_OTHER || !read_us(row->event, "ts", &row->begin_us) ||
        !read_us(row->event, "dur", &row->end_us))
        return;
    row->end_us += row->begin_us;
    reading->rows[reading->count++] = *row;
}

static mt_status add_rows(struct reading *reading, const struct mt_value *events)
{
    reading->rows = mt_host_alloc((mt_value_count(events) + (size_t)1) * sizeof *reading->rows);
    for (uint32_t i = 0; i < mt_value_count(events); i++) {
        struct row row = {.event = mt_value_at(events, i), .index = i};
        row.thread = integer_or(row.event, "tid", -1);
        if (is_memory(row.event) && gpu_of(row.event) == reading->device)
            MT_TRY(add_memory(reading, &row));
        else if (mt_value_is(mt_value_find(row.event, "ph"), "X"))
            add_call(reading, &row);
    }
    return MT_OK;
}

/* The order of a thread's calls and memory, outer calls first. */
static int compare_within_threads(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = MT_COMPARE(a->thread, b->thread);
    if (order == 0)
        order = MT_COMPARE(a->begin_us, b->begin_us);
    if (order == 0)
        order = MT_COMPARE(a->is_memory, b->is_memory);
    if (order == 0)
        order = MT_COMPARE(b->end_us, a->end_us);
    return order != 0 ? order : MT_COMPARE(a->index, b->index);
}

/* Gives each allocation the calls that are open on its thread. */
static mt_status find_frames(struct reading *reading)
{
    struct mt_profile_call open[MT_PROFILE_MOST_OPEN];
    double ends_us[MT_PROFILE_MOST_OPEN];
    uint32_t count = 0;
    qsort(reading->rows, reading->count, sizeof *reading->rows, compare_within_threads);
    for (size_t i = 0; i < reading->count; i++) {
        struct row *row = &reading->rows[i];
        if (i > 0 && row->thread != reading->rows[i - 1].thread)
            count = 0;
        while (count > 0 && ends_us[count - 1] <= row->begin_us)
            count--;
        assert(count <= MT_PROFILE_MOST_OPEN);
        if (row->is_memory)
            MT_TRY(mt_profile_frames(reading->store, open, count, &row->frames));
        if (row->is_memory || count == MT_PROFILE_MOST_OPEN)
            continue;
        open[count] = (struct mt_profile_call){.event = row->event, .kind = row->kind};
        ends_us[count++] = row->end_us;
    }
    return MT_OK;
}

static int compare_annotations(const void *left, const void *right)
{
    const struct mt_torch_annotation *a = left, *b = right;
    int order = MT_COMPARE(a->time_us, b->time_us);
    return order != 0 ? order : MT_COMPARE(b->is_end, a->is_end);
}

static void read_annotations(struct reading *reading)
{
    struct mt_torch_snapshot *out = reading->out;
    out->annotations = mt_host_alloc((2 * reading->count + 1) * sizeof *out->annotations);
    for (size_t i = 0; i < reading->count; i++) {
        const struct row *row = &reading->rows[i];
        if (row->is_memory || (row->kind != MT_PROFILE_ANNOTATION && row->kind != MT_PROFILE_OPTIMIZER))
            continue;
        const char *name = mt_value_text(mt_value_find(row->event, "name"));
        out->annotations[out->annotation_count++] = (struct mt_torch_annotation){name, (int64_t)row->begin_us, false};
        out->annotations[out->annotation_count++] = (struct mt_torch_annotation){name, (int64_t)row->end_us, true};
    }
    qsort(out->annotations, out->annotation_count, sizeof *out->annotations, compare_annotations);
}

static int compare_memory(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = MT_COMPARE(b->is_memory, a->is_memory); /* calls come last and are not read */
    if (order == 0)
        order = MT_COMPARE(a->begin_us, b->begin_us);
    return order != 0 ? order : MT_COMPARE(a->index, b->index);
}

static mt_status read_address(const struct row *row, uint64_t *out)
{
    int64_t address;
    if (!mt_value_integer(mt_value_find(mt_value_find(row->event, "args"), "Addr"), &address) || address < 0)
        return fail_at(row->index, "\"Addr\" that is a natural number");
    if ((uint64_t)address >= UNSEEN_ADDRESS - MT_IMPORT_MOST_BYTES)
        return fail_at(row->index, "\"Addr\" that is an address");
    *out = (uint64_t)address;
    return MT_OK;
}

/* Reads the address, if the trace has them, and the size of a block that is allocated or freed. */
static mt_status read_block(struct reading *reading, const struct row *row, struct mt_torch_event *out)
{
    int64_t bytes = (int64_t)out->bytes;
    if (reading->has_addresses)
        MT_TRY(read_address(row, &out->address));
    out->action = bytes == 0 ? MT_TORCH_OTHER : bytes < 0 ? MT_TORCH_FREE_COMPLETED : MT_TORCH_ALLOC;
    out->bytes = out->block_bytes = (uint64_t)(bytes < 0 ? -bytes : bytes);
    mt_status status = mt_import_sizes_add(&reading->sizes, out->bytes);
    return status == MT_OK ? MT_OK : mt_fail_context(status, "the trace is damaged: event %" PRIu32, row->index);
}

static mt_status read_event(struct reading *reading, const struct row *row, struct mt_torch_event *out)
{
    int64_t bytes;
    if (!mt_value_integer(mt_value_find(mt_value_find(row->event, "args"), "Bytes"), &bytes) || bytes == INT64_MIN)
        return fail_at(row->index, "\"Bytes\" that is a number");
    *out = (struct mt_torch_event){.action = MT_TORCH_OOM,
                                   .address = UINT64_MAX, /* the free bytes are not stated */
                                   .bytes = (uint64_t)bytes,
                                   .time_us = (int64_t)row->begin_us,
                                   .event = row->event};
    if (!is_refusal(row->event))
        return read_block(reading, row, out);
    return bytes >= 0 ? MT_OK : fail_at(row->index, "\"Bytes\" that is a natural number");
}

/* Copies the frames into the store, since the rows are freed. The last ones are the frames of unseen memory. */
static mt_status keep_frames(struct reading *reading, struct mt_value *out)
{
    size_t count = reading->memory_count;
    struct mt_value *frames = mt_host_alloc((count + 1) * sizeof *frames);
    for (size_t i = 0; i < count; i++)
        frames[i] = reading->rows[i].frames;
    mt_status status = mt_profile_frame(reading->store, MT_UNSEEN_MEMORY, MT_PROGRAM_FILE, &frames[count]);
    MT_THEN(status, mt_value_store_share(reading->store, MT_VALUE_LIST, frames, (uint32_t)count + 1, out));
    free(frames);
    return status;
}

static mt_status read_events(struct reading *reading)
{
    struct mt_torch_snapshot *out = reading->out;
    struct mt_value frames;
    qsort(reading->rows, reading->count, sizeof *reading->rows, compare_memory);
    out->events = mt_host_alloc((reading->memory_count + 1) * sizeof *out->events);
    MT_TRY(keep_frames(reading, &frames));
    for (size_t i = 0; i < reading->memory_count; i++) {
        MT_TRY(read_event(reading, &reading->rows[i], &out->events[i]));
        out->events[i].frames = mt_value_at(&frames, (uint32_t)i);
        out->event_count++;
    }
    out->state_event = out->event_count;
    reading->unseen_frames = mt_value_at(&frames, (uint32_t)reading->memory_count);
    return MT_OK;
}

/* Returns the bytes of blocks that are freed but not allocated in the trace. */
static uint64_t count_freed_only(const struct mt_torch_snapshot *snapshot)
{
    struct mt_number_map live;
    uint64_t bytes = 0, ignored;
    mt_number_map_create(&live);
    for (size_t i = 0; i < snapshot->event_count; i++) {
        const struct mt_torch_event *event = &snapshot->events[i];
        if (event->action == MT_TORCH_ALLOC)
            mt_number_map_put(&live, event->address, i);
        else if (event->action == MT_TORCH_FREE_COMPLETED && !mt_number_map_take(&live, event->address, &ignored))
            bytes += event->bytes;
    }
    mt_number_map_release(&live);
    return bytes;
}

/* Adds a block for the bytes by which the first total exceeds the known blocks. */
static void add_unseen(struct reading *reading)
{
    struct mt_torch_snapshot *out = reading->out;
    int64_t total = integer_or(mt_value_find(out->events[0].event, "args"), "Total Allocated", 0);
    uint64_t first = out->events[0].bytes, known = count_freed_only(out), before = total > 0 ? (uint64_t)total : 0;
    known += out->events[0].action == MT_TORCH_ALLOC ? first : 0;
    before += out->events[0].action == MT_TORCH_FREE_COMPLETED ? first : 0;
    if (before <= known || before - known > MT_IMPORT_MOST_BYTES)
        return;
    out->blocks = mt_host_alloc(sizeof *out->blocks);
    out->blocks[out->block_count++] = (struct mt_torch_block){.address = UNSEEN_ADDRESS,
                                                              .bytes = before - known,
                                                              .requested_bytes = before - known,
                                                              .frames = reading->unseen_frames};
}

static mt_status read_rows(struct reading *reading, const struct mt_value *events)
{
    MT_TRY(choose_device(reading, events));
    MT_TRY(add_rows(reading, events));
    MT_TRY(find_frames(reading));
    read_annotations(reading);
    MT_TRY(read_events(reading));
    reading->out->is_paired = reading->lacks_addresses && !reading->has_addresses;
    if (reading->out->is_paired)
        mt_profile_pair(reading->out);
    reading->out->is_relative = !reading->has_totals;
    add_unseen(reading);
    mt_profile_cache_add(reading->out);
    return MT_OK;
}

mt_status mt_torch_profile_read(const struct mt_value *root, int64_t device, struct mt_value_store *store,
                                struct mt_torch_snapshot *out)
{
    assert(device >= MT_IMPORT_HOST);
    struct reading reading = {.store = store, .out = out, .device = device};
    *out = (struct mt_torch_snapshot){0};
    if (device == MT_IMPORT_HOST)
        return mt_fail(MT_USAGE, "a trace of torch.profiler does not describe pinned memory");
    mt_status status = read_rows(&reading, mt_value_find(root, "traceEvents"));
    out->device = reading.device;
    free(reading.rows);
    return status;
}
