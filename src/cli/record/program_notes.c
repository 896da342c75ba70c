#include "cli/record/program_notes.h"

#include "base/text.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/rank_list.h"
#include "cli/record/dry_options.h"
#include "producers/program/program_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

char *mt_program_trace_shorten(const struct mt_program_outcome *outcome, const char *trace, const char *path)
{
    struct mt_text text = {0};
    const char *file = strrchr(trace, '/');
    const size_t folder = file != NULL ? (size_t)(file + 1 - trace) : 0;
    const size_t before = (size_t)(strrchr(outcome->path, '/') + 1 - outcome->path);
    if (strncmp(path, outcome->path, before) == 0)
        mt_text_add(&text, "%.*s%s", (int)folder, trace, path + before);
    else
        mt_text_add(&text, "%s", path);
    return text.data;
}

static mt_status describe_peak(struct mt_trace *trace, int64_t number, struct mt_text *out)
{
    const struct mt_run *run;
    uint64_t peak_bytes;
    char bytes[MT_BYTES_TEXT];
    MT_TRY(mt_trace_find_numbered(trace, number, &run));
    MT_TRY(mt_trace_peak_bytes(trace, run, MT_MEASURE_ALLOCATED, &peak_bytes));
    mt_text_add(out, "peak %s", mt_format_bytes(peak_bytes, bytes));
    if (!mt_run_is(run, MT_RUN_DONE))
        mt_text_add(out, " (%s)", run->state);
    return MT_OK;
}

void mt_program_run_note(const struct mt_program_outcome *outcome, const char *trace,
                         const struct mt_record_answer *answer)
{
    struct mt_text peak = {0}, option = {0};
    struct mt_trace *opened = NULL;
    char *name = mt_program_trace_shorten(outcome, trace, answer->text);
    mt_status status = mt_trace_open(answer->text, &opened);
    MT_THEN(status, describe_peak(opened, answer->number, &peak));
    mt_trace_close(opened);
    mt_text_add_trace_option(&option, name);
    if (status == MT_OK)
        mt_note("run %" PRId64 " of %s: %s; see memtrace peak --run %" PRId64 "%s", answer->number, name, peak.data,
                answer->number, mt_text_get(&option));
    else
        mt_note("run %" PRId64 " of %s: %s", answer->number, name, mt_last_error());
    mt_text_release(&peak);
    mt_text_release(&option);
    free(name);
}

void mt_program_process_note(const struct mt_record_answer *answer)
{
    struct mt_text words = {0};
    mt_program_note_add(answer, &words);
    mt_note("process %" PRId64 ": %s", answer->pid, mt_text_get(&words));
    mt_text_release(&words);
}

void mt_program_python_note(char *const *given, const char *python)
{
    struct mt_program_words words;
    mt_program_words_find(given, python, &words);
    if (words.source != NULL && strchr(words.interpreter, '/') == NULL)
        mt_note("there is no %s in PATH: name an interpreter that has PyTorch with --python FILE", words.interpreter);
    else if (words.source != NULL)
        mt_note("%s runs under %s (%s)", given[0], words.interpreter, words.source);
    mt_program_words_release(&words);
}

/* ---- ranks ---- */

static void note_choice(const struct mt_program_outcome *outcome)
{
    for (size_t i = 0; i < outcome->stand_in_count; i++) {
        const struct mt_rank_stand_in *row = &outcome->stand_ins[i];
        if (row->like > 1)
            mt_note("rank %" PRId64 " stands for %" PRId64 " of %" PRId64 " ranks", row->rank, row->like,
                    outcome->ranks);
        if (row->differs_from >= 0)
            mt_note("rank %" PRId64 " requests other memory than rank %" PRId64 ", which was assumed to stand for it",
                    row->rank, row->differs_from);
    }
    if (outcome->stand_in_count > 0)
        mt_note("%zu ranks were run; see memtrace dry-run --only to run others", outcome->stand_in_count);
}

static void note_processes(const struct mt_program_outcome *outcome)
{
    for (size_t i = 0; i < outcome->count; i++)
        if (outcome->answers[i].kind == MT_RECORD_NOTE || outcome->answers[i].kind == MT_RECORD_LOST)
            mt_program_process_note(&outcome->answers[i]);
}

void mt_program_ranks_note(const struct mt_program_outcome *outcome)
{
    if (!outcome->is_many)
        return;
    note_choice(outcome);
    note_processes(outcome);
    for (int64_t i = 0; i < outcome->notes.count; i++) {
        const struct mt_rank_note *note = &outcome->notes.notes[i];
        struct mt_text ranks = {0};
        mt_text_add(&ranks, note->count > 1 ? "ranks " : "rank ");
        mt_rank_list_add(note->ranks, (size_t)note->count, &ranks);
        mt_note("%s: %s", mt_text_get(&ranks), note->words);
        mt_text_release(&ranks);
    }
}

void mt_program_outcome_note(const struct mt_program_outcome *outcome)
{
    if (outcome->is_many)
        mt_program_ranks_note(outcome);
    else
        note_processes(outcome);
}

mt_status mt_dry_hint(mt_status status, const struct mt_dry_options *options)
{
    if (status == MT_USAGE && options->only != NULL)
        return mt_fail_hint(status, "see --only and --ranks");
    const bool has_ranks = options->ranks > 0 || (options->words != NULL && mt_launcher_is(options->words));
    return status == MT_USAGE && has_ranks ? mt_fail_hint(status, "see --ranks") : status;
}
