/* A card through CUDA's runtime. Memory is mapped into ranges of addresses, or comes from cudaMalloc if there are
 * several cards. An event makes PyTorch's streams wait for each other. The context is the one that PyTorch uses. */
#include "producers/torch/torch_card.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "device/backend.h"
#include "device/cuda/cuda_range.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct cuda_card {
    struct mt_device device;
    struct mt_torch_card *card; /* borrowed */
    int ordinal;
    struct mt_cuda_range range;
    struct mt_mutex lock; /* held from recording the event to waiting for it */
    cudaEvent_t reached;
    uint64_t opened_ns; /* mt_clock_ns when the device's clock was 0 */
};

static struct cuda_card *card_of(struct mt_device *device)
{
    return (struct cuda_card *)device;
}

static mt_status check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return MT_OK;
    (void)cudaGetLastError(); /* which would otherwise be PyTorch's next error */
    return mt_fail(MT_FAILED, "%s: %s (%d)", call, cudaGetErrorString(error), (int)error);
}

/* Makes the card current in this thread. `leave` restores the card before, since the choice is PyTorch's. */
static mt_status enter(const struct cuda_card *card, int *out_before)
{
    assert(card->ordinal >= 0);
    mt_status status = check(cudaGetDevice(out_before), "cudaGetDevice");
    if (status == MT_OK && *out_before != card->ordinal)
        status = check(cudaSetDevice(card->ordinal), "cudaSetDevice");
    return status;
}

static void leave(const struct cuda_card *card, int before)
{
    if (before != card->ordinal)
        (void)cudaSetDevice(before);
}

static void *pointer(mt_addr address)
{
    return (void *)(uintptr_t)address;
}

/* ---- memory ---- */

static mt_status take_memory(const struct cuda_card *card, uint64_t bytes, mt_addr *out_address)
{
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return mt_fail(error == cudaErrorMemoryAllocation ? MT_OUT_OF_MEMORY : MT_FAILED,
                       "%s: cudaMalloc of %" PRIu64 " bytes: %s (%d)", card->device.name, bytes,
                       cudaGetErrorString(error), (int)error);
    }
    *out_address = (mt_addr)(uintptr_t)memory;
    return MT_OK;
}

static mt_status card_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct cuda_card *card = card_of(device);
    int before;
    MT_TRY(enter(card, &before));
    mt_status status = take_memory(card, bytes, out_address);
    leave(card, before);
    return status;
}

/* cudaFree waits for work that may still use the memory. */
static void card_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    int before;
    (void)bytes;
    if (enter(card_of(device), &before) != MT_OK)
        return;
    (void)cudaFree(pointer(address));
    leave(card_of(device), before);
}

static mt_status card_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    return mt_cuda_range_open(&card_of(device)->range, bytes, out_address);
}

static void card_range_close(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    mt_cuda_range_close(&card_of(device)->range, address, bytes);
}

static mt_status card_range_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    int before;
    MT_TRY(enter(card_of(device), &before));
    mt_status status = mt_cuda_range_map(&card_of(device)->range, address, bytes);
    leave(card_of(device), before);
    return status;
}

static void card_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    int before;
    if (enter(card_of(device), &before) != MT_OK)
        return;
    (void)cudaDeviceSynchronize();
    mt_cuda_range_unmap(&card_of(device)->range, address, bytes);
    leave(card_of(device), before);
}

/* ---- order and time ---- */

static cudaStream_t stream_of(struct cuda_card *card, mt_stream number)
{
    return (cudaStream_t)(uintptr_t)mt_torch_card_stream_of(card->card, number).stream;
}

/* Queues a wait in `later` for the work of `earlier`. One event is enough, since a wait is for its last record. */
static mt_status wait_for(struct cuda_card *card, cudaStream_t later, cudaStream_t earlier)
{
    mt_mutex_take(&card->lock);
    mt_status status = check(cudaEventRecord(card->reached, earlier), "cudaEventRecord");
    MT_THEN(status, check(cudaStreamWaitEvent(later, card->reached, 0), "cudaStreamWaitEvent"));
    mt_mutex_give(&card->lock);
    return status;
}

/* Enters the card, since the default stream is the current card's. */
static mt_status card_follow(struct mt_device *device, mt_stream later, mt_stream earlier)
{
    struct cuda_card *card = card_of(device);
    int before;
    MT_TRY(enter(card, &before));
    mt_status status = wait_for(card, stream_of(card, later), stream_of(card, earlier));
    leave(card, before);
    return status;
}

static mt_status card_synchronize(struct mt_device *device)
{
    int before;
    MT_TRY(enter(card_of(device), &before));
    mt_status status = check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    leave(card_of(device), before);
    return status;
}

static uint64_t card_now_ns(const struct mt_device *device)
{
    return mt_clock_since_ns(((const struct cuda_card *)device)->opened_ns);
}

/* ---- opening and closing ---- */

static void card_close(struct mt_device *device)
{
    struct cuda_card *card = card_of(device);
    if (card->reached != NULL)
        (void)cudaEventDestroy(card->reached);
    mt_mutex_destroy(&card->lock);
    free(card);
}

#define CARD_TABLE                                                                                                     \
    .kind = "cuda", .reserve = card_reserve, .release = card_release, .synchronize = card_synchronize,                 \
    .follow = card_follow, .now_ns = card_now_ns, .close = card_close

/* Memory that is mapped into a range can be reached from its own card alone. PyTorch copies between cards and has
 * kernels that read another's memory, which need cudaMalloc. So ranges are used only if the process sees one card. */
static const struct mt_device_table one_of_several_cards = {CARD_TABLE};
static const struct mt_device_table only_card = {
    CARD_TABLE,
    .range_open = card_range_open,
    .range_close = card_range_close,
    .range_map = card_range_map,
    .range_unmap = card_range_unmap,
};

static mt_status choose_table(struct cuda_card *card)
{
    int count = 0;
    mt_status status = check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (status != MT_OK)
        return mt_fail_context(MT_NO_DEVICE, "cuda:%d", card->ordinal);
    card->device.table = count == 1 ? &only_card : &one_of_several_cards;
    return MT_OK;
}

static mt_status describe(struct cuda_card *card)
{
    struct cudaDeviceProp properties;
    struct mt_device *device = &card->device;
    if (check(cudaGetDeviceProperties(&properties, card->ordinal), "cudaGetDeviceProperties") != MT_OK)
        return mt_fail_context(MT_NO_DEVICE, "cuda:%d", card->ordinal);
    snprintf(device->name, sizeof device->name, "cuda:%d (%.40s)", card->ordinal, properties.name);
    device->capacity_bytes = properties.totalGlobalMem;
    device->card = (struct mt_card){.name = "cuda", .memory_bytes = properties.totalGlobalMem};
    return MT_OK;
}

/* Creates the event. The context becomes current with the first call that needs one. */
static mt_status start(struct cuda_card *card)
{
    int before;
    MT_TRY(enter(card, &before));
    mt_status status =
        check(cudaEventCreateWithFlags(&card->reached, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    if (status == MT_OK)
        mt_cuda_range_start(&card->range, card->ordinal);
    leave(card, before);
    return status;
}

mt_status mt_torch_device_open(int ordinal, struct mt_torch_card *owner, struct mt_device **out)
{
    struct cuda_card *card = mt_host_alloc(sizeof *card);
    card->card = owner;
    card->ordinal = ordinal;
    card->opened_ns = mt_clock_ns();
    mt_mutex_create(&card->lock, MT_RANK_DEVICE);
    mt_status status = choose_table(card);
    MT_THEN(status, describe(card));
    MT_THEN(status, start(card));
    if (status != MT_OK) {
        card_close(&card->device);
        return status;
    }
    *out = &card->device;
    return MT_OK;
}
