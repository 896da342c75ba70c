#include "study/attention_answer.h"

#include "producers/model/settings.h"
#include "trace/store/trace_names.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

static const struct mt_field term_fields[] = {
    MT_TEXT(struct mt_attention_term, what, "what", NULL, "the tensor"),
    MT_TEXT(struct mt_attention_term, formula, "formula", NULL, "of its bytes"),
    MT_BYTES(struct mt_attention_term, bytes, "bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type term_type = MT_ROW_TYPE(struct mt_attention_term, term_fields);

#define CELL struct mt_attention_cell
static const struct mt_field kept_fields[] = {
    MT_BYTES(CELL, result.kept.requested_bytes, "requested_bytes", NULL, "as requested"),
    MT_BYTES(CELL, result.kept.allocated_bytes, "allocated_bytes", NULL, "of blocks"),
    MT_BYTES(CELL, result.kept.workspace_bytes, "workspace_bytes", NULL, "of matrix products, not in these"),
    MT_DIFFERENCE(CELL, difference_bytes, "difference_bytes", NULL, "requested less formula_bytes"),
    MT_FIELDS_END,
};
static const struct mt_row_type kept_type = MT_ROW_TYPE(CELL, kept_fields);

static const struct mt_field peak_fields[] = {
    MT_BYTES(CELL, result.peak_requested_bytes, "requested_bytes", NULL, "without workspaces"),
    MT_BYTES(CELL, result.peak_allocated_bytes, "allocated_bytes", NULL, "without workspaces"),
    MT_BYTES(CELL, result.workspace_bytes, "workspace_bytes", NULL, "of matrix products"),
    MT_FIELDS_END,
};
static const struct mt_row_type peak_type = MT_ROW_TYPE(CELL, peak_fields);

static const struct mt_field oom_fields[] = {
    MT_BYTES(CELL, result.oom_bytes, "requested_bytes", NULL, "by the refused request"),
    MT_TEXT(CELL, oom_category, "category", NULL, NULL),
    MT_TEXT(CELL, oom_phase, "phase", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type oom_type = MT_ROW_TYPE(CELL, oom_fields);

static const struct mt_field peer_fields[] = {
    MT_BYTES(CELL, peer_kept, "kept_bytes", NULL, "without workspaces"),
    MT_BYTES(CELL, peer_peak, "peak_bytes", NULL, "without workspaces"),
    MT_MS(CELL, peer_found.forward_ms, "forward_ms", NULL, NULL),
    MT_MS(CELL, peer_found.backward_ms, "backward_ms", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type peer_type = MT_ROW_TYPE(CELL, peer_fields);

#define CELL_FIELDS                                                                                                    \
    MT_TEXT(CELL, precision, "precision", NULL, "fp32, tf32 or bf16"),                                                 \
        MT_INTEGER(CELL, of.d_model, "d", "d", "features of the layer"),                                               \
        MT_INTEGER(CELL, of.seq, "seq", "seq", "tokens in a sequence"),                                                \
        MT_TEXT(CELL, attention, "attention", "variant", NULL), MT_TEXT(CELL, state, "state", NULL, "done or oom"),    \
        MT_KNOWN(CELL, run, "run", NULL, "its number in the trace"),                                                   \
        MT_MS(CELL, result.forward_ms, "forward_ms", NULL, "median"),                                                  \
        MT_MS(CELL, result.backward_ms, "backward_ms", NULL, "median"),                                                \
        MT_BYTES(CELL, formula_bytes, "formula_bytes", NULL, "live before backward, by formula"),                      \
        MT_BYTES(CELL, square_bytes, "square_bytes", NULL, "of it, the terms of size T²"),                             \
        MT_ROW_OR_NULL(CELL, kept, "kept", &kept_type, "live before backward, measured"),                              \
        MT_NUMBER(CELL, kept_by_square, "kept_by_square", NULL, "the measured requested bytes over seq²"),             \
        MT_ROWS(CELL, terms, term_count, "terms", &term_type, "of the formula"),                                       \
        MT_ROW_OR_NULL(CELL, peak, "peak", &peak_type, NULL), MT_ROW_OR_NULL(CELL, oom, "oom", &oom_type, NULL)

static const struct mt_field cell_fields[] = {
    CELL_FIELDS,
    MT_SHOWN(FIGURE, struct mt_figure, CELL, memory_shown, "memory", "live before backward / peak"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, kept_shown, "live", "live before backward"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, peak_shown, "highest", "peak"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, times_shown, "times", "forward / backward, ms"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, forward_shown, "forward", "forward, ms"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, backward_shown, "backward", "backward, ms"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_attention_cell_type = MT_ROW_TYPE(CELL, cell_fields);

static const struct mt_field cell_and_peer_fields[] = {
    CELL_FIELDS,
    MT_ROW_OR_NULL(CELL, peer, "peer", &peer_type, "of PyTorch on an H200, if requested and measured"),
    MT_FIELDS_END,
};
static const struct mt_row_type cell_and_peer_type = MT_ROW_TYPE(CELL, cell_and_peer_fields);

static const struct mt_field csv_fields[] = {
    MT_TEXT(CELL, precision, "precision", NULL, NULL),
    MT_INTEGER(CELL, of.batch, "batch", NULL, NULL),
    MT_INTEGER(CELL, of.heads, "heads", NULL, NULL),
    MT_INTEGER(CELL, of.d_model, "d", NULL, NULL),
    MT_INTEGER(CELL, of.seq, "seq", NULL, NULL),
    MT_TEXT(CELL, attention, "attention", NULL, NULL),
    MT_TEXT(CELL, state, "state", NULL, NULL),
    MT_BYTES(CELL, formula_bytes, "formula_bytes", NULL, NULL),
    MT_KNOWN(CELL, known_kept, "kept_bytes", NULL, NULL),
    MT_KNOWN(CELL, known_peak, "peak_bytes", NULL, NULL),
    MT_DIGITS(CELL, forward_csv, "forward_ms", NULL, NULL),
    MT_DIGITS(CELL, backward_csv, "backward_ms", NULL, NULL),
    MT_NUMBER(CELL, kept_by_square, "kept_by_square", NULL, NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_attention_csv_type = MT_ROW_TYPE(CELL, csv_fields);
#undef CELL

#define LIMIT struct mt_attention_limit
static const struct mt_field limit_fields[] = {
    MT_TEXT(LIMIT, precision, "precision", "precision", NULL),
    MT_INTEGER(LIMIT, of.d_model, "d", "d", NULL),
    MT_TEXT(LIMIT, attention, "attention", NULL, NULL),
    MT_KNOWN(LIMIT, square_from, "square_from", NULL, "the shortest sequence at which the terms of size T² are most"),
    MT_INTEGER(LIMIT, longest, "longest_seq", NULL, "the longest sequence that fits; 0: none"),
    MT_SHOWN(FIGURE, struct mt_figure, LIMIT, square_shown, "square", ""),
    MT_SHOWN(FIGURE, struct mt_figure, LIMIT, longest_shown, "longest", ""),
    MT_FIELDS_END,
};
const struct mt_row_type mt_attention_limit_type = MT_ROW_TYPE(LIMIT, limit_fields);
#undef LIMIT

#define ANSWER struct mt_attention_answer
#define ANSWER_FIELDS(rows)                                                                                            \
    {                                                                                                                  \
        MT_TEXT(ANSWER, schema, "schema", NULL, NULL), MT_TEXT(ANSWER, device_name, "device", NULL, NULL),             \
            MT_FLAG(ANSWER, executes, "executes", NULL, "times were measured"),                                        \
            MT_BYTES(ANSWER, memory_bytes, "memory_bytes", NULL, "of the device, that a run could have"),              \
            MT_TEXT(ANSWER, trace, "trace", NULL, "null: not traced"),                                                 \
            MT_INTEGER(ANSWER, grid.batch, "batch", NULL, NULL), MT_INTEGER(ANSWER, grid.heads, "heads", NULL, NULL),  \
            MT_FLAG(ANSWER, has_projections, "projections", NULL, "of q, k, v and the output"),                        \
            MT_FLAG(ANSWER, is_causal, "causal", NULL, NULL), MT_INTEGER(ANSWER, grid.repeats, "repeats", NULL, NULL), \
            MT_ROWS(ANSWER, cells, cell_count, "rows", rows, NULL),                                                    \
            MT_ROWS(ANSWER, limits, limit_count, "limits", &mt_attention_limit_type, NULL), MT_FIELDS_END,             \
    }
static const struct mt_field answer_fields[] = ANSWER_FIELDS(&mt_attention_cell_type);
static const struct mt_field answer_with_peer_fields[] = ANSWER_FIELDS(&cell_and_peer_type);
static const struct mt_row_type answer_type = MT_ROW_TYPE(ANSWER, answer_fields);
const struct mt_row_type mt_attention_answer_type = MT_ROW_TYPE(ANSWER, answer_with_peer_fields);

static struct mt_figure ms_shown(double ms)
{
    return mt_figure_number(ms, "%.*f", ms < 10 ? 3 : ms < 100 ? 2 : 1, ms);
}

static void fill_account(struct mt_attention_cell *cell)
{
    cell->terms = cell->term;
    cell->term_count = mt_attention_account(&cell->of, cell->term);
    cell->formula_bytes = mt_attention_account_bytes(&cell->of, &cell->square_bytes);
    cell->difference_bytes = (int64_t)(cell->result.kept.requested_bytes - cell->formula_bytes);
    assert(cell->square_bytes <= cell->formula_bytes && cell->term_count <= MT_ATTENTION_MOST_TERMS);
}

static void fill_peer(struct mt_attention_cell *cell)
{
    const struct mt_attention_peer *peer = mt_attention_peer_find(&cell->of);
    if (peer == NULL)
        return;
    cell->peer = cell;
    cell->peer_found = *peer;
    cell->peer_kept = mt_attention_peer_bytes(peer->kept_mib);
    cell->peer_peak = mt_attention_peer_bytes(peer->peak_mib);
    cell->peer_forward_shown = ms_shown(peer->forward_ms);
    cell->peer_backward_shown = ms_shown(peer->backward_ms);
}

/* Sets the shown texts: sizes, or "oom"; in parentheses, the formula's value of memory kept by forward if it ran out of
 * memory. */
static void fill_shown(struct mt_attention_cell *cell)
{
    const struct mt_attention_result *result = &cell->result;
    const struct mt_figure oom = mt_figure_words("oom");
    cell->kept_shown = result->kept.is_known ? mt_figure_bytes(result->kept.requested_bytes)
                                             : mt_figure_number(NAN, "(%s)", MT_SIZE(cell->formula_bytes));
    cell->peak_shown = cell->forward_shown = cell->backward_shown = cell->times_shown = oom;
    if (result->is_done) {
        cell->peak_shown = mt_figure_bytes(result->peak_requested_bytes);
        cell->forward_shown = ms_shown(result->forward_ms);
        cell->backward_shown = ms_shown(result->backward_ms);
        cell->times_shown = mt_figure_number(NAN, "%s / %s", cell->forward_shown.text, cell->backward_shown.text);
    }
    cell->memory_shown = mt_figure_number(NAN, "%s / %s", cell->kept_shown.text, cell->peak_shown.text);
}

static const char *precision_name(const struct mt_attention_case *of)
{
    return mt_study_precision_names[mt_study_precision_of(of)];
}

void mt_attention_cell_fill(struct mt_attention_cell *cell)
{
    const struct mt_attention_result *result = &cell->result;
    assert(result->kept.is_known || !result->is_done);
    assert(result->is_done ? result->oom_bytes == 0 : isnan(result->forward_ms) && isnan(result->backward_ms));
    cell->run = result->run != 0 ? result->run : -1;
    cell->precision = precision_name(&cell->of);
    cell->attention = mt_attention_names[cell->of.attention];
    cell->state = mt_run_state_name(result->is_done ? MT_RUN_DONE : MT_RUN_OOM);
    cell->kept = result->kept.is_known ? cell : NULL;
    cell->known_kept = result->kept.is_known ? (int64_t)result->kept.requested_bytes : -1;
    cell->kept_by_square =
        cell->known_kept >= 0 ? (double)cell->known_kept / ((double)cell->of.seq * (double)cell->of.seq) : (double)NAN;
    cell->known_peak = result->is_done ? (int64_t)result->peak_requested_bytes : -1;
    if (result->is_done) {
        cell->peak = cell;
        cell->forward_csv = cell->csv_ms[0];
        cell->backward_csv = cell->csv_ms[1];
        snprintf(cell->csv_ms[0], sizeof cell->csv_ms[0], "%.6f", result->forward_ms);
        snprintf(cell->csv_ms[1], sizeof cell->csv_ms[1], "%.6f", result->backward_ms);
    } else {
        cell->oom = cell;
        cell->oom_category = mt_category_name(result->oom_category);
        cell->oom_phase = mt_phase_name(result->oom_phase);
    }
    fill_account(cell);
    fill_peer(cell);
    fill_shown(cell);
}

static struct mt_figure length_shown(int64_t length, const char *none)
{
    return length > 0 ? mt_figure_number((double)length, "%.0f", (double)length) : mt_figure_words(none);
}

void mt_attention_limit_fill(struct mt_attention_limit *limit)
{
    assert(limit->square_from != 0 && limit->longest >= 0);
    limit->precision = precision_name(&limit->of);
    limit->attention = mt_attention_names[limit->of.attention];
    limit->square_shown = length_shown(limit->square_from, "never");
    limit->longest_shown = length_shown(limit->longest, "none");
}

json_t *mt_attention_json(const struct mt_attention_answer *answer)
{
    return mt_row_json(answer->has_peer ? &mt_attention_answer_type : &answer_type, answer);
}
