/* Listening to CUPTI: subscribing, callbacks at launches, buffers for its records, reading kernels, and its clock.
 *
 *   launch ──callback: its number──▶ listener        buffers.take ──▶ CUPTI fills ──▶ listener reads ──▶ buffers.give
 *
 * There are two listeners, in two libraries that are never in the same process: cupti_watch.c for memtrace's own
 * kernels, and producers/cuda/cupti/inject.c for another program's. All state belongs to the listener. */
#pragma once

#include "base/lock.h"
#include "base/status.h"
#include "device/kernel_log.h"

#include <cupti.h>

/* Unless the result is a success, fails with MT_FAILED, the call's name and CUPTI's message. */
mt_status mt_cupti_check(CUptiResult result, const char *call);

/* Fails with MT_FAILED if CUPTI has another version than at build time, since its records could have another layout. */
mt_status mt_cupti_check_version(void);

/* Becomes the only subscriber of the process. Fails with MT_FAILED if another tool is subscribed, which the message
 * names if CUPTI knows it; then *out is NULL. */
mt_status mt_cupti_subscribe(CUpti_CallbackFunc callback, void *context, CUpti_SubscriberHandle *out);

/* Enables callbacks for these functions of a domain. Callbacks for a whole domain would slow down every call of the
 * program. One call at a time per subscriber. */
mt_status mt_cupti_listen(CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                          const CUpti_CallbackId *functions, size_t count);

/* Enables callbacks for the functions that launch a kernel. Libraries launch through the runtime or the driver. If one
 * call is inside the other, both call back, with the same number. */
mt_status mt_cupti_listen_to_launches(CUpti_SubscriberHandle subscriber);

/* ---- buffers ---- */

enum { MT_CUPTI_MOST_SPARE = 8 };

/* Buffers for CUPTI's records. They are zeroed in advance, since CUPTI would otherwise zero them during some call of
 * the program. The thread that returns a buffer zeroes it, usually CUPTI's own, and it is kept for the next request.
 * Initialize with MT_CUPTI_BUFFERS; never released, since CUPTI has some until the process ends. Any thread. Invariant:
 * spare_count <= MT_CUPTI_MOST_SPARE. */
struct mt_cupti_buffers {
    struct mt_mutex lock; /* guards the rest */
    size_t bytes;         /* of each */
    uint8_t *spare[MT_CUPTI_MOST_SPARE];
    size_t spare_count;
};
#define MT_CUPTI_BUFFERS(each_bytes)                                                                                   \
    {                                                                                                                  \
        .lock = MT_MUTEX(MT_RANK_LEAF), .bytes = each_bytes                                                            \
    }

/* Room for about 5,000 kernels: a program that only launches fills several buffers per second. */
enum { MT_CUPTI_KERNEL_BUFFER_BYTES = 1 << 20 };

/* Allocate a buffer for CUPTI and return it. Without memory, the buffer is NULL with 0 bytes: then CUPTI drops records
 * and counts them. */
void mt_cupti_buffers_take(struct mt_cupti_buffers *buffers, uint8_t **out_buffer, size_t *out_bytes);
void mt_cupti_buffers_give(struct mt_cupti_buffers *buffers, uint8_t *buffer);

/* Registers the callbacks that provide CUPTI's buffers and take them back. Call it before the first kind of record is
 * enabled. */
mt_status mt_cupti_register(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);

/* The content of a record. */
typedef enum mt_cupti_kernel {
    MT_CUPTI_NO_KERNEL,     /* not a kernel */
    MT_CUPTI_KERNEL_RAN,    /* the run of a kernel */
    MT_CUPTI_KERNEL_UNTIMED /* the run of a kernel whose times CUPTI did not record */
} mt_cupti_kernel;

/* Reads a record, and sets *out if it is a kernel's run. CUPTI owns the name. */
mt_cupti_kernel mt_cupti_kernel_read(const CUpti_Activity *record, struct mt_kernel_run *out);

/* Returns the demangled name, or NULL if it is not a mangled C++ name. The caller frees it. */
char *mt_kernel_name_spell(const char *name);

/* Finds the offset from CUPTI's times to times of `now_ns`. Its error is at most the time to read both clocks. */
mt_status mt_cupti_find_shift(uint64_t (*now_ns)(const void *clock), const void *clock, int64_t *out_shift_ns);
