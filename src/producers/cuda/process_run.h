/* A process of a recorded program, as a run of a trace: opens the trace, keeps the account, closes the trace, and
 * answers `memtrace record`.
 *
 * Threads: one at a time, except for the account's mt_account_launch and mt_account_ran. */
#pragma once

#include "producers/cuda/account.h"
#include "run/process_trace.h"

struct mt_process_run;

/* Opens the trace and adds a run. Copies its arguments. Fails as mt_live_run_open. Answers `memtrace record`,
 * also on failure. */
mt_status mt_process_run_open(const struct mt_record_request *request, const struct mt_process_card *card,
                              char *(*spell)(const char *name), struct mt_process_run **out);

/* Returns the account of the run, valid until the process ends. */
struct mt_account *mt_process_run_account(struct mt_process_run *run);

/* Returns the ns since the run began. From any thread. */
uint64_t mt_process_run_now_ns(const struct mt_process_run *run);

/* Ends the run of a process that exits with this code; CUPTI dropped `lost_records` activity records. After this the
 * account ignores launches, and must get no other calls. Returns the recorder's first error. */
mt_status mt_process_run_close(struct mt_process_run *run, int exit_code, uint64_t lost_records);

/* Leaves the trace to the parent, in a forked child; as mt_recorder_disown. */
void mt_process_run_disown(struct mt_process_run *run);
