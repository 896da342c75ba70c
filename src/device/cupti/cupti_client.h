/* Listening to CUPTI: becoming its one subscriber, callbacks at launches, buffers for its records, the kernels in them,
 * and its clock.
 *
 *   launch ──callback: its number──▶ listener        buffers.take ──▶ CUPTI fills ──▶ listener reads ──▶ buffers.give
 *
 * There are two listeners, in two libraries that are never both in a process: cupti_watch.c listens to our own kernels,
 * and producers/cuda/cupti/inject.c to another program's. All state belongs to the listener. */
#pragma once

#include "base/lock.h"
#include "base/status.h"
#include "device/kernel_log.h"

#include <cupti.h>

/* Fails with MT_FAILED, the name of the call and CUPTI's message, unless the result is a success. */
mt_status mt_cupti_check(CUptiResult result, const char *call);

/* Fails with MT_FAILED if CUPTI is of another version than this was built with: its records would be read wrongly. */
mt_status mt_cupti_check_version(void);

/* Becomes the one subscriber of the process. Fails with MT_FAILED if another tool is, which the message names if CUPTI
 * knows it; *out is NULL then. */
mt_status mt_cupti_subscribe(CUpti_CallbackFunc callback, void *context, CUpti_SubscriberHandle *out);

/* Turns on the callbacks of these functions of a domain. Those of a whole domain would slow down every call of the
 * program. One call at a time for a subscriber. */
mt_status mt_cupti_listen(CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                          const CUpti_CallbackId *functions, size_t count);

/* Turns on the callbacks of the functions that launch a kernel. Libraries launch through the runtime or through the
 * driver. If one call is inside the other, both call back, with the same number. */
mt_status mt_cupti_listen_to_launches(CUpti_SubscriberHandle subscriber);

/* ---- buffers ---- */

enum { MT_CUPTI_MOST_SPARE = 8 };

/* Buffers for CUPTI's records. They are handed out zeroed, since CUPTI would otherwise zero them in the middle of some
 * call of the program. The thread that gives one back zeroes it, usually CUPTI's own, and it is kept for the next
 * request. Made with MT_CUPTI_BUFFERS and never released: CUPTI has some until the process ends. Any thread. Invariant:
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

/* The size of some 5,000 kernels: a program that only launches fills several a second. */
enum { MT_CUPTI_KERNEL_BUFFER_BYTES = 1 << 20 };

/* Take a buffer for CUPTI and give it back. Without memory it is NULL and of 0 bytes: CUPTI then drops records and
 * counts them. */
void mt_cupti_buffers_take(struct mt_cupti_buffers *buffers, uint8_t **out_buffer, size_t *out_bytes);
void mt_cupti_buffers_give(struct mt_cupti_buffers *buffers, uint8_t *buffer);

/* Registers the callbacks that give CUPTI its buffers and take them back. Called before the first kind of record is
 * enabled. */
mt_status mt_cupti_register(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);

/* The content of a record. */
typedef enum mt_cupti_kernel {
    MT_CUPTI_NO_KERNEL,     /* not about a kernel */
    MT_CUPTI_KERNEL_RAN,    /* the run of a kernel */
    MT_CUPTI_KERNEL_UNTIMED /* the run of a kernel for whose times CUPTI had no room */
} mt_cupti_kernel;

/* Reads a record, and sets *out if a kernel ran. CUPTI owns its name. */
mt_cupti_kernel mt_cupti_kernel_read(const CUpti_Activity *record, struct mt_kernel_run *out);

/* Returns the C++ declaration of a linker's name, or NULL if it is none of C++. The caller frees it. */
char *mt_kernel_name_spell(const char *name);

/* Sets the difference that turns CUPTI's times into times of `now_ns`, as exactly as reading both clocks takes time. */
mt_status mt_cupti_find_shift(uint64_t (*now_ns)(const void *clock), const void *clock, int64_t *out_shift_ns);
