#include "cli/record/rank_notes.h"

#include "base/memory.h"
#include "base/text.h"
#include "cli/output/output.h"

#include <assert.h>
#include <inttypes.h>
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

/* Returns the end of the ranks that follow each other from `begin` on. */
static int64_t end_of_range(const struct mt_rank_note *note, int64_t begin)
{
    int64_t end = begin + 1;
    while (end < note->count && note->ranks[end] == note->ranks[end - 1] + 1)
        end++;
    return end;
}

static void add_ranks(const struct mt_rank_note *note, struct mt_text *out)
{
    assert(note->count > 0);
    mt_text_add(out, note->count > 1 ? "ranks " : "rank ");
    for (int64_t begin = 0, end; begin < note->count; begin = end) {
        end = end_of_range(note, begin);
        mt_text_add(out, "%s%" PRId64, begin > 0 ? ", " : "", note->ranks[begin]);
        if (end - begin > 1)
            mt_text_add(out, "%s%" PRId64, end - begin > 2 ? "-" : ", ", note->ranks[end - 1]);
    }
}

void mt_rank_notes_tell(const struct mt_rank_notes *notes)
{
    for (int64_t i = 0; i < notes->count; i++) {
        struct mt_text ranks = {0};
        add_ranks(&notes->notes[i], &ranks);
        mt_note("%s: %s", mt_text_get(&ranks), notes->notes[i].words);
        mt_text_release(&ranks);
    }
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
