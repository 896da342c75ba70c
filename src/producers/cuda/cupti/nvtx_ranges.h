/* Calls of NVTX that push and pop ranges, reported to an account with domain and name.
 *
 * A call may name a string by a handle, if the program has registered it. So registered strings are kept.
 *
 * Threads: one at a time, with all other calls about the account. */
#pragma once

#include "base/number_map.h"
#include "producers/cuda/account.h"

#include <cupti.h>

/* Returns the functions of NVTX to listen to, *out_count of them. */
const CUpti_CallbackId *mt_range_functions(size_t *out_count);

/* Registered strings: from handle to the address of a copy. They live as long as the process. */
struct mt_range_strings {
    struct mt_number_map copies;
};
void mt_range_strings_create(struct mt_range_strings *strings);

/* Copies the string if the call registers one. False if it is another call. */
bool mt_range_string_keep(struct mt_range_strings *strings, CUpti_CallbackId id, const CUpti_NvtxData *data);

/* Reports that a range begins or ends in the thread, at `time_ns` since the run began. A range without a name, or with
 * an unknown handle for it, has the name "". */
void mt_range_report(struct mt_account *account, struct mt_account_thread *thread,
                     const struct mt_range_strings *strings, CUpti_CallbackId id, const CUpti_NvtxData *data,
                     uint64_t time_ns);
