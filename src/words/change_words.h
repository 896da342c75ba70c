/* Changes of a program in words: the line or setting that makes each, what its figures rest on, and what is not
 * known. */
#pragma once

#include "analysis/advise/program_changes.h"
#include "answer/row.h"
#include "answer/table.h"

/* A change. Invariant: hint has what a user types, if it is not the change itself. */
struct mt_change_row {
    const char *kind;
    bool is_setting; /* of the allocator */
    struct mt_text change, hint, basis;
    uint64_t bytes, blocks;
    struct mt_replay_result peak;
    int64_t difference_bytes; /* of the peak of reserved bytes, to that of the run replayed as it was */
};

/* Describes the peaks of a replay, for JSON. */
extern const struct mt_row_type mt_replay_peak_type;

/* Describes a change, with the peaks as fields of tables. */
extern const struct mt_row_type mt_change_type;

/* A kind of change that the trace does not tell the effect of. */
struct mt_gap_row {
    const char *kind, *reason;
};
extern const struct mt_row_type mt_gap_type;

/* The changes and gaps as rows. */
struct mt_change_rows {
    struct mt_change_row *items;
    size_t count;
    struct mt_gap_row *gaps;
    size_t gap_count;
};

/* Makes rows of changes. Release them; a zero-initialized list is empty. */
void mt_change_rows_create(const struct mt_program_changes *changes, const struct mt_program *program,
                           struct mt_change_rows *out);
void mt_change_rows_release(struct mt_change_rows *rows);

/* Adds the change as a table names it. */
void mt_change_add(const struct mt_program_change *change, const struct mt_program *program, struct mt_text *out);

/* Adds what to write for it, and in which variable or place. */
void mt_change_add_hint(const struct mt_program_change *change, const struct mt_program *program, struct mt_text *out);

/* Adds what the figures of its replay rest on. */
void mt_change_add_basis(const struct mt_program_change *change, struct mt_text *out);

/* Returns the first change that lowers the peak of reserved bytes by more than `least_bytes`, and leaves the optimizer
 * as it is; NULL if that is not so of the first change that lowers it. */
const struct mt_program_change *mt_changes_first(const struct mt_program_changes *changes, uint64_t least_bytes);

/* Prints the fields of rows as a table, what to write for each, and what their figures rest on; then what is not
 * known. */
void mt_change_rows_print(const struct mt_change_rows *rows, const char *fields, const struct mt_screen *screen);

/* Does so for changes, with all peaks. */
void mt_changes_print(const struct mt_program_changes *changes, const struct mt_program *program,
                      const struct mt_screen *screen);
