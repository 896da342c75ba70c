/* Costs of watching in a program that uses the library: a labelled block taken and given, and noted, each traced, by
 * one thread. The ring is large enough that the thread never waits for the disk.
 *
 * Usage: bench_library */
#include "bench/report.h"

#include <memtrace.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TRACE "bench_library.db"

enum { PAIRS = 200000, REPEATS = 5, LAYERS = 32 };

static void check(memtrace_status status)
{
    if (status == MEMTRACE_OK)
        return;
    fprintf(stderr, "%s\n", memtrace_last_error());
    exit(1);
}

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static memtrace_label label_of(int number)
{
    return (memtrace_label){.size = sizeof(memtrace_label),
                            .category = "Mine",
                            .op = "make",
                            .dtype = MEMTRACE_F32,
                            .dims = 2,
                            .shape = {number % LAYERS, 1024}};
}

static void take_and_give(memtrace_run *run, int number)
{
    memtrace_label label = label_of(number);
    uint64_t address;
    check(memtrace_take(run, (uint64_t)(number % LAYERS + 1) * 4096, 0, &label, &address));
    check(memtrace_give(run, address));
}

static void note(memtrace_run *run, int number)
{
    memtrace_label label = label_of(number);
    uint64_t address = (uint64_t)(number % LAYERS + 1) << 30;
    check(memtrace_note_take(run, address, (uint64_t)(number % LAYERS + 1) * 4096, 0, &label));
    memtrace_note_give(run, address);
}

/* Nanoseconds a pair. */
static double time_pairs(void (*pair)(memtrace_run *, int))
{
    memtrace_run_options options = {.size = sizeof options, .trace = TRACE, .device = "sim"};
    memtrace_run *run = NULL;
    check(memtrace_run_open(&options, &run));
    double begin_ns = now_ns();
    for (int i = 0; i < PAIRS; i++)
        pair(run, i);
    double end_ns = now_ns();
    check(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    unlink(TRACE);
    return (end_ns - begin_ns) / PAIRS;
}

static double least(void (*pair)(memtrace_run *, int))
{
    double least_ns = INFINITY;
    for (int i = 0; i < REPEATS; i++)
        least_ns = fmin(least_ns, time_pairs(pair));
    return least_ns;
}

int main(void)
{
    bench_report("library, a block taken and given, traced", "ns", least(take_and_give), NAN, "", 0);
    bench_report("library, a block noted and its end, traced", "ns", least(note), NAN, "", 0);
    return 0;
}
