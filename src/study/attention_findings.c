/* What follows from the study: what the variants save, from which length it matters, and how far memory reaches. */
#include "study/attention_parts.h"

#include "answer/escape.h"
#include "model/settings.h"
#include "study/attention_limits.h"

#include <inttypes.h>
#include <stdio.h>

static void say(const struct mt_attention_answer *answer, struct mt_text *text)
{
    mt_screen_say(&answer->screen, mt_text_get(text));
    mt_text_release(text);
    *text = (struct mt_text){0};
}

/* The cells of a row that keep the most and the least. */
static void find_extremes(const struct mt_attention_answer *answer, size_t first, size_t *out_most, size_t *out_least)
{
    *out_most = *out_least = first;
    for (size_t i = first; i < first + answer->grid->variants.count; i++) {
        uint64_t bytes = answer->results[i].kept.requested_bytes;
        if (bytes > answer->results[*out_most].kept.requested_bytes)
            *out_most = i;
        if (bytes < answer->results[*out_least].kept.requested_bytes)
            *out_least = i;
    }
}

static double total_ms(const struct mt_attention_result *result)
{
    return result->forward_ms + result->backward_ms;
}

static void add_times(const struct mt_attention_answer *answer, size_t most, size_t least, struct mt_text *out)
{
    const struct mt_attention_result *slow = &answer->results[most], *fast = &answer->results[least];
    if (!slow->is_done || !fast->is_done || !(total_ms(fast) > 0))
        return;
    mt_text_add(out, " %s, forward and backward take %.3g ms with the one and %.3g with the other.",
                mt_device_executes(answer->device) ? "Measured" : "By the rooflines", total_ms(slow), total_ms(fast));
}

/* What the variant that keeps least saves. */
static void print_saving(const struct mt_attention_answer *answer, size_t first)
{
    size_t most, least;
    char a[MT_BYTES_TEXT], b[MT_BYTES_TEXT];
    struct mt_text text = {0};
    find_extremes(answer, first, &most, &least);
    if (most == least)
        return;
    const struct mt_attention_case large = mt_attention_grid_cell(answer->grid, most),
                                   small = mt_attention_grid_cell(answer->grid, least);
    uint64_t large_bytes = answer->results[most].kept.requested_bytes,
             small_bytes = answer->results[least].kept.requested_bytes;
    mt_text_add(&text,
                "At %s, d %" PRId64 ", sequence %" PRId64 ", %s has %s live before backward and %s %s: %.3g times as "
                "much.",
                mt_study_precision_names[mt_study_precision_of(&large)], large.d_model, large.seq,
                mt_attention_names[large.attention], mt_format_bytes(large_bytes, a),
                mt_attention_names[small.attention], mt_format_bytes(small_bytes, b),
                (double)large_bytes / (double)small_bytes);
    if (small.attention == MT_ATTENTION_FLASH)
        mt_text_add(&text,
                    " What flash saves is every tensor of size T²: of the weights of attention it keeps one "
                    "number a row, the log-sum-exp, and backward computes them anew from q and k, tile by tile.");
    add_times(answer, most, least, &text);
    say(answer, &text);
    putc('\n', answer->screen.file);
}

typedef int64_t (*limit_reader)(const struct mt_attention_limit *limit);

static int64_t square_from(const struct mt_attention_limit *limit)
{
    return limit->square_from;
}

static int64_t longest(const struct mt_attention_limit *limit)
{
    return limit->longest;
}

static void print_limits(const struct mt_attention_answer *answer, limit_reader read, const char *none)
{
    const struct mt_attention_grid *grid = answer->grid;
    struct mt_column columns[MT_STUDY_COLUMNS];
    struct mt_table *table = mt_study_table(answer, "d", "precision", MT_ALIGN_LEFT, columns);
    for (size_t p = 0; p < grid->precisions.count; p++)
        for (size_t w = 0; w < grid->widths.count; w++) {
            mt_table_add_number(table, grid->widths.values[w]);
            mt_table_add(table, mt_study_precision_names[grid->precisions.values[p]]);
            for (size_t v = 0; v < grid->variants.count; v++) {
                int64_t length = read(mt_attention_limit_at(answer, p, w, v));
                if (length == 0)
                    mt_table_add(table, none);
                else
                    mt_table_add_number(table, length);
            }
        }
    mt_table_print(table);
    mt_table_destroy(table);
    putc('\n', answer->screen.file);
}

static void print_square(const struct mt_attention_answer *answer)
{
    struct mt_text text = {0};
    mt_text_add(&text,
                "A sequence twice as long doubles the terms with T and quadruples those with T². The shortest one "
                "at which those with T² are more than half of what is live before backward, by formula:");
    say(answer, &text);
    print_limits(answer, square_from, "never");
}

static void print_longest(const struct mt_attention_answer *answer)
{
    struct mt_text text = {0};
    char memory[MT_BYTES_TEXT];
    mt_text_add(&text,
                "The longest sequence whose forward and backward fit into the %s of %s, workspaces included; every "
                "length that was tried was simulated, in steps of %d up to %d:",
                mt_format_bytes(answer->memory_bytes, memory), answer->device->name, MT_STUDY_LENGTH_STEP,
                MT_STUDY_LONGEST);
    say(answer, &text);
    print_limits(answer, longest, "none");
}

void mt_study_print_findings(const struct mt_attention_answer *answer)
{
    size_t example = mt_study_example(answer);
    if (example < mt_attention_grid_count(answer->grid))
        print_saving(answer, example);
    print_square(answer);
    print_longest(answer);
}
