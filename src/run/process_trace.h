/* The trace of a process of a recorded program: its path, the run's row, and the answers to `memtrace record`.
 *
 * Two processes can't write one trace at the same time. Rank N > 0 of a job has TRACE with -rankN before the ending; of
 * processes that run beside each other without ranks, the first has TRACE, each other one TRACE-PID.
 *
 * Threads: any, one at a time for a request. */
#pragma once

#include "base/text.h"
#include "run/handover.h"
#include "run/live_run.h"

/* The card, as known when the process begins to use it. */
struct mt_process_card {
    const char *name; /* "NVIDIA H200" */
    uint64_t capacity_bytes;
    const char *addition; /* to the name of its trace, before the ending: "-cuda1"; NULL: none */
};

/* Opens the trace that the request names, adds a run with the process's command line, number and rank, and answers so.
 * `recorded` says what the run has: "memory". A run for any thread has notes; a run for one thread has only a sink. Fails as
 * mt_live_run_open, and answers that, too. */
mt_status mt_process_trace_open(const struct mt_record_request *request, const struct mt_process_card *card,
                                const char *recorded, mt_live_access access, struct mt_live_run **out);

/* Reads this process's place in a job from what torchrun, Slurm or MPI has put into the environment. False if it is in none.
 * *out_job is the job's name, borrowed from the environment; NULL: not known. */
bool mt_process_rank_read(struct mt_run_rank *out, const char **out_job);

/* The setting of a run with the number of its card on the host. */
#define MT_CARD_NUMBER_SETTING "cuda_device"

/* Returns the number on the host of the card that this process calls `ordinal`: CUDA_VISIBLE_DEVICES, if it lists numbers, hides and
 * reorders cards. */
int mt_process_card_number(int ordinal);

/* Appends `path` with `addition` before its ending: "run-rank1.db". */
void mt_process_trace_name(struct mt_text *out, const char *path, const char *addition);

/* Answers for this process. Does nothing for a request without a file for answers. */
void mt_process_answer(const struct mt_record_request *request, mt_record_answer_kind kind, int64_t number,
                       const char *text);

/* Answers with the calling thread's last error and its consequence: "this process is not recorded". */
void mt_process_note(const struct mt_record_request *request, const char *consequence);
