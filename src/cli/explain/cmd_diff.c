/* memtrace diff: why one run needs more memory than another. */
#include "cli/explain/diff_answer.h"
#include "cli/output/output.h"

struct diff_options {
    bool help, json, all;
    const char *trace, *a, *b;
    int64_t rows;
};

static const struct mt_option options[] = {
    {.name = "A",
     .help = "a run: its number, its name, or FILE:RUN of another trace; FILE alone is its newest run",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct diff_options, a),
     .takes = MT_TAKES_RUN},
    {.name = "B",
     .help = "the run that is compared with it",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct diff_options, b),
     .takes = MT_TAKES_RUN},
    {.name = "--rows",
     .value = "N",
     .help = "how many rows of what was live (8 unless given)",
     .kind = MT_OPTION_INTEGER,
     .offset = offsetof(struct diff_options, rows),
     .low = 0,
     .high = INT32_MAX},
    {.name = "--all",
     .help = "all rows, and the causes that matter little too",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct diff_options, all)},
    {.name = "--trace",
     .value = "FILE",
     .help = "the trace (" MT_DEFAULT_TRACE " unless given)",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct diff_options, trace),
     .takes = MT_TAKES_FILE},
    MT_OPTION_JSON(struct diff_options),
    MT_OPTION_HELP(struct diff_options),
    MT_OPTIONS_END,
};

static mt_status run_diff(const void *given)
{
    const struct diff_options *diff = given;
    struct mt_diff_answer answer;
    mt_status status = mt_diff_answer_load(diff->trace, diff->a, diff->b, &answer);
    for (size_t i = 0; i < answer.doubt_count && status == MT_OK; i++)
        mt_note("%s", mt_text_get(&answer.doubts[i]));
    if (status == MT_OK && diff->json)
        mt_diff_answer_print_json(&answer);
    else if (status == MT_OK)
        mt_diff_answer_print(&answer, &(struct mt_diff_print){.rows = diff->rows, .all = diff->all});
    mt_diff_answer_release(&answer);
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
                "  memtrace diff memtrace.db:1 memtrace.db:2 --json\n",
    .options = options,
    .defaults = &(const struct diff_options){.trace = MT_DEFAULT_TRACE, .rows = 8},
    .options_bytes = sizeof(struct diff_options),
    .run = run_diff,
};
