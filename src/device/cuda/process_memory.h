/* The part of a card's memory that this process holds, from the driver's management library. */
#ifndef MT_DEVICE_PROCESS_MEMORY_H
#define MT_DEVICE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* The driver's management library, opened for one card. All fields are NULL if it can't be used. */
struct mt_process_memory {
    void *library; /* from dlopen */
    void *card;    /* its handle of the card */
    int (*list)(void *card, unsigned *count, void *processes);
    int (*shutdown)(void);
};

/* Opens the library for the card at that PCI bus address ("0000:3B:00.0"). Never fails: without library, card or
 * permission, mt_process_memory_bytes returns false. */
void mt_process_memory_open(struct mt_process_memory *memory, const char *bus_address);
void mt_process_memory_close(struct mt_process_memory *memory);

/* Sets the bytes that this process holds, context and libraries included. Returns false if the driver does not tell. It
 * does not in a container with its own process numbers, since the driver lists the numbers outside. */
bool mt_process_memory_bytes(const struct mt_process_memory *memory, uint64_t *out_bytes);

#endif
