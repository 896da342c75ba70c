#include "analysis/fit_device.h"

#include "analysis/simulation.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool mt_device_is_card(const char *spelling)
{
    if (strncmp(spelling, "sim", 3) == 0)
        return spelling[3] != ':' || !isdigit((unsigned char)spelling[4]);
    return strncmp(spelling, "cpu", 3) != 0;
}

/* Spells the device that has what is left. */
static mt_status keep_free(const struct mt_card *card, struct mt_fit_device *device)
{
    char reserve[MT_BYTES_TEXT], memory[MT_BYTES_TEXT];
    if (device->reserve_bytes == 0)
        return MT_OK;
    if (device->reserve_bytes >= device->memory_bytes)
        return mt_fail(MT_USAGE, "to keep %s free leaves nothing of the %s that %s has: keep less of it free",
                       mt_format_bytes(device->reserve_bytes, reserve), mt_format_bytes(device->memory_bytes, memory),
                       device->name);
    mt_device_spell_simulated(card, device->memory_bytes - device->reserve_bytes, device->simulated);
    return MT_OK;
}

mt_status mt_fit_device_choose(const char *spelling, const char *name, uint64_t reserve_bytes,
                               struct mt_fit_device *out)
{
    const bool is_given = reserve_bytes != MT_RESERVE_UNSET;
    struct mt_card card;
    MT_TRY(mt_simulated_card_find(spelling, &card));
    *out = (struct mt_fit_device){.memory_bytes = card.memory_bytes,
                                  .reserve_bytes = mt_device_is_card(name) ? MT_CARD_RESERVE_BYTES : 0,
                                  .card_reserve_bytes = is_given ? reserve_bytes : MT_CARD_RESERVE_BYTES};
    if (is_given)
        out->reserve_bytes = reserve_bytes;
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->simulated, sizeof out->simulated, "%s", spelling);
    return keep_free(&card, out);
}
