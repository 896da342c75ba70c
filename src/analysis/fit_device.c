#include "analysis/fit_device.h"

#include "analysis/simulation.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

bool mt_device_is_card(const char *spelling)
{
    if (strncmp(spelling, "sim", 3) == 0)
        return spelling[3] != ':' || !isdigit((unsigned char)spelling[4]);
    return strncmp(spelling, "cpu", 3) != 0;
}

/* Spells a device of that size, in the largest unit that is exact. */
static void spell_size(uint64_t bytes, char *out, size_t out_bytes)
{
    if (bytes % MIB == 0)
        snprintf(out, out_bytes, "sim:%" PRIu64 "MiB", bytes / MIB);
    else
        snprintf(out, out_bytes, "sim:%" PRIu64, bytes);
}

static mt_status keep_free(struct mt_fit_device *device)
{
    char reserve[MT_BYTES_TEXT], memory[MT_BYTES_TEXT];
    if (device->reserve_bytes == 0)
        return MT_OK;
    if (device->reserve_bytes >= device->memory_bytes)
        return mt_fail(MT_USAGE, "to keep %s free leaves nothing of the %s that %s has: keep less of it free",
                       mt_format_bytes(device->reserve_bytes, reserve), mt_format_bytes(device->memory_bytes, memory),
                       device->name);
    spell_size(device->memory_bytes - device->reserve_bytes, device->simulated, sizeof device->simulated);
    return MT_OK;
}

mt_status mt_fit_device_choose(const char *spelling, const char *name, uint64_t reserve_bytes,
                               struct mt_fit_device *out)
{
    const bool is_given = reserve_bytes != MT_RESERVE_UNSET;
    struct mt_device *device;
    MT_TRY(mt_simulated_device_open(spelling, &device));
    *out = (struct mt_fit_device){.memory_bytes = device->capacity_bytes,
                                  .reserve_bytes = mt_device_is_card(name) ? MT_CARD_RESERVE_BYTES : 0,
                                  .card_reserve_bytes = is_given ? reserve_bytes : MT_CARD_RESERVE_BYTES};
    mt_device_close(device);
    if (is_given)
        out->reserve_bytes = reserve_bytes;
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->simulated, sizeof out->simulated, "%s", spelling);
    return keep_free(out);
}
