/* Times of answers about a large run, through the library and through the program. The run is a synthetic training run
 * of ten million events, made once through the recorder. It is compared with a smaller run before it. */
#include "analysis/diff/diff.h"
#include "base/clock.h"
#include "bench/report.h"
#include "tests/synthetic.h"

#include <unistd.h>

enum {
    STEPS = 1000,
    OTHER_STEPS = 100,
    MOVES_A_STEP = 10000,
    LIVE_BLOCKS = 2000,
    LABELS = 256,
    REPEATS = 9,
    COMMAND_BYTES = 512
};

static const char path[] = "bench_query.db";
static const double target_ms = 100, diff_target_ms = 300, advise_target_ms = 3000;

static mt_status make_run(const char *name, uint64_t seed, uint64_t steps)
{
    struct synthetic run;
    mt_status status = synthetic_open(&run, path, name, seed, LABELS);
    if (status != MT_OK)
        return status;
    for (uint64_t step = 0; step < steps; step++)
        synthetic_step(&run, step, MOVES_A_STEP, LIVE_BLOCKS);
    return synthetic_close(&run);
}

static mt_status make_trace(void)
{
    unlink(path);
    mt_status status = make_run("one million events", 2, OTHER_STEPS);
    return status == MT_OK ? make_run("ten million events", 1, STEPS) : status;
}

/* A question, from opening the trace to having the answer. */
typedef mt_status question(struct mt_trace *trace, const struct mt_run *run);

static mt_status ask_peak(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_peak_row peak;
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++) {
        status = mt_trace_peak(trace, run, (mt_measure)measure, &peak);
        mt_peak_row_release(&peak);
    }
    return status;
}

static mt_status ask_peak_by_module(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_peak_row peak;
    struct mt_phase_peak *phases = NULL;
    size_t count;
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++) {
        status = mt_trace_peak_by(trace, run, MT_ALL_STEPS, (mt_measure)measure, MT_GROUP_MODULE, &peak);
        mt_peak_row_release(&peak);
    }
    if (status == MT_OK)
        status = mt_trace_phase_peaks(trace, run, &phases, &count);
    free(phases);
    return status;
}

static mt_status ask_top_of(struct mt_trace *trace, const struct mt_run *run, mt_top_moment moment)
{
    struct mt_top_row *rows;
    size_t count;
    bool complete;
    mt_status status =
        mt_trace_top(trace, run, &(struct mt_top_choice){.moment = moment}, 10, &rows, &count, &complete);
    free(rows);
    return status;
}

static mt_status ask_top(struct mt_trace *trace, const struct mt_run *run)
{
    return ask_top_of(trace, run, MT_TOP_WHOLE_RUN);
}

static mt_status ask_top_at_peak(struct mt_trace *trace, const struct mt_run *run)
{
    return ask_top_of(trace, run, MT_TOP_AT_PEAK);
}

static mt_status ask_categories(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_category_row *rows;
    size_t count;
    mt_status status = mt_trace_categories(trace, run, NULL, &rows, &count);
    free(rows);
    return status;
}

static mt_status ask_diff(struct mt_trace *trace, const struct mt_run *run)
{
    size_t count;
    struct mt_diff diff;
    const struct mt_question a = {.trace = trace, .run = mt_trace_runs(trace, &count)};
    const struct mt_question b = {.trace = trace, .run = run};
    mt_status status = mt_trace_diff(&a, &b, &diff);
    mt_diff_release(&diff);
    return status;
}

/* Milliseconds of one question; negative if it failed. */
static double time_question(question *ask)
{
    uint64_t start = mt_clock_ns();
    struct mt_trace *trace;
    const struct mt_run *run;
    mt_status status = mt_trace_open(path, &trace);
    if (status != MT_OK)
        return -1;
    status = mt_trace_find_run(trace, NULL, &run);
    if (status == MT_OK)
        status = ask(trace, run);
    mt_trace_close(trace);
    return status == MT_OK ? (double)(mt_clock_ns() - start) * 1e-6 : -1;
}

/* Milliseconds of the program, its start and its output included. */
static double time_program(const char *arguments)
{
    char command[COMMAND_BYTES];
    snprintf(command, sizeof command, "'%s' %s --trace %s >/dev/null", MT_PROGRAM, arguments, path);
    uint64_t start = mt_clock_ns();
    int code = system(command);
    return code == 0 ? (double)(mt_clock_ns() - start) * 1e-6 : -1;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Reports the median; false if one failed. `bound` is "" where nothing was promised. */
static bool report(const char *what, double *ms, const char *bound, double target)
{
    qsort(ms, REPEATS, sizeof *ms, compare_doubles);
    if (ms[0] < 0) {
        fprintf(stderr, "bench_query: %s: %s\n", what, mt_last_error());
        return false;
    }
    bench_report(what, "ms", ms[REPEATS / 2], NAN, bound, target);
    return true;
}

static bool measure_questions(void)
{
    static const struct {
        const char *what;
        question *ask;
        const char *bound;
        double target;
    } questions[] = {{"peak, 10M events", ask_peak, BENCH_AT_MOST, target_ms},
                     {"peak by module and phases, 10M events", ask_peak_by_module, BENCH_AT_MOST, target_ms},
                     {"top 10, 10M events", ask_top, BENCH_AT_MOST, target_ms},
                     {"top 10 at the peak, 10M events", ask_top_at_peak, "", target_ms},
                     {"categories, 10M events", ask_categories, "", target_ms},
                     {"diff, 10M events", ask_diff, BENCH_AT_MOST, diff_target_ms}};
    bool all = true;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        double ms[REPEATS];
        for (int repeat = 0; repeat < REPEATS; repeat++)
            ms[repeat] = time_question(questions[i].ask);
        all = report(questions[i].what, ms, questions[i].bound, questions[i].target) && all;
    }
    return all;
}

static bool measure_program(void)
{
    static const struct {
        const char *arguments;
        double target;
    } commands[] = {{"peak", target_ms},          {"peak --json", target_ms},   {"top 10", target_ms},
                    {"top 10 --json", target_ms}, {"diff 1 2", diff_target_ms}, {"diff 1 2 --json", diff_target_ms},
                    {"advise", advise_target_ms}};
    bool all = true;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        double ms[REPEATS];
        char what[64];
        for (int repeat = 0; repeat < REPEATS; repeat++)
            ms[repeat] = time_program(commands[i].arguments);
        snprintf(what, sizeof what, "memtrace %s, 10M events", commands[i].arguments);
        all = report(what, ms, BENCH_AT_MOST, commands[i].target) && all;
    }
    return all;
}

int main(void)
{
    mt_status status = make_trace();
    bool all = status == MT_OK && measure_questions() && measure_program();
    if (status != MT_OK)
        fprintf(stderr, "bench_query: %s\n", mt_last_error());
    unlink(path);
    return all ? 0 : 1;
}
