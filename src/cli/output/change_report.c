#include "cli/output/change_report.h"

#include "cli/output/output.h"
#include "words/change_words.h"

#include <stdio.h>

/* Prints what to write for each change and what it rests on. Of settings of the allocator the table says all. */
static void print_bases(const struct mt_change_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct mt_change_row *row = &rows->items[i];
        if (row->is_setting)
            continue;
        mt_say("\n%s: %s.", mt_text_get(&row->change), mt_text_get(&row->basis));
        mt_say("   → %s", mt_text_get(&row->hint));
    }
}

static void print_gaps(const struct mt_change_rows *rows)
{
    for (size_t i = 0; i < rows->gap_count; i++)
        mt_say("%sCannot be known from this trace: %s, since %s.", i == 0 ? "\n" : "", rows->gaps[i].kind,
               rows->gaps[i].reason);
}

/* Returns the change with which a replay reserves least, if that is less than without; NULL if there is none. */
static const struct mt_program_change *best_change(const struct mt_program_changes *changes)
{
    const struct mt_program_change *best = NULL;
    uint64_t least_bytes = changes->as_it_was.reserved_bytes;
    for (size_t i = 0; i < changes->count && changes->as_it_was.fits; i++) {
        const struct mt_replay_result *replay = &changes->items[i].replay;
        if (!replay->fits || replay->reserved_bytes >= least_bytes)
            continue;
        best = &changes->items[i];
        least_bytes = replay->reserved_bytes;
    }
    return best;
}

void mt_changes_headline(const struct mt_program_changes *changes, const struct mt_program *program)
{
    const struct mt_program_change *best = best_change(changes);
    struct mt_text change = {0};
    char before[MT_BYTES_TEXT], after[MT_BYTES_TEXT];
    if (best == NULL)
        return;
    mt_change_add(best, program, &change);
    mt_say("Of the changes below, \"%s\" reserves least: %s instead of %s.", mt_text_get(&change),
           mt_format_bytes(best->replay.reserved_bytes, after),
           mt_format_bytes(changes->as_it_was.reserved_bytes, before));
    mt_text_release(&change);
}

void mt_change_rows_print(const struct mt_change_rows *rows, const char *fields)
{
    if (rows->count > 0) {
        mt_say("\nChanges, each replayed with the run's own blocks:");
        mt_rows_print(&mt_change_type, fields, "requested allocated", rows->items, rows->count);
    }
    print_bases(rows);
    print_gaps(rows);
}

void mt_changes_report(const struct mt_program_changes *changes, const struct mt_program *program)
{
    struct mt_change_rows rows;
    mt_change_rows_create(changes, program, &rows);
    mt_change_rows_print(&rows, "change requested allocated reserved difference_bytes");
    mt_change_rows_release(&rows);
}
