/* A list of numbers that takes as few bits for each as its neighbours need: for columns of millions of rows, in which
 * neighbours are alike.
 *
 *   numbers ──▶ open: 256 as they are ──(full)──▶ a part: (number − base) >> shift, in `bits` bits each
 *
 * Reading any number takes some nanoseconds. Threads: one at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MT_PACKED_PART = 256 };

/* 256 numbers. Invariants: number i is base + (stored i << shift); words has 4 * bits words, and is NULL without. */
struct mt_packed_part {
    uint64_t base, *words;
    unsigned char bits, shift;
};

/* All zeros is an empty list. Invariants: parts has count / 256 parts; open has the count % 256 numbers after them. */
struct mt_packed_list {
    struct mt_packed_part *parts;
    uint64_t *open;
    size_t count;
};

void mt_packed_list_add(struct mt_packed_list *list, uint64_t number);

/* Returns number `index`, which is below list->count. */
uint64_t mt_packed_list_get(const struct mt_packed_list *list, size_t index);

/* Replaces number `index`. About a microsecond if the new one needs more bits than its neighbours. */
void mt_packed_list_set(struct mt_packed_list *list, size_t index, uint64_t number);

/* Frees the numbers; the list is empty. */
void mt_packed_list_release(struct mt_packed_list *list);
