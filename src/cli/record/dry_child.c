#include "cli/record/dry_child.h"

#include "base/memory.h"
#include "cli/record/dry_ranks.h"
#include "producers/cuda/account.h"
#include "producers/program/child_program.h"
#include "producers/program/dry_files.h"
#include "producers/program/program_words.h"
#include "producers/program/python_start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Fails unless the spelling is that of a simulated device that can be opened. */
static mt_status check_device(const char *spelling)
{
    struct mt_device *device = NULL;
    if (strstr(spelling, ".json") != NULL)
        return mt_fail(MT_USAGE, "a dry run takes a known card or a size, not the file of a card: %s", spelling);
    if (!mt_device_is_simulated(spelling))
        return mt_fail(MT_USAGE, "a dry run takes a simulated card: --device sim:h100, not %s", spelling);
    MT_TRY(mt_device_open(spelling, &device));
    mt_device_close(device);
    return MT_OK;
}

static mt_status check_number(const char *text)
{
    char *end;
    (void)mt_read_real(text, &end);
    return end != text && *end == '\0' ? MT_OK : mt_fail(MT_USAGE, "--assume takes a number, not \"%s\"", text);
}

mt_status mt_dry_device_spell(const struct mt_dry_options *options, const char *device, char out[MT_DEVICE_NAME])
{
    const bool is_shared = options->free != NULL;
    const int length =
        snprintf(out, MT_DEVICE_NAME, "%s%s%s", device, is_shared ? ":free=" : "", is_shared ? options->free : "");
    return length < MT_DEVICE_NAME ? MT_OK : mt_fail(MT_USAGE, "%s: the name of a device is too long", device);
}

mt_status mt_dry_children_prepare(const struct mt_dry_options *options, const char *device)
{
    char spelling[MT_DEVICE_NAME];
    MT_TRY(mt_dry_device_spell(options, device, spelling));
    MT_TRY(check_device(spelling));
    MT_TRY(check_number(options->assumed));
    return mt_python_start();
}

/* Returns the moment at which the program that begins now is ended, in seconds since 1970; 0: never. */
static double deadline_of(const struct mt_dry_options *options)
{
    struct timespec now;
    if (options->time_limit == 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 + (double)options->time_limit;
}

/* Makes the request for the program that is started next. */
static mt_status begin(const struct mt_dry_child *child, int64_t cards, struct mt_recording *out, char **out_files)
{
    char device[MT_DEVICE_NAME];
    MT_TRY(mt_dry_device_spell(child->options, child->device, device));
    MT_TRY(mt_recording_begin(child->trace, out));
    MT_TRY(mt_dry_files_begin(out_files));
    const struct mt_record_request request = {.trace = out->path,
                                              .answers = out->answers,
                                              .name = child->name,
                                              .torch = MT_RECORD_TORCH_DRY,
                                              .device = MT_EVERY_DEVICE};
    const struct mt_dry_request what = {.device = device,
                                        .cards = cards,
                                        .steps = child->options->steps,
                                        .deadline_s = deadline_of(child->options),
                                        .assumed = child->options->assumed,
                                        .changes = child->changes,
                                        .files = *out_files};
    mt_record_request_give(&request);
    mt_dry_request_give(&what);
    return MT_OK;
}

/* Reads which ranks there are, and the words of each. Of a program that is one process, *out is empty. */
static mt_status read_program(const struct mt_dry_options *options, char *const *words, struct mt_rank_program *out)
{
    *out = (struct mt_rank_program){0};
    if (options->ranks > 0 || mt_rank_program_is(words))
        MT_TRY(mt_rank_program_read(words, options->ranks, options->cards, out));
    else if (options->only != NULL)
        return mt_fail(MT_USAGE, "--only names ranks; say how many there are with --ranks, or run torchrun");
    const char *refused = mt_python_start_refused(out->ranks > 0 ? out->words : words);
    return refused == NULL ? MT_OK : mt_fail(MT_USAGE, "%s keeps memtrace out of Python: leave it out", refused);
}

/* Returns how many cards the program sees. */
static int64_t cards_of(const struct mt_dry_options *options, const struct mt_rank_program *program)
{
    if (options->cards > 0)
        return options->cards;
    return program->ranks > 0 && program->per_node <= MT_MOST_DRY_CARDS ? program->per_node : 1;
}

mt_status mt_dry_child_start(const struct mt_dry_child *child, char *const *words, int output,
                             struct mt_dry_child_run *out)
{
    struct mt_rank_program program;
    struct mt_program_words found;
    char *files = NULL;
    *out = (struct mt_dry_child_run){0};
    mt_program_words_find(words, &found);
    mt_status status = read_program(child->options, found.words, &program);
    out->is_many = program.ranks > 0;
    if (status == MT_OK)
        status = begin(child, cards_of(child->options, &program), &out->recording, &files);
    if (status == MT_OK && out->is_many) {
        const struct mt_dry_ranks ranks = {&program, child->options->only, &out->recording, output, child->is_quiet};
        status = mt_dry_ranks_run(&ranks, &out->code);
    } else if (status == MT_OK)
        status = mt_child_program_run_into(output, found.words, &out->code);
    mt_dry_files_end(files);
    free(files);
    mt_rank_program_release(&program);
    mt_program_words_release(&found);
    return status;
}

static void keep_answer(void *context, const struct mt_record_answer *answer)
{
    struct mt_dry_outcome *outcome = context;
    outcome->answers = mt_host_resize(outcome->answers, outcome->count + 1, sizeof *outcome->answers);
    outcome->answers[outcome->count] = *answer;
    outcome->answers[outcome->count++].text = mt_host_strdup(answer->text);
}

/* Reads the end of the file, from the begin of a line on. */
static void read_end(FILE *file, struct mt_text *out)
{
    enum { MOST_BYTES = 4000 };
    char bytes[MOST_BYTES + 1];
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fseek(file, size > MOST_BYTES ? size - MOST_BYTES : 0, SEEK_SET);
    bytes[fread(bytes, 1, MOST_BYTES, file)] = '\0';
    const char *line = size > MOST_BYTES ? strchr(bytes, '\n') : NULL;
    mt_text_add(out, "%s", line != NULL ? line + 1 : bytes);
}

mt_status mt_dry_child_run(const struct mt_dry_child *child, char *const *words, struct mt_dry_outcome *out)
{
    struct mt_dry_child_run run = {0};
    FILE *printed = tmpfile();
    *out = (struct mt_dry_outcome){0};
    mt_status status = printed != NULL
                           ? mt_dry_child_start(child, words, fileno(printed), &run)
                           : mt_fail(MT_FAILED, "can't make a file for what the program prints: %s", strerror(errno));
    if (status == MT_OK)
        status = mt_record_answers_read(run.recording.answers, keep_answer, out);
    out->is_many = run.is_many;
    out->code = run.code;
    if (printed != NULL) {
        read_end(printed, &out->said);
        fclose(printed);
    }
    if (run.recording.path != NULL)
        mt_recording_end(&run.recording);
    return status;
}

void mt_dry_outcome_release(struct mt_dry_outcome *outcome)
{
    for (size_t i = 0; i < outcome->count; i++)
        free((char *)(uintptr_t)outcome->answers[i].text);
    free(outcome->answers);
    mt_text_release(&outcome->said);
    *outcome = (struct mt_dry_outcome){0};
}

/* Returns the last line that is not empty, and sets its length. */
static const char *last_line(const char *text, size_t *out_length)
{
    const char *end = text + strlen(text);
    while (end > text && end[-1] == '\n')
        end--;
    const char *begin = end;
    while (begin > text && begin[-1] != '\n')
        begin--;
    *out_length = (size_t)(end - begin);
    return begin;
}

void mt_dry_outcome_add_failure(const struct mt_dry_outcome *outcome, struct mt_text *out)
{
    size_t length;
    const char *line = last_line(mt_text_get(&outcome->said), &length);
    mt_text_add(out, "exit code %d", outcome->code);
    if (length > 0)
        mt_text_add(out, ", %.*s", (int)length, line);
}
