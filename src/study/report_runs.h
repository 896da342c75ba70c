/* The runs of a report: one for each configuration of the trace, with the figures of its tables and in their order; and
 * the axes in which the runs of a table differ.
 *
 * Runs of equal axes differ in mode, precision and sequence length only. They are a group, and tables compare within it. */
#ifndef MT_STUDY_REPORT_RUNS_H
#define MT_STUDY_REPORT_RUNS_H

#include "answer/report_page.h"
#include "study/published.h"
#include "trace/query/trace.h"

#include <stdbool.h>

/* Texts are borrowed from the trace. */
struct mt_report_run {
    const struct mt_run *run;
    struct mt_settings settings;
    char *model;     /* "2.7B", or the sizes of one without a name */
    char *allocator; /* "policy=torch", and settings that are not usual for it */
    const char *mode, *autocast, *seq_text;
    int64_t batch, seq, d_model;
    bool is_oom, is_estimated;
    struct mt_steps_row steps;
    struct mt_peak_row allocated, reserved;
    const struct mt_published_cell *published; /* NULL: there is none */
};

/* What a report may lack, so that a table is missing. */
typedef enum mt_report_lack {
    MT_LACKS_AUTOCAST_PAIRS, /* runs under autocast beside those in fp32 */
    MT_LACKS_AUTOCAST,
    MT_LACKS_KERNELS,
    MT_LACKS_PUBLISHED, /* some of the published configurations */
    MT_LACKS_WARMUP,
    MT_REPORT_LACK_COUNT
} mt_report_lack;

/* The data that the sections of a report share. */
struct mt_report {
    const char *const *remedies; /* by mt_report_lack: the command that adds it; borrowed */
    struct mt_trace *trace;
    const char *path; /* of the trace, borrowed */
    struct mt_page *page;
    struct mt_report_run *runs; /* by axes, mode, precision, sequence length, warm-up */
    size_t run_count;
    size_t without_settings; /* further runs, which do not say what was trained, as imported ones */
};

/* Loads the newest run of each configuration that ended, also one that ended out of memory. Of full steps it prefers a
 * run with a second step, since the first makes the optimizer's state. Leaves out->page and out->path as they are. Release
 * in any case. */
mt_status mt_report_load(struct mt_trace *trace, struct mt_report *out);
void mt_report_release(struct mt_report *report);

/* Some of the runs, in their order. Borrows them. */
struct mt_report_rows {
    const struct mt_report_run **runs;
    size_t count;
};

/* Returns the runs of that precision ("off", "bf16"; NULL: any) and mode (NULL: any), without those that differ from another one
 * in warm-up only. Release the rows. */
struct mt_report_rows mt_report_select(const struct mt_report *report, const char *autocast, const char *mode);
void mt_report_rows_release(struct mt_report_rows *rows);

/* True if two runs agree in all settings that matter to a step, but for those named (NULL after the last). */
bool mt_report_agree(const struct mt_report_run *a, const struct mt_report_run *b, const char *const but[]);

/* Returns the end of the group that begins at row `begin`: equal axes, mode and precision. */
size_t mt_report_group_end(const struct mt_report_rows *rows, size_t begin);

/* Finds the group with most runs that did not end out of memory, of equals the last: *begin up to *end; both 0 of no
 * rows. */
void mt_report_lead(const struct mt_report_rows *rows, size_t *begin, size_t *end);

/* Runs under autocast, each beside the one in fp32 that differs from it in that only, but for warm-up; all went to their
 * end and had memory. */
struct mt_report_pairs {
    struct mt_report_rows autocast;
    const struct mt_report_run **baselines; /* as many */
};
struct mt_report_pairs mt_report_pair(const struct mt_report *report);
void mt_report_pairs_release(struct mt_report_pairs *pairs);

/* True if PyTorch's rules decided what the run reserved, in steps that repeat: its peaks compare with PyTorch's. */
bool mt_report_is_prediction(const struct mt_report_run *run);

/* Columns of a table: those of the axes in which its rows differ, then its own. */
enum { MT_REPORT_COLUMNS = 32 };
struct mt_report_columns {
    struct mt_column items[MT_REPORT_COLUMNS];
    size_t count;
    mt_setting axes[MT_REPORT_COLUMNS]; /* of the first columns */
    size_t axis_count;
};
struct mt_report_columns mt_report_columns_of(const struct mt_report_rows *rows);
void mt_report_column(struct mt_report_columns *columns, const char *title, mt_align align);

/* Adds a run's cells of the axes. */
void mt_report_axis_cells(struct mt_page *page, const struct mt_report_columns *columns,
                          const struct mt_report_run *run);

/* Begins a table whose title goes on with what all rows have in common: "…: 2.7B, batch 4, sim:h200". */
void mt_report_table(struct mt_page *page, const struct mt_report_rows *rows, const struct mt_report_columns *columns,
                     const char *key, const char *title);

/* Adds a run for a sentence, its model, its mode and the axes that the columns show: "2.7B, forward pass, sim:h200". */
void mt_report_describe(const struct mt_report_columns *columns, const struct mt_report_run *run, struct mt_text *out);

/* Returns "forward pass", "full step" or "inference". */
const char *mt_report_mode(const struct mt_report_run *run);

/* Adds ", " or " and " before item `index` of `count`, where one belongs. */
void mt_report_join(struct mt_text *out, size_t index, size_t count);

#endif
