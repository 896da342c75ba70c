#include "analysis/fit/fit_device.h"

#include "analysis/traced_card.h"
#include "device/card_outside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mt_status check_reserve(const struct mt_fit_device *device)
{
    if (device->reserve_bytes < device->memory_bytes)
        return MT_OK;
    return mt_fail(MT_USAGE, "to keep %s free leaves nothing of the %s that %s has: keep less of it free",
                   MT_SIZE(device->reserve_bytes), MT_SIZE(device->memory_bytes), device->name);
}

/* Chooses the simulated device. It is opened by its name if the name identifies the card and its memory. */
static mt_status choose(const char *name, const struct mt_card *card, bool is_by_name, uint64_t reserve_bytes,
                        struct mt_fit_device *out)
{
    const uint64_t kept_bytes = reserve_bytes != MT_RESERVE_UNSET ? reserve_bytes : card->context_bytes;
    *out = (struct mt_fit_device){
        .memory_bytes = mt_card_free_bytes(card), .reserve_bytes = kept_bytes, .asked_reserve_bytes = reserve_bytes};
    int length = snprintf(out->name, sizeof out->name, "%s", name);
    MT_TRY(check_reserve(out));
    if (is_by_name && (size_t)length < sizeof out->name && kept_bytes == card->context_bytes)
        snprintf(out->simulated, sizeof out->simulated, "%s", name);
    else
        mt_device_spell_simulated(card, out->memory_bytes - kept_bytes, out->simulated);
    return MT_OK;
}

mt_status mt_fit_device_choose(const char *spelling, uint64_t reserve_bytes, struct mt_fit_device *out)
{
    struct mt_card card;
    MT_TRY(mt_device_find_card(spelling, &card));
    return choose(spelling, &card, mt_device_is_simulated(spelling), reserve_bytes, out);
}

mt_status mt_fit_device_choose_traced(struct mt_trace *trace, const struct mt_run *run, uint64_t reserve_bytes,
                                      struct mt_fit_device *out)
{
    struct mt_traced_card traced;
    MT_TRY(mt_traced_card_find(trace, run, &traced));
    if (!traced.is_spelled && !traced.is_stored && run->capacity_bytes > 0)
        traced.card.memory_bytes = run->capacity_bytes;
    MT_TRY(choose(run->device, &traced.card, traced.is_spelled, reserve_bytes, out));
    out->has_card = mt_traced_card_with(&traced, out->memory_bytes - out->reserve_bytes, &out->card) != NULL;
    return MT_OK;
}

mt_status mt_fit_device_spell_roomy(const struct mt_fit_device *device, char out[MT_DEVICE_NAME])
{
    struct mt_card card;
    MT_TRY(mt_device_find_card(device->name, &card));
    mt_device_spell_simulated(&card, MT_ROOMY_BYTES, out);
    return MT_OK;
}

/* Returns a run's memory on its card outside the allocator, minus the context of the card's table. For a run on a real
 * card, counts only NCCL, since no context was measured. */
static uint64_t beyond_context(const struct mt_card *card, const struct mt_outside_row *rows, size_t count)
{
    struct mt_outside context;
    uint64_t nccl_bytes = 0;
    const struct mt_outside_row held = mt_outside_sum(rows, count, 0);
    for (size_t i = 0; i < count; i++)
        nccl_bytes += strcmp(rows[i].kind, "nccl") == 0 ? rows[i].bytes : 0;
    if (!held.is_estimate || !mt_card_outside(card, MT_PART_PROCESS, 1, &context))
        return nccl_bytes;
    return held.bytes > context.bytes ? held.bytes - context.bytes : 0;
}

mt_status mt_fit_device_count_outside(struct mt_fit_device *device, struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_traced_card traced;
    struct mt_outside_row *rows;
    size_t count;
    if (device->reserve_bytes == 0 || device->asked_reserve_bytes != MT_RESERVE_UNSET)
        return MT_OK;
    MT_TRY(mt_traced_card_find(trace, run, &traced));
    MT_TRY(mt_trace_outside(trace, run, &rows, &count));
    device->reserve_bytes += beyond_context(&traced.card, rows, count);
    free(rows);
    return check_reserve(device);
}
