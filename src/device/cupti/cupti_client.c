#include "device/cupti/cupti_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_SAMPLES = 16 };

/* ---- subscribing ---- */

mt_status mt_cupti_check(CUptiResult result, const char *call)
{
    const char *words = NULL;
    if (result == CUPTI_SUCCESS)
        return MT_OK;
    if (cuptiGetResultString(result, &words) != CUPTI_SUCCESS || words == NULL)
        words = "unknown error";
    return mt_fail(MT_FAILED, "%s: %s (%d)", call, words, (int)result);
}

mt_status mt_cupti_check_version(void)
{
    uint32_t version = 0;
    mt_status status = mt_cupti_check(cuptiGetVersion(&version), "cuptiGetVersion");
    if (status == MT_OK && version != CUPTI_API_VERSION)
        return mt_fail(MT_FAILED, "CUPTI is of version %u, and this was built with %u", version, CUPTI_API_VERSION);
    return status;
}

mt_status mt_cupti_subscribe(CUpti_CallbackFunc callback, void *context, CUpti_SubscriberHandle *out)
{
    char other[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
    CUpti_SubscriberParams params = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                     .subscriberName = "memtrace",
                                     .oldSubscriberName = other,
                                     .oldSubscriberSize = CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN};
    CUptiResult result = cuptiSubscribe_v2(out, callback, context, &params);
    if (result == CUPTI_SUCCESS)
        return MT_OK;
    *out = NULL;
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return mt_fail(MT_FAILED, "CUPTI is in use by %s", other[0] != '\0' ? other : "another tool");
    return mt_cupti_check(result, "cuptiSubscribe_v2");
}

/* ---- callbacks ---- */

mt_status mt_cupti_listen(CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                          const CUpti_CallbackId *functions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        MT_TRY(mt_cupti_check(cuptiEnableCallback(1, subscriber, domain, functions[i]), "cuptiEnableCallback"));
    return MT_OK;
}

mt_status mt_cupti_listen_to_launches(CUpti_SubscriberHandle subscriber)
{
    static const CUpti_CallbackId runtime[] = {
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
        CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
        CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
    };
    static const CUpti_CallbackId driver[] = {
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    };
    MT_TRY(mt_cupti_listen(subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, runtime, sizeof runtime / sizeof runtime[0]));
    return mt_cupti_listen(subscriber, CUPTI_CB_DOMAIN_DRIVER_API, driver, sizeof driver / sizeof driver[0]);
}

/* ---- buffers ---- */

/* calloc aligns to 16 bytes, and records need 8. */
void mt_cupti_buffers_take(struct mt_cupti_buffers *buffers, uint8_t **out_buffer, size_t *out_bytes)
{
    uint8_t *buffer = NULL;
    mt_mutex_take(&buffers->lock);
    if (buffers->spare_count > 0)
        buffer = buffers->spare[--buffers->spare_count];
    mt_mutex_give(&buffers->lock);
    *out_buffer = buffer != NULL ? buffer : calloc(1, buffers->bytes);
    *out_bytes = *out_buffer != NULL ? buffers->bytes : 0;
}

void mt_cupti_buffers_give(struct mt_cupti_buffers *buffers, uint8_t *buffer)
{
    if (buffer == NULL)
        return;
    memset(buffer, 0, buffers->bytes);
    mt_mutex_take(&buffers->lock);
    assert(buffers->spare_count <= MT_CUPTI_MOST_SPARE);
    bool has_room = buffers->spare_count < MT_CUPTI_MOST_SPARE;
    if (has_room)
        buffers->spare[buffers->spare_count++] = buffer;
    mt_mutex_give(&buffers->lock);
    if (!has_room)
        free(buffer);
}

/* Enables an attribute. If CUPTI does not support it, its default remains, which is slower or uses card memory, but
 * correct. */
static void prefer(CUpti_ActivityAttribute attribute)
{
    uint8_t yes = 1;
    size_t bytes = sizeof yes;
    cuptiActivitySetAttribute(attribute, &bytes, &yes);
}

/* CUPTI's own timestamp buffers would use device memory, which belongs to the program, so they are placed in host
 * memory. */
mt_status mt_cupti_register(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete)
{
    prefer(CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED);
    prefer(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
    return mt_cupti_check(cuptiActivityRegisterCallbacks(request, complete), "cuptiActivityRegisterCallbacks");
}

/* ---- records ---- */

mt_cupti_kernel mt_cupti_kernel_read(const CUpti_Activity *record, struct mt_kernel_run *out)
{
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && record->kind != CUPTI_ACTIVITY_KIND_KERNEL)
        return MT_CUPTI_NO_KERNEL;
    const CUpti_ActivityKernel10 *kernel = (const CUpti_ActivityKernel10 *)record;
    if (kernel->start == 0 || kernel->end < kernel->start)
        return MT_CUPTI_KERNEL_UNTIMED;
    *out = (struct mt_kernel_run){.start_ns = kernel->start,
                                  .end_ns = kernel->end,
                                  .name = kernel->name,
                                  .launch = kernel->correlationId,
                                  .stream = kernel->streamId};
    return MT_CUPTI_KERNEL_RAN;
}

/* Uses the sample that took the shortest time. */
mt_status mt_cupti_find_shift(uint64_t (*now_ns)(const void *clock), const void *clock, int64_t *out_shift_ns)
{
    uint64_t shortest_ns = UINT64_MAX;
    for (int i = 0; i < CLOCK_SAMPLES; i++) {
        uint64_t theirs = 0, before = now_ns(clock);
        mt_status status = mt_cupti_check(cuptiGetTimestamp(&theirs), "cuptiGetTimestamp");
        uint64_t took_ns = now_ns(clock) - before;
        assert(took_ns <= INT64_MAX); /* the clock never decreases */
        if (status != MT_OK)
            return status;
        if (took_ns >= shortest_ns)
            continue;
        shortest_ns = took_ns;
        *out_shift_ns = (int64_t)(before + took_ns / 2 - theirs);
    }
    return MT_OK;
}
