/* Kernel activity through CUPTI.
 *
 *   tag ─▶ label, step ──(callback at each launch: its number)──▶ log ◀──(buffers of kernel records)── CUPTI
 *                                                                  │
 *   collect ─▶ flush ────────────────────────────────────────────▶ take
 *
 * Every kernel record carries the correlation number of the call that launched it. A callback at the entry of each
 * launch learns that number and notes the label and the step that hold: so neither external correlation nor the records of API
 * calls are needed, which would cost two more records a launch. Libraries launch through the runtime or the driver; both
 * are listened to, and where one call is inside the other they tell the same.
 *
 * CUPTI hands buffers over on a thread of its own as they fill, so a collect has only the last to wait for.
 *
 * CUPTI is never finalized: what is in flight then would be lost, or worse. */
#include "device/cupti/cupti_watch.h"

#include "base/memory.h"
#include "device/cupti/kernel_name.h"
#include "device/kernel_log.h"

#include <cupti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 4 << 20, BUFFER_ALIGNMENT = 8, CLOCK_SAMPLES = 16 };

static const CUpti_CallbackId runtime_launches[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
};

static const CUpti_CallbackId driver_launches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
};

struct cupti_watch {
    struct mt_kernel_watch watch;
    struct mt_device *device;
    CUpti_SubscriberHandle subscriber;
    struct mt_kernel_log *log;
    _Atomic int64_t step;      /* of the launches from now on */
    _Atomic mt_label_id label; /* and theirs */
    _Atomic uint64_t lost;     /* records that CUPTI had to drop, or that have no times */
};

/* The watch of this process, for CUPTI's buffer callbacks, which are told nothing else; NULL: none. */
static struct cupti_watch *current_watch;
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER; /* held by whoever looks at it */

/* MT_FAILED with CUPTI's words, unless it succeeded. */
static mt_status check(CUptiResult result, const char *call)
{
    const char *words = NULL;
    if (result == CUPTI_SUCCESS)
        return MT_OK;
    if (cuptiGetResultString(result, &words) != CUPTI_SUCCESS || words == NULL)
        words = "unknown error";
    return mt_fail(MT_FAILED, "%s: %s (%d)", call, words, (int)result);
}

/* Called by CUPTI within every launch. */
static void CUPTIAPI on_launch(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId function, const void *data)
{
    struct cupti_watch *watch = context;
    const CUpti_CallbackData *call = data;
    (void)domain;
    (void)function;
    if (call->callbackSite != CUPTI_API_ENTER)
        return;
    const struct mt_kernel_launch launch = {.step = atomic_load_explicit(&watch->step, memory_order_relaxed),
                                            .label = atomic_load_explicit(&watch->label, memory_order_relaxed),
                                            .number = call->correlationId};
    mt_kernel_log_launch(watch->log, &launch);
}

/* Called by CUPTI, which has no way to be refused but a NULL. */
static void CUPTIAPI on_buffer_requested(uint8_t **out_buffer, size_t *out_bytes, size_t *out_most_records)
{
    *out_buffer = aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *out_bytes = *out_buffer != NULL ? BUFFER_BYTES : 0;
    *out_most_records = 0; /* as many as fit */
}

static void log_record(struct cupti_watch *watch, const CUpti_Activity *record)
{
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && record->kind != CUPTI_ACTIVITY_KIND_KERNEL)
        return;
    const CUpti_ActivityKernel10 *kernel = (const CUpti_ActivityKernel10 *)record;
    if (kernel->start == 0 || kernel->end < kernel->start) {
        atomic_fetch_add(&watch->lost, 1);
        return;
    }
    const struct mt_kernel_run run = {.start_ns = kernel->start,
                                      .end_ns = kernel->end,
                                      .name = kernel->name,
                                      .launch = kernel->correlationId,
                                      .stream = kernel->streamId};
    mt_kernel_log_ran(watch->log, &run);
}

/* Called by CUPTI, from any thread, with a buffer that it has filled. */
static void CUPTIAPI on_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                         size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    (void)bytes;
    pthread_mutex_lock(&current_lock);
    struct cupti_watch *watch = current_watch;
    if (watch != NULL && valid_bytes > 0)
        while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
            log_record(watch, record);
    if (watch != NULL && cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
        atomic_fetch_add(&watch->lost, dropped);
    pthread_mutex_unlock(&current_lock);
    free(buffer);
}

static void tag(struct mt_kernel_watch *base, mt_label_id label)
{
    struct cupti_watch *watch = (struct cupti_watch *)base;
    atomic_store_explicit(&watch->label, label, memory_order_relaxed);
}

static void tag_step(struct mt_kernel_watch *base, int64_t step)
{
    struct cupti_watch *watch = (struct cupti_watch *)base;
    atomic_store_explicit(&watch->step, step, memory_order_relaxed);
}

static uint64_t waiting(struct mt_kernel_watch *base)
{
    return mt_kernel_log_waiting(((struct cupti_watch *)base)->log);
}

/* What is to be added to CUPTI's times to make them the device's: from the sample that took the shortest time. */
static mt_status find_shift(const struct cupti_watch *watch, int64_t *out_shift_ns)
{
    uint64_t shortest_ns = UINT64_MAX;
    for (int i = 0; i < CLOCK_SAMPLES; i++) {
        uint64_t theirs = 0, before = mt_device_now_ns(watch->device);
        mt_status status = check(cuptiGetTimestamp(&theirs), "cuptiGetTimestamp");
        uint64_t after = mt_device_now_ns(watch->device);
        if (status != MT_OK)
            return status;
        if (after - before >= shortest_ns)
            continue;
        shortest_ns = after - before;
        *out_shift_ns = (int64_t)(before + shortest_ns / 2 - theirs);
    }
    return MT_OK;
}

static mt_status collect(struct mt_kernel_watch *base, void (*take)(void *context, const struct mt_kernel *kernel),
                         void *context)
{
    struct cupti_watch *watch = (struct cupti_watch *)base;
    int64_t shift_ns = 0;
    mt_status status = mt_device_synchronize(watch->device);
    if (status == MT_OK)
        status = check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    if (status == MT_OK)
        status = find_shift(watch, &shift_ns);
    if (status == MT_OK)
        mt_kernel_log_take(watch->log, shift_ns, take, context);
    watch->watch.lost_kernels = atomic_load(&watch->lost);
    return status;
}

/* Stops listening, where it has begun: CUPTI may be another tool's. Buffers that are still out come back to nobody. */
static void end(struct mt_kernel_watch *base)
{
    struct cupti_watch *watch = (struct cupti_watch *)base;
    if (watch->subscriber != NULL) {
        cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
        cuptiUnsubscribe(watch->subscriber);
    }
    pthread_mutex_lock(&current_lock);
    if (current_watch == watch)
        current_watch = NULL;
    pthread_mutex_unlock(&current_lock);
    mt_kernel_log_destroy(watch->log);
    free(watch);
}

static const struct mt_kernel_watch_table cupti_table = {
    .tag = tag, .tag_step = tag_step, .waiting = waiting, .collect = collect, .end = end};

static mt_status check_version(void)
{
    uint32_t version = 0;
    mt_status status = check(cuptiGetVersion(&version), "cuptiGetVersion");
    if (status == MT_OK && version != CUPTI_API_VERSION)
        return mt_fail(MT_FAILED, "CUPTI is of version %u, and this was built with %u", version, CUPTI_API_VERSION);
    return status;
}

/* There is one subscriber a process. */
static mt_status subscribe(struct cupti_watch *watch)
{
    char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
    CUpti_SubscriberParams params = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                     .subscriberName = "memtrace",
                                     .oldSubscriberName = other,
                                     .oldSubscriberSize = CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN};
    CUptiResult result = cuptiSubscribe_v2(&watch->subscriber, on_launch, watch, &params);
    if (result == CUPTI_SUCCESS)
        return MT_OK;
    watch->subscriber = NULL;
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return mt_fail(MT_FAILED, "CUPTI is in use by %s", other[0] != '\0' ? other : "another tool");
    return check(result, "cuptiSubscribe_v2");
}

static mt_status listen(struct cupti_watch *watch, CUpti_CallbackDomain domain, const CUpti_CallbackId *functions,
                        size_t count)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = check(cuptiEnableCallback(1, watch->subscriber, domain, functions[i]), "cuptiEnableCallback");
    return status;
}

/* Its buffers for times would otherwise be device memory, which a run should have for itself. Where the host's can't be
 * used the default stays. */
static void prefer_host_memory(void)
{
    uint8_t pinned = 1;
    size_t bytes = sizeof pinned;
    cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, &bytes, &pinned);
}

static mt_status begin(struct cupti_watch *watch)
{
    mt_status status = subscribe(watch);
    if (status != MT_OK)
        return status;
    prefer_host_memory();
    status = check(cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed),
                   "cuptiActivityRegisterCallbacks");
    if (status == MT_OK)
        status = listen(watch, CUPTI_CB_DOMAIN_RUNTIME_API, runtime_launches,
                        sizeof runtime_launches / sizeof runtime_launches[0]);
    if (status == MT_OK)
        status = listen(watch, CUPTI_CB_DOMAIN_DRIVER_API, driver_launches,
                        sizeof driver_launches / sizeof driver_launches[0]);
    if (status == MT_OK)
        status = check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
    return status;
}

/* Makes `watch` the one that CUPTI's buffers go to, if there is none. */
static mt_status claim(struct cupti_watch *watch)
{
    pthread_mutex_lock(&current_lock);
    mt_status status = MT_OK;
    if (current_watch != NULL)
        status =
            mt_fail(MT_FAILED, "kernels of %s are being watched in this process already", current_watch->device->name);
    else
        current_watch = watch;
    pthread_mutex_unlock(&current_lock);
    return status;
}

mt_status mt_cupti_watch(struct mt_device *device, struct mt_kernel_watch **out)
{
    mt_status status = check_version();
    if (status != MT_OK)
        return status;
    struct cupti_watch *watch = mt_host_alloc(sizeof *watch);
    watch->watch.table = &cupti_table;
    watch->device = device;
    watch->step = MT_NO_STEP;
    watch->log = mt_kernel_log_create(mt_kernel_name_spell);
    status = claim(watch);
    if (status == MT_OK)
        status = begin(watch);
    if (status == MT_OK)
        *out = &watch->watch;
    else
        end(&watch->watch);
    return status;
}
