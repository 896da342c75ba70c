#include "producers/program/rank_notes.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static struct mt_rank_note *note_of(struct mt_rank_notes *notes, const char *words)
{
    for (int64_t i = 0; i < notes->count; i++)
        if (strcmp(notes->notes[i].words, words) == 0)
            return &notes->notes[i];
    struct mt_rank_note *added = MT_HOST_ADD(notes->notes, notes->count);
    *added = (struct mt_rank_note){.words = mt_host_strdup(words)};
    return added;
}

void mt_rank_notes_add(struct mt_rank_notes *notes, int64_t rank, const char *words)
{
    struct mt_rank_note *note = note_of(notes, words);
    int64_t place = 0;
    while (place < note->count && note->ranks[place] < rank)
        place++;
    if (place < note->count && note->ranks[place] == rank)
        return;
    (void)MT_HOST_ADD(note->ranks, note->count);
    memmove(note->ranks + place + 1, note->ranks + place, (size_t)(note->count - 1 - place) * sizeof *note->ranks);
    note->ranks[place] = rank;
}

void mt_rank_notes_release(struct mt_rank_notes *notes)
{
    for (int64_t i = 0; i < notes->count; i++) {
        free(notes->notes[i].words);
        free(notes->notes[i].ranks);
    }
    free(notes->notes);
    *notes = (struct mt_rank_notes){0};
}
