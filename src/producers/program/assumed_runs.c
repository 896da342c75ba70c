#include "producers/program/assumed_runs.h"

#include "base/job_folder.h"
#include "base/memory.h"
#include "producers/program/assumed_values.h"
#include "producers/program/gathered_runs.h"
#include "producers/program/program_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A dry run with its own options and trace. Owns the texts. */
struct attempt {
    struct mt_dry_options options;
    struct mt_text name, trace;
    char *folder;
};

/* Makes the task of one value, with a folder for its trace. The trace's file has the same name as the common trace. */
static mt_status make_task(const struct mt_dry_child *child, const struct mt_program_job *job, const char *value,
                           size_t number, struct attempt *attempt, struct mt_dry_task *task)
{
    char folder[32];
    snprintf(folder, sizeof folder, "assumed-%zu", number);
    MT_TRY(mt_job_folder_make_inner(job->folder.path, folder, &attempt->folder));
    mt_text_add(&attempt->trace, "%s%s", attempt->folder, strrchr(job->path, '/'));
    if (child->name != NULL)
        mt_text_add(&attempt->name, "%s-%s", child->name, value);
    attempt->options = *child->options;
    attempt->options.assumed = value;
    task->child = *child;
    task->child.options = &attempt->options;
    task->child.trace = attempt->trace.data;
    task->child.name = attempt->name.data;
    return MT_OK;
}

static void release_attempt(struct attempt *attempt)
{
    mt_text_release(&attempt->name);
    mt_text_release(&attempt->trace);
    free(attempt->folder);
}

/* Runs the tasks, and adds their runs to the common trace. */
static mt_status run_tasks(const struct mt_program_job *job, int64_t jobs, struct mt_dry_task *tasks,
                           struct mt_assumed_run *runs, size_t count)
{
    mt_status status = mt_dry_tasks_run(tasks, count, jobs, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        runs[i].outcome = tasks[i].outcome;
        MT_THEN(status, tasks[i].status);
        MT_THEN(status, mt_gathered_runs_append(&runs[i].outcome, job->path));
    }
    return status;
}

/* Makes runs in parallel. */
static mt_status make_several(const struct mt_dry_child *child, char *const *words, int output,
                              struct mt_assumed_run *runs, size_t count)
{
    struct mt_program_job job;
    MT_TRY(mt_program_job_begin(child->trace, &job));
    struct mt_dry_task *tasks = mt_host_alloc(count * sizeof *tasks);
    struct attempt *attempts = mt_host_alloc(count * sizeof *attempts);
    mt_status status = MT_OK;
    for (size_t i = 0; i < count; i++) {
        tasks[i].words = words;
        tasks[i].output = i == 0 ? output : MT_KEEP_OUTPUT;
        MT_THEN(status, make_task(child, &job, runs[i].value, i, &attempts[i], &tasks[i]));
    }
    MT_THEN(status, run_tasks(&job, child->options->jobs, tasks, runs, count));
    for (size_t i = 0; i < count; i++)
        release_attempt(&attempts[i]);
    free(attempts);
    free(tasks);
    mt_program_job_end(&job);
    return status;
}

/* Fails unless the options are valid with each value. */
static mt_status check(const struct mt_dry_child *child, const struct mt_assumed_run *runs, size_t count)
{
    struct mt_dry_options options = *child->options;
    for (size_t i = 0; i < count; i++) {
        options.assumed = runs[i].value;
        MT_TRY(mt_dry_options_check(&options, child->device));
    }
    return MT_OK;
}

mt_status mt_assumed_runs_make(const struct mt_dry_child *child, char *const *words, int output,
                               struct mt_assumed_run **out_runs, size_t *out_count)
{
    char *list = mt_host_strdup(child->options->assumed), *rest = list;
    *out_runs = NULL;
    *out_count = 0;
    for (const char *value; (value = strsep(&rest, ",")) != NULL;)
        *MT_HOST_ADD(*out_runs, *out_count) = (struct mt_assumed_run){.value = mt_host_strdup(value)};
    free(list);
    if (*out_count > MT_MOST_ASSUMED)
        return mt_fail(MT_USAGE, "%zu assumed values; %d are possible", *out_count, MT_MOST_ASSUMED);
    MT_TRY(check(child, *out_runs, *out_count));
    if (*out_count > 1)
        return make_several(child, words, output, *out_runs, *out_count);
    return mt_dry_child_run(child, words, output, &(*out_runs)->outcome);
}

void mt_assumed_runs_release(struct mt_assumed_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(runs[i].value);
        mt_program_outcome_release(&runs[i].outcome);
    }
    free(runs);
}
