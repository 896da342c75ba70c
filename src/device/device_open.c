/* Finds the backend for the spelling of a device. */
#include "device/backend.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct backend {
    const char *kind;
    mt_status (*open)(const char *argument, struct mt_device **out);
} backends[] = {
    {.kind = "sim", .open = mt_sim_open},
    {.kind = "cpu", .open = mt_cpu_open},
    {.kind = "cuda", .open = mt_cuda_module_open},
};

enum { BACKENDS = sizeof backends / sizeof backends[0], LONGEST_KIND = 32 };

/* Keeps the words of mt_fail_unknown: the list, and the nearest match. */
static mt_status fail_unknown_kind(const char *kind)
{
    const char *kinds[BACKENDS];
    for (size_t i = 0; i < BACKENDS; i++)
        kinds[i] = backends[i].kind;
    (void)mt_fail_unknown("device", kind, kinds, BACKENDS);
    return MT_NO_DEVICE;
}

mt_status mt_device_open(const char *spelling, struct mt_device **out)
{
    char kind[LONGEST_KIND];
    size_t length = strcspn(spelling, ":");
    if (length >= sizeof kind)
        return fail_unknown_kind(spelling);
    memcpy(kind, spelling, length);
    kind[length] = '\0';
    const char *argument = spelling[length] == ':' ? spelling + length + 1 : NULL;
    for (size_t i = 0; i < BACKENDS; i++)
        if (strcmp(kind, backends[i].kind) == 0)
            return backends[i].open(argument, out);
    return fail_unknown_kind(kind);
}

bool mt_device_is_simulated(const char *spelling)
{
    return strcspn(spelling, ": ") == strlen("sim") && strncmp(spelling, "sim", strlen("sim")) == 0;
}

char *mt_device_spell_simulated(uint64_t capacity_bytes, char *text)
{
    snprintf(text, MT_DEVICE_NAME, "sim:%" PRIu64, capacity_bytes);
    return text;
}

mt_status mt_device_open_simulated(uint64_t capacity_bytes, struct mt_device **out)
{
    mt_status status = mt_sim_open(NULL, out);
    if (status != MT_OK)
        return status;
    struct mt_device *device = *out;
    device->capacity_bytes = device->profile.memory_bytes = capacity_bytes;
    mt_device_spell_simulated(capacity_bytes, device->name);
    return MT_OK;
}

/* Less than a page of any machine: a unit was forgotten. */
enum { LEAST_CAPACITY_BYTES = 4096 };

mt_status mt_capacity_parse(const char *text, uint64_t *out_bytes)
{
    uint64_t bytes;
    mt_status status = mt_parse_bytes(text, &bytes);
    if (status != MT_OK)
        return status;
    if (bytes == 0)
        return mt_fail(MT_USAGE, "\"%s\": a device needs a capacity above 0", text);
    if (bytes < LEAST_CAPACITY_BYTES)
        return mt_fail(MT_USAGE,
                       "\"%s\": a device of %" PRIu64 " bytes has no room for anything: write the unit, as in %" PRIu64
                       "GiB",
                       text, bytes, bytes);
    *out_bytes = bytes;
    return MT_OK;
}
