/* A check in words: what the screen, JUnit and Markdown all say. */
#ifndef MT_CLI_CHECK_TEXT_H
#define MT_CLI_CHECK_TEXT_H

#include "analysis/check.h"
#include "base/text.h"
#include "cli/command.h"

/* Adds the name of the criterion: "max-allocated", "category AttnScores", "against run 1 of main.db: AttnScores". */
void mt_criterion_add_name(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out);

/* Adds the run that it is compared with: "run 2", "run 1 of main.db" if a file was named. */
void mt_check_add_against(const struct mt_check *check, struct mt_text *out);

/* Adds what was found: "54.10 GiB, over 52.00 GiB by 2.10 GiB (4.04 %)". */
void mt_criterion_add_finding(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out);

/* Adds "run 3 (nightly)". */
void mt_check_add_run(const struct mt_check *check, struct mt_text *out);

/* Adds "run 3 (nightly) passes 5 criteria" or "run 3 (nightly) fails 2 of 5 criteria". */
void mt_check_add_verdict(const struct mt_check *check, struct mt_text *out);

/* Adds the criterion that passed with the least to spare: ": max-allocated comes nearest, with 51.32 GiB of 52.00 GiB".
 * Adds nothing if no bytes were bounded. */
void mt_check_add_nearest(const struct mt_check *check, struct mt_text *out);

/* Adds the settings in which the run differs from the one that it is compared with: "seq 256 → 512, batch 4 → 8";
 * and of how many one of them says nothing. Nothing if there are none. */
mt_status mt_check_add_differences(const struct mt_check *check, struct mt_text *out);

/* Commands to ask next of a check that failed, and what they tell. */
enum { MT_MOST_CHECK_HINTS = 2 };
struct mt_check_hint {
    struct mt_text command; /* "memtrace top --at peak --run 3" */
    const char *tells;
};
struct mt_check_hints {
    struct mt_check_hint items[MT_MOST_CHECK_HINTS];
    size_t count;
};
void mt_check_hints_create(const struct mt_check *check, const struct mt_trace_options *options,
                           struct mt_check_hints *out);
void mt_check_hints_release(struct mt_check_hints *hints);

#endif
