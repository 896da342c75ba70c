/* A trace, opened to be questioned. Each question has a file in query/ and answers with typed rows.
 *
 * What a trace says was written by whoever made it: text may hold anything, categories need not be ours.
 *
 * Ownership: an opened trace belongs to the caller. All text in its answers is borrowed from it and valid until it is
 * closed, except where a visitor is given a row: that is valid during the call. Arrays belong to the caller: free().
 * Failures: MT_BAD_TRACE for a file that is none or is damaged, MT_USAGE for runs and steps that there are not.
 * Threads: one at a time. No answer about one run reads another's rows. */
#ifndef MT_TRACE_TRACE_H
#define MT_TRACE_TRACE_H

#include "base/status.h"
#include "base/types.h"
#include "trace/store/trace_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_trace;

/* Opens the trace at `path`, made whole if its last writer was killed (store.h). */
mt_status mt_trace_open(const char *path, struct mt_trace **out);
void mt_trace_close(struct mt_trace *trace); /* may be NULL */

/* Returns a copy of `text` that is valid until the trace is closed; "" for NULL. Equal texts of one trace, those of its
 * answers included, have equal pointers. */
const char *mt_trace_keep(struct mt_trace *trace, const char *text);

/* A run, as of the opening. Its events are first_event <= id < first_event + event_count; none of these ids is above the
 * highest in the trace, nor above MT_LAST_POSSIBLE_EVENT, and there are no more of them than the file has room for: so
 * what has room for every event is no larger than a few times the file. */
struct mt_run {
    int64_t id;       /* from 1 */
    const char *name; /* NULL: none */
    const char *state, *started_at, *device;
    uint64_t capacity_bytes;
    int64_t first_event, event_count, lost_events;
    int64_t complete_from_bytes; /* summary_allocation holds every allocation of at least this size */
    int64_t stall_count, stall_ns;
    int64_t steps;          /* that were begun */
    int64_t last_full_step; /* the last one that was ended; -1: none */
};

/* Whether the run stands so. Its state may be none of ours, where others wrote the trace. */
bool mt_run_is(const struct mt_run *run, mt_run_state state);

/* All runs, oldest first; borrowed until the trace is closed. */
const struct mt_run *mt_trace_runs(const struct mt_trace *trace, size_t *out_count);

/* The run of that number or, where it is no number of a run, the newest of that name; NULL: the newest of all. MT_USAGE
 * with the list of runs if there is none. */
mt_status mt_trace_find_run(const struct mt_trace *trace, const char *which, const struct mt_run **out);

/* The part of a peak that one category had. */
struct mt_peak_share {
    const char *category;
    uint64_t allocated_bytes, requested_bytes, blocks;
};

/* A peak, when it was reached first, and what was live there, largest share first.
 * Invariants: of measure allocated, the shares' allocated_bytes sum to bytes; of requested, their requested_bytes; of
 * reserved, bytes - the sum of their allocated_bytes = cached_bytes. */
struct mt_peak_row {
    uint64_t bytes;
    uint64_t cached_bytes; /* measure reserved: segments' bytes that no block held */
    int64_t event;         /* event.id */
    int64_t step;          /* what lies between two counts with the earlier one; -1: before the first */
    uint64_t time_ns;      /* the device's clock, from the start of the run */
    const char *phase, *span;
    size_t share_count;
    struct mt_peak_share *shares;
};

enum { MT_ALL_STEPS = -2 };

/* MT_USAGE, with how many there are, if the run has no step of that number; MT_ALL_STEPS and -1 (what precedes the first)
 * are there always. */
mt_status mt_run_check_step(const struct mt_run *run, int64_t step);

/* Zero bytes and no shares for a run that allocated nothing. Release in any case. Reads summaries, no events but one. */
mt_status mt_trace_peak(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, struct mt_peak_row *out);
/* The same of one step, or of what precedes the first (-1); of all of them (MT_ALL_STEPS) it is mt_trace_peak. MT_USAGE
 * if there is no such step. */
mt_status mt_trace_step_peak(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                             struct mt_peak_row *out);
void mt_peak_row_release(struct mt_peak_row *peak);

/* Blocks of a size, or one block. */
struct mt_top_row {
    uint64_t bytes; /* requested */
    uint64_t count; /* of the run's allocations, or of the blocks live at the peak, that are alike but for the layer */
    const char *category, *op, *phase, *role, *dtype, *shape;
    const char *span; /* "*" for the layer's number where several layers are merged */
    int64_t event;    /* of the first of them */
    int64_t step;     /* of that event; -1: before the first */
};

typedef enum mt_top_grouping { MT_TOP_MERGED, MT_TOP_EACH } mt_top_grouping;
typedef enum mt_top_moment { MT_TOP_WHOLE_RUN, MT_TOP_AT_PEAK } mt_top_moment;

/* The `limit` largest rows, by size, then count, then first event. Merged rows of the whole run come from the summary;
 * at the peak (of allocated bytes) from the checkpoint before it. *out_complete is false if smaller allocations than the
 * last row's were made that the summary no longer tells apart. */
mt_status mt_trace_top(struct mt_trace *trace, const struct mt_run *run, mt_top_grouping grouping, mt_top_moment moment,
                       size_t limit, struct mt_top_row **out_rows, size_t *out_count, bool *out_complete);

/* Allocations of one category. */
struct mt_category_row {
    const char *category;
    uint64_t max_bytes;   /* the largest one, over the run; requested */
    uint64_t per_step;    /* how many in the last full step */
    uint64_t total_bytes; /* of all, over the run; requested */
};

/* The table of categories, largest maximum first. `phase` NULL is the usual cut, in which each category is counted in
 * the phase that it belongs to: activations in forward and loss, Gradient in backward, Opt State and Optimizer in
 * optimizer and, where that updates, backward, Param in init, Data in forward, all others anywhere. Otherwise what was
 * allocated in that phase. */
mt_status mt_trace_categories(struct mt_trace *trace, const struct mt_run *run, const char *phase,
                              struct mt_category_row **out_rows, size_t *out_count);

/* An allocation or a free. */
struct mt_event_row {
    int64_t n;          /* from 0, in the order of the answer */
    const char *action; /* alloc, free */
    int64_t id; /* of the allocation: its event's position in the run, from 0; a free has its alloc's, -1 if that is
                         * not known */
    uint64_t time_ns; /* the device's clock, from the start of the run */
    uint64_t bytes;   /* requested */
    uint64_t block_bytes;
    mt_stream stream;
    const char *category, *role, *op, *phase, *span; /* of the block, so phase is when it was allocated */
};

/* Told row by row, after `begin`, which is called once it is known that the question makes sense. A failure that one of
 * them returns ends the query with it. */
struct mt_event_visitor {
    void *context;
    mt_status (*begin)(void *context);
    mt_status (*visit)(void *context, const struct mt_event_row *row);
};

/* Allocations and frees in order: of the run (MT_ALL_STEPS) or of one step. MT_USAGE if there is no such step. */
mt_status mt_trace_events(struct mt_trace *trace, const struct mt_run *run, int64_t step,
                          const struct mt_event_visitor *visitor);

/* How a run was configured, and what it measured. */
struct mt_setting_row {
    const char *name, *value;
};
struct mt_measurement_row {
    const char *name;
    int64_t step; /* -1: of no step */
    double value; /* NAN: not computed */
};
mt_status mt_trace_settings(struct mt_trace *trace, const struct mt_run *run, struct mt_setting_row **out_rows,
                            size_t *out_count);
/* The value of the setting of that name, "" if there is none. */
const char *mt_setting_find(const struct mt_setting_row *rows, size_t count, const char *name);
mt_status mt_trace_measurements(struct mt_trace *trace, const struct mt_run *run, const char *name,
                                struct mt_measurement_row **out_rows, size_t *out_count);

/* What the driver said that this process held, and what it was for. Signed, since figures of several sources may
 * disagree.
 * Invariant: requested + rounding + cached + context + libraries + unexplained = used, all in bytes. */
struct mt_used_row {
    int64_t step;      /* at whose end it was read; -1: before the first */
    int64_t requested; /* by the live blocks, as asked */
    int64_t rounding;  /* of those blocks: what they got beyond that */
    int64_t cached;    /* segments' bytes that no block held */
    int64_t context;   /* CUDA's context and modules */
    int64_t libraries; /* what they took for themselves */
    int64_t unexplained;
    int64_t used;        /* the driver's figure for the process */
    int64_t free, total; /* of the card; -1: not known */
};

/* The last reading of a run. MT_USAGE if it has none: its device had no driver to ask. */
mt_status mt_trace_used(struct mt_trace *trace, const struct mt_run *run, struct mt_used_row *out);

/* What was timed of a step. */
#define MT_TIMED_PARTS(X)                                                                                              \
    X(FORWARD, "forward", "phase_ms:forward")                                                                          \
    X(LOSS, "loss", "phase_ms:loss")                                                                                   \
    X(BACKWARD, "backward", "phase_ms:backward")                                                                       \
    X(OPTIMIZER, "optimizer", "phase_ms:optimizer")                                                                    \
    X(STEP, "step", "step_ms")
typedef enum mt_timed_part {
#define X(name, text, measurement) MT_TIMED_##name,
    MT_TIMED_PARTS(X)
#undef X
        MT_TIMED_PART_COUNT
} mt_timed_part;
const char *mt_timed_part_name(mt_timed_part part);

/* Of the measured steps, in milliseconds; NAN where there is none, and the deviation of fewer than two. */
struct mt_time_statistics {
    int64_t count;
    double mean, deviation; /* of a sample: divided by count - 1 */
    double median, minimum, maximum;
};

/* How long the steps of a run took that were no warm-up. Texts are settings, "" where there is none. */
struct mt_steps_row {
    const char *model, *batch, *seq, *mode, *precision; /* precision: fp32, tf32, bf16 autocast, or "" */
    int64_t warmup;
    struct mt_time_statistics part[MT_TIMED_PART_COUNT];
    int64_t oom_bytes; /* of a run that ended out of memory: what was asked for last; otherwise -1 */
    const char *oom_category, *oom_phase, *oom_span;
};
mt_status mt_trace_steps(struct mt_trace *trace, const struct mt_run *run, struct mt_steps_row *out);

/* Kernels of one name that ran in one phase, over the steps that count. */
struct mt_kernel_row {
    const char *name; /* in full */
    const char *op;   /* that most of their time belongs to; "": none */
    bool is_product;  /* launched by matrix products: ops that end in .matmul */
    uint64_t count, total_ns;
};

/* What ran in one phase. Invariants: the rows' total_ns and count sum to total_ns and count, those that are products to
 * product_ns. */
struct mt_kernel_phase {
    const char *phase; /* "": of kernels that no op launched */
    uint64_t count, total_ns, product_ns;
    struct mt_kernel_row *rows; /* most time first */
    size_t row_count;
};

/* The kernels of a run. Steps that count are the full ones after the warm-up, or all full ones if there are no others.
 * Attention: the forward pass's softmax, and its two products (scores and context) without the projections. */
struct mt_kernels {
    uint64_t recorded; /* of the whole run; 0: they were not watched */
    uint64_t lost;     /* of the whole run: ran without a record */
    uint64_t steps;    /* that count */
    uint64_t warmup;   /* full steps that do not */
    uint64_t count, total_ns, product_ns;
    uint64_t named_ns; /* of total_ns, what an op launched */
    uint64_t softmax_ns, attention_product_ns;
    struct mt_kernel_phase *phases; /* in the order of a step */
    size_t phase_count;
};

/* The kernel with the most time of a phase that is no product; NULL: there is none. */
const struct mt_kernel_row *mt_kernel_phase_top_other(const struct mt_kernel_phase *phase);

/* The measurement that says how many there are of which no record came; of no step. */
#define MT_LOST_KERNELS "lost_kernels"

/* Reads every kernel of the run once. Release in any case. */
mt_status mt_trace_kernels(struct mt_trace *trace, const struct mt_run *run, struct mt_kernels *out);
void mt_kernels_release(struct mt_kernels *kernels);

/* A value of a query in SQL. */
typedef enum mt_sql_type { MT_SQL_NULL, MT_SQL_INTEGER, MT_SQL_REAL, MT_SQL_TEXT, MT_SQL_BLOB } mt_sql_type;
struct mt_sql_value {
    mt_sql_type type;
    int64_t integer;
    double real;
    const char *text; /* of a blob, its digits: "x'0a1b'" */
};
struct mt_sql_visitor { /* as mt_event_visitor */
    void *context;
    mt_status (*begin)(void *context, size_t columns, const char *const *names);
    mt_status (*visit)(void *context, size_t columns, const struct mt_sql_value *values);
};

/* One statement that only reads. Whatever would write, attach or change a setting is MT_USAGE, as is text that is no SQL.
 * The parameter :run, where the text has it, is the number of `run`; `run` may be NULL. */
mt_status mt_trace_sql(struct mt_trace *trace, const struct mt_run *run, const char *sql,
                       const struct mt_sql_visitor *visitor);

#endif
