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

#include "record/cupti/driver_questions.h"
#include "record/cupti/memory_calls.h"

/* A thread of the program. Zero-initialized is in no call. */
struct mt_listening_thread {
    struct mt_account_thread account;
    const struct mt_listened_call *outer; /* the runtime's call that it is in, if that takes memory; NULL: none */
    bool is_told;                         /* what the outer call took, or that it was refused */
};

/* Where the memory of a call lies: what only the driver and CUPTI know. */
struct mt_call_place {
    int device;                   /* that the memory is of; MT_NOT_A_DEVICE: the host's */
    uint64_t pool;                /* that it is of; 0: none, or nobody knows */
    uint64_t pool_reserved_bytes; /* that the driver holds for the pool, if that is known */
    bool is_reserved_known;
};

/* Whether the call takes of a pool or trims one: those that do are to be asked about and heard of one after another,
 * so that what is told last is what was said last. */
bool mt_call_is_of_pool(const struct mt_listened_call *call);

/* Asks where the memory of a call lies, at either of its ends. To be called without any lock that a callback waits for:
 * the driver may be waiting for that callback, in another thread, with locks of its own. */
void mt_call_ask(const struct mt_pool_functions *pools, const struct mt_listening_thread *thread,
                 const struct mt_listened_call *call, const CUpti_CallbackData *data, struct mt_call_place *out);

/* A call at one of its ends: CUPTI_API_ENTER or CUPTI_API_EXIT of `data`, at `time_ns` since the run began.
 * Everything that is told goes with the account's other callers, one at a time. */
void mt_call_heard(struct mt_account *account, struct mt_listening_thread *thread, const struct mt_listened_call *call,
                   const CUpti_CallbackData *data, const struct mt_call_place *place, uint64_t time_ns);

/* The number of the context's device; 0 for no context. */
int mt_device_of_context(CUcontext context);

/* The memory that a record of CUPTI speaks of. False: it is the host's. */
bool mt_memory_recorded(const CUpti_ActivityMemory4 *record, uint64_t time_ns, struct mt_memory_record *out);

#endif
