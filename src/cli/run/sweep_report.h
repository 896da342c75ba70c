/* The runs of a sweep, as a table and as JSON. */
#pragma once

#include "cli/output/output.h"
#include "cli/run/sweep_grid.h"

/* How a cell ended. */
typedef enum mt_cell_outcome {
    MT_CELL_RAN,       /* it was run, and the trace has its run */
    MT_CELL_WAS_THERE, /* the trace already had it */
    MT_CELL_FAILED     /* neither done nor out of memory */
} mt_cell_outcome;

struct mt_sweep_result {
    mt_cell_outcome outcome;
    int64_t run; /* in the trace; 0: it failed before it got a number */
    char *error; /* of a failed cell; owned */
};

/* A finished sweep: result i belongs to the grid's cell i. Borrows everything. */
struct mt_sweep {
    const char *trace;
    const struct mt_sweep_grid *grid;
    const struct mt_sweep_result *results;
};

/* Describes the answer in JSON. */
extern const struct mt_row_type mt_sweep_answer_type;

/* Prints the cells with the data of their runs in the trace. */
mt_status mt_sweep_report(const struct mt_sweep *sweep, mt_report_form form);

/* Adds a cell in words, with the other settings that vary in its grid: "small, fwd_bwd, autocast off, seq 128, batch
 * 4". */
void mt_sweep_describe_cell(const struct mt_sweep_grid *grid, const struct mt_sweep_cell *cell, struct mt_text *out);
