/* The stand-in for libnvidia-ml.so.1. Functions, structs and error codes follow the documentation of the NVML API. The
 * power draw is 0, since nothing is computed. */
#include "producers/torch/driver/driver.h"
#include "producers/torch/driver/driver_nvml_calls.h"
#include "producers/torch/memtrace_torch.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CODES(X)                                                                                                       \
    X(SUCCESS, 0, "Success")                                                                                           \
    X(INVALID_ARGUMENT, 2, "Invalid Argument")                                                                         \
    X(NOT_SUPPORTED, 3, "Not Supported")                                                                               \
    X(NOT_FOUND, 6, "Not Found")                                                                                       \
    X(INSUFFICIENT_SIZE, 7, "Insufficient Size")
enum {
#define X(name, number, words) name = (number),
    CODES(X)
#undef X
};

enum { MOST_CARDS = 64, UUID_TEXT = 48 };
static char handles[MOST_CARDS]; /* a handle is the address of one */

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct process {
    unsigned pid;
    unsigned long long used; /* bytes of the card */
    unsigned instance, compute_instance;
};

/* Returns the card of a handle; -1 if the handle is invalid. */
static int device_of(const char *handle)
{
    const ptrdiff_t device = handle - handles;
    return handle != NULL && device >= 0 && device < mt_driver_cards() ? (int)device : -1;
}

static int copy_text(char *out, unsigned capacity, const char *text)
{
    return mt_driver_copy(out, capacity, text) ? SUCCESS : INSUFFICIENT_SIZE;
}

static void spell_uuid(int device, char out[UUID_TEXT])
{
    unsigned char id[MT_DRIVER_UUID];
    mt_driver_uuid(device, id);
    int length = snprintf(out, UUID_TEXT, "GPU-");
    for (int i = 0; i < MT_DRIVER_UUID; i++)
        length += snprintf(out + length, (size_t)(UUID_TEXT - length), "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

/* ---- the library and the system ---- */

MT_EXPORTED int nvmlInit_v2(void)
{
    return SUCCESS;
}

MT_EXPORTED int nvmlInit(void)
{
    return SUCCESS;
}

MT_EXPORTED int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return SUCCESS;
}

MT_EXPORTED int nvmlShutdown(void)
{
    return SUCCESS;
}

MT_EXPORTED const char *nvmlErrorString(int code)
{
#define X(name, number, words)                                                                                         \
    if (code == (number))                                                                                              \
        return words;
    CODES(X)
#undef X
    return "Unknown Error";
}

MT_EXPORTED int nvmlSystemGetDriverVersion(char *out, unsigned capacity)
{
    return copy_text(out, capacity, MT_DRIVER_VERSION);
}

MT_EXPORTED int nvmlSystemGetNVMLVersion(char *out, unsigned capacity)
{
    return copy_text(out, capacity, "13." MT_DRIVER_VERSION);
}

MT_EXPORTED int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    *out = MT_DRIVER_CUDA;
    return SUCCESS;
}

MT_EXPORTED int nvmlSystemGetCudaDriverVersion(int *out)
{
    return nvmlSystemGetCudaDriverVersion_v2(out);
}

/* ---- handles ---- */

MT_EXPORTED int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = (unsigned)mt_driver_cards();
    return SUCCESS;
}

MT_EXPORTED int nvmlDeviceGetCount(unsigned *out)
{
    return nvmlDeviceGetCount_v2(out);
}

MT_EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out)
{
    const bool is_card = index < MOST_CARDS && mt_driver_has((int)index);
    *out = is_card ? &handles[index] : NULL;
    return is_card ? SUCCESS : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetHandleByIndex(unsigned index, void **out)
{
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}

MT_EXPORTED int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
    char own[UUID_TEXT];
    for (int device = 0; device < mt_driver_cards() && device < MOST_CARDS; device++) {
        spell_uuid(device, own);
        if (strcmp(own, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2((unsigned)device, out);
    }
    return NOT_FOUND;
}

MT_EXPORTED int nvmlDeviceGetIndex(void *handle, unsigned *out)
{
    const int device = device_of(handle);
    *out = (unsigned)device;
    return device >= 0 ? SUCCESS : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetMinorNumber(void *handle, unsigned *out)
{
    return nvmlDeviceGetIndex(handle, out);
}

/* ---- properties and memory of a card ---- */

MT_EXPORTED int nvmlDeviceGetName(void *handle, char *out, unsigned capacity)
{
    struct memtrace_torch_description card;
    (void)memtrace_torch_describe(NULL, &card);
    return device_of(handle) >= 0 ? copy_text(out, capacity, card.name) : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetUUID(void *handle, char *out, unsigned capacity)
{
    char own[UUID_TEXT];
    spell_uuid(device_of(handle), own);
    return device_of(handle) >= 0 ? copy_text(out, capacity, own) : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetCudaComputeCapability(void *handle, int *out_major, int *out_minor)
{
    struct memtrace_torch_description card;
    (void)memtrace_torch_describe(NULL, &card);
    *out_major = card.capability / 10;
    *out_minor = card.capability % 10;
    return device_of(handle) >= 0 ? SUCCESS : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetMemoryInfo(void *handle, struct memory *out)
{
    if (device_of(handle) < 0)
        return INVALID_ARGUMENT;
    const struct mt_driver_memory memory = mt_driver_memory(device_of(handle));
    *out = (struct memory){.total = memory.total, .free = memory.free, .used = memory.used};
    return SUCCESS;
}

/* This version reports the driver's own memory separately. A simulated card's total does not include it. */
MT_EXPORTED int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *out)
{
    if (device_of(handle) < 0)
        return INVALID_ARGUMENT;
    const struct mt_driver_memory memory = mt_driver_memory(device_of(handle));
    *out = (struct memory_v2){.version = out->version, .total = memory.total, .free = memory.free, .used = memory.used};
    return SUCCESS;
}

/* Lists this process. `count` is the length of the list before the call, and the number of processes after it. */
MT_EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *out)
{
    const bool fits = *count > 0;
    if (device_of(handle) < 0)
        return INVALID_ARGUMENT;
    *count = 1;
    if (!fits)
        return INSUFFICIENT_SIZE;
    *out = (struct process){.pid = (unsigned)getpid(), .used = mt_driver_memory(device_of(handle)).own};
    return SUCCESS;
}

MT_EXPORTED int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, struct process *out)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, out);
}

MT_EXPORTED int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, struct process *out)
{
    (void)out;
    *count = 0;
    return device_of(handle) >= 0 ? SUCCESS : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetGraphicsRunningProcesses_v2(void *handle, unsigned *count, struct process *out)
{
    return nvmlDeviceGetGraphicsRunningProcesses_v3(handle, count, out);
}

MT_EXPORTED int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *out)
{
    *out = (struct utilization){0};
    return device_of(handle) >= 0 ? SUCCESS : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetPowerUsage(void *handle, unsigned *out_milliwatts)
{
    *out_milliwatts = 0;
    return device_of(handle) >= 0 ? SUCCESS : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *out_celsius)
{
    (void)sensor;
    *out_celsius = 0;
    return device_of(handle) >= 0 ? SUCCESS : INVALID_ARGUMENT;
}

MT_EXPORTED int nvmlDeviceGetClockInfo(void *handle, int clock, unsigned *out_mhz)
{
    (void)clock;
    *out_mhz = 0;
    return device_of(handle) >= 0 ? SUCCESS : INVALID_ARGUMENT;
}

/* ---- all other functions: they ignore the caller's arguments ---- */

#define X(name)                                                                                                        \
    MT_EXPORTED int nvml##name(void)                                                                                   \
    {                                                                                                                  \
        return mt_driver_refuse("nvml" #name, NOT_SUPPORTED);                                                          \
    }
MT_NVML_CALLS(X)
#undef X
