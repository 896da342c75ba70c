/* The options that describe a run: `run` takes them as they are, `sweep` a grid of them, and whoever asks what another
 * setting would do takes those of a run that was traced. */
#ifndef MT_CLI_RUN_OPTIONS_H
#define MT_CLI_RUN_OPTIONS_H

#include "options.h"
#include "run_session.h"
#include "trace/trace.h"

/* As given; what was not given is NULL or MT_UNSET, and keeps the model's or the default value. */
enum { MT_UNSET = -1 };
struct mt_run_options {
    bool help, json, no_trace, kernels;
    const char *model, *device, *alloc, *trace, *name, *data;
    int64_t vocab, d_model, d_ff, layers, heads;
    int64_t batch, seq, steps, warmup, seed;
    int rope, mode, autocast, matmul, zero_grad, init, impl;
};

/* The table, which ends with a NULL name, and nothing given. */
extern const struct mt_option mt_run_option_table[];
extern const struct mt_run_options mt_run_options_none;

/* The plan that the options describe, checked. Borrows their texts. MT_USAGE for what can't be run. */
mt_status mt_run_options_plan(const struct mt_run_options *options, struct mt_run_plan *out);

/* The plan of a run that `run` has traced, by its settings; not traced itself. Texts are borrowed from the trace.
 * MT_USAGE if its settings are not those of such a run (an imported one has none). */
mt_status mt_run_plan_of_run(struct mt_trace *trace, const struct mt_run *run, struct mt_run_plan *out);

#endif
