/* Stand-ins for NVIDIA's driver on a machine without one: libcuda.so.1 and libnvidia-ml.so.1, for libraries that ask them about the
 * card. They have the documented functions that describe the simulated card; every other function fails and is named. Nothing is
 * computed, and NVIDIA's private interfaces are absent, so CUDA's runtime finds no driver, as without a stand-in.
 *
 * python/memtrace/dry/driver.py loads them, and only where a library was not found without. What is known of the cards comes from
 * libmemtrace_torch.so, which is loaded before.
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

/* Returns how many cards there are; and whether `device` is one. */
int mt_driver_cards(void);
bool mt_driver_has(int device);

/* Remembers the name of a call that fails, for messages. Returns `code`. `call` is static. */
int mt_driver_refuse(const char *call, int code);

void mt_driver_uuid(int device, unsigned char out[MT_DRIVER_UUID]);

/* Copies a text with its end to a caller's buffer. False if it is too short; then it is cut. */
bool mt_driver_copy(char *out, int64_t capacity, const char *text);

/* The memory of a card in bytes: used + free = total, and `used` is what this process and others hold. */
struct mt_driver_memory {
    uint64_t total, used, free;
};
struct mt_driver_memory mt_driver_memory(int device);
