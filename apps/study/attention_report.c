/* The attention study as text: tables with the variants side by side, and conclusions. */
#include "producers/model/settings.h"
#include "study/attention_answer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIANTS = MT_ATTENTION_FLASH + 1, LABELS = 2 };

/* A row with the variants side by side, after two labels. */
struct pivot_row {
    const char *labels[LABELS];
    struct mt_figure figures[VARIANTS];
};

/* A table of such rows. A label's heading is its column's heading. */
struct pivot {
    struct mt_field fields[LABELS + VARIANTS + 1];
    struct mt_row_type type;
    struct mt_table *table;
};

/* Prints words and an empty line. Releases the text. */
static void say(const struct mt_attention_answer *answer, struct mt_text *text)
{
    mt_screen_line(&answer->screen, text);
    mt_screen_gap(&answer->screen);
}

static size_t variant_count(const struct mt_attention_answer *answer)
{
    return answer->grid.variants.count;
}

/* Starts a table of the variants. `labels` are the fields for the first columns' headings and alignment. */
static void pivot_begin(const struct mt_attention_answer *answer, const struct mt_field *labels[LABELS],
                        const char *spare, struct pivot *out)
{
    *out = (struct pivot){.type = {sizeof(struct pivot_row), out->fields}};
    for (size_t i = 0; i < LABELS; i++) {
        out->fields[i] = *labels[i];
        out->fields[i].kind = mt_field_is_number(labels[i]) ? MT_FIELD_DIGITS : MT_FIELD_TEXT;
        out->fields[i].offset = offsetof(struct pivot_row, labels) + i * sizeof(const char *);
    }
    for (size_t v = 0; v < variant_count(answer); v++) {
        const char *name = mt_attention_names[answer->grid.variants.values[v]];
        out->fields[LABELS + v] =
            (struct mt_field){.kind = MT_FIELD_FIGURE,
                              .name = name,
                              .heading = name,
                              .offset = offsetof(struct pivot_row, figures) + v * sizeof(struct mt_figure)};
    }
    out->table = mt_table_of_rows(answer->screen, &out->type, NULL, spare);
}

static void pivot_print(struct pivot *pivot)
{
    mt_table_print(pivot->table);
    mt_table_destroy(pivot->table);
}

/* Prints items, which are consecutive for all variants, as a table: by two of their fields, with the figure `shown` of
 * each. */
static void print_pivot(const struct mt_attention_answer *answer, const struct mt_row_type *type, const void *items,
                        size_t count, const char *const names[LABELS], const char *shown)
{
    const struct mt_field *figure = mt_row_field(type, shown), *labels[LABELS];
    struct pivot pivot;
    assert(count % variant_count(answer) == 0 && figure->kind == MT_FIELD_FIGURE);
    for (int i = 0; i < LABELS; i++)
        labels[i] = mt_row_field(type, names[i]);
    pivot_begin(answer, labels, NULL, &pivot);
    for (size_t first = 0; first < count; first += variant_count(answer)) {
        const char *item = (const char *)items + first * type->bytes;
        struct mt_text texts[LABELS] = {0};
        struct pivot_row row = {0};
        for (int i = 0; i < LABELS; i++) {
            mt_field_add_shown(labels[i], item, &texts[i]);
            row.labels[i] = mt_text_get(&texts[i]);
        }
        for (size_t v = 0; v < variant_count(answer); v++)
            row.figures[v] = *(const struct mt_figure *)(item + v * type->bytes + figure->offset);
        mt_table_add_rows(pivot.table, &row, 1);
        for (int i = 0; i < LABELS; i++)
            mt_text_release(&texts[i]);
    }
    pivot_print(&pivot);
    putc('\n', answer->screen.file);
}

static void print_title(const struct mt_attention_answer *answer)
{
    const struct mt_attention_grid *grid = &answer->grid;
    struct mt_text text = {0};
    mt_text_add(
        &text,
        "One attention layer alone%s: batch %" PRId64 ", %" PRId64 " head%s, %s, forward and backward, on %s "
        "(%s). Live is the memory just before backward: %s, output and the tensors that forward "
        "kept. Live and peak are requested bytes, without the %s of workspaces of matrix products. In brackets: "
        "the bytes that would be live, by formula, where forward ran out of memory (oom).",
        grid->without_projections ? ", without projections" : "", grid->batch, grid->heads, grid->heads == 1 ? "" : "s",
        grid->without_mask ? "without a mask" : "causal", answer->device_name, MT_SIZE(answer->memory_bytes),
        grid->without_projections ? "q, k, v" : "weights, input", MT_SIZE(2 * answer->workspace_bytes));
    say(answer, &text);
}

/* Two figures of each cell, as names of its fields: side by side, or in separate tables if the terminal is too
 * narrow. */
struct figures {
    const char *both, *each[2];
    size_t widest; /* usual number of characters of both in a cell */
};

static const struct figures memory_figures = {"memory", {"live", "highest"}, sizeof "1000.00 MiB / 1000.00 MiB" - 1};
static const struct figures time_figures = {"times", {"forward", "backward"}, sizeof "1000.0 / 1000.0" - 1};

static bool has_room(const struct mt_attention_answer *answer, const struct figures *figures)
{
    enum { WIDTH_AND_LENGTH = 12, COLUMN_GAP = 2 };
    int columns = answer->screen.columns;
    return columns == 0 || WIDTH_AND_LENGTH + variant_count(answer) * (COLUMN_GAP + figures->widest) <= (size_t)columns;
}

/* Prints a figure of the cells of one precision: a row for each width and length. */
static void print_figure(const struct mt_attention_answer *answer, size_t precision, const char *name,
                         const char *basis)
{
    static const char *const rows_by[LABELS] = {"d", "seq"};
    const size_t part = mt_attention_grid_part(&answer->grid);
    const struct mt_attention_cell *cells = &answer->cells[precision * part];
    struct mt_text title = {0};
    mt_text_add(&title, "%s: %s%s", cells->precision, mt_row_field(&mt_attention_cell_type, name)->heading, basis);
    mt_screen_line(&answer->screen, &title);
    print_pivot(answer, &mt_attention_cell_type, cells, part, rows_by, name);
}

static void print_figures(const struct mt_attention_answer *answer, size_t precision, const struct figures *figures,
                          const char *basis)
{
    if (has_room(answer, figures)) {
        print_figure(answer, precision, figures->both, basis);
        return;
    }
    for (int i = 0; i < 2; i++)
        print_figure(answer, precision, figures->each[i], basis);
}

#define CELL struct mt_attention_cell
static const struct mt_field peer_fields[] = {
    MT_SHOWN(INTEGER, int64_t, CELL, of.d_model, "d", "d"),
    MT_SHOWN(INTEGER, int64_t, CELL, of.seq, "seq", "seq"),
    MT_SHOWN(TEXT, const char *, CELL, attention, "variant", "variant"),
    MT_SHOWN(BYTES, uint64_t, CELL, result.kept.requested_bytes, "live", "live"),
    MT_SHOWN(BYTES, uint64_t, CELL, peer_kept, "live_peer", "PyTorch"),
    MT_SHOWN(BYTES, uint64_t, CELL, result.peak_requested_bytes, "peak", "peak"),
    MT_SHOWN(BYTES, uint64_t, CELL, peer_peak, "peak_peer", "PyTorch"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, forward_shown, "forward", "forward"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, peer_forward_shown, "forward_peer", "PyTorch"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, backward_shown, "backward", "backward"),
    MT_SHOWN(FIGURE, struct mt_figure, CELL, peer_backward_shown, "backward_peer", "PyTorch"),
    MT_FIELDS_END,
};
static const struct mt_row_type peer_type = MT_ROW_TYPE(CELL, peer_fields);
#undef CELL

static void print_peer_of(const struct mt_attention_answer *answer, size_t precision)
{
    const size_t part = mt_attention_grid_part(&answer->grid);
    struct mt_table *table = mt_table_of_rows(answer->screen, &peer_type, NULL, NULL);
    size_t count = 0;
    for (size_t i = precision * part; i < (precision + 1) * part; i++) {
        const struct mt_attention_cell *cell = &answer->cells[i];
        if (cell->peer == NULL || !cell->result.is_done)
            continue;
        mt_table_add_rows(table, cell, 1);
        count++;
    }
    if (count > 0) {
        fprintf(answer->screen.file, "%s compared with PyTorch\n", answer->cells[precision * part].precision);
        mt_table_print(table);
        putc('\n', answer->screen.file);
    }
    mt_table_destroy(table);
}

static void print_peer(const struct mt_attention_answer *answer)
{
    struct mt_text text = {0};
    mt_text_add(
        &text,
        "Compared with PyTorch 2.11 on an H200 (batch 8, one head; its fp32 with products in TF32): memory without "
        "workspaces, times in ms%s. softmax is compared with torch.softmax, flash with "
        "scaled_dot_product_attention.",
        answer->executes ? "" : ", ours estimates");
    say(answer, &text);
    for (size_t p = 0; p < answer->grid.precisions.count; p++)
        print_peer_of(answer, p);
}

/* True if every variant in the row that begins with cell `first` reached backward. */
static bool is_row_known(const struct mt_attention_answer *answer, size_t first)
{
    for (size_t v = 0; v < variant_count(answer); v++)
        if (!answer->cells[first + v].result.kept.is_known)
            return false;
    return true;
}

/* Returns the first cell of the row that is best for an explanation; NULL if there is none. It is the longest sequence
 * for which every variant reached backward, with the width nearest to 64, in the last precision. */
static const struct mt_attention_cell *find_example(const struct mt_attention_answer *answer)
{
    const struct mt_attention_cell *best = NULL;
    for (size_t first = answer->cell_count - mt_attention_grid_part(&answer->grid); first < answer->cell_count;
         first += variant_count(answer)) {
        const struct mt_attention_case *of = &answer->cells[first].of;
        bool is_better = best == NULL || of->seq > best->of.seq ||
                         (of->seq == best->of.seq && llabs(of->d_model - 64) < llabs(best->of.d_model - 64));
        if (is_better && is_row_known(answer, first))
            best = &answer->cells[first];
    }
    return best;
}

/* The terms of all variants, without duplicates, in the order of the first variant that has them. */
struct account {
    struct pivot_row rows[VARIANTS * MT_ATTENTION_MOST_TERMS];
    size_t count;
};

static struct pivot_row *find_row(struct account *account, const struct mt_attention_term *term)
{
    for (size_t i = 0; i < account->count; i++)
        if (strcmp(account->rows[i].labels[0], term->what) == 0)
            return &account->rows[i];
    assert(account->count < VARIANTS * MT_ATTENTION_MOST_TERMS);
    struct pivot_row *row = &account->rows[account->count++];
    *row = (struct pivot_row){.labels = {term->what, term->formula}};
    return row;
}

/* Adds the terms of each variant, then the sum by formula, the measurement, and their difference. */
static void add_account(const struct mt_attention_answer *answer, const struct mt_attention_cell *cells,
                        struct pivot *pivot)
{
    struct account account = {0};
    struct pivot_row sums[] = {{.labels = {"sum", ""}},
                               {.labels = {"measured", ""}},
                               {.labels = {"difference", ""}},
                               {.labels = {"workspaces", ""}},
                               {.labels = {"with workspaces", ""}}};
    for (size_t v = 0; v < variant_count(answer); v++) {
        const struct mt_attention_cell *cell = &cells[v];
        for (size_t i = 0; i < cell->term_count; i++)
            find_row(&account, &cell->terms[i])->figures[v] = mt_figure_bytes(cell->terms[i].bytes);
        sums[0].figures[v] = mt_figure_bytes(cell->formula_bytes);
        sums[1].figures[v] = mt_figure_bytes(cell->result.kept.requested_bytes);
        sums[2].figures[v] = mt_figure_difference(cell->difference_bytes);
        sums[3].figures[v] = mt_figure_bytes(cell->result.kept.workspace_bytes);
        sums[4].figures[v] = mt_figure_bytes(cell->result.kept.requested_bytes + cell->result.kept.workspace_bytes);
    }
    mt_table_add_rows(pivot->table, account.rows, account.count);
    mt_table_add_rows(pivot->table, sums, sizeof sums / sizeof sums[0]);
}

/* Prints for how many of the cells that reached backward the measurement differs from the formula. */
static void print_agreement(const struct mt_attention_answer *answer)
{
    size_t known = 0, different = 0;
    struct mt_text text = {0};
    for (size_t i = 0; i < answer->cell_count; i++) {
        known += answer->cells[i].result.kept.is_known;
        different += answer->cells[i].result.kept.is_known && answer->cells[i].difference_bytes != 0;
    }
    if (different == 0)
        mt_text_add(&text, "This holds in every cell: measured less formula is 0 B in all %zu that reached backward.",
                    known);
    else
        mt_text_add(
            &text,
            "In %zu of the %zu cells that reached backward the measurement differs from the formula: the JSON has "
            "the difference of each.",
            different, known);
    say(answer, &text);
}

/* Prints the terms of the variants in this row, next to the measurements. */
static void print_account(const struct mt_attention_answer *answer, const struct mt_attention_cell *cells)
{
    static const struct mt_field kept = {.kind = MT_FIELD_TEXT, .name = "kept", .heading = "kept"},
                                 formula = {.kind = MT_FIELD_TEXT, .name = "formula", .heading = "formula"};
    const struct mt_field *labels[LABELS] = {&kept, &formula};
    const struct mt_attention_case *of = &cells->of;
    struct pivot pivot;
    struct mt_text text = {0};
    mt_text_add(&text, "Live before backward, by formula, at %s, d %" PRId64 ", sequence %" PRId64, cells->precision,
                of->d_model, of->seq);
    mt_screen_line(&answer->screen, &text);
    pivot_begin(answer, labels, "formula", &pivot);
    add_account(answer, cells, &pivot);
    pivot_print(&pivot);
    mt_text_add(&text, "B = %" PRId64 ", H = %" PRId64 " head%s, T the sequence, C = d, w = %zu bytes an element",
                of->batch, of->heads, of->heads == 1 ? "" : "s", mt_dtype_bytes(of->dtype));
    mt_screen_line(&answer->screen, &text);
    print_agreement(answer);
}

static double total_ms(const struct mt_attention_cell *cell)
{
    return cell->result.forward_ms + cell->result.backward_ms;
}

/* Prints how much less the best variant keeps than the worst. */
static void print_saving(const struct mt_attention_answer *answer, const struct mt_attention_cell *cells)
{
    const struct mt_attention_cell *most = cells, *least = cells;
    struct mt_text text = {0};
    for (const struct mt_attention_cell *cell = cells; cell < cells + variant_count(answer); cell++) {
        most = cell->known_kept > most->known_kept ? cell : most;
        least = cell->known_kept < least->known_kept ? cell : least;
    }
    if (most == least)
        return;
    mt_text_add(&text,
                "At %s, d %" PRId64 ", sequence %" PRId64 ", %s has %s live before backward and %s %s: %.3g times as "
                "much.",
                most->precision, most->of.d_model, most->of.seq, most->attention, most->kept_shown.text,
                least->attention, least->kept_shown.text, (double)most->known_kept / (double)least->known_kept);
    if (least->of.attention == MT_ATTENTION_FLASH)
        mt_text_add(&text,
                    " What flash saves is every tensor of size T²: of the weights of attention it keeps one "
                    "number a row, the log-sum-exp, and backward computes them anew from q and k, tile by tile.");
    if (most->result.is_done && least->result.is_done && total_ms(least) > 0)
        mt_text_add(&text, " %s, forward and backward take %.3g ms with the one and %.3g with the other.",
                    answer->executes ? "Measured" : "By the estimates", total_ms(most), total_ms(least));
    say(answer, &text);
}

static void print_limits(const struct mt_attention_answer *answer)
{
    static const char *const rows_by[LABELS] = {"d", "precision"};
    struct mt_text text = {0};
    mt_text_add(&text,
                "A sequence twice as long doubles the terms with T and quadruples the terms with T². The shortest "
                "sequence at which terms with T² are more than half of the live bytes before backward, by formula:");
    mt_screen_line(&answer->screen, &text);
    print_pivot(answer, &mt_attention_limit_type, answer->limits, answer->limit_count, rows_by, "square");
    mt_text_add(&text,
                "The longest sequence whose forward and backward fit into the %s of %s, workspaces included; every "
                "length that was tried was simulated, in steps of %d up to %d:",
                MT_SIZE(answer->memory_bytes), answer->device_name, MT_STUDY_LENGTH_STEP, MT_STUDY_LONGEST);
    mt_screen_line(&answer->screen, &text);
    print_pivot(answer, &mt_attention_limit_type, answer->limits, answer->limit_count, rows_by, "longest");
}

void mt_attention_write_text(const struct mt_attention_answer *answer)
{
    const struct mt_attention_cell *example = find_example(answer);
    const char *basis = answer->executes ? " (medians, by the device's clock)"
                                         : " (estimates, from the figures of that card; nothing was computed)";
    print_title(answer);
    for (size_t p = 0; p < answer->grid.precisions.count; p++) {
        print_figures(answer, p, &memory_figures, "");
        print_figures(answer, p, &time_figures, basis);
    }
    if (answer->has_peer)
        print_peer(answer);
    if (example != NULL) {
        print_account(answer, example);
        print_saving(answer, example);
    }
    print_limits(answer);
}
