#include "analysis/fit_device.h"

#include <stdio.h>

static mt_status check_reserve(const struct mt_fit_device *device)
{
    char reserve[MT_BYTES_TEXT], memory[MT_BYTES_TEXT];
    if (device->reserve_bytes < device->memory_bytes)
        return MT_OK;
    return mt_fail(MT_USAGE, "to keep %s free leaves nothing of the %s that %s has: keep less of it free",
                   mt_format_bytes(device->reserve_bytes, reserve), mt_format_bytes(device->memory_bytes, memory),
                   device->name);
}

mt_status mt_fit_device_choose(const char *name, uint64_t capacity_bytes, uint64_t reserve_bytes,
                               struct mt_fit_device *out)
{
    struct mt_card card;
    MT_TRY(mt_device_find_card(name, &card));
    if (capacity_bytes > 0)
        card.memory_bytes = capacity_bytes;
    *out =
        (struct mt_fit_device){.memory_bytes = card.memory_bytes,
                               .reserve_bytes = reserve_bytes != MT_RESERVE_UNSET ? reserve_bytes : card.context_bytes,
                               .asked_reserve_bytes = reserve_bytes};
    snprintf(out->name, sizeof out->name, "%s", name);
    MT_TRY(check_reserve(out));
    if (mt_device_is_simulated(name) && out->reserve_bytes == card.context_bytes && capacity_bytes == 0)
        snprintf(out->simulated, sizeof out->simulated, "%s", name);
    else
        mt_device_spell_simulated(&card, out->memory_bytes - out->reserve_bytes, out->simulated);
    return MT_OK;
}
