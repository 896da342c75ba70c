/* The simulated device: an address range with a capacity and no memory.
 *
 * Every address is given out once, so two reservations never overlap and a stale address is never a live one. Only
 * mt_device_spend advances the clock: equal work takes equal times on every machine. */
#include "device/backend.h"
#include "device/device.h"
#include "device/sim_watch.h"

#include "base/checked.h"
#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The time that it takes to queue one kernel, of any work: 4.17 us, measured on an H200. */
enum { LAUNCH_NS = 4170 };

/* The first address, and the unit in which addresses are given out: the pages by which a driver maps memory. */
static const mt_addr FIRST_ADDRESS = (mt_addr)1 << 40;
static const uint64_t ADDRESS_UNIT = (uint64_t)2 << 20;

/* Invariants: next_address is a multiple of ADDRESS_UNIT above all addresses given out; clock_ns never shrinks. */
struct sim {
    struct mt_device device;
    mt_addr next_address;
    uint64_t clock_ns;
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

/* Does nothing: a range, and the memory under it, are addresses and nothing more. */
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
 * if the work asks for it. fp64, which only tests use, counts as fp32. */
static double peak_rate(const struct mt_profile *profile, const struct mt_work *work)
{
    double matrix_rate = 0;
    if (work->matrix_product && work->dtype == MT_BF16)
        matrix_rate = profile->bf16_matrix_rate;
    if (work->matrix_product && work->dtype == MT_F32 && work->math == MTK_MATH_TF32)
        matrix_rate = profile->tf32_matrix_rate;
    return matrix_rate > 0 ? matrix_rate : profile->fp32_rate;
}

/* The roofline: an op takes as long as its operations or its bytes, whichever is longer. Williams, Waterman,
 * Patterson, "Roofline: an insightful visual performance model", CACM 2009. */
static void sim_spend(struct mt_device *device, const struct mt_work *work)
{
    const struct mt_profile *profile = &device->profile;
    assert(peak_rate(profile, work) > 0 && profile->bytes_per_second > 0);
    double computing = work->operations / peak_rate(profile, work);
    double moving = (double)work->bytes / profile->bytes_per_second;
    assert(computing >= 0 && moving >= 0);
    double seconds = computing > moving ? computing : moving;
    uint64_t ns = LAUNCH_NS + (uint64_t)(seconds * 1e9 + 0.5);
    uint64_t start = __atomic_fetch_add(&((struct sim *)device)->clock_ns, ns, __ATOMIC_RELAXED);
    if (device->watch != NULL)
        mt_sim_watch_add(device->watch, work->op, start, start + ns);
}

/* There are no kernels: each op is one, of the time that it is estimated to take. */
static mt_status sim_watch_kernels(struct mt_device *device, struct mt_kernel_watch **out)
{
    (void)device;
    *out = mt_sim_watch_create();
    return MT_OK;
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
    .watch_kernels = sim_watch_kernels,
    .now_ns = sim_now_ns,
    .spend = sim_spend,
    .close = sim_close,
};

static const char DEFAULT_CARD[] = "h200";

/* Finds a card by its name, or changes the capacity of the default card. */
static mt_status profile_parse(const char *argument, struct mt_profile *out)
{
    const struct mt_profile *card = mt_profile_find(argument);
    if (card != NULL) {
        *out = *card;
        return MT_OK;
    }
    if (!isdigit((unsigned char)argument[0])) {
        (void)mt_fail_unknown("card", argument, mt_device_cards(), mt_profile_count());
        return MT_NO_DEVICE;
    }
    *out = *mt_profile_find(DEFAULT_CARD);
    mt_status status = mt_capacity_parse(argument, &out->memory_bytes);
    return status == MT_OK ? status : mt_fail(status, "%s; or name a card, such as %s", mt_last_error(), DEFAULT_CARD);
}

mt_status mt_sim_open(const char *argument, struct mt_device **out)
{
    if (argument == NULL)
        argument = DEFAULT_CARD;
    struct mt_profile profile;
    MT_TRY(profile_parse(argument, &profile));
    struct sim *sim = mt_host_alloc(sizeof *sim);
    sim->device = (struct mt_device){
        .table = &sim_table,
        .capacity_bytes = profile.memory_bytes,
        .profile = profile,
    };
    sim->next_address = FIRST_ADDRESS;
    snprintf(sim->device.name, sizeof sim->device.name, "sim:%s", argument);
    *out = &sim->device;
    return MT_OK;
}
