/* The timeline page: how long the program takes to write it, and how it is in a browser (tests/viewer/measure.mjs), of
 * a million allocations and of five million: steps of the 2.7B model, with times as a card's clock gives them. Also
 * PyTorch's viewer of the same blocks and of a tenth of them, if MEMORY_VIZ names its folder
 * (tests/viewer/memory_viz.mjs).
 *
 * Without Node, its modules or Chromium, the browser's part is left out. */
#include "base/clock.h"
#include "bench/ask.h"
#include "bench/report.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPEATS = 5, COMMAND_BYTES = 1024 };

static const double target_seconds = 2;

/* A page that is measured: so many steps of 4,349 allocations each. */
struct subject {
    const char *title;
    int steps;
    bool promised, has_peer;
};

static const struct subject subjects[] = {{"page of 100k allocations", 23, false, true},
                                          {"page of 1M allocations", 230, true, true},
                                          {"page of 5M allocations", 1150, false, false}};

static const char trace[] = "bench_viewer.db", page[] = "bench_viewer.html", snapshot[] = "bench_viewer.pickle";

/* Makes each time later than the one before by some microseconds, never the same: a simulated clock repeats itself in
 * every step, and so takes less room than one that is read. */
static bool make_times_uneven(void)
{
    sqlite3 *handle;
    bool done = sqlite3_open(trace, &handle) == SQLITE_OK &&
                sqlite3_exec(handle, "UPDATE event SET time_ns = id * 3000 + abs(random() % 2900)", NULL, NULL, NULL) ==
                    SQLITE_OK;
    if (!done)
        fprintf(stderr, "bench_viewer: %s\n", sqlite3_errmsg(handle));
    sqlite3_close(handle);
    return done;
}

static bool make_trace(const struct asker *asker, const struct subject *subject)
{
    unlink(trace);
    return ask_formatted(asker, NULL, "run --device sim --model 2.7B --steps %d --trace %s", subject->steps, trace) ==
               0 &&
           make_times_uneven();
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Reports the median. */
static bool measure_writing(const struct asker *asker, const struct subject *subject)
{
    double seconds[REPEATS];
    char what[64];
    for (int i = 0; i < REPEATS; i++) {
        uint64_t start = mt_clock_ns();
        if (ask_formatted(asker, NULL, "timeline --trace %s -o %s", trace, page) != 0)
            return false;
        seconds[i] = (double)(mt_clock_ns() - start) * 1e-9;
    }
    qsort(seconds, REPEATS, sizeof seconds[0], compare_doubles);
    snprintf(what, sizeof what, "%s: written", subject->title);
    bench_report(what, "s", seconds[REPEATS / 2], NAN, subject->promised ? BENCH_AT_MOST : "", target_seconds);
    return true;
}

/* Runs the browser's part, which prints its figures as rows by itself. False if it fails. */
static bool measure_showing(const struct asker *asker, const struct subject *subject)
{
    char command[COMMAND_BYTES];
    bool has_peer = subject->has_peer && getenv("MEMORY_VIZ") != NULL;
    if (has_peer && ask_formatted(asker, NULL, "export --trace %s -o %s", trace, snapshot) != 0)
        return false;
    snprintf(command, sizeof command, "node '%s/measure.mjs' %s '%s' %s %s %s", MT_VIEWER_TESTS,
             subject->promised ? "--promised" : "--rows", subject->title, has_peer ? "--peer" : "",
             has_peer ? snapshot : "", page);
    return system(command) == 0;
}

static bool has_browser(void)
{
    if (system("node '" MT_VIEWER_TESTS
               "/browser.mjs' >/dev/null 2>&1 && command -v \"${CHROMIUM:-chromium}\" >/dev/null") == 0)
        return true;
    fprintf(stderr, "bench_viewer: without Node 20, its modules or Chromium, pages are only written\n");
    return false;
}

int main(void)
{
    const struct asker asker = {.program = MT_PROGRAM};
    bool shows = has_browser(), all = true;
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0] && all; i++) {
        all = make_trace(&asker, &subjects[i]) && measure_writing(&asker, &subjects[i]);
        if (all && shows)
            all = measure_showing(&asker, &subjects[i]);
    }
    unlink(trace);
    unlink(page);
    unlink(snapshot);
    return all ? 0 : 1;
}
