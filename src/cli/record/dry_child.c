#include "cli/record/dry_child.h"

#include "base/memory.h"
#include "cli/record/child_program.h"
#include "cli/record/python_start.h"
#include "device/device.h"
#include "record/account.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    (void)strtod(text, &end);
    return end != text && *end == '\0' ? MT_OK : mt_fail(MT_USAGE, "--assume takes a number, not \"%s\"", text);
}

mt_status mt_dry_children_prepare(const struct mt_dry_options *options, const char *device)
{
    const char *refused = mt_python_start_refused(options->words);
    MT_TRY(check_device(device));
    MT_TRY(check_number(options->assumed));
    if (refused != NULL)
        return mt_fail(MT_USAGE, "%s keeps memtrace out of Python: leave it out", refused);
    return mt_python_start();
}

mt_status mt_dry_child_begin(const struct mt_dry_child *child, struct mt_recording *out)
{
    MT_TRY(mt_recording_begin(child->trace, out));
    const struct mt_record_request request = {.trace = out->path,
                                              .answers = out->answers,
                                              .name = child->name,
                                              .torch = MT_RECORD_TORCH_DRY,
                                              .device = MT_EVERY_DEVICE};
    const struct mt_dry_request what = {.device = child->device,
                                        .cards = child->options->cards > 0 ? child->options->cards : 1,
                                        .steps = child->options->steps,
                                        .assumed = child->options->assumed,
                                        .changes = child->changes};
    mt_record_request_give(&request);
    mt_dry_request_give(&what);
    return MT_OK;
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
    struct mt_recording recording;
    *out = (struct mt_dry_outcome){0};
    MT_TRY(mt_dry_child_begin(child, &recording));
    FILE *printed = tmpfile();
    mt_status status = printed != NULL
                           ? mt_child_program_run_into(fileno(printed), words, &out->code)
                           : mt_fail(MT_FAILED, "can't make a file for what the program prints: %s", strerror(errno));
    if (status == MT_OK)
        status = mt_record_answers_read(recording.answers, keep_answer, out);
    if (printed != NULL) {
        read_end(printed, &out->said);
        fclose(printed);
    }
    mt_recording_end(&recording);
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
