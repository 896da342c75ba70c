/* How much of a card's memory this process holds, as the driver's management library says. */
#ifndef MT_DEVICE_PROCESS_MEMORY_H
#define MT_DEVICE_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* The driver's management library, opened for one card. All fields are NULL where it can't be asked. */
struct mt_process_memory {
    void *library; /* what dlopen gave */
    void *card;    /* its handle of the card */
    int (*list)(void *card, unsigned *count, void *processes);
    int (*shutdown)(void);
};

/* Opens the library for the card at that PCI bus address ("0000:3B:00.0"). Without library, card or permission nothing
 * fails: then mt_process_memory_bytes has no answer. */
void mt_process_memory_open(struct mt_process_memory *memory, const char *bus_address);
void mt_process_memory_close(struct mt_process_memory *memory);

/* The bytes that this process holds, context and libraries included; false if nobody tells. In a container whose
 * process numbers are its own the driver lists others' numbers: that is no answer, too. */
bool mt_process_memory_bytes(const struct mt_process_memory *memory, uint64_t *out_bytes);

#endif
