/* A program that says what it allocates for: a small network, forward and backward, twice.
 *
 *   cc label.c -o label $(pkg-config --cflags --libs memtrace)
 *   ./label                  plans on a simulated H200; ./label cuda and ./label cpu take real memory
 *   memtrace peak --trace label.db */
#include <memtrace.h>
#include <stdio.h>

enum { LAYERS = 4, STEPS = 2, ROWS = 512, COLUMNS = 2048 };

/* Memory for ROWS x COLUMNS numbers; 0 if it can't be had. */
static uint64_t take(memtrace_run *run, const char *category, memtrace_role role)
{
    memtrace_label label = {.size = sizeof label,
                            .category = category,
                            .role = role,
                            .dtype = MEMTRACE_F32,
                            .dims = 2,
                            .shape = {ROWS, COLUMNS}};
    uint64_t address = 0;
    if (memtrace_take(run, sizeof(float) * ROWS * COLUMNS, 0, &label, &address) != MEMTRACE_OK)
        fprintf(stderr, "%s\n", memtrace_last_error());
    return address;
}

static void run_step(memtrace_run *run)
{
    uint64_t activations[LAYERS];
    memtrace_step_begin(run);
    memtrace_phase_begin(run, MEMTRACE_FORWARD);
    for (int layer = 0; layer < LAYERS; layer++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d", layer); /* the number is the layer: alike layers are one row */
        memtrace_span_begin(run, name);
        activations[layer] = take(run, "Convolution", MEMTRACE_SAVED); /* any name is a category */
        memtrace_span_end(run);
    }
    memtrace_phase_begin(run, MEMTRACE_BACKWARD);
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        uint64_t gradient = take(run, "Gradient", MEMTRACE_GRAD);
        memtrace_give(run, activations[layer]);
        memtrace_give(run, gradient);
    }
    memtrace_step_end(run);
}

int main(int argc, char **argv)
{
    memtrace_run_options options = {.size = sizeof options, .trace = "label.db", .device = argc > 1 ? argv[1] : "sim"};
    memtrace_run *run = NULL;
    if (memtrace_run_open(&options, &run) != MEMTRACE_OK) {
        fprintf(stderr, "%s\n", memtrace_last_error());
        return 1;
    }
    uint64_t weights = take(run, "Param", MEMTRACE_PARAM);
    for (int step = 0; step < STEPS; step++)
        run_step(run);
    memtrace_give(run, weights);
    return memtrace_run_close(run, MEMTRACE_RUN_DONE) != MEMTRACE_OK;
}
