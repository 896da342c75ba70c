/* The self-test of the check: records runs with known properties and checks them. */
#include "analysis/check/check.h"
#include "base/job_folder.h"
#include "base/text.h"
#include "producers/model/training.h"
#include "run/live_run.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The runs: two equal ones, one that leaks, one that does not fit. */
static const char clean[] = "clean", twin[] = "twin", leaky[] = "leaky", too_large[] = "too-large";
enum { STEPS = 4, LEAK_BYTES = 4096 };
static const struct {
    const char *name, *device;
    uint64_t leak_bytes; /* left behind by each step */
} runs[] = {{clean, "sim:1GiB", 0}, {twin, "sim:1GiB", 0}, {leaky, "sim:1GiB", LEAK_BYTES}, {too_large, "sim:4MiB", 0}};

/* The recorded runs, and the trials so far. */
struct trials {
    struct mt_job_folder folder;
    struct mt_text path; /* of the trace in the folder */
    struct mt_trace *trace;
    struct mt_check_trials *out;
};

static struct mt_training_config tiny_config(void)
{
    struct mt_training_config config = mt_training_config_default();
    config.model =
        (struct mt_model_config){.name = "tiny", .vocab = 512, .d_model = 128, .d_ff = 256, .layers = 2, .heads = 4};
    config.seq = 64;
    config.steps = STEPS;
    return config;
}

/* The leak: a block after every step, labelled as a loss that is kept for a log, and never freed. */
struct leak {
    struct mt_alloc *alloc;
    uint64_t bytes; /* 0: none */
};

static void keep_a_block(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)step, (void)total, (void)loss, (void)step_ms;
    const struct leak *leak = context;
    struct mt_block *kept;
    if (leak->bytes == 0)
        return;
    mt_span_id span = mt_alloc_intern_span(leak->alloc, 0, "injected");
    const struct mt_label label = {.category = MT_CATEGORY_LOSS,
                                   .role = MT_ROLE_ACTIVATION,
                                   .phase = MT_PHASE_LOSS,
                                   .dtype = MT_F32,
                                   .op = "leak",
                                   .span = span,
                                   .layer = -1,
                                   .dims = 1,
                                   .shape = {(int64_t)(leak->bytes / sizeof(float))}};
    mt_label_id id = mt_alloc_intern_label(leak->alloc, &label);
    (void)mt_alloc_take(leak->alloc, leak->bytes, 0, id, span, &kept); /* a failure is reported by the run */
}

static mt_status train(const struct mt_live_run *run, uint64_t leak_bytes)
{
    struct mt_training_config config = tiny_config();
    struct leak leak = {.alloc = mt_live_run_alloc(run), .bytes = leak_bytes};
    struct mt_training_observer observer = {.context = &leak, .step_done = keep_a_block};
    return mt_training_run(mt_live_run_device(run), leak.alloc, &config, &observer);
}

/* Adds a run to the trace, even if it does not fit. */
static mt_status record(const struct trials *trials, const char *name, const char *spelling, uint64_t leak_bytes)
{
    const struct mt_alloc_settings alloc = mt_alloc_settings_of(MT_POLICY_TIGHT);
    struct mt_live_settings settings = {
        .trace = trials->path.data, .info = {.name = name, .ring_records = 1 << 16}, .alloc = &alloc};
    struct mt_live_run *run;
    MT_TRY(mt_device_open(spelling, &settings.device));
    mt_status status = mt_live_run_open(&settings, &run);
    if (status == MT_OK) {
        status = train(run, leak_bytes);
        mt_run_state state = mt_live_run_state(status);
        status = status == MT_OUT_OF_MEMORY ? MT_OK : status;
        status = mt_status_keep(status, mt_live_run_close(run, state));
    }
    mt_device_close(settings.device);
    return status;
}

static mt_status begin(struct trials *trials)
{
    MT_TRY(mt_job_folder_make(&trials->folder));
    mt_text_add(&trials->path, "%s/trace.db", trials->folder.path);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        MT_TRY(record(trials, runs[i].name, runs[i].device, runs[i].leak_bytes));
    return mt_trace_open(trials->path.data, &trials->trace);
}

static void end(struct trials *trials)
{
    mt_trace_close(trials->trace);
    mt_job_folder_remove(&trials->folder);
    mt_text_release(&trials->path);
}

/* The outcome of a check. */
struct verdict {
    size_t failed;
    uint64_t last_value; /* of the last criterion, which the budget tests */
};

static mt_status find_run(const struct trials *trials, const char *name, struct mt_question *out)
{
    *out = (struct mt_question){.trace = trials->trace};
    return mt_trace_find_run(trials->trace, name, &out->run);
}

static mt_status check_run(const struct trials *trials, const char *name, const struct mt_budget *budget,
                           struct verdict *out)
{
    struct mt_question question, against;
    struct mt_check check = {0};
    MT_TRY(find_run(trials, name, &question));
    if (budget->against != NULL)
        MT_TRY(find_run(trials, budget->against, &against));
    mt_status status = mt_check_run(budget, &question, budget->against != NULL ? &against : NULL, &check);
    if (status == MT_OK)
        *out = (struct verdict){check.failed, check.criteria[check.count - 1].value_bytes};
    mt_check_release(&check);
    return status;
}

static void add_trial(struct trials *trials, struct mt_check_trial trial)
{
    assert(trials->out->count < MT_MOST_CHECK_TRIALS);
    trials->out->items[trials->out->count++] = trial;
    trials->out->broken += !trial.held;
}

/* Tries a bound: it must pass with the clean run's value, and fail with one byte less. */
static mt_status try_bound(struct trials *trials, struct mt_check_trial trial, const struct mt_budget *budget,
                           uint64_t *bound)
{
    struct verdict kept = {0}, missed = {0};
    *bound = MT_NO_BOUND - 1;
    MT_TRY(check_run(trials, clean, budget, &kept));
    *bound = trial.bytes = kept.last_value;
    MT_TRY(check_run(trials, clean, budget, &kept));
    *bound = trial.bytes - 1;
    MT_TRY(check_run(trials, clean, budget, &missed));
    trial.held = trial.bytes > 0 && kept.failed == 0 && missed.failed == 1;
    add_trial(trials, trial);
    return MT_OK;
}

static mt_status try_peaks(struct trials *trials)
{
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        struct mt_budget budget = mt_budget_empty();
        const struct mt_check_trial trial = {.kind = MT_CRITERION_PEAK, .measure = (mt_measure)i};
        MT_TRY(try_bound(trials, trial, &budget, &budget.most_bytes[i]));
    }
    return MT_OK;
}

/* Tries each kind of bound. */
static mt_status try_bounds(struct trials *trials)
{
    static const struct {
        mt_bound_kind kind;
        mt_criterion_kind criterion;
        const char *name;
    } bounds[] = {{MT_BOUND_LIVE, MT_CRITERION_CATEGORY, "Param"},
                  {MT_BOUND_LARGEST, MT_CRITERION_LARGEST, "Param"},
                  {MT_BOUND_ROLE, MT_CRITERION_ROLE, "parameter"},
                  {MT_BOUND_MODULE, MT_CRITERION_MODULE, "model"},
                  {MT_BOUND_PHASE, MT_CRITERION_PHASE, "forward"}};
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0] && status == MT_OK; i++) {
        struct mt_budget budget = mt_budget_empty();
        mt_budget_set_bound(&budget, bounds[i].kind, bounds[i].name, 0);
        status =
            try_bound(trials, (struct mt_check_trial){.kind = bounds[i].criterion}, &budget, &budget.bounds[0].bytes);
        mt_budget_release(&budget);
    }
    return status;
}

/* Tries a budget that the clean run meets and another one misses. */
static mt_status try_runs(struct trials *trials, struct mt_check_trial trial, const struct mt_budget *budget,
                          const char *stopped)
{
    struct verdict kept = {0}, missed = {0};
    MT_TRY(check_run(trials, clean, budget, &kept));
    MT_TRY(check_run(trials, stopped, budget, &missed));
    trial.held = kept.failed == 0 && missed.failed > 0;
    add_trial(trials, trial);
    return MT_OK;
}

static mt_status try_leaks(struct trials *trials)
{
    struct mt_budget budget = mt_budget_empty();
    budget.no_leaks = true;
    const struct mt_check_trial trial = {.kind = MT_CRITERION_LEAKS, .bytes = LEAK_BYTES};
    return try_runs(trials, trial, &budget, leaky);
}

static mt_status try_against(struct trials *trials)
{
    struct mt_budget budget = mt_budget_empty();
    mt_budget_set_against(&budget, twin);
    budget.tolerance_percent = 0;
    const struct mt_check_trial trial = {.kind = MT_CRITERION_PEAK, .is_relative = true};
    mt_status status = try_runs(trials, trial, &budget, leaky);
    mt_budget_release(&budget);
    return status;
}

static mt_status try_end(struct trials *trials)
{
    struct mt_budget budget = mt_budget_empty();
    budget.most_bytes[MT_MEASURE_ALLOCATED] = MT_NO_BOUND - 1;
    return try_runs(trials, (struct mt_check_trial){.kind = MT_CRITERION_ENDED}, &budget, too_large);
}

static mt_status try_all(struct trials *trials)
{
    static mt_status (*const tries[])(struct trials *) = {try_leaks, try_peaks, try_bounds, try_against, try_end};
    MT_TRY(begin(trials));
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++)
        MT_TRY(tries[i](trials));
    return MT_OK;
}

mt_status mt_check_trials_run(struct mt_check_trials *out)
{
    struct trials trials = {.out = out};
    *out = (struct mt_check_trials){0};
    mt_status status = try_all(&trials);
    end(&trials);
    return status;
}
