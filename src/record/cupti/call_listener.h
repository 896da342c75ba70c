/* What a call of CUDA says about memory, from its beginning to its end in one thread, told to an account.
 *
 *   cudaMalloc ─┬─ begins: records of this call are expected
 *               ├─── cuMemAlloc, inside it, begins
 *               ├─── and ends: taken, by cudaMalloc
 *               └─ ends: nothing more; taken only if no call of the driver was seen inside
 *
 * Memory is told of when a call that takes it ends, and before one that gives it back has done so: another thread that
 * is given the same address is told of later then. */
#ifndef MT_RECORD_CUPTI_CALL_LISTENER_H
#define MT_RECORD_CUPTI_CALL_LISTENER_H

#include "record/cupti/memory_calls.h"

/* The driver's functions about pools, which the listener asks at the end of a call that takes of one; NULL where they
 * can't be had: then nothing is said of pools. */
struct mt_pool_functions {
    CUresult (*of_device)(CUmemoryPool *out, CUdevice device); /* the one that it uses now */
    CUresult (*attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *out);
};

/* A thread of the program. Zero-initialized is in no call. */
struct mt_listening_thread {
    struct mt_account_thread account;
    const struct mt_listened_call *outer; /* the runtime's call that it is in, if that takes memory; NULL: none */
    const struct mt_pool_functions *pools;
    bool is_told; /* what the outer call took, or that it was refused */
};

/* A call at one of its ends: CUPTI_API_ENTER or CUPTI_API_EXIT of `data`, at `time_ns` since the run began.
 * Everything that is told goes with the account's other callers, one at a time. */
void mt_call_heard(struct mt_account *account, struct mt_listening_thread *thread, const struct mt_listened_call *call,
                   const CUpti_CallbackData *data, uint64_t time_ns);

/* The number of the context's device; 0 for no context. */
int mt_device_of_context(CUcontext context);

/* The memory that a record of CUPTI speaks of. False: it is the host's. */
bool mt_memory_recorded(const CUpti_ActivityMemory4 *record, uint64_t time_ns, struct mt_memory_record *out);

#endif
