/* The structure of a run, shared by the files of this folder, and the conversion of labels and structs of callers. */
#pragma once

#include "base/lock.h"
#include "run/live_run.h"
#include "run/thread_spans.h"

#include <memtrace.h>
#include <stdatomic.h>

struct memtrace_run {
    struct mt_live_run *live;
    struct mt_device *device; /* NULL: the run has notes only */
    struct mt_alloc *alloc;   /* of `live`; NULL: no device */

    struct mt_thread_spans *spans;
    atomic_int phase; /* mt_phase */

    struct mt_lock layers_lock;
    int *layers; /* by span, for spans returned by memtrace_span */
    size_t layer_count;

    atomic_uint frames, stacks; /* numbers issued so far, from 1 */
};

/* The purpose of a block from a label, in numbers of the sink. */
struct mt_api_purpose {
    mt_label_id label;
    mt_span_id span;
    mt_stack_id stack; /* 0: not given */
};

static inline const struct mt_sink *mt_api_sink(const struct memtrace_run *run)
{
    return mt_live_run_sink(run->live);
}

static inline memtrace_status mt_api_status(mt_status status)
{
    return (memtrace_status)status;
}

/* Like MT_TRY, in public functions. */
#define MT_API_TRY(call)                                                                                               \
    do {                                                                                                               \
        mt_status mt_outcome = (call);                                                                                 \
        if (mt_outcome != MT_OK)                                                                                       \
            return mt_api_status(mt_outcome);                                                                          \
    } while (0)

/* Interns a caller's label (NULL: an empty one). Its span and layer come from the span that it names, or from the
 * thread; its phase is the run's. MT_USAGE for a label with invalid values. */
mt_status mt_api_label(struct memtrace_run *run, const memtrace_label *label, struct mt_api_purpose *out);

/* Returns the innermost span of the calling thread. */
struct mt_place mt_api_place_now(const struct memtrace_run *run);

/* Finds a span by a number that memtrace_span returned. False for other numbers; the second function fails with
 * MT_USAGE. */
bool mt_api_find_span(struct memtrace_run *run, uint32_t number, struct mt_place *out);
mt_status mt_api_fail_span(uint32_t number);

/* Fails with MT_USAGE if the run has no device, and so no allocator. */
mt_status mt_api_check_device(const struct memtrace_run *run);

/* Creates the spans of a run's threads. Fails as mt_thread_spans_create. */
mt_status mt_api_spans_create(struct memtrace_run *run);

/* Copy a struct from or to a caller. Such structs begin with their size and may come from another version: fields that
 * one side lacks are ignored, or 0. MT_USAGE, naming `what`, if the size is invalid. */
mt_status mt_api_copy_in(const char *what, const void *given, void *out, size_t out_bytes);
mt_status mt_api_copy_out(const char *what, const void *from, size_t from_bytes, void *out);
