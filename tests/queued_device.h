/* A device that runs nothing but knows the possible orders of its work: each stream is a queue of pieces of work, and a
 * vector clock has the work that a piece comes after. The device keeps the last work that touched each byte. Work that
 * touches the same bytes without coming after that is a hazard: on a card, bytes would be written over while they are
 * read. */
#pragma once

#include "device/backend.h"
#include "device/device.h"

#include <pthread.h>

enum { QUEUED_STREAMS = 4, QUEUED_MOST_TOUCHES = 20000 };

/* Work number `number` of `stream` touched these bytes. */
struct queued_touch {
    mt_addr begin, end;
    mt_stream stream;
    uint64_t number;
};

/* Invariants: after[s][t] <= queued[t], and what is queued on s from now on comes after work after[s][t] of t; a byte
 * is touched by the touches since the last that were in the way of a new owner. */
struct queued_device {
    struct mt_device device;
    pthread_mutex_t lock; /* guards the rest */
    uint64_t queued[QUEUED_STREAMS];
    uint64_t after[QUEUED_STREAMS][QUEUED_STREAMS];
    struct queued_touch touches[QUEUED_MOST_TOUCHES];
    int touch_count;
    mt_addr next;
    uint64_t hazards, follows, waits;
    bool is_deaf; /* follow does nothing */
};

static inline struct queued_device *queued_lock(struct mt_device *device)
{
    struct queued_device *queues = (struct queued_device *)device;
    pthread_mutex_lock(&queues->lock);
    return queues;
}

static inline void queued_unlock(struct queued_device *queues)
{
    pthread_mutex_unlock(&queues->lock);
}

static mt_status queued_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct queued_device *queues = queued_lock(device);
    *out_address = queues->next;
    queues->next += bytes;
    queued_unlock(queues);
    return MT_OK;
}

static void queued_close(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

static mt_status queued_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
    return MT_OK;
}

/* Finishes all queued work, so that all later work comes after it. */
static void queued_drain(struct queued_device *queues)
{
    for (int s = 0; s < QUEUED_STREAMS; s++)
        for (int t = 0; t < QUEUED_STREAMS; t++)
            queues->after[s][t] = queues->queued[t];
    queues->touch_count = 0;
}

/* Memory is released after the work that may use it, as the device promises. */
static void queued_unmap(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)address;
    (void)bytes;
    struct queued_device *queues = queued_lock(device);
    queued_drain(queues);
    queued_unlock(queues);
}

static mt_status queued_synchronize(struct mt_device *device)
{
    struct queued_device *queues = queued_lock(device);
    queues->waits++;
    queued_drain(queues);
    queued_unlock(queues);
    return MT_OK;
}

static mt_status queued_follow(struct mt_device *device, mt_stream later, mt_stream earlier)
{
    struct queued_device *queues = queued_lock(device);
    queues->follows++;
    for (int t = 0; t < QUEUED_STREAMS && !queues->is_deaf; t++) {
        uint64_t number = t == earlier ? queues->queued[t] : queues->after[earlier][t];
        if (queues->after[later][t] < number)
            queues->after[later][t] = number;
    }
    queued_unlock(queues);
    return MT_OK;
}

static uint64_t queued_now_ns(const struct mt_device *device)
{
    (void)device;
    return 0;
}

static const struct mt_device_table queued_table = {
    .kind = "queued",
    .reserve = queued_open,
    .release = queued_unmap,
    .range_open = queued_open,
    .range_close = queued_close,
    .range_map = queued_map,
    .range_unmap = queued_unmap,
    .follow = queued_follow,
    .synchronize = queued_synchronize,
    .now_ns = queued_now_ns,
};

static inline void queued_device_init(struct queued_device *queues, uint64_t capacity_bytes)
{
    *queues = (struct queued_device){.device = {.table = &queued_table,
                                                .name = "queued",
                                                .capacity_bytes = capacity_bytes,
                                                .card = mt_card_reference()},
                                     .next = 1 << 21};
    pthread_mutex_init(&queues->lock, NULL);
}

static inline bool queued_comes_after(const struct queued_device *queues, mt_stream stream,
                                      const struct queued_touch *touch)
{
    return touch->stream == stream || queues->after[stream][touch->stream] >= touch->number;
}

/* Queues work on `stream` that uses bytes of an earlier block, whose work must be finished. */
static inline void queued_own(struct queued_device *queues, mt_addr address, uint64_t bytes, mt_stream stream)
{
    pthread_mutex_lock(&queues->lock);
    queues->queued[stream]++;
    for (int i = queues->touch_count; i-- > 0;) {
        const struct queued_touch *touch = &queues->touches[i];
        if (touch->end <= address || address + bytes <= touch->begin)
            continue;
        queues->hazards += !queued_comes_after(queues, stream, touch);
        if (address <= touch->begin && touch->end <= address + bytes)
            queues->touches[i] = queues->touches[--queues->touch_count];
    }
    queued_unlock(queues);
}

/* Queues work on `stream` that touches bytes; false if there are too many to keep. */
static inline bool queued_touch(struct queued_device *queues, mt_addr address, uint64_t bytes, mt_stream stream)
{
    pthread_mutex_lock(&queues->lock);
    bool has_room = queues->touch_count < QUEUED_MOST_TOUCHES;
    uint64_t number = ++queues->queued[stream];
    if (has_room)
        queues->touches[queues->touch_count++] = (struct queued_touch){address, address + bytes, stream, number};
    queued_unlock(queues);
    return has_room;
}
