/* The caveats of a run as answers have them: a list for each kind, and why the run ended. Every answer that has them
 * uses the same description, so their fields have the same names everywhere. */
#pragma once

#include "answer/row.h"
#include "trace/query/caveats.h"

/* Invariant: the lists of `of` follow each other in `rows`, in the order of the kinds. */
struct mt_caveat_lists {
    const char *ended_by; /* borrowed from the trace; NULL: not known */
    struct mt_caveat *rows;
    struct mt_caveat_list {
        const struct mt_caveat *rows;
        size_t count;
    } of[MT_CAVEAT_KIND_COUNT];
};

/* Reads the caveats of a run. The caller releases them, also after a failure. Fails as mt_trace_caveats. */
mt_status mt_caveat_lists_load(struct mt_trace *trace, const struct mt_run *run, struct mt_caveat_lists *out);
void mt_caveat_lists_release(struct mt_caveat_lists *lists);

/* Describes struct mt_caveat_lists: ended_by, shortened, not_run, unknown, assumed, growth, weights, choices,
 * eager and other_cards. */
extern const struct mt_row_type mt_caveat_lists_type;

/* Adds a sentence with the operators whose scratch memory is unknown, a line end included; nothing if there are
 * none. */
void mt_caveat_add_unknown(const struct mt_caveat_lists *lists, struct mt_text *text);
