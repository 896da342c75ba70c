/* Times and memory of the fused model on a card: a step, AdamW and a layer of attention. The same model of PyTorch's
 * own operations is measured in the same run. card.h says how to start the program; the names are
 *
 *   fused      a step beside PyTorch's eager mode, a layer of attention, and settings that save memory beside the usual
 *   fp8        a step in fp8 beside the same in bf16, and its peak
 *   memory     peaks with the settings that make the model small, and bytes reserved over allocated
 *   compiled   a step beside torch.compile, which takes minutes to compile; nothing without peers
 *   length-small, length-medium, length-2.7B
 *              a step of 16,384 tokens beside torch.compile, in sequences of 512 to 8192 */
#include "bench/turns.h"

enum { TURNS = 3 };

static const double MIB = 1024.0 * 1024, GIB = 1024.0 * 1024 * 1024;

/* A bound of a report that may have none. */
static const char *at_most(double target)
{
    return isnan(target) ? "" : BENCH_AT_MOST;
}

/* A step, and what it may take. */
struct step {
    struct setup setup;
    const char *options; /* beside --impl fused */
    double ms, adamw_ms; /* at most; NAN: nothing was promised */
};

/* The options for updates beside backward; AdamW then has no time of its own. The fp32 step goes without: products of
 * plain fp32 leave AdamW no room beside them. */
static const char beside[] = "--optimizer-in-backward beside";
static const struct step steps[] = {{{"2.7B", 256, "bf16"}, beside, 62, NAN},
                                    {{"2.7B", 256, "tf32"}, beside, 85, NAN},
                                    {{"2.7B", 256, "fp32"}, "", 485, 25},
                                    {{"small", 128, "bf16"}, "--cuda-graph on --zero-grad before-forward", 3, NAN}};

enum { STEPS = sizeof steps / sizeof steps[0] };

/* Reserved over allocated at the peaks of the newest run; NAN if it can't be had. */
static double reserved_share(struct bench *bench)
{
    json_t *answer = ask_json(&bench->asker, "peak --json --trace " TRACE);
    double allocated = json_number_value(json_object_get(answer, "allocated_bytes"));
    double reserved = json_number_value(json_object_get(answer, "reserved_bytes"));
    json_decref(answer);
    return allocated > 0 ? reserved / allocated : NAN;
}

static void report_step(struct bench *bench, const char *what, const struct step *step, const struct turns *turns)
{
    char text[2 * LONGEST], name[LONGEST];
    setup_name(&step->setup, name);
    for (int part = 0; part < PARTS; part++) {
        double target = part == STEP ? step->ms : part == OPTIMIZER ? step->adamw_ms : NAN;
        if (part != STEP && step->options == beside)
            continue;
        snprintf(text, sizeof text, "%s: %s, %s", what, name, part == OPTIMIZER ? "AdamW" : part_names[part]);
        report(bench, text, "ms", turns->ours[part], turns->peer[part], at_most(target), target);
    }
}

/* Reports the reserved over the allocated bytes of both implementations, for the step that was just measured. */
static void report_shares(struct bench *bench, const struct step *step, struct peer *peer)
{
    char text[2 * LONGEST], name[LONGEST];
    double peaks[2];
    peer_ask(peer, peaks, 2, "peaks");
    snprintf(text, sizeof text, "fused: %s, reserved over allocated", setup_name(&step->setup, name));
    bool is_large = strcmp(step->setup.model, "2.7B") == 0;
    report(bench, text, "1", reserved_share(bench), peaks[1] / peaks[0], is_large ? BENCH_AT_MOST : "", 1.01);
}

static void measure_step(struct bench *bench, const struct step *step, const char *what, const char *peer_options)
{
    char options[LONGEST], name[LONGEST];
    struct turns turns;
    struct peer peer = open_model(bench, "pytorch_own.py", &step->setup, peer_options);
    snprintf(options, sizeof options, "--impl fused --warmup 3 --steps 8 %s", step->options);
    if (take_turns(bench, &step->setup, options, TURNS, &peer, &turns)) {
        report_step(bench, what, step, &turns);
        if (peer_options[0] == '\0')
            report_shares(bench, step, &peer);
    } else
        fail(bench, setup_name(&step->setup, name));
    peer_close(&peer);
}

/* ---- a layer of attention ---- */

struct layer {
    double forward_ms, backward_ms, kept_bytes;
};

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static struct layer measure_our_layer(struct bench *bench)
{
    char arguments[LONGEST];
    snprintf(
        arguments, sizeof arguments,
        "attention --json --no-trace --device %s --seq 16384 --d 64 --precision bf16 --attention flash --repeat 15",
        bench->device);
    json_t *answer = ask_json(&bench->asker, arguments);
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    struct layer layer = {number_at(row, "forward_ms"), number_at(row, "backward_ms"),
                          number_at(json_object_get(row, "kept"), "requested_bytes")};
    json_decref(answer);
    return layer;
}

static void report_layers(struct bench *bench, double forward[2][TURNS], double backward[2][TURNS],
                          const double kept_bytes[2])
{
    static const char what[] = "fused: attention layer, seq 16384, d 64, bf16";
    char text[LONGEST];
    snprintf(text, sizeof text, "%s, forward", what);
    report(bench, text, "ms", median_of(forward[0], TURNS), median_of(forward[1], TURNS), BENCH_AT_MOST, 1.8);
    snprintf(text, sizeof text, "%s, backward", what);
    report(bench, text, "ms", median_of(backward[0], TURNS), median_of(backward[1], TURNS), BENCH_AT_MOST, 3.5);
    snprintf(text, sizeof text, "%s, kept for backward", what);
    report(bench, text, "MiB", kept_bytes[0] / MIB, kept_bytes[1] / MIB, BENCH_AT_MOST, 97);
}

static void measure_layer(struct bench *bench)
{
    double forward[2][TURNS], backward[2][TURNS], kept_bytes[2], theirs[3];
    char command[LONGEST];
    snprintf(command, sizeof command, "exec python3 '%s/pytorch_attention.py'", bench->peers);
    struct peer peer = peer_open(bench->peers != NULL ? command : NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        struct layer ours = measure_our_layer(bench);
        peer_ask(&peer, theirs, 3, "layer bf16 16384 64");
        forward[0][turn] = ours.forward_ms;
        backward[0][turn] = ours.backward_ms;
        kept_bytes[0] = ours.kept_bytes;
        forward[1][turn] = theirs[0];
        backward[1][turn] = theirs[1];
        kept_bytes[1] = theirs[2];
    }
    peer_close(&peer);
    report_layers(bench, forward, backward, kept_bytes);
}

/* ---- settings that save memory, beside the usual ---- */

/* A setting beside the usual value of it: what it may take, in memory, and in time over the usual. */
static const struct rival {
    const char *what;
    struct setup setup;
    const char *usual, *option;
    double gib, time_share;
} rivals[] = {
    {"moments bf16 beside fp32", {"2.7B", 512, "bf16"}, "", "--moments bf16", 38.5, 1},
    {"moments 8bit beside fp32", {"2.7B", 512, "bf16"}, "", "--moments 8bit", 32.5, 1},
    {"vocabulary 128,256, loss in 8 slices beside whole",
     {"medium", 1024, "bf16"},
     "--vocab 128256 --batch 16",
     "--loss-slices 8",
     21,
     1.05},
};

enum { RIVALS = sizeof rivals / sizeof rivals[0] };

/* The figures of one side; of memory one is enough, since it is the same in every run. */
struct rival_figures {
    double step_ms[TURNS], adamw_ms[TURNS], gib;
};

static bool run_rival(struct bench *bench, const struct rival *rival, const char *option, int turn,
                      struct rival_figures *out)
{
    char options[LONGEST];
    double ms[PARTS];
    snprintf(options, sizeof options,
             "--impl fused --weight-cast layer --zero-grad before-forward --warmup 3 --steps 8 %s %s", rival->usual,
             option);
    if (!run_once(bench, &rival->setup, options, ms))
        return false;
    json_t *answer = ask_json(&bench->asker, "peak --json --trace " TRACE);
    out->gib = number_at(answer, "allocated_bytes") / GIB;
    json_decref(answer);
    out->step_ms[turn] = ms[STEP];
    out->adamw_ms[turn] = ms[OPTIMIZER];
    return true;
}

static void report_rival(struct bench *bench, const struct rival *rival, struct rival_figures *ours,
                         struct rival_figures *usual)
{
    char what[2 * LONGEST], name[LONGEST];
    double step_ms = median_of(usual->step_ms, TURNS), adamw_ms = median_of(usual->adamw_ms, TURNS);
    setup_name(&rival->setup, name);
    snprintf(what, sizeof what, "fused: %s, %s, step", name, rival->what);
    report(bench, what, "ms", median_of(ours->step_ms, TURNS), step_ms, BENCH_AT_MOST, rival->time_share * step_ms);
    snprintf(what, sizeof what, "fused: %s, %s, AdamW", name, rival->what);
    report(bench, what, "ms", median_of(ours->adamw_ms, TURNS), adamw_ms, BENCH_AT_MOST, 1.02 * adamw_ms);
    snprintf(what, sizeof what, "fused: %s, %s, peak", name, rival->what);
    report(bench, what, "GiB", ours->gib, usual->gib, BENCH_AT_MOST, rival->gib);
}

static void measure_rivals(struct bench *bench)
{
    for (int i = 0; i < RIVALS; i++) {
        struct rival_figures ours, usual;
        bool good = true;
        for (int turn = 0; turn < TURNS && good; turn++)
            good = run_rival(bench, &rivals[i], "", turn, &usual) &&
                   run_rival(bench, &rivals[i], rivals[i].option, turn, &ours);
        if (good)
            report_rival(bench, &rivals[i], &ours, &usual);
        else
            fail(bench, rivals[i].what);
    }
}

static void measure_fused(struct bench *bench)
{
    for (int i = 0; i < STEPS; i++)
        measure_step(bench, &steps[i], "fused", "");
    measure_layer(bench);
    measure_rivals(bench);
}

static void measure_compiled(struct bench *bench)
{
    for (int i = 0; i < STEPS && bench->peers != NULL; i++)
        measure_step(bench, &steps[i], "compiled", "--compile");
}

/* The peak of bytes that the newest run allocated, in GiB; NAN if it can't be had. */
static double allocated_gib(struct bench *bench)
{
    json_t *answer = ask_json(&bench->asker, "peak --json --trace " TRACE);
    double bytes = number_at(answer, "allocated_bytes");
    json_decref(answer);
    return bytes / GIB;
}

/* ---- steps of 16,384 tokens ---- */

/* A model, as PyTorch's peer has it too. */
struct size {
    const char *name;
    int width, hidden, layers;
};

enum { TOKENS = 16384, VOCABULARY = 10000 };

/* Returns the operations of a step: 6 for each parameter and token, and the causal half of attention's products. */
static double operations_of(const struct size *size, int seq)
{
    double width = size->width, layer = 4 * width * width + 3 * width * size->hidden;
    double parameters = size->layers * layer + 2 * VOCABULARY * width;
    return TOKENS * (6 * parameters + 6.0 * size->layers * seq * width);
}

/* Reports what was measured, ours first. */
static void report_length(struct bench *bench, const struct size *size, int seq, const double ms[2],
                          const double gib[2])
{
    enum { PEAK_TFLOPS = 989, PICO = 1000000000 };
    const double most_ms = 0.9, most_bytes = 0.95, least_share = 0.52;
    char what[LONGEST];
    snprintf(what, sizeof what, "length: %s %d x %d, step", size->name, seq, TOKENS / seq);
    report(bench, what, "ms", ms[0], ms[1], at_most(ms[1]), most_ms * ms[1]);
    snprintf(what, sizeof what, "length: %s %d x %d, allocated", size->name, seq, TOKENS / seq);
    report(bench, what, "GiB", gib[0], gib[1], at_most(gib[1]), most_bytes * gib[1]);
    double operations = operations_of(size, seq) / PICO / PEAK_TFLOPS;
    snprintf(what, sizeof what, "length: %s %d x %d, share of %d TFLOP/s", size->name, seq, TOKENS / seq, PEAK_TFLOPS);
    report(bench, what, "1", operations / ms[0], operations / ms[1],
           strcmp(size->name, "2.7B") == 0 ? BENCH_AT_LEAST : "", least_share);
}

/* Measures one length, as TOKENS / seq sequences. */
static void measure_sequences(struct bench *bench, const struct size *size, int seq)
{
    const struct setup setup = {size->name, seq, "bf16"};
    char ours[LONGEST], theirs[LONGEST], name[LONGEST];
    struct turns turns;
    double peaks[2];
    snprintf(theirs, sizeof theirs, "--compile --batch %d", TOKENS / seq);
    snprintf(ours, sizeof ours,
             "--impl fused --attention flash --optimizer-in-backward beside --zero-grad before-forward --warmup 3 "
             "--steps 8 --batch %d",
             TOKENS / seq);
    struct peer peer = open_model(bench, "pytorch_own.py", &setup, theirs);
    if (take_turns(bench, &setup, ours, TURNS, &peer, &turns)) {
        peer_ask(&peer, peaks, 2, "peaks");
        report_length(bench, size, seq, (double[]){turns.ours[STEP], turns.peer[STEP]},
                      (double[]){allocated_gib(bench), peaks[0] / GIB});
    } else
        fail(bench, setup_name(&setup, name));
    peer_close(&peer);
}

static void measure_length(struct bench *bench, const struct size *size)
{
    static const int lengths[] = {512, 1024, 4096, 8192};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        measure_sequences(bench, size, lengths[i]);
}

static void measure_length_small(struct bench *bench)
{
    measure_length(bench, &(struct size){"small", 768, 3072, 12});
}

static void measure_length_medium(struct bench *bench)
{
    measure_length(bench, &(struct size){"medium", 1024, 4096, 24});
}

static void measure_length_large(struct bench *bench)
{
    measure_length(bench, &(struct size){"2.7B", 2560, 10240, 32});
}

/* ---- memory ---- */

/* That of a run; NAN if it failed. */
static double peak_gib(struct bench *bench, const struct setup *setup, const char *options)
{
    remove_trace();
    return run(bench, setup, bench->device, options, NULL) == 0 ? allocated_gib(bench) : NAN;
}

/* Each setting added to those above it. */
static void measure_peaks(struct bench *bench)
{
    static const struct {
        const char *what, *option;
        double gib;
    } rows[] = {
        {"flash, layer, before-forward", "--attention flash --weight-cast layer --zero-grad before-forward", 51.5},
        {"and optimizer-in-backward", " --optimizer-in-backward on", 45.5},
        {"and checkpoint", " --checkpoint block", 40}};
    const struct setup setup = {"2.7B", 512, "bf16"};
    char options[LONGEST] = "--impl fused --steps 3 ", what[LONGEST];
    struct peer peer = open_model(bench, "pytorch_own.py", &setup, "");
    double peaks[2];
    peer_ask(&peer, peaks, 2, "peaks");
    peer_close(&peer);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        strcat(options, rows[i].option);
        snprintf(what, sizeof what, "memory: 2.7B 512 bf16, %s", rows[i].what);
        report(bench, what, "GiB", peak_gib(bench, &setup, options), peaks[0] / GIB, BENCH_AT_MOST, rows[i].gib);
    }
}

/* With a plan the target is the peak itself, to two digits: pages of 2 MiB are the rest. */
static const struct {
    const char *options, *precision;
    double share;
} reservations[] = {{"--impl eager", "fp32", 1.01},
                    {"--impl eager", "bf16", 1.01},
                    {"--impl eager --plan on", "fp32", 1.005},
                    {"--impl eager --plan on", "bf16", 1.005},
                    {"--impl fused --plan on", "fp32", 1.005},
                    {"--impl fused --plan on", "bf16", 1.005}};

/* Of the fused model without a plan `fused` tells. */
static void measure_reserved(struct bench *bench)
{
    for (size_t i = 0; i < sizeof reservations / sizeof reservations[0]; i++) {
        const struct setup setup = {"2.7B", 256, reservations[i].precision};
        char options[LONGEST], what[LONGEST];
        snprintf(options, sizeof options, "%s --steps 3", reservations[i].options);
        snprintf(what, sizeof what, "memory: 2.7B 256 %s %s, reserved over allocated", setup.precision,
                 reservations[i].options);
        remove_trace();
        double share = run(bench, &setup, bench->device, options, NULL) == 0 ? reserved_share(bench) : NAN;
        report(bench, what, "1", share, NAN, BENCH_AT_MOST, reservations[i].share);
    }
}

static void measure_memory(struct bench *bench)
{
    measure_peaks(bench);
    measure_reserved(bench);
}

/* ---- fp8 ---- */

/* Reports a step in fp8, with the same step in bf16 in the column of the peer. */
static void measure_fp8_step(struct bench *bench, const char *model, int seq)
{
    static const char options[] = "--impl fused --warmup 3 --steps 8 --zero-grad before-forward";
    const struct setup setups[] = {{model, seq, "fp8"}, {model, seq, "bf16"}};
    double ms[2][PARTS][TURNS], gib[2], turn_ms[PARTS];
    char what[2 * LONGEST], name[LONGEST];
    setup_name(&setups[0], name);
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < 2; i++) {
            if (!run_once(bench, &setups[i], options, turn_ms)) {
                fail(bench, name);
                return;
            }
            gib[i] = allocated_gib(bench);
            for (int part = 0; part < PARTS; part++)
                ms[i][part][turn] = turn_ms[part];
        }
    for (int part = 0; part < OPTIMIZER; part++) {
        snprintf(what, sizeof what, "fp8: %s beside bf16, %s", name, part_names[part]);
        report(bench, what, "ms", median_of(ms[0][part], TURNS), median_of(ms[1][part], TURNS), "", NAN);
    }
    snprintf(what, sizeof what, "fp8: %s beside bf16, peak", name);
    report(bench, what, "GiB", gib[0], gib[1], "", NAN);
}

static void measure_fp8(struct bench *bench)
{
    measure_fp8_step(bench, "2.7B", 256);
    measure_fp8_step(bench, "2.7B", 2048);
    measure_fp8_step(bench, "medium", 4096);
}

int main(int count, char **arguments)
{
    static const struct measurement measurements[] = {{"fused", measure_fused},
                                                      {"fp8", measure_fp8},
                                                      {"memory", measure_memory},
                                                      {"compiled", measure_compiled},
                                                      {"length-small", measure_length_small},
                                                      {"length-medium", measure_length_medium},
                                                      {"length-2.7B", measure_length_large},
                                                      {NULL, NULL}};
    return measure_on_card("bench_fused", measurements, count, arguments);
}
