#include "cli/output/question.h"

#include "analysis/ranks/rank_job.h"
#include "answer/answer.h"
#include "base/label.h"
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/run_word.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define X(name, text) text,
const char *const mt_phase_names[] = {MT_PHASES(X) NULL};
#undef X

static const struct mt_field oom_fields[] = {
    MT_INTEGER(struct mt_steps_row, oom_bytes, "requested_bytes", NULL, "by the last request"),
    MT_TEXT(struct mt_steps_row, oom_category, "category", NULL, NULL),
    MT_TEXT(struct mt_steps_row, oom_phase, "phase", NULL, NULL),
    MT_TEXT(struct mt_steps_row, oom_span, "span", NULL, NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_steps_oom_type = MT_ROW_TYPE(struct mt_steps_row, oom_fields);

void mt_note_missing(const struct mt_run *run)
{
    const int64_t last_event = run->first_event + run->event_count - 1;
    if (run->missing_records > 0)
        mt_note("run %" PRId64 " lacks its end: %" PRId64 " records after event %" PRId64 " were damaged and are lost",
                run->id, run->missing_records, last_event);
    else if (mt_run_is(run, MT_RUN_DAMAGED))
        mt_note("run %" PRId64 " lacks its end: an unknown number of events after event %" PRId64 " is lost", run->id,
                last_event);
}

static void note_state(const struct mt_run *run)
{
    if (mt_run_is(run, MT_RUN_RUNNING))
        mt_note("run %" PRId64 " is still running: these are its first %" PRId64 " events", run->id, run->event_count);
    else if (mt_run_is(run, MT_RUN_INTERRUPTED))
        mt_note("run %" PRId64 " was interrupted: its %" PRId64 " events were recovered", run->id, run->event_count);
    if (run->lost_events > 0)
        mt_note("run %" PRId64 " is incomplete: %" PRId64 " events could not be stored", run->id, run->lost_events);
    mt_note_missing(run);
}

static bool is_folder(const char *name)
{
    struct stat about;
    return stat(name, &about) == 0 && S_ISDIR(about.st_mode);
}

mt_status mt_trace_open_to_ask(const char *path, struct mt_trace **out)
{
    *out = NULL;
    if (is_folder(path))
        return mt_fail(MT_USAGE, "%s is a folder: memtrace ranks lists the traces in it", path);
    mt_status status = mt_trace_open(path, out);
    if (status != MT_BAD_TRACE || path[0] == '\0' || access(path, F_OK) == 0)
        return status;
    struct mt_text word = {0};
    assert(*out == NULL);
    mt_text_add_shell_word(&word, path);
    mt_fail_hint(status, "memtrace run --trace %s makes one", word.data);
    mt_text_release(&word);
    return status;
}

mt_status mt_rank_question_open(const struct mt_rank *rank, struct mt_question *out)
{
    *out = (struct mt_question){0};
    MT_TRY(mt_trace_open_to_ask(rank->file, &out->trace));
    return mt_trace_find_numbered(out->trace, rank->run, &out->run);
}

/* Finds the rank named by `which`, "rank3"; NULL: the rank with the highest peak. */
static mt_status find_rank(const struct mt_rank_job *job, const char *which, const struct mt_job_rank **out)
{
    int64_t number;
    char rest;
    *out = &job->ranks[0];
    if (which == NULL)
        return MT_OK;
    if (sscanf(which, "rank%" SCNd64 "%c", &number, &rest) != 1)
        return mt_fail(MT_USAGE, "\"%s\" is not a rank: in a folder of traces, runs are called rank0, rank1, …", which);
    return mt_rank_job_find(job, number, out);
}

static mt_status open_rank_of(const struct mt_rank_job *job, const char *which, struct mt_question *out)
{
    const struct mt_job_rank *rank;
    MT_TRY(find_rank(job, which, &rank));
    mt_status status = mt_rank_question_open(rank->of, out);
    if (status != MT_OK) {
        mt_question_close(out);
        return status;
    }
    out->file = mt_host_strdup(rank->of->file);
    if (which == NULL)
        mt_note("rank %" PRId64
                " has the highest peak: this is %s (--run rankN names another; memtrace ranks lists them)",
                rank->of->rank, rank->of->file);
    note_state(out->run);
    return MT_OK;
}

/* Opens a rank of the latest job in a folder of traces. */
static mt_status open_in_folder(const char *folder, const char *which, struct mt_question *out)
{
    struct mt_ranks ranks;
    struct mt_rank_job job = {0};
    mt_status status = mt_ranks_open(&folder, 1, &ranks);
    MT_THEN(status, mt_rank_job_open(&ranks, NULL, &job));
    MT_THEN(status, open_rank_of(&job, which, out));
    mt_rank_job_release(&job);
    mt_ranks_close(&ranks);
    return status;
}

static mt_status open_run(const char *trace, const char *which, struct mt_question *out)
{
    *out = (struct mt_question){0};
    if (is_folder(trace))
        return open_in_folder(trace, which, out);
    MT_TRY(mt_trace_open_to_ask(trace, &out->trace));
    mt_status status = mt_trace_find_run(out->trace, which, &out->run);
    if (status == MT_OK)
        note_state(out->run);
    else
        mt_trace_close(out->trace);
    return status;
}

mt_status mt_question_open(const struct mt_trace_options *options, struct mt_question *out)
{
    return open_run(options->trace, options->run, out);
}

mt_status mt_trace_options_take(const char *text, void *options)
{
    struct mt_trace_options *asked = options;
    if (strcmp(mt_run_word_option(text), "--trace") == 0)
        asked->trace = text;
    else
        asked->run = text;
    return MT_OK;
}

static const struct mt_run *find_newest(struct mt_trace *trace, mt_run_state state)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    while (count > 0 && !mt_run_is(&runs[count - 1], state))
        count--;
    return count > 0 ? &runs[count - 1] : NULL;
}

mt_status mt_question_open_ended(const struct mt_trace_options *options, mt_run_state state, struct mt_question *out)
{
    if (options->run != NULL)
        return mt_question_open(options, out);
    *out = (struct mt_question){0};
    MT_TRY(mt_trace_open_to_ask(options->trace, &out->trace));
    out->run = find_newest(out->trace, state);
    if (out->run != NULL) {
        note_state(out->run);
        return MT_OK;
    }
    mt_question_close(out);
    return mt_fail(
        MT_USAGE,
        "no run of %s ended with the state %s, so there is nothing to report: memtrace runs lists how each ended",
        options->trace, mt_run_state_name(state));
}

/* Returns the file at the beginning of FILE:RUN; NULL if no prefix before a colon is a file. The caller frees it. */
static char *file_of(const char *which)
{
    for (const char *colon = strchr(which, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
        char *file = mt_host_strdup(which);
        file[colon - which] = '\0';
        if (access(file, F_OK) == 0)
            return file;
        free(file);
    }
    return NULL;
}

static bool is_file(const char *name)
{
    struct stat about;
    return stat(name, &about) == 0 && S_ISREG(about.st_mode);
}

static mt_status fail_no_file(const char *trace, const char *which)
{
    return mt_fail(MT_USAGE, "there is no file \"%.*s\", and no run \"%s\" in %s", (int)strcspn(which, ":"), which,
                   which, trace);
}

mt_status mt_question_open_named(const char *trace, const char *which, struct mt_question *out)
{
    char *file = which != NULL ? file_of(which) : NULL;
    mt_status status;
    if (file == NULL)
        status = open_run(trace, which, out);
    else
        status = open_run(file, which[strlen(file) + 1] != '\0' ? which + strlen(file) + 1 : NULL, out);
    if (status != MT_OK && file == NULL && which != NULL && is_file(which)) {
        file = mt_host_strdup(which);
        status = open_run(file, NULL, out);
    } else if (status != MT_OK && file == NULL && which != NULL && strchr(which, ':') != NULL) {
        status = fail_no_file(trace, which);
    }
    if (status != MT_OK || out->file != NULL)
        free(file);
    else
        out->file = file;
    return status;
}

mt_status mt_runs_visit(struct mt_trace *trace, const char *which, mt_run_visit visit, void *context)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    mt_status status = which != NULL ? mt_trace_find_run(trace, which, &runs) : MT_OK;
    if (which != NULL)
        count = 1;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = visit(context, trace, &runs[i]);
    return status;
}

void mt_question_close(struct mt_question *question)
{
    mt_trace_close(question->trace);
    free(question->file);
    *question = (struct mt_question){0};
}

json_t *mt_question_json(const struct mt_question *question, const char *name)
{
    assert(question->run != NULL);
    return mt_answer_begin(name, question->run);
}

void mt_question_print_json(const struct mt_question *question, const char *name, const struct mt_row_type *type,
                            const void *answer)
{
    json_t *object = mt_question_json(question, name);
    mt_row_add_json(type, answer, object);
    mt_json_print(object);
}

void mt_text_add_trace_option(struct mt_text *out, const char *trace)
{
    if (strcmp(trace, MT_DEFAULT_TRACE) == 0)
        return;
    mt_text_add(out, " --trace ");
    mt_text_add_shell_word(out, trace);
}

void mt_question_print_title(const struct mt_question *question)
{
    const struct mt_screen screen = mt_output_screen();
    mt_run_title_print(question->run, &screen);
}

mt_status mt_question_setting(const struct mt_question *question, const char *name, const char **out_value)
{
    struct mt_setting_row *rows;
    size_t count;
    mt_status status = mt_trace_settings(question->trace, question->run, &rows, &count);
    *out_value = mt_setting_find(rows, count, name);
    free(rows);
    return status;
}
