/* The common part of all devices: checks arguments, keeps the sum of reserved bytes below the capacity, and supplies
 * the functions that a backend leaves out. Devices are opened in device_open.c, so that a program with its own device
 * needs no other.
 *
 * The sum is updated atomically, since allocators on several threads may share a device. */
#include "device/device.h"

#include "base/clock.h"
#include "base/text.h"
#include "device/backend.h"

#include <assert.h>
#include <inttypes.h>

/* True if a backend has all required functions and, of each optional group, all or none. */
static __attribute__((unused)) bool is_whole_table(const struct mt_device_table *table)
{
    return table->kind != NULL && table->reserve != NULL && table->release != NULL &&
           (table->range_open == NULL ||
            (table->range_close != NULL && table->range_map != NULL && table->range_unmap != NULL)) &&
           (table->graph_begin == NULL || (table->graph_end != NULL && table->graph_drop != NULL)) &&
           (table->mark != NULL) == (table->elapsed_ms != NULL);
}

void mt_device_close(struct mt_device *device)
{
    if (device == NULL)
        return;
    assert(device->table->close != NULL);
    if (device->watch != NULL)
        device->watch->table->end(device->watch);
    device->table->close(device);
}

const char *mt_device_kind(const struct mt_device *device)
{
    return device->table->kind;
}

static mt_status fail_capacity(const struct mt_device *device, uint64_t bytes, uint64_t reserved)
{
    char asked[MT_BYTES_TEXT], left[MT_BYTES_TEXT], capacity[MT_BYTES_TEXT];
    return mt_fail(MT_OUT_OF_MEMORY, "%s: %s asked, %s of %s left", device->name, mt_format_bytes(bytes, asked),
                   mt_format_bytes(reserved < device->capacity_bytes ? device->capacity_bytes - reserved : 0, left),
                   mt_format_bytes(device->capacity_bytes, capacity));
}

/* Adds `bytes` to the reserved bytes. Fails with MT_OUT_OF_MEMORY if that would exceed the capacity, which may have
 * been lowered below the reserved bytes. */
static mt_status claim(struct mt_device *device, uint64_t bytes)
{
    uint64_t capacity = __atomic_load_n(&device->capacity_bytes, __ATOMIC_RELAXED);
    uint64_t reserved = __atomic_load_n(&device->reserved_bytes, __ATOMIC_RELAXED);
    do {
        if (reserved > capacity || bytes > capacity - reserved)
            return fail_capacity(device, bytes, reserved);
    } while (!__atomic_compare_exchange_n(&device->reserved_bytes, &reserved, reserved + bytes, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return MT_OK;
}

static void unclaim(struct mt_device *device, uint64_t bytes)
{
    uint64_t before = __atomic_fetch_sub(&device->reserved_bytes, bytes, __ATOMIC_RELAXED);
    assert(before >= bytes);
    (void)before;
}

/* Counts a call and claims its bytes. */
static mt_status admit(struct mt_device *device, uint64_t bytes)
{
    assert(is_whole_table(device->table));
    uint64_t number = __atomic_add_fetch(&device->reserve_count, 1, __ATOMIC_RELAXED);
    if (bytes == 0)
        return mt_fail(MT_USAGE, "%s: 0 bytes can't be reserved", device->name);
    if (number == device->fail_reserve_at)
        return mt_fail(MT_OUT_OF_MEMORY, "%s: reserve number %" PRIu64 " was made to fail", device->name, number);
    return claim(device, bytes);
}

mt_status mt_device_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    MT_TRY(admit(device, bytes));
    mt_status status = device->table->reserve(device, bytes, out_address);
    if (status != MT_OK)
        unclaim(device, bytes);
    return status;
}

void mt_device_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    assert(bytes > 0);
    device->table->release(device, address, bytes);
    unclaim(device, bytes);
}

/* Sets the capacity from the limit and the memory held outside. */
static void lower_capacity(struct mt_device *device)
{
    const struct mt_card *card = &device->card;
    const uint64_t context = card->context_bytes, outside = device->outside_bytes;
    const uint64_t held = outside > context ? outside : context;
    uint64_t bytes = mt_card_free_bytes(card) > held ? mt_card_free_bytes(card) - held : 0;
    if (device->limit_bytes > 0 && device->limit_bytes < bytes)
        bytes = device->limit_bytes;
    __atomic_store_n(&device->capacity_bytes, bytes, __ATOMIC_RELAXED);
}

void mt_device_limit(struct mt_device *device, double fraction)
{
    assert(fraction > 0 && fraction <= 1);
    device->limit_bytes = (uint64_t)((double)device->card.memory_bytes * fraction);
    lower_capacity(device);
}

void mt_device_hold(struct mt_device *device, uint64_t bytes)
{
    if (device->card.context_bytes == 0)
        return;
    device->outside_bytes = bytes;
    lower_capacity(device);
}

bool mt_device_has_ranges(const struct mt_device *device)
{
    return device->table->range_open != NULL;
}

static bool is_whole_pages(uint64_t bytes)
{
    return bytes % MT_DEVICE_PAGE == 0;
}

mt_status mt_device_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    assert(mt_device_has_ranges(device));
    if (bytes == 0 || !is_whole_pages(bytes))
        return mt_fail(MT_USAGE, "%s: a range of %" PRIu64 " bytes is not a whole number of pages", device->name,
                       bytes);
    return device->table->range_open(device, bytes, out_address);
}

void mt_device_range_close(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    assert(mt_device_has_ranges(device) && bytes > 0 && is_whole_pages(bytes));
    device->table->range_close(device, address, bytes);
}

mt_status mt_device_range_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    assert(mt_device_has_ranges(device) && is_whole_pages(bytes));
    MT_TRY(admit(device, bytes));
    mt_status status = device->table->range_map(device, address, bytes);
    if (status != MT_OK)
        unclaim(device, bytes);
    return status;
}

void mt_device_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    assert(mt_device_has_ranges(device) && bytes > 0 && is_whole_pages(bytes));
    device->table->range_unmap(device, address, bytes);
    unclaim(device, bytes);
}

mt_status mt_device_follow(struct mt_device *device, mt_stream later, mt_stream earlier)
{
    if (later == earlier || device->table->follow == NULL)
        return MT_OK;
    return device->table->follow(device, later, earlier);
}

mt_status mt_device_write(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream)
{
    if (bytes == 0 || device->table->write == NULL)
        return MT_OK;
    assert(from != NULL);
    return device->table->write(device, to, from, bytes, stream);
}

mt_status mt_device_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream)
{
    if (device->table->read == NULL)
        return mt_fail(MT_FAILED, "%s keeps nothing in its memory, so nothing can be read from it", device->name);
    return bytes == 0 ? MT_OK : device->table->read(device, to, from, bytes, stream);
}

mt_status mt_device_synchronize(struct mt_device *device)
{
    return device->table->synchronize != NULL ? device->table->synchronize(device) : MT_OK;
}

struct mtk_queue *mt_device_queue(struct mt_device *device, mt_stream stream)
{
    return device->table->queue != NULL ? device->table->queue(device, stream) : NULL;
}

void *mt_device_stream_handle(struct mt_device *device, mt_stream stream)
{
    return device->table->stream_handle != NULL ? device->table->stream_handle(device, stream) : NULL;
}

mt_status mt_device_graph_begin(struct mt_device *device, uint64_t key)
{
    return device->table->graph_begin != NULL ? device->table->graph_begin(device, key) : MT_OK;
}

mt_status mt_device_graph_end(struct mt_device *device)
{
    return device->table->graph_end != NULL ? device->table->graph_end(device) : MT_OK;
}

mt_status mt_device_graph_drop(struct mt_device *device)
{
    return device->table->graph_drop != NULL ? device->table->graph_drop(device) : MT_OK;
}

void mt_device_graph_forget(struct mt_device *device)
{
    if (device->table->graph_forget != NULL)
        device->table->graph_forget(device);
}

mt_status mt_device_mark(struct mt_device *device, int number)
{
    assert(number >= 0 && number < MT_DEVICE_MARKS);
    if (device->table->mark != NULL)
        return device->table->mark(device, number);
    device->mark_ns[number] = mt_device_now_ns(device);
    return MT_OK;
}

mt_status mt_device_elapsed_ms(struct mt_device *device, int from, int to, double *out_ms)
{
    assert(from >= 0 && from < MT_DEVICE_MARKS && to >= 0 && to < MT_DEVICE_MARKS);
    if (device->table->elapsed_ms != NULL)
        return device->table->elapsed_ms(device, from, to, out_ms);
    *out_ms = ((double)device->mark_ns[to] - (double)device->mark_ns[from]) * 1e-6;
    return MT_OK;
}

mt_status mt_device_watch_kernels(struct mt_device *device)
{
    if (device->watch != NULL)
        return MT_OK;
    if (device->table->watch_kernels == NULL)
        return mt_fail(MT_FAILED, "%s runs no kernels on a GPU, so there are none to watch", device->name);
    mt_status status = device->table->watch_kernels(device, &device->watch);
    assert((status == MT_OK) == (device->watch != NULL));
    return status;
}

bool mt_device_watches_kernels(const struct mt_device *device)
{
    return device->watch != NULL;
}

uint64_t mt_device_lost_kernels(const struct mt_device *device)
{
    return device->watch != NULL ? device->watch->lost_kernels : 0;
}

uint64_t mt_device_waiting_kernels(const struct mt_device *device)
{
    return device->watch != NULL ? device->watch->table->waiting(device->watch) : 0;
}

void mt_device_tag(struct mt_device *device, mt_label_id label)
{
    if (device->watch != NULL)
        device->watch->table->tag(device->watch, label);
}

void mt_device_tag_step(struct mt_device *device, int64_t step)
{
    if (device->watch != NULL)
        device->watch->table->tag_step(device->watch, step);
}

mt_status mt_device_collect(struct mt_device *device, void (*take)(void *context, const struct mt_kernel *kernel),
                            void *context)
{
    assert(take != NULL);
    return device->watch != NULL ? device->watch->table->collect(device->watch, take, context) : MT_OK;
}

mt_status mt_device_memory(struct mt_device *device, struct mt_device_memory *out)
{
    if (device->table->memory == NULL)
        return mt_fail(MT_FAILED, "%s has no driver that reports used memory", device->name);
    return device->table->memory(device, out);
}

mt_status mt_device_free_memory(struct mt_device *device, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
    struct mt_device_memory memory = {.total_bytes = device->card.memory_bytes};
    if (device->table->memory != NULL)
        MT_TRY(device->table->memory(device, &memory));
    else
        memory.free_bytes =
            mt_card_usable_bytes(&device->card) - __atomic_load_n(&device->reserved_bytes, __ATOMIC_RELAXED);
    *out_free_bytes = memory.free_bytes;
    *out_total_bytes = memory.total_bytes;
    return MT_OK;
}

uint64_t mt_device_now_ns(const struct mt_device *device)
{
    if (device->host_clock_ns > 0)
        return mt_clock_since_ns(device->host_clock_ns);
    return device->table->now_ns(device);
}

void mt_device_spend(struct mt_device *device, const struct mt_work *work)
{
    assert(work->operations >= 0);
    if (device->table->spend != NULL)
        device->table->spend(device, work);
}
