#include "record/cupti/call_listener.h"

#include "base/checked.h"

/* Of the driver and of the runtime alike. */
enum { SUCCEEDED = CUDA_SUCCESS, OUT_OF_MEMORY = CUDA_ERROR_OUT_OF_MEMORY };
_Static_assert((int)cudaSuccess == SUCCEEDED && (int)cudaErrorMemoryAllocation == OUT_OF_MEMORY, "one number each");

static bool takes(const struct mt_listened_call *call)
{
    return call->action == MT_CALL_TAKES || call->action == MT_CALL_MAKES;
}

int mt_device_of_context(CUcontext context)
{
    uint32_t device = 0;
    return context != NULL && cuptiGetDeviceId(context, &device) == CUPTI_SUCCESS ? (int)device : 0;
}

/* ---- what is asked ---- */

bool mt_call_is_of_pool(const struct mt_listened_call *call)
{
    return (takes(call) && call->kind == MT_MEMORY_POOL) || call->action == MT_CALL_TRIMS;
}

/* The pool that a call took of; 0: nobody knows. */
static uint64_t find_pool(const struct mt_pool_functions *pools, uint64_t named, int device)
{
    CUmemoryPool pool = NULL;
    if (named != 0)
        return named;
    return pools->of_device != NULL && pools->of_device(&pool, device) == CUDA_SUCCESS ? (uint64_t)(uintptr_t)pool : 0;
}

static void ask_pool(const struct mt_pool_functions *pools, const struct mt_call_arguments *given,
                     struct mt_call_place *out)
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
    bool is_wanted = takes(call) ? !thread->is_told : call->action == MT_CALL_TRIMS;
    if (data->callbackSite != CUPTI_API_EXIT || !is_wanted)
        return;
    const struct mt_call_arguments given = mt_listened_call_read(call, data->functionParams);
    out->device = given.device == MT_DEVICE_OF_CONTEXT ? mt_device_of_context(data->context) : given.device;
    if (mt_call_is_of_pool(call))
        ask_pool(pools, &given, out);
}

/* ---- at the beginning ---- */

static void give_back(struct mt_account *account, const struct mt_listened_call *call, const void *parameters,
                      uint64_t time_ns)
{
    const struct mt_call_arguments given = mt_listened_call_read(call, parameters);
    if (call->action == MT_CALL_GIVES)
        mt_account_give(account, time_ns, given.address);
    else if (call->action == MT_CALL_LETS_GO)
        mt_account_let_go(account, time_ns, given.handle);
    else
        mt_account_unmap(account, time_ns, given.address, given.bytes);
}

static void begin_call(struct mt_account *account, struct mt_listening_thread *thread,
                       const struct mt_listened_call *call, const CUpti_CallbackData *data, uint64_t time_ns)
{
    mt_account_expect(account, data->correlationId);
    if (takes(call) && call->domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
        thread->outer = call;
        thread->is_told = false;
    }
    if (call->action == MT_CALL_GIVES || call->action == MT_CALL_LETS_GO || call->action == MT_CALL_UNMAPS)
        give_back(account, call, data->functionParams, time_ns);
}

/* ---- at the end ---- */

/* The bytes that were taken; of a request that was refused, with rows as long as was asked, which may be any number. */
static uint64_t bytes_of(const struct mt_call_arguments *given, int result)
{
    uint64_t bytes = UINT64_MAX;
    if (given->pitch == NULL)
        return given->bytes;
    (void)mt_checked_mul(given->rows, result == SUCCEEDED ? *given->pitch : given->bytes, &bytes);
    return bytes;
}

/* A stream's number for the account. The default one has two handles. A thread's own has the same in every thread, so
 * its number is where the thread is kept here, which no stream has for a handle. */
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
    const struct mt_call_arguments given = mt_listened_call_read(call, data->functionParams);
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

static void tell_pool(struct mt_account *account, const struct mt_call_place *place, uint64_t time_ns)
{
    if (place->is_reserved_known)
        mt_account_pool(account, time_ns, place->pool, place->pool_reserved_bytes);
}

static void end_request(struct mt_account *account, struct mt_listening_thread *thread,
                        const struct mt_listened_call *call, const CUpti_CallbackData *data,
                        const struct mt_call_place *place, int result, uint64_t time_ns)
{
    if (thread->is_told || (result != SUCCEEDED && result != OUT_OF_MEMORY))
        return;
    const struct mt_memory_call request = describe(thread, call, data, place, result, time_ns);
    thread->is_told = thread->outer != NULL;
    if (request.device == MT_NOT_A_DEVICE)
        return;
    if (result == OUT_OF_MEMORY)
        mt_account_refuse(account, &thread->account, &request);
    else if (call->action == MT_CALL_MAKES)
        mt_account_make(account, &thread->account, &request);
    else
        mt_account_take(account, &thread->account, &request);
    if (result == SUCCEEDED)
        tell_pool(account, place, time_ns);
}

/* A call that takes nothing, and has succeeded. */
static void end_other(struct mt_account *account, const struct mt_listened_call *call, const void *parameters,
                      const struct mt_call_place *place, uint64_t time_ns)
{
    const struct mt_call_arguments given = mt_listened_call_read(call, parameters);
    if (call->action == MT_CALL_HOLDS)
        mt_account_hold(account, *given.result);
    else if (call->action == MT_CALL_MAPS)
        mt_account_map(account, given.address, given.bytes, given.handle);
    else if (call->action == MT_CALL_TRIMS)
        tell_pool(account, place, time_ns);
    else if (call->action == MT_CALL_DESTROYS)
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
    if (thread->outer == call) {
        thread->outer = NULL;
        thread->is_told = false;
    }
}

void mt_call_heard(struct mt_account *account, struct mt_listening_thread *thread, const struct mt_listened_call *call,
                   const CUpti_CallbackData *data, const struct mt_call_place *place, uint64_t time_ns)
{
    if (data->callbackSite == CUPTI_API_ENTER)
        begin_call(account, thread, call, data, time_ns);
    else
        end_call(account, thread, call, data, place, time_ns);
}

/* ---- records ---- */

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
