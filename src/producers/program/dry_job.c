#include "producers/program/dry_job.h"

#include "base/job_folder.h"
#include "base/memory.h"
#include "producers/program/assumed_values.h"
#include "producers/program/dry_files.h"
#include "producers/program/dry_ranks.h"
#include "producers/program/python_start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the request ---- */

/* Returns the deadline of a program that begins now, in seconds since 1970; 0: none. */
static double deadline_of(const struct mt_dry_options *options)
{
    struct timespec now;
    if (options->time_limit == 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 + (double)options->time_limit;
}

/* Returns the number of cards that the program sees. */
static int64_t cards_of(const struct mt_dry_options *options, const struct mt_rank_program *program)
{
    if (options->cards > 0)
        return options->cards;
    if (program->cards > 0)
        return program->cards < MT_MOST_DRY_CARDS ? program->cards : MT_MOST_DRY_CARDS;
    return program->ranks > 0 && program->per_node <= MT_MOST_DRY_CARDS ? program->per_node : 1;
}

/* Puts the request for the program into its environment. */
static mt_status make_request(const struct mt_dry_child *child, struct mt_dry_job *job)
{
    char device[MT_DEVICE_NAME];
    struct mt_assumed_value assumed;
    MT_TRY(mt_assumed_value_read(child->options->assumed, &assumed));
    MT_TRY(mt_dry_device_spell(child->options, child->device, device));
    const struct mt_record_request request = {.trace = job->files.path,
                                              .answers = job->files.answers,
                                              .name = child->name,
                                              .torch = MT_RECORD_TORCH_DRY,
                                              .device = MT_EVERY_DEVICE};
    const struct mt_dry_request what = {.device = device,
                                        .cards = cards_of(child->options, &job->program),
                                        .steps = child->options->steps,
                                        .deadline_s = deadline_of(child->options),
                                        .assumed = assumed.number,
                                        .masks = assumed.masks,
                                        .weights = child->options->weights,
                                        .is_eager = child->options->is_eager,
                                        .inductor_cache = child->options->inductor_cache,
                                        .changes = child->changes,
                                        .files = job->overlay};
    mt_environment_copy(&job->environment);
    mt_rank_program_prepare(&job->program, &job->environment);
    mt_record_request_give(&request, &job->environment);
    mt_dry_request_give(&what, &job->environment);
    return mt_python_start(&job->environment);
}

/* ---- the beginning ---- */

/* Reads the number of ranks and the words of each. */
static mt_status read_program(const struct mt_dry_options *options, char *const *words, struct mt_rank_program *out)
{
    MT_TRY(mt_rank_program_read(words, options->ranks, options->cards, out));
    if (options->only != NULL && out->ranks == 0)
        return mt_fail(MT_USAGE, "ranks are listed, but not how many there are: give their number, or run torchrun");
    const char *refused = mt_python_start_refused(out->words);
    return refused == NULL ? MT_OK : mt_fail(MT_USAGE, "%s keeps memtrace out of Python: leave it out", refused);
}

/* Creates the file for the program's output, if that is kept. */
static mt_status open_output(int output, struct mt_dry_job *job)
{
    job->output = output;
    if (output != MT_KEEP_OUTPUT)
        return MT_OK;
    job->printed = tmpfile();
    if (job->printed == NULL)
        return mt_fail(MT_FAILED, "can't create a file for the program's output: %s", strerror(errno));
    job->output = fileno(job->printed);
    return MT_OK;
}

mt_status mt_dry_job_begin(const struct mt_dry_child *child, char *const *words, int output, struct mt_dry_job *out)
{
    *out = (struct mt_dry_job){.child = child};
    mt_program_words_find(words, child->options->python, &out->words);
    MT_TRY(read_program(child->options, out->words.words, &out->program));
    MT_TRY(open_output(output, out));
    MT_TRY(mt_program_job_begin(child->trace, &out->files));
    MT_TRY(mt_job_folder_make_inner(out->files.folder.path, "files", &out->overlay));
    return make_request(child, out);
}

mt_status mt_dry_job_start(struct mt_dry_job *job, struct mt_children *children, pid_t *out, int *out_code)
{
    return mt_python_server_start(job->child->server, children, job->program.words, &job->environment, job->output, out,
                                  out_code);
}

mt_status mt_dry_job_run_ranks(struct mt_dry_job *job, struct mt_children *children, int64_t limit,
                               struct mt_program_outcome *outcome)
{
    const struct mt_dry_ranks ranks = {.program = &job->program,
                                       .only = job->child->options->only,
                                       .job = &job->files,
                                       .environment = &job->environment,
                                       .children = children,
                                       .server = job->child->server,
                                       .output = job->output,
                                       .limit = limit};
    return mt_dry_ranks_run(&ranks, outcome);
}

/* ---- the end ---- */

/* Reads the end of the file, from the beginning of a line on. */
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

void mt_dry_job_end(struct mt_dry_job *job, struct mt_program_outcome *outcome)
{
    outcome->is_many = job->program.ranks > 0;
    outcome->path = job->files.path != NULL ? mt_host_strdup(job->files.path) : NULL;
    if (job->printed != NULL) {
        read_end(job->printed, &outcome->said);
        fclose(job->printed);
    }
    if (job->overlay != NULL)
        mt_dry_files_end(job->overlay);
    free(job->overlay);
    mt_environment_release(&job->environment);
    mt_program_job_end(&job->files);
    mt_rank_program_release(&job->program);
    mt_program_words_release(&job->words);
}
