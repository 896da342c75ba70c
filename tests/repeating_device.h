/* A device that repeats steps as a card with graphs does, and computes nothing. Of the work between a begin and its
 * end it keeps a digest of all launches, with their addresses. What came to its end under a key is what would be
 * launched from then on whenever that key comes; so another digest under it, or memory that comes or goes before
 * such an end, is a fault: on a card, bytes of somebody else's would be read and written. So is reading what is not
 * done before it is launched. */
#pragma once

#include "base/memory.h"
#include "base/random.h"
#include "device/backend.h"
#include "device/device.h"
#include "listening_kernels.h"

#include <stdlib.h>
#include <string.h>

/* Work that came to its end, and may be repeated. */
struct repeated_step {
    uint64_t key, digest;
};

/* Invariants: steps[0 .. known) have different keys; the later half is of the work since the last begin. */
struct repeating_device {
    struct mt_device device;
    struct listening_queue queue;
    mt_addr next; /* the lowest address that nobody has had */
    struct repeated_step *steps;
    size_t known;
    int begins, repeats, drops, faults;
    int fail_launch; /* of a begin whose key is known, the launch of this number (from 1) finds no memory; 0: none */

    uint64_t key, digest;
    int launches;
    bool has_begun, moves_memory, has_failed;
};

static inline struct repeated_step *repeating_find(struct repeating_device *repeating, uint64_t key)
{
    for (size_t i = 0; i < repeating->known; i++)
        if (repeating->steps[i].key == key)
            return &repeating->steps[i];
    return NULL;
}

/* ---- launches ---- */

static uint64_t repeating_fold_view(uint64_t sum, const struct mtk_view *view)
{
    if (view == NULL)
        return mt_splitmix64(sum);
    sum = mt_splitmix64(sum ^ view->address) + (uint64_t)view->dtype;
    for (int d = 0; d < MT_MAX_DIMS; d++)
        sum = mt_splitmix64(mt_splitmix64(sum ^ (uint64_t)view->shape[d]) ^ (uint64_t)view->stride[d]);
    return sum;
}

static mt_status repeating_launch(struct listening_queue *queue, uint64_t op, const struct mtk_view *const *views,
                                  int count)
{
    struct repeating_device *repeating = queue->context;
    repeating->digest = mt_splitmix64(repeating->digest ^ op);
    for (int i = 0; i < count; i++)
        repeating->digest = repeating_fold_view(repeating->digest, views[i]);
    repeating->launches++;
    if (!repeating->has_begun || repeating->launches != repeating->fail_launch ||
        repeating_find(repeating, repeating->key) == NULL)
        return MT_OK;
    repeating->has_failed = true;
    return mt_fail(MT_OUT_OF_MEMORY, "launch number %d was made to find no memory", repeating->launches);
}

static struct mtk_queue *repeating_queue(struct mt_device *device, mt_stream stream)
{
    (void)stream;
    return (struct mtk_queue *)&((struct repeating_device *)device)->queue;
}

/* ---- memory ---- */

static mt_status repeating_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    *out_address = repeating->next;
    repeating->next += (bytes + MT_DEVICE_PAGE - 1) / MT_DEVICE_PAGE * MT_DEVICE_PAGE;
    return MT_OK;
}

static void repeating_close(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

static mt_status repeating_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    ((struct repeating_device *)device)->moves_memory = true;
    return repeating_open(device, bytes, out_address);
}

static void repeating_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    ((struct repeating_device *)device)->moves_memory = true;
    repeating_close(device, address, bytes);
}

static mt_status repeating_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    repeating_release(device, address, bytes);
    return MT_OK;
}

static mt_status repeating_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    (void)from;
    (void)stream;
    memset(to, 0, bytes);
    repeating->faults += repeating->has_begun;
    return MT_OK;
}

/* ---- steps ---- */

static mt_status repeating_graph_begin(struct mt_device *device, uint64_t key)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    repeating->begins++;
    repeating->repeats += repeating_find(repeating, key) != NULL;
    repeating->key = key;
    repeating->digest = 0;
    repeating->launches = 0;
    repeating->has_begun = true;
    repeating->moves_memory = repeating->has_failed = false;
    return MT_OK;
}

static mt_status repeating_graph_end(struct mt_device *device)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    struct repeated_step *step = repeating_find(repeating, repeating->key);
    repeating->has_begun = false;
    repeating->faults += repeating->has_failed || repeating->moves_memory;
    if (step != NULL) {
        repeating->faults += step->digest != repeating->digest;
        return MT_OK;
    }
    repeating->steps = mt_host_room(repeating->steps, repeating->known, sizeof *repeating->steps);
    repeating->steps[repeating->known++] = (struct repeated_step){repeating->key, repeating->digest};
    return MT_OK;
}

static mt_status repeating_graph_drop(struct mt_device *device)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    struct repeated_step *step = repeating_find(repeating, repeating->key);
    repeating->has_begun = false;
    repeating->drops++;
    if (step == NULL)
        return MT_OK;
    *step = repeating->steps[--repeating->known];
    return mt_fail(MT_FAILED, "the work of a step that repeats was dropped");
}

static void repeating_graph_forget(struct mt_device *device)
{
    ((struct repeating_device *)device)->known = 0;
}

static uint64_t repeating_now_ns(const struct mt_device *device)
{
    (void)device;
    return 0;
}

static const struct mt_device_table repeating_table = {
    .kind = "repeating",
    .reserve = repeating_reserve,
    .release = repeating_release,
    .range_open = repeating_open,
    .range_close = repeating_close,
    .range_map = repeating_map,
    .range_unmap = repeating_release,
    .read = repeating_read,
    .queue = repeating_queue,
    .graph_begin = repeating_graph_begin,
    .graph_end = repeating_graph_end,
    .graph_drop = repeating_graph_drop,
    .graph_forget = repeating_graph_forget,
    .now_ns = repeating_now_ns,
};

static inline void repeating_device_init(struct repeating_device *repeating, uint64_t capacity_bytes)
{
    *repeating = (struct repeating_device){.device = {.table = &repeating_table,
                                                      .kernels = &listening_kernels,
                                                      .name = "repeating",
                                                      .capacity_bytes = capacity_bytes,
                                                      .card = mt_card_reference()},
                                           .next = MT_DEVICE_PAGE};
    repeating->queue = (struct listening_queue){.launch = repeating_launch, .context = repeating};
}

static inline void repeating_device_end(struct repeating_device *repeating)
{
    free(repeating->steps);
}
