/* Compares the events of a card with those of the simulation, for every setting: they must be one sequence. card.h
 * says how to start the program. Models of real size run with their usual settings, a small one with all of them. */
#include "bench/card.h"

#define CARD "card.db"
#define SIM "sim.db"
#define SAID "said" /* on stderr: a sweep's progress, of which there is a lot */

/* Every event of a trace with all that its ids stand for; not its address, not its time. */
#define EVENTS_SQL                                                                                                     \
    "SELECT event_kind.name, stream, requested_bytes, block_bytes, segment, offset, allocation - first_event,"         \
    " category, role, op, phase, layer, dtype, shape, path FROM run"                                                   \
    " JOIN event ON event.id >= first_event AND event.id < first_event + event_count"                                  \
    " JOIN event_kind ON event_kind.id = kind LEFT JOIN label ON label.run = run.id AND label.id = event.label"        \
    " LEFT JOIN span ON span.run = run.id AND span.id = coalesce(event.span, label.span)"                              \
    " ORDER BY event.id"

/* Returns the count of lines that differ between two outputs, compared place by place. A line that only one of them
 * has differs. `out_lines` gets the count of lines compared. */
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

/* Of two traces; -1 if they can't be read. */
static int64_t compare_traces(struct bench *bench)
{
    FILE *card = ask_begin(&bench->asker, "sql --csv --trace " CARD " '" EVENTS_SQL "'");
    FILE *sim = ask_begin(&bench->asker, "sql --csv --trace " SIM " '" EVENTS_SQL "'");
    int64_t lines = 0, differences = -1;
    if (card != NULL && sim != NULL)
        differences = count_differences(card, sim, &lines);
    bool ended = ask_end(card) == 0;
    ended = ask_end(sim) == 0 && ended;
    return ended && lines > 1 ? differences : -1;
}

static void remove_traces(void)
{
    unlink(CARD);
    unlink(SIM);
    unlink(SAID);
}

static void show_what_was_said(void)
{
    FILE *said = fopen(SAID, "r");
    char line[4096];
    while (said != NULL && fgets(line, sizeof line, said) != NULL)
        fputs(line, stderr);
    if (said != NULL)
        fclose(said);
}

/* Runs a command on both devices into a trace each, and reports how many events differ. */
static void compare(struct bench *bench, const char *what, const char *command)
{
    char text[2 * LONGEST];
    remove_traces();
    int code = ask_formatted(&bench->asker, NULL, "%s --device %s --trace " CARD " 2>" SAID, command, bench->device);
    if (code == 0)
        code = ask_formatted(&bench->asker, NULL, "%s --device sim:h200 --trace " SIM " 2>" SAID, command);
    int64_t differences = code == 0 ? compare_traces(bench) : -1;
    if (code != 0)
        show_what_was_said();
    remove_traces();
    snprintf(text, sizeof text, "sequence: %s, unlike sim", what);
    if (differences < 0)
        fail(bench, text);
    else
        report_count(bench, text, "events", differences);
}

/* Full steps of a model of real size. */
static void compare_model(struct bench *bench, const struct setup *setup, const char *options)
{
    char name[LONGEST], what[2 * LONGEST], command[2 * LONGEST];
    setup_name(setup, name);
    snprintf(what, sizeof what, "%s %s", name, options);
    snprintf(command, sizeof command, "run --model %s --seq %d %s --steps 2 %s", setup->model, setup->seq,
             precision_options(setup->precision), options);
    compare(bench, what, command);
}

static void compare_models(struct bench *bench)
{
    static const struct setup setups[] = {{"2.7B", 256, "fp32"},  {"2.7B", 256, "bf16"},   {"small", 128, "fp32"},
                                          {"small", 128, "bf16"}, {"medium", 192, "fp32"}, {"medium", 192, "bf16"}};
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        compare_model(bench, &setups[i], "--alloc policy=tight");
        compare_model(bench, &setups[i], "--alloc policy=torch");
        compare_model(bench, &setups[i], "--impl fused");
    }
}

/* ---- every setting ---- */

#define SMALL "sweep --vocab 512 --d-model 256 --d-ff 1024 --layers 3 --heads 4 --seq 128 --batch 2 --steps 4"
#define EAGER SMALL " --impl eager --attention custom,softmax,weights,flash --alloc policy=tight,policy=torch"
#define FUSED                                                                                                          \
    SMALL " --impl fused --attention weights,flash --checkpoint off,block --optimizer-in-backward off,on,beside"       \
          " --zero-grad before-backward,before-forward"
#define GRAPHED SMALL " --impl fused --attention weights,flash --checkpoint off,block --zero-grad before-forward"
#define CASTS " --autocast bf16 --weight-cast persistent,region,layer"

/* Large enough for a card with Hopper's matrix units to compute gates within their products (kernels/gate_plan.h). */
#define GATED                                                                                                          \
    "sweep --vocab 512 --d-model 256 --d-ff 8192 --layers 2 --heads 4 --seq 1024 --batch 2 --steps 2 --impl fused"     \
    " --attention flash --autocast bf16 --checkpoint off,block --optimizer-in-backward off,on,beside"                  \
    " --loss-slices 1,4 --moments fp32,bf16,8bit"

static void compare_settings(struct bench *bench)
{
    compare(bench, "eager, 16 settings", EAGER " --autocast off,bf16");
    compare(bench, "eager, 8 settings, tf32", EAGER " --matmul tf32");
    compare(bench, "eager, 16 settings, plan", EAGER " --autocast off,bf16 --plan on");
    compare(bench, "fused, 24 settings, fp32", FUSED);
    compare(bench, "fused, 24 settings, tf32", FUSED " --matmul tf32");
    compare(bench, "fused, 72 settings, bf16", FUSED CASTS);
    compare(bench, "fused, 72 settings, fp8", FUSED CASTS " --matmul fp8");
    compare(bench, "fused, 72 settings, bf16, plan", FUSED CASTS " --plan on");
    compare(bench, "fused, 36 settings, bf16, gates within products", GATED);
    compare(bench, "fused, 12 settings, bf16, cuda-graph", GRAPHED CASTS " --cuda-graph on");
    compare(bench, "fused, 12 settings, fp8, cuda-graph", GRAPHED CASTS " --matmul fp8 --cuda-graph on");
}

/* ---- peaks ---- */

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
        bool ran =
            run(bench, &setup, bench->device, options, NULL) == 0 && run(bench, &setup, "sim:h200", options, NULL) == 0;
        unlike += !ran || number_of(bench, PEAKS_SQL) != 0;
    }
    report_count(bench, "sequence: peaks of 12 reference runs, unlike sim", "runs", unlike);
}

static void measure_sequence(struct bench *bench)
{
    compare_models(bench);
    compare_settings(bench);
    measure_peaks(bench);
}

int main(int count, char **arguments)
{
    static const struct measurement measurements[] = {{"sequence", measure_sequence}, {NULL, NULL}};
    return measure_on_card("bench_sequence", measurements, count, arguments);
}
