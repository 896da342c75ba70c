/* The PyTorch memory history that a recorded process wrote to a file, since its allocator could not be watched.
 *
 * Threads: one at a time for a trace. */
#pragma once

#include "producers/file/import.h"
#include "run/handover.h"

/* An imported history. Owns its parts. */
struct mt_torch_history {
    char *trace; /* to which the run was added; NULL: the answer names another kind of file, and nothing was done */
    struct mt_import_report report;
};

/* Imports the file of an MT_RECORD_HISTORY answer into its trace, and removes the file. `name` is the run's, NULL for
 * none; `device` is a CUDA device number or MT_EVERY_DEVICE. Fails as mt_import; then the file remains. Release *out in
 * any case. */
mt_status mt_torch_history_import(const struct mt_record_answer *answer, const char *name, int64_t device,
                                  struct mt_torch_history *out);
void mt_torch_history_release(struct mt_torch_history *history);
