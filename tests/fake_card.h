/* Fake cards for the library that gives PyTorch memory: addresses without memory, and a list of waits between streams.
 * There are FAKE_CARDS of them. */
#pragma once

#include "base/clock.h"
#include "base/memory.h"
#include "device/backend.h"
#include "producers/torch/torch_card.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { FAKE_CARDS = 2, FAKE_MOST_FOLLOWS = 64 };

#define FAKE_CARD_BYTES (UINT64_C(1) << 30)

struct fake_card {
    struct mt_device device;
    struct mt_torch_card *card;
    int ordinal;
    mt_addr next;
};

/* The calls of all cards. A test empties it. */
static struct fake_cards {
    pthread_mutex_t lock;
    int opened, closed, synchronized, follows;
    mt_torch_stream later[FAKE_MOST_FOLLOWS], earlier[FAKE_MOST_FOLLOWS];
} fake_cards = {.lock = PTHREAD_MUTEX_INITIALIZER};

static mt_status fake_card_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct fake_card *fake = (struct fake_card *)device;
    *out_address = __atomic_fetch_add(&fake->next, bytes, __ATOMIC_RELAXED);
    return MT_OK;
}

static void fake_card_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

static mt_status fake_card_follow(struct mt_device *device, mt_stream later, mt_stream earlier)
{
    struct mt_torch_card *card = ((struct fake_card *)device)->card;
    pthread_mutex_lock(&fake_cards.lock);
    if (fake_cards.follows < FAKE_MOST_FOLLOWS) {
        fake_cards.later[fake_cards.follows] = mt_torch_card_stream_of(card, later).stream;
        fake_cards.earlier[fake_cards.follows] = mt_torch_card_stream_of(card, earlier).stream;
    }
    fake_cards.follows++;
    pthread_mutex_unlock(&fake_cards.lock);
    return MT_OK;
}

static mt_status fake_card_synchronize(struct mt_device *device)
{
    (void)device;
    __atomic_fetch_add(&fake_cards.synchronized, 1, __ATOMIC_RELAXED);
    return MT_OK;
}

static uint64_t fake_card_now_ns(const struct mt_device *device)
{
    (void)device;
    return mt_clock_ns();
}

static void fake_card_close(struct mt_device *device)
{
    struct fake_card *fake = (struct fake_card *)device;
    fake_cards.closed++;
    free(fake);
}

static const struct mt_device_table fake_card_table = {
    .kind = "fake",
    .reserve = fake_card_reserve,
    .release = fake_card_release,
    .follow = fake_card_follow,
    .synchronize = fake_card_synchronize,
    .now_ns = fake_card_now_ns,
    .close = fake_card_close,
};

mt_status mt_torch_device_open(int ordinal, struct mt_torch_card *card, struct mt_device **out)
{
    if (ordinal >= FAKE_CARDS)
        return mt_fail(MT_NO_DEVICE, "fake:%d: there are %d", ordinal, FAKE_CARDS);
    struct fake_card *fake = mt_host_alloc(sizeof *fake);
    struct mt_device *device = &fake->device;
    fake->card = card;
    fake->ordinal = ordinal;
    fake->next = (mt_addr)(ordinal + 1) << 40;
    device->table = &fake_card_table;
    device->capacity_bytes = device->card.memory_bytes = FAKE_CARD_BYTES;
    snprintf(device->name, sizeof device->name, "fake:%d", ordinal);
    fake_cards.opened++;
    *out = device;
    return MT_OK;
}
