/* The cells of the attention study, each a run of one trace, on a device that all share. */
#ifndef MT_STUDY_ATTENTION_SESSION_H
#define MT_STUDY_ATTENTION_SESSION_H

#include "alloc/alloc.h"
#include "study/attention_grid.h"

struct mt_recorder;

/* Where cells run and go. Texts are borrowed. The trace is opened for the first cell and stays open until the session is
 * closed: to open it for each would wait for the disk a dozen times a cell. */
struct mt_attention_session {
    struct mt_device *device; /* open */
    struct mt_alloc_settings alloc;
    const char *trace;            /* NULL: not traced */
    const char *name;             /* what the names of the runs begin with */
    struct mt_recorder *recorder; /* NULL: before the first cell */
    bool is_untraceable;          /* a cell failed because the trace can't be written */
};

/* What came of a cell. Memory is without the workspaces of matrix products, but for the bytes that are said to be theirs.
 * Invariants: kept.is_known if it is_done; peaks are 0 and times NAN unless it is; oom_bytes is 0 if it is. */
struct mt_attention_result {
    int64_t run; /* its number in the trace; 0: not traced */
    bool is_done;
    struct mt_attention_kept kept;
    uint64_t peak_requested_bytes, peak_allocated_bytes, workspace_bytes;
    double forward_ms, backward_ms; /* medians, by the device's clock */
    uint64_t oom_bytes;             /* out of memory: what was asked for, for what, and when */
    mt_category oom_category;
    mt_phase oom_phase;
};

/* Runs a case. Running out of device memory is a result; any other failure is returned. */
mt_status mt_attention_session_run(struct mt_attention_session *session, const struct mt_attention_case *study,
                                   struct mt_attention_result *out);

/* Leaves the trace in order. The device stays open. */
mt_status mt_attention_session_close(struct mt_attention_session *session);

/* The longest sequence that a run can have, and the step in which longest ones are looked for. */
enum { MT_STUDY_LONGEST = 1 << 24, MT_STUDY_LENGTH_STEP = 256 };

/* The shortest sequence at which terms of size T² are more than half of what is kept, by formula; -1: there is none. */
int64_t mt_attention_square_from(const struct mt_attention_case *study);

/* Sets *out to the longest sequence, in steps of MT_STUDY_LENGTH_STEP, whose forward and backward fit into so many bytes,
 * each length that was tried being simulated; 0: not even the shortest. That a longer one does not fit where a shorter one
 * did not is relied on. */
mt_status mt_attention_longest(const struct mt_attention_case *study, const struct mt_alloc_settings *alloc,
                               uint64_t capacity_bytes, int64_t *out);

#endif
