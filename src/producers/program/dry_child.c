#include "producers/program/dry_child.h"

#include "base/memory.h"
#include "producers/program/child_program.h"
#include "producers/program/dry_files.h"
#include "producers/program/dry_ranks.h"
#include "producers/program/job_folder.h"
#include "producers/program/program_job.h"
#include "producers/program/program_words.h"
#include "producers/program/python_start.h"
#include "producers/program/torchrun_words.h"

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
        return mt_fail(MT_USAGE, "a dry run takes a simulated card, such as sim:h100, not %s", spelling);
    MT_TRY(mt_device_open(spelling, &device));
    mt_device_close(device);
    return MT_OK;
}

/* Fails unless C and Python both read the text as a number. Only C reads 0x10. */
static mt_status check_number(const char *text)
{
    char *end;
    (void)mt_read_real(text, &end);
    return end != text && *end == '\0' && strpbrk(text, "xX(") == NULL
               ? MT_OK
               : mt_fail(MT_USAGE, "an assumed value is a number, not \"%s\"", text);
}

mt_status mt_dry_device_spell(const struct mt_dry_options *options, const char *device, char out[MT_DEVICE_NAME])
{
    const bool is_shared = options->free != NULL;
    const int length =
        snprintf(out, MT_DEVICE_NAME, "%s%s%s", device, is_shared ? ":free=" : "", is_shared ? options->free : "");
    return length < MT_DEVICE_NAME ? MT_OK : mt_fail(MT_USAGE, "%s: the name of a device is too long", device);
}

mt_status mt_dry_options_check(const struct mt_dry_options *options, const char *device)
{
    char spelling[MT_DEVICE_NAME];
    MT_TRY(mt_dry_device_spell(options, device, spelling));
    MT_TRY(check_device(spelling));
    return check_number(options->assumed);
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

/* The parts of a dry run: its files, and the environment that makes Python's programs begin as dry runs. */
struct dry_job {
    struct mt_program_job job;
    struct mt_environment environment;
    char *files;
};

/* Puts the request for the program into its environment. */
static mt_status make_request(const struct mt_dry_child *child, int64_t cards, struct dry_job *out)
{
    char device[MT_DEVICE_NAME];
    MT_TRY(mt_dry_device_spell(child->options, child->device, device));
    const struct mt_record_request request = {.trace = out->job.path,
                                              .answers = out->job.answers,
                                              .name = child->name,
                                              .torch = MT_RECORD_TORCH_DRY,
                                              .device = MT_EVERY_DEVICE};
    const struct mt_dry_request what = {.device = device,
                                        .cards = cards,
                                        .steps = child->options->steps,
                                        .deadline_s = deadline_of(child->options),
                                        .assumed = child->options->assumed,
                                        .changes = child->changes,
                                        .files = out->files};
    mt_environment_copy(&out->environment);
    mt_record_request_give(&request, &out->environment);
    mt_dry_request_give(&what, &out->environment);
    return mt_python_start(&out->environment);
}

static mt_status begin(const struct mt_dry_child *child, int64_t cards, struct dry_job *out)
{
    MT_TRY(mt_program_job_begin(child->trace, &out->job));
    MT_TRY(mt_job_folder_make_inner(out->job.folder, "files", &out->files));
    return make_request(child, cards, out);
}

static void end(struct dry_job *job)
{
    if (job->files != NULL)
        mt_dry_files_end(job->files);
    free(job->files);
    mt_environment_release(&job->environment);
    mt_program_job_end(&job->job);
}

/* Reads which ranks there are, and the words of each. Of a program that is one process, *out is empty. */
static mt_status read_program(const struct mt_dry_options *options, char *const *words, struct mt_rank_program *out)
{
    *out = (struct mt_rank_program){0};
    if (options->ranks > 0 || mt_torchrun_is(words))
        MT_TRY(mt_rank_program_read(words, options->ranks, options->cards, out));
    else if (options->only != NULL)
        return mt_fail(MT_USAGE, "ranks are listed, but not how many there are: give their number, or run torchrun");
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

/* Runs the words, or the ranks that they stand for, and reads their answers. */
static mt_status run_words(const struct mt_dry_child *child, char *const *words, int output,
                           struct mt_program_outcome *out)
{
    struct mt_rank_program program;
    struct dry_job job = {0};
    mt_status status = read_program(child->options, words, &program);
    out->is_many = program.ranks > 0;
    MT_THEN(status, begin(child, cards_of(child->options, &program), &job));
    if (status == MT_OK && out->is_many) {
        const struct mt_dry_ranks ranks = {&program, child->options->only, &job.job, &job.environment, output};
        status = mt_dry_ranks_run(&ranks, out);
    } else if (status == MT_OK) {
        status = mt_child_program_run(words, &job.environment, output, &out->code);
        MT_THEN(status, mt_record_answers_read(job.job.answers, mt_program_outcome_keep, out));
    }
    out->path = job.job.path != NULL ? mt_host_strdup(job.job.path) : NULL;
    end(&job);
    mt_rank_program_release(&program);
    return status;
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

/* Keeps the output of the program from the user, and its end in the outcome. */
static mt_status run_quietly(const struct mt_dry_child *child, char *const *words, struct mt_program_outcome *out)
{
    FILE *printed = tmpfile();
    if (printed == NULL)
        return mt_fail(MT_FAILED, "can't make a file for what the program prints: %s", strerror(errno));
    mt_status status = run_words(child, words, fileno(printed), out);
    read_end(printed, &out->said);
    fclose(printed);
    return status;
}

mt_status mt_dry_child_run(const struct mt_dry_child *child, char *const *words, int output,
                           struct mt_program_outcome *out)
{
    struct mt_program_words found;
    *out = (struct mt_program_outcome){0};
    mt_program_words_find(words, &found);
    mt_status status =
        output == MT_KEEP_OUTPUT ? run_quietly(child, found.words, out) : run_words(child, found.words, output, out);
    mt_program_words_release(&found);
    return status;
}
