/* The runs of the published study, and adding those that a trace lacks.
 *
 * They are the 2.7B model at three lengths, forward and full step, in fp32 and under autocast, with the rules of
 * PyTorch's allocator; full steps of all sizes, with and without warm-up, and fused; and the length that was out of
 * memory on 80 GB. */
#include "base/clock.h"
#include "device/device.h"
#include "study/report_runs.h"
#include "trace/query/trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A run of the study. A run in the trace replaces it if it had a second step and has enough warm-up. */
struct study_run {
    const char *model;
    int64_t seq;
    mt_mode mode;
    mt_implementation_kind implementation;
    mt_autocast autocast;
    int64_t warmup, steps;
    int64_t least_warmup, most_warmup; /* of a run that can replace it; least <= warmup <= most */
    bool wants_kernels;
    const char *device; /* NULL: the study's */
};

/* All runs except those without warm-up have the same number of steps including warm-up, since reserved memory may
 * still grow in the fifth step. So runs that differ only in warm-up have the same figure. */
enum { ANY_WARMUP = INT32_MAX, STUDY_RUNS = 64, ALL_STEPS = 6 };

/* The remaining runs. Invariant: no run can replace a later one. */
struct study {
    const char *path, *device; /* of the trace; for runs without a device */
    const struct mt_session_observer *observer;
    struct study_run runs[STUDY_RUNS];
    size_t count;
};

/* True if two runs agree in model, length, mode, precision, implementation and device. */
static bool is_same_cell(const struct study_run *a, const struct study_run *b)
{
    bool same_device = a->device == b->device || (a->device && b->device && strcmp(a->device, b->device) == 0);
    return strcmp(a->model, b->model) == 0 && a->seq == b->seq && a->mode == b->mode && a->autocast == b->autocast &&
           a->implementation == b->implementation && same_device;
}

/* True if the study records kernels of such runs on this device. On sim kernels are estimates, and a full step's
 * kernels include forward. The CPU has none. */
static bool records_kernels(const char *device, mt_mode mode)
{
    return strncmp(device, "cuda", 4) == 0 || (mt_device_is_simulated(device) && mode == MT_MODE_FWD_BWD);
}

/* Adds a run unless an earlier one replaces it. */
static void add_run(struct study *study, struct study_run run)
{
    run.wants_kernels = run.wants_kernels && records_kernels(study->device, run.mode);
    assert(run.least_warmup <= run.warmup && run.warmup <= run.most_warmup && study->count < STUDY_RUNS);
    for (size_t i = 0; i < study->count; i++) {
        const struct study_run *other = &study->runs[i];
        if (is_same_cell(other, &run) && other->warmup >= run.least_warmup && other->warmup <= run.most_warmup &&
            other->wants_kernels >= run.wants_kernels)
            return;
    }
    study->runs[study->count++] = run;
}

static void add_timing(struct study *study)
{
    static const char *const models[] = {"small", "medium", "large", "xl", "2.7B"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct study_run run = {.model = models[i], .seq = 256, .mode = MT_MODE_FWD_BWD, .steps = 4};
        add_run(study, run); /* exactly without warm-up */
        run.warmup = 2;
        run.steps = ALL_STEPS - run.warmup;
        run.least_warmup = 1;
        run.most_warmup = ANY_WARMUP;
        add_run(study, run);
        run.autocast = MT_AUTOCAST_BF16;
        add_run(study, run);
        run.implementation = MT_IMPLEMENTATION_FUSED;
        add_run(study, run);
        run.autocast = MT_AUTOCAST_OFF;
        add_run(study, run);
    }
}

static void add_peaks(struct study *study)
{
    static const int64_t lengths[] = {128, 256, 512};
    static const mt_mode modes[] = {MT_MODE_FWD, MT_MODE_FWD_BWD};
    struct study_run run = {
        .model = "2.7B", .warmup = 1, .steps = ALL_STEPS - 1, .most_warmup = ANY_WARMUP, .wants_kernels = true};
    for (size_t i = 0; i < 12; i++) {
        run.mode = modes[i / 6];
        run.autocast = i / 3 % 2 != 0 ? MT_AUTOCAST_BF16 : MT_AUTOCAST_OFF;
        run.seq = lengths[i % 3];
        add_run(study, run);
    }
}

/* On a card of 80 GB, a program can use all memory or up to 1 GiB less: the driver and CUDA's context use the rest. */
static void add_smaller_cards(struct study *study)
{
    static const char *const cards[] = {"sim:h100", "sim:79GiB"};
    struct study_run run = {
        .model = "2.7B", .seq = 512, .mode = MT_MODE_FWD_BWD, .warmup = 1, .steps = 3, .most_warmup = ANY_WARMUP};
    for (size_t i = 0; i < 4; i++) {
        run.device = cards[i / 2];
        run.autocast = i % 2 != 0 ? MT_AUTOCAST_BF16 : MT_AUTOCAST_OFF;
        add_run(study, run);
    }
}

/* A run under fp16, for its dtypes. Only a simulated device supports fp16. */
static void add_fp16(struct study *study)
{
    if (mt_device_is_simulated(study->device))
        add_run(study, (struct study_run){.model = "small",
                                          .seq = 256,
                                          .mode = MT_MODE_FWD_BWD,
                                          .autocast = MT_AUTOCAST_FP16,
                                          .warmup = 2,
                                          .steps = ALL_STEPS - 2,
                                          .most_warmup = ANY_WARMUP});
}

static mt_status plan_run(const struct study *study, const struct study_run *run, struct mt_run_plan *out)
{
    *out = (struct mt_run_plan){.config = mt_training_config_default(),
                                .device = run->device != NULL ? run->device : study->device,
                                .trace = study->path};
    out->config.seq = run->seq;
    out->config.mode = run->mode;
    out->config.autocast = run->autocast;
    out->config.warmup = run->warmup;
    out->config.steps = run->steps;
    out->watches_kernels = run->wants_kernels;
    MT_TRY(mt_model_config_named(run->model, &out->config.model));
    MT_TRY(mt_alloc_settings_parse("policy=torch", &out->alloc));
    return mt_run_plan_set(
        out, (const char *const[MT_SETTING_COUNT]){[MT_SETTING_IMPL] = mt_implementation_names[run->implementation]});
}

/* True if a run with these settings replaces the wanted run, whose settings are `settings`. */
static bool is_in_place(const struct mt_settings *found, const struct mt_settings *settings,
                        const struct study_run *wanted)
{
    static const char *const but[] = {"warmup", NULL};
    int64_t warmup = strtoll(mt_settings_value(found, "warmup"), NULL, 10);
    bool has_kernels = !wanted->wants_kernels || strcmp(mt_settings_value(found, "kernels"), "on") == 0;
    return mt_settings_agree(found, settings, MT_SETTINGS_OF_STEPS, but) && has_kernels &&
           warmup >= wanted->least_warmup && warmup <= wanted->most_warmup;
}

static mt_status find_in_trace(struct mt_trace *trace, const struct study_run *wanted,
                               const struct mt_settings *settings, bool *out_found)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && !*out_found && status == MT_OK; i++) {
        struct mt_settings found = {0};
        if (!mt_run_is(&runs[i], MT_RUN_OOM) && !(mt_run_is(&runs[i], MT_RUN_DONE) && runs[i].last_full_step >= 1))
            continue;
        status = mt_settings_load(trace, &runs[i], &found);
        *out_found = is_in_place(&found, settings, wanted);
        mt_settings_release(&found);
    }
    return status;
}

static mt_status find_run(const struct study *study, struct mt_trace *trace, const struct study_run *run,
                          bool *out_found)
{
    struct mt_run_plan plan;
    struct mt_device *device;
    mt_status status = plan_run(study, run, &plan);
    MT_THEN(status, mt_run_device_open(plan.device, study->observer, &device));
    if (status != MT_OK)
        return status;
    struct mt_settings settings = mt_settings_of_plan(&plan, device);
    if (trace != NULL)
        status = find_in_trace(trace, run, &settings, out_found);
    mt_settings_release(&settings);
    mt_device_close(device);
    return status;
}

/* Keeps the runs that the trace lacks: all if there is no trace yet. Opens each device, so that a missing one fails
 * before the first run. */
static mt_status drop_present(struct study *study)
{
    struct mt_trace *trace = NULL;
    mt_status status = access(study->path, F_OK) == 0 ? mt_trace_open(study->path, &trace) : MT_OK;
    size_t kept = 0;
    for (size_t i = 0; i < study->count && status == MT_OK; i++) {
        bool is_found = false;
        status = find_run(study, trace, &study->runs[i], &is_found);
        if (!is_found)
            study->runs[kept++] = study->runs[i];
    }
    assert(kept <= study->count);
    study->count = kept;
    mt_trace_close(trace);
    return status;
}

static mt_status run_one(const struct study *study, const struct study_run *run)
{
    struct mt_run_plan plan;
    struct mt_run_result result;
    MT_TRY(plan_run(study, run, &plan));
    mt_status status = mt_run_session(&plan, study->observer, &result);
    if (status == MT_OK && result.status != MT_OK && result.status != MT_OUT_OF_MEMORY)
        status = mt_fail(result.status, "%s", result.error);
    mt_run_result_release(&result);
    return status;
}

/* Passes a line to the observer. Releases the text. */
static void note(const struct study *study, struct mt_text *text)
{
    study->observer->note(study->observer->context, mt_text_get(text));
    mt_text_release(text);
}

static void note_run(const struct study *study, size_t index)
{
    const struct study_run *run = &study->runs[index];
    struct mt_text text = {0};
    mt_text_add(&text, "study: run %zu of %zu, %s, sequence %d, %s, %s, %s", index + 1, study->count, run->model,
                (int)run->seq, mt_mode_names[run->mode], mt_implementation_names[run->implementation],
                mt_precision_words(&(struct mt_training_config){.autocast = run->autocast}));
    note(study, &text);
}

mt_status mt_report_study(const char *path, const char *device, const struct mt_session_observer *observer)
{
    struct mt_text text = {0};
    struct study study = {.path = path, .device = device, .observer = observer};
    uint64_t start_ns = mt_clock_ns();
    add_timing(&study);
    add_peaks(&study);
    add_smaller_cards(&study);
    add_fp16(&study);
    mt_status status = drop_present(&study);
    for (size_t i = 0; i < study.count && status == MT_OK; i++) {
        note_run(&study, i);
        status = run_one(&study, &study.runs[i]);
    }
    if (status != MT_OK)
        return status;
    mt_text_add(&text, "study: %zu run%s added to %s in %.1f s", study.count, study.count == 1 ? "" : "s", path,
                (double)(mt_clock_ns() - start_ns) * 1e-9);
    note(&study, &text);
    return MT_OK;
}
