/* Calls of CUDA that take or give back memory, reported to an account from their beginning to their end in one thread.
 *
 *   cudaMalloc ─┬─ begins: activity records of this call are expected
 *               ├─── cuMemAlloc, inside it, begins
 *               ├─── and ends: reports memory, taken by cudaMalloc
 *               └─ ends: reports memory only if no call of the driver did so inside
 *
 * Memory is reported when the call that takes it ends, and before the call that gives it back has done so. So another
 * thread that gets the same address next is reported later.
 *
 * Asks the driver that has loaded us through the functions that it exports, since we are not linked against it.
 * mt_call_ask, mt_driver_describe and mt_device_of_context must be called without any lock that a callback waits for:
 * the driver may hold locks of its own while it waits for that callback in another thread. */
#pragma once

#include "producers/cuda/account.h"

#include <cuda.h>
#include <cupti.h>

/* A function of the driver or the runtime that takes or gives back memory. */
struct mt_listened_call;

/* Numbers of functions are below this. */
enum { MT_LISTENED_IDS = 1024 };

/* Returns the function with this domain and number; NULL if it has nothing to do with memory. */
const struct mt_listened_call *mt_listened_call_find(CUpti_CallbackDomain domain, CUpti_CallbackId id);

/* A thread of the program. Zero-initialized, it is in no call. */
struct mt_listening_thread {
    struct mt_account_thread account;
    const struct mt_listened_call *outer; /* the current call of the runtime, if that takes memory; NULL: none */
    bool is_reported;                     /* the memory of the outer call was reported, or its refusal */
};

/* Functions of the driver about pools. NULL where they are missing; then nothing is reported of pools. */
struct mt_pool_functions {
    CUresult (*of_device)(CUmemoryPool *out, CUdevice device); /* the current one */
    CUresult (*attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *out);
};

/* Finds them. Calls none of the driver's functions. */
void mt_driver_find_pools(struct mt_pool_functions *out);

enum { MT_DRIVER_NAME_BYTES = 256 };

/* Asks for the name and the memory of a device. Without an answer, *name says its number and *out_bytes is 0. */
void mt_driver_describe(int device, char name[MT_DRIVER_NAME_BYTES], uint64_t *out_bytes);

/* Returns the number of the context's device; 0 for no context. */
int mt_device_of_context(CUcontext context);

/* The place of a call's memory, as only the driver and CUPTI know it. */
struct mt_call_place {
    int device;                   /* MT_NOT_A_DEVICE: host memory */
    uint64_t pool;                /* 0: none, or unknown */
    uint64_t pool_reserved_bytes; /* bytes that the driver holds for the pool; valid if is_reserved_known */
    bool is_reserved_known;
};

enum { MT_NOT_A_DEVICE = -2 };

/* True if the call takes from a pool or trims one. Such calls must be asked about and reported one after another, so
 * that the last report is the newest. */
bool mt_call_is_of_pool(const struct mt_listened_call *call);

/* Asks for the place of a call's memory, at either end of the call. */
void mt_call_ask(const struct mt_pool_functions *pools, const struct mt_listening_thread *thread,
                 const struct mt_listened_call *call, const CUpti_CallbackData *data, struct mt_call_place *out);

/* Reports a call at one of its ends: CUPTI_API_ENTER or CUPTI_API_EXIT of `data`, at `time_ns` since the run began. One
 * at a time with all other calls about the account. */
void mt_call_report(struct mt_account *account, struct mt_listening_thread *thread, const struct mt_listened_call *call,
                    const CUpti_CallbackData *data, const struct mt_call_place *place, uint64_t time_ns);

/* The effect of a call on a range of addresses. */
struct mt_addressed_call {
    bool gives; /* it is about to give the range back, or to unmap it; else it has taken or mapped it */
    const char *op;
    uint64_t address, bytes; /* bytes: 0 if it gives */
    int device;
};

/* Reads a call at one of its ends, for who keeps no account. False if this end does nothing with addresses of a device,
 * or the call that it is part of has told of them. */
bool mt_call_read_addressed(struct mt_listening_thread *thread, const struct mt_listened_call *call,
                            const CUpti_CallbackData *data, const struct mt_call_place *place,
                            struct mt_addressed_call *out);

/* Converts an activity record about memory. False if the memory is the host's. */
bool mt_memory_recorded(const CUpti_ActivityMemory4 *record, uint64_t time_ns, struct mt_memory_record *out);
