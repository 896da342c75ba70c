/* Notes of ranks: each line once, with the ranks that wrote it.
 *
 * Threads: one at a time for an object. */
#pragma once

#include <stdint.h>

/* One line. Invariant: ranks[0 .. count) are ascending, and count > 0. */
struct mt_rank_note {
    char *words;
    int64_t *ranks; /* an array for MT_HOST_ADD */
    int64_t count;
};

/* Starts as {0}. Invariant: notes[0 .. count) have different words. */
struct mt_rank_notes {
    struct mt_rank_note *notes; /* an array for MT_HOST_ADD, in the order of their first occurrence */
    int64_t count;
};

/* Adds a line of a rank. Copies the words. */
void mt_rank_notes_add(struct mt_rank_notes *notes, int64_t rank, const char *words);

void mt_rank_notes_release(struct mt_rank_notes *notes);
