#include "producers/model/session.h"

#include "base/clock.h"
#include "base/interner.h"
#include "base/memory.h"
#include "producers/model/plan_settings.h"
#include "producers/model/simulation.h"
#include "run/live_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that is open during a run, in the order of opening. */
struct session {
    const struct mt_run_plan *plan;
    const struct mt_session_observer *observer;
    struct mt_run_result *result;
    struct mt_device *device;
    struct mt_live_run *live;
    struct mt_alloc *alloc;    /* of `live` */
    struct mt_plan *placement; /* NULL: none is followed */
    uint64_t last_step_ns;     /* when the last step ended, by the host's clock; 0: there was none */
};

/* Notifies the observer of something that does not end the run. */
static void note(const struct session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const struct session *session, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        mt_host_exhausted("a note");
    va_end(arguments);
    session->observer->note(session->observer->context, text);
    free(text);
}

static void measure(struct session *session, const char *name, int64_t step, double value)
{
    mt_live_run_measure(session->live, name, step, value);
}

/* Stores the bytes that a kind of holder has outside the allocator. */
static void tell_outside(struct session *session, mt_outside_kind kind, uint64_t bytes)
{
    mt_live_run_outside(session->live, &(struct mt_outside){.kind = kind, .name = "", .bytes = bytes});
}

/* Stores the process's estimated memory outside the allocator on a simulated card. */
static void estimate_outside(struct session *session)
{
    struct mt_outside outside;
    if (mt_device_is_simulated(session->device->name) &&
        mt_card_outside(&session->device->card, MT_PART_PROCESS, 1, &outside))
        mt_live_run_outside(session->live, &outside);
}

/* Stores the bytes of this process according to the driver, and the allocator's bytes at the same moment.
 * Without a driver, stores nothing. */
static void measure_memory(struct session *session, int64_t step)
{
    struct mt_device_memory memory;
    struct mt_alloc_stats stats;
    if (!mt_live_run_is_traced(session->live) || mt_device_memory(session->device, &memory) != MT_OK)
        return;
    mt_alloc_stats(session->alloc, &stats);
    const struct {
        const char *name;
        uint64_t bytes;
    } readings[] = {{"memory:driver_used", memory.used_bytes},
                    {"memory:free", memory.free_bytes},
                    {"memory:total", memory.total_bytes},
                    {"memory:requested", stats.all.requested_bytes},
                    {"memory:allocated", stats.all.allocated_bytes},
                    {"memory:reserved", stats.reserved_bytes}};
    for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++)
        measure(session, readings[i].name, step, (double)readings[i].bytes);
    tell_outside(session, MT_OUTSIDE_CONTEXT, memory.context_bytes);
    tell_outside(session, MT_OUTSIDE_LIBRARY, memory.library_bytes);
}

static void on_phase_time(void *context, int64_t step, mt_phase phase, double ms)
{
    char name[MT_BYTES_TEXT];
    snprintf(name, sizeof name, "phase_ms:%s", mt_phase_name(phase));
    measure(context, name, step, ms);
}

/* Returns the host's time since the last step ended; NAN after the first step. */
static double take_wall_ms(struct session *session)
{
    uint64_t last_ns = session->last_step_ns;
    session->last_step_ns = mt_clock_ns();
    return last_ns != 0 ? (double)(session->last_step_ns - last_ns) * 1e-6 : NAN;
}

static void append(double **numbers, int64_t count, double number)
{
    *numbers = mt_host_resize(*numbers, (size_t)count + 1, sizeof **numbers);
    (*numbers)[count] = number;
}

static void on_step_done(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    struct session *session = context;
    struct mt_run_result *result = session->result;
    append(&result->losses, result->step_count, loss);
    append(&result->step_ms, result->step_count, step_ms);
    append(&result->wall_ms, result->step_count, take_wall_ms(session));
    result->step_count++;
    if (!isnan(loss))
        measure(session, "loss", step, loss);
    measure(session, "step_ms", step, step_ms);
    if (result->executes && !isnan(result->wall_ms[step]))
        measure(session, "wall_ms", step, result->wall_ms[step]);
    if (step + 1 == total)
        measure_memory(session, step);
    session->observer->step_done(session->observer->context, step, total, loss);
}

static void on_grad_norm(void *context, const char *parameter, double norm)
{
    struct session *session = context;
    struct mt_run_result *result = session->result;
    result->grad_norms = mt_host_room(result->grad_norms, result->grad_norm_count, sizeof *result->grad_norms);
    result->grad_norms[result->grad_norm_count++] = (struct mt_grad_norm){mt_host_strdup(parameter), norm};
    struct mt_text name = {0};
    mt_text_add(&name, "grad_norm:%s", parameter);
    measure(session, name.data, 0, norm);
    mt_text_release(&name);
}

mt_status mt_run_device_open(const char *spelling, const struct mt_session_observer *observer, struct mt_device **out)
{
    if (strcmp(spelling, MT_DEVICE_AUTO) != 0)
        return mt_model_device_open(spelling, out);
    mt_status status = mt_model_device_open("cuda", out);
    if (status != MT_NO_DEVICE)
        return status;
    status = mt_model_device_open("sim", out);
    if (status == MT_OK)
        note(&(struct session){.observer = observer},
             "there is no usable GPU: this is %s, where memory is planned and nothing is executed", (*out)->name);
    return status;
}

/* Watches kernels, if wanted. If they can't be watched, the run goes on with a note. */
static void watch_kernels(struct session *session)
{
    if (session->plan->watches_kernels && mt_device_watch_kernels(session->device) != MT_OK)
        note(session, "%s; the run goes on without records of kernels", mt_last_error());
}

static mt_status open_device(struct session *session)
{
    MT_TRY(mt_run_device_open(session->plan->device, session->observer, &session->device));
    session->result->executes = mt_device_executes(session->device);
    snprintf(session->result->device, sizeof session->result->device, "%s", session->device->name);
    watch_kernels(session);
    return MT_OK;
}

/* Notifies the observer of bf16 on a card without units for it. The run is traced anyway, since its memory is the
 * same. */
static void note_emulation(const struct session *session)
{
    const struct mt_training_config *config = &session->plan->config;
    const bool uses_bf16 = config->autocast == MT_AUTOCAST_BF16 || config->parameter_dtype == MT_BF16;
    if (uses_bf16 && session->device->card.bf16_matrix_rate == 0)
        note(session, "%s has no units for bf16: autocast works there, as PyTorch's does, but is emulated and slow",
             session->device->name);
}

static mt_status open_run(struct session *session)
{
    const struct mt_run_plan *plan = session->plan;
    struct mt_plan_settings settings = mt_plan_settings_make(plan, session->device);
    const struct mt_live_settings live = {.trace = plan->trace,
                                          .info = {.name = plan->name,
                                                   .wait_seconds = plan->wait_seconds,
                                                   .settings = settings.rows,
                                                   .setting_count = settings.count},
                                          .device = session->device,
                                          .alloc = &plan->alloc};
    mt_status status = mt_live_run_open(&live, &session->live);
    mt_plan_settings_release(&settings);
    session->result->is_untraceable = status != MT_OK;
    if (status != MT_OK)
        return status;
    session->alloc = mt_live_run_alloc(session->live);
    session->result->run = mt_live_run_number(session->live);
    return MT_OK;
}

/* Stores the number of lost records, so that the trace shows it is incomplete. */
static void report_lost_kernels(struct session *session)
{
    uint64_t lost = mt_device_lost_kernels(session->device);
    if (!mt_device_watches_kernels(session->device))
        return;
    measure(session, MT_LOST_KERNELS, -1, (double)lost);
    if (lost > 0)
        note(session, "CUPTI lost %" PRIu64 " records of kernels", lost);
}

/* Stores how much of the plan was followed. */
static void report_plan(struct session *session)
{
    const struct mt_run_result *result = session->result;
    if (session->placement == NULL)
        return;
    measure(session, "plan:bytes", MT_NO_STEP, (double)result->plan_bytes);
    measure(session, "plan:peak_bytes", MT_NO_STEP, (double)result->plan_peak_bytes);
    measure(session, "plan:planned_requests", MT_NO_STEP, (double)result->stats.planned_requests);
    measure(session, "plan:unplanned_requests", MT_NO_STEP, (double)result->stats.unplanned_requests);
}

/* Returns the reason why the training failed. The caller frees it. */
static char *describe_failure(const struct session *session)
{
    const struct mt_run_result *result = session->result;
    struct mt_text text = {0};
    mt_text_add(&text, "%s", mt_last_error());
    if (result->status == MT_OUT_OF_MEMORY)
        session->observer->describe_refusal(session->observer->context, &result->stats.last_refusal,
                                            mt_live_run_interner(session->live), &text);
    return text.data;
}

/* Trains. After a failure, keeps the results until then and the error's text, since other functions may fail before it
 * is printed. */
static void train(struct session *session)
{
    struct mt_training_observer observer = {.context = session,
                                            .step_done = on_step_done,
                                            .phase_time = on_phase_time,
                                            .grad_norm = session->plan->wants_grad_norms ? on_grad_norm : NULL};
    struct mt_run_result *result = session->result;
    measure_memory(session, -1);
    estimate_outside(session);
    result->status = mt_training_run(session->device, session->alloc, &session->plan->config, &observer);
    mt_alloc_stats(session->alloc, &result->stats);
    if (result->status != MT_OK)
        result->error = describe_failure(session);
    report_lost_kernels(session);
    report_plan(session);
}

/* Follows a plan, if one is wanted and can be made. */
static void follow_plan(struct session *session)
{
    if (!session->plan->follows_plan)
        return;
    if (mt_placement_follow(session->plan, &session->device->card, session->alloc, &session->placement) != MT_OK) {
        note(session, "%s; the run goes on without a plan", mt_last_error());
        return;
    }
    session->result->plan_bytes = mt_plan_bytes(session->placement);
    session->result->plan_peak_bytes = mt_plan_peak_bytes(session->placement);
}

mt_status mt_run_session(const struct mt_run_plan *plan, const struct mt_session_observer *observer,
                         struct mt_run_result *out)
{
    *out = (struct mt_run_result){0};
    struct session session = {.plan = plan, .observer = observer, .result = out};
    mt_status status = open_device(&session);
    MT_THEN(status, open_run(&session));
    if (status == MT_OK) {
        note_emulation(&session);
        follow_plan(&session);
        train(&session);
    } else {
        out->status = status;
    }
    mt_status closed = mt_live_run_close(session.live, mt_live_run_state(out->status));
    mt_plan_destroy(session.placement);
    if (session.device != NULL)
        mt_device_close(session.device);
    return mt_status_keep(status, closed);
}

void mt_run_result_release(struct mt_run_result *result)
{
    free(result->losses);
    free(result->step_ms);
    free(result->wall_ms);
    free(result->error);
    for (size_t i = 0; i < result->grad_norm_count; i++)
        free(result->grad_norms[i].parameter);
    free(result->grad_norms);
}
