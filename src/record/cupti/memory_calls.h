/* The functions of CUDA's driver and runtime that take and give device memory, and how their arguments are read. */
#ifndef MT_RECORD_CUPTI_MEMORY_CALLS_H
#define MT_RECORD_CUPTI_MEMORY_CALLS_H

#include "record/account.h"

#include <cupti.h>

/* What a function does to memory. */
typedef enum mt_call_action {
    MT_CALL_TAKES,   /* memory with an address */
    MT_CALL_GIVES,   /* it back */
    MT_CALL_MAKES,   /* physical memory: a handle */
    MT_CALL_HOLDS,   /* a handle once more */
    MT_CALL_LETS_GO, /* of a handle */
    MT_CALL_MAPS,    /* a handle's memory to a range */
    MT_CALL_UNMAPS,  /* all in a range */
    MT_CALL_TRIMS,   /* a pool */
    MT_CALL_DESTROYS /* a pool */
} mt_call_action;

/* Arguments of a call. What it returns is read through pointers, once it has succeeded. */
struct mt_call_arguments {
    const uint64_t *result;         /* an address or a handle; NULL: none is returned */
    const size_t *pitch;            /* the bytes of a row; NULL: `bytes` are all */
    uint64_t address, handle, pool; /* pool 0: the device's own, or none */
    uint64_t stream;                /* a handle; of a thread's own default stream, CU_STREAM_PER_THREAD */
    uint64_t bytes, rows;           /* as asked; with a pitch, of a row, and how many */
    int device;                     /* of physical memory; MT_NOT_A_DEVICE: the host's */
};

enum { MT_NOT_A_DEVICE = -2, MT_DEVICE_OF_CONTEXT = -3 };

/* A function that is listened to. */
struct mt_listened_call {
    const char *name;            /* as a programmer writes it */
    CUpti_CallbackDomain domain; /* of the driver, or of the runtime */
    mt_call_action action;
    mt_memory_kind kind; /* of what is taken */
    void (*read)(const void *parameters, struct mt_call_arguments *out);
};

/* Numbers of functions are below that. */
enum { MT_LISTENED_IDS = 1024 };

/* The one of that domain and number; NULL: it is no function of memory. */
const struct mt_listened_call *mt_listened_call_find(CUpti_CallbackDomain domain, CUpti_CallbackId id);

/* Reads a call's arguments. */
struct mt_call_arguments mt_listened_call_read(const struct mt_listened_call *call, const void *parameters);

#endif
