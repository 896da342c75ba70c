/* Stand-ins for NVIDIA's driver libraries, libcuda.so.1 and libnvidia-ml.so.1, on a machine without a driver. Libraries
 * query the card through them. The documented functions that describe a card return the properties of the simulated
 * one. Kernels can be loaded and launched; launches do nothing. Every other function fails, and memtrace reports its
 * name. NVIDIA's private interfaces are absent, so the CUDA runtime finds no driver, as without a stand-in.
 *
 * python/memtrace/dry/driver.py loads a stand-in only if the real library was not found. The properties of the cards
 * come from libmemtrace_torch.so, which is loaded first.
 *
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MT_EXPORTED __attribute__((visibility("default")))

/* CUDA 13.0, as cuDriverGetVersion spells it, and a driver of that time. */
enum { MT_DRIVER_CUDA = 13000 };
#define MT_DRIVER_VERSION "580.65.06"

/* A universally unique identifier: "memtrace", and the number of the card in the last byte. */
enum { MT_DRIVER_UUID = 16 };

/* Sets how many cards there are. Before the first call of another function. */
MT_EXPORTED void memtrace_driver_begin(int cards);

/* Sets the function that libcuda.so.1's stand-in calls for each launch of a kernel, which may write any tensor. */
MT_EXPORTED void memtrace_driver_on_launch(void (*function)(void));

/* Returns the number of cards; mt_driver_has: true if `device` is one of them. */
int mt_driver_cards(void);
bool mt_driver_has(int device);

/* Remembers the name of a call that fails, for messages. Returns `code`. `call` is static. */
int mt_driver_refuse(const char *call, int code);

void mt_driver_uuid(int device, unsigned char out[MT_DRIVER_UUID]);

/* Copies a string with its terminator to a caller's buffer. Truncates it and returns false if the buffer is too
 * short. */
bool mt_driver_copy(char *out, int64_t capacity, const char *text);

/* The memory of a card in bytes: used + free = total, and `own` of the used bytes are this process's. */
struct mt_driver_memory {
    uint64_t total, used, free, own;
};
struct mt_driver_memory mt_driver_memory(int device);
