/* The trace of a process of a recorded program: its path, the run's row, and the answers for `memtrace record`.
 *
 * Two processes can't write one trace at the same time. Rank N > 0 of a job writes TRACE with -rankN before the
 * extension. Of processes that run at the same time without ranks, the first writes TRACE, and each other one
 * TRACE-PID.
 *
 * Threads: any, one at a time for a request. */
#pragma once

#include "base/text.h"
#include "run/handover.h"
#include "run/live_run.h"

/* The card, as known when the process first uses it. */
struct mt_process_card {
    const char *name; /* "NVIDIA H200" */
    uint64_t capacity_bytes;
    const char *addition; /* to the name of its trace, before the extension: "-cuda1"; NULL: none */
    const char *number;   /* on the host, as the setting MT_CARD_NUMBER_SETTING; NULL: unknown */
    const char *alloc;    /* the settings of the program's allocator, as --alloc spells them; NULL: unknown */
};

/* Opens the trace of the request, adds a run with the process's command line, pid and rank, and appends an answer.
 * `recorded` describes the run's contents: "memory". A run for any thread has notes; a run for one thread has only a
 * sink. Fails as mt_live_run_open, and also appends an answer then. */
mt_status mt_process_trace_open(const struct mt_record_request *request, const struct mt_process_card *card,
                                const char *recorded, mt_live_access access, struct mt_live_run **out);

/* Reads this process's rank in a job from the environment variables of torchrun, Slurm or MPI. False if there are none.
 * *out_job is the job's name, borrowed from the environment; NULL: unknown. */
bool mt_process_rank_read(struct mt_run_rank *out, const char **out_job);

/* The run's setting for the number of its card on the host. */
#define MT_CARD_NUMBER_SETTING "cuda_device"

/* Returns the host's number of the card that this process calls `ordinal`. They differ if CUDA_VISIBLE_DEVICES lists
 * numbers, which hides and reorders cards. */
int mt_process_card_number(int ordinal);

/* Appends `path` with `addition` before its extension: "run-rank1.db". */
void mt_process_trace_name(struct mt_text *out, const char *path, const char *addition);

/* Appends an answer of this process. Does nothing for a request without a file for answers. */
void mt_process_answer(const struct mt_record_request *request, mt_record_answer_kind kind, int64_t number,
                       const char *text);

/* Appends a note with the calling thread's last error and its consequence: "this process is not recorded". */
void mt_process_note(const struct mt_record_request *request, const char *consequence);
