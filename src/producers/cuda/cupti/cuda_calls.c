#include "producers/cuda/cupti/cuda_calls.h"

#include "base/checked.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>

/* The effect of a function on memory. */
enum call_action {
    CALL_TAKES,   /* memory with an address */
    CALL_GIVES,   /* it back */
    CALL_MAKES,   /* physical memory, with a handle */
    CALL_HOLDS,   /* retains a handle once more */
    CALL_LETS_GO, /* releases a handle */
    CALL_MAPS,    /* the memory of a handle to a range */
    CALL_UNMAPS,  /* everything in a range */
    CALL_TRIMS,   /* a pool */
    CALL_DESTROYS /* a pool */
};

enum { DEVICE_OF_CONTEXT = -3 };

/* Arguments of a call. Results are read through pointers, once the call has succeeded. */
struct arguments {
    const uint64_t *result;         /* an address or a handle; NULL: none is returned */
    const size_t *pitch;            /* the bytes of a row, rounded; NULL: there are no rows */
    uint64_t address, handle, pool; /* pool 0: the device's own, or none */
    uint64_t stream;                /* a handle; CU_STREAM_PER_THREAD is the thread's own default stream */
    uint64_t bytes, rows;           /* as requested; with a pitch, the bytes of a row and the number of rows */
    int device;                     /* of physical memory, MT_NOT_A_DEVICE for the host's; or DEVICE_OF_CONTEXT */
};

struct mt_listened_call {
    const char *name;            /* as a programmer writes it */
    CUpti_CallbackDomain domain; /* the driver's or the runtime's */
    enum call_action action;
    mt_memory_kind kind; /* of the memory taken */
    void (*read)(const void *parameters, struct arguments *out);
};

/* ---- functions and their arguments ---- */

_Static_assert(sizeof(CUdeviceptr) == sizeof(uint64_t) && sizeof(void *) == sizeof(uint64_t), "addresses are 64 bits");

/* Defines read_NAME, which copies parameters of the function `name` into arguments. A CUdeviceptr, a handle and a
 * pointer have 64 bits each. */
#define READER(name, ...)                                                                                              \
    static void read_##name(const void *parameters, struct arguments *out)                                             \
    {                                                                                                                  \
        const name##_params *given = parameters;                                                                       \
        __VA_ARGS__                                                                                                    \
    }
#define FIELD(target, field) out->target = (uint64_t)given->field;
#define RESULT(pointer, size)                                                                                          \
    out->result = (const uint64_t *)given->pointer;                                                                    \
    out->bytes = given->size;
#define ROWS(pointer, pitch_pointer, width, height)                                                                    \
    RESULT(pointer, width)                                                                                             \
    out->pitch = given->pitch_pointer;                                                                                 \
    out->rows = given->height;

/* Defines the same for a program whose default stream is the thread's own. The parameters are the same. */
#define READER_IN_THREAD(name)                                                                                         \
    static void read_##name##_ptsz(const void *parameters, struct arguments *out)                                      \
    {                                                                                                                  \
        read_##name(parameters, out);                                                                                  \
        if (out->stream == 0)                                                                                          \
            out->stream = (uint64_t)CU_STREAM_PER_THREAD;                                                              \
    }

READER(cuMemAlloc_v2, RESULT(dptr, bytesize))
READER(cuMemAllocManaged, RESULT(dptr, bytesize))
READER(cuMemAllocPitch_v2, ROWS(dptr, pPitch, WidthInBytes, Height))
READER(cuMemAllocAsync, RESULT(dptr, bytesize) FIELD(stream, hStream))
READER_IN_THREAD(cuMemAllocAsync)
READER(cuMemAllocFromPoolAsync, RESULT(dptr, bytesize) FIELD(stream, hStream) FIELD(pool, pool))
READER_IN_THREAD(cuMemAllocFromPoolAsync)
READER(cuMemFree_v2, FIELD(address, dptr))
READER(cuMemFreeAsync, FIELD(address, dptr))
READER(cuMemRetainAllocationHandle, out->result = (const uint64_t *)given->handle;)
READER(cuMemRelease, FIELD(handle, handle))
READER(cuMemMap, FIELD(address, ptr) FIELD(bytes, size) FIELD(handle, handle))
READER(cuMemUnmap, FIELD(address, ptr) FIELD(bytes, size))
READER(cuMemPoolTrimTo, FIELD(pool, pool))
READER(cuMemPoolDestroy, FIELD(pool, pool))

READER(cudaMalloc_v3020, RESULT(devPtr, size))
READER(cudaMallocManaged_v6000, RESULT(devPtr, size))
READER(cudaMallocPitch_v3020, ROWS(devPtr, pitch, width, height))
READER(cudaMallocAsync_v11020, RESULT(devPtr, size) FIELD(stream, hStream))
READER_IN_THREAD(cudaMallocAsync_v11020)
READER(cudaMallocFromPoolAsync_v11020, RESULT(ptr, size) FIELD(stream, stream) FIELD(pool, memPool))
READER_IN_THREAD(cudaMallocFromPoolAsync_v11020)
READER(cudaFree_v3020, FIELD(address, devPtr))
READER(cudaFreeAsync_v11020, FIELD(address, devPtr))
READER(cudaMemPoolTrimTo_v11020, FIELD(pool, memPool))
READER(cudaMemPoolDestroy_v11020, FIELD(pool, memPool))

static void read_cudaMalloc3D_v3020(const void *parameters, struct arguments *out)
{
    const cudaMalloc3D_v3020_params *given = parameters;
    out->result = (const uint64_t *)&given->pitchedDevPtr->ptr;
    out->pitch = &given->pitchedDevPtr->pitch;
    out->bytes = given->extent.width;
    out->rows = UINT64_MAX;
    (void)mt_checked_mul(given->extent.height, given->extent.depth, &out->rows);
}

static void read_cuMemCreate(const void *parameters, struct arguments *out)
{
    const cuMemCreate_params *given = parameters;
    out->result = (const uint64_t *)given->handle;
    out->bytes = given->size;
    out->device = given->prop != NULL && given->prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                      ? given->prop->location.id
                      : MT_NOT_A_DEVICE;
}

/* One entry of a table: a function of CUDA, the reader of its arguments, and its effect. */
#define CALL(library, id, reader, what, of_kind, text)                                                                 \
    [CUPTI_##library##_TRACE_CBID_##id] = {.name = text,                                                               \
                                           .action = CALL_##what,                                                      \
                                           .domain = CUPTI_CB_DOMAIN_##library##_API,                                  \
                                           .kind = MT_MEMORY_##of_kind,                                                \
                                           .read = read_##reader}
#define DRIVER(id, reader, what, kind, text) CALL(DRIVER, id, reader, what, kind, text)
#define RUNTIME(id, reader, what, kind, text) CALL(RUNTIME, id, reader, what, kind, text)

/* Tables by number, since each call is looked up four times. Programs whose default stream is the thread's own call the
 * functions with _ptsz. */
static const struct mt_listened_call driver_calls[CUPTI_DRIVER_TRACE_CBID_SIZE] = {
    DRIVER(cuMemAlloc_v2, cuMemAlloc_v2, TAKES, DEVICE, "cuMemAlloc"),
    DRIVER(cuMemAllocPitch_v2, cuMemAllocPitch_v2, TAKES, DEVICE, "cuMemAllocPitch"),
    DRIVER(cuMemAllocManaged, cuMemAllocManaged, TAKES, MANAGED, "cuMemAllocManaged"),
    DRIVER(cuMemAllocAsync, cuMemAllocAsync, TAKES, POOL, "cuMemAllocAsync"),
    DRIVER(cuMemAllocAsync_ptsz, cuMemAllocAsync_ptsz, TAKES, POOL, "cuMemAllocAsync"),
    DRIVER(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, TAKES, POOL, "cuMemAllocFromPoolAsync"),
    DRIVER(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync_ptsz, TAKES, POOL, "cuMemAllocFromPoolAsync"),
    DRIVER(cuMemFree_v2, cuMemFree_v2, GIVES, DEVICE, "cuMemFree"),
    DRIVER(cuMemFreeAsync, cuMemFreeAsync, GIVES, POOL, "cuMemFreeAsync"),
    DRIVER(cuMemFreeAsync_ptsz, cuMemFreeAsync, GIVES, POOL, "cuMemFreeAsync"),
    DRIVER(cuMemCreate, cuMemCreate, MAKES, VIRTUAL, "cuMemCreate"),
    DRIVER(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, HOLDS, VIRTUAL, "cuMemRetainAllocationHandle"),
    DRIVER(cuMemRelease, cuMemRelease, LETS_GO, VIRTUAL, "cuMemRelease"),
    DRIVER(cuMemMap, cuMemMap, MAPS, VIRTUAL, "cuMemMap"),
    DRIVER(cuMemUnmap, cuMemUnmap, UNMAPS, VIRTUAL, "cuMemUnmap"),
    DRIVER(cuMemPoolTrimTo, cuMemPoolTrimTo, TRIMS, POOL, "cuMemPoolTrimTo"),
    DRIVER(cuMemPoolDestroy, cuMemPoolDestroy, DESTROYS, POOL, "cuMemPoolDestroy"),
};

static const struct mt_listened_call runtime_calls[CUPTI_RUNTIME_TRACE_CBID_SIZE] = {
    RUNTIME(cudaMemPoolTrimTo_v11020, cudaMemPoolTrimTo_v11020, TRIMS, POOL, "cudaMemPoolTrimTo"),
    RUNTIME(cudaMemPoolDestroy_v11020, cudaMemPoolDestroy_v11020, DESTROYS, POOL, "cudaMemPoolDestroy"),
    RUNTIME(cudaMalloc_v3020, cudaMalloc_v3020, TAKES, DEVICE, "cudaMalloc"),
    RUNTIME(cudaMallocPitch_v3020, cudaMallocPitch_v3020, TAKES, DEVICE, "cudaMallocPitch"),
    RUNTIME(cudaMalloc3D_v3020, cudaMalloc3D_v3020, TAKES, DEVICE, "cudaMalloc3D"),
    RUNTIME(cudaMallocManaged_v6000, cudaMallocManaged_v6000, TAKES, MANAGED, "cudaMallocManaged"),
    RUNTIME(cudaMallocAsync_v11020, cudaMallocAsync_v11020, TAKES, POOL, "cudaMallocAsync"),
    RUNTIME(cudaMallocAsync_ptsz_v11020, cudaMallocAsync_v11020_ptsz, TAKES, POOL, "cudaMallocAsync"),
    RUNTIME(cudaMallocFromPoolAsync_v11020, cudaMallocFromPoolAsync_v11020, TAKES, POOL, "cudaMallocFromPoolAsync"),
    RUNTIME(cudaMallocFromPoolAsync_ptsz_v11020, cudaMallocFromPoolAsync_v11020_ptsz, TAKES, POOL,
            "cudaMallocFromPoolAsync"),
    RUNTIME(cudaFree_v3020, cudaFree_v3020, GIVES, DEVICE, "cudaFree"),
    RUNTIME(cudaFreeAsync_v11020, cudaFreeAsync_v11020, GIVES, POOL, "cudaFreeAsync"),
    RUNTIME(cudaFreeAsync_ptsz_v11020, cudaFreeAsync_v11020, GIVES, POOL, "cudaFreeAsync"),
};

_Static_assert((int)CUPTI_DRIVER_TRACE_CBID_SIZE <= (int)MT_LISTENED_IDS &&
                   (int)CUPTI_RUNTIME_TRACE_CBID_SIZE <= (int)MT_LISTENED_IDS,
               "mt_listened_call_find is asked for every number");

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

static struct arguments read_arguments(const struct mt_listened_call *call, const void *parameters)
{
    struct arguments arguments = {.device = DEVICE_OF_CONTEXT};
    call->read(parameters, &arguments);
    return arguments;
}

/* ---- questions to the driver ---- */

static void *find_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

void mt_driver_describe(int device, char name[MT_DRIVER_NAME_BYTES], uint64_t *out_bytes)
{
    void *driver = find_driver();
    CUresult (*get_name)(char *, int, CUdevice) = NULL;
    CUresult (*get_bytes)(size_t *, CUdevice) = NULL;
    size_t bytes = 0;
    snprintf(name, MT_DRIVER_NAME_BYTES, "CUDA device %d", device);
    if (driver != NULL) {
        *(void **)&get_name = dlsym(driver, "cuDeviceGetName");
        *(void **)&get_bytes = dlsym(driver, "cuDeviceTotalMem_v2");
    }
    if (get_name != NULL)
        get_name(name, MT_DRIVER_NAME_BYTES, device);
    if (get_bytes != NULL)
        get_bytes(&bytes, device);
    *out_bytes = bytes;
}

void mt_driver_find_pools(struct mt_pool_functions *out)
{
    void *driver = find_driver();
    if (driver == NULL)
        return;
    *(void **)&out->of_device = dlsym(driver, "cuDeviceGetMemPool");
    *(void **)&out->attribute = dlsym(driver, "cuMemPoolGetAttribute");
}

/* Results that the driver and the runtime have in common. */
enum { SUCCEEDED = CUDA_SUCCESS, OUT_OF_MEMORY = CUDA_ERROR_OUT_OF_MEMORY };
_Static_assert((int)cudaSuccess == SUCCEEDED && (int)cudaErrorMemoryAllocation == OUT_OF_MEMORY, "one number each");

static bool takes(const struct mt_listened_call *call)
{
    return call->action == CALL_TAKES || call->action == CALL_MAKES;
}

int mt_device_of_context(CUcontext context)
{
    uint32_t device = 0;
    return context != NULL && cuptiGetDeviceId(context, &device) == CUPTI_SUCCESS ? (int)device : 0;
}

bool mt_call_is_of_pool(const struct mt_listened_call *call)
{
    return (takes(call) && call->kind == MT_MEMORY_POOL) || call->action == CALL_TRIMS;
}

/* Returns the pool that a call took from; 0 if it is unknown. */
static uint64_t find_pool(const struct mt_pool_functions *pools, uint64_t named, int device)
{
    CUmemoryPool pool = NULL;
    if (named != 0)
        return named;
    return pools->of_device != NULL && pools->of_device(&pool, device) == CUDA_SUCCESS ? (uint64_t)(uintptr_t)pool : 0;
}

static void ask_pool(const struct mt_pool_functions *pools, const struct arguments *given, struct mt_call_place *out)
{
    out->pool = find_pool(pools, given->pool, out->device);
    out->is_reserved_known = out->pool != 0 && pools->attribute != NULL &&
                             pools->attribute((CUmemoryPool)(uintptr_t)out->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                              &out->pool_reserved_bytes) == CUDA_SUCCESS;
}

void mt_call_ask(const struct mt_pool_functions *pools, const struct mt_listening_thread *thread,
                 const struct mt_listened_call *call, const CUpti_CallbackData *data, struct mt_call_place *out)
{
    *out = (struct mt_call_place){.device = MT_NOT_A_DEVICE};
    bool is_wanted = takes(call) ? !thread->is_reported : call->action == CALL_TRIMS;
    if (data->callbackSite != CUPTI_API_EXIT || !is_wanted)
        return;
    const struct arguments given = read_arguments(call, data->functionParams);
    out->device = given.device == DEVICE_OF_CONTEXT ? mt_device_of_context(data->context) : given.device;
    if (mt_call_is_of_pool(call))
        ask_pool(pools, &given, out);
}

/* ---- the beginning of a call ---- */

/* Reports memory that the call is about to give back. */
static void give_back(struct mt_account *account, const struct mt_listened_call *call, const void *parameters,
                      uint64_t time_ns)
{
    const struct arguments given = read_arguments(call, parameters);
    assert(call->action == CALL_GIVES || call->action == CALL_LETS_GO || call->action == CALL_UNMAPS);
    if (call->action == CALL_GIVES)
        mt_account_give(account, time_ns, given.address);
    else if (call->action == CALL_LETS_GO)
        mt_account_let_go(account, time_ns, given.handle);
    else
        mt_account_unmap(account, time_ns, given.address, given.bytes);
}

/* Keeps a call of the runtime that takes memory, for the driver's calls inside of it. */
static void enter_call(struct mt_listening_thread *thread, const struct mt_listened_call *call)
{
    if (!takes(call) || call->domain != CUPTI_CB_DOMAIN_RUNTIME_API)
        return;
    thread->outer = call;
    thread->is_reported = false;
}

static void leave_call(struct mt_listening_thread *thread, const struct mt_listened_call *call)
{
    if (thread->outer != call)
        return;
    thread->outer = NULL;
    thread->is_reported = false;
}

static void begin_call(struct mt_account *account, struct mt_listening_thread *thread,
                       const struct mt_listened_call *call, const CUpti_CallbackData *data, uint64_t time_ns)
{
    mt_account_expect(account, data->correlationId);
    enter_call(thread, call);
    if (call->action == CALL_GIVES || call->action == CALL_LETS_GO || call->action == CALL_UNMAPS)
        give_back(account, call, data->functionParams, time_ns);
}

/* ---- the end of a call ---- */

/* Returns the bytes that were taken; for a refused request, the bytes asked for, which may be any number. */
static uint64_t bytes_of(const struct arguments *given, int result)
{
    uint64_t bytes = UINT64_MAX;
    if (given->pitch == NULL)
        return given->bytes;
    (void)mt_checked_mul(given->rows, result == SUCCEEDED ? *given->pitch : given->bytes, &bytes);
    return bytes;
}

/* Returns a stream's number for the account. The default stream has two handles. The threads' own default streams share
 * one handle, so each gets the address of its thread's struct, which is no stream's handle. */
static uint64_t number_of_stream(const struct mt_listening_thread *thread, uint64_t handle)
{
    if (handle == (uint64_t)CU_STREAM_LEGACY)
        return 0;
    return handle == (uint64_t)CU_STREAM_PER_THREAD ? (uint64_t)(uintptr_t)thread : handle;
}

static struct mt_memory_call describe(const struct mt_listening_thread *thread, const struct mt_listened_call *call,
                                      const CUpti_CallbackData *data, const struct mt_call_place *place, int result,
                                      uint64_t time_ns)
{
    const struct arguments given = read_arguments(call, data->functionParams);
    assert(takes(call));
    return (struct mt_memory_call){
        .time_ns = time_ns,
        .op = thread->outer != NULL ? thread->outer->name : call->name,
        .kind = call->kind,
        .address = result == SUCCEEDED ? *given.result : 0,
        .bytes = bytes_of(&given, result),
        .stream = number_of_stream(thread, given.stream),
        .context = data->contextUid,
        .pool = place->pool,
        .device = place->device,
    };
}

static void report_pool(struct mt_account *account, const struct mt_call_place *place, uint64_t time_ns)
{
    if (place->is_reserved_known)
        mt_account_pool(account, time_ns, place->pool, place->pool_reserved_bytes);
}

static void end_request(struct mt_account *account, struct mt_listening_thread *thread,
                        const struct mt_listened_call *call, const CUpti_CallbackData *data,
                        const struct mt_call_place *place, int result, uint64_t time_ns)
{
    if (thread->is_reported || (result != SUCCEEDED && result != OUT_OF_MEMORY))
        return;
    const struct mt_memory_call request = describe(thread, call, data, place, result, time_ns);
    thread->is_reported = thread->outer != NULL;
    if (request.device == MT_NOT_A_DEVICE)
        return;
    if (result == OUT_OF_MEMORY)
        mt_account_refuse(account, &thread->account, &request);
    else if (call->action == CALL_MAKES)
        mt_account_make(account, &thread->account, &request);
    else
        mt_account_take(account, &thread->account, &request);
    if (result == SUCCEEDED)
        report_pool(account, place, time_ns);
}

/* Reports a call that takes nothing and has succeeded. */
static void end_other(struct mt_account *account, const struct mt_listened_call *call, const void *parameters,
                      const struct mt_call_place *place, uint64_t time_ns)
{
    const struct arguments given = read_arguments(call, parameters);
    if (call->action == CALL_HOLDS)
        mt_account_hold(account, *given.result);
    else if (call->action == CALL_MAPS)
        mt_account_map(account, given.address, given.bytes, given.handle);
    else if (call->action == CALL_TRIMS)
        report_pool(account, place, time_ns);
    else if (call->action == CALL_DESTROYS)
        mt_account_pool(account, time_ns, given.pool, 0);
}

static void end_call(struct mt_account *account, struct mt_listening_thread *thread,
                     const struct mt_listened_call *call, const CUpti_CallbackData *data,
                     const struct mt_call_place *place, uint64_t time_ns)
{
    int result = *(const int *)data->functionReturnValue;
    if (takes(call))
        end_request(account, thread, call, data, place, result, time_ns);
    else if (result == SUCCEEDED)
        end_other(account, call, data->functionParams, place, time_ns);
    leave_call(thread, call);
}

void mt_call_report(struct mt_account *account, struct mt_listening_thread *thread, const struct mt_listened_call *call,
                    const CUpti_CallbackData *data, const struct mt_call_place *place, uint64_t time_ns)
{
    assert(thread->outer == NULL || takes(thread->outer));
    if (data->callbackSite == CUPTI_API_ENTER)
        begin_call(account, thread, call, data, time_ns);
    else
        end_call(account, thread, call, data, place, time_ns);
}

/* ---- activity records ---- */

/* ---- without an account ---- */

/* Reads the end of a call that takes or maps memory. */
static bool read_taken(struct mt_listening_thread *thread, const struct mt_listened_call *call,
                       const CUpti_CallbackData *data, const struct mt_call_place *place, struct mt_addressed_call *out)
{
    const bool maps = call->action == CALL_MAPS, is_told = thread->is_reported && thread->outer != NULL;
    if (*(const int *)data->functionReturnValue != SUCCEEDED || is_told || !(maps || takes(call)) ||
        call->action == CALL_MAKES || (!maps && place->device == MT_NOT_A_DEVICE))
        return false;
    const struct arguments given = read_arguments(call, data->functionParams);
    thread->is_reported = thread->outer != NULL;
    *out = (struct mt_addressed_call){.op = thread->outer != NULL ? thread->outer->name : call->name,
                                      .address = maps ? given.address : *given.result,
                                      .bytes = bytes_of(&given, SUCCEEDED),
                                      .device = maps ? mt_device_of_context(data->context) : place->device};
    return true;
}

bool mt_call_read_addressed(struct mt_listening_thread *thread, const struct mt_listened_call *call,
                            const CUpti_CallbackData *data, const struct mt_call_place *place,
                            struct mt_addressed_call *out)
{
    if (data->callbackSite == CUPTI_API_EXIT) {
        bool is_taken = read_taken(thread, call, data, place, out);
        leave_call(thread, call);
        return is_taken;
    }
    enter_call(thread, call);
    if (call->action != CALL_GIVES && call->action != CALL_UNMAPS)
        return false;
    *out = (struct mt_addressed_call){
        .gives = true, .op = call->name, .address = read_arguments(call, data->functionParams).address};
    return out->address != 0;
}

static bool find_kind(const CUpti_ActivityMemory4 *record, mt_memory_kind *out)
{
    switch (record->memoryKind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
        *out = record->isAsync ? MT_MEMORY_POOL : MT_MEMORY_DEVICE;
        return true;
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
        *out = MT_MEMORY_ARRAY;
        return true;
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
        *out = MT_MEMORY_MANAGED;
        return true;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
        *out = MT_MEMORY_STATIC;
        return true;
    default:
        return false;
    }
}

bool mt_memory_recorded(const CUpti_ActivityMemory4 *record, uint64_t time_ns, struct mt_memory_record *out)
{
    *out = (struct mt_memory_record){.time_ns = time_ns,
                                     .op = record->name != NULL ? record->name : "driver",
                                     .releases =
                                         record->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE,
                                     .address = record->address,
                                     .bytes = record->bytes,
                                     .call = record->correlationId,
                                     .context = record->contextId,
                                     .device = (int)record->deviceId};
    return find_kind(record, &out->kind);
}
