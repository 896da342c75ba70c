/* The study for people: its tables, with the variants side by side. */
#include "cli/study/attention_parts.h"

#include "cli/output/output.h"
#include "cli/run/run_settings.h"
#include "model/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct mt_table *mt_study_table(const struct mt_attention_grid *grid, const char *first, const char *second,
                                mt_align align, struct mt_column *columns)
{
    columns[0] = (struct mt_column){first, align};
    columns[1] = (struct mt_column){second, align};
    for (size_t v = 0; v < grid->variants.count; v++)
        columns[2 + v] = (struct mt_column){mt_attention_names[grid->variants.values[v]], MT_ALIGN_RIGHT};
    return mt_table_create(columns, 2 + grid->variants.count);
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

static void finish_table(struct mt_table *table)
{
    mt_table_print(table);
    mt_table_destroy(table);
    putchar('\n');
}

/* Adds what there is to say of a cell. */
typedef void (*cell_writer)(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                            struct mt_text *out);

/* "96.53 MiB / 160.59 MiB"; where forward was out of memory, what it would have kept, in brackets. */
static void write_memory(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                         struct mt_text *out)
{
    char kept[MT_BYTES_TEXT], peak[MT_BYTES_TEXT];
    uint64_t square_bytes, formula_bytes = mt_attention_account_bytes(cell, &square_bytes);
    if (!result->kept.is_known)
        mt_text_add(out, "(%s) / oom", mt_format_bytes(formula_bytes, kept));
    else
        mt_text_add(out, "%s / %s", mt_format_bytes(result->kept.requested_bytes, kept),
                    result->is_done ? mt_format_bytes(result->peak_requested_bytes, peak) : "oom");
}

void mt_study_add_ms(struct mt_text *out, double ms)
{
    mt_text_add(out, "%.*f", ms < 10 ? 3 : ms < 100 ? 2 : 1, ms);
}

static void write_times(const struct mt_attention_case *cell, const struct mt_attention_result *result,
                        struct mt_text *out)
{
    (void)cell;
    if (!result->is_done) {
        mt_text_add(out, "oom");
        return;
    }
    mt_study_add_ms(out, result->forward_ms);
    mt_text_add(out, " / ");
    mt_study_add_ms(out, result->backward_ms);
}

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
    struct mt_table *table = mt_study_table(grid, "d", "seq", MT_ALIGN_RIGHT, columns);
    size_t first = precision * mt_attention_grid_part(grid);
    for (size_t i = 0; i < mt_attention_grid_part(grid); i += grid->variants.count) {
        const struct mt_attention_case cell = mt_attention_grid_cell(grid, first + i);
        mt_table_add_number(table, cell.d_model);
        mt_table_add_number(table, cell.seq);
        add_cells(table, answer, first + i, write);
    }
    finish_table(table);
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
    mt_print_wrapped(mt_text_get(&text), 0);
    mt_text_release(&text);
    putchar('\n');
}

static const char *times_are(const struct mt_attention_answer *answer)
{
    return mt_device_executes(answer->device)
               ? "medians, by the device's clock"
               : "rooflines: what each op must at least take on that card; nothing was computed";
}

static void print_precision(const struct mt_attention_answer *answer, size_t precision)
{
    printf("%s: live before backward / peak\n", mt_study_precision_names[answer->grid->precisions.values[precision]]);
    print_grid(answer, precision, write_memory);
    printf("%s: forward / backward, ms (%s)\n", mt_study_precision_names[answer->grid->precisions.values[precision]],
           times_are(answer));
    print_grid(answer, precision, write_times);
}

void mt_attention_print_text(const struct mt_attention_answer *answer)
{
    print_title(answer);
    for (size_t p = 0; p < answer->grid->precisions.count; p++)
        print_precision(answer, p);
    if (answer->has_peer)
        mt_study_print_peer(answer);
    mt_study_print_account(answer);
    mt_study_print_findings(answer);
}
