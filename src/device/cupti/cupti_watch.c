/* The watch of kernels through CUPTI.
 *
 *   tag ─▶ label, step ──(callback at each launch: its number)──▶ log ◀──(buffers of kernel records)── CUPTI
 *                                                                  │
 *   collect ─▶ flush ────────────────────────────────────────────▶ take
 *
 * Every kernel record has the correlation number of the call that launched it. A callback at the entry of each launch
 * logs that number with the current label and step. So neither external correlation nor records of API calls are
 * needed, which would cost two more records per launch. cupti_client.h is shared with `memtrace record`.
 *
 * CUPTI delivers full buffers on its own thread, so a collect waits only for the last one.
 *
 * CUPTI is never finalized: records in flight would be lost, and a callback in flight might crash. */
#include "device/cupti/cupti_watch.h"

#include "base/lock.h"
#include "base/memory.h"
#include "device/cupti/cupti_client.h"
#include "device/kernel_log.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

struct cupti_watch {
    struct mt_kernel_watch watch;
    struct mt_device *device;
    CUpti_SubscriberHandle subscriber;
    struct mt_kernel_log *log;
    _Atomic int64_t step;      /* of future launches */
    _Atomic mt_label_id label; /* of future launches */
    _Atomic uint64_t lost;     /* records that CUPTI dropped, or without times */
};

/* The watch of this process, for CUPTI's buffer callbacks, which get no context. NULL: none. */
static struct cupti_watch *current_watch;
static struct mt_mutex current_lock = MT_MUTEX(MT_RANK_READING); /* guards it, and the log while it is read */
static struct mt_cupti_buffers buffers = MT_CUPTI_BUFFERS(MT_CUPTI_KERNEL_BUFFER_BYTES);

/* Called by CUPTI within every launch. */
static void CUPTIAPI on_launch(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId function, const void *data)
{
    struct cupti_watch *watch = context;
    assert(watch != NULL && watch->log != NULL);
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

static void CUPTIAPI on_buffer_requested(uint8_t **out_buffer, size_t *out_bytes, size_t *out_most_records)
{
    mt_cupti_buffers_take(&buffers, out_buffer, out_bytes);
    *out_most_records = 0; /* no limit */
}

static void log_record(struct cupti_watch *watch, const CUpti_Activity *record)
{
    struct mt_kernel_run run;
    mt_cupti_kernel what = mt_cupti_kernel_read(record, &run);
    if (what == MT_CUPTI_KERNEL_RAN)
        mt_kernel_log_ran(watch->log, &run);
    else if (what == MT_CUPTI_KERNEL_UNTIMED)
        atomic_fetch_add(&watch->lost, 1);
}

/* Called by CUPTI, from any thread, with a full buffer. */
static void CUPTIAPI on_buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                         size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    (void)bytes;
    mt_mutex_take(&current_lock);
    struct cupti_watch *watch = current_watch;
    if (watch != NULL && valid_bytes > 0)
        while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
            log_record(watch, record);
    if (watch != NULL && cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
        atomic_fetch_add(&watch->lost, dropped);
    mt_mutex_give(&current_lock);
    mt_cupti_buffers_give(&buffers, buffer);
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

static uint64_t now_ns(const void *device)
{
    return mt_device_now_ns(device);
}

static mt_status collect(struct mt_kernel_watch *base, void (*take)(void *context, const struct mt_kernel *kernel),
                         void *context)
{
    struct cupti_watch *watch = (struct cupti_watch *)base;
    assert(watch == current_watch); /* only this thread sets current_watch */
    int64_t shift_ns = 0;
    mt_status status = mt_device_synchronize(watch->device);
    MT_THEN(status, mt_cupti_check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll"));
    MT_THEN(status, mt_cupti_find_shift(now_ns, watch->device, &shift_ns));
    mt_mutex_take(&current_lock); /* so that a buffer that CUPTI's thread hands over now is read to its end */
    if (status == MT_OK)
        mt_kernel_log_take(watch->log, shift_ns, take, context);
    mt_mutex_give(&current_lock);
    watch->watch.lost_kernels = atomic_load(&watch->lost);
    return status;
}

/* Stops listening, if started, since CUPTI may belong to another tool. Buffers delivered later are ignored. */
static void end(struct mt_kernel_watch *base)
{
    struct cupti_watch *watch = (struct cupti_watch *)base;
    if (watch->subscriber != NULL) {
        cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
        cuptiUnsubscribe(watch->subscriber);
    }
    mt_mutex_take(&current_lock);
    if (current_watch == watch)
        current_watch = NULL;
    mt_mutex_give(&current_lock);
    mt_kernel_log_destroy(watch->log);
    free(watch);
}

static const struct mt_kernel_watch_table cupti_table = {
    .tag = tag, .tag_step = tag_step, .waiting = waiting, .collect = collect, .end = end};

static mt_status begin(struct cupti_watch *watch)
{
    MT_TRY(mt_cupti_subscribe(on_launch, watch, &watch->subscriber));
    MT_TRY(mt_cupti_register(on_buffer_requested, on_buffer_completed));
    MT_TRY(mt_cupti_listen_to_launches(watch->subscriber));
    return mt_cupti_check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
}

/* Makes `watch` the receiver of CUPTI's buffers. Fails with MT_FAILED if there is another one. */
static mt_status claim(struct cupti_watch *watch)
{
    mt_mutex_take(&current_lock);
    mt_status status = MT_OK;
    if (current_watch != NULL)
        status =
            mt_fail(MT_FAILED, "kernels of %s are being watched in this process already", current_watch->device->name);
    else
        current_watch = watch;
    mt_mutex_give(&current_lock);
    return status;
}

mt_status mt_cupti_watch(struct mt_device *device, struct mt_kernel_watch **out)
{
    MT_TRY(mt_cupti_check_version());
    struct cupti_watch *watch = mt_host_alloc(sizeof *watch);
    watch->watch.table = &cupti_table;
    watch->device = device;
    watch->step = MT_NO_STEP;
    watch->log = mt_kernel_log_create(mt_kernel_name_spell);
    mt_status status = claim(watch);
    MT_THEN(status, begin(watch));
    if (status == MT_OK)
        *out = &watch->watch;
    else
        end(&watch->watch);
    return status;
}
