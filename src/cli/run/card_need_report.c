#include "cli/run/card_need_report.h"

#include "analysis/fit/card_need.h"
#include "answer/answer.h"
#include "answer/output_file.h"
#include "base/memory.h"
#include "cli/output/annotation.h"
#include "cli/record/dry_report.h"
#include "cli/record/program_notes.h"
#include "device/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

/* A program. */
struct program_row {
    struct mt_text program; /* its command line; owned */
    int64_t rank, sharers;
    uint64_t bytes, reserved_bytes, outside_bytes;
    struct mt_caveat_lists caveats; /* borrowed from a report */
};

#define ROW struct program_row
static const struct mt_field program_fields[] = {
    MT_OWNED(ROW, program, "program", "program", NULL),
    MT_KNOWN(ROW, rank, "rank", "rank", "that needs most"),
    MT_POSITIVE(ROW, sharers, "sharers", "share it", "ranks that use its card, whose bytes are summed"),
    MT_SOME_BYTES(ROW, reserved_bytes, "reserved", "reserved", NULL),
    MT_SOME_BYTES(ROW, outside_bytes, "outside", "outside", NULL),
    MT_SOME_BYTES(ROW, bytes, "bytes", "needs", NULL),
    MT_PART(ROW, caveats, &mt_caveat_lists_type),
    MT_FIELDS_END,
};
static const struct mt_row_type program_type = MT_ROW_TYPE(ROW, program_fields);
#undef ROW

/* The answer, with a report and a row for each program. */
struct answer {
    const struct mt_card_need_question *question;
    struct mt_card_need need;
    struct mt_dry_report *reports;
    struct program_row *rows;
    size_t count;       /* of both; 0: no answer */
    const char *reason; /* why there is no answer; otherwise NULL */
    const char *device;
    int64_t exit_code, rank;
    uint64_t free_bytes, short_bytes;
    bool is_certain;
    struct mt_text verdict;
};

#define ROW struct answer
static const struct mt_field answer_fields[] = {
    MT_INTEGER(ROW, exit_code, "exit_code", NULL, NULL),
    MT_NAME(ROW, reason, "reason", NULL, NULL),
    MT_TEXT(ROW, device, "on", NULL, NULL),
    MT_FLAG(ROW, need.fits, "fits", NULL, NULL),
    MT_FLAG(ROW, need.fits_by_reuse, "by_reuse", NULL, NULL),
    MT_FLAG(ROW, is_certain, "certain", NULL, NULL),
    MT_KNOWN(ROW, rank, "rank", NULL, NULL),
    MT_SOME_BYTES(ROW, need.bytes, "bytes", NULL, NULL),
    MT_BYTES(ROW, need.outside_bytes, "outside", NULL, NULL),
    MT_BYTES(ROW, need.memory_bytes, "card", NULL, NULL),
    MT_BYTES(ROW, free_bytes, "free", NULL, NULL),
    MT_BYTES(ROW, short_bytes, "short", NULL, NULL),
    MT_ROWS(ROW, rows, count, "programs", &program_type, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

/* ---- the answer ---- */

static bool is_too_large(const struct mt_card_need *need)
{
    return need->programs[need->largest].is_too_large;
}

/* Adds "it needs 14.20 GiB of the 79.11 GiB of sim:h100, 64.91 GiB are free". */
static void add_verdict(struct answer *answer)
{
    const struct mt_card_need *need = &answer->need;
    struct mt_text *out = &answer->verdict;
    mt_text_add(out, answer->count > 1 ? "they need " : "it needs ");
    if (answer->count == 1 && need->programs[0].peak.sharers > 1)
        mt_text_add(out, "on the card that %" PRId64 " ranks share ", need->programs[0].peak.sharers);
    else if (answer->rank >= 0 && answer->count == 1)
        mt_text_add(out, "on rank %" PRId64 " ", answer->rank);
    if (is_too_large(need))
        mt_text_add(out, "more than %s", MT_SIZE(MT_ROOMY_BYTES));
    else
        mt_text_add(out, "%s", MT_SIZE(need->bytes));
    mt_text_add(out, answer->question->limit_bytes == need->memory_bytes ? " of the limit of %s on " : " of the %s of ",
                MT_SIZE(need->memory_bytes));
    mt_text_add_visible(out, answer->device);
    if (need->fits_by_reuse)
        mt_text_add(out, ", and fits since PyTorch frees cached memory when the card is full");
    else if (need->fits)
        mt_text_add(out, ", %s are free", MT_SIZE(answer->free_bytes));
    else if (!is_too_large(need))
        mt_text_add(out, ", %s are missing", MT_SIZE(answer->short_bytes));
}

static void add_words(char *const *words, struct mt_text *out)
{
    for (; *words != NULL; words++) {
        if (out->length > 0)
            mt_text_add(out, " ");
        mt_text_add_shell_word(out, *words);
    }
}

/* Loads the report of a program, and adds its row. */
static void add_program(struct answer *answer, const struct mt_program_need *program)
{
    const struct mt_card_need *need = &answer->need;
    struct mt_dry_report *report = &answer->reports[answer->count];
    struct program_row *row = &answer->rows[answer->count++];
    mt_dry_report_load(&program->outcome, "", "", report);
    const uint64_t others_bytes = need->bytes - program->bytes + program->outside_bytes;
    const uint64_t capacity_bytes = need->memory_bytes > others_bytes ? need->memory_bytes - others_bytes : 0;
    mt_dry_report_shrink_card(report, MT_ROOMY_BYTES - capacity_bytes);
    answer->is_certain = answer->is_certain && !mt_dry_report_is_uncertain(report);
    *row = (struct program_row){.rank = program->peak.rank,
                                .sharers = program->peak.sharers,
                                .bytes = program->bytes,
                                .outside_bytes = program->outside_bytes};
    if (!program->is_too_large)
        row->reserved_bytes = program->peak.peak.reserved_bytes;
    if (report->worst != NULL)
        row->caveats = report->worst->row.caveats;
    add_words(program->program->words, &row->program);
}

/* Sets the answer's fields from the result. */
static void fill(struct answer *answer)
{
    struct mt_card_need *need = &answer->need;
    answer->is_certain = true;
    answer->rank = need->programs[need->largest].peak.rank;
    answer->reports = mt_host_alloc(need->count * sizeof *answer->reports);
    answer->rows = mt_host_alloc(need->count * sizeof *answer->rows);
    for (size_t i = 0; i < need->count; i++)
        add_program(answer, &need->programs[i]);
    if (is_too_large(need))
        need->bytes = 0;
    else if (need->bytes <= need->memory_bytes)
        answer->free_bytes = need->memory_bytes - need->bytes;
    else if (!need->fits)
        answer->short_bytes = need->bytes - need->memory_bytes;
    add_verdict(answer);
}

static void release(struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        mt_dry_report_release(&answer->reports[i]);
        mt_text_release(&answer->rows[i].program);
    }
    free(answer->reports);
    free(answer->rows);
    mt_text_release(&answer->verdict);
    mt_card_need_release(&answer->need);
}

/* Returns the exit status of the answer. */
static mt_status judge(const struct answer *answer)
{
    if (!answer->need.fits)
        return mt_fail(MT_FAILED, "%s not fit: %s", answer->count > 1 ? "the programs do" : "the program does",
                       mt_text_get(&answer->verdict));
    if (answer->is_certain || !answer->question->is_strict)
        return MT_OK;
    return mt_fail(MT_NOT_CERTAIN, "%s, but something that could take memory is unknown or did not run; see above",
                   answer->count > 1 ? "the programs fit" : "the program fits");
}

/* ---- output ---- */

static void print_json(const struct answer *answer)
{
    const char *budget = answer->question->budget;
    json_t *value = budget != NULL ? json_pack("{s:s}", "budget", budget) : mt_schema_json("fit_need");
    mt_row_add_json(&answer_type, answer, value);
    if (answer->count > 0)
        mt_row_add_json(&mt_caveat_lists_type, &answer->rows[answer->need.largest].caveats, value);
    if (answer->question->list != NULL)
        json_array_append_new(answer->question->list, value);
    else
        mt_json_print(value);
}

/* Sets the card of a request if the device is a known card with all its memory. */
static mt_status name_card(const char *device, struct mt_card *card, struct mt_gpu_request *out)
{
    struct mt_card known;
    MT_TRY(mt_device_find_card(device, card));
    if (mt_card_find(card->name, &known) && known.memory_bytes == card->memory_bytes)
        out->card = card->name;
    return MT_OK;
}

/* Fails with MT_USAGE if the scheduler needs a card's name, and the device has none. */
static mt_status check_scheduler(const struct mt_card_need_question *question)
{
    struct mt_card card;
    struct mt_gpu_request request = {0};
    MT_TRY(name_card(question->device->name, &card, &request));
    if (question->scheduler != MT_SCHEDULER_SKYPILOT || request.card != NULL)
        return MT_OK;
    return mt_fail(MT_USAGE,
                   "SkyPilot asks for GPUs by name, and %s is not a known card: --device sim:h100, for example",
                   question->device->name);
}

/* Prints the request to a scheduler, for the largest numbers of nodes and cards of any program. */
static mt_status print_request(const struct answer *answer)
{
    struct mt_card card;
    struct mt_gpu_request request = {.nodes = 1, .per_node = 1};
    struct mt_text lines = {0};
    const struct mt_card_need *need = &answer->need;
    for (size_t i = 0; i < need->count; i++) {
        const struct mt_program_need *program = &need->programs[i];
        request.nodes = program->nodes > request.nodes ? program->nodes : request.nodes;
        request.per_node = program->per_node > request.per_node ? program->per_node : request.per_node;
    }
    MT_TRY(name_card(answer->device, &card, &request));
    request.bytes = request.card != NULL ? mt_gpu_request_bytes(need->bytes, card.memory_bytes) : need->bytes;
    mt_gpu_request_add(&request, answer->question->scheduler, &lines);
    fputs(mt_text_get(&lines), stdout);
    mt_text_release(&lines);
    mt_note("for %s%s", mt_scheduler_place(answer->question->scheduler), request.nodes > 1 ? ", of each node" : "");
    return MT_OK;
}

/* Prints the result of a budget: "train: passes: it needs 14.20 GiB …". */
static void print_budget(const struct answer *answer, const char *why)
{
    mt_say("%s: %s: %s.", answer->question->budget, answer->exit_code == MT_OK ? "passes" : "fails", why);
}

/* True if ranks of a program share a card. */
static bool has_sharers(const struct answer *answer)
{
    bool has = false;
    for (size_t i = 0; i < answer->count; i++)
        has = has || answer->rows[i].sharers > 1;
    return has;
}

static mt_status print_answer(const struct answer *answer)
{
    const struct mt_card_need_question *question = answer->question;
    if (question->form == MT_REPORT_JSON) {
        print_json(answer);
        return MT_OK;
    }
    for (size_t i = 0; i < answer->count; i++)
        mt_dry_report_note_caveats(&answer->reports[i]);
    if (question->scheduler != MT_SCHEDULER_COUNT)
        return answer->exit_code == MT_OK ? print_request(answer) : MT_OK;
    if (question->is_quiet && !is_too_large(&answer->need))
        printf("%" PRIu64 "\n", answer->need.bytes);
    if (question->budget != NULL)
        print_budget(answer, answer->exit_code == MT_OK ? mt_text_get(&answer->verdict) : mt_last_error());
    if (question->is_quiet || question->budget != NULL)
        return MT_OK;
    mt_rows_print(&program_type,
                  has_sharers(answer) ? "program rank sharers reserved outside bytes"
                  : answer->rank >= 0 ? "program rank reserved outside bytes"
                                      : "program reserved outside bytes",
                  NULL, answer->rows, answer->count);
    mt_say("\n%s: %s.", answer->need.fits ? "It fits" : "It does not fit", mt_text_get(&answer->verdict));
    return MT_OK;
}

/* Finds the line at which the program that needs most reaches its peak. */
static void find_place(const struct answer *answer, struct mt_source_place *out)
{
    const struct mt_dry_report_run *run = answer->reports[answer->need.largest].worst;
    struct mt_question question = {0};
    *out = (struct mt_source_place){0};
    if (run == NULL || mt_trace_find_numbered(run->trace, run->row.run, &question.run) != MT_OK)
        return;
    question.trace = run->trace;
    (void)mt_source_place_find_peak(&question, MT_MEASURE_ALLOCATED, out); /* on failure, the annotation has no line */
}

/* Finds the line at which the first failed program failed. */
static void find_failure(const struct mt_card_need *need, struct mt_source_place *out)
{
    *out = (struct mt_source_place){0};
    for (size_t i = 0; i < need->count && out->line == 0; i++)
        if (need->programs[i].outcome.code != 0)
            mt_source_place_find_failure(mt_text_get(&need->programs[i].outcome.said), out);
}

static void annotate(const struct answer *answer, const char *failure)
{
    struct mt_source_place place;
    if (answer->count > 0)
        find_place(answer, &place);
    else
        find_failure(&answer->need, &place);
    mt_annotation_print(&place, answer->question->title, failure);
    mt_source_place_release(&place);
}

static void add_summary_row(const struct program_row *row, struct mt_text *out)
{
    mt_text_add(out, "| ");
    mt_text_add_markdown(out, mt_text_get(&row->program));
    mt_text_add(out, row->bytes > 0 ? " | %s | %s | %s |\n" : " | - | - | - |\n", MT_SIZE(row->reserved_bytes),
                MT_SIZE(row->outside_bytes), MT_SIZE(row->bytes));
}

/* Appends the answer, or why there is none, to the file as Markdown. */
static mt_status append_summary(const struct answer *answer, const char *failure)
{
    struct mt_text out = {0}, caveats = {0};
    mt_text_add(&out, "### %s: ", answer->question->title);
    mt_text_add_markdown(&out, failure != NULL ? failure : mt_text_get(&answer->verdict));
    if (answer->count > 0)
        mt_text_add(&out, "\n\n| program | reserved | outside PyTorch | needs |\n|---|---|---|---|\n");
    for (size_t i = 0; i < answer->count; i++) {
        add_summary_row(&answer->rows[i], &out);
        if (answer->reports[i].worst != NULL)
            mt_verdict_add_caveats(&answer->reports[i].worst->row, &caveats);
    }
    if (caveats.length > 0)
        mt_text_add(&out, "\n```\n%s```\n", mt_text_get(&caveats));
    mt_text_add(&out, answer->count > 0 ? "\n" : "\n\n");
    mt_status status = mt_output_file_put(answer->question->summary, MT_OUTPUT_APPENDED, mt_text_get(&out));
    mt_text_release(&out);
    mt_text_release(&caveats);
    return status == MT_OK ? status : mt_fail_context(status, "--summary");
}

/* Prints the annotation and writes the summary. `status` is the answer's; its text is the last failure's. */
static mt_status report_to_others(const struct answer *answer, mt_status status)
{
    const struct mt_error error = mt_error_save(status);
    const char *failure = status != MT_OK ? error.text : NULL;
    if (answer->question->annotates && status != MT_OK)
        annotate(answer, failure);
    mt_status written = answer->question->summary != NULL ? append_summary(answer, failure) : MT_OK;
    return mt_error_restore(&error, written);
}

/* Prints the end of the output of failed programs. */
static void print_said(const struct mt_card_need *need)
{
    for (size_t i = 0; i < need->count; i++)
        if (need->programs[i].outcome.code != 0)
            fputs(mt_text_get(&need->programs[i].outcome.said), stderr);
}

/* Prints that there is no answer, with the text of the last failure. */
static void print_failure(struct answer *answer, mt_status status)
{
    const struct mt_error error = mt_error_save(status);
    print_said(&answer->need);
    answer->reason = error.text;
    answer->rank = -1;
    answer->need.memory_bytes = answer->question->device->memory_bytes;
    if (answer->question->form == MT_REPORT_JSON)
        print_json(answer);
    else if (answer->question->budget != NULL)
        print_budget(answer, error.text);
    answer->reason = NULL;
    (void)mt_error_restore(&error, MT_OK);
}

/* ---- programs ---- */

/* Splits the words into programs, whose options begin as `usual`. Puts NULL between them in `words`, a copy. */
static mt_status split_programs(const struct mt_dry_options *usual, char **words, struct mt_dry_options *out,
                                size_t *out_count)
{
    char **begin = words;
    *out_count = 0;
    for (bool is_end = false; !is_end; words++) {
        is_end = *words == NULL;
        if (!is_end && strcmp(*words, MT_BETWEEN_PROGRAMS) != 0)
            continue;
        if (words == begin)
            return mt_fail(MT_USAGE, MT_BETWEEN_PROGRAMS " stands between two programs");
        if (*out_count == MT_MOST_PROGRAMS)
            return mt_fail(MT_USAGE, "more than %d programs", MT_MOST_PROGRAMS);
        *words = NULL;
        out[*out_count] = *usual;
        out[(*out_count)++].words = begin;
        begin = words + 1;
    }
    return MT_OK;
}

static char **copy_words(char *const *words)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    char **copy = mt_host_alloc((count + 1) * sizeof *copy);
    memcpy(copy, words, count * sizeof *copy);
    return copy;
}

/* Prints the answer, and returns its exit status. */
static mt_status print_found(struct answer *answer)
{
    fill(answer);
    mt_status status = judge(answer);
    const struct mt_error error = mt_error_save(status);
    answer->exit_code = status;
    return mt_error_restore(&error, print_answer(answer));
}

static mt_status answer_programs(const struct mt_card_need_question *question, const struct mt_dry_options *programs,
                                 size_t count)
{
    struct answer answer = {.question = question, .device = question->device->name};
    mt_status status = mt_card_need_find(programs, count, question->device, question->limit_bytes, &answer.need);
    status = mt_dry_hint(status, programs);
    for (size_t i = 0; i < answer.need.count && !question->is_quiet; i++)
        mt_program_outcome_note(&answer.need.programs[i].outcome);
    answer.exit_code = status;
    if (status != MT_OK)
        print_failure(&answer, status);
    else
        status = print_found(&answer);
    status = report_to_others(&answer, status);
    release(&answer);
    return status;
}

mt_status mt_card_need_answer(const struct mt_card_need_question *question)
{
    struct mt_dry_options programs[MT_MOST_PROGRAMS];
    size_t count = 0;
    MT_TRY(check_scheduler(question));
    char **words = copy_words(question->program->words);
    mt_status status = split_programs(question->program, words, programs, &count);
    MT_THEN(status, answer_programs(question, programs, count));
    free(words);
    return status;
}
