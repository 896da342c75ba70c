/* What must hold on a real card: one sequence of events with the simulation, speed, watching that costs nothing, the
 * reference's profile, memory and time accounted for, and an end in order when memory runs out.
 *
 *   bench_gpu [--program FILE] [--data FOLDER] [--peers FILE] [NAME...]
 *
 * Runs the program as a user would and asks its traces. FOLDER is tests/data, with the reference's kernel times; each
 * line of the peers' file is "MODEL SEQ PRECISION" and the milliseconds of a step elsewhere, split by a tab. Names are
 * those of the measurements below; all of them unless named. Where there is no usable card nothing is measured. */
#include "bench/ask.h"
#include "bench/report.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { NO_DEVICE = 4, OUT_OF_MEMORY = 5, LONGEST = 512 };

#define TRACE "trace.db"

struct bench {
    struct asker asker;
    const char *data, *peers; /* peers may be NULL */
    bool good;                /* nothing failed so far */
};

/* What is run again and again: batch 4. */
struct setup {
    const char *model;
    int seq;
    const char *precision; /* fp32, tf32, bf16 */
};

/* "2.7B 256 fp32" */
static const char *setup_name(const struct setup *setup, char *text)
{
    snprintf(text, LONGEST, "%s %d %s", setup->model, setup->seq, setup->precision);
    return text;
}

static const char *precision_options(const char *precision)
{
    if (strcmp(precision, "bf16") == 0)
        return "--autocast bf16";
    return strcmp(precision, "tf32") == 0 ? "--matmul tf32" : "--matmul fp32";
}

static void fail(struct bench *bench, const char *what)
{
    fprintf(stderr, "bench_gpu: %s failed\n", what);
    bench->good = false;
}

/* A figure that could not be had is a failure, and no row. */
static void report(struct bench *bench, const char *what, const char *unit, double ours, double peer, const char *bound,
                   double target)
{
    if (isnan(ours))
        fail(bench, what);
    else
        bench_report(what, unit, ours, peer, bound, target);
}

static void report_count(struct bench *bench, const char *what, const char *unit, int64_t count)
{
    report(bench, what, unit, (double)count, NAN, BENCH_AT_MOST, 0);
}

/* Adds a run to the trace; its exit code. What it prints is kept in *out if that is not NULL. */
static int run(struct bench *bench, const struct setup *setup, const char *device, const char *options,
               struct mt_text *out)
{
    return ask_formatted(&bench->asker, out, "run --trace " TRACE " --model %s --seq %d %s --device %s %s",
                         setup->model, setup->seq, precision_options(setup->precision), device, options);
}

/* The one number that a query of the newest run answers; NAN if it fails. */
static double number_of(struct bench *bench, const char *sql)
{
    char arguments[4096];
    snprintf(arguments, sizeof arguments, "sql --trace " TRACE " --json \"%s\"", sql);
    json_t *answer = ask_json(&bench->asker, arguments);
    const json_t *value = json_array_get(json_array_get(json_object_get(answer, "rows"), 0), 0);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(answer);
    return number;
}

static void remove_trace(void)
{
    static const char *const files[] = {TRACE, TRACE "-wal", TRACE "-shm", TRACE "-ring"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
}

/* ---- sequence: what the card does is what the simulation says ---- */

/* Every event of the newest run with all that its ids stand for; not its address, not its time. */
#define EVENTS_SQL                                                                                                     \
    "SELECT event_kind.name, stream, requested_bytes, block_bytes, segment, offset, allocation - first_event,"         \
    " category, role, op, phase, layer, dtype, shape, path FROM run"                                                   \
    " JOIN event ON event.id >= first_event AND event.id < first_event + event_count"                                  \
    " JOIN event_kind ON event_kind.id = kind LEFT JOIN label ON label.run = run.id AND label.id = event.label"        \
    " LEFT JOIN span ON span.run = run.id AND span.id = coalesce(event.span, label.span)"                              \
    " WHERE run.id = :run ORDER BY event.id"

/* How many lines differ, of two outputs place by place; what one has beyond the other differs. */
static int64_t count_differences(FILE *left, FILE *right, int64_t *out_lines)
{
    char *lines[2] = {NULL, NULL};
    size_t capacities[2] = {0, 0};
    int64_t differences = 0;
    *out_lines = 0;
    for (;;) {
        ssize_t a = getline(&lines[0], &capacities[0], left), b = getline(&lines[1], &capacities[1], right);
        if (a < 0 && b < 0)
            break;
        differences += a != b || memcmp(lines[0], lines[1], (size_t)a) != 0;
        (*out_lines)++;
    }
    free(lines[0]);
    free(lines[1]);
    return differences;
}

/* Of the runs named card and sim; -1 if they can't be read. */
static int64_t compare_events(struct bench *bench)
{
    FILE *card = ask_begin(&bench->asker, "sql --csv --trace " TRACE " --run card '" EVENTS_SQL "'");
    FILE *sim = ask_begin(&bench->asker, "sql --csv --trace " TRACE " --run sim '" EVENTS_SQL "'");
    int64_t lines = 0, differences = -1;
    if (card != NULL && sim != NULL)
        differences = count_differences(card, sim, &lines);
    bool ended = ask_end(card) == 0;
    ended = ask_end(sim) == 0 && ended;
    return ended && lines > 1 ? differences : -1;
}

static void measure_pair(struct bench *bench, const struct setup *setup, const char *policy)
{
    char options[LONGEST], name[LONGEST], what[2 * LONGEST];
    snprintf(options, sizeof options, "--mode fwd_bwd --steps 2 --alloc policy=%s --name ", policy);
    size_t length = strlen(options);
    remove_trace();
    strcpy(options + length, "card");
    int card = run(bench, setup, "cuda", options, NULL);
    strcpy(options + length, "sim");
    int sim = run(bench, setup, "sim:h200", options, NULL);
    int64_t differences = card == 0 && sim == 0 ? compare_events(bench) : -1;
    snprintf(what, sizeof what, "sequence: %s %s, unlike sim", setup_name(setup, name), policy);
    if (differences < 0)
        fail(bench, what);
    else
        report_count(bench, what, "events", differences);
}

#define PEAKS_SQL                                                                                                      \
    "SELECT sum(abs(a.bytes - b.bytes)) FROM summary_peak a JOIN summary_peak b USING (step, measure)"                 \
    " WHERE a.run = 1 AND b.run = 2"

static void measure_peaks(struct bench *bench)
{
    static const int lengths[] = {128, 256, 512};
    static const char *const modes[] = {"fwd", "fwd_bwd"}, *const precisions[] = {"fp32", "bf16"};
    int64_t unlike = 0;
    for (int i = 0; i < 12; i++) {
        const struct setup setup = {"2.7B", lengths[i % 3], precisions[i / 6]};
        char options[LONGEST];
        snprintf(options, sizeof options, "--mode %s --steps 3 --alloc policy=torch", modes[i / 3 % 2]);
        remove_trace();
        bool ran = run(bench, &setup, "cuda", options, NULL) == 0 && run(bench, &setup, "sim:h200", options, NULL) == 0;
        unlike += !ran || number_of(bench, PEAKS_SQL) != 0;
    }
    report_count(bench, "sequence: peaks of 12 reference runs, unlike sim", "runs", unlike);
}

static void measure_sequence(struct bench *bench)
{
    static const struct setup setups[] = {{"2.7B", 256, "fp32"},  {"2.7B", 256, "bf16"},   {"small", 128, "fp32"},
                                          {"small", 128, "bf16"}, {"medium", 192, "fp32"}, {"medium", 192, "bf16"}};
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        measure_pair(bench, &setups[i], "tight");
        measure_pair(bench, &setups[i], "torch");
    }
    measure_peaks(bench);
}

/* ---- speed ---- */

/* What a peer takes for a step; NAN if that is not known. */
static double peer_ms(const struct bench *bench, const char *name)
{
    FILE *peers = bench->peers != NULL ? fopen(bench->peers, "r") : NULL;
    char line[LONGEST];
    double ms = NAN;
    while (peers != NULL && fgets(line, sizeof line, peers) != NULL) {
        char *tab = strchr(line, '\t');
        if (tab == NULL)
            continue;
        *tab = '\0';
        if (strcmp(line, name) == 0)
            ms = strtod(tab + 1, NULL);
    }
    if (peers != NULL)
        fclose(peers);
    return ms;
}

/* A part's statistic of the newest run, in milliseconds. */
static double time_of(struct bench *bench, const char *part, const char *statistic)
{
    json_t *answer = ask_json(&bench->asker, "steps --json --trace " TRACE);
    const json_t *rows = json_object_get(answer, "rows");
    const json_t *row = json_array_get(rows, json_array_size(rows) - 1);
    const json_t *value = json_object_get(json_object_get(json_object_get(row, "ms"), part), statistic);
    double ms = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(answer);
    return ms;
}

static void measure_step(struct bench *bench, const struct setup *setup, double target_ms)
{
    static const char *const parts[] = {"forward", "backward", "optimizer"};
    char name[LONGEST], what[2 * LONGEST];
    setup_name(setup, name);
    remove_trace();
    if (run(bench, setup, "cuda", "--mode fwd_bwd --warmup 2 --steps 8", NULL) != 0) {
        fail(bench, name);
        return;
    }
    snprintf(what, sizeof what, "speed: %s, step", name);
    report(bench, what, "ms", time_of(bench, "step", "median"), peer_ms(bench, name),
           isnan(target_ms) ? "" : BENCH_AT_MOST, target_ms);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(what, sizeof what, "speed: %s, %s", name, parts[i]);
        report(bench, what, "ms", time_of(bench, parts[i], "median"), NAN, "", NAN);
    }
}

static void measure_speed(struct bench *bench)
{
    measure_step(bench, &(struct setup){"2.7B", 256, "fp32"}, 613);
    measure_step(bench, &(struct setup){"2.7B", 256, "bf16"}, 170);
    measure_step(bench, &(struct setup){"2.7B", 256, "tf32"}, NAN);
    measure_step(bench, &(struct setup){"small", 128, "fp32"}, 20);
}

/* ---- watching: what it costs ---- */

enum { MOST_REPEATS = 9 };
enum watching { UNWATCHED, TRACED, KERNELS, WATCHING_COUNT };

/* Milliseconds of a step by the wall clock, as `run` prints them; NAN if it failed. */
static double wall_ms(struct bench *bench, const struct setup *setup, int steps, enum watching watching)
{
    static const char *const options[WATCHING_COUNT] = {"--no-trace", "", "--kernels"};
    char whole[LONGEST];
    snprintf(whole, sizeof whole, "--mode fwd_bwd --warmup 2 --steps %d %s", steps, options[watching]);
    struct mt_text said = {0};
    remove_trace();
    double ms = NAN;
    if (run(bench, setup, "cuda", whole, &said) == 0 && said.data != NULL) {
        const char *clock = strstr(said.data, "device's clock, ");
        if (clock != NULL)
            ms = strtod(clock + strlen("device's clock, "), NULL);
    }
    mt_text_release(&said);
    return ms;
}

static int compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_of(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
    return (numbers[(count - 1) / 2] + numbers[count / 2]) / 2;
}

/* The median over repetitions of watched over unwatched, each pair one after the other. */
static void measure_cost(struct bench *bench, const struct setup *setup, int steps, int repeats)
{
    double traced[MOST_REPEATS], kernels[MOST_REPEATS];
    char name[LONGEST], what[2 * LONGEST];
    setup_name(setup, name);
    for (int i = 0; i < repeats; i++) {
        double unwatched = wall_ms(bench, setup, steps, UNWATCHED);
        traced[i] = wall_ms(bench, setup, steps, TRACED) / unwatched;
        kernels[i] = wall_ms(bench, setup, steps, KERNELS) / unwatched;
        if (isnan(traced[i]) || isnan(kernels[i])) {
            fail(bench, name);
            return;
        }
    }
    snprintf(what, sizeof what, "watching: %s, trace against none", name);
    report(bench, what, "ratio", median_of(traced, repeats), NAN, BENCH_AT_MOST, 1.01);
    snprintf(what, sizeof what, "watching: %s, kernels against none", name);
    report(bench, what, "ratio", median_of(kernels, repeats), NAN, BENCH_AT_MOST, 1.03);
}

static void measure_watching(struct bench *bench)
{
    measure_cost(bench, &(struct setup){"small", 128, "fp32"}, 60, 5);
    measure_cost(bench, &(struct setup){"2.7B", 256, "fp32"}, 8, 3);
}

/* ---- profile: the reference's kernel times ---- */

enum { PROFILE_STEPS = 2 };

/* Milliseconds of kernels in a phase of one step, of those that compute matrix products or of all. */
static double kernel_ms(struct bench *bench, const char *phase, const char *condition)
{
    char sql[1024];
    snprintf(sql, sizeof sql,
             "SELECT sum(duration_ns) / 1e6 / %d FROM kernel JOIN label ON label.run = kernel.run"
             " AND label.id = kernel.label WHERE kernel.run = :run AND step > 0 AND phase = '%s' AND %s",
             PROFILE_STEPS, phase, condition);
    return number_of(bench, sql);
}

static void report_phase(struct bench *bench, const char *name, const char *phase, const json_t *reference)
{
    double reference_all = json_number_value(json_object_get(reference, "gpu_ms"));
    double reference_products = json_number_value(json_object_get(reference, "gemm_ms"));
    double all = kernel_ms(bench, phase, "1"), products = kernel_ms(bench, phase, "op LIKE '%.matmul'");
    char what[2 * LONGEST];
    snprintf(what, sizeof what, "profile: %s, %s, products", name, phase);
    report(bench, what, "ms", products, reference_products, BENCH_AT_MOST, 1.1 * reference_products);
    snprintf(what, sizeof what, "profile: %s, %s, all kernels", name, phase);
    report(bench, what, "ms", all, reference_all, "", NAN);
    snprintf(what, sizeof what, "profile: %s, %s, products' share", name, phase);
    report(bench, what, "%", 100 * products / all, 100 * reference_products / reference_all, "", NAN);
}

/* Of one run of the reference: its phases with products, and how much of our kernels' time belongs to an op. */
static void profile_run(struct bench *bench, const json_t *reference)
{
    const struct setup setup = {json_string_value(json_object_get(reference, "model")),
                                (int)json_integer_value(json_object_get(reference, "seq")),
                                json_is_true(json_object_get(reference, "autocast")) ? "bf16" : "fp32"};
    const json_t *phases = json_object_get(reference, "phases");
    char name[LONGEST], what[2 * LONGEST], options[LONGEST];
    setup_name(&setup, name);
    snprintf(options, sizeof options, "--mode fwd_bwd --warmup 1 --steps %d --kernels", PROFILE_STEPS);
    remove_trace();
    if (run(bench, &setup, "cuda", options, NULL) != 0) {
        fail(bench, name);
        return;
    }
    report_phase(bench, name, "forward", json_object_get(phases, "forward"));
    report_phase(bench, name, "backward", json_object_get(phases, "backward"));
    snprintf(what, sizeof what, "profile: %s, kernel time of a named op", name);
    report(bench, what, "%",
           number_of(bench, "SELECT 100.0 * sum(iif(label IS NOT NULL, duration_ns, 0)) / sum(duration_ns)"
                            " FROM kernel WHERE run = :run"),
           NAN, BENCH_AT_LEAST, 99);
}

static void measure_profile(struct bench *bench)
{
    char path[LONGEST];
    snprintf(path, sizeof path, "%s/kernels_h200.json", bench->data);
    json_t *runs = json_load_file(path, 0, NULL), *reference;
    size_t i;
    if (runs == NULL)
        fail(bench, path);
    json_array_foreach(runs, i, reference) profile_run(bench, reference);
    json_decref(runs);
}

/* ---- used: the driver's figure ---- */

static double share_of(const json_t *answer, const char *key)
{
    double used = json_number_value(json_object_get(answer, "used_bytes"));
    return 100 * json_number_value(json_object_get(answer, key)) / used;
}

static void explain_used(struct bench *bench, const struct setup *setup)
{
    static const char *const parts[] = {"requested", "rounding", "cached", "context", "library"};
    char name[LONGEST], what[2 * LONGEST], key[LONGEST];
    setup_name(setup, name);
    remove_trace();
    int code = run(bench, setup, "cuda", "--mode fwd_bwd --steps 2", NULL);
    json_t *answer = code == 0 ? ask_json(&bench->asker, "used --json --trace " TRACE) : NULL;
    if (answer == NULL) {
        fail(bench, name);
        return;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(what, sizeof what, "used: %s, %s", name, parts[i]);
        snprintf(key, sizeof key, "%s_bytes", parts[i]);
        report(bench, what, "%", share_of(answer, key), NAN, "", NAN);
    }
    snprintf(what, sizeof what, "used: %s, unexplained", name);
    report(bench, what, "%", fabs(share_of(answer, "unexplained_bytes")), NAN, BENCH_AT_MOST, 1);
    json_decref(answer);
}

static void measure_used(struct bench *bench)
{
    explain_used(bench, &(struct setup){"2.7B", 256, "fp32"});
    explain_used(bench, &(struct setup){"small", 128, "fp32"});
}

/* ---- oom: the end of memory ---- */

/* Whether the command answers with a figure that is not 0. */
static bool answers(struct bench *bench, const char *arguments, const char *key)
{
    json_t *answer = ask_json(&bench->asker, arguments);
    const json_t *value = json_object_get(answer, key);
    bool has = json_is_array(value) ? json_array_size(value) > 0 : json_integer_value(value) > 0;
    json_decref(answer);
    return has;
}

static void measure_oom(struct bench *bench)
{
    remove_trace();
    int code = run(bench, &(struct setup){"2.7B", 4096, "fp32"}, "cuda", "--mode fwd_bwd --steps 1", NULL);
    report(bench, "oom: 2.7B 4096 fp32 ends with exit code 5", "yes", code == OUT_OF_MEMORY, NAN, BENCH_AT_LEAST, 1);
    report(bench, "oom: peak and top answer from its trace", "yes",
           answers(bench, "peak --json --trace " TRACE, "reserved_bytes") &&
               answers(bench, "top 10 --at peak --json --trace " TRACE, "rows"),
           NAN, BENCH_AT_LEAST, 1);
}

static const struct measurement {
    const char *name;
    void (*measure)(struct bench *bench);
} measurements[] = {
    {"sequence", measure_sequence}, {"speed", measure_speed}, {"watching", measure_watching},
    {"profile", measure_profile},   {"used", measure_used},   {"oom", measure_oom},
};

enum { MEASUREMENTS = sizeof measurements / sizeof measurements[0] };

static bool is_wanted(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

/* The first of the names that is no measurement, or NULL. */
static const char *find_unknown(int count, char **names)
{
    for (int i = 0; i < count; i++) {
        int known = 0;
        while (known < MEASUREMENTS && strcmp(measurements[known].name, names[i]) != 0)
            known++;
        if (known == MEASUREMENTS)
            return names[i];
    }
    return NULL;
}

static void measure_wanted(struct bench *bench, int count, char **names)
{
    for (int i = 0; i < MEASUREMENTS; i++)
        if (is_wanted(measurements[i].name, count, names))
            measurements[i].measure(bench);
}

/* A model of a few kilobytes, to see whether there is a card. */
static int try_card(const struct bench *bench)
{
    return ask(&bench->asker,
               "run --no-trace --device cuda --vocab 64 --d-model 16 --d-ff 32 --layers 1 --heads 2 --seq 8 --steps 1",
               NULL);
}

/* Reads the options before the names; how many arguments they took. */
static int read_options(struct bench *bench, int count, char **arguments)
{
    int next = 1;
    for (; next + 1 < count && strncmp(arguments[next], "--", 2) == 0; next += 2) {
        const char *value = realpath(arguments[next + 1], NULL);
        if (value == NULL)
            break;
        if (strcmp(arguments[next], "--program") == 0)
            bench->asker.program = value;
        else if (strcmp(arguments[next], "--data") == 0)
            bench->data = value;
        else if (strcmp(arguments[next], "--peers") == 0)
            bench->peers = value;
    }
    return next;
}

static int measure_in_folder(struct bench *bench, int count, char **names)
{
    char folder[] = "memtrace-bench-XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        perror("bench_gpu: cannot make a folder here");
        return 1;
    }
    measure_wanted(bench, count, names);
    remove_trace();
    if (chdir("..") != 0 || rmdir(folder) != 0)
        perror("bench_gpu: cannot remove its folder");
    return bench->good ? 0 : 1;
}

int main(int count, char **arguments)
{
    struct bench bench = {.asker.program = MT_PROGRAM, .data = MT_TEST_DATA, .good = true};
    int first = read_options(&bench, count, arguments);
    const char *unknown = find_unknown(count - first, arguments + first);
    if (unknown != NULL) {
        fprintf(stderr, "bench_gpu: there is no measurement or file \"%s\"\n", unknown);
        return 2;
    }
    int code = try_card(&bench);
    if (code == NO_DEVICE)
        fputs("bench_gpu: skipped: there is no usable GPU\n", stderr);
    else if (code != 0)
        fprintf(stderr, "bench_gpu: the program failed on the card with exit code %d\n", code);
    if (code != 0)
        return code == NO_DEVICE ? 0 : 1;
    return measure_in_folder(&bench, count - first, arguments + first);
}
