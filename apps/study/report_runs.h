/* The report of a trace: its runs, one per configuration, with the figures of the tables and in their order; the axes
 * in which runs of a table differ; and the sections of a page.
 *
 * Runs with equal axes differ only in mode, precision and sequence length. They are a group, within which tables
 * compare. */
#pragma once

#include "answer/report_page.h"
#include "producers/model/session.h"
#include "study/published.h"
#include "trace/query/trace.h"

#include <stdbool.h>

/* A run and all its values in tables. Texts are borrowed from the trace.
 * Invariants after loading: seq > 0 and batch > 0; it ended, done or out of memory; `comparable` is `published` or
 * NULL. */
struct mt_report_run {
    struct mt_run run;
    struct mt_settings settings;
    const char *axis[MT_SETTING_COUNT]; /* values of the settings in MT_ORDER_OF_REPORT */
    char *model;                        /* "2.7B", or the sizes of one without a name; owned */
    char *allocator;                    /* "policy=torch", and settings that differ from its defaults; owned */
    const char *mode, *autocast, *seq_text;
    const char *name;  /* "": none */
    const char *pass;  /* "forward pass", "full step" or "inference" */
    const char *basis; /* of its times: "estimate" or "measured" */
    int64_t batch, seq, d_model;
    bool is_oom, is_estimated;
    struct mt_steps_row steps;
    struct mt_figure times[MT_TIMED_PART_COUNT]; /* ms, with the standard deviation if available */
    struct mt_peak_row allocated, reserved;
    struct mt_figure allocated_peak, reserved_peak; /* or "out of memory" */
    struct mt_figure after_step;                    /* allocated at the end of the last full step */
    uint64_t refused_bytes;                         /* requested when memory ran out */
    const struct mt_published_cell *published;      /* for its configuration; NULL: none */
    const struct mt_published_cell *comparable;     /* the same, if its allocator is the published one's */
    struct mt_figure published_reserved;
    struct mt_figure measured_allocated, measured_reserved;     /* of PyTorch */
    struct mt_figure allocated_difference, reserved_difference; /* memtrace's minus PyTorch's */
};

/* The tables for which a trace may lack runs. */
typedef enum mt_report_lack {
    MT_LACKS_AUTOCAST_PAIRS, /* runs under autocast in addition to fp32 */
    MT_LACKS_AUTOCAST,
    MT_LACKS_KERNELS,
    MT_LACKS_PUBLISHED, /* some of the published configurations */
    MT_LACKS_WARMUP,
    MT_LACKS_IMPLEMENTATIONS, /* fused runs in addition to eager ones */
    MT_LACKS_KEPT_OUTPUT,     /* forward passes that keep their output */
    MT_LACKS_MEMORY,          /* of the run itself: its number follows the command */
    MT_REPORT_LACK_COUNT
} mt_report_lack;

/* The common data of a report's sections. */
struct mt_report {
    const char *const *remedies; /* by mt_report_lack: the command that adds the runs; borrowed */
    const char
        *timelines; /* the folder of the runs' timelines, as the page links to it; NULL: there is none. Borrowed */
    struct mt_trace *trace;
    struct mt_page *page;
    struct mt_report_run *runs; /* by axes, mode, precision, sequence length, warm-up */
    size_t run_count;
    const struct mt_run **others; /* runs that ended without training settings, such as imported ones; the trace's */
    size_t other_count;
};

/* Loads the newest run of each configuration that ended, also if it ran out of memory. For full steps, prefers a run
 * with a second step, since the first creates the optimizer's state. Does not change out->page, out->remedies and
 * out->timelines. Release in any case. */
mt_status mt_report_load(struct mt_trace *trace, struct mt_report *out);
void mt_report_release(struct mt_report *report);

/* A subset of the runs, in order. Borrows them. */
struct mt_report_rows {
    const struct mt_report_run **runs;
    size_t count;
};

/* Runs in fp32, or under autocast, in bf16 or fp16. */
typedef enum mt_report_precision { MT_REPORT_ANY, MT_REPORT_FP32, MT_REPORT_AUTOCAST } mt_report_precision;

/* Returns the runs with a precision. Of runs that differ only in warm-up, uses the last. The caller releases the
 * rows. */
struct mt_report_rows mt_report_select(const struct mt_report *report, mt_report_precision precision);
void mt_report_rows_release(struct mt_report_rows *rows);

/* True if two runs agree in all settings that affect a step, except those in `but`, which ends with NULL. */
bool mt_report_agree(const struct mt_report_run *a, const struct mt_report_run *b, const char *const but[]);

/* Returns the end of the group that begins at row `begin`: rows with equal axes, mode and precision. */
size_t mt_report_group_end(const struct mt_report_rows *rows, size_t begin);

/* Returns the last row in [begin, end) that did not end out of memory; NULL if there is none. */
const struct mt_report_run *mt_report_last_whole(const struct mt_report_rows *rows, size_t begin, size_t end);

/* Finds the group with most runs that did not end out of memory, the last of equal ones: [*begin, *end); both 0 without
 * rows. */
void mt_report_lead(const struct mt_report_rows *rows, size_t *begin, size_t *end);

/* Returns the last run of the lead group that did not end out of memory; NULL if there is none. */
const struct mt_report_run *mt_report_longest(const struct mt_report_rows *rows);

/* A run under autocast and the run in fp32 that differs only in that, and possibly in warm-up. Both completed and
 * allocated memory. Begins with a run, like every row of a report's tables. */
struct mt_report_pair {
    struct mt_report_run autocast, baseline; /* borrowed from the report, with everything they own */
    int64_t allocated_bytes, reserved_bytes; /* more under autocast */
    struct mt_figure measured, published;    /* the same of reserved bytes, by PyTorch and as published */
};

/* Pairs, and the rows of their runs under autocast, in the same order. */
struct mt_report_pairs {
    struct mt_report_rows autocast; /* autocast.runs[i] is &pairs[i].autocast */
    struct mt_report_pair *pairs;
};
struct mt_report_pairs mt_report_pair(const struct mt_report *report);
void mt_report_pairs_release(struct mt_report_pairs *pairs);

/* Calls `add` for the longest pair of the pairs' lead group, fp32 first; without pairs, for the longest of the rows. */
mt_status mt_report_add_longest(struct mt_report *report, const struct mt_report_pairs *pairs,
                                const struct mt_report_rows *rows,
                                mt_status (*add)(struct mt_report *report, const struct mt_report_run *run));

/* The axes in which runs differ, in the order of MT_ORDER_OF_REPORT. */
struct mt_report_axes {
    mt_setting axes[MT_SETTING_COUNT];
    size_t count;
};
struct mt_report_axes mt_report_axes_of(const struct mt_report_rows *rows);
struct mt_report_axes mt_report_all_axes(const struct mt_report *report); /* of all runs in tables */

/* Adds a table of rows, each a struct that begins with its run. The first columns are the axes in which the runs
 * differ, followed by the fields, which end with MT_FIELDS_END. The title continues with the common values of all runs:
 * "…: 2.7B, batch 4, sim:h200". Each row links to its run's timeline. */
void mt_report_table(const struct mt_report *report, const struct mt_report_rows *rows, const char *key,
                     const char *title, const struct mt_field *fields);

/* Links the last row to the timeline of a run, "FOLDER/run-3.html", if there is a folder. */
void mt_report_link(const struct mt_report *report, const struct mt_run *run);

/* Adds a description of a run for a sentence, with its model, mode and these axes: "2.7B, forward pass, sim:h200". */
void mt_report_describe(const struct mt_report_axes *axes, const struct mt_report_run *run, struct mt_text *out);

/* Adds the separator before item `index` of `count`: ", " or " and ", or nothing. */
void mt_report_join(struct mt_text *out, size_t index, size_t count);

/* Adds the list of the trace's own runs, of any program, and a section for each of the newest. Fails if the trace can't
 * be read. */
mt_status mt_report_own(struct mt_report *report);

/* Add the sections of the study, here in their order: the heading, the tables, and conclusions below each table. If the
 * trace lacks runs, they name the command that adds them. Fail if the trace can't be read. */
mt_status mt_report_timing(struct mt_report *report);
mt_status mt_report_peaks(struct mt_report *report);
mt_status mt_report_autocast(struct mt_report *report);
mt_status mt_report_account(struct mt_report *report);
mt_status mt_report_residual(struct mt_report *report);
mt_status mt_report_categories(struct mt_report *report);
mt_status mt_report_largest(struct mt_report *report);
mt_status mt_report_implementations(struct mt_report *report);
mt_status mt_report_kernels(struct mt_report *report);
mt_status mt_report_dtypes(struct mt_report *report);
mt_status mt_report_accumulation(struct mt_report *report);

/* Adds the tables of peaks for runs of one precision, which two of the sections contain. */
void mt_report_peak_tables(struct mt_report *report, mt_report_precision precision);

/* Makes the runs of the published study that the trace at `path` lacks, on `device`, and adds them; cards of 80 GB are
 * always simulated. Reports progress to the observer. Out of device memory is a result, not a failure. */
mt_status mt_report_study(const char *path, const char *device, const struct mt_session_observer *observer);
