/* The outcomes of verify.h, collected and reported. */
#pragma once

#include "base/text.h"

typedef enum mt_verify_result { MT_VERIFY_WHOLE, MT_VERIFY_DAMAGED, MT_VERIFY_UNKNOWN } mt_verify_result;

/* The outcome of one check. */
struct mt_verify_row {
    int64_t run;      /* 0: of the file */
    const char *what; /* pages, database, events, end, summaries */
    mt_verify_result result;
    const char *found; /* a text; borrowed for the call */
};

struct mt_verify_visitor {
    void *context;
    void (*row)(void *context, const struct mt_verify_row *row);
};

/* Checks in the order in which they are reported. All zero: none. */
struct mt_verify_rows {
    struct mt_verify_row *rows; /* owns their texts */
    size_t count;
};

/* Adds a check. Takes the text, which is empty afterwards. */
void mt_verify_rows_add(struct mt_verify_rows *rows, int64_t run, const char *what, mt_verify_result result,
                        struct mt_text *found);

/* Adds a check that found damage, with the text of the last failure. Returns failures other than MT_BAD_TRACE. */
mt_status mt_verify_rows_add_failure(struct mt_verify_rows *rows, int64_t run, const char *what, mt_status status);

void mt_verify_rows_tell(const struct mt_verify_rows *rows, const struct mt_verify_visitor *visitor);
void mt_verify_rows_release(struct mt_verify_rows *rows);
