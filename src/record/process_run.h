/* A process of a recorded program as a run of a trace: opens the trace, keeps its account, closes it, and tells
 * `memtrace record` what came of it.
 *
 * Two processes can't write one trace at once: the first has TRACE, the others TRACE-PID each.
 *
 * Threads: one at a time, but for the account's mt_account_launch. */
#ifndef MT_RECORD_PROCESS_RUN_H
#define MT_RECORD_PROCESS_RUN_H

#include "record/account.h"
#include "record/handover.h"

struct mt_process_run;

/* What is known of the card when the process begins to use it. */
struct mt_process_card {
    const char *name; /* "NVIDIA H200" */
    uint64_t capacity_bytes;
};

/* Opens the trace and adds the run. Copies what it is given. MT_FAILED and the like as mt_recorder_open; told to
 * `memtrace record` in any case. */
mt_status mt_process_run_open(const struct mt_record_request *request, const struct mt_process_card *card,
                              char *(*spell)(const char *name), struct mt_process_run **out);

struct mt_account *mt_process_run_account(struct mt_process_run *run);

/* Nanoseconds since the run began. From any thread. */
uint64_t mt_process_run_now_ns(const struct mt_process_run *run);

/* Ends the run of a process that ends with this exit code; `lost_records` is how many CUPTI dropped. Nothing may be
 * told any more but launches, which go nowhere. */
mt_status mt_process_run_close(struct mt_process_run *run, int exit_code, uint64_t lost_records);

/* In a forked child, as mt_recorder_disown. */
void mt_process_run_disown(struct mt_process_run *run);

/* Frees a closed run; may be NULL. */
void mt_process_run_free(struct mt_process_run *run);

/* Tells the calling thread's last error and what comes of it: "this process is not recorded". */
void mt_process_note(const struct mt_record_request *request, const char *consequence);

#endif
