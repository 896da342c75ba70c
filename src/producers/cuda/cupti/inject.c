/* libmemtrace_inject.so. CUDA's driver loads it into the programs that `memtrace record` starts
 * (CUDA_INJECTION64_PATH), and NVTX loads it before that if they use it (NVTX_INJECTION64_PATH). It becomes CUPTI's
 * subscriber, opens the trace when the process creates its first context, and closes it when the process exits.
 *
 * It never stops the program, prints nothing, and leaves signals alone. If it can't record something,
 * it answers so to `memtrace record`. If it can record nothing, it leaves CUPTI to others. */
#include "base/lock.h"
#include "base/memory.h"
#include "device/cupti/cupti_client.h"
#include "producers/cuda/cupti/cuda_calls.h"
#include "producers/cuda/cupti/nvtx_ranges.h"
#include "producers/cuda/cupti/torch_beside.h"
#include "producers/cuda/process_run.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLUSH_PERIOD_MS = 1000 };

/* Activity records of memory are few and should arrive soon: 250 of them fill a buffer. */
enum { MEMORY_BUFFER_BYTES = 32 << 10 };

#define EXPORTED __attribute__((visibility("default")))

/* The one watch of this process. It is global because CUPTI's buffers and the exit of the process come without a
 * context. A forked child has a copy that does nothing: not even the writer's thread exists there. */
static struct {
    struct mt_record_request request;
    CUpti_SubscriberHandle subscriber;
    struct mt_mutex lock; /* held for every call about the account */
    struct mt_range_strings strings;
    pthread_key_t thread_key;             /* its destructor runs at the end of a thread */
    struct mt_pool_functions pools;       /* valid once there is a run */
    struct mt_mutex pool_lock;            /* held from asking about a pool to reporting it */
    _Atomic(struct mt_process_run *) run; /* NULL: not begun, or over */
    _Atomic bool is_over;                 /* nothing more is reported: the process exits, is a child, or has no trace */
    _Atomic bool lets_go;                 /* there is no trace, so CUPTI is released at the end of the next call */
    struct mt_torch_beside beside;        /* valid if has_beside */
    _Atomic bool has_beside;              /* another library has the run, and is told of memory */
    struct mt_process_run *ended;         /* never freed, since another thread may still report a launch to it */

    struct mt_cupti_buffers buffers;
    struct mt_mutex reading_lock; /* held while a buffer is read; `lock` is taken for each record of it */
    _Atomic uint64_t lost_records;

    struct mt_mutex launch_lock; /* guards the rest */
    bool has_ranges;             /* the program uses NVTX */
    bool watches_kernels, listens_to_launches;
} watch = {.lock = MT_MUTEX(MT_RANK_WATCH),
           .pool_lock = MT_MUTEX(MT_RANK_POOL_QUESTION),
           .buffers = MT_CUPTI_BUFFERS(MEMORY_BUFFER_BYTES),
           .reading_lock = MT_MUTEX(MT_RANK_READING),
           .launch_lock = MT_MUTEX(MT_RANK_LEAF)};

static _Thread_local struct mt_listening_thread this_thread;
static _Thread_local bool is_known_thread; /* the key has it */

/* ---- the run ---- */

/* Opens the run, once. The lock is held. */
static void open_run(const struct mt_process_card *card)
{
    struct mt_process_run *run;
    assert(watch.request.trace != NULL);
    if (watch.run != NULL || watch.is_over)
        return;
    mt_driver_find_pools(&watch.pools);
    if (mt_process_run_open(&watch.request, card, mt_kernel_name_spell, &run) == MT_OK)
        watch.run = run;
    else
        watch.is_over = watch.lets_go = true;
}

/* Opens the run if it is not open. `context` may be NULL. The lock must not be held, since this asks the driver, which
 * may hold a lock of its own while a callback in another thread waits for ours. */
static void begin_run(CUcontext context)
{
    char name[MT_DRIVER_NAME_BYTES];
    struct mt_process_card card = {.name = name};
    if (watch.run != NULL || watch.is_over || watch.has_beside)
        return;
    if (!watch.request.watches_kernels && mt_torch_beside_find(&watch.beside)) {
        watch.has_beside = true;
        return;
    }
    mt_driver_describe(mt_device_of_context(context), name, &card.capacity_bytes);
    mt_mutex_take(&watch.lock);
    open_run(&card);
    mt_mutex_give(&watch.lock);
}

/* ---- threads ---- */

/* Called at the end of the thread, which may still call CUDA: other libraries have destructors, too. */
static void forget_thread(void *thread)
{
    is_known_thread = false;
    if (watch.is_over)
        return;
    mt_mutex_take(&watch.lock);
    struct mt_process_run *run = watch.run;
    if (run != NULL)
        mt_account_forget_thread(mt_process_run_account(run), &((struct mt_listening_thread *)thread)->account,
                                 mt_process_run_now_ns(run));
    mt_mutex_give(&watch.lock);
}

static struct mt_listening_thread *know_thread(void)
{
    if (!is_known_thread) {
        is_known_thread = true;
        pthread_setspecific(watch.thread_key, &this_thread);
    }
    return &this_thread;
}

/* ---- callbacks ---- */

static void report_call(struct mt_listening_thread *thread, const struct mt_listened_call *call,
                        const CUpti_CallbackData *data)
{
    struct mt_call_place place;
    mt_call_ask(&watch.pools, thread, call, data, &place);
    if (watch.has_beside)
        mt_torch_beside_report(&watch.beside, thread, call, data, &place);
    mt_mutex_take(&watch.lock);
    struct mt_process_run *run = watch.run;
    if (run != NULL)
        mt_call_report(mt_process_run_account(run), thread, call, data, &place, mt_process_run_now_ns(run));
    mt_mutex_give(&watch.lock);
}

static void on_memory_call(const struct mt_listened_call *call, const CUpti_CallbackData *data)
{
    struct mt_listening_thread *thread = know_thread();
    bool is_of_pool = mt_call_is_of_pool(call);
    begin_run(data->context);
    if (watch.run == NULL && !watch.has_beside)
        return;
    if (is_of_pool)
        mt_mutex_take(&watch.pool_lock);
    report_call(thread, call, data);
    if (is_of_pool)
        mt_mutex_give(&watch.pool_lock);
}

/* Called in every launch. Takes the lock only if the thread's range has changed. */
static void on_launch(const CUpti_CallbackData *data)
{
    struct mt_process_run *run = atomic_load_explicit(&watch.run, memory_order_acquire);
    if (data->callbackSite != CUPTI_API_ENTER || run == NULL)
        return;
    struct mt_listening_thread *thread = know_thread();
    if (mt_account_launch_changed(&thread->account)) {
        mt_mutex_take(&watch.lock);
        if (watch.run != NULL)
            mt_account_launch_label(mt_process_run_account(run), &thread->account);
        mt_mutex_give(&watch.lock);
    }
    mt_account_launch(mt_process_run_account(run), data->correlationId, thread->account.launch_label);
}

static void on_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData *data)
{
    const struct mt_listened_call *call = mt_listened_call_find(domain, id);
    if (call != NULL)
        on_memory_call(call, data);
    else
        on_launch(data);
}

static void end_context(CUcontext context)
{
    uint32_t number = 0;
    if (cuptiGetContextId(context, &number) != CUPTI_SUCCESS)
        return;
    mt_mutex_take(&watch.lock);
    struct mt_process_run *run = watch.run;
    if (run != NULL)
        mt_account_end_context(mt_process_run_account(run), mt_process_run_now_ns(run), number);
    mt_mutex_give(&watch.lock);
}

static void on_context(CUpti_CallbackId id, const CUpti_ResourceData *data)
{
    if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED)
        begin_run(data->context);
    else if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
        end_context(data->context);
}

/* Opens the trace for ranges that begin before the first context, since they are spans, too. */
static void on_range(CUpti_CallbackId id, const CUpti_NvtxData *data)
{
    struct mt_listening_thread *thread = know_thread();
    if (id != CUPTI_CBID_NVTX_nvtxDomainRegisterStringA)
        begin_run(NULL);
    mt_mutex_take(&watch.lock);
    if (!mt_range_string_keep(&watch.strings, id, data)) {
        struct mt_process_run *run = watch.run;
        if (run != NULL)
            mt_range_report(mt_process_run_account(run), &thread->account, &watch.strings, id, data,
                            mt_process_run_now_ns(run));
    }
    mt_mutex_give(&watch.lock);
}

static bool is_of_call(CUpti_CallbackDomain domain)
{
    return domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API;
}

/* Leaves CUPTI to other tools. */
static void end_watch(void)
{
    watch.is_over = true;
    if (watch.subscriber == NULL)
        return;
    cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2);
    cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityFlushPeriod(0);
    cuptiUnsubscribe(watch.subscriber);
}

/* Leaves CUPTI, if that was decided. Inside a callback this is possible only at the end of a call of the program. */
static void end_watch_after_call(CUpti_CallbackDomain domain, const void *data)
{
    if (is_of_call(domain) && ((const CUpti_CallbackData *)data)->callbackSite == CUPTI_API_EXIT &&
        atomic_exchange(&watch.lets_go, false))
        end_watch();
}

static void CUPTIAPI on_callback(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    (void)context;
    if (mt_host_is_exhausted() && !atomic_exchange(&watch.is_over, true))
        watch.lets_go = true;
    if (atomic_load_explicit(&watch.is_over, memory_order_relaxed))
        end_watch_after_call(domain, data);
    else if (is_of_call(domain))
        on_call(domain, id, data);
    else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
        on_context(id, data);
    else if (domain == CUPTI_CB_DOMAIN_NVTX)
        on_range(id, data);
}

/* ---- buffers of activity records ---- */

static void CUPTIAPI on_buffer_requested(uint8_t **out_buffer, size_t *out_bytes, size_t *out_most_records)
{
    mt_cupti_buffers_take(&watch.buffers, out_buffer, out_bytes);
    *out_most_records = 0; /* as many as fit */
}

/* Takes the lock for one record, so that the program never waits for many. Here and below, the reading lock is held. */
static void report_memory(struct mt_process_run *run, const CUpti_ActivityMemory4 *record)
{
    struct mt_memory_record memory;
    mt_mutex_take(&watch.lock);
    if (watch.run != NULL && mt_memory_recorded(record, mt_process_run_now_ns(run), &memory))
        mt_account_record(mt_process_run_account(run), &memory);
    mt_mutex_give(&watch.lock);
}

static void report_kernel(void *run, const struct mt_kernel *kernel)
{
    mt_mutex_take(&watch.lock);
    if (watch.run != NULL)
        mt_account_kernel(mt_process_run_account(run), kernel);
    mt_mutex_give(&watch.lock);
}

static void read_record(struct mt_process_run *run, const CUpti_Activity *record)
{
    struct mt_kernel_run kernel;
    mt_cupti_kernel what = mt_cupti_kernel_read(record, &kernel);
    if (what == MT_CUPTI_KERNEL_RAN)
        mt_account_ran(mt_process_run_account(run), &kernel);
    else if (what == MT_CUPTI_KERNEL_UNTIMED)
        watch.lost_records++;
    else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2)
        report_memory(run, (const CUpti_ActivityMemory4 *)record);
}

static uint64_t now_ns(const void *run)
{
    return mt_process_run_now_ns(run);
}

static void read_buffer(struct mt_process_run *run, uint8_t *buffer, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    int64_t shift_ns = 0;
    while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
        read_record(run, record);
    if (watch.request.watches_kernels && mt_cupti_find_shift(now_ns, run, &shift_ns) == MT_OK)
        mt_account_take_kernels(mt_process_run_account(run), shift_ns, report_kernel, run);
}

/* Called by CUPTI, from any thread, with a full buffer. */
static void CUPTIAPI on_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                         size_t valid_bytes)
{
    size_t dropped = 0;
    (void)bytes;
    mt_mutex_take(&watch.reading_lock);
    struct mt_process_run *run = watch.run;
    if (run != NULL && valid_bytes > 0 && !mt_host_is_exhausted())
        read_buffer(run, buffer, valid_bytes);
    mt_mutex_give(&watch.reading_lock);
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
        watch.lost_records += dropped;
    mt_cupti_buffers_give(&watch.buffers, buffer);
}

/* ---- beginning and end ---- */

/* Takes both locks, so that a buffer that is being read is read to its end. Returns the run, or NULL. */
static struct mt_process_run *end_run(void)
{
    mt_mutex_take(&watch.reading_lock);
    mt_mutex_take(&watch.lock);
    watch.is_over = true;
    struct mt_process_run *run = atomic_exchange(&watch.run, NULL);
    assert(watch.ended == NULL);
    watch.ended = run;
    mt_mutex_give(&watch.lock);
    mt_mutex_give(&watch.reading_lock);
    return run;
}

static void on_exit_of_process(int code, void *owner)
{
    if (watch.is_over || getpid() != (pid_t)(intptr_t)owner)
        return;
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    struct mt_process_run *run = end_run();
    if (run != NULL)
        mt_process_run_close(run, code, watch.lost_records);
}

static void in_child(void)
{
    struct mt_process_run *run = atomic_exchange(&watch.run, NULL);
    watch.is_over = true;
    watch.lets_go = false;
    if (run != NULL)
        mt_process_run_disown(run);
}

static mt_status listen_to_calls(CUpti_CallbackDomain domain)
{
    for (CUpti_CallbackId id = 0; id < MT_LISTENED_IDS; id++)
        if (mt_listened_call_find(domain, id) != NULL)
            MT_TRY(mt_cupti_listen(watch.subscriber, domain, &id, 1));
    return MT_OK;
}

static mt_status listen_to_contexts_and_ranges(void)
{
    static const CUpti_CallbackId contexts[] = {CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
                                                CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING};
    size_t count;
    const CUpti_CallbackId *ranges = mt_range_functions(&count);
    MT_TRY(mt_cupti_listen(watch.subscriber, CUPTI_CB_DOMAIN_RESOURCE, contexts, sizeof contexts / sizeof contexts[0]));
    return mt_cupti_listen(watch.subscriber, CUPTI_CB_DOMAIN_NVTX, ranges, count);
}

static mt_status listen_to_memory(void)
{
    MT_TRY(listen_to_calls(CUPTI_CB_DOMAIN_DRIVER_API));
    MT_TRY(listen_to_calls(CUPTI_CB_DOMAIN_RUNTIME_API));
    MT_TRY(listen_to_contexts_and_ranges());
    return mt_cupti_check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2), "cuptiActivityEnable");
}

static mt_status listen_to_launches(void)
{
    static const CUpti_CallbackId runtime_graphs[] = {CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
                                                      CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000},
                                  driver_graphs[] = {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
                                                     CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz};
    MT_TRY(mt_cupti_listen_to_launches(watch.subscriber));
    MT_TRY(mt_cupti_listen(watch.subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, runtime_graphs, 2));
    return mt_cupti_listen(watch.subscriber, CUPTI_CB_DOMAIN_DRIVER_API, driver_graphs, 2);
}

/* Sets one of the two conditions for listening to launches: the program uses NVTX, and its kernels are watched. The
 * second one to be set begins to listen. Not before, since a launch has two to four callbacks, which are needed only
 * for its range. CUPTI must not be called under a lock. */
static void set_launch_condition(bool *condition)
{
    if (watch.is_over)
        return;
    mt_mutex_take(&watch.launch_lock);
    *condition = true;
    bool is_time = watch.has_ranges && watch.watches_kernels && !watch.listens_to_launches;
    watch.listens_to_launches |= is_time;
    mt_mutex_give(&watch.launch_lock);
    if (is_time && listen_to_launches() != MT_OK)
        mt_process_note(&watch.request, "kernels are recorded without their ranges");
}

static mt_status watch_kernels(void)
{
    mt_status status =
        mt_cupti_check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
    if (status == MT_OK)
        set_launch_condition(&watch.watches_kernels);
    return status;
}

static mt_status join_process(void)
{
    mt_range_strings_create(&watch.strings);
    if (pthread_key_create(&watch.thread_key, forget_thread) != 0 || pthread_atfork(NULL, NULL, in_child) != 0 ||
        on_exit(on_exit_of_process, (void *)(intptr_t)getpid()) != 0)
        return mt_fail(MT_FAILED, "the process has no room for another library");
    return MT_OK;
}

static mt_status begin_watch(void)
{
    MT_TRY(mt_cupti_check_version());
    MT_TRY(join_process());
    MT_TRY(mt_cupti_subscribe(on_callback, NULL, &watch.subscriber));
    MT_TRY(mt_cupti_register(on_buffer_requested, on_buffer_completed));
    return listen_to_memory();
}

/* Called by the driver as it starts. Returns 1, which means that the library was loaded. CUPTI flushes its buffers
 * every second, since a process that is killed leaves only what was flushed. */
EXPORTED int InitializeInjection(void);
EXPORTED int InitializeInjection(void)
{
    if (watch.subscriber != NULL || watch.is_over || !mt_record_request_take(&watch.request))
        return 1;
    if (watch.request.watches_kernels)
        watch.buffers.bytes = MT_CUPTI_KERNEL_BUFFER_BYTES;
    if (begin_watch() != MT_OK) {
        end_watch();
        mt_process_note(&watch.request, mt_torch_beside_find(&watch.beside)
                                            ? "memory outside of PyTorch's allocator is not recorded"
                                            : "this process is not recorded");
        return 1;
    }
    cuptiActivityFlushPeriod(FLUSH_PERIOD_MS);
    if (watch.request.watches_kernels && watch_kernels() != MT_OK)
        mt_process_note(&watch.request, "this process is recorded without its kernels");
    return 1;
}

EXPORTED const char *mt_inject_refusal(void)
{
    return mt_cupti_check_version() == MT_OK ? NULL : mt_last_error();
}

/* Called by NVTX when a library of the program first uses it. Calls CUPTI's own function of this name, in the CUPTI
 * that we listen with. No call of CUDA or CUPTI is under way here, so this is the place to begin to listen to
 * launches. */
EXPORTED int InitializeInjectionNvtx2(void *get_export_table);
EXPORTED int InitializeInjectionNvtx2(void *get_export_table)
{
    Dl_info where;
    int (*initialize)(void *) = NULL;
    void *library =
        dladdr((void *)cuptiGetVersion, &where) != 0 ? dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (library != NULL)
        *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
    set_launch_condition(&watch.has_ranges);
    return initialize != NULL ? initialize(get_export_table) : 0;
}
