/* What a call of NVTX says about ranges, told to an account: those that are pushed and popped, each of its domain, by name.
 *
 * Names may be strings that the program has registered, which calls then name by a handle: so these are kept. */
#ifndef MT_RECORD_CUPTI_RANGE_LISTENER_H
#define MT_RECORD_CUPTI_RANGE_LISTENER_H

#include "base/number_map.h"
#include "record/account.h"

#include <cupti.h>

/* The functions of NVTX that are to be listened to, *out_count of them. */
const CUpti_CallbackId *mt_range_functions(size_t *out_count);

/* Strings that were registered: handle to the address of a copy. Lives as long as the process. */
struct mt_range_strings {
    struct mt_number_map copies;
};
void mt_range_strings_create(struct mt_range_strings *strings);

/* Keeps the string if the call registers one. False: it is another call. */
bool mt_range_string_heard(struct mt_range_strings *strings, CUpti_CallbackId id, const CUpti_NvtxData *data);

/* A range begins or ends in the thread, at `time_ns` since the run began. One that has no name, or one by a handle that
 * is not known, has the name "". */
void mt_range_heard(struct mt_account *account, struct mt_account_thread *thread,
                    const struct mt_range_strings *strings, CUpti_CallbackId id, const CUpti_NvtxData *data,
                    uint64_t time_ns);

#endif
