/* memtrace timeline: the page of a run, two runs, or the ranks of a job. */
#include "analysis/ranks/rank_job.h"
#include "analysis/run_settings.h"
#include "answer/output_file.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/write/timeline_page.h"
#include "page/page.h"
#include "study/diff_lengths.h"
#include "words/verdict_words.h"
#include "words/what_if.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_OUTPUT "timeline.html"

struct timeline_options {
    struct mt_trace_options trace;
    const char *compared, *output;
};

static const struct mt_option options[] = {
    MT_RUN_ARGUMENT,
    MT_OPTION(TEXT, struct timeline_options, trace.run, "--run", .value = "N|NAME", .takes = MT_TAKES_RUN,
              .help = "the run to show (default: the newest)"),
    MT_OPTION(TEXT, struct timeline_options, compared, "--diff", .value = "N|NAME|FILE:RUN", .takes = MT_TAKES_RUN,
              .help = "a second run, compared with it on the same axis"),
    MT_OPTION(TEXT, struct timeline_options, output, "--output", .alias = "-o", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the page (default: " DEFAULT_OUTPUT "); - is stdout"),
    MT_OPTION(TEXT, struct timeline_options, trace.trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the trace (default: " MT_DEFAULT_TRACE ")"),
    MT_OPTION_HELP(struct mt_trace_options),
    MT_OPTIONS_END,
};

static void write_part(void *context, const void *data, size_t bytes)
{
    mt_output_file_write(context, data, bytes);
}

/* Prints that the page was written, unless it went to stdout. */
static void tell_result(const char *path, void (*say)(const char *format, ...))
{
    struct stat found;
    char size[MT_BYTES_TEXT];
    if (strcmp(path, "-") == 0 || stat(path, &found) != 0)
        return;
    say("wrote %s, %s: open it in a browser", path, mt_format_bytes((uint64_t)found.st_size, size));
}

static mt_status write_page(const struct mt_page_plan *plan, const char *path)
{
    struct mt_output_file *file;
    MT_TRY(mt_output_file_open(path, MT_OUTPUT_BY_NAME, &file));
    const struct mt_page_output output = {.context = file, .write = write_part};
    return mt_output_file_close(file, mt_page_write(plan, &output));
}

/* ---- answers ---- */

/* Adds the answer why the second run differs to the page. */
static mt_status load_difference(const struct mt_question question[MT_SIDE_COUNT], json_t *answers)
{
    struct mt_diff_answer answer = {.question = {question[MT_SIDE_A], question[MT_SIDE_B]}, .key = MT_NO_GROUPS};
    struct mt_text sentence = {0};
    mt_status status = mt_diff_answer_load(&answer);
    MT_THEN(status, mt_diff_lengths_load(&answer));
    if (status == MT_OK) {
        mt_diff_add_sentence(&answer, &sentence);
        json_object_set_new(answers, "diff", mt_diff_json(&answer));
        json_object_set_new(answers, "sentence", mt_json_text(mt_text_get(&sentence)));
    }
    mt_text_release(&sentence);
    mt_diff_answer_release(&answer);
    return status;
}

static mt_status load_what_if(const struct mt_question *question, json_t *answers)
{
    json_t *what_if;
    mt_status status = mt_what_if_json(question, &what_if);
    if (what_if != NULL)
        json_object_set_new(answers, "what_if", what_if);
    return status;
}

/* Returns the lines of a text as a list. */
static json_t *list_lines(struct mt_text *text)
{
    json_t *list = json_array();
    for (char *rest = text->data, *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;)
        if (line[0] != '\0')
            json_array_append_new(list, mt_json_text(line));
    return list;
}

static json_t *describe_verdict(const struct mt_verdict_row *row)
{
    const struct mt_verdict *verdict = &row->verdict;
    struct mt_text notes = {0};
    mt_verdict_add_caveats(row, &notes);
    json_t *object = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "fits", verdict->fits, "needed_bytes",
                               (json_int_t)verdict->needed_bytes, "card_bytes", (json_int_t)verdict->card_bytes,
                               "outside_bytes", (json_int_t)verdict->outside_bytes, "short_bytes",
                               (json_int_t)verdict->short_bytes, "fills_at", (json_int_t)mt_verdict_fills_at(row),
                               "line", mt_json_text(mt_text_get(&verdict->line)), "notes", list_lines(&notes));
    mt_text_release(&notes);
    return object;
}

/* Adds the run's needs, and why these figures are uncertain, to the page. */
static mt_status load_verdict(const struct mt_question *question, json_t *answers)
{
    struct mt_verdict_row row = {.run = question->run->id, .rank = -1};
    mt_status status = mt_verdict_find(question, &row.verdict);
    MT_THEN(status, mt_caveat_lists_load(question->trace, question->run, &row.caveats));
    if (status == MT_OK)
        json_object_set_new(answers, "verdict", describe_verdict(&row));
    mt_caveat_lists_release(&row.caveats);
    mt_verdict_release(&row.verdict);
    return status;
}

/* Writes the page with these answers. If loading them failed with `loaded`, writes the page without them. */
static mt_status write_answered(const struct timeline_options *timeline, struct mt_page_plan *plan, json_t *answers,
                                mt_status loaded)
{
    if (loaded != MT_OK)
        mt_note("the page lacks an answer: %s", mt_last_error());
    char *text = json_object_size(answers) > 0 ? json_dumps(answers, JSON_COMPACT) : NULL;
    plan->answers = text;
    mt_status status = write_page(plan, timeline->output);
    free(text);
    return status;
}

static void add_source(const struct mt_question *question, const char *trace, struct mt_page_plan *plan)
{
    const char *path = question->file != NULL ? question->file : trace;
    plan->sources[plan->source_count++] = (struct mt_page_source){question->trace, question->run, path};
}

/* Shows a single run. */
static mt_status show_run(const struct timeline_options *timeline, const struct mt_question *question,
                          struct mt_page_plan *plan)
{
    json_t *answers = json_object();
    mt_status loaded = load_verdict(question, answers);
    MT_THEN(loaded, load_what_if(question, answers));
    mt_status status = write_answered(timeline, plan, answers, loaded);
    json_decref(answers);
    return status;
}

static mt_status show_compared(const struct timeline_options *timeline, const struct mt_question *question,
                               struct mt_page_plan *plan)
{
    struct mt_question pair[MT_SIDE_COUNT] = {[MT_SIDE_A] = *question};
    MT_TRY(mt_question_open_named(timeline->trace.trace, timeline->compared, &pair[MT_SIDE_B]));
    add_source(&pair[MT_SIDE_B], timeline->trace.trace, plan);
    json_t *answers = json_object();
    mt_status status = write_answered(timeline, plan, answers, load_difference(pair, answers));
    json_decref(answers);
    mt_question_close(&pair[MT_SIDE_B]);
    return status;
}

/* Finds the axis for the charts of ranks: events for a dry run, whose times are its host's. */
static mt_status find_axis(const struct mt_question *question, mt_curve_axis *out)
{
    struct mt_settings settings;
    MT_TRY(mt_settings_load(question->trace, question->run, &settings));
    *out = mt_program_of_settings(&settings).is_dry ? MT_CURVE_BY_EVENT : MT_CURVE_BY_TIME;
    mt_settings_release(&settings);
    return MT_OK;
}

/* Shows a rank together with the other ranks of its job; alone if there are none, or if it was run again since. */
static mt_status show_job(const struct timeline_options *timeline, const struct mt_question *question,
                          const struct mt_rank_job *job, struct mt_page_plan *plan)
{
    const struct mt_run *run = question->run;
    struct mt_page_job shown = {.job = job, .place = timeline->trace.trace, .shown = run->rank};
    MT_TRY(find_axis(question, &shown.axis));
    const struct mt_job_rank *rank;
    const bool is_newest = mt_rank_job_find(job, run->rank, &rank) == MT_OK && rank->of->run == run->id;
    plan->job = is_newest && job->count > 1 ? &shown : NULL;
    return show_run(timeline, question, plan);
}

static mt_status show_rank(const struct timeline_options *timeline, const struct mt_question *question,
                           struct mt_page_plan *plan)
{
    const struct mt_run *run = question->run;
    struct mt_ranks ranks;
    struct mt_rank_job job = {0};
    mt_status status = mt_ranks_open(&timeline->trace.trace, 1, &ranks);
    MT_THEN(status, mt_rank_job_open(&ranks, run->job != NULL ? run->job : "", &job));
    MT_THEN(status, show_job(timeline, question, &job, plan));
    mt_rank_job_release(&job);
    mt_ranks_close(&ranks);
    return status;
}

static mt_status show(const struct mt_question *question, const struct timeline_options *timeline)
{
    struct mt_page_plan plan = {.program = "memtrace " MT_VERSION};
    MT_TRY(mt_output_file_check("-o", timeline->output, NULL));
    add_source(question, timeline->trace.trace, &plan);
    if (timeline->compared != NULL)
        return show_compared(timeline, question, &plan);
    return question->run->rank >= 0 ? show_rank(timeline, question, &plan) : show_run(timeline, question, &plan);
}

static mt_status ask_timeline(const struct mt_question *question, const void *given)
{
    const struct timeline_options *timeline = given;
    MT_TRY(show(question, timeline));
    tell_result(timeline->output, mt_say);
    return MT_OK;
}

mt_status mt_timeline_page_write(const char *trace, int64_t run, const char *path)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, run);
    const struct timeline_options timeline = {.trace = {.trace = trace, .run = number}, .output = path};
    struct mt_question question;
    MT_TRY(mt_question_open(&timeline.trace, &question));
    mt_status status = show(&question, &timeline);
    mt_question_close(&question);
    if (status == MT_OK)
        tell_result(path, mt_note);
    return status;
}

const struct mt_command mt_command_timeline = {
    .name = "timeline",
    .summary = "Writes a page that shows a run's memory over time: one HTML file, for any browser.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "The page shows allocated bytes by category over time, the peak and its parts, every block by time and\n"
        "address, and steps, phases and layers. For any moment it shows the live blocks, the gaps between them, the\n"
        "modules that hold them, and sums by role and other words. A search shows only its matches, and any group\n"
        "can be hidden. It opens with the verdict and the first remedy. The side panel lists each change that saves\n"
        "memory, with the bytes before and after, or what memtrace diff found.\n"
        "For the ranks of a job, in a folder of traces or in one trace, it also shows a small chart of each rank,\n"
        "the highest peak first; ranks that are not too long can be opened. The page needs no network and no GPU.\n",
    .examples = "  memtrace timeline\n"
                "  memtrace timeline --run 1 --diff 2 -o autocast.html\n"
                "  memtrace timeline --trace ranks.db\n",
    .options = options,
    MT_OPTIONS_OF(struct timeline_options, .trace.trace = MT_DEFAULT_TRACE, .output = DEFAULT_OUTPUT),
    .ask = ask_timeline,
};
