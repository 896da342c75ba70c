/* Words and numbers in columns of a trace: the states of runs, the measures of memory, the special steps. */
#pragma once

typedef enum mt_run_state {
    MT_RUN_RUNNING,
    MT_RUN_DONE,
    MT_RUN_FAILED,
    MT_RUN_OOM,
    MT_RUN_INTERRUPTED,
    MT_RUN_DAMAGED,
    MT_RUN_STATE_COUNT
} mt_run_state;

/* Returns "running", "done", …: the text of run.state. */
const char *mt_run_state_name(mt_run_state state);

/* Returns the words that follow "run 3": "is done", "ended out of memory". `stored` is the text of run.state. An
 * unknown text, as in an untrusted file, is returned unchanged. */
const char *mt_run_state_words(const char *stored);

/* The measures of memory that have a peak. */
typedef enum mt_measure {
    MT_MEASURE_ALLOCATED, /* live blocks, with rounding */
    MT_MEASURE_REQUESTED, /* live blocks, as requested */
    MT_MEASURE_RESERVED,  /* segments */
    MT_MEASURE_COUNT
} mt_measure;

/* Returns "allocated", …: the text of summary_peak.measure. */
const char *mt_measure_name(mt_measure measure);

/* The measurement with the number of kernels without a record. It belongs to no step. */
#define MT_LOST_KERNELS "lost_kernels"

/* The measurement of the device's free bytes, according to its driver, when the run's last request was refused. It
 * differs from "memory:free", which is read before the first step and after the last. */
#define MT_FREE_AT_REFUSAL "memory:free_at_refusal"

/* Numbers in the column `step` of the summary tables: the time before the first step, and the whole run. */
enum { MT_STEP_BEFORE = -1, MT_STEP_WHOLE_RUN = -2 };
