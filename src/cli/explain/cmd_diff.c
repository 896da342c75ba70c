/* memtrace diff: why one run needs more memory than another. */
#include "base/memory.h"
#include "base/order.h"
#include "cli/explain/diff_report.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "study/published.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct diff_options {
    bool help, json, all;
    const char *trace, *a, *b;
    int64_t rows;
    int key; /* mt_group_key or MT_NO_GROUPS */
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct diff_options, a, "A",
              .help = "a run: its number, its name, or FILE:RUN of another trace; FILE alone is its newest run",
              .takes = MT_TAKES_RUN),
    MT_OPTION(TEXT, struct diff_options, b, "B", .help = "the run that is compared with it", .takes = MT_TAKES_RUN),
    MT_OPTION(INTEGER, struct diff_options, rows, "--rows", .value = "N",
              .help = "how many rows of what was live (8 unless given)", .low = 0, .high = INT32_MAX),
    MT_OPTION(CHOICE, struct diff_options, key, "--by", .value = "KEY", .choices = mt_group_key_names,
              .help = "sum up what was live by it, in place of rows of category, role, phase and op"),
    MT_OPTION(FLAG, struct diff_options, all, "--all", .help = "all rows, and the causes that matter little too"),
    MT_OPTION(TEXT, struct diff_options, trace, "--trace", .value = "FILE",
              .help = "the trace (" MT_DEFAULT_TRACE " unless given)", .takes = MT_TAKES_FILE),
    MT_OPTION_JSON(struct diff_options),
    MT_OPTION_HELP(struct diff_options),
    MT_OPTIONS_END,
};

/* Opens the run of a side. Leaves nothing to close if it fails. */
static mt_status open_side(const char *trace, const char *which, struct mt_question *out)
{
    mt_status status = mt_question_open_named(trace, which, out);
    if (status != MT_OK)
        *out = (struct mt_question){0};
    return status;
}

static mt_status fail_no_pair(const struct mt_trace *trace)
{
    size_t count;
    mt_trace_runs(trace, &count);
    return mt_fail(MT_USAGE,
                   "no two finished runs of this trace, which has %zu, differ in one setting only: repeat one with one "
                   "option changed, such as --autocast bf16, or name two: memtrace diff A B (memtrace runs lists them)",
                   count);
}

/* Opens the two runs that are compared if none is named. */
static mt_status open_pair(const char *trace, struct mt_question question[])
{
    struct mt_trace *opened;
    const struct mt_run *runs[MT_SIDE_COUNT];
    char numbers[MT_SIDE_COUNT][MT_BYTES_TEXT];
    MT_TRY(mt_trace_open_to_ask(trace, &opened));
    mt_status status = mt_diff_pair_find(opened, &runs[MT_SIDE_A], &runs[MT_SIDE_B]);
    if (status == MT_OK && runs[MT_SIDE_A] == NULL)
        status = fail_no_pair(opened);
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++)
        snprintf(numbers[side], sizeof numbers[side], "%" PRId64, runs[side]->id);
    mt_trace_close(opened);
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++)
        status = open_side(trace, numbers[side], &question[side]);
    return status;
}

static mt_status open_named(const char *trace, const char *a, const char *b, struct mt_question question[])
{
    if (a == NULL || b == NULL)
        return mt_fail(MT_USAGE,
                       "%s is the only run that is named: name two, memtrace diff A B, or none for the newest two "
                       "that differ in one setting",
                       a != NULL ? a : b);
    mt_status status = open_side(trace, a, &question[MT_SIDE_A]);
    return status == MT_OK ? open_side(trace, b, &question[MT_SIDE_B]) : status;
}

static struct mt_text *add_doubt(struct mt_diff_answer *answer)
{
    assert(answer->doubt_count < MT_MOST_DIFF_DOUBTS);
    return &answer->doubts[answer->doubt_count++];
}

static bool is_cut_short(const struct mt_run *run)
{
    return mt_run_is(run, MT_RUN_OOM) || mt_run_is(run, MT_RUN_FAILED);
}

static void doubt_ends(struct mt_diff_answer *answer)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_run *run = answer->question[side].run;
        if (is_cut_short(run))
            mt_text_add(add_doubt(answer), "run %" PRId64 " %s: its peaks are those until then", run->id,
                        mt_run_state_words(run->state));
    }
    const struct mt_run *a = answer->question[MT_SIDE_A].run, *b = answer->question[MT_SIDE_B].run;
    if (answer->doubt_count == 0 && a->steps != b->steps && (a->steps < 2 || b->steps < 2))
        mt_text_add(add_doubt(answer),
                    "%" PRId64 " and %" PRId64
                    " steps: a first step has no gradients and no optimizer state before its "
                    "backward; repeat the shorter run with --steps 2",
                    a->steps, b->steps);
}

/* Finds what makes the runs hard to compare. They are compared all the same: the bytes add up anyway. */
static void find_doubts(struct mt_diff_answer *answer)
{
    const struct mt_settings_difference *changes = &answer->changes;
    assert(answer->doubt_count == 0);
    doubt_ends(answer);
    if (changes->different_count > 1)
        mt_text_add(add_doubt(answer), "the runs differ in %zu settings, so no cause can be put down to one of them",
                    changes->different_count);
    if (changes->unknown_count == 0)
        return;
    struct mt_text *unknown = add_doubt(answer);
    mt_settings_add_unknown(changes, answer->question[MT_SIDE_A].run, answer->question[MT_SIDE_B].run, unknown);
    mt_text_add(unknown, ", so the two may differ in more than is told");
}

/* Runs of both sides at one length, with the published cell of each. */
struct length {
    struct mt_diff_length row;
    const struct mt_published_cell *cell[MT_SIDE_COUNT]; /* NULL: none that the run is comparable with */
};

struct lengths {
    struct length *items;
    size_t count;
};

static struct length *length_of(struct lengths *lengths, int64_t seq)
{
    for (size_t i = 0; i < lengths->count; i++)
        if (lengths->items[i].row.seq == seq)
            return &lengths->items[i];
    lengths->items = mt_host_room(lengths->items, lengths->count, sizeof *lengths->items);
    assert(seq > 0);
    lengths->items[lengths->count] = (struct length){.row.seq = seq};
    return &lengths->items[lengths->count++];
}

/* Enters the run for its length, if it agrees with the run of the side in all else. A later one replaces an earlier one. */
static mt_status add_length(const struct mt_diff_answer *answer, int side, const struct mt_run *run,
                            struct lengths *lengths)
{
    struct mt_trace *trace = answer->question[side].trace;
    static const char *const but[] = {"seq", NULL};
    struct mt_settings settings;
    mt_status status = mt_settings_load(trace, run, &settings);
    int64_t seq = strtoll(mt_settings_value(&settings, "seq"), NULL, 10);
    if (status == MT_OK && seq > 0 &&
        mt_settings_agree(&answer->settings[side], &settings, MT_SETTINGS_OF_MEMORY, but)) {
        struct mt_peak_row peak;
        status = mt_trace_peak(trace, run, MT_MEASURE_RESERVED, &peak);
        struct length *length = length_of(lengths, seq);
        length->row.run[side] = run->id;
        length->row.reserved_bytes[side] = peak.bytes;
        length->cell[side] = mt_published_is_comparable(&settings) ? mt_published_find(&settings) : NULL;
        mt_peak_row_release(&peak);
    }
    mt_settings_release(&settings);
    return status;
}

static int compare_lengths(const void *left, const void *right)
{
    return MT_COMPARE(((const struct length *)left)->row.seq, ((const struct length *)right)->row.seq);
}

/* Returns the published difference of reserved bytes, B less A, in GiB; NAN if none was published. */
static double published_difference(const struct mt_published_cell *a, const struct mt_published_cell *b)
{
    assert(a != b);
    bool is_same_mode = strcmp(a->mode, b->mode) == 0;
    if (is_same_mode && strcmp(a->autocast, b->autocast) != 0)
        return isnan(b->autocast_gib) ? -a->autocast_gib : b->autocast_gib;
    return b->reserved_gib - a->reserved_gib;
}

/* Compares the two sides of a length. `out` must stay where it is. */
static void complete_length(const struct length *length, struct mt_diff_length *out)
{
    const struct mt_published_cell *a = length->cell[MT_SIDE_A], *b = length->cell[MT_SIDE_B];
    uint64_t a_bytes = length->row.reserved_bytes[MT_SIDE_A], b_bytes = length->row.reserved_bytes[MT_SIDE_B];
    char text[MT_BYTES_TEXT];
    assert(length->row.run[MT_SIDE_A] != 0 && length->row.run[MT_SIDE_B] != 0);
    *out = length->row;
    out->delta_bytes = (int64_t)(b_bytes - a_bytes);
    out->percent = mt_diff_percent(a_bytes, b_bytes);
    out->published.delta_gib = NAN;
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_published_cell *cell = length->cell[side];
        out->published.gib[side] = cell != NULL ? cell->reserved_gib : NAN;
        out->published.measured_bytes[side] = cell != NULL ? cell->measured_reserved_bytes : 0;
    }
    if (a == NULL || b == NULL || a == b) {
        mt_text_add(&out->measured, "-");
        return;
    }
    out->published.delta_gib = published_difference(a, b);
    out->published.delta_measured_bytes = (int64_t)(b->measured_reserved_bytes - a->measured_reserved_bytes);
    out->of_both = &out->published;
    mt_text_add(&out->measured, "%s", mt_format_difference(out->published.delta_measured_bytes, text));
}

/* Keeps the lengths that both sides have, in ascending order. */
static void keep_whole_lengths(const struct lengths *lengths, struct mt_diff_answer *answer)
{
    if (lengths->count > 1)
        qsort(lengths->items, lengths->count, sizeof *lengths->items, compare_lengths);
    answer->lengths = mt_host_alloc((lengths->count + 1) * sizeof *answer->lengths);
    for (size_t i = 0; i < lengths->count; i++) {
        const struct length *length = &lengths->items[i];
        if (length->row.run[MT_SIDE_A] != 0 && length->row.run[MT_SIDE_B] != 0)
            complete_length(length, &answer->lengths[answer->length_count++]);
    }
}

static bool differ_in_length(const struct mt_settings_difference *changes)
{
    for (size_t i = 0; i < changes->different_count; i++)
        if (strcmp(changes->different[i].name, "seq") == 0)
            return true;
    return false;
}

static mt_status load_lengths(struct mt_diff_answer *answer)
{
    struct lengths lengths = {0};
    mt_status status = MT_OK;
    if (differ_in_length(&answer->changes))
        return MT_OK;
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        size_t count;
        const struct mt_run *runs = mt_trace_runs(answer->question[side].trace, &count);
        for (size_t i = 0; i < count && status == MT_OK; i++)
            if (mt_run_is(&runs[i], MT_RUN_DONE))
                status = add_length(answer, side, &runs[i], &lengths);
    }
    keep_whole_lengths(&lengths, answer);
    free(lengths.items);
    return status;
}

static mt_status load(struct mt_diff_answer *answer)
{
    mt_status status = MT_OK;
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++) {
        const struct mt_question *question = &answer->question[side];
        status = mt_settings_load(question->trace, question->run, &answer->settings[side]);
    }
    if (status == MT_OK)
        status = mt_trace_diff(&answer->question[MT_SIDE_A], &answer->question[MT_SIDE_B], &answer->diff);
    if (status == MT_USAGE)
        return mt_fail_hint(status, "choose another one (memtrace runs lists them), or repeat it");
    if (status == MT_BAD_TRACE)
        return mt_fail_hint(status, "memtrace run records it anew");
    if (status != MT_OK)
        return status;
    mt_settings_compare(&answer->settings[MT_SIDE_A], &answer->settings[MT_SIDE_B], MT_SETTINGS_OF_MEMORY,
                        &answer->changes);
    status = mt_diff_categories(&answer->question[MT_SIDE_A], &answer->question[MT_SIDE_B], &answer->categories,
                                &answer->category_count);
    if (status == MT_OK && answer->key != MT_NO_GROUPS)
        status = mt_diff_groups(&answer->question[MT_SIDE_A], &answer->question[MT_SIDE_B], (mt_group_key)answer->key,
                                &answer->groups, &answer->group_count);
    return status == MT_OK ? load_lengths(answer) : status;
}

static mt_status run_diff(const void *given)
{
    const struct diff_options *diff = given;
    struct mt_diff_answer answer = {.key = diff->key};
    mt_status status = diff->a == NULL && diff->b == NULL ? open_pair(diff->trace, answer.question)
                                                          : open_named(diff->trace, diff->a, diff->b, answer.question);
    if (status == MT_OK)
        status = load(&answer);
    if (status == MT_OK)
        find_doubts(&answer);
    for (size_t i = 0; i < answer.doubt_count; i++)
        mt_note("%s", mt_text_get(&answer.doubts[i]));
    if (status == MT_OK && diff->json)
        mt_json_print(mt_diff_json(&answer));
    else if (status == MT_OK)
        mt_diff_print(&answer, &(struct mt_diff_print){.rows = diff->rows, .all = diff->all});
    mt_diff_answer_release(&answer);
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        mt_question_close(&answer.question[side]);
    return status;
}

const struct mt_command mt_command_diff = {
    .name = "diff",
    .summary = "Tells why one run needs more memory than another, with bytes that add up.",
    .usage = "[A B] [OPTIONS]",
    .details =
        "Unless two runs are named, it takes the newest two finished ones that differ in one setting. What was live\n"
        "at both peaks is matched by what it is, never by its address: category, role, phase, op, place, precision\n"
        "and shape. The causes sum to the difference of allocated bytes to the byte; reserved bytes differ by that\n"
        "and by what segments held that no block could use.\n",
    .examples = "  memtrace run && memtrace run --autocast bf16 && memtrace diff\n"
                "  memtrace diff 1 2 --all\n"
                "  memtrace diff 1 2 --by module\n"
                "  memtrace diff memtrace.db:1 memtrace.db:2 --json\n",
    .options = options,
    MT_OPTIONS_OF(struct diff_options, .trace = MT_DEFAULT_TRACE, .rows = 8, .key = MT_NO_GROUPS),
    .answer = &mt_diff_type,
    .run = run_diff,
};
