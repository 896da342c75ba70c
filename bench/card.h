/* Functions shared by programs that measure on a card: runs of the program as a user would start them, questions to
 * their trace, and a main that runs the named measurements.
 *
 *   bench_NAME [--program FILE] [--data FOLDER] [--peers FOLDER] [--device DEVICE] [NAME...]
 *
 * Data are in tests/data, peers in the folder bench: they are asked if it is given. DEVICE is cuda unless given. Names
 * are those of the program's measurements; without names, it makes those that it makes by itself. Without a usable
 * card nothing is measured. */
#pragma once

#include "bench/ask.h"
#include "bench/report.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { NO_DEVICE = 4, OUT_OF_MEMORY = 5, LONGEST = 512 };

#define TRACE "trace.db"

struct bench {
    const char *name; /* of the benchmark */
    struct asker asker;
    const char *data, *device;
    const char *peers; /* the folder of PyTorch's; NULL: there are none */
    bool good;         /* nothing failed so far */
};

struct measurement {
    const char *name;
    void (*measure)(struct bench *bench);
};

/* A configuration that is run again and again, with batch 4. */
struct setup {
    const char *model;
    int seq;
    const char *precision; /* fp32, tf32, bf16, fp8 */
};

/* "2.7B 256 fp32" */
static inline const char *setup_name(const struct setup *setup, char *text)
{
    snprintf(text, LONGEST, "%s %d %s", setup->model, setup->seq, setup->precision);
    return text;
}

static inline const char *precision_options(const char *precision)
{
    if (strcmp(precision, "bf16") == 0)
        return "--autocast bf16";
    if (strcmp(precision, "fp8") == 0)
        return "--autocast bf16 --matmul fp8";
    return strcmp(precision, "tf32") == 0 ? "--matmul tf32" : "--matmul fp32";
}

static inline void fail(struct bench *bench, const char *what)
{
    fprintf(stderr, "%s: %s failed\n", bench->name, what);
    bench->good = false;
}

/* A figure that could not be had is a failure, and no row. */
static inline void report(struct bench *bench, const char *what, const char *unit, double ours, double peer,
                          const char *bound, double target)
{
    if (isnan(ours))
        fail(bench, what);
    else
        bench_report(what, unit, ours, peer, bound, target);
}

static inline void report_count(struct bench *bench, const char *what, const char *unit, int64_t count)
{
    report(bench, what, unit, (double)count, NAN, BENCH_AT_MOST, 0);
}

/* Adds a run to the trace; its exit code. What it prints is kept in *out if that is not NULL. */
static inline int run(struct bench *bench, const struct setup *setup, const char *device, const char *options,
                      struct mt_text *out)
{
    return ask_formatted(&bench->asker, out, "run --trace " TRACE " --model %s --seq %d %s --device %s %s",
                         setup->model, setup->seq, precision_options(setup->precision), device, options);
}

/* The one number that a query of the newest run answers; NAN if it fails. */
static inline double number_of(struct bench *bench, const char *sql)
{
    char arguments[4096];
    snprintf(arguments, sizeof arguments, "sql --trace " TRACE " --json \"%s\"", sql);
    json_t *answer = ask_json(&bench->asker, arguments);
    const json_t *value = json_array_get(json_array_get(json_object_get(answer, "rows"), 0), 0);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(answer);
    return number;
}

static inline void remove_trace_at(const char *trace)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-ring"};
    char file[LONGEST];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(file, sizeof file, "%s%s", trace, endings[i]);
        unlink(file);
    }
}

static inline void remove_trace(void)
{
    remove_trace_at(TRACE);
}

/* A part's statistic of the newest run, in milliseconds. */
static inline double time_of(struct bench *bench, const char *part, const char *statistic)
{
    json_t *answer = ask_json(&bench->asker, "steps --json --trace " TRACE);
    const json_t *rows = json_object_get(answer, "rows");
    const json_t *row = json_array_get(rows, json_array_size(rows) - 1);
    const json_t *value = json_object_get(json_object_get(json_object_get(row, "ms"), part), statistic);
    double ms = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(answer);
    return ms;
}

static inline int compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static inline double median_of(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
    return (numbers[(count - 1) / 2] + numbers[count / 2]) / 2;
}

static inline bool is_wanted(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

/* The first of the names that is no measurement, or NULL. Measurements end with one without a name. */
static inline const char *find_unknown(const struct measurement *measurements, int count, char **names)
{
    for (int i = 0; i < count; i++) {
        int known = 0;
        while (measurements[known].name != NULL && strcmp(measurements[known].name, names[i]) != 0)
            known++;
        if (measurements[known].name == NULL)
            return names[i];
    }
    return NULL;
}

static inline void measure_wanted(struct bench *bench, const struct measurement *measurements, int count, char **names)
{
    for (int i = 0; measurements[i].name != NULL; i++)
        if (is_wanted(measurements[i].name, count, names))
            measurements[i].measure(bench);
}

/* A model of a few kilobytes, to see whether there is a card. */
static inline int try_card(const struct bench *bench)
{
    return ask_formatted(&bench->asker, NULL,
                         "run --no-trace --device %s --vocab 64 --d-model 16 --d-ff 32 --layers 1 --heads 2 --seq 8"
                         " --steps 1",
                         bench->device);
}

/* Returns the place of an option's value, or NULL if there is no such option. */
static inline const char **option_of(struct bench *bench, const char *name)
{
    const struct {
        const char *name, **value;
    } options[] = {{"--program", &bench->asker.program},
                   {"--data", &bench->data},
                   {"--peers", &bench->peers},
                   {"--device", &bench->device}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(options[i].name, name) == 0)
            return options[i].value;
    return NULL;
}

/* Reads the options before the names; how many arguments they took. Files keep their names in whatever folder is
 * entered. */
static inline int read_options(struct bench *bench, int count, char **arguments)
{
    int next = 1;
    for (; next + 1 < count; next += 2) {
        const char **value = option_of(bench, arguments[next]);
        if (value == NULL)
            break;
        const char *path = value != &bench->device ? realpath(arguments[next + 1], NULL) : NULL;
        *value = path != NULL ? path : arguments[next + 1];
    }
    return next;
}

static inline int measure_in_folder(struct bench *bench, const struct measurement *measurements, int count,
                                    char **names)
{
    char folder[] = "memtrace-bench-XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        perror("cannot make a folder here");
        return 1;
    }
    measure_wanted(bench, measurements, count, names);
    remove_trace();
    if (chdir("..") != 0 || rmdir(folder) != 0)
        perror("cannot remove the folder");
    return bench->good ? 0 : 1;
}

/* The main of a benchmark; measurements end with one without a name. */
static inline int measure_on_card(const char *name, const struct measurement *measurements, int count, char **arguments)
{
    struct bench bench = {
        .name = name, .asker.program = MT_PROGRAM, .data = MT_TEST_DATA, .device = "cuda", .good = true};
    int first = read_options(&bench, count, arguments);
    const char *unknown = find_unknown(measurements, count - first, arguments + first);
    if (unknown != NULL) {
        fprintf(stderr, "%s: there is no measurement or option \"%s\"\n", name, unknown);
        return 2;
    }
    int code = try_card(&bench);
    if (code == NO_DEVICE)
        fprintf(stderr, "%s: skipped: there is no usable GPU\n", name);
    else if (code != 0)
        fprintf(stderr, "%s: the program failed on the card with exit code %d\n", name, code);
    if (code != 0)
        return code == NO_DEVICE ? 0 : 1;
    return measure_in_folder(&bench, measurements, count - first, arguments + first);
}
