/* A program that labels its memory: forward and backward of four layers.
 *
 *   cc label.c -o label $(pkg-config --cflags --libs memtrace)
 *   ./label                  plans on a simulated H200; ./label cuda and ./label cpu take real memory
 *   memtrace peak --trace label.db */
#include <memtrace.h>
#include <stdio.h>

enum { LAYERS = 4, ROWS = 512, COLUMNS = 2048 };

/* Takes memory for ROWS x COLUMNS numbers. Returns 0 if there is none. Any name may be a category. */
static uint64_t take(memtrace_run *run, const char *category, memtrace_role role)
{
    memtrace_label label = {sizeof label, category, role, MEMTRACE_F32, .dims = 2, .shape = {ROWS, COLUMNS}};
    uint64_t address = 0;
    memtrace_take(run, sizeof(float) * ROWS * COLUMNS, 0, &label, &address);
    return address;
}

int main(int argc, char **argv)
{
    static const char *const names[LAYERS] = {"layers.0", "layers.1", "layers.2", "layers.3"};
    memtrace_run_options options = {.size = sizeof options, .trace = "label.db", .device = argc > 1 ? argv[1] : "sim"};
    memtrace_run *run;
    if (memtrace_run_open(&options, &run) != MEMTRACE_OK) {
        fprintf(stderr, "%s\n", memtrace_last_error());
        return 1;
    }
    uint64_t activations[LAYERS], weights = take(run, "Param", MEMTRACE_PARAMETER);
    memtrace_step_begin(run);
    memtrace_phase_begin(run, MEMTRACE_FORWARD);
    for (int layer = 0; layer < LAYERS; layer++) {
        memtrace_span_begin(run, names[layer]); /* the number is the layer: answers merge equal layers */
        activations[layer] = take(run, "Convolution", MEMTRACE_ACTIVATION);
        memtrace_span_end(run);
    }
    memtrace_phase_begin(run, MEMTRACE_BACKWARD);
    for (int layer = LAYERS - 1; layer >= 0; layer--)
        memtrace_give(run, activations[layer]);
    memtrace_step_end(run);
    memtrace_give(run, weights);
    return memtrace_run_close(run, MEMTRACE_RUN_DONE) != MEMTRACE_OK;
}
