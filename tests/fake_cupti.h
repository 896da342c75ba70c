/* A fake CUPTI without a card. The program that includes this defines CUPTI's functions itself, so the linker takes
 * these. It calls back only the functions that were turned on, keeps records until they are flushed, and hands them
 * over in buffers of a few. */
#pragma once

#include <cupti.h>
#include <generated_nvtx_meta.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_MOST_RECORDS = 4096, FAKE_RECORD_BYTES = sizeof(CUpti_ActivityKernel10), FAKE_MOST_IDS = 1024 };
enum { FAKE_DOMAINS = CUPTI_CB_DOMAIN_SIZE, FAKE_RECORDS_A_BUFFER = 7 };

static struct {
    /* Set by a test. */
    uint32_t version;
    const char *user; /* the tool that uses CUPTI; NULL: none */
    bool refuses_callbacks, refuses_kernels;
    uint64_t now_ns;
    size_t dropped;               /* records, since that was last asked */
    void (*on_next_record)(void); /* called while a buffer is read; may be NULL */

    /* Set by calls of the code under test. */
    CUpti_CallbackFunc callback;
    void *context;
    bool hears[FAKE_DOMAINS][FAKE_MOST_IDS];
    bool is_subscribed, is_pinned, is_zeroed;
    bool records_memory, records_kernels;
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    size_t dirty_buffers; /* handed in without being zeroed, although that was promised */
    size_t buffers;       /* that were asked for */

    char records[FAKE_MOST_RECORDS][FAKE_RECORD_BYTES];
    size_t record_count;
} fake_cupti = {.version = CUPTI_API_VERSION};

CUptiResult cuptiGetVersion(uint32_t *version)
{
    *version = fake_cupti.version;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    (void)result;
    *text = "as the test says";
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *context,
                              CUpti_SubscriberParams *params)
{
    if (fake_cupti.user != NULL) {
        strncpy(params->oldSubscriberName, fake_cupti.user, params->oldSubscriberSize);
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    *subscriber = (CUpti_SubscriberHandle)&fake_cupti;
    fake_cupti.callback = callback;
    fake_cupti.context = context;
    fake_cupti.is_subscribed = true;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    fake_cupti.is_subscribed = subscriber != (CUpti_SubscriberHandle)&fake_cupti;
    memset(fake_cupti.hears, 0, sizeof fake_cupti.hears);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                CUpti_CallbackId function)
{
    if (subscriber != (CUpti_SubscriberHandle)&fake_cupti || (int)domain >= FAKE_DOMAINS || function >= FAKE_MOST_IDS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (fake_cupti.refuses_callbacks)
        return CUPTI_ERROR_NOT_SUPPORTED;
    fake_cupti.hears[domain][function] = enable == 1;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
    bool is_set = *bytes == 1 && *(const uint8_t *)value == 1;
    if (attribute == CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED)
        fake_cupti.is_pinned = is_set;
    if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
        fake_cupti.is_zeroed = is_set;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    fake_cupti.request = request;
    fake_cupti.complete = complete;
    return CUPTI_SUCCESS;
}

static CUptiResult fake_cupti_record(CUpti_ActivityKind kind, bool whether)
{
    if (kind == CUPTI_ACTIVITY_KIND_MEMORY2)
        fake_cupti.records_memory = whether;
    else if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && !fake_cupti.refuses_kernels)
        fake_cupti.records_kernels = whether;
    else
        return CUPTI_ERROR_NOT_SUPPORTED;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    return fake_cupti_record(kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    return fake_cupti_record(kind, false);
}

CUptiResult cuptiActivityFlushPeriod(uint32_t time)
{
    (void)time;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
    uint8_t *next = *record == NULL ? buffer : (uint8_t *)*record + FAKE_RECORD_BYTES;
    if (fake_cupti.on_next_record != NULL)
        fake_cupti.on_next_record();
    if (next + FAKE_RECORD_BYTES > buffer + valid_bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    *dropped = fake_cupti.dropped;
    fake_cupti.dropped = 0;
    return CUPTI_SUCCESS;
}

static bool fake_cupti_is_zero(const uint8_t *buffer, size_t bytes)
{
    size_t zeros = 0;
    while (zeros < bytes && buffer[zeros] == 0)
        zeros++;
    return zeros == bytes;
}

/* Hands over some of the records, or none, in one buffer. */
static void fake_cupti_hand_over(const void *records, size_t bytes)
{
    uint8_t *buffer = NULL;
    size_t capacity = 0, most = 1;
    fake_cupti.request(&buffer, &capacity, &most);
    fake_cupti.buffers++;
    if (buffer == NULL || capacity < bytes || most != 0 || (uintptr_t)buffer % 8 != 0)
        abort(); /* CUPTI reports no such error either */
    if (fake_cupti.is_zeroed && !fake_cupti_is_zero(buffer, capacity))
        fake_cupti.dirty_buffers++;
    memcpy(buffer, records, bytes);
    fake_cupti.complete(NULL, 0, buffer, capacity, bytes);
}

CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
    size_t done = 0;
    (void)flags;
    while (done < fake_cupti.record_count) {
        size_t left = fake_cupti.record_count - done;
        size_t some = left < FAKE_RECORDS_A_BUFFER ? left : FAKE_RECORDS_A_BUFFER;
        fake_cupti_hand_over(fake_cupti.records[done], some * FAKE_RECORD_BYTES);
        done += some;
    }
    fake_cupti.record_count = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    *timestamp = fake_cupti.now_ns;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *device)
{
    (void)context;
    *device = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
    (void)context;
    *id = 1;
    return CUPTI_SUCCESS;
}

/* ---- events that a test causes ---- */

/* Calls back, if that is turned on. */
static inline void fake_cupti_call_back(CUpti_CallbackDomain domain, CUpti_CallbackId function, const void *data)
{
    if (fake_cupti.is_subscribed && fake_cupti.hears[domain][function])
        fake_cupti.callback(fake_cupti.context, domain, function, data);
}

/* Keeps a record for the next flush, if its kind is recorded. Drops it if there are too many. */
static inline void fake_cupti_remember(bool is_recorded, const void *record, size_t bytes)
{
    if (!is_recorded)
        return;
    if (fake_cupti.record_count < FAKE_MOST_RECORDS)
        memcpy(fake_cupti.records[fake_cupti.record_count++], record, bytes);
    else
        fake_cupti.dropped++;
}

/* Runs a kernel that the call of this number launched. */
static inline void fake_cupti_ran(uint32_t number, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    const CUpti_ActivityKernel10 record = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           .start = start_ns,
                                           .end = end_ns,
                                           .correlationId = number,
                                           .streamId = 7,
                                           .name = name};
    fake_cupti_remember(fake_cupti.records_kernels, &record, sizeof record);
}
