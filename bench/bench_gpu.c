/* Benchmarks of the eager model on a real card: speed, the cost of watching, the reference's profile, accounting of
 * memory and time, and an orderly end when memory runs out. card.h says how to start the program. */
#include "bench/turns.h"

/* ---- speed ---- */

/* Returns the peer's milliseconds of a step, NAN if there is no peer. */
static double measure_step(struct bench *bench, const struct setup *setup, double target_ms)
{
    char name[LONGEST], what[2 * LONGEST];
    struct turns turns;
    struct peer peer = open_model(bench, "pytorch_eager.py", setup, "");
    setup_name(setup, name);
    bool good = take_turns(bench, setup, "--warmup 2 --steps 8", 1, &peer, &turns);
    peer_close(&peer);
    if (!good) {
        fail(bench, name);
        return NAN;
    }
    for (int part = 0; part < PARTS; part++) {
        snprintf(what, sizeof what, "speed: %s, %s", name, part_names[part]);
        report(bench, what, "ms", turns.ours[part], turns.peer[part], part == STEP ? BENCH_AT_MOST : "", target_ms);
    }
    return turns.peer[STEP];
}

/* ---- estimates of speed ---- */

#define HOST_CARD "host.json"

/* A first guess of the time to launch a kernel. A step of the small model consists of launches. */
enum { GUESSED_LAUNCH_NS = 11300, MOST_PERCENT = 20 };

/* Returns the milliseconds of a step on a simulated card like the machine's, whose host takes launch_ns for a
 * launch. */
static double estimate_ms(struct bench *bench, const struct setup *setup, const char *card, double launch_ns)
{
    FILE *file = fopen(HOST_CARD, "w");
    if (file == NULL)
        return NAN;
    fprintf(file, "{\"like\": \"%s\", \"eager_launch_ns\": %.0f}\n", card, launch_ns);
    fclose(file);
    remove_trace();
    int code = run(bench, setup, "sim:" HOST_CARD, "--warmup 2 --steps 8", NULL);
    remove(HOST_CARD);
    return code == 0 ? time_of(bench, "step", "median") : NAN;
}

static void compare_estimate(struct bench *bench, const struct setup *setup, const char *card, double launch_ns,
                             double peer_ms)
{
    char name[LONGEST], what[2 * LONGEST];
    double ms = estimate_ms(bench, setup, card, launch_ns);
    setup_name(setup, name);
    snprintf(what, sizeof what, "speed: %s, estimate on sim", name);
    report(bench, what, "ms", ms, peer_ms, "", NAN);
    snprintf(what, sizeof what, "speed: %s, estimate off by", name);
    report(bench, what, "%", fabs(100 * (ms / peer_ms - 1)), NAN, BENCH_AT_MOST, MOST_PERCENT);
}

/* Compares estimates with the peer's steps: that of the small model, the last, gives the time of a launch. */
static void measure_estimates(struct bench *bench, const struct setup *setups, const double *peer_ms, size_t count)
{
    json_t *cards = ask_json(&bench->asker, "cards --json");
    const char *card = json_string_value(json_object_get(json_object_get(cards, "machine"), "name"));
    if (card == NULL || isnan(peer_ms[count - 1])) {
        json_decref(cards);
        return;
    }
    double guessed_ms = estimate_ms(bench, &setups[count - 1], card, GUESSED_LAUNCH_NS);
    double launch_ns = GUESSED_LAUNCH_NS * peer_ms[count - 1] / guessed_ms;
    report(bench, "speed: PyTorch's launch of a kernel", "us", launch_ns / 1000, NAN, "", NAN);
    for (size_t i = 0; i < count; i++)
        compare_estimate(bench, &setups[i], card, launch_ns, peer_ms[i]);
    json_decref(cards);
}

static void measure_speed(struct bench *bench)
{
    static const struct setup setups[] = {{"2.7B", 256, "fp32"}, {"2.7B", 256, "bf16"}, {"small", 128, "fp32"}};
    static const double targets_ms[] = {613, 170, 20};
    enum { SETUPS = sizeof setups / sizeof setups[0] };
    double peer_ms[SETUPS];
    for (size_t i = 0; i < SETUPS; i++)
        peer_ms[i] = measure_step(bench, &setups[i], targets_ms[i]);
    measure_estimates(bench, setups, peer_ms, SETUPS);
}

/* ---- watching: what it costs ---- */

enum { MOST_REPEATS = 9 };
enum watching { UNWATCHED, TRACED, KERNELS, WATCHING_COUNT };

/* The mean of an array of numbers; NAN if there is none. */
static double mean_of(const json_t *numbers)
{
    size_t count = json_array_size(numbers);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += json_number_value(json_array_get(numbers, i));
    return count > 0 ? sum / (double)count : NAN;
}

/* Milliseconds of a step by the wall clock, the mean of a run; NAN if it failed. */
static double wall_ms(struct bench *bench, const struct setup *setup, int steps, enum watching watching)
{
    static const char *const options[WATCHING_COUNT] = {"--no-trace", "", "--kernels"};
    char arguments[2 * LONGEST];
    snprintf(arguments, sizeof arguments,
             "run --json --no-grad-norms --trace " TRACE " --model %s --seq %d %s --device %s --warmup 2 --steps %d %s",
             setup->model, setup->seq, precision_options(setup->precision), bench->device, steps, options[watching]);
    remove_trace();
    json_t *answer = ask_json(&bench->asker, arguments);
    double ms = mean_of(json_object_get(answer, "wall_ms"));
    json_decref(answer);
    return ms;
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
    measure_cost(bench, &(struct setup){"2.7B", 256, "bf16"}, 12, 3);
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
    if (run(bench, &setup, bench->device, options, NULL) != 0) {
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
    int code = run(bench, setup, bench->device, "--mode fwd_bwd --steps 2", NULL);
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

/* True if the command's answer has, under `key`, a number above 0 or an array that is not empty. */
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
    int code = run(bench, &(struct setup){"2.7B", 4096, "fp32"}, bench->device, "--mode fwd_bwd --steps 1", NULL);
    report(bench, "oom: 2.7B 4096 fp32 ends with exit code 5", "yes", code == OUT_OF_MEMORY, NAN, BENCH_AT_LEAST, 1);
    report(bench, "oom: peak and top answer from its trace", "yes",
           answers(bench, "peak --json --trace " TRACE, "reserved_bytes") &&
               answers(bench, "top 10 --at peak --json --trace " TRACE, "rows"),
           NAN, BENCH_AT_LEAST, 1);
}

int main(int count, char **arguments)
{
    static const struct measurement measurements[] = {{"speed", measure_speed},     {"watching", measure_watching},
                                                      {"profile", measure_profile}, {"used", measure_used},
                                                      {"oom", measure_oom},         {NULL, NULL}};
    return measure_on_card("bench_gpu", measurements, count, arguments);
}
