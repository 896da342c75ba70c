#include "producers/program/recorded_program.h"

#include "base/memory.h"
#include "device/module.h"
#include "producers/program/child_program.h"
#include "producers/program/program_job.h"
#include "producers/program/program_words.h"
#include "producers/program/python_start.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Finds the library by opening it, which fails if there is no CUPTI. The caller frees *out. */
static mt_status find_library(char **out)
{
    mt_inject_refusal_function refusal = NULL;
    Dl_info where;
    mt_status status = mt_module_find(MT_INJECT_FILE, MT_INJECT_REFUSAL_NAME, (void **)&refusal);
    if (status != MT_OK)
        return mt_fail(status,
                       "%s; recording needs CUPTI, from the CUDA toolkit, when memtrace is built and when it runs",
                       mt_last_error());
    if (refusal() != NULL)
        return mt_fail(MT_FAILED, "%s", refusal());
    if (dladdr((void *)refusal, &where) == 0 || (*out = realpath(where.dli_fname, NULL)) == NULL)
        return mt_fail(MT_FAILED, "%s can't be found again", MT_INJECT_FILE);
    return MT_OK;
}

/* Fails if another tool is present: the driver and NVTX load one library each. */
static mt_status check_environment(void)
{
    static const char *const taken[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        const char *value = secure_getenv(taken[i]);
        if (value != NULL && value[0] != '\0')
            return mt_fail(MT_FAILED, "another tool is there: %s is %s", taken[i], value);
    }
    return MT_OK;
}

/* Makes the driver and NVTX load the library that records CUDA's calls. */
static mt_status prepare_cuda(struct mt_environment *environment)
{
    char *library;
    MT_TRY(check_environment());
    MT_TRY(find_library(&library));
    mt_environment_set(environment, "CUDA_INJECTION64_PATH", library);
    mt_environment_set(environment, "NVTX_INJECTION64_PATH", library);
    free(library);
    return MT_OK;
}

/* Makes Python record PyTorch, if that is wanted and possible. Otherwise appends the reason to *obstacle. A build
 * without support reports that only for Python, since other programs may not use PyTorch. */
static mt_record_torch prepare_torch(const struct mt_recorded_program *program, struct mt_environment *environment,
                                     struct mt_text *obstacle)
{
    if (program->leaves_torch)
        return MT_RECORD_TORCH_NOT;
    const char *refused = mt_python_start_refused(program->words);
    mt_status status = refused == NULL ? mt_python_start(environment) : MT_FAILED;
    if (status == MT_OK)
        return program->uses_our_alloc && !program->watches_kernels ? MT_RECORD_TORCH_OURS : MT_RECORD_TORCH_OWN;
    if (refused != NULL)
        mt_text_add(obstacle, "%s keeps memtrace out of Python", refused);
    else if (status != MT_NO_DEVICE || mt_python_is(program->words[0]))
        mt_text_add(obstacle, "%s", mt_last_error());
    return MT_RECORD_TORCH_NOT;
}

/* Passes a sentence to the observer: the text and its consequence. */
static void note(const struct mt_recorded_observer *observer, const char *text, const char *consequence)
{
    struct mt_text sentence = {0};
    mt_text_add(&sentence, "%s%s", text, consequence);
    observer->note(observer->context, mt_text_get(&sentence));
    mt_text_release(&sentence);
}

/* Prepares both ways of recording. Fails if neither is possible; otherwise notes a missing one. */
static mt_status prepare_ways(const struct mt_recorded_program *program, const struct mt_recorded_observer *observer,
                              struct mt_environment *environment, mt_record_torch *out)
{
    struct mt_text obstacle = {0};
    *out = prepare_torch(program, environment, &obstacle);
    mt_status status = *out != MT_RECORD_TORCH_OURS ? prepare_cuda(environment) : MT_OK;
    if (status != MT_OK && *out != MT_RECORD_TORCH_NOT && !program->watches_kernels) {
        note(observer, mt_last_error(), "; only PyTorch's own allocator is recorded");
        status = MT_OK;
    } else if (status != MT_OK && obstacle.length > 0) {
        char *error = mt_host_strdup(mt_last_error());
        status = mt_fail(status, "%s; %s", obstacle.data, error);
        free(error);
    } else if (obstacle.length > 0) {
        note(observer, obstacle.data, ", so PyTorch's allocator is not watched");
    }
    mt_text_release(&obstacle);
    return status;
}

static mt_status prepare(const struct mt_recorded_program *program, const struct mt_recorded_observer *observer,
                         struct mt_environment *environment, struct mt_program_job *job)
{
    mt_record_torch torch;
    MT_TRY(mt_program_job_begin(program->trace, job));
    MT_TRY(prepare_ways(program, observer, environment, &torch));
    const struct mt_record_request request = {.trace = job->path,
                                              .answers = job->answers,
                                              .name = program->name,
                                              .step = program->step,
                                              .watches_kernels = program->watches_kernels,
                                              .leaves_stacks = program->leaves_stacks,
                                              .finds_holders = program->finds_holders,
                                              .torch = torch,
                                              .device = program->device};
    mt_record_request_give(&request, environment);
    return MT_OK;
}

/* Runs the program in its environment, and reads the answers of its processes if it is recorded. */
static mt_status run(const struct mt_recorded_program *program, const struct mt_environment *environment, int output,
                     const struct mt_program_job *job, struct mt_program_outcome *out)
{
    MT_TRY(mt_child_program_run(program->words, environment, output, &out->code));
    return out->path != NULL ? mt_record_answers_read(job->answers, mt_program_outcome_keep, out) : MT_OK;
}

mt_status mt_recorded_program_run(const struct mt_recorded_program *program, int output,
                                  const struct mt_recorded_observer *observer, struct mt_program_outcome *out)
{
    struct mt_recorded_program found = *program;
    struct mt_program_words words;
    struct mt_environment environment;
    struct mt_program_job job = {0};
    *out = (struct mt_program_outcome){0};
    mt_program_words_find(program->words, program->python, &words);
    found.words = words.words;
    mt_environment_copy(&environment);
    if (prepare(&found, observer, &environment, &job) == MT_OK)
        out->path = mt_host_strdup(job.path);
    else
        note(observer, mt_last_error(), "; the program runs without being recorded");
    if (job.path != NULL && observer->begins != NULL)
        observer->begins(observer->context, job.path);
    mt_status status = run(&found, &environment, output, &job, out);
    mt_program_job_end(&job);
    mt_environment_release(&environment);
    mt_program_words_release(&words);
    return status;
}
