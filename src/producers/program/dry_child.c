#include "producers/program/dry_child.h"

#include "producers/program/assumed_values.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Fails unless the spelling names a simulated device that can be opened. */
static mt_status check_device(const char *spelling)
{
    struct mt_device *device = NULL;
    if (strstr(spelling, ".json") != NULL)
        return mt_fail(MT_USAGE, "a dry run needs a known card or a size, not a card's file: %s", spelling);
    if (!mt_device_is_simulated(spelling))
        return mt_fail(MT_USAGE, "a dry run needs a simulated card, such as sim:h100, not %s", spelling);
    MT_TRY(mt_device_open(spelling, &device));
    mt_device_close(device);
    return MT_OK;
}

static mt_status check_weights(const char *text)
{
    return text == NULL || strcmp(text, "from-config") == 0
               ? MT_OK
               : mt_fail(MT_USAGE, "weights can be made from-config, not from \"%s\"", text);
}

static mt_status check_inductor_cache(const char *path)
{
    struct stat found;
    return path == NULL || (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
               ? MT_OK
               : mt_fail(MT_USAGE, "%s is not a folder; name a copy of TORCHINDUCTOR_CACHE_DIR of a run on a card",
                         path);
}

mt_status mt_dry_device_spell(const struct mt_dry_options *options, const char *device, char out[MT_DEVICE_NAME])
{
    const bool is_shared = options->free != NULL;
    const int length =
        snprintf(out, MT_DEVICE_NAME, "%s%s%s", device, is_shared ? ":free=" : "", is_shared ? options->free : "");
    return length < MT_DEVICE_NAME ? MT_OK : mt_fail(MT_USAGE, "%s: the name of a device is too long", device);
}

mt_status mt_dry_options_check(const struct mt_dry_options *options, const char *device)
{
    char spelling[MT_DEVICE_NAME];
    struct mt_assumed_value value;
    MT_TRY(mt_dry_device_spell(options, device, spelling));
    MT_TRY(check_device(spelling));
    MT_TRY(check_weights(options->weights));
    MT_TRY(check_inductor_cache(options->inductor_cache));
    return mt_assumed_value_read(options->assumed, &value);
}
