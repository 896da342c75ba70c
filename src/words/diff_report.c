#include "words/diff_report.h"

#include "answer/table.h"
#include "base/memory.h"
#include "words/diff_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALL_CAUSE_PART = 50 }; /* a cause below this part of the largest matters little */

static const char side_letter[MT_SIDE_COUNT] = {[MT_SIDE_A] = 'A', [MT_SIDE_B] = 'B'};

static uint64_t magnitude(int64_t bytes)
{
    return bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
}

/* Prints a sentence from the column on, and releases it. */
static void print_sentence(const struct mt_screen *screen, struct mt_text *text, size_t indent)
{
    mt_screen_continue(screen, mt_text_get(text), indent);
    mt_text_release(text);
}

/* Prints "run 3 (baseline), sim:h200, done, 4 steps: peak in step 0, forward, at model.lm_head" */
static void print_side(const struct mt_diff_answer *answer, mt_side which, const struct mt_screen *screen)
{
    const struct mt_run *run = answer->question[which].run;
    const struct mt_diff_side *side = &answer->diff.side[which];
    char step[MT_BYTES_TEXT];
    struct mt_text text = {0};
    mt_text_add(&text, "%c  ", side_letter[which]);
    mt_text_add_run_name(&text, run);
    mt_text_add(&text, ", %s, %s, %" PRId64 " step%s; allocated peak in %s%s%s%s%s", run->device, run->state,
                run->steps, run->steps == 1 ? "" : "s", mt_format_step(side->step, step),
                side->phase[0] != '\0' ? ", " : "", side->phase, side->span[0] != '\0' ? ", at " : "", side->span);
    print_sentence(screen, &text, 3);
}

static void add_differences(const struct mt_settings_difference *changes, struct mt_text *out)
{
    if (changes->different_count == 0)
        mt_text_add(out, "They differ in no setting that %s.",
                    changes->unknown_count == 0 ? "could change memory" : "both record");
    else
        mt_text_add(out, "They differ in ");
    for (size_t i = 0; i < changes->different_count; i++) {
        mt_text_add(out, "%s", i > 0 ? "; " : "");
        mt_setting_add_change(&changes->different[i], ": ", out);
    }
}

static void print_changes(const struct mt_diff_answer *answer, const struct mt_screen *screen)
{
    struct mt_text text = {0};
    add_differences(&answer->changes, &text);
    mt_screen_line(screen, &text);
}

/* A line of the table of peaks. */
struct peak_line {
    const char *name;
    uint64_t bytes[MT_SIDE_COUNT];
    int64_t difference;
    double percent;
};

#define ROW struct peak_line
static const struct mt_field peak_fields[] = {
    MT_SHOWN(TEXT, const char *, ROW, name, "name", "peak"),
    MT_SHOWN(BYTES, uint64_t, ROW, bytes[MT_SIDE_A], "a", "A"),
    MT_SHOWN(BYTES, uint64_t, ROW, bytes[MT_SIDE_B], "b", "B"),
    MT_SHOWN(DIFFERENCE, int64_t, ROW, difference, "difference", "difference"),
    MT_SHOWN(INTEGER, int64_t, ROW, difference, "bytes", "bytes"),
    MT_SHOWN_AS(ROW, percent, "percent", "percent", "%+.1f %%"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type peak_type = MT_ROW_TYPE(struct peak_line, peak_fields);

static struct peak_line peak_line_of(const char *name, uint64_t a, uint64_t b)
{
    return (struct peak_line){name, {a, b}, (int64_t)(b - a), mt_diff_percent(a, b)};
}

static void print_peaks(const struct mt_diff *diff, const struct mt_screen *screen)
{
    const struct mt_diff_side *a = &diff->side[MT_SIDE_A], *b = &diff->side[MT_SIDE_B];
    const struct peak_line lines[] = {peak_line_of("allocated", a->allocated_bytes, b->allocated_bytes),
                                      peak_line_of("reserved", a->reserved_bytes, b->reserved_bytes)};
    mt_screen_gap(screen);
    mt_screen_rows(screen, &peak_type, "name a b difference bytes percent", "bytes percent", lines,
                   sizeof lines / sizeof lines[0]);
}

/* The column of causes' bytes, and the column of their words. */
enum { BYTES_WIDTH = 13, CAUSE_INDENT = BYTES_WIDTH + 2 };

/* Prints the column of bytes, and what follows it. */
static void print_bytes(int64_t bytes, const char *after, const struct mt_screen *screen)
{
    fprintf(screen->file, "%*s  %s", BYTES_WIDTH, MT_SIZE_DIFFERENCE(bytes), after);
}

/* Prints "  +6.30 GiB  weight casts …", and under it the evidence. */
static void print_cause(const struct mt_diff *diff, const struct mt_diff_cause *cause, const struct mt_screen *screen)
{
    struct mt_text title = {0}, evidence = {0};
    mt_diff_cause_add_title(diff, cause, &title);
    mt_diff_cause_add_evidence(diff, cause, &evidence);
    print_bytes(cause->bytes, screen->is_styled ? "\033[1m" : "", screen);
    print_sentence(screen, &title, CAUSE_INDENT);
    fprintf(screen->file, "%s%*s", screen->is_styled ? "\033[0m" : "", CAUSE_INDENT, "");
    print_sentence(screen, &evidence, CAUSE_INDENT);
}

/* Prints the sum of the causes that are left out, so that the column still adds up. */
static void print_small_causes(size_t count, int64_t bytes, const struct mt_screen *screen)
{
    struct mt_text text = {0};
    if (count == 0)
        return;
    print_bytes(bytes, "", screen);
    mt_text_add(&text, "%zu smaller cause%s (--all shows %s)", count, count == 1 ? "" : "s",
                count == 1 ? "it" : "them");
    print_sentence(screen, &text, CAUSE_INDENT);
}

static void print_causes(const struct mt_diff *diff, const struct mt_diff_extent *how, const struct mt_screen *screen)
{
    const struct mt_diff_parts *parts = &diff->reserved;
    if (parts->cause_count == 0)
        return;
    assert(parts->causes[0].bytes != 0);
    uint64_t least = how->all ? 0 : magnitude(parts->causes[0].bytes) / SMALL_CAUSE_PART;
    size_t small = 0;
    int64_t small_bytes = 0;
    const struct mt_diff_cause *cached = NULL;
    mt_screen_say(screen, "\nWhy, to the byte:");
    for (size_t i = 0; i < parts->cause_count; i++) {
        const struct mt_diff_cause *cause = &parts->causes[i];
        if (cause->kind == MT_CAUSE_CACHED)
            cached = cause;
        else if (magnitude(cause->bytes) >= least)
            print_cause(diff, cause, screen);
        else {
            small++;
            small_bytes += cause->bytes;
        }
    }
    print_small_causes(small, small_bytes, screen);
    print_bytes(diff->allocated.delta_bytes, "allocated\n", screen);
    if (cached != NULL)
        print_cause(diff, cached, screen);
    print_bytes(diff->reserved.delta_bytes, "reserved\n", screen);
}

/* Returns the sum of the rows from `first` on, so that the columns add up. Its category is left to the caller. */
static struct mt_diff_row sum_rows(const struct mt_diff_parts *parts, size_t first)
{
    struct mt_diff_row sum = {.role = "", .phase = "", .op = ""};
    for (size_t i = first; i < parts->row_count; i++) {
        sum.delta_bytes += parts->rows[i].delta_bytes;
        sum.a_bytes += parts->rows[i].a_bytes;
        sum.b_bytes += parts->rows[i].b_bytes;
        sum.a_blocks += parts->rows[i].a_blocks;
        sum.b_blocks += parts->rows[i].b_blocks;
    }
    assert(sum.delta_bytes == (int64_t)(sum.b_bytes - sum.a_bytes));
    return sum;
}

/* Returns the number of rows to show: those that differ, which come first, up to as many as were asked for. */
static size_t count_shown(const struct mt_diff_parts *parts, const struct mt_diff_extent *how)
{
    size_t shown = 0;
    if (how->all)
        return parts->row_count;
    while (shown < parts->row_count && shown < (size_t)how->rows && parts->rows[shown].delta_bytes != 0)
        shown++;
    return shown;
}

static void print_rows(const struct mt_diff *diff, const struct mt_diff_extent *how, const struct mt_screen *screen)
{
    const struct mt_diff_parts *parts = &diff->allocated;
    size_t shown = count_shown(parts, how);
    char more[MT_BYTES_TEXT];
    assert(shown <= parts->row_count);
    struct mt_diff_row *rows = mt_host_alloc((shown + 1) * sizeof *rows);
    for (size_t i = 0; i < shown; i++)
        rows[i] = parts->rows[i];
    rows[shown] = sum_rows(parts, shown);
    snprintf(more, sizeof more, "(%zu more)", parts->row_count - shown);
    rows[shown].category = more;
    mt_screen_say(screen, "\nLive at the peak of allocated bytes, by category:");
    mt_screen_rows(screen, &mt_diff_row_type, "delta_bytes a_bytes b_bytes a_blocks b_blocks category role phase op",
                   "a_blocks b_blocks phase role", rows, shown < parts->row_count ? shown + 1 : shown);
    free(rows);
}

/* Prints the groups, as many as rows were asked for, and the rest of them as one. */
static void print_groups(const struct mt_diff_answer *answer, const struct mt_diff_extent *how,
                         const struct mt_screen *screen)
{
    size_t most = how->all ? answer->group_count : (size_t)how->rows;
    size_t shown = answer->group_count < most ? answer->group_count : most;
    const char *key = mt_group_key_names[answer->key];
    char more[MT_BYTES_TEXT];
    struct mt_text fields = {0};
    struct mt_diff_group *rows = mt_host_alloc((shown + 1) * sizeof *rows);
    for (size_t i = 0; i < shown; i++) {
        rows[i] = answer->groups[i];
        if (rows[i].name[0] == '\0')
            rows[i].name = "(none)";
    }
    snprintf(more, sizeof more, "(%zu more)", answer->group_count - shown);
    rows[shown] = (struct mt_diff_group){.name = more};
    for (size_t i = shown; i < answer->group_count; i++) {
        for (int side = 0; side < MT_SIDE_COUNT; side++) {
            rows[shown].bytes[side] += answer->groups[i].bytes[side];
            rows[shown].blocks[side] += answer->groups[i].blocks[side];
        }
        rows[shown].delta_bytes += answer->groups[i].delta_bytes;
    }
    mt_text_add(&fields, "delta_bytes a_bytes b_bytes a_blocks b_blocks %s", key);
    mt_screen_say(screen, "\nLive at the peak of allocated bytes, by %s:", key);
    mt_screen_rows(screen, &mt_diff_group_types[answer->key], fields.data, "a_blocks b_blocks", rows,
                   shown + (shown < answer->group_count));
    mt_text_release(&fields);
    free(rows);
}

static void print_categories(const struct mt_diff_answer *answer, const struct mt_screen *screen)
{
    if (answer->category_count == 0)
        return;
    mt_screen_say(screen, "\nThe largest allocation of each category, over all phases:");
    mt_screen_rows(screen, &mt_diff_category_type, "category a_max_bytes b_max_bytes delta_bytes", NULL,
                   answer->categories, answer->category_count);
}

static void print_lengths(const struct mt_diff_answer *answer, const struct mt_screen *screen)
{
    bool with_published = false;
    for (size_t i = 0; i < answer->length_count; i++)
        with_published |= answer->lengths[i].of_both != NULL;
    if (answer->length_count < 2 && !with_published)
        return;
    mt_screen_say(screen, "\nReserved, by sequence length:");
    mt_screen_rows(
        screen, &mt_diff_length_type,
        with_published ? "seq a_reserved_bytes b_reserved_bytes delta_bytes percent a_gib b_gib delta_gib measured"
                       : "seq a_reserved_bytes b_reserved_bytes delta_bytes percent",
        with_published ? "percent a_gib b_gib delta_gib measured" : NULL, answer->lengths, answer->length_count);
}

void mt_diff_print(const struct mt_diff_answer *answer, const struct mt_diff_extent *how,
                   const struct mt_screen *screen)
{
    struct mt_text sentence = {0};
    mt_diff_add_sentence(answer, &sentence);
    mt_screen_line(screen, &sentence);
    mt_screen_gap(screen);
    print_side(answer, MT_SIDE_A, screen);
    print_side(answer, MT_SIDE_B, screen);
    print_changes(answer, screen);
    print_peaks(&answer->diff, screen);
    print_causes(&answer->diff, how, screen);
    if (answer->key == MT_NO_GROUPS)
        print_rows(&answer->diff, how, screen);
    else
        print_groups(answer, how, screen);
    print_categories(answer, screen);
    print_lengths(answer, screen);
}
