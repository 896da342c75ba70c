#include "record/cupti/memory_calls.h"

#include "base/checked.h"

/* read_NAME of a function whose parameters have these fields. A CUdeviceptr, a handle and a pointer are 64 bits each.
 * */
#define READS_RESULT(name, pointer, size)                                                                              \
    static void read_##name(const void *parameters, struct mt_call_arguments *out)                                     \
    {                                                                                                                  \
        const name##_params *given = parameters;                                                                       \
        out->result = (const uint64_t *)given->pointer;                                                                \
        out->bytes = given->size;                                                                                      \
    }
#define READS_QUEUED_RESULT(name, pointer, size, queue)                                                                \
    static void read_##name(const void *parameters, struct mt_call_arguments *out)                                     \
    {                                                                                                                  \
        const name##_params *given = parameters;                                                                       \
        out->result = (const uint64_t *)given->pointer;                                                                \
        out->bytes = given->size;                                                                                      \
        out->stream = (uint64_t)given->queue;                                                                          \
    }
#define READS_POOLED_RESULT(name, pointer, size, queue, from)                                                          \
    static void read_##name(const void *parameters, struct mt_call_arguments *out)                                     \
    {                                                                                                                  \
        const name##_params *given = parameters;                                                                       \
        out->result = (const uint64_t *)given->pointer;                                                                \
        out->bytes = given->size;                                                                                      \
        out->stream = (uint64_t)given->queue;                                                                          \
        out->pool = (uint64_t)given->from;                                                                             \
    }
/* The same function of a program whose default stream is the thread's: the parameters are those of the other. */
#define READS_IN_THREAD(name)                                                                                          \
    static void read_##name##_ptsz(const void *parameters, struct mt_call_arguments *out)                              \
    {                                                                                                                  \
        read_##name(parameters, out);                                                                                  \
        if (out->stream == 0)                                                                                          \
            out->stream = (uint64_t)CU_STREAM_PER_THREAD;                                                              \
    }
#define READS_ROWS(name, pointer, pitch_pointer, width, height)                                                        \
    static void read_##name(const void *parameters, struct mt_call_arguments *out)                                     \
    {                                                                                                                  \
        const name##_params *given = parameters;                                                                       \
        out->result = (const uint64_t *)given->pointer;                                                                \
        out->pitch = given->pitch_pointer;                                                                             \
        out->bytes = given->width;                                                                                     \
        out->rows = given->height;                                                                                     \
    }
#define READS_FIELD(name, target, field)                                                                               \
    static void read_##name(const void *parameters, struct mt_call_arguments *out)                                     \
    {                                                                                                                  \
        out->target = (uint64_t)((const name##_params *)parameters)->field;                                            \
    }

_Static_assert(sizeof(CUdeviceptr) == sizeof(uint64_t) && sizeof(void *) == sizeof(uint64_t), "addresses are 64 bits");

READS_RESULT(cuMemAlloc_v2, dptr, bytesize)
READS_RESULT(cuMemAllocManaged, dptr, bytesize)
READS_ROWS(cuMemAllocPitch_v2, dptr, pPitch, WidthInBytes, Height)
READS_QUEUED_RESULT(cuMemAllocAsync, dptr, bytesize, hStream)
READS_IN_THREAD(cuMemAllocAsync)
READS_POOLED_RESULT(cuMemAllocFromPoolAsync, dptr, bytesize, hStream, pool)
READS_IN_THREAD(cuMemAllocFromPoolAsync)
READS_FIELD(cuMemFree_v2, address, dptr)
READS_FIELD(cuMemFreeAsync, address, dptr)
READS_FIELD(cuMemRelease, handle, handle)
READS_FIELD(cuMemPoolTrimTo, pool, pool)
READS_FIELD(cuMemPoolDestroy, pool, pool)

READS_RESULT(cudaMalloc_v3020, devPtr, size)
READS_RESULT(cudaMallocManaged_v6000, devPtr, size)
READS_ROWS(cudaMallocPitch_v3020, devPtr, pitch, width, height)
READS_QUEUED_RESULT(cudaMallocAsync_v11020, devPtr, size, hStream)
READS_IN_THREAD(cudaMallocAsync_v11020)
READS_POOLED_RESULT(cudaMallocFromPoolAsync_v11020, ptr, size, stream, memPool)
READS_IN_THREAD(cudaMallocFromPoolAsync_v11020)
READS_FIELD(cudaFree_v3020, address, devPtr)
READS_FIELD(cudaFreeAsync_v11020, address, devPtr)
READS_FIELD(cudaMemPoolTrimTo_v11020, pool, memPool)
READS_FIELD(cudaMemPoolDestroy_v11020, pool, memPool)

static void read_cudaMalloc3D_v3020(const void *parameters, struct mt_call_arguments *out)
{
    const cudaMalloc3D_v3020_params *given = parameters;
    out->result = (const uint64_t *)&given->pitchedDevPtr->ptr;
    out->pitch = &given->pitchedDevPtr->pitch;
    out->bytes = given->extent.width;
    out->rows = UINT64_MAX;
    (void)mt_checked_mul(given->extent.height, given->extent.depth, &out->rows);
}

static void read_cuMemCreate(const void *parameters, struct mt_call_arguments *out)
{
    const cuMemCreate_params *given = parameters;
    out->result = (const uint64_t *)given->handle;
    out->bytes = given->size;
    out->device = given->prop != NULL && given->prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                      ? given->prop->location.id
                      : MT_NOT_A_DEVICE;
}

static void read_cuMemRetainAllocationHandle(const void *parameters, struct mt_call_arguments *out)
{
    out->result = (const uint64_t *)((const cuMemRetainAllocationHandle_params *)parameters)->handle;
}

static void read_cuMemMap(const void *parameters, struct mt_call_arguments *out)
{
    const cuMemMap_params *given = parameters;
    out->address = given->ptr;
    out->bytes = given->size;
    out->handle = given->handle;
}

static void read_cuMemUnmap(const void *parameters, struct mt_call_arguments *out)
{
    const cuMemUnmap_params *given = parameters;
    out->address = given->ptr;
    out->bytes = given->size;
}

#define DRIVER(id_name, reader, what, of_kind, text)                                                                   \
    [CUPTI_DRIVER_TRACE_CBID_##id_name] = {                                                                            \
        .name = text, .action = what, .domain = CUPTI_CB_DOMAIN_DRIVER_API, .kind = of_kind, .read = read_##reader}
#define RUNTIME(id_name, reader, what, of_kind, text)                                                                  \
    [CUPTI_RUNTIME_TRACE_CBID_##id_name] = {                                                                           \
        .name = text, .action = what, .domain = CUPTI_CB_DOMAIN_RUNTIME_API, .kind = of_kind, .read = read_##reader}

/* By number, since each call is looked up four times. Those with _ptsz are called by programs whose default stream is
 * the thread's. */
static const struct mt_listened_call driver_calls[CUPTI_DRIVER_TRACE_CBID_SIZE] = {
    DRIVER(cuMemAlloc_v2, cuMemAlloc_v2, MT_CALL_TAKES, MT_MEMORY_DEVICE, "cuMemAlloc"),
    DRIVER(cuMemAllocPitch_v2, cuMemAllocPitch_v2, MT_CALL_TAKES, MT_MEMORY_DEVICE, "cuMemAllocPitch"),
    DRIVER(cuMemAllocManaged, cuMemAllocManaged, MT_CALL_TAKES, MT_MEMORY_MANAGED, "cuMemAllocManaged"),
    DRIVER(cuMemAllocAsync, cuMemAllocAsync, MT_CALL_TAKES, MT_MEMORY_POOL, "cuMemAllocAsync"),
    DRIVER(cuMemAllocAsync_ptsz, cuMemAllocAsync_ptsz, MT_CALL_TAKES, MT_MEMORY_POOL, "cuMemAllocAsync"),
    DRIVER(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, MT_CALL_TAKES, MT_MEMORY_POOL, "cuMemAllocFromPoolAsync"),
    DRIVER(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync_ptsz, MT_CALL_TAKES, MT_MEMORY_POOL,
           "cuMemAllocFromPoolAsync"),
    DRIVER(cuMemFree_v2, cuMemFree_v2, MT_CALL_GIVES, MT_MEMORY_DEVICE, "cuMemFree"),
    DRIVER(cuMemFreeAsync, cuMemFreeAsync, MT_CALL_GIVES, MT_MEMORY_POOL, "cuMemFreeAsync"),
    DRIVER(cuMemFreeAsync_ptsz, cuMemFreeAsync, MT_CALL_GIVES, MT_MEMORY_POOL, "cuMemFreeAsync"),
    DRIVER(cuMemCreate, cuMemCreate, MT_CALL_MAKES, MT_MEMORY_VIRTUAL, "cuMemCreate"),
    DRIVER(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, MT_CALL_HOLDS, MT_MEMORY_VIRTUAL,
           "cuMemRetainAllocationHandle"),
    DRIVER(cuMemRelease, cuMemRelease, MT_CALL_LETS_GO, MT_MEMORY_VIRTUAL, "cuMemRelease"),
    DRIVER(cuMemMap, cuMemMap, MT_CALL_MAPS, MT_MEMORY_VIRTUAL, "cuMemMap"),
    DRIVER(cuMemUnmap, cuMemUnmap, MT_CALL_UNMAPS, MT_MEMORY_VIRTUAL, "cuMemUnmap"),
    DRIVER(cuMemPoolTrimTo, cuMemPoolTrimTo, MT_CALL_TRIMS, MT_MEMORY_POOL, "cuMemPoolTrimTo"),
    DRIVER(cuMemPoolDestroy, cuMemPoolDestroy, MT_CALL_DESTROYS, MT_MEMORY_POOL, "cuMemPoolDestroy"),
};

static const struct mt_listened_call runtime_calls[CUPTI_RUNTIME_TRACE_CBID_SIZE] = {
    RUNTIME(cudaMemPoolTrimTo_v11020, cudaMemPoolTrimTo_v11020, MT_CALL_TRIMS, MT_MEMORY_POOL, "cudaMemPoolTrimTo"),
    RUNTIME(cudaMemPoolDestroy_v11020, cudaMemPoolDestroy_v11020, MT_CALL_DESTROYS, MT_MEMORY_POOL,
            "cudaMemPoolDestroy"),
    RUNTIME(cudaMalloc_v3020, cudaMalloc_v3020, MT_CALL_TAKES, MT_MEMORY_DEVICE, "cudaMalloc"),
    RUNTIME(cudaMallocPitch_v3020, cudaMallocPitch_v3020, MT_CALL_TAKES, MT_MEMORY_DEVICE, "cudaMallocPitch"),
    RUNTIME(cudaMalloc3D_v3020, cudaMalloc3D_v3020, MT_CALL_TAKES, MT_MEMORY_DEVICE, "cudaMalloc3D"),
    RUNTIME(cudaMallocManaged_v6000, cudaMallocManaged_v6000, MT_CALL_TAKES, MT_MEMORY_MANAGED, "cudaMallocManaged"),
    RUNTIME(cudaMallocAsync_v11020, cudaMallocAsync_v11020, MT_CALL_TAKES, MT_MEMORY_POOL, "cudaMallocAsync"),
    RUNTIME(cudaMallocAsync_ptsz_v11020, cudaMallocAsync_v11020_ptsz, MT_CALL_TAKES, MT_MEMORY_POOL, "cudaMallocAsync"),
    RUNTIME(cudaMallocFromPoolAsync_v11020, cudaMallocFromPoolAsync_v11020, MT_CALL_TAKES, MT_MEMORY_POOL,
            "cudaMallocFromPoolAsync"),
    RUNTIME(cudaMallocFromPoolAsync_ptsz_v11020, cudaMallocFromPoolAsync_v11020_ptsz, MT_CALL_TAKES, MT_MEMORY_POOL,
            "cudaMallocFromPoolAsync"),
    RUNTIME(cudaFree_v3020, cudaFree_v3020, MT_CALL_GIVES, MT_MEMORY_DEVICE, "cudaFree"),
    RUNTIME(cudaFreeAsync_v11020, cudaFreeAsync_v11020, MT_CALL_GIVES, MT_MEMORY_POOL, "cudaFreeAsync"),
    RUNTIME(cudaFreeAsync_ptsz_v11020, cudaFreeAsync_v11020, MT_CALL_GIVES, MT_MEMORY_POOL, "cudaFreeAsync"),
};

_Static_assert((int)CUPTI_DRIVER_TRACE_CBID_SIZE <= (int)MT_LISTENED_IDS &&
                   (int)CUPTI_RUNTIME_TRACE_CBID_SIZE <= (int)MT_LISTENED_IDS,
               "every number is asked for");

static const struct mt_listened_call *find(const struct mt_listened_call *calls, size_t count, CUpti_CallbackId id)
{
    return id < count && calls[id].read != NULL ? &calls[id] : NULL;
}

const struct mt_listened_call *mt_listened_call_find(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
        return find(driver_calls, sizeof driver_calls / sizeof driver_calls[0], id);
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API)
        return find(runtime_calls, sizeof runtime_calls / sizeof runtime_calls[0], id);
    return NULL;
}

struct mt_call_arguments mt_listened_call_read(const struct mt_listened_call *call, const void *parameters)
{
    struct mt_call_arguments arguments = {.device = MT_DEVICE_OF_CONTEXT};
    call->read(parameters, &arguments);
    return arguments;
}
