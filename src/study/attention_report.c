/* The study for people: its tables, with the variants side by side. */
#include "study/attention_parts.h"

#include "answer/table.h"
#include "model/runtime.h"
#include "model/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct mt_table *mt_study_table(const struct mt_attention_answer *answer, const char *first, const char *second,
                                mt_align align, struct mt_column *columns)
{
    const struct mt_attention_grid *grid = answer->grid;
    columns[0] = (struct mt_column){first, align};
    columns[1] = (struct mt_column){second, align};
    for (size_t v = 0; v < grid->variants.count; v++)
        columns[2 + v] = (struct mt_column){mt_attention_names[grid->variants.values[v]], MT_ALIGN_RIGHT};
    return mt_table_of_cells(answer->screen, columns, 2 + grid->variants.count);
}

/* Whether every variant of the row that begins with cell `first` came to backward. */
static bool is_row_known(const struct mt_attention_answer *answer, size_t first)
{
    for (size_t v = 0; v < answer->grid->variants.count; v++)
        if (!answer->results[first + v].kept.is_known)
            return false;
    return true;
}

size_t mt_study_example(const struct mt_attention_answer *answer)
{
    const struct mt_attention_grid *grid = answer->grid;
    size_t count = mt_attention_grid_count(grid), best = count;
    struct mt_attention_case best_cell = {0};
    for (size_t first = count - mt_attention_grid_part(grid); first < count; first += grid->variants.count) {
        const struct mt_attention_case cell = mt_attention_grid_cell(grid, first);
        bool is_longer = cell.seq > best_cell.seq;
        bool is_nearer = cell.seq == best_cell.seq && llabs(cell.d_model - 64) < llabs(best_cell.d_model - 64);
        if (!is_row_known(answer, first) || (best != count && !is_longer && !is_nearer))
            continue;
        best = first;
        best_cell = cell;
    }
    return best;
}

static void finish_table(const struct mt_attention_answer *answer, struct mt_table *table)
{
    mt_table_print(table);
    mt_table_destroy(table);
    putc('\n', answer->screen.file);
}

/* Adds what there is to say of a cell. */
typedef void (*cell_writer)(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                            struct mt_text *out);

/* Where forward was out of memory, what it would have kept, in brackets. */
static void write_kept(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                       struct mt_text *out)
{
    char kept[MT_BYTES_TEXT];
    uint64_t square_bytes, formula_bytes = mt_attention_account_bytes(cell, &square_bytes);
    if (result->kept.is_known)
        mt_text_add(out, "%s", mt_format_bytes(result->kept.requested_bytes, kept));
    else
        mt_text_add(out, "(%s)", mt_format_bytes(formula_bytes, kept));
}

static void write_peak(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                       struct mt_text *out)
{
    char peak[MT_BYTES_TEXT];
    (void)cell;
    mt_text_add(out, "%s", result->is_done ? mt_format_bytes(result->peak_requested_bytes, peak) : "oom");
}

/* "96.53 MiB / 160.59 MiB" */
static void write_memory(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                         struct mt_text *out)
{
    write_kept(cell, result, out);
    mt_text_add(out, " / ");
    write_peak(cell, result, out);
}

void mt_study_add_ms(struct mt_text *out, double ms)
{
    mt_text_add(out, "%.*f", ms < 10 ? 3 : ms < 100 ? 2 : 1, ms);
}

static void write_forward(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                          struct mt_text *out)
{
    (void)cell;
    if (result->is_done)
        mt_study_add_ms(out, result->forward_ms);
    else
        mt_text_add(out, "oom");
}

static void write_backward(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                           struct mt_text *out)
{
    (void)cell;
    if (result->is_done)
        mt_study_add_ms(out, result->backward_ms);
    else
        mt_text_add(out, "oom");
}

static void write_times(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                        struct mt_text *out)
{
    write_forward(cell, result, out);
    if (!result->is_done)
        return;
    mt_text_add(out, " / ");
    write_backward(cell, result, out);
}

/* What is told of a cell, and under which title. */
struct told {
    const char *title;
    cell_writer write;
};

/* Two figures of each cell: side by side, or each in a table of its own where a terminal has no room for that. */
struct told_pair {
    struct told both, each[2];
    size_t widest; /* characters of both in a cell, as a rule */
};

static const struct told_pair told_of_memory = {.both = {"live before backward / peak", write_memory},
                                                .each = {{"live before backward", write_kept}, {"peak", write_peak}},
                                                .widest = sizeof "1000.00 MiB / 1000.00 MiB" - 1};
static const struct told_pair told_of_times = {
    .both = {"forward / backward, ms", write_times},
    .each = {{"forward, ms", write_forward}, {"backward, ms", write_backward}},
    .widest = sizeof "1000.0 / 1000.0" - 1};

static void add_cells(struct mt_table *table, const struct mt_attention_answer *answer, size_t first, cell_writer write)
{
    for (size_t v = 0; v < answer->grid->variants.count; v++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(answer->grid, first + v);
        struct mt_text text = {0};
        write(&cell, &answer->results[first + v], &text);
        mt_table_add(table, mt_text_get(&text));
        mt_text_release(&text);
    }
}

/* One precision: a row for each width and length. */
static void print_grid(const struct mt_attention_answer *answer, size_t precision, cell_writer write)
{
    const struct mt_attention_grid *grid = answer->grid;
    struct mt_column columns[MT_STUDY_COLUMNS];
    struct mt_table *table = mt_study_table(answer, "d", "seq", MT_ALIGN_RIGHT, columns);
    size_t first = precision * mt_attention_grid_part(grid);
    for (size_t i = 0; i < mt_attention_grid_part(grid); i += grid->variants.count) {
        const struct mt_attention_case cell = mt_attention_grid_cell(grid, first + i);
        mt_table_add_number(table, cell.d_model);
        mt_table_add_number(table, cell.seq);
        add_cells(table, answer, first + i, write);
    }
    finish_table(answer, table);
}

static void print_title(const struct mt_attention_answer *answer)
{
    const struct mt_attention_grid *grid = answer->grid;
    char memory[MT_BYTES_TEXT], workspace[MT_BYTES_TEXT];
    struct mt_text text = {0};
    mt_text_add(&text,
                "One attention layer alone: batch %" PRId64 ", %" PRId64 " head%s, causal, forward and backward, on %s "
                "(%s). Live is what is there before backward: weights, input, output and what forward kept. Live and "
                "peak are the bytes that were asked for, without the %s of workspaces that matrix products take. In "
                "brackets: out of memory (oom) before forward's end; so much it would have kept, by formula.",
                grid->batch, grid->heads, grid->heads == 1 ? "" : "s", answer->device->name,
                mt_format_bytes(answer->memory_bytes, memory),
                mt_format_bytes(2 * (uint64_t)MT_MATMUL_WORKSPACE_BYTES, workspace));
    mt_screen_say(&answer->screen, mt_text_get(&text));
    mt_text_release(&text);
    putc('\n', answer->screen.file);
}

static const char *times_are(const struct mt_attention_answer *answer)
{
    return mt_device_executes(answer->device)
               ? " (medians, by the device's clock)"
               : " (rooflines: what each op must at least take on that card; nothing was computed)";
}

static void print_told(const struct mt_attention_answer *answer, size_t precision, const struct told *told,
                       const char *basis)
{
    struct mt_text title = {0};
    mt_text_add(&title, "%s: %s%s", mt_study_precision_names[answer->grid->precisions.values[precision]], told->title,
                basis);
    mt_screen_say(&answer->screen, mt_text_get(&title));
    print_grid(answer, precision, told->write);
    mt_text_release(&title);
}

static bool has_room(const struct mt_attention_answer *answer, const struct told_pair *pair)
{
    enum { WIDTH_AND_LENGTH = 12, COLUMN_GAP = 2 };
    int columns = answer->screen.columns;
    return columns == 0 ||
           WIDTH_AND_LENGTH + answer->grid->variants.count * (COLUMN_GAP + pair->widest) <= (size_t)columns;
}

static void print_pair(const struct mt_attention_answer *answer, size_t precision, const struct told_pair *pair,
                       const char *basis)
{
    if (has_room(answer, pair)) {
        print_told(answer, precision, &pair->both, basis);
        return;
    }
    for (int i = 0; i < 2; i++)
        print_told(answer, precision, &pair->each[i], basis);
}

static void print_precision(const struct mt_attention_answer *answer, size_t precision)
{
    print_pair(answer, precision, &told_of_memory, "");
    print_pair(answer, precision, &told_of_times, times_are(answer));
}

void mt_attention_write_text(const struct mt_attention_answer *answer)
{
    print_title(answer);
    for (size_t p = 0; p < answer->grid->precisions.count; p++)
        print_precision(answer, p);
    if (answer->has_peer)
        mt_study_print_peer(answer);
    mt_study_print_account(answer);
    mt_study_print_findings(answer);
}
