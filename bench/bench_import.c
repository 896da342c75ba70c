/* Time and memory of importing the measured snapshots of PyTorch. The program is started anew each time. */
#include "base/clock.h"
#include "bench/report.h"

#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPEATS = 7 };

static const char trace[] = "bench_import.db";
static const double target_seconds = 0.5, target_mib = 200;

/* The program's seconds and most memory, in MiB; false if it failed. */
static bool import_once(const char *file, double *seconds, double *mib)
{
    char *const arguments[] = {"memtrace", "import", (char *)file, "--trace", (char *)trace, NULL};
    char *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    struct rusage usage;
    pid_t process;
    int status = 1;
    unlink(trace);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0);
    uint64_t begin = mt_clock_ns();
    bool started = posix_spawn(&process, MT_PROGRAM, &actions, NULL, arguments, environment) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (!started || wait4(process, &status, 0, &usage) != process)
        return false;
    *seconds = (double)(mt_clock_ns() - begin) / 1e9;
    *mib = (double)usage.ru_maxrss / 1024;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The fastest of several, and the most memory of any. */
static bool measure(const char *name, const char *file)
{
    double best = INFINITY, most = 0;
    char what[128];
    for (int i = 0; i < REPEATS; i++) {
        double seconds, mib;
        if (!import_once(file, &seconds, &mib))
            return false;
        best = fmin(best, seconds);
        most = fmax(most, mib);
    }
    snprintf(what, sizeof what, "import of a snapshot, 2.7B, seq 256, 8 steps, %s", name);
    bench_report(what, "s", best, NAN, BENCH_AT_MOST, target_seconds);
    snprintf(what, sizeof what, "its memory, %s", name);
    bench_report(what, "MiB", most, NAN, BENCH_AT_MOST, target_mib);
    return true;
}

int main(void)
{
    static const char *const names[] = {"fp32", "autocast"};
    bool worked = true;
    for (int i = 0; i < 2 && worked; i++) {
        char file[4096];
        snprintf(file, sizeof file, MT_TEST_DATA "/import/pytorch_h200_2.7B_seq256_%s.pickle.gz", names[i]);
        worked = measure(names[i], file);
    }
    unlink(trace);
    return worked ? EXIT_SUCCESS : EXIT_FAILURE;
}
