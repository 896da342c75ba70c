/* The simulated device: an address range with a capacity and no memory.
 *
 * Every address is used only once, so two reservations never overlap and a stale address is never a live one. Only
 * mt_device_spend advances the clock: equal work takes equal times on every machine. */
#include "device/backend.h"
#include "device/device.h"
#include "device/sim_watch.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The attained fractions of a card's peak rates. Matrix products: 0.67 (0.63 to 0.72), in PyTorch's step with 2.7
 * billion parameters on an H200 in fp32 and bf16 (tests/data/kernels_h200.json). Bandwidth: 0.9, of a large copy
 * there. */
static const double ATTAINED_MATRIX_RATE = 0.67, ATTAINED_BANDWIDTH = 0.9;

/* The first address, and the unit of addresses: the pages that a driver maps. */
static const mt_addr FIRST_ADDRESS = (mt_addr)1 << 40;
static const uint64_t ADDRESS_UNIT = (uint64_t)2 << 20;

#define MIB ((uint64_t)1 << 20)

/* Invariants: next_address is a multiple of ADDRESS_UNIT above all used addresses; host_ns <= clock_ns, and neither
 * decreases. */
struct sim {
    struct mt_device device;
    mt_addr next_address;
    uint64_t host_ns;  /* when the program has launched the queued work */
    uint64_t clock_ns; /* when the queued work is done */
};

static mt_status sim_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct sim *sim = (struct sim *)device;
    mt_addr address = __atomic_load_n(&sim->next_address, __ATOMIC_RELAXED);
    mt_addr next;
    do {
        uint64_t span;
        if (!mt_checked_round_up(bytes, ADDRESS_UNIT, &span) || !mt_checked_add(address, span, &next))
            return mt_fail(MT_OUT_OF_MEMORY, "%s: no address is left for %" PRIu64 " bytes", device->name, bytes);
    } while (
        !__atomic_compare_exchange_n(&sim->next_address, &address, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    assert(address % ADDRESS_UNIT == 0 && next > address && next - address >= bytes);
    *out_address = address;
    return MT_OK;
}

static void sim_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

/* Does nothing: a range and its memory are only addresses. */
static mt_status sim_range_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
    return MT_OK;
}

static uint64_t sim_now_ns(const struct mt_device *device)
{
    return __atomic_load_n(&((const struct sim *)device)->clock_ns, __ATOMIC_RELAXED);
}

/* Returns the operations per second for `work`. Products of fp32 use the tf32 units, which round their operands, only
 * if requested. fp64, used only in tests, counts as fp32. */
static double peak_rate(const struct mt_card *card, const struct mt_work *work)
{
    double matrix_rate = 0;
    if (work->matrix_product && work->dtype == MT_BF16)
        matrix_rate = card->bf16_matrix_rate;
    if (work->matrix_product && mt_is_fp8(work->dtype))
        matrix_rate = card->fp8_matrix_rate;
    if (work->matrix_product && work->dtype == MT_F16)
        matrix_rate = card->fp16_matrix_rate;
    if (work->matrix_product && work->dtype == MT_F32 && work->rounds_to_tf32)
        matrix_rate = card->tf32_matrix_rate;
    return matrix_rate > 0 ? matrix_rate : card->fp32_rate;
}

/* The roofline model: an op takes as long as its operations or its bytes, whichever is longer. Williams, Waterman,
 * Patterson, "Roofline: an insightful visual performance model", CACM 2009. A kernel takes at least the time of a
 * launch. */
static uint64_t device_ns(const struct mt_card *card, const struct mt_work *work)
{
    assert(peak_rate(card, work) > 0 && card->fp32_rate > 0 && card->bytes_per_second > 0);
    double rate = peak_rate(card, work) * (work->matrix_product ? ATTAINED_MATRIX_RATE : 1);
    double computing = work->operations / rate + work->besides / card->fp32_rate;
    double moving = (double)work->bytes / (card->bytes_per_second * ATTAINED_BANDWIDTH);
    assert(computing >= 0 && moving >= 0);
    uint64_t ns = (uint64_t)((computing > moving ? computing : moving) * 1e9 + 0.5);
    uint64_t least_ns = (uint64_t)card->launch_ns * (uint64_t)(work->launches > 0 ? work->launches : 1);
    return ns > least_ns ? ns : least_ns;
}

/* A queue: work begins when the host has launched it and the previous work is done. */
static void sim_spend(struct mt_device *device, const struct mt_work *work)
{
    struct sim *sim = (struct sim *)device;
    sim->host_ns += work->host_ns;
    uint64_t idle_ns = __atomic_load_n(&sim->clock_ns, __ATOMIC_RELAXED);
    uint64_t begin_ns = sim->host_ns > idle_ns ? sim->host_ns : idle_ns;
    uint64_t end_ns = begin_ns + device_ns(&device->card, work);
    __atomic_store_n(&sim->clock_ns, end_ns, __ATOMIC_RELAXED);
    assert(sim->host_ns <= sim->clock_ns);
    if (device->watch != NULL)
        mt_sim_watch_add(device->watch, work->op, begin_ns, end_ns);
}

static mt_status sim_synchronize(struct mt_device *device)
{
    struct sim *sim = (struct sim *)device;
    sim->host_ns = sim->clock_ns;
    return MT_OK;
}

/* Without real kernels, each op counts as one, with its estimated time. */
static mt_status sim_watch_kernels(struct mt_device *device, struct mt_kernel_watch **out)
{
    (void)device;
    *out = mt_sim_watch_create();
    return MT_OK;
}

void mt_device_use_host_clock(struct mt_device *device)
{
    if (device->table->now_ns == sim_now_ns)
        device->host_clock_ns = mt_clock_ns();
}

static void sim_close(struct mt_device *device)
{
    free(device);
}

static const struct mt_device_table sim_table = {
    .kind = "sim",
    .reserve = sim_reserve,
    .release = sim_release,
    .range_open = sim_reserve,
    .range_close = sim_release,
    .range_map = sim_range_map,
    .range_unmap = sim_release,
    .synchronize = sim_synchronize,
    .watch_kernels = sim_watch_kernels,
    .now_ns = sim_now_ns,
    .spend = sim_spend,
    .close = sim_close,
};

struct mt_device *mt_sim_create(const struct mt_card *card)
{
    struct sim *sim = mt_host_alloc(sizeof *sim);
    sim->device = (struct mt_device){
        .table = &sim_table,
        .capacity_bytes = mt_card_usable_bytes(card),
        .card = *card,
    };
    sim->next_address = FIRST_ADDRESS;
    return &sim->device;
}

char *mt_device_spell_simulated(const struct mt_card *card, uint64_t capacity_bytes, char *text)
{
    const bool is_reference = card == NULL || strcmp(card->name, MT_REFERENCE_CARD) == 0;
    const bool is_whole = capacity_bytes > 0 && capacity_bytes % MIB == 0;
    int length =
        snprintf(text, MT_DEVICE_NAME, "sim:%s%s%" PRIu64 "%s", is_reference ? "" : card->name, is_reference ? "" : ":",
                 is_whole ? capacity_bytes / MIB : capacity_bytes, is_whole ? "MiB" : "");
    assert(length > 0 && length < MT_DEVICE_NAME);
    (void)length;
    return text;
}

mt_status mt_device_open_simulated(const struct mt_card *card, uint64_t capacity_bytes, struct mt_device **out)
{
    struct mt_card reference = mt_card_reference();
    *out = mt_sim_create(card != NULL ? card : &reference);
    struct mt_device *device = *out;
    device->capacity_bytes = device->card.memory_bytes = capacity_bytes;
    device->card.context_bytes = device->card.others_bytes = 0;
    mt_device_spell_simulated(card, capacity_bytes, device->name);
    return MT_OK;
}
