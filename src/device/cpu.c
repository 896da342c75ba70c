/* Host memory as a device. Reservations are anonymous mappings, page-aligned and zeroed, and an address is a pointer.
 * Ops run immediately, so there is no queue. A range is a mapping without access, for which the system commits no
 * memory. A part of it gets memory when it becomes readable and writable. */
#include "device/backend.h"
#include "device/device.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *pointer(mt_addr address)
{
    return (void *)(uintptr_t)address;
}

static __attribute__((unused)) bool is_page_aligned(mt_addr address)
{
    return address % (uint64_t)sysconf(_SC_PAGESIZE) == 0;
}

static mt_status fail_host(const struct mt_device *device, uint64_t bytes)
{
    char asked[MT_BYTES_TEXT];
    return mt_fail(MT_OUT_OF_MEMORY, "%s: the host refuses %s: %s", device->name, mt_format_bytes(bytes, asked),
                   strerror(errno));
}

static mt_status cpu_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail_host(device, bytes);
    *out_address = (mt_addr)(uintptr_t)memory;
    return MT_OK;
}

static void cpu_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    assert(is_page_aligned(address) && bytes > 0);
    munmap(pointer(address), bytes);
}

enum { UNTOUCHABLE = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

static mt_status cpu_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    void *range = mmap(NULL, bytes, PROT_NONE, UNTOUCHABLE, -1, 0);
    if (range == MAP_FAILED)
        return fail_host(device, bytes);
    *out_address = (mt_addr)(uintptr_t)range;
    return MT_OK;
}

static mt_status cpu_range_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    assert(is_page_aligned(address) && bytes > 0);
    return mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) == 0 ? MT_OK : fail_host(device, bytes);
}

/* Maps the pages again, so that the system reclaims the old ones. */
static void cpu_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    assert(is_page_aligned(address) && bytes > 0);
    (void)mmap(pointer(address), bytes, PROT_NONE, UNTOUCHABLE | MAP_FIXED, -1, 0);
}

static mt_status cpu_write(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream)
{
    (void)device;
    (void)stream;
    memcpy(pointer(to), from, bytes);
    return MT_OK;
}

static mt_status cpu_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream)
{
    (void)device;
    (void)stream;
    memcpy(to, pointer(from), bytes);
    return MT_OK;
}

static void cpu_close(struct mt_device *device)
{
    free(device);
}

static const struct mt_device_table cpu_table = {
    .kind = "cpu",
    .reserve = cpu_reserve,
    .release = cpu_release,
    .range_open = cpu_range_open,
    .range_close = cpu_release,
    .range_map = cpu_range_map,
    .range_unmap = cpu_range_unmap,
    .write = cpu_write,
    .read = cpu_read,
    .close = cpu_close,
};

static uint64_t physical_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

mt_status mt_cpu_open(const char *argument, struct mt_device **out)
{
    uint64_t capacity = physical_bytes();
    MT_TRY(argument != NULL ? mt_capacity_parse(argument, &capacity) : MT_OK);
    struct mt_device *device = mt_host_alloc(sizeof *device);
    *device = (struct mt_device){
        .table = &cpu_table,
        .capacity_bytes = capacity,
        .card = mt_card_reference(),
    };
    device->card.memory_bytes = capacity;
    device->card.context_bytes = 0;
    snprintf(device->name, sizeof device->name, "cpu%s%s", argument != NULL ? ":" : "",
             argument != NULL ? argument : "");
    *out = device;
    return MT_OK;
}
