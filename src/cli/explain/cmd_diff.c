/* memtrace diff: why one run needs more memory than another. */
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "study/diff_lengths.h"
#include "words/diff_report.h"

#include <inttypes.h>
#include <stdio.h>

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
    MT_OPTION(TEXT, struct diff_options, b, "B", .help = "the run to compare with A", .takes = MT_TAKES_RUN),
    MT_OPTION(INTEGER, struct diff_options, rows, "--rows", .value = "N",
              .help = "number of rows about live memory (default: 8)", .low = 0, .high = INT32_MAX),
    MT_OPTION(CHOICE, struct diff_options, key, "--by", .value = "KEY", .choices = mt_group_key_names,
              .help = "group live memory by this, instead of by category, role, phase and op"),
    MT_OPTION(FLAG, struct diff_options, all, "--all", .help = "all rows, and small causes too"),
    MT_OPTION(TEXT, struct diff_options, trace, "--trace", .value = "FILE",
              .help = "the trace (default: " MT_DEFAULT_TRACE ")", .takes = MT_TAKES_FILE),
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

static mt_status load(struct mt_diff_answer *answer)
{
    mt_status status = mt_diff_answer_load(answer);
    if (status == MT_USAGE)
        return mt_fail_hint(status, "choose another one (memtrace runs lists them), or repeat it");
    if (status == MT_BAD_TRACE)
        return mt_fail_hint(status, "memtrace run records it anew");
    return status == MT_OK ? mt_diff_lengths_load(answer) : status;
}

static mt_status run_diff(const void *given)
{
    const struct diff_options *diff = given;
    const struct mt_screen screen = mt_output_screen();
    struct mt_diff_answer answer = {.key = diff->key};
    mt_status status = diff->a == NULL && diff->b == NULL ? open_pair(diff->trace, answer.question)
                                                          : open_named(diff->trace, diff->a, diff->b, answer.question);
    MT_THEN(status, load(&answer));
    for (size_t i = 0; i < answer.doubt_count; i++)
        mt_note("%s", mt_text_get(&answer.doubts[i]));
    if (status == MT_OK && diff->json)
        mt_json_print(mt_diff_json(&answer));
    else if (status == MT_OK)
        mt_diff_print(&answer, &(struct mt_diff_extent){.rows = diff->rows, .all = diff->all}, &screen);
    mt_diff_answer_release(&answer);
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        mt_question_close(&answer.question[side]);
    return status;
}

const struct mt_command mt_command_diff = {
    .name = "diff",
    .summary = "Explains why one run needs more memory than another, with bytes that add up.",
    .usage = "[A B] [OPTIONS]",
    .details =
        "Without arguments, it compares the newest two finished runs that differ in one setting. Blocks live at the\n"
        "two peaks are matched by category, role, phase, op, place, precision and shape, never by address. The\n"
        "causes add up to the difference in allocated bytes, to the byte. Reserved bytes also differ by the gaps\n"
        "within segments. Of a dry run and a recording of the same program, the first line says whether the\n"
        "prediction was right, and live memory is grouped by op.\n",
    .examples = "  memtrace run && memtrace run --autocast bf16 && memtrace diff\n"
                "  memtrace diff 1 2 --all\n"
                "  memtrace diff 1 2 --by module\n"
                "  memtrace diff memtrace.db:1 memtrace.db:2 --json\n",
    .options = options,
    MT_OPTIONS_OF(struct diff_options, .trace = MT_DEFAULT_TRACE, .rows = 8, .key = MT_NO_GROUPS),
    .answer = &mt_diff_type,
    .run = run_diff,
};
