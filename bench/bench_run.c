/* Wall time of the main job and of the published study: the program itself, from its start to its end, trace included.
 *
 * Each figure is the median of several runs, each into a new trace in a folder that is removed afterwards. */
#include "base/clock.h"
#include "base/status.h"
#include "bench/report.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_REPEATS = 16, MAX_ARGUMENTS = 24 };

static const char *const main_job[] = {"run",    "--model", "2.7B",     "--seq", "256",
                                       "--mode", "fwd_bwd", "--device", "sim",   NULL};
static const char *const study[] = {"report", "--study", "--format", "html", NULL};

struct job {
    const char *what;
    const char *const *command;           /* ending with NULL, and so are: */
    const char *arguments[MAX_ARGUMENTS]; /* what follows it */
    int repeats;
    double target_seconds;
};

static const struct job jobs[] = {
    {"main job, 3 steps, fp32", main_job, {"--autocast", "off", NULL}, 9, 0.5},
    {"main job, 3 steps, autocast", main_job, {"--autocast", "bf16", NULL}, 9, 0.5},
    {"main job, 3 steps, no trace", main_job, {"--no-trace", NULL}, 9, NAN},
    {"main job, 100 steps, fp32", main_job, {"--steps", "100", NULL}, 3, 4.0},
    {"main job, 100 steps, autocast", main_job, {"--steps", "100", "--autocast", "bf16", NULL}, 3, 4.0},
    {"report --study, all tables", study, {NULL}, 3, 10.0},
};

/* Runs the program with stdout and stderr dropped, and waits for it. False if it did not exit with 0. */
static bool run_quietly(char *const *argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t child;
    int code = -1;
    if (posix_spawn(&child, argv[0], &actions, NULL, argv, environ) == 0)
        waitpid(child, &code, 0);
    posix_spawn_file_actions_destroy(&actions);
    return code == 0;
}

/* Seconds of one run into `trace`, which is removed after; negative if it failed. */
static double time_once(const struct job *job, const char *trace)
{
    const char *argv[2 * MAX_ARGUMENTS] = {MT_PROGRAM};
    size_t count = 1;
    for (size_t i = 0; job->command[i]; i++)
        argv[count++] = job->command[i];
    for (size_t i = 0; job->arguments[i]; i++)
        argv[count++] = job->arguments[i];
    argv[count++] = "--trace";
    argv[count++] = trace;
    uint64_t start = mt_clock_ns();
    bool ran = run_quietly((char *const *)argv);
    uint64_t end = mt_clock_ns();
    unlink(trace);
    return ran ? (double)(end - start) * 1e-9 : -1;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The median time of a job, after one run that is not counted; negative if a run failed. */
static double median_seconds(const struct job *job, const char *trace)
{
    double seconds[MAX_REPEATS];
    if (time_once(job, trace) < 0)
        return -1;
    for (int i = 0; i < job->repeats; i++)
        seconds[i] = time_once(job, trace);
    qsort(seconds, (size_t)job->repeats, sizeof seconds[0], compare_doubles);
    return seconds[0] < 0 ? -1 : seconds[job->repeats / 2];
}

static bool measure(const struct job *job, const char *trace)
{
    double seconds = median_seconds(job, trace);
    if (seconds < 0) {
        fprintf(stderr, "bench_run: %s: the program failed\n", job->what);
        return false;
    }
    bool promised = !isnan(job->target_seconds);
    bench_report(job->what, "s", seconds, NAN, promised ? BENCH_AT_MOST : "", job->target_seconds);
    return true;
}

int main(void)
{
    char folder[] = "memtrace-bench-XXXXXX";
    if (!mkdtemp(folder)) {
        perror("bench_run: cannot make a folder here");
        return 1;
    }
    char trace[sizeof folder + 16];
    snprintf(trace, sizeof trace, "%s/trace.db", folder);
    bool good = true;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        good = measure(&jobs[i], trace) && good;
    rmdir(folder);
    return good ? 0 : 1;
}
