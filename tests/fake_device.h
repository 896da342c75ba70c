/* A device that is an address range and a capacity: addresses go up or down from a place of the test's choice. It
 * counts a fault for each page that is mapped twice, or unmapped without being mapped. If it is broken, it gives no
 * more memory, as a card after a kernel that failed. */
#pragma once

#include "device/backend.h"
#include "device/device.h"

enum { FAKE_MOST_MAPPED = 4096 };

/* Invariant: no two reservations overlap. */
struct fake_device {
    struct mt_device device;
    mt_addr next;                     /* the lowest address of the next reservation, or the end of it when going down */
    int64_t direction;                /* 1 up, -1 down */
    mt_addr mapped[FAKE_MOST_MAPPED]; /* pages with memory, in no order */
    int mapped_count;
    int open_ranges;
    int faults;
    bool is_broken;
};

static mt_status fake_say_broken(void)
{
    return mt_fail(MT_FAILED, "the fake device is broken (700)");
}

static mt_status fake_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct fake_device *fake = (struct fake_device *)device;
    if (fake->is_broken)
        return fake_say_broken();
    if (fake->direction < 0)
        fake->next -= bytes;
    *out_address = fake->next;
    if (fake->direction > 0)
        fake->next += bytes;
    return MT_OK;
}

static void fake_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

static mt_status fake_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    mt_status status = fake_reserve(device, bytes, out_address);
    ((struct fake_device *)device)->open_ranges += status == MT_OK;
    return status;
}

static bool fake_unmap_page(struct fake_device *fake, mt_addr page)
{
    for (int i = 0; i < fake->mapped_count; i++)
        if (fake->mapped[i] == page) {
            fake->mapped[i] = fake->mapped[--fake->mapped_count];
            return true;
        }
    return false;
}

static void fake_range_close(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    struct fake_device *fake = (struct fake_device *)device;
    fake->open_ranges--;
    for (int i = 0; i < fake->mapped_count; i++)
        fake->faults += fake->mapped[i] >= address && fake->mapped[i] - address < bytes;
}

static mt_status fake_range_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    struct fake_device *fake = (struct fake_device *)device;
    if (fake->is_broken)
        return fake_say_broken();
    for (uint64_t at = 0; at < bytes; at += MT_DEVICE_PAGE) {
        fake->faults += fake_unmap_page(fake, address + at);
        if (fake->mapped_count == FAKE_MOST_MAPPED)
            return mt_fail(MT_FAILED, "the fake device has no more pages");
        fake->mapped[fake->mapped_count++] = address + at;
    }
    return MT_OK;
}

static void fake_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    struct fake_device *fake = (struct fake_device *)device;
    for (uint64_t at = 0; at < bytes; at += MT_DEVICE_PAGE)
        fake->faults += !fake_unmap_page(fake, address + at);
}

static uint64_t fake_now_ns(const struct mt_device *device)
{
    return device->reserve_count;
}

static const struct mt_device_table fake_table = {
    .kind = "fake",
    .reserve = fake_reserve,
    .release = fake_release,
    .range_open = fake_range_open,
    .range_close = fake_range_close,
    .range_map = fake_range_map,
    .range_unmap = fake_range_unmap,
    .now_ns = fake_now_ns,
};

static inline struct fake_device fake_device_make(uint64_t capacity_bytes, mt_addr base, int64_t direction)
{
    return (struct fake_device){
        .device = {.table = &fake_table, .name = "fake", .capacity_bytes = capacity_bytes, .reserved_bytes = 0},
        .next = base,
        .direction = direction};
}
