/* A diff for people: the answer in one sentence, then what it rests on. */
#include "cli/explain/diff_answer.h"
#include "words/diff_words.h"

#include "answer/table.h"
#include "cli/output/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMED_CAUSES = 2,     /* that the first sentence names for each direction */
    SMALL_CAUSE_PART = 50 /* a cause below this part of the largest matters little */
};

static const char side_letter[MT_SIDE_COUNT] = {[MT_SIDE_A] = 'A', [MT_SIDE_B] = 'B'};

/* "+4.28 GiB" */
static void add_difference(struct mt_text *out, int64_t bytes)
{
    char text[MT_BYTES_TEXT];
    mt_text_add(out, "%s", mt_format_difference(bytes, text));
}

static uint64_t magnitude(int64_t bytes)
{
    return bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
}

/* Names of a trace are made visible before lines are broken. */
static void print_sentence(const char *text, size_t indent)
{
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, text);
    mt_print_wrapped(mt_text_get(&visible), indent);
    mt_text_release(&visible);
}

static bool has_sign(const struct mt_diff_cause *cause, bool is_up)
{
    return (cause->bytes > 0) == is_up;
}

/* How many causes go that way, and what they sum to. */
static size_t count_causes(const struct mt_diff_parts *parts, bool is_up, int64_t *out_bytes)
{
    size_t count = 0;
    *out_bytes = 0;
    for (size_t i = 0; i < parts->cause_count; i++) {
        if (!has_sign(&parts->causes[i], is_up))
            continue;
        count++;
        *out_bytes += parts->causes[i].bytes;
    }
    return count;
}

/* Adds the causes of one direction: "weight casts cached for the autocast region (+6.30 GiB), … and 3 more causes (+…)".
 * Returns how many there are. */
static size_t add_causes_of(const struct mt_diff *diff, bool is_up, struct mt_text *out)
{
    const struct mt_diff_parts *parts = &diff->allocated;
    int64_t rest;
    size_t count = count_causes(parts, is_up, &rest), named = 0;
    for (size_t i = 0; i < parts->cause_count && named < NAMED_CAUSES; i++) {
        const struct mt_diff_cause *cause = &parts->causes[i];
        if (!has_sign(cause, is_up))
            continue;
        mt_text_add(out, "%s", named == 0 ? "" : named + 1 == count ? " and " : ", ");
        mt_diff_cause_add_title(diff, cause, out);
        mt_text_add(out, " (");
        add_difference(out, cause->bytes);
        mt_text_add(out, ")");
        rest -= cause->bytes;
        named++;
    }
    if (count > named) {
        mt_text_add(out, " and %zu more cause%s (", count - named, count - named == 1 ? "" : "s");
        add_difference(out, rest);
        mt_text_add(out, ")");
    }
    return count;
}

static bool differ_in_one(const struct mt_diff_answer *answer)
{
    return answer->changes.different_count == 1 && answer->changes.unknown_count == 0;
}

/* "with autocast bf16", where that is the one thing that differs; "B" otherwise. */
static void add_subject(const struct mt_diff_answer *answer, mt_side side, struct mt_text *out)
{
    if (!differ_in_one(answer)) {
        mt_text_add(out, "%c", side_letter[side]);
        return;
    }
    const struct mt_setting_pair *change = &answer->changes.different[0];
    mt_text_add(out, "%s %s ", side == MT_SIDE_A ? "with" : "With", change->name);
    mt_setting_add_value(change->name, side == MT_SIDE_A ? change->a : change->b, out);
}

static bool ran_out(const struct mt_diff_answer *answer, mt_side side)
{
    return mt_run_is(answer->question[side].run, MT_RUN_OOM);
}

/* "With autocast bf16 the run needs 4.28 GiB more than with autocast off". Of a run that ran out of memory it is known
 * only that it needs more than it had: so it is "at least" where that is the one that needs more, and "before memory ran
 * out" elsewhere. */
static void add_comparison(const struct mt_diff_answer *answer, struct mt_text *out)
{
    int64_t bytes = answer->diff.allocated.delta_bytes;
    bool is_a_oom = ran_out(answer, MT_SIDE_A), is_b_oom = ran_out(answer, MT_SIDE_B);
    bool is_bound = (is_b_oom && !is_a_oom && bytes > 0) || (is_a_oom && !is_b_oom && bytes < 0);
    char size[MT_BYTES_TEXT];
    add_subject(answer, MT_SIDE_B, out);
    mt_text_add(out, "%s %s ", differ_in_one(answer) ? " the run" : "", is_b_oom && !is_bound ? "reached" : "needs");
    if (bytes == 0)
        mt_text_add(out, "as much as ");
    else
        mt_text_add(out, "%s%s %s than ", is_bound ? "at least " : "", mt_format_bytes(magnitude(bytes), size),
                    bytes > 0 ? "more" : "less");
    add_subject(answer, MT_SIDE_A, out);
    if (is_a_oom && is_b_oom)
        mt_text_add(out, " before both ran out of memory");
    else if ((is_a_oom || is_b_oom) && !is_bound)
        mt_text_add(out, " before memory ran out");
}

static void print_answer(const struct mt_diff_answer *answer)
{
    const struct mt_diff_parts *parts = &answer->diff.allocated;
    struct mt_text text = {0}, against = {0};
    add_comparison(answer, &text);
    if (parts->delta_bytes != 0) {
        mt_text_add(&text, ", because of ");
        add_causes_of(&answer->diff, parts->delta_bytes > 0, &text);
        if (add_causes_of(&answer->diff, parts->delta_bytes < 0, &against) > 0)
            mt_text_add(&text, "; against that stand %s", mt_text_get(&against));
    }
    mt_text_add(&text, ".");
    print_sentence(mt_text_get(&text), 0);
    putchar('\n');
    mt_text_release(&text);
    mt_text_release(&against);
}

/* "run 3 (baseline), sim:h200, done, 4 steps: peak in step 0, forward, at model.lm_head" */
static void print_side(const struct mt_diff_answer *answer, mt_side which)
{
    const struct mt_run *run = answer->question[which].run;
    const struct mt_diff_side *side = &answer->diff.side[which];
    char step[MT_BYTES_TEXT];
    struct mt_text text = {0};
    mt_text_add(&text, "%c  run %" PRId64, side_letter[which], run->id);
    if (run->name != NULL)
        mt_text_add(&text, " (%s)", run->name);
    mt_text_add(&text, ", %s, %s, %" PRId64 " step%s; allocated peak in %s", run->device, run->state, run->steps,
                run->steps == 1 ? "" : "s", mt_format_step(side->step, step));
    if (side->phase[0] != '\0')
        mt_text_add(&text, ", %s", side->phase);
    if (side->span[0] != '\0')
        mt_text_add(&text, ", at %s", side->span);
    print_sentence(mt_text_get(&text), 3);
    mt_text_release(&text);
}

static void add_differences(const struct mt_settings_difference *changes, struct mt_text *out)
{
    if (changes->different_count == 0)
        mt_text_add(out, "They differ in no setting that %s.",
                    changes->unknown_count == 0 ? "could change memory" : "both tell of");
    else
        mt_text_add(out, "They differ in ");
    for (size_t i = 0; i < changes->different_count; i++) {
        mt_text_add(out, "%s", i > 0 ? "; " : "");
        mt_setting_add_change(&changes->different[i], ": ", out);
    }
}

static void print_changes(const struct mt_diff_answer *answer)
{
    struct mt_text text = {0};
    add_differences(&answer->changes, &text);
    print_sentence(mt_text_get(&text), 0);
    mt_text_release(&text);
}

static void add_signed(struct mt_table *table, int64_t bytes)
{
    char text[MT_BYTES_TEXT];
    mt_table_add(table, mt_format_difference(bytes, text));
}

static void add_percent(struct mt_table *table, uint64_t a, uint64_t b)
{
    char text[MT_BYTES_TEXT];
    if (a == 0)
        snprintf(text, sizeof text, "-");
    else
        snprintf(text, sizeof text, "%+.1f %%", 100 * ((double)b - (double)a) / (double)a);
    mt_table_add(table, text);
}

static void print_peaks(const struct mt_diff *diff)
{
    static const struct mt_column columns[] = {{"peak", MT_ALIGN_LEFT},   {"A", MT_ALIGN_RIGHT},
                                               {"B", MT_ALIGN_RIGHT},     {"difference", MT_ALIGN_RIGHT},
                                               {"bytes", MT_ALIGN_RIGHT}, {"percent", MT_ALIGN_RIGHT}};
    const struct mt_diff_side *a = &diff->side[MT_SIDE_A], *b = &diff->side[MT_SIDE_B];
    const struct {
        const char *name;
        uint64_t a, b;
    } rows[] = {{"allocated", a->allocated_bytes, b->allocated_bytes},
                {"reserved", a->reserved_bytes, b->reserved_bytes}};
    static const char *const spare[] = {"bytes", "percent", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mt_table_add(table, rows[i].name);
        mt_table_add_bytes(table, rows[i].a);
        mt_table_add_bytes(table, rows[i].b);
        add_signed(table, (int64_t)(rows[i].b - rows[i].a));
        mt_table_add_number(table, (int64_t)(rows[i].b - rows[i].a));
        add_percent(table, rows[i].a, rows[i].b);
    }
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
}

/* "  +6.30 GiB  weight casts …", and under it the evidence. */
static void print_cause(const struct mt_diff *diff, const struct mt_diff_cause *cause)
{
    enum { BYTES_WIDTH = 13, INDENT = BYTES_WIDTH + 2 };
    char text[MT_BYTES_TEXT];
    struct mt_text title = {0}, evidence = {0};
    mt_diff_cause_add_title(diff, cause, &title);
    mt_diff_cause_add_evidence(diff, cause, &evidence);
    const char *bold = mt_output_is_styled() ? "\033[1m" : "", *plain = mt_output_is_styled() ? "\033[0m" : "";
    printf("%*s  %s", BYTES_WIDTH, mt_format_difference(cause->bytes, text), bold);
    print_sentence(mt_text_get(&title), INDENT);
    printf("%s%*s", plain, INDENT, "");
    print_sentence(mt_text_get(&evidence), INDENT);
    mt_text_release(&title);
    mt_text_release(&evidence);
}

/* What is left out is summed up, so that the column still adds up. */
static void print_small_causes(size_t count, int64_t bytes)
{
    char text[MT_BYTES_TEXT];
    if (count > 0)
        printf("%13s  %zu smaller cause%s (--all shows %s)\n", mt_format_difference(bytes, text), count,
               count == 1 ? "" : "s", count == 1 ? "it" : "them");
}

static void print_causes(const struct mt_diff *diff, const struct mt_diff_print *how)
{
    const struct mt_diff_parts *parts = &diff->reserved;
    if (parts->cause_count == 0)
        return;
    uint64_t least = how->all ? 0 : magnitude(parts->causes[0].bytes) / SMALL_CAUSE_PART;
    size_t small = 0;
    int64_t small_bytes = 0;
    const struct mt_diff_cause *cached = NULL;
    char text[MT_BYTES_TEXT];
    puts("\nWhy, to the byte:");
    for (size_t i = 0; i < parts->cause_count; i++) {
        const struct mt_diff_cause *cause = &parts->causes[i];
        if (cause->kind == MT_CAUSE_CACHED)
            cached = cause;
        else if (magnitude(cause->bytes) >= least)
            print_cause(diff, cause);
        else {
            small++;
            small_bytes += cause->bytes;
        }
    }
    print_small_causes(small, small_bytes);
    printf("%13s  allocated\n", mt_format_difference(diff->allocated.delta_bytes, text));
    if (cached != NULL)
        print_cause(diff, cached);
    printf("%13s  reserved\n", mt_format_difference(diff->reserved.delta_bytes, text));
}

static void add_row(struct mt_table *table, const struct mt_diff_row *row)
{
    add_signed(table, row->delta_bytes);
    mt_table_add_bytes(table, row->a_bytes);
    mt_table_add_bytes(table, row->b_bytes);
    mt_table_add_number(table, (int64_t)row->a_blocks);
    mt_table_add_number(table, (int64_t)row->b_blocks);
    mt_table_add(table, row->category);
    mt_table_add(table, row->role);
    mt_table_add(table, row->phase);
    mt_table_add(table, row->op);
}

/* All further rows in one, so that the columns add up. */
static void add_remaining(struct mt_table *table, const struct mt_diff_parts *parts, size_t shown)
{
    struct mt_diff_row rest = {.role = "", .phase = "", .op = ""};
    char text[MT_BYTES_TEXT];
    if (shown == parts->row_count)
        return;
    snprintf(text, sizeof text, "(%zu more)", parts->row_count - shown);
    rest.category = text;
    for (size_t i = shown; i < parts->row_count; i++) {
        rest.delta_bytes += parts->rows[i].delta_bytes;
        rest.a_bytes += parts->rows[i].a_bytes;
        rest.b_bytes += parts->rows[i].b_bytes;
        rest.a_blocks += parts->rows[i].a_blocks;
        rest.b_blocks += parts->rows[i].b_blocks;
    }
    add_row(table, &rest);
}

/* Rows that differ, as many as asked for; they come first. */
static size_t count_shown(const struct mt_diff_parts *parts, const struct mt_diff_print *how)
{
    size_t shown = 0;
    if (how->all)
        return parts->row_count;
    while (shown < parts->row_count && shown < (size_t)how->rows && parts->rows[shown].delta_bytes != 0)
        shown++;
    return shown;
}

static void print_rows(const struct mt_diff *diff, const struct mt_diff_print *how)
{
    static const struct mt_column columns[] = {
        {"difference", MT_ALIGN_RIGHT}, {"A", MT_ALIGN_RIGHT},        {"B", MT_ALIGN_RIGHT},
        {"blocks A", MT_ALIGN_RIGHT},   {"blocks B", MT_ALIGN_RIGHT}, {"category", MT_ALIGN_LEFT},
        {"role", MT_ALIGN_LEFT},        {"phase", MT_ALIGN_LEFT},     {"op", MT_ALIGN_LEFT}};
    const struct mt_diff_parts *parts = &diff->allocated;
    size_t shown = count_shown(parts, how);
    puts("\nLive at the peak of allocated bytes, by what it is:");
    static const char *const spare[] = {"blocks A", "blocks B", "phase", "role", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < shown; i++)
        add_row(table, &parts->rows[i]);
    add_remaining(table, parts, shown);
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_categories(const struct mt_diff_answer *answer)
{
    static const struct mt_column columns[] = {
        {"category", MT_ALIGN_LEFT}, {"A", MT_ALIGN_RIGHT}, {"B", MT_ALIGN_RIGHT}, {"difference", MT_ALIGN_RIGHT}};
    if (answer->category_count == 0)
        return;
    puts("\nThe largest allocation of each category:");
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < answer->category_count; i++) {
        const struct mt_diff_category *row = &answer->categories[i];
        mt_table_add(table, row->category);
        mt_table_add_bytes(table, row->max_bytes[MT_SIDE_A]);
        mt_table_add_bytes(table, row->max_bytes[MT_SIDE_B]);
        add_signed(table, (int64_t)(row->max_bytes[MT_SIDE_B] - row->max_bytes[MT_SIDE_A]));
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

static void add_gib(struct mt_table *table, const char *format, double gib)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, format, gib);
    mt_table_add(table, isnan(gib) ? "-" : text);
}

static void add_published(struct mt_table *table, const struct mt_diff_length *length)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        add_gib(table, "%.2f GiB", length->published[side] != NULL ? length->published[side]->reserved_gib : NAN);
    add_gib(table, "%+.2f GiB", mt_diff_length_published_gib(length));
    int64_t measured;
    if (mt_diff_length_measured(length, &measured))
        add_signed(table, measured);
    else
        mt_table_add(table, "-");
}

static bool has_published(const struct mt_diff_answer *answer)
{
    int64_t measured;
    for (size_t i = 0; i < answer->length_count; i++)
        if (mt_diff_length_measured(&answer->lengths[i], &measured))
            return true;
    return false;
}

static void print_lengths(const struct mt_diff_answer *answer)
{
    enum { OWN_COLUMNS = 5 };
    static const struct mt_column columns[] = {{"seq", MT_ALIGN_RIGHT},
                                               {"A", MT_ALIGN_RIGHT},
                                               {"B", MT_ALIGN_RIGHT},
                                               {"difference", MT_ALIGN_RIGHT},
                                               {"percent", MT_ALIGN_RIGHT},
                                               {"published A", MT_ALIGN_RIGHT},
                                               {"published B", MT_ALIGN_RIGHT},
                                               {"published diff", MT_ALIGN_RIGHT},
                                               {"PyTorch, H200", MT_ALIGN_RIGHT}};
    static const char *const spare[] = {"percent",        "published A",   "published B",
                                        "published diff", "PyTorch, H200", NULL};
    bool with_published = has_published(answer);
    if (answer->length_count < 2 && !with_published)
        return;
    puts("\nReserved, by sequence length:");
    struct mt_table *table =
        mt_table_create(columns, with_published ? sizeof columns / sizeof columns[0] : OWN_COLUMNS);
    if (with_published)
        mt_table_spare(table, spare);
    for (size_t i = 0; i < answer->length_count; i++) {
        const struct mt_diff_length *row = &answer->lengths[i];
        uint64_t a = row->reserved_bytes[MT_SIDE_A], b = row->reserved_bytes[MT_SIDE_B];
        mt_table_add_number(table, row->seq);
        mt_table_add_bytes(table, a);
        mt_table_add_bytes(table, b);
        add_signed(table, (int64_t)(b - a));
        add_percent(table, a, b);
        if (with_published)
            add_published(table, row);
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

void mt_diff_answer_print(const struct mt_diff_answer *answer, const struct mt_diff_print *how)
{
    print_answer(answer);
    print_side(answer, MT_SIDE_A);
    print_side(answer, MT_SIDE_B);
    print_changes(answer);
    print_peaks(&answer->diff);
    print_causes(&answer->diff, how);
    print_rows(&answer->diff, how);
    print_categories(answer);
    print_lengths(answer);
}
