/* A trace, opened for queries. Each query returns typed rows.
 *
 * A trace may be anybody's: text may hold anything, categories need not be ours.
 *
 * Ownership: an opened trace belongs to the caller. All text in its answers is borrowed from it and valid until it is
 * closed; text in a row that is handed to a visitor is valid during the call. Arrays belong to the caller, who frees
 * them; they are NULL after a failure.
 * Failures: MT_BAD_TRACE for a file that is no trace or is damaged, MT_USAGE for runs and steps that do not exist.
 * Threads: one at a time. A query of one run reads no rows of another. */
#pragma once

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

/* A run, as of the opening. Its events are first_event <= id < first_event + event_count. None of these ids is above
 * the highest in the trace, nor above MT_LAST_POSSIBLE_EVENT, and there are no more than the file has room for. So an
 * array with an element for each event is no larger than a few times the file. */
struct mt_run {
    int64_t id;                  /* from 1 */
    const char *name;            /* as given by --name; NULL: none */
    const char *state;           /* as mt_run_state_name; any text in a file of others */
    const char *ended_by;        /* as mt_ended_by_name; NULL: not known; any text in a file of others */
    const char *started_at;      /* recording time, UTC, ISO 8601 */
    const char *device;          /* "sim:h200" */
    uint64_t capacity_bytes;     /* of the device's memory */
    int64_t first_event;         /* event.id */
    int64_t event_count;         /* stored events */
    int64_t lost_events;         /* emitted after the writer had failed */
    int64_t missing_records;     /* of its last moments, which could not be read after its process died */
    int64_t complete_from_bytes; /* summary_allocation has every allocation of at least this size */
    int64_t rank;                /* of the process in its job; -1: it is no rank */
    int64_t local_rank;          /* on its host; -1: not known */
    int64_t world_size;          /* processes of the job; -1: not known */
    const char *host;            /* that recorded it; NULL: imported, or not known */
    const char *job;             /* the same for all ranks; NULL: not known */
    int64_t pid;                 /* of the process that recorded it; 0: imported, or not known */
    bool is_imported;            /* from a file, which its settings name */
    int64_t stall_count;         /* times that the producer waited for the ring */
    int64_t stall_ns;            /* for so long altogether */
    int64_t steps;               /* that began */
    int64_t last_full_step;      /* number of the last one that ended; -1: none */
};

/* Returns the time at which the run began, in microseconds since 1970; 0 if started_at is no time since then. */
uint64_t mt_run_start_us(const struct mt_run *run);

/* True if the run is in that state. */
bool mt_run_is(const struct mt_run *run, mt_run_state state);

/* Returns all runs, oldest first; borrowed until the trace is closed. */
const struct mt_run *mt_trace_runs(const struct mt_trace *trace, size_t *out_count);

/* Finds the run of that number or, if there is none, the newest of that name. NULL means the newest of all,
 * but for an import that was interrupted. Fails with
 * MT_USAGE and the numbers that there are if there is no such run. */
mt_status mt_trace_find_run(const struct mt_trace *trace, const char *which, const struct mt_run **out);

/* Finds the run of that number, and fails in the same way. */
mt_status mt_trace_find_numbered(const struct mt_trace *trace, int64_t number, const struct mt_run **out);

/* The share of one group in a peak: of a category, unless another key is asked for (groups.h). */
struct mt_peak_share {
    const char *name;
    uint64_t allocated_bytes; /* of its live blocks, with rounding */
    uint64_t requested_bytes; /* of its live blocks, as asked */
    uint64_t blocks;          /* number of its live blocks */
};

/* A peak, the moment at which it was first reached, and the live blocks there, largest share first.
 * Invariants: of measure allocated, the shares' allocated_bytes sum to bytes; of requested, their requested_bytes; of
 * reserved, bytes - the sum of their allocated_bytes = cached_bytes. */
struct mt_peak_row {
    uint64_t bytes;
    uint64_t cached_bytes; /* of segments, in no block; 0 unless the measure is reserved */
    int64_t event;         /* event.id; 0: there was no allocation */
    int64_t step;          /* an event between two steps counts with the earlier one; -1: before the first */
    uint64_t time_ns;      /* the device's clock, from the start of the run */
    const char *phase;     /* of the block that reached it */
    const char *span;      /* of that block: "model.layers.7.ffn.w1" */
    size_t share_count;
    struct mt_peak_share *shares;
};

enum { MT_ALL_STEPS = -2 };

/* Fails with MT_USAGE and the number of steps if the run has no step of that number. MT_ALL_STEPS and -1, which is what
 * precedes the first step, always exist. */
mt_status mt_run_check_step(const struct mt_run *run, int64_t step);

/* Reads the run's peak: zero bytes and no shares if it allocated nothing. The caller releases *out, also after a
 * failure. Reads summaries, and a few events. */
mt_status mt_trace_peak(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, struct mt_peak_row *out);

/* Reads the bytes of the peak alone. */
mt_status mt_trace_peak_bytes(struct mt_trace *trace, const struct mt_run *run, mt_measure measure,
                              uint64_t *out_bytes);

/* Reads the peak of a step, or of what precedes the first (-1), or of the run (MT_ALL_STEPS). */
mt_status mt_trace_step_peak(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                             struct mt_peak_row *out);
void mt_peak_row_release(struct mt_peak_row *peak);

/* Allocations of one size, or one allocation. Invariant: total_bytes = bytes * count. */
struct mt_top_row {
    uint64_t bytes; /* of each, as requested */
    uint64_t
        count; /* of the run's allocations, or of the blocks live at the peak, that differ in nothing but the layer */
    uint64_t total_bytes;
    const char *category, *op, *phase, *role, *dtype, *shape; /* of their label */
    const char *span; /* "*" stands for the layer's number if several layers are merged */
    int64_t event;    /* event.id of the first of them */
    int64_t step;     /* of that event; -1: before the first */
    /* Of a block that is listed singly: the line of the program's own code that asked, and the whole call stack
     * (walk.h). "": not recorded; NULL: not listed singly. */
    const char *line, *frames;
    const char *pool; /* the same: the private pool that has it; "": none */
};

typedef enum mt_top_grouping { MT_TOP_MERGED, MT_TOP_EACH } mt_top_grouping;
typedef enum mt_top_moment { MT_TOP_WHOLE_RUN, MT_TOP_AT_PEAK } mt_top_moment;
typedef enum mt_top_order { MT_TOP_BY_SINGLE, MT_TOP_BY_TOTAL } mt_top_order;

/* The blocks that a ranking has, and its order: by the size of one, or of all that are alike. Texts are borrowed; NULL:
 * any. All zero: all blocks of the run, alike ones merged, by the size of one. */
struct mt_top_choice {
    mt_top_grouping grouping;
    mt_top_moment moment;
    mt_top_order order;
    const char *category, *role;
    const char
        *module; /* a path or a pattern of the shell, "model.layers.*.ffn", of what asked or of a module around it */
};

/* Reads the `limit` largest rows, by size, then count, then first event. Merged rows of the whole run come from the
 * summary; those at the peak of allocated bytes from the checkpoint before it. *out_complete is false if the run has
 * allocations that the summary no longer tells apart, and one of them may belong to the rows. */
mt_status mt_trace_top(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                       size_t limit, struct mt_top_row **out_rows, size_t *out_count, bool *out_complete);

/* The allocations of one category, in all phases or in one. Sizes are as requested. */
struct mt_category_row {
    const char *category;
    uint64_t max_bytes;     /* of the largest one in the run */
    uint64_t forward_bytes; /* of the largest one in forward and loss, whatever the phase; 0: there is none */
    uint64_t per_step;      /* number in the last full step */
    uint64_t total_bytes;   /* of all in the run */
};

/* Reads the categories that have allocations in `phase`, NULL meaning any, the largest maximum first. */
mt_status mt_trace_categories(struct mt_trace *trace, const struct mt_run *run, const char *phase,
                              struct mt_category_row **out_rows, size_t *out_count);

/* An allocation, a free or a relabel. */
struct mt_event_row {
    int64_t n;            /* from 0, in the order of the answer */
    const char *action;   /* "alloc", "free" or "relabel" */
    int64_t id;           /* of the allocation: the position of its event in the run, from 0. Others have that of their
                           * alloc, -1 if it is not known */
    uint64_t time_ns;     /* the device's clock, from the start of the run */
    uint64_t bytes;       /* of the block, as requested */
    uint64_t block_bytes; /* of the block, with rounding */
    mt_stream stream;
    const char *category, *role, *op, *phase, *span; /* of the block's label: phase is that in which it was given */
    uint32_t stack;                                  /* alloc: the number of its call stack (walk.h); 0: not recorded */
};

/* Functions that get the rows one by one. `begin` is called first, once the query is known to make sense. If one of
 * them fails, the query ends with that failure. */
struct mt_event_visitor {
    void *context;
    mt_status (*begin)(void *context);
    mt_status (*visit)(void *context, const struct mt_event_row *row);
};

/* Visits the allocations, frees and relabels of a step, or of the run (MT_ALL_STEPS), in order. */
mt_status mt_trace_events(struct mt_trace *trace, const struct mt_run *run, int64_t step,
                          const struct mt_event_visitor *visitor);

/* A moment of a run. */
struct mt_moment {
    int64_t step; /* the last that had begun; -1: none */
    const char *phase;
    uint64_t time_ns;
};

/* A block, and what its role rests on. Invariant: alike_of_role <= alike. */
struct mt_explained_row {
    int64_t id; /* as in mt_event_row */
    uint64_t bytes;
    const char *role, *found; /* found: as mt_role_source_name; "": not stored */
    const char *category, *op, *phase, *span;
    struct mt_moment taken, freed;
    bool is_freed;                /* false: `freed` says nothing */
    int64_t alike, alike_of_role; /* blocks of its size from before the first step, and those with its role */
};

/* Reads an allocation by its id. Fails with MT_USAGE if the run has none. */
mt_status mt_trace_explain(struct mt_trace *trace, const struct mt_run *run, int64_t id, struct mt_explained_row *out);

/* A setting of a run. */
struct mt_setting_row {
    const char *name, *value;
};

/* A measurement of a run. */
struct mt_measurement_row {
    const char *name;
    int64_t step; /* -1: of no step */
    double value; /* NAN: not computed */
};

/* Reads all settings, by name. */
mt_status mt_trace_settings(struct mt_trace *trace, const struct mt_run *run, struct mt_setting_row **out_rows,
                            size_t *out_count);

/* Returns the value of the setting of that name, "" if there is none. */
const char *mt_setting_find(const struct mt_setting_row *rows, size_t count, const char *name);

/* Reads the measurements of that name, by step. */
mt_status mt_trace_measurements(struct mt_trace *trace, const struct mt_run *run, const char *name,
                                struct mt_measurement_row **out_rows, size_t *out_count);

/* A holder of memory outside of the allocator, with the most that it had: measured, or an estimate with its range.
 * Invariant: low_bytes <= bytes <= high_bytes, and all are equal if it was measured. */
struct mt_outside_row {
    const char *kind, *name; /* as in table outside; the name may be "" */
    uint64_t bytes, low_bytes, high_bytes;
    bool is_estimate;
};

/* Reads the holders, in the order in which they came. */
mt_status mt_trace_outside(struct mt_trace *trace, const struct mt_run *run, struct mt_outside_row **out_rows,
                           size_t *out_count);

/* Returns the sums with what is reserved: what a driver would count for the process. */
struct mt_outside_row mt_outside_sum(const struct mt_outside_row *rows, size_t count, uint64_t reserved_bytes);

/* The memory that the driver says this process holds, and its uses, in bytes. Signed, since figures of several sources
 * may disagree.
 * Invariant: requested + rounding + cached + context + libraries + nccl + unexplained = used. */
struct mt_used_row {
    int64_t step;        /* at whose end it was read; -1: before the first */
    int64_t requested;   /* by the live blocks, as asked */
    int64_t rounding;    /* of the live blocks, beyond that */
    int64_t cached;      /* of segments, in no block */
    int64_t context;     /* CUDA's context and modules */
    int64_t libraries;   /* taken by libraries for themselves */
    int64_t nccl;        /* by NCCL */
    int64_t unexplained; /* the rest */
    int64_t used;        /* the driver's figure for the process */
    int64_t free, total; /* of the card; -1: not known */
    bool is_estimate;    /* of the peak of reserved bytes on a simulated card, whose driver was not asked */
};

/* Reads the last reading of a run, or what is estimated of a simulated card. Fails with MT_USAGE if there is
 * neither. */
mt_status mt_trace_used(struct mt_trace *trace, const struct mt_run *run, struct mt_used_row *out);

/* The timed parts of a step. */
typedef enum mt_timed_part {
    MT_TIMED_FORWARD,
    MT_TIMED_LOSS,
    MT_TIMED_BACKWARD,
    MT_TIMED_OPTIMIZER,
    MT_TIMED_STEP,
    MT_TIMED_PART_COUNT
} mt_timed_part;

/* Returns "forward", …, and the name of its measurement: "phase_ms:forward", …. */
const char *mt_timed_part_name(mt_timed_part part);
const char *mt_timed_part_measurement(mt_timed_part part);

/* Statistics of the measured steps, in milliseconds. NAN if there are none; the deviation is NAN for fewer than two. */
struct mt_time_statistics {
    int64_t count;          /* of measured steps */
    double mean, deviation; /* deviation of a sample: divided by count - 1 */
    double median, minimum, maximum;
};

/* The duration of a run's steps after the warm-up. Texts are settings, "" if there is none. */
struct mt_steps_row {
    const char *model, *batch, *seq, *mode;
    const char *precision; /* fp32, tf32, bf16 autocast, fp16 autocast, fp8 and bf16 autocast, or "" */
    int64_t warmup;        /* steps that are not measured */
    struct mt_time_statistics part[MT_TIMED_PART_COUNT];
    int64_t oom_bytes; /* requested last, of a run that ended out of memory; otherwise -1 */
    const char *oom_category, *oom_phase, *oom_span; /* of that request's label */
};
mt_status mt_trace_steps(struct mt_trace *trace, const struct mt_run *run, struct mt_steps_row *out);

/* The kernels of one name that ran in one phase, over the steps that count. */
struct mt_kernel_row {
    const char *name;  /* in full */
    const char *op;    /* the op with most of their time; "": none */
    bool is_product;   /* launched by matrix products: ops that end in .matmul */
    uint64_t count;    /* of launches */
    uint64_t total_ns; /* of their durations */
};

/* The kernels that ran in one phase. Invariants: the rows' total_ns and count sum to total_ns and count; the total_ns
 * of those that are products sum to product_ns. */
struct mt_kernel_phase {
    const char *phase; /* "": of kernels that no op launched */
    uint64_t count, total_ns, product_ns;
    struct mt_kernel_row *rows; /* most time first */
    size_t row_count;
};

/* The kernels of a run. Steps that count are the full ones after the warm-up, or all full ones if there are no others.
 * Attention: the forward pass's softmax, and its two products (scores and context) without the projections.
 * Invariant: score_product_ns <= attention_product_ns; the rest is of weights with values. */
struct mt_kernels {
    uint64_t recorded;                                           /* in the whole run; 0: kernels were not watched */
    uint64_t lost;                                               /* in the whole run: ran without a record */
    uint64_t steps;                                              /* that count */
    uint64_t warmup;                                             /* full steps that do not count */
    uint64_t count, total_ns, product_ns;                        /* sums over the phases */
    uint64_t named_ns;                                           /* of total_ns: kernels that an op launched */
    uint64_t softmax_ns, attention_product_ns, score_product_ns; /* the last: queries with keys */
    struct mt_kernel_phase *phases;                              /* in the order of a step */
    size_t phase_count;
};

/* Returns the kernel with the most time of a phase that is no product; NULL: there is none. */
const struct mt_kernel_row *mt_kernel_phase_top_other(const struct mt_kernel_phase *phase);

/* Reads every kernel of the run twice at most. The caller releases *out, also after a failure. */
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

/* Functions that get the rows, as those of mt_event_visitor. */
struct mt_sql_visitor {
    void *context;
    mt_status (*begin)(void *context, size_t columns, const char *const *names);
    mt_status (*visit)(void *context, size_t columns, const struct mt_sql_value *values);
};

/* Runs one statement that only reads. Fails with MT_USAGE if it would write, attach or change a setting, and if it is
 * no SQL. The parameter :run, if the text has it, is the number of `run`, which may be NULL. */
mt_status mt_trace_sql(struct mt_trace *trace, const struct mt_run *run, const char *sql,
                       const struct mt_sql_visitor *visitor);
