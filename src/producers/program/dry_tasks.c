#include "producers/program/dry_tasks.h"

#include "base/memory.h"
#include "producers/program/dry_job.h"
#include "producers/program/process_limit.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>

/* A running task. */
struct running {
    struct mt_dry_task *task;
    struct mt_dry_job job;
    pid_t pid;
};

/* Invariants: tasks[begun .. count) have not begun; `running` has one element for each process of `children`. */
struct loop {
    struct mt_dry_task *tasks;
    size_t count, begun;
    int64_t limit; /* processes at a time */
    struct mt_children children;
    struct running **running; /* an array for MT_HOST_ADD */
    size_t running_count;
    bool is_over; /* no further task begins */
    bool is_mute; /* `ended` is not called any more */
    void (*ended)(void *context, struct mt_dry_task *task);
    void *context;
};

/* ---- the end of a task ---- */

/* Terminates the running tasks. */
static void end_all(struct loop *loop)
{
    loop->is_over = loop->is_mute = true;
    mt_children_signal(&loop->children, SIGTERM);
}

/* Ends a task, and frees `one`. */
static void end_task(struct loop *loop, struct running *one, mt_status status)
{
    struct mt_dry_task *task = one->task;
    task->status = status;
    mt_dry_job_end(&one->job, &task->outcome);
    free(one);
    loop->is_over = loop->is_over || task->outcome.is_interrupted;
    if (loop->ended != NULL && !loop->is_mute)
        loop->ended(loop->context, task);
    if (task->ends_all && !loop->is_mute)
        end_all(loop);
}

static struct running *take_running(struct loop *loop, pid_t pid)
{
    for (size_t i = 0; i < loop->running_count; i++) {
        struct running *one = loop->running[i];
        if (one->pid != pid)
            continue;
        loop->running[i] = loop->running[--loop->running_count];
        return one;
    }
    assert(false);
    return NULL;
}

static void wait_for_one(struct loop *loop)
{
    int code;
    const pid_t pid = mt_child_wait(&loop->children, -1, &code);
    struct running *one = take_running(loop, pid);
    struct mt_program_outcome *outcome = &one->task->outcome;
    outcome->code = code;
    outcome->is_interrupted = loop->children.ending != 0;
    end_task(loop, one, mt_record_answers_read(one->job.files.answers, mt_program_outcome_keep, outcome));
}

/* ---- the beginning of a task ---- */

/* True if a task has ranks. These run in parallel, but not together with other tasks. */
static bool is_many(const struct mt_dry_task *task)
{
    return task->child.options->ranks > 0 || mt_launcher_is(task->words);
}

static bool can_begin(const struct loop *loop)
{
    return !loop->is_over && loop->begun < loop->count && (int64_t)loop->running_count < loop->limit &&
           (loop->running_count == 0 || !is_many(&loop->tasks[loop->begun]));
}

/* Starts the process of a task. Ends the task at once if that fails. If the task has ranks, runs them. */
static void begin_task(struct loop *loop)
{
    struct running *one = mt_host_alloc(sizeof *one);
    one->task = &loop->tasks[loop->begun++];
    struct mt_program_outcome *outcome = &one->task->outcome;
    mt_status status = mt_dry_job_begin(&one->task->child, one->task->words, one->task->output, &one->job);
    if (status == MT_OK && one->job.program.ranks > 0) {
        status = mt_dry_job_run_ranks(&one->job, &loop->children, loop->limit, outcome);
    } else if (status == MT_OK) {
        status = mt_dry_job_start(&one->job, &loop->children, &one->pid, &outcome->code);
        if (status == MT_OK) {
            *MT_HOST_ADD(loop->running, loop->running_count) = one;
            return;
        }
    }
    end_task(loop, one, status);
}

mt_status mt_dry_tasks_run(struct mt_dry_task *tasks, size_t count, int64_t jobs,
                           void (*ended)(void *context, struct mt_dry_task *task), void *context)
{
    struct loop loop = {.tasks = tasks,
                        .count = count,
                        .limit = jobs > 0 ? jobs : mt_process_limit(),
                        .ended = ended,
                        .context = context};
    struct mt_python_server server = {0};
    for (size_t i = 0; i < count; i++)
        if (tasks[i].child.server == NULL && (count > 1 || is_many(&tasks[i]))) /* it is slower for a single process */
            tasks[i].child.server = &server;
    mt_children_begin(&loop.children);
    while (can_begin(&loop) || loop.running_count > 0)
        if (can_begin(&loop))
            begin_task(&loop);
        else
            wait_for_one(&loop);
    mt_children_end(&loop.children);
    mt_python_server_end(&server);
    free(loop.running);
    return loop.is_over && !loop.is_mute ? mt_fail(MT_FAILED, "interrupted") : MT_OK;
}

mt_status mt_dry_child_run(const struct mt_dry_child *child, char *const *words, int output,
                           struct mt_program_outcome *out)
{
    struct mt_dry_task task = {.child = *child, .words = words, .output = output};
    (void)mt_dry_tasks_run(&task, 1, child->options->jobs, NULL, NULL); /* an interrupted run has its outcome, too */
    *out = task.outcome;
    return task.status;
}
