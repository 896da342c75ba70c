/* The answer of the attention study, described once: its cells, the limits of length, and the whole. JSON, CSV and the
 * text tables (attention_report.c) are generated from these descriptions. */
#pragma once

#include "answer/table.h"
#include "study/attention_session.h"
#include "study/published.h"

/* A cell of the grid: its case, its result, and derived values.
 * Invariants: the terms' bytes sum to formula_bytes, and the terms of size T² to square_bytes; `kept`, `peak`, `oom`
 * and `peer` point to the cell itself if it has such values, and are NULL otherwise. */
struct mt_attention_cell {
    struct mt_attention_case of;
    struct mt_attention_result result;
    struct mt_attention_term term[MT_ATTENTION_MOST_TERMS];
    struct mt_attention_term *terms; /* term_count of them, in `term` */
    size_t term_count;
    uint64_t formula_bytes, square_bytes;
    int64_t run; /* its number in the trace; -1: not traced */
    const char *precision, *attention, *state;
    const char *oom_category, *oom_phase; /* NULL if it is done */
    int64_t difference_bytes;             /* measured minus formula */
    int64_t known_kept, known_peak;       /* bytes; -1: unknown */
    double kept_by_square;                /* known_kept divided by the square of the length; NAN: unknown */
    uint64_t peer_kept, peer_peak;        /* bytes without workspaces */
    struct mt_attention_peer peer_found;
    const struct mt_attention_cell *kept, *peak, *oom, *peer;
    struct mt_figure kept_shown, peak_shown, memory_shown; /* memory: both in one text */
    struct mt_figure forward_shown, backward_shown, times_shown;
    struct mt_figure peer_forward_shown, peer_backward_shown;
    char csv_ms[2][MT_BYTES_TEXT];
    const char *forward_csv, *backward_csv; /* NULL: unknown */
};

/* The interesting lengths for one precision, head size and variant. */
struct mt_attention_limit {
    struct mt_attention_case of; /* of any length */
    int64_t square_from;         /* mt_attention_square_from; -1: none */
    int64_t longest;             /* mt_attention_longest; 0: none */
    const char *precision, *attention;
    struct mt_figure square_shown, longest_shown;
};

/* The study. Cells are in the order of the grid; limits by precision, then width, then variant. Borrows everything. */
struct mt_attention_answer {
    struct mt_attention_grid grid;
    uint64_t memory_bytes;    /* of the device, available to a run */
    uint64_t workspace_bytes; /* of one thread's matrix products there */
    const char *trace;        /* NULL: not traced */
    struct mt_attention_cell *cells;
    size_t cell_count;
    struct mt_attention_limit *limits;
    size_t limit_count;
    const char *schema, *device_name;
    bool executes; /* the device executes kernels */
    bool has_peer; /* also shows a peer's measurements */
    bool has_projections, is_causal;
    struct mt_screen screen; /* for text and CSV */
};

/* Set all derived values: of a cell from its case and result, of a limit from its case and lengths. A cell must not
 * move afterwards, since it points to itself. */
void mt_attention_cell_fill(struct mt_attention_cell *cell);
void mt_attention_limit_fill(struct mt_attention_limit *limit);

/* The types of cells in tables and CSV, of limits, and of the whole answer. */
extern const struct mt_row_type mt_attention_cell_type, mt_attention_csv_type, mt_attention_limit_type;
extern const struct mt_row_type mt_attention_answer_type; /* with a peer */

/* Returns the answer as JSON; the caller releases it. */
json_t *mt_attention_json(const struct mt_attention_answer *answer);

/* Prints tables with the variants side by side on the answer's screen, and sentences about the results. */
void mt_attention_write_text(const struct mt_attention_answer *answer);
