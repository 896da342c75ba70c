#include "record/cupti/inject.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number_map.h"
#include "base/text.h"
#include "device/cupti/kernel_name.h"
#include "record/cupti/call_listener.h"
#include "record/process_run.h"

#include <dlfcn.h>
#include <generated_nvtx_meta.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4 << 20, BUFFER_ALIGNMENT = 8, CLOCK_SAMPLES = 8, FLUSH_PERIOD_MS = 1000, NAME_BYTES = 256 };

#define EXPORTED __attribute__((visibility("default")))

static const CUpti_CallbackId runtime_launches[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
};

static const CUpti_CallbackId driver_launches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};

static const CUpti_CallbackId ranges[] = {
    CUPTI_CBID_NVTX_nvtxRangePushA,
    CUPTI_CBID_NVTX_nvtxRangePushW,
    CUPTI_CBID_NVTX_nvtxRangePushEx,
    CUPTI_CBID_NVTX_nvtxRangePop,
    CUPTI_CBID_NVTX_nvtxDomainRangePushEx,
    CUPTI_CBID_NVTX_nvtxDomainRangePop,
    CUPTI_CBID_NVTX_nvtxDomainRegisterStringA,
};

/* The one watch of this process: CUPTI's buffers and the end of the process know of no other way to find it. A forked
 * child has a copy in which nothing works, the writer's thread among them: it is not the owner. */
static struct {
    struct mt_record_request request;
    CUpti_SubscriberHandle subscriber;
    pthread_mutex_t lock;         /* held by whoever tells the account */
    struct mt_number_map strings; /* registered with NVTX: handle to a copy's address */
    pthread_key_t thread_key;     /* whose destructor is told that a thread ends */
    struct mt_pool_functions pools;
    _Atomic(struct mt_process_run *) run; /* NULL: not begun, or over */
    _Atomic bool is_over;                 /* nothing more is told: the process exits, is a child, or has no trace */
    struct mt_process_run *ended;         /* which is never freed */
    uint64_t lost_records;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct mt_listening_thread this_thread;
static _Thread_local bool is_known_thread; /* to the key */

/* ---- the run ---- */

/* The driver's name and size of a device, asked of the driver that has loaded us. */
static void describe_device(int device, char *name, uint64_t *out_bytes)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CUresult (*get_name)(char *, int, CUdevice) = NULL;
    CUresult (*get_bytes)(size_t *, CUdevice) = NULL;
    size_t bytes = 0;
    snprintf(name, NAME_BYTES, "CUDA device %d", device);
    if (driver != NULL) {
        *(void **)&get_name = dlsym(driver, "cuDeviceGetName");
        *(void **)&get_bytes = dlsym(driver, "cuDeviceTotalMem_v2");
    }
    if (get_name != NULL)
        get_name(name, NAME_BYTES, device);
    if (get_bytes != NULL)
        get_bytes(&bytes, device);
    *out_bytes = bytes;
}

static void find_pool_functions(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == NULL)
        return;
    *(void **)&watch.pools.of_device = dlsym(driver, "cuDeviceGetMemPool");
    *(void **)&watch.pools.attribute = dlsym(driver, "cuMemPoolGetAttribute");
}

/* Under the lock. A trace that can't be had is asked for once. */
static void begin_run(int device)
{
    char name[NAME_BYTES];
    struct mt_process_card card = {.name = name};
    struct mt_process_run *run;
    if (watch.run != NULL || watch.is_over)
        return;
    describe_device(device, name, &card.capacity_bytes);
    find_pool_functions();
    if (mt_process_run_open(&watch.request, &card, mt_kernel_name_spell, &run) == MT_OK)
        watch.run = run;
    else
        watch.is_over = true;
}

/* ---- threads ---- */

static void forget_thread(void *thread)
{
    if (watch.is_over)
        return;
    pthread_mutex_lock(&watch.lock);
    if (watch.run != NULL)
        mt_account_forget_thread(mt_process_run_account(watch.run), &((struct mt_listening_thread *)thread)->account);
    pthread_mutex_unlock(&watch.lock);
}

static struct mt_listening_thread *know_thread(void)
{
    if (!is_known_thread) {
        is_known_thread = true;
        this_thread.pools = &watch.pools;
        pthread_setspecific(watch.thread_key, &this_thread);
    }
    return &this_thread;
}

/* ---- callbacks ---- */

static void hear_memory(const struct mt_listened_call *call, const CUpti_CallbackData *data)
{
    struct mt_listening_thread *thread = know_thread();
    pthread_mutex_lock(&watch.lock);
    begin_run(mt_device_of_context(data->context));
    struct mt_process_run *run = watch.run;
    if (run != NULL)
        mt_call_heard(mt_process_run_account(run), thread, call, data, mt_process_run_now_ns(run));
    pthread_mutex_unlock(&watch.lock);
}

/* In every launch: without the lock, but where the thread's range has changed. */
static void hear_launch(const CUpti_CallbackData *data)
{
    struct mt_process_run *run = atomic_load_explicit(&watch.run, memory_order_acquire);
    if (data->callbackSite != CUPTI_API_ENTER || run == NULL)
        return;
    struct mt_listening_thread *thread = know_thread();
    if (mt_account_launch_changed(&thread->account)) {
        pthread_mutex_lock(&watch.lock);
        if (watch.run != NULL)
            mt_account_launch_label(mt_process_run_account(run), &thread->account);
        pthread_mutex_unlock(&watch.lock);
    }
    mt_account_launch(mt_process_run_account(run), data->correlationId, thread->account.launch_label);
}

static void hear_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
    const struct mt_listened_call *call = mt_listened_call_find(domain, id);
    if (call != NULL)
        hear_memory(call, data);
    else
        hear_launch(data);
}

static void hear_context(CUpti_CallbackId id, const CUpti_ResourceData *data)
{
    uint32_t context = 0;
    pthread_mutex_lock(&watch.lock);
    if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED)
        begin_run(mt_device_of_context(data->context));
    struct mt_process_run *run = watch.run;
    if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && run != NULL &&
        cuptiGetContextId(data->context, &context) == CUPTI_SUCCESS)
        mt_account_end_context(mt_process_run_account(run), mt_process_run_now_ns(run), context);
    pthread_mutex_unlock(&watch.lock);
}

static const char *find_string(uint64_t handle)
{
    uint64_t copy;
    return mt_number_map_get(&watch.strings, handle, &copy) ? (const char *)copy : NULL;
}

static void keep_string(const CUpti_NvtxData *data)
{
    const nvtxDomainRegisterStringA_params *given = data->functionParams;
    const nvtxStringHandle_t *handle = data->functionReturnValue;
    if (handle != NULL && given->string != NULL)
        mt_number_map_put(&watch.strings, (uint64_t)*handle, (uint64_t)mt_host_strdup(given->string));
}

/* Ranges that begin before the first context are spans, too: the trace is opened for them. */
static void hear_range(CUpti_CallbackId id, const CUpti_NvtxData *data)
{
    char text[MT_RANGE_NAME_BYTES];
    struct mt_listening_thread *thread = know_thread();
    pthread_mutex_lock(&watch.lock);
    if (id == CUPTI_CBID_NVTX_nvtxDomainRegisterStringA) {
        keep_string(data);
    } else {
        begin_run(0);
        struct mt_process_run *run = watch.run;
        if (run != NULL && (id == CUPTI_CBID_NVTX_nvtxRangePop || id == CUPTI_CBID_NVTX_nvtxDomainRangePop))
            mt_account_leave(mt_process_run_account(run), &thread->account, mt_process_run_now_ns(run));
        else if (run != NULL)
            mt_account_enter(mt_process_run_account(run), &thread->account, mt_process_run_now_ns(run),
                             mt_range_name(id, data, find_string, text));
    }
    pthread_mutex_unlock(&watch.lock);
}

static void CUPTIAPI on_callback(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    (void)context;
    if (atomic_load_explicit(&watch.is_over, memory_order_relaxed))
        return;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API)
        hear_call(domain, id, data);
    else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
        hear_context(id, data);
    else if (domain == CUPTI_CB_DOMAIN_NVTX)
        hear_range(id, data);
}

/* ---- buffers of records ---- */

static void CUPTIAPI on_buffer_requested(uint8_t **out_buffer, size_t *out_bytes, size_t *out_most_records)
{
    *out_buffer = aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *out_bytes = *out_buffer != NULL ? BUFFER_BYTES : 0;
    *out_most_records = 0; /* as many as fit */
}

static void tell_kernel(struct mt_account *account, const CUpti_ActivityKernel10 *kernel)
{
    if (kernel->start == 0 || kernel->end < kernel->start) {
        watch.lost_records++;
        return;
    }
    const struct mt_kernel_run ran = {.start_ns = kernel->start,
                                      .end_ns = kernel->end,
                                      .name = kernel->name,
                                      .launch = kernel->correlationId,
                                      .stream = kernel->streamId};
    mt_account_ran(account, &ran);
}

static void tell_record(struct mt_process_run *run, const CUpti_Activity *record)
{
    struct mt_account *account = mt_process_run_account(run);
    struct mt_memory_record memory;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
        tell_kernel(account, (const CUpti_ActivityKernel10 *)record);
    else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2 &&
             mt_memory_recorded((const CUpti_ActivityMemory4 *)record, mt_process_run_now_ns(run), &memory))
        mt_account_record(account, &memory);
}

/* What is to be added to CUPTI's times to make them the run's: from the sample that took the shortest time. */
static int64_t find_shift(const struct mt_process_run *run)
{
    uint64_t shortest_ns = UINT64_MAX;
    int64_t shift_ns = 0;
    for (int i = 0; i < CLOCK_SAMPLES; i++) {
        uint64_t theirs = 0, before = mt_process_run_now_ns(run);
        if (cuptiGetTimestamp(&theirs) != CUPTI_SUCCESS)
            break;
        uint64_t took_ns = mt_process_run_now_ns(run) - before;
        if (took_ns >= shortest_ns)
            continue;
        shortest_ns = took_ns;
        shift_ns = (int64_t)(before + took_ns / 2 - theirs);
    }
    return shift_ns;
}

static void tell_buffer(struct mt_process_run *run, uint8_t *buffer, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
        tell_record(run, record);
    mt_account_tell_kernels(mt_process_run_account(run), find_shift(run));
}

/* Called by CUPTI, from any thread, with a buffer that it has filled. */
static void CUPTIAPI on_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                         size_t valid_bytes)
{
    size_t dropped = 0;
    (void)bytes;
    pthread_mutex_lock(&watch.lock);
    if (watch.run != NULL && valid_bytes > 0)
        tell_buffer(watch.run, buffer, valid_bytes);
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
        watch.lost_records += dropped;
    pthread_mutex_unlock(&watch.lock);
    free(buffer);
}

/* ---- beginning and end ---- */

/* The account itself stays: another thread may just be telling it of a launch. */
static void on_exit_of_process(int code, void *owner)
{
    if (watch.is_over || getpid() != (pid_t)(intptr_t)owner)
        return;
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    pthread_mutex_lock(&watch.lock);
    watch.is_over = true;
    struct mt_process_run *run = watch.ended = atomic_exchange(&watch.run, NULL);
    uint64_t lost = watch.lost_records;
    pthread_mutex_unlock(&watch.lock);
    if (run != NULL)
        mt_process_run_close(run, code, lost);
}

static void in_child(void)
{
    watch.is_over = true;
}

/* Adds CUPTI's words to what fails. */
static bool succeeds(CUptiResult result, const char *call, struct mt_text *why)
{
    const char *words = NULL;
    if (result == CUPTI_SUCCESS)
        return true;
    if (cuptiGetResultString(result, &words) != CUPTI_SUCCESS || words == NULL)
        words = "unknown error";
    mt_text_add(why, "%s: %s (%d)", call, words, (int)result);
    return false;
}

static bool listen(CUpti_CallbackDomain domain, const CUpti_CallbackId *ids, size_t count, struct mt_text *why)
{
    for (size_t i = 0; i < count; i++)
        if (!succeeds(cuptiEnableCallback(1, watch.subscriber, domain, ids[i]), "cuptiEnableCallback", why))
            return false;
    return true;
}

#define LISTEN(domain, ids, why) listen(domain, ids, sizeof ids / sizeof ids[0], why)

static bool listen_to_memory(struct mt_text *why)
{
    static const CUpti_CallbackId contexts[] = {CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
                                                CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING};
    size_t count;
    const struct mt_listened_call *calls = mt_listened_calls(&count);
    for (size_t i = 0; i < count; i++)
        if (!listen(calls[i].domain, &calls[i].id, 1, why))
            return false;
    return LISTEN(CUPTI_CB_DOMAIN_RESOURCE, contexts, why) && LISTEN(CUPTI_CB_DOMAIN_NVTX, ranges, why) &&
           succeeds(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2), "cuptiActivityEnable", why);
}

static bool listen_to_kernels(struct mt_text *why)
{
    return LISTEN(CUPTI_CB_DOMAIN_RUNTIME_API, runtime_launches, why) &&
           LISTEN(CUPTI_CB_DOMAIN_DRIVER_API, driver_launches, why) &&
           succeeds(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable", why);
}

static bool subscribe(struct mt_text *why)
{
    char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
    CUpti_SubscriberParams params = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                     .subscriberName = "memtrace",
                                     .oldSubscriberName = other,
                                     .oldSubscriberSize = CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN};
    CUptiResult result = cuptiSubscribe_v2(&watch.subscriber, on_callback, NULL, &params);
    if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return succeeds(result, "cuptiSubscribe_v2", why);
    mt_text_add(why, "CUPTI is in use by %s", other[0] != '\0' ? other : "another tool");
    return false;
}

/* Its buffers for times would otherwise be device memory, which the program should have for itself. Where the host's
 * can't be used the default stays. */
static void prefer_host_memory(void)
{
    uint8_t pinned = 1;
    size_t bytes = sizeof pinned;
    cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, &bytes, &pinned);
}

static bool begin_watch(struct mt_text *why)
{
    const char *refusal = mt_inject_refusal();
    if (refusal != NULL) {
        mt_text_add(why, "%s", refusal);
        return false;
    }
    mt_number_map_create(&watch.strings);
    if (pthread_key_create(&watch.thread_key, forget_thread) != 0 || pthread_atfork(NULL, NULL, in_child) != 0 ||
        on_exit(on_exit_of_process, (void *)(intptr_t)getpid()) != 0) {
        mt_text_add(why, "the process has no room for another library");
        return false;
    }
    if (!subscribe(why))
        return false;
    prefer_host_memory();
    return succeeds(cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed),
                    "cuptiActivityRegisterCallbacks", why) &&
           listen_to_memory(why);
}

/* Called by the driver as it starts. 1: we are here. */
EXPORTED int InitializeInjection(void);
EXPORTED int InitializeInjection(void)
{
    struct mt_text why = {0};
    if (!mt_record_request_take(&watch.request) || watch.subscriber != NULL)
        return 1;
    if (!begin_watch(&why)) {
        watch.is_over = true;
        mt_text_add(&why, "; this process is not recorded");
    } else {
        cuptiActivityFlushPeriod(
            FLUSH_PERIOD_MS); /* a process that is killed leaves what it did until a second before */
        if (watch.request.watches_kernels && !listen_to_kernels(&why))
            mt_text_add(&why, "; this process is recorded without its kernels");
    }
    if (why.length > 0)
        mt_process_note(&watch.request, why.data);
    mt_text_release(&why);
    return 1;
}

EXPORTED const char *mt_inject_refusal(void)
{
    static char words[NAME_BYTES];
    uint32_t version = 0;
    if (cuptiGetVersion(&version) == CUPTI_SUCCESS && version == CUPTI_API_VERSION)
        return NULL;
    snprintf(words, sizeof words, "CUPTI is of version %u, and this was built with %u", version, CUPTI_API_VERSION);
    return words;
}

/* Called by NVTX when a program first uses it: CUPTI's own function of this name, of the very CUPTI that is listened
 * with. */
EXPORTED int InitializeInjectionNvtx2(void *get_export_table);
EXPORTED int InitializeInjectionNvtx2(void *get_export_table)
{
    Dl_info where;
    int (*theirs)(void *) = NULL;
    void *library =
        dladdr((void *)cuptiGetVersion, &where) != 0 ? dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (library != NULL)
        *(void **)&theirs = dlsym(library, "InitializeInjectionNvtx2");
    return theirs != NULL ? theirs(get_export_table) : 0;
}
