/* What an attention layer keeps, term by term, beside what was measured. */
#include "study/attention_parts.h"

#include "answer/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A term that any of the variants has: the terms of all in the order in which a reader meets them. */
struct account_line {
    const char *what, *formula;
    const struct mt_attention_term *of[MT_STUDY_VARIANTS]; /* NULL: the variant keeps none */
};

/* Every term of every variant, each once. */
struct account {
    struct mt_attention_term terms[MT_STUDY_VARIANTS][MT_ATTENTION_MOST_TERMS];
    struct account_line lines[MT_STUDY_VARIANTS * MT_ATTENTION_MOST_TERMS];
    size_t count;
};

static struct account_line *find_line(struct account *account, const struct mt_attention_term *term)
{
    for (size_t i = 0; i < account->count; i++)
        if (strcmp(account->lines[i].what, term->what) == 0)
            return &account->lines[i];
    struct account_line *line = &account->lines[account->count++];
    *line = (struct account_line){.what = term->what, .formula = term->formula};
    return line;
}

static void fill_account(const struct mt_attention_grid *grid, size_t first, struct account *out)
{
    *out = (struct account){0};
    for (size_t v = 0; v < grid->variants.count; v++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(grid, first + v);
        size_t count = mt_attention_account(&cell, out->terms[v]);
        for (size_t i = 0; i < count; i++)
            find_line(out, &out->terms[v][i])->of[v] = &out->terms[v][i];
    }
}

static void add_line(struct mt_table *table, const struct mt_attention_grid *grid, const struct account_line *line)
{
    mt_table_add(table, line->what);
    mt_table_add(table, line->formula);
    for (size_t v = 0; v < grid->variants.count; v++) {
        if (line->of[v] != NULL)
            mt_table_add_bytes(table, line->of[v]->bytes);
        else
            mt_table_add(table, "-");
    }
}

/* The sum by formula, what was measured, and their difference. */
static void add_sums(struct mt_table *table, const struct mt_attention_answer *answer, size_t first)
{
    static const char *const names[] = {"sum", "measured", "difference"};
    for (int row = 0; row < 3; row++) {
        mt_table_add(table, names[row]);
        mt_table_add(table, "");
        for (size_t v = 0; v < answer->grid->variants.count; v++) {
            const struct mt_attention_case cell = mt_attention_grid_cell(answer->grid, first + v);
            uint64_t square_bytes, formula = mt_attention_account_bytes(&cell, &square_bytes),
                                   measured = answer->results[first + v].kept.requested_bytes;
            char difference[MT_BYTES_TEXT];
            if (row < 2)
                mt_table_add_bytes(table, row == 0 ? formula : measured);
            else
                mt_table_add(table, mt_format_difference((int64_t)(measured - formula), difference));
        }
    }
}

/* How many cells are known before backward, and how many of them differ from their formula. */
static size_t count_known(const struct mt_attention_answer *answer, size_t *out_different)
{
    size_t known = 0;
    *out_different = 0;
    for (size_t i = 0; i < mt_attention_grid_count(answer->grid); i++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(answer->grid, i);
        uint64_t square_bytes, formula = mt_attention_account_bytes(&cell, &square_bytes);
        if (!answer->results[i].kept.is_known)
            continue;
        known++;
        *out_different += answer->results[i].kept.requested_bytes != formula;
    }
    return known;
}

static void print_agreement(const struct mt_attention_answer *answer)
{
    size_t different, known = count_known(answer, &different);
    struct mt_text text = {0};
    if (different == 0)
        mt_text_add(&text, "So it is in every cell: measured less formula is 0 B in all %zu that came to backward.",
                    known);
    else
        mt_text_add(&text,
                    "In %zu of the %zu cells that came to backward the measurement differs from the formula (the "
                    "answer in JSON tells each).",
                    different, known);
    mt_screen_say(&answer->screen, mt_text_get(&text));
    mt_text_release(&text);
    putc('\n', answer->screen.file);
}

void mt_study_print_account(const struct mt_attention_answer *answer)
{
    size_t first = mt_study_example(answer);
    if (first == mt_attention_grid_count(answer->grid))
        return;
    const struct mt_attention_grid *grid = answer->grid;
    const struct mt_attention_case cell = mt_attention_grid_cell(grid, first);
    static const char *const spare[] = {"formula", NULL};
    struct mt_column columns[MT_STUDY_COLUMNS];
    struct account account;
    fill_account(grid, first, &account);
    fprintf(answer->screen.file, "Live before backward, by formula, at %s, d %" PRId64 ", sequence %" PRId64 "\n",
            mt_study_precision_names[mt_study_precision_of(&cell)], cell.d_model, cell.seq);
    struct mt_table *table = mt_study_table(answer, "kept", "formula", MT_ALIGN_LEFT, columns);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < account.count; i++)
        add_line(table, grid, &account.lines[i]);
    add_sums(table, answer, first);
    mt_table_print(table);
    mt_table_destroy(table);
    fprintf(answer->screen.file,
            "B = %" PRId64 ", H = %" PRId64 " head%s, T the sequence, C = d, w = %zu bytes an element\n", grid->batch,
            grid->heads, grid->heads == 1 ? "" : "s", mt_dtype_bytes(cell.dtype));
    print_agreement(answer);
}
