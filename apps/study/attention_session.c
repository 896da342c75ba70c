#include "study/attention_session.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/order.h"
#include "producers/model/settings.h"
#include "run/live_run.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const mt_study_precision_names[] = {
    [MT_STUDY_FP32] = "fp32", [MT_STUDY_TF32] = "tf32", [MT_STUDY_BF16] = "bf16", NULL};

size_t mt_attention_grid_part(const struct mt_attention_grid *grid)
{
    assert(grid->widths.count > 0 && grid->lengths.count > 0 && grid->variants.count > 0);
    return grid->widths.count * grid->lengths.count * grid->variants.count;
}

size_t mt_attention_grid_count(const struct mt_attention_grid *grid)
{
    return grid->precisions.count * mt_attention_grid_part(grid);
}

struct mt_attention_case mt_attention_grid_cell(const struct mt_attention_grid *grid, size_t number)
{
    assert(number < mt_attention_grid_count(grid));
    size_t variant = number % grid->variants.count;
    number /= grid->variants.count;
    size_t length = number % grid->lengths.count;
    number /= grid->lengths.count;
    size_t width = number % grid->widths.count, precision = number / grid->widths.count;
    bool is_bf16 = grid->precisions.values[precision] == MT_STUDY_BF16,
         is_tf32 = grid->precisions.values[precision] == MT_STUDY_TF32;
    return (struct mt_attention_case){.batch = grid->batch,
                                      .heads = grid->heads,
                                      .d_model = grid->widths.values[width],
                                      .seq = grid->lengths.values[length],
                                      .without_projections = grid->without_projections,
                                      .without_mask = grid->without_mask,
                                      .attention = (mt_attention_kind)grid->variants.values[variant],
                                      .dtype = is_bf16 ? MT_BF16 : MT_F32,
                                      .math = is_tf32 ? MTK_MATH_TF32 : MTK_MATH_FP32,
                                      .repeats = grid->repeats,
                                      .seed = (uint64_t)grid->seed};
}

static void add_context(const struct mt_attention_case *cell, mt_status status)
{
    struct mt_text text = {0};
    mt_attention_case_describe(cell, &text);
    mt_fail_context(status, "%s", mt_text_get(&text));
    mt_text_release(&text);
}

mt_status mt_attention_grid_check(const struct mt_attention_grid *grid)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < mt_attention_grid_count(grid) && status == MT_OK; i++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(grid, i);
        status = mt_attention_case_check(&cell);
        if (status != MT_OK)
            add_context(&cell, status);
    }
    return status;
}

mt_study_precision mt_study_precision_of(const struct mt_attention_case *study)
{
    if (study->dtype == MT_BF16)
        return MT_STUDY_BF16;
    return study->math == MTK_MATH_TF32 ? MT_STUDY_TF32 : MT_STUDY_FP32;
}

void mt_attention_case_describe(const struct mt_attention_case *study, struct mt_text *out)
{
    mt_text_add(out, "%s, d %" PRId64 ", sequence %" PRId64 ", %s",
                mt_study_precision_names[mt_study_precision_of(study)], study->d_model, study->seq,
                mt_attention_names[study->attention]);
}

/* A cell has a thousand events, so its ring is small. */
enum { RING_RECORDS = 1 << 12 };

/* A cell in progress. */
struct cell {
    struct mt_attention_session *session;
    const struct mt_attention_case *study;
    struct mt_live_run *run;
    double *ms[MT_PHASE_COUNT]; /* of forward and backward, by repetition */
    size_t repeats[MT_PHASE_COUNT];
};

static void on_phase_time(void *context, int64_t step, mt_phase phase, double ms)
{
    struct cell *cell = context;
    char name[MT_BYTES_TEXT];
    snprintf(name, sizeof name, "phase_ms:%s", mt_phase_name(phase));
    assert(cell->ms[phase] != NULL && cell->repeats[phase] < (size_t)cell->study->repeats);
    cell->ms[phase][cell->repeats[phase]++] = ms;
    mt_live_run_measure(cell->run, name, step, ms);
}

static void on_step_done(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)total;
    (void)loss;
    struct cell *cell = context;
    mt_live_run_measure(cell->run, "step_ms", step, step_ms);
}

/* The settings of a cell. Runs of a model have other settings, so no comparison confuses the two. */
enum { SETTINGS = 15, NUMBERS = 7 };

static mt_status open_run(struct cell *cell)
{
    const struct mt_attention_case *study = cell->study;
    struct mt_attention_session *session = cell->session;
    struct mt_text alloc = {0}, name = {0};
    mt_alloc_settings_format(&session->alloc, &alloc);
    mt_text_add(&name, "%s-%s-%s-d%" PRId64 "-%" PRId64, session->name, mt_attention_names[study->attention],
                mt_study_precision_names[mt_study_precision_of(study)], study->d_model, study->seq);
    mt_text_add(&name, "%s%s", study->without_projections ? "-alone" : "", study->without_mask ? "-unmasked" : "");
    const int64_t numbers[NUMBERS] = {study->batch,        study->heads, study->d_model, study->seq, study->repeats, 1,
                                      (int64_t)study->seed};
    char texts[NUMBERS][MT_BYTES_TEXT];
    for (int i = 0; i < NUMBERS; i++)
        snprintf(texts[i], sizeof texts[i], "%" PRId64, numbers[i]);
    const struct mt_run_setting settings[SETTINGS] = {{"study", "attention"},
                                                      {"batch", texts[0]},
                                                      {"heads", texts[1]},
                                                      {"d_model", texts[2]},
                                                      {"seq", texts[3]},
                                                      {"attention", mt_attention_names[study->attention]},
                                                      {"projections", study->without_projections ? "off" : "on"},
                                                      {"causal", study->without_mask ? "off" : "on"},
                                                      {"dtype", mt_dtype_name(study->dtype)},
                                                      {"matmul", mt_matmul_names[study->math]},
                                                      {"steps", texts[4]},
                                                      {"warmup", texts[5]},
                                                      {"seed", texts[6]},
                                                      {"alloc", mt_text_get(&alloc)},
                                                      {"memtrace", MT_VERSION}};
    const struct mt_live_settings live = {.trace = session->trace,
                                          .info = {.name = mt_text_get(&name),
                                                   .settings = settings,
                                                   .setting_count = SETTINGS,
                                                   .ring_records = RING_RECORDS},
                                          .device = session->device,
                                          .alloc = &session->alloc,
                                          .kept = &session->recorder};
    mt_status status = mt_live_run_open(&live, &cell->run);
    mt_text_release(&alloc);
    mt_text_release(&name);
    session->is_untraceable = status != MT_OK;
    return status;
}

static void keep_refusal(const struct cell *cell, const struct mt_alloc_refusal *refusal,
                         struct mt_attention_result *out)
{
    const struct mt_label *label = mt_interner_find_label(mt_live_run_interner(cell->run), refusal->label);
    out->oom_bytes = refusal->requested_bytes;
    out->oom_category = mt_label_category(refusal->label);
    out->oom_phase = label->phase;
}

/* Every step except the first has both workspaces, and the first has no higher peak, so the peak includes both. */
static void keep_peaks(const struct mt_alloc_stats *stats, struct mt_attention_result *out)
{
    const struct mt_alloc_count *workspaces = &stats->category[MT_CATEGORY_WORKSPACE];
    assert(workspaces->peak_requested_bytes <= stats->all.peak_requested_bytes);
    assert(workspaces->peak_allocated_bytes <= stats->all.peak_allocated_bytes);
    out->workspace_bytes = workspaces->peak_requested_bytes;
    out->peak_requested_bytes = stats->all.peak_requested_bytes - workspaces->peak_requested_bytes;
    out->peak_allocated_bytes = stats->all.peak_allocated_bytes - workspaces->peak_allocated_bytes;
}

static mt_status run(struct cell *cell, struct mt_attention_result *out)
{
    const struct mt_training_observer observer = {
        .context = cell, .step_done = on_step_done, .phase_time = on_phase_time};
    struct mt_alloc *alloc = mt_live_run_alloc(cell->run);
    struct mt_alloc_stats stats;
    out->run = mt_live_run_number(cell->run);
    mt_status status = mt_attention_study_run(cell->session->device, alloc, cell->study, &observer, &out->kept);
    mt_alloc_stats(alloc, &stats);
    out->is_done = status == MT_OK;
    if (status == MT_OUT_OF_MEMORY)
        keep_refusal(cell, &stats.last_refusal, out);
    if (!out->is_done)
        return status;
    keep_peaks(&stats, out);
    out->forward_ms = mt_median(cell->ms[MT_PHASE_FORWARD], cell->repeats[MT_PHASE_FORWARD]);
    out->backward_ms = mt_median(cell->ms[MT_PHASE_BACKWARD], cell->repeats[MT_PHASE_BACKWARD]);
    return MT_OK;
}

mt_status mt_attention_session_run(struct mt_attention_session *session, const struct mt_attention_case *study,
                                   struct mt_attention_result *out)
{
    struct cell cell = {.session = session, .study = study};
    assert(study->repeats > 0 && session->device != NULL);
    *out = (struct mt_attention_result){.forward_ms = NAN, .backward_ms = NAN};
    cell.ms[MT_PHASE_FORWARD] = mt_host_alloc((size_t)study->repeats * sizeof(double));
    cell.ms[MT_PHASE_BACKWARD] = mt_host_alloc((size_t)study->repeats * sizeof(double));
    mt_status status = open_run(&cell);
    MT_THEN(status, run(&cell, out));
    mt_status ended = mt_live_run_close(cell.run, mt_live_run_state(status));
    free(cell.ms[MT_PHASE_FORWARD]);
    free(cell.ms[MT_PHASE_BACKWARD]);
    return mt_status_keep(status == MT_OUT_OF_MEMORY ? MT_OK : status, ended);
}

mt_status mt_attention_session_close(struct mt_attention_session *session)
{
    mt_status status = mt_recorder_close(session->recorder, MT_RUN_FAILED); /* every run has ended */
    session->recorder = NULL;
    return status;
}

static bool is_mostly_square(const struct mt_attention_case *study)
{
    uint64_t square_bytes, bytes = mt_attention_account_bytes(study, &square_bytes);
    return square_bytes > bytes / 2;
}

/* The share of terms of size T² grows with T. */
int64_t mt_attention_square_from(const struct mt_attention_case *study)
{
    struct mt_attention_case tried = *study;
    int64_t not_yet = 0, from = 1;
    for (tried.seq = from; !is_mostly_square(&tried); tried.seq = from) {
        not_yet = from;
        from *= 2;
        if (from > MT_STUDY_LONGEST)
            return -1;
    }
    while (from - not_yet > 1) {
        tried.seq = not_yet + (from - not_yet) / 2;
        *(is_mostly_square(&tried) ? &from : &not_yet) = tried.seq;
        assert(not_yet < from);
    }
    return from;
}

/* Finds out whether a sequence with this many length steps fits. An invalid length does not fit. */
static mt_status try_steps(const struct mt_attention_case *study, const struct mt_alloc_settings *alloc,
                           const struct mt_card *card, uint64_t capacity_bytes, int64_t steps, bool *out_fits)
{
    struct mt_attention_session session = {.alloc = *alloc};
    struct mt_attention_case tried = *study;
    struct mt_attention_result result;
    tried.seq = steps * MT_STUDY_LENGTH_STEP;
    tried.repeats = 1;
    *out_fits = false;
    if (mt_attention_case_check(&tried) != MT_OK)
        return MT_OK;
    MT_TRY(mt_device_open_simulated(card, capacity_bytes, &session.device));
    mt_status status = mt_attention_session_run(&session, &tried, &result);
    *out_fits = result.is_done;
    mt_device_close(session.device);
    return status;
}

mt_status mt_attention_longest(const struct mt_attention_case *study, const struct mt_alloc_settings *alloc,
                               const struct mt_card *card, uint64_t capacity_bytes, int64_t *out)
{
    int64_t fitting = 0, too_long = MT_STUDY_LONGEST / MT_STUDY_LENGTH_STEP + 1;
    mt_status status = MT_OK;
    for (int64_t steps = 1; too_long - fitting > 1 && status == MT_OK;) {
        bool fits;
        status = try_steps(study, alloc, card, capacity_bytes, steps, &fits);
        *(fits ? &fitting : &too_long) = steps;
        bool is_bounded = too_long <= 2 * fitting || fitting < steps; /* before this, lengths double */
        steps = is_bounded ? fitting + (too_long - fitting) / 2 : 2 * steps;
    }
    assert(status != MT_OK || too_long == fitting + 1);
    *out = fitting * MT_STUDY_LENGTH_STEP;
    return status;
}
