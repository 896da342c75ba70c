/* A device that is an address range and a capacity: addresses go up or down from wherever the test likes. */
#ifndef MT_TESTS_FAKE_DEVICE_H
#define MT_TESTS_FAKE_DEVICE_H

#include "device/device.h"

/* Invariant: no two reservations overlap. */
struct fake_device {
    struct mt_device device;
    mt_addr next;      /* the lowest address of the next reservation, or the end of it when going down */
    int64_t direction; /* 1 up, -1 down */
};

static mt_status fake_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct fake_device *fake = (struct fake_device *)device;
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

static uint64_t fake_now_ns(const struct mt_device *device)
{
    return device->reserve_count;
}

static const struct mt_device_table fake_table = {
    .kind = "fake", .reserve = fake_reserve, .release = fake_release, .now_ns = fake_now_ns};

static inline struct fake_device fake_device_make(uint64_t capacity_bytes, mt_addr base, int64_t direction)
{
    return (struct fake_device){
        .device = {.table = &fake_table, .name = "fake", .capacity_bytes = capacity_bytes, .reserved_bytes = 0},
        .next = base,
        .direction = direction};
}

#endif
