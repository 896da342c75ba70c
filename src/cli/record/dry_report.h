/* The report of a dry run: the notes of its processes, their runs, and the verdict in the last line.
 *
 * Threads: the main one. */
#pragma once

#include "producers/program/program_outcome.h"
#include "words/verdict_words.h"

/* A run of a process, with its trace, which stays open for the row's texts. */
struct mt_dry_report_run {
    struct mt_trace *trace;
    char *path; /* the trace's path, in the user's form */
    struct mt_verdict_row row;
};

/* Invariants: `worst` is a run that ended out of memory, if any, otherwise the run that needs most; began is true if a
 * process of the program imported PyTorch. Owns the runs. */
struct mt_dry_report {
    const struct mt_program_outcome *outcome;
    bool began;
    bool is_unreadable; /* a run's trace could not be read */
    bool has_processes; /* several processes answered */
    int64_t pid;        /* of the last one */
    struct mt_dry_report_run *runs;
    int64_t count;
    const struct mt_dry_report_run *worst; /* NULL: there is no run */
    const char *assumed;                   /* for values that were not computed, in the user's form; borrowed */
};

/* How to print the report, and how strict its exit code is. */
struct mt_dry_report_options {
    bool json, strict;
};

/* Finds the verdicts of the runs. `trace` is the path in the user's form. Notes traces that can't be read. Borrows the
 * outcome and `assumed`. The caller releases *out. */
void mt_dry_report_load(const struct mt_program_outcome *outcome, const char *trace, const char *assumed,
                        struct mt_dry_report *out);
void mt_dry_report_release(struct mt_dry_report *report);

/* Returns the exit code: the program's own; MT_OUT_OF_MEMORY if it failed since a card was full; MT_NO_DRY_RUN if it
 * succeeded without a run; MT_NOT_CERTAIN if is_strict and some memory is unknown. */
int mt_dry_report_code(const struct mt_dry_report *report, bool is_strict);

/* Prints the reports of a program, one for each assumed value: notes on stderr, or one JSON object on stdout. The last
 * line is the verdict of the run that needs most. */
void mt_dry_reports_print(const struct mt_dry_report *reports, size_t count,
                          const struct mt_dry_report_options *options);

/* Returns the run that needs most, of all reports; NULL if there is none. */
const struct mt_dry_report_run *mt_dry_reports_worst(const struct mt_dry_report *reports, size_t count);

/* Returns the first exit code of the reports that is not 0. */
int mt_dry_reports_code(const struct mt_dry_report *reports, size_t count, bool is_strict);

/* Notes which figures of the run that needs most are incomplete or uncertain, as the report does. */
void mt_dry_report_note_caveats(const struct mt_dry_report *report);
void mt_dry_caveats_note(const struct mt_program_outcome *outcome);

/* Adjusts the report's memory growth to a card with this many bytes less than the dry run's: growth fills it in earlier
 * iterations. */
void mt_dry_report_shrink_card(struct mt_dry_report *report, uint64_t less_bytes);

/* True if some memory of a run is unknown (mt_verdict_is_uncertain). */
bool mt_dry_report_is_uncertain(const struct mt_dry_report *report);

/* Describes the object. */
extern const struct mt_row_type mt_dry_report_type;
