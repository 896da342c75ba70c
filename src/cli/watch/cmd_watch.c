/* memtrace watch: shows a run while it is written. */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "trace/store/watch.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ROWS = 12, NAME_COLUMNS = 22, BYTES_COLUMNS = 12, MOST_BAR = 60, LEAST_COLUMNS = 60, USUAL_COLUMNS = 80 };
static const double NS_PER_SECOND = 1e9;

struct watch_options {
    bool help;
    const char *trace;
    int64_t interval; /* seconds between updates */
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct watch_options, trace, "TRACE", .value = "TRACE", .takes = MT_TAKES_FILE,
              .help = "the trace that is being written (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(INTEGER, struct watch_options, interval, "--interval", .value = "SECONDS", .low = 1, .high = 3600,
              .help = "seconds between updates (1)"),
    MT_OPTION_HELP(struct watch_options),
    MT_OPTIONS_END,
};

/* The last shown state. */
struct shown {
    int lines; /* on a terminal, number of lines to overwrite */
    uint64_t events, at_ns;
    double rate; /* events per second; NAN: unknown */
};

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

static void count_rate(struct shown *shown, const struct mt_watched *run)
{
    const uint64_t now_ns = mt_clock_ns();
    shown->rate = shown->at_ns == 0
                      ? (double)NAN
                      : (double)(run->events - shown->events) * NS_PER_SECOND / (double)(now_ns - shown->at_ns);
    shown->events = run->events;
    shown->at_ns = now_ns;
}

/* Adds the run's time, step and rate. */
static void add_progress(struct mt_text *out, const struct shown *shown, const struct mt_watched *run)
{
    mt_text_add(out, "%.1f s", (double)run->time_ns / NS_PER_SECOND);
    if (run->last_step >= 0)
        mt_text_add(out, ", step %" PRId64 " ended", run->last_step);
    if (run->is_running && !isnan(shown->rate))
        mt_text_add(out, ", %.0f events/s", shown->rate);
    if (run->refusals > 0)
        mt_text_add(out, ", %" PRIu64 " requests refused", run->refusals);
    if (!run->is_running)
        mt_text_add(out, ", the run ended");
}

static const char *bytes_of(uint64_t bytes, char *text)
{
    return mt_format_bytes(bytes, text);
}

/* ---- lines, if stdout is not a terminal ---- */

static void print_line(const struct shown *shown, const struct mt_watched *run)
{
    char now[MT_BYTES_TEXT], peak[MT_BYTES_TEXT], reserved[MT_BYTES_TEXT];
    struct mt_text progress = {0};
    add_progress(&progress, shown, run);
    printf("allocated %s, peak %s, reserved %s, %s\n", bytes_of(run->now[MT_MEASURE_ALLOCATED], now),
           bytes_of(run->peak[MT_MEASURE_ALLOCATED], peak), bytes_of(run->now[MT_MEASURE_RESERVED], reserved),
           progress.data);
    mt_text_release(&progress);
    fflush(stdout);
}

/* ---- a screen ---- */

/* Adds a line, cut to the width of the terminal. */
static void add_line(struct mt_text *screen, struct mt_text *line, size_t columns, int *lines)
{
    size_t bytes = 0, width = 0;
    const char *text = mt_text_get(line);
    while (text[bytes] != '\0' && (width < columns || mt_continues_character(text[bytes])))
        width += !mt_continues_character(text[bytes++]);
    mt_text_add(screen, "%.*s\n", (int)bytes, text);
    mt_text_release(line);
    (*lines)++;
}

static void add_measure(struct mt_text *screen, const char *name, const struct mt_watched *run, mt_measure measure,
                        size_t columns, int *lines)
{
    char now[MT_BYTES_TEXT], peak[MT_BYTES_TEXT], step[MT_BYTES_TEXT];
    struct mt_text line = {0};
    mt_text_add(&line, "%-*s%*s   peak %*s", NAME_COLUMNS, name, BYTES_COLUMNS, bytes_of(run->now[measure], now),
                BYTES_COLUMNS, bytes_of(run->peak[measure], peak));
    if (run->steps > 0)
        mt_text_add(&line, "   of the last step %*s", BYTES_COLUMNS, bytes_of(run->step_peak[measure], step));
    add_line(screen, &line, columns, lines);
}

static int by_bytes(const void *a, const void *b)
{
    const uint64_t left = ((const struct mt_watched_part *)a)->bytes,
                   right = ((const struct mt_watched_part *)b)->bytes;
    return (left < right) - (left > right);
}

/* Adds the largest parts with bars, relative to all bytes. */
static void add_parts(struct mt_text *screen, const struct mt_watched_part *parts, size_t count, uint64_t all,
                      size_t columns, int *lines)
{
    struct mt_watched_part sorted[MT_MOST_CATEGORIES];
    const size_t used = NAME_COLUMNS + BYTES_COLUMNS + 3, room = columns - used < MOST_BAR ? columns - used : MOST_BAR;
    char bytes[MT_BYTES_TEXT];
    memcpy(sorted, parts, count * sizeof *parts);
    qsort(sorted, count, sizeof *sorted, by_bytes);
    for (size_t i = 0; i < count && i < MOST_ROWS; i++) {
        struct mt_text line = {0}, name = {0};
        const size_t bar = all > 0 ? (size_t)((double)sorted[i].bytes / (double)all * (double)room + 0.5) : 0;
        mt_text_add_visible(&name, sorted[i].name);
        mt_text_add(&line, "%-*.*s%*s   ", NAME_COLUMNS, NAME_COLUMNS - 1, mt_text_get(&name), BYTES_COLUMNS,
                    bytes_of(sorted[i].bytes, bytes));
        for (size_t j = 0; j < bar; j++)
            mt_text_add(&line, "#");
        mt_text_release(&name);
        add_line(screen, &line, columns, lines);
    }
}

static void add_title(struct mt_text *screen, const struct shown *shown, const struct mt_watched *run, size_t columns,
                      int *lines)
{
    struct mt_text line = {0};
    mt_text_add(&line, "run %" PRId64, run->run);
    if (run->name != NULL) {
        mt_text_add(&line, " ");
        mt_text_add_visible(&line, run->name);
    }
    if (run->rank >= 0)
        mt_text_add(&line, ", rank %" PRId64, run->rank);
    mt_text_add(&line, " on ");
    mt_text_add_visible(&line, run->device);
    mt_text_add(&line, ", ");
    add_progress(&line, shown, run);
    add_line(screen, &line, columns, lines);
}

/* Prints the screen over the last one. */
static void print_screen(struct shown *shown, const struct mt_watched *run)
{
    const int width = mt_output_columns();
    const size_t columns = width == 0 ? USUAL_COLUMNS : width < LEAST_COLUMNS ? LEAST_COLUMNS : (size_t)width;
    struct mt_text screen = {0};
    int lines = 0;
    if (shown->lines > 0)
        mt_text_add(&screen, "\033[%dA\033[J", shown->lines);
    add_title(&screen, shown, run, columns, &lines);
    add_measure(&screen, "allocated", run, MT_MEASURE_ALLOCATED, columns, &lines);
    add_measure(&screen, "reserved", run, MT_MEASURE_RESERVED, columns, &lines);
    add_parts(&screen, run->categories, run->category_count, run->now[MT_MEASURE_ALLOCATED], columns, &lines);
    if (run->outside_count > 0) {
        struct mt_text line = {0};
        mt_text_add(&line, "outside of the allocator");
        add_line(&screen, &line, columns, &lines);
        add_parts(&screen, run->outside, run->outside_count, run->capacity_bytes, columns, &lines);
    }
    fputs(screen.data, stdout);
    fflush(stdout);
    mt_text_release(&screen);
    shown->lines = lines;
}

/* ---- the command ---- */

static void show(struct shown *shown, const struct mt_watched *run)
{
    count_rate(shown, run);
    if (mt_output_is_terminal())
        print_screen(shown, run);
    else
        print_line(shown, run);
}

/* Shows the run until it ends, the user interrupts, or the reader closes the pipe. */
static mt_status follow(struct mt_watch *watch, const struct watch_options *given)
{
    const struct timespec pause = {.tv_sec = (time_t)given->interval};
    struct shown shown = {0};
    const struct mt_watched *run;
    for (bool waits = false, ends = false; !ends && !is_interrupted && !mt_output_broken();) {
        MT_TRY(mt_watch_look(watch, &run));
        if (run == NULL && !waits)
            mt_note("there is no run in %s yet: waiting for one", given->trace);
        waits = run == NULL;
        if (run != NULL)
            show(&shown, run);
        ends = run != NULL && !run->is_running;
        if (!ends)
            nanosleep(&pause, NULL);
    }
    return MT_OK;
}

static mt_status run_watch(const void *given)
{
    const struct watch_options *watched = given;
    const struct sigaction catching = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &catching, NULL);
    struct mt_watch *watch = mt_watch_create(watched->trace, 0);
    mt_status status = follow(watch, watched);
    mt_watch_destroy(watch);
    return status;
}

const struct mt_command mt_command_watch = {
    .name = "watch",
    .summary = "Shows a run in progress: its live memory, its peaks, and its largest categories.",
    .usage = "[OPTIONS] [TRACE]",
    .details =
        "Ends with the run, or with Ctrl-C, which does not affect the run. Waits for a run if there is none yet;\n"
        "for a run that has ended, shows its last state. If the output is not a terminal, prints one line at each\n"
        "update.\n",
    .examples = "  memtrace watch\n"
                "  memtrace watch --interval 5\n",
    .options = options,
    MT_OPTIONS_OF(struct watch_options, .trace = MT_DEFAULT_TRACE, .interval = 1),
    .run = run_watch,
};
