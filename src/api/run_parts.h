/* What the files of this folder share of a run: its parts, and how a label of a caller becomes one of ours. */
#ifndef MT_API_RUN_PARTS_H
#define MT_API_RUN_PARTS_H

#include "alloc/alloc.h"
#include "api/joint_sink.h"
#include "base/number_map.h"
#include "trace/store/foreign.h"
#include "trace/store/recorder.h"

#include <memtrace.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* The places that one thread is in, innermost last. The run owns them all, so that it can end before its threads do;
 * those of a thread that ended are the next one's. */
struct mt_api_thread {
    struct memtrace_run *run;
    struct mt_api_thread *next;
    struct mt_api_place {
        mt_span_id span;
        int layer; /* of the innermost span that is one; -1: of none */
    } * places;
    size_t depth;
    bool is_idle; /* its thread ended */
};

/* Locks are taken in this order: the allocator's own or notes_lock, then joint.lock. */
struct memtrace_run {
    struct mt_recorder *recorder;
    struct mt_joint_sink joint;
    struct mt_device *device; /* NULL: notes only; then alloc is NULL, too */
    struct mt_alloc *alloc;

    struct mt_lock blocks_lock;
    struct mt_number_map blocks; /* that are out: from address to struct mt_block * */

    struct mt_lock notes_lock;
    struct mt_foreign *notes; /* also of steps, phases and spans */

    pid_t process; /* that opened it */
    struct mt_lock threads_lock;
    struct mt_api_thread *threads;
    pthread_key_t thread_key; /* struct mt_api_thread * */
    atomic_int phase;         /* mt_phase */
};

enum { MT_API_ALLOCATOR, MT_API_NOTES }; /* the sources of joint */

static inline const struct mt_sink *mt_api_sink(const struct memtrace_run *run)
{
    return &run->joint.sources[MT_API_NOTES].sink;
}

static inline uint64_t mt_api_now_ns(const struct memtrace_run *run)
{
    return mt_joint_sink_now_ns(&run->joint);
}

static inline memtrace_status mt_api_status(mt_status status)
{
    return (memtrace_status)status;
}

/* The label that a caller means (NULL: one that says nothing) with the thread's place and the run's phase, interned,
 * and that place. MT_USAGE for what can't be one. */
mt_status mt_api_label(struct memtrace_run *run, const memtrace_label *label, mt_label_id *out_label,
                       mt_span_id *out_span);

/* What threads have of a run. */
mt_status mt_api_threads_create(struct memtrace_run *run);
void mt_api_threads_release(struct memtrace_run *run);

/* Structs of a caller, which begin with their size and may be of another version: copies what both know, from one of a
 * caller (the rest 0), or into it. MT_USAGE, naming `what`, if it says no size. */
mt_status mt_api_copy_in(const char *what, const void *given, void *out, size_t out_bytes);
mt_status mt_api_copy_out(const char *what, const void *from, size_t from_bytes, void *out);

#endif
