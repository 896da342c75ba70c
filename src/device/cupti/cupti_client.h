/* What everyone needs who listens to CUPTI: to become its one subscriber, to hear of launches, buffers for its records,
 * the kernels in them, and its clock.
 *
 *   launch ──callback: its number──▶ listener        buffers.take ──▶ CUPTI fills ──▶ listener reads ──▶ buffers.give
 *
 * There are two listeners, each a library of its own and never both in a process: cupti_watch.c of our own kernels, and
 * record/cupti/inject.c of another program. Nothing is kept here; what is, the listener has. */
#ifndef MT_DEVICE_CUPTI_CUPTI_CLIENT_H
#define MT_DEVICE_CUPTI_CUPTI_CLIENT_H

#include "base/status.h"
#include "device/kernel_log.h"

#include <cupti.h>
#include <pthread.h>

/* MT_FAILED with the call's name and CUPTI's words, unless it succeeded. */
mt_status mt_cupti_check(CUptiResult result, const char *call);

/* MT_FAILED if the CUPTI that was found is of another version than this was built with: its records would be read wrongly. */
mt_status mt_cupti_check_version(void);

/* Becomes the subscriber of the process, of which there is one. MT_FAILED if another tool is, by its name where CUPTI knows
 * it; *out is then NULL. */
mt_status mt_cupti_subscribe(CUpti_CallbackFunc callback, void *context, CUpti_SubscriberHandle *out);

/* From now on these functions of a domain call back, and no others than were asked for: a domain as a whole would slow every
 * call of the program down. One at a time for a subscriber. */
mt_status mt_cupti_listen(CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                          const CUpti_CallbackId *functions, size_t count);

/* The functions that launch a kernel. Libraries launch through the runtime or through the driver; where one call is inside
 * the other, both call back and tell the same. */
mt_status mt_cupti_listen_to_launches(CUpti_SubscriberHandle subscriber);

/* ---- buffers ---- */

enum { MT_CUPTI_MOST_SPARE = 8 };

/* Buffers that CUPTI writes records into, each zeroed, which CUPTI would otherwise do in the middle of some call of the
 * program's. What comes back is zeroed by who brings it, CUPTI's own thread as a rule, and kept for the next to ask.
 * Made with MT_CUPTI_BUFFERS, and never released: some are out until the process ends. Any thread. */
struct mt_cupti_buffers {
    pthread_mutex_t lock; /* of what follows */
    size_t bytes;         /* of each */
    uint8_t *spare[MT_CUPTI_MOST_SPARE];
    size_t spare_count;
};
#define MT_CUPTI_BUFFERS(each_bytes)                                                                                   \
    {                                                                                                                  \
        .lock = PTHREAD_MUTEX_INITIALIZER, .bytes = each_bytes                                                         \
    }

/* Some 5,000 kernels: handed over several times a second by a program that does nothing but launch. */
enum { MT_CUPTI_KERNEL_BUFFER_BYTES = 1 << 20 };

/* A buffer as CUPTI asks for it, NULL and 0 bytes if there is no memory: then CUPTI drops records, and counts them. */
void mt_cupti_buffers_take(struct mt_cupti_buffers *buffers, uint8_t **out_buffer, size_t *out_bytes);
void mt_cupti_buffers_give(struct mt_cupti_buffers *buffers, uint8_t *buffer);

/* Has CUPTI take its buffers with `request` and bring them back with `complete`. Before the first kind of record is
 * enabled. */
mt_status mt_cupti_register(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);

/* What a record says of a kernel. */
typedef enum mt_cupti_kernel {
    MT_CUPTI_NO_KERNEL,     /* it speaks of something else */
    MT_CUPTI_KERNEL_RAN,    /* *out is when and where; its name is CUPTI's */
    MT_CUPTI_KERNEL_UNTIMED /* CUPTI had no room for its times */
} mt_cupti_kernel;
mt_cupti_kernel mt_cupti_kernel_read(const CUpti_Activity *record, struct mt_kernel_run *out);

/* What is to be added to CUPTI's times to make them those of `now_ns`, to the time that reading both takes. */
mt_status mt_cupti_find_shift(uint64_t (*now_ns)(const void *clock), const void *clock, int64_t *out_shift_ns);

#endif
