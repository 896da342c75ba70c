/* What the attention study found: for people, as JSON and as CSV. */
#ifndef MT_STUDY_ATTENTION_REPORT_H
#define MT_STUDY_ATTENTION_REPORT_H

#include "answer/table.h"
#include "study/attention_grid.h"
#include "study/attention_session.h"

/* How long sequences may be, of one precision, head size and variant, at the numbers of the grid. */
struct mt_attention_limit {
    int64_t square_from; /* attention_limits.h; 0: none */
    int64_t longest;
};

/* The study. Results are by cell of the grid; limits by precision, then width, then variant. Borrows everything. */
struct mt_attention_answer {
    const struct mt_attention_grid *grid;
    const struct mt_attention_result *results;
    const struct mt_attention_limit *limits;
    const struct mt_device *device;
    uint64_t memory_bytes;   /* of it, that a run could have */
    const char *trace;       /* NULL: not traced */
    bool has_peer;           /* wants what was measured of a peer beside it */
    struct mt_screen screen; /* for people and as CSV */
};

void mt_attention_write_text(const struct mt_attention_answer *answer);
json_t *mt_attention_json(const struct mt_attention_answer *answer); /* the caller's */
void mt_attention_write_csv(const struct mt_attention_answer *answer);

/* The limit of these values' places in their lists. */
const struct mt_attention_limit *mt_attention_limit_at(const struct mt_attention_answer *answer, size_t precision,
                                                       size_t width, size_t variant);

#endif
