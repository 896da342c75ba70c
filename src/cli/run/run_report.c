#include "cli/run/run_report.h"

#include "cli/output/output.h"
#include "cli/output/peak_report.h"
#include "model/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Peaks, and how many events there were; of a run that was not traced, from the allocator's counters. */
struct findings {
    struct mt_question question; /* zero: not traced */
    struct mt_run_peaks peaks;
};

static mt_status findings_load(const struct mt_run_plan *plan, const struct mt_run_result *result, struct findings *out)
{
    *out = (struct findings){.peaks = mt_run_peaks_of_stats(&result->stats)};
    if (plan->trace == NULL)
        return MT_OK;
    mt_status status = mt_trace_open(plan->trace, &out->question.trace);
    char number[MT_BYTES_TEXT];
    snprintf(number, sizeof number, "%" PRId64, result->run);
    if (status == MT_OK)
        status = mt_trace_find_run(out->question.trace, number, &out->question.run);
    if (status == MT_OK)
        status = mt_run_peaks_load(&out->question, &out->peaks);
    return status;
}

static void findings_release(struct findings *findings)
{
    mt_run_peaks_release(&findings->peaks);
    mt_question_close(&findings->question);
}

static json_t *grad_norms_json(const struct mt_run_result *result)
{
    json_t *norms = json_object();
    for (size_t i = 0; i < result->grad_norm_count; i++)
        json_object_set_new(norms, result->grad_norms[i].parameter, mt_json_number(result->grad_norms[i].norm));
    return norms;
}

static json_t *numbers_json(const double *numbers, int64_t begin, int64_t end)
{
    json_t *list = json_array();
    for (int64_t i = begin; i < end; i++)
        json_array_append_new(list, mt_json_number(numbers[i]));
    return list;
}

/* The wall clock's, which tells nothing where nothing is executed. */
static json_t *wall_ms_json(const struct mt_run_plan *plan, const struct mt_run_result *result)
{
    if (!result->executes)
        return json_array();
    return numbers_json(result->wall_ms, plan->config.warmup, result->step_count);
}

static json_t *plan_json(const struct mt_run_result *result)
{
    const struct mt_alloc_stats *stats = &result->stats;
    if (result->plan_bytes == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:I}", "bytes", (json_int_t)result->plan_bytes, "peak_bytes",
                     (json_int_t)result->plan_peak_bytes, "planned_requests", (json_int_t)stats->planned_requests,
                     "unplanned_requests", (json_int_t)stats->unplanned_requests);
}

static const char *outcome(const struct mt_run_result *result)
{
    if (result->status == MT_OK)
        return mt_run_state_name(MT_RUN_DONE);
    return mt_run_state_name(result->status == MT_OUT_OF_MEMORY ? MT_RUN_OOM : MT_RUN_FAILED);
}

static void print_json(const struct mt_run_plan *plan, const struct mt_run_result *result,
                       const struct findings *findings)
{
    const struct mt_run *run = findings->question.run;
    json_t *peak = json_object();
    mt_run_peaks_add_json(&findings->peaks, peak);
    json_t *answer = json_pack(
        "{s:s, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "memtrace.run/1", "run",
        run != NULL ? json_integer(run->id) : json_null(), "name", mt_json_text(plan->name), "trace",
        mt_json_text(plan->trace), "state", outcome(result), "device", result->device, "losses",
        numbers_json(result->losses, 0, result->step_count), "grad_norms", grad_norms_json(result), "step_ms",
        numbers_json(result->step_ms, plan->config.warmup, result->step_count), "wall_ms", wall_ms_json(plan, result),
        "events", run != NULL ? json_integer(run->event_count) : json_null(), "peak", peak);
    json_object_set_new(answer, "plan", plan_json(result));
    mt_json_print(answer);
}

static void print_title(const struct mt_run_plan *plan, const struct mt_run_result *result)
{
    const struct mt_training_config *config = &plan->config;
    const struct mt_model_config *model = &config->model;
    if (result->run != 0)
        printf("run %" PRId64 ": ", result->run);
    printf("%s (", model->name);
    mt_print_parameter_count(mt_model_parameter_count(model));
    printf("), %s, batch %" PRId64 ", sequence %" PRId64 ", %s, %s, on %s\n",
           mt_implementation_names[config->implementation], config->batch, config->seq, mt_mode_names[config->mode],
           config->autocast ? "bf16 autocast" : mt_matmul_names[config->math], result->device);
}

static void print_losses(const struct mt_run_result *result)
{
    fputs("losses        ", stdout);
    bool any = false;
    for (int64_t i = 0; i < result->step_count; i++) {
        if (isnan(result->losses[i]))
            continue;
        printf(any ? ", %.4f" : "%.4f", result->losses[i]);
        any = true;
    }
    puts(any ? "" : "not computed");
}

/* The mean of the steps from `begin` on that have a time; NAN if there is none. */
static double mean_of(const double *ms, int64_t begin, int64_t end)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = begin; i < end; i++) {
        if (isnan(ms[i]))
            continue;
        sum += ms[i];
        count++;
    }
    return count > 0 ? sum / (double)count : NAN;
}

/* What the plan took, and how far it was followed. */
static void print_plan(const struct mt_run_result *result)
{
    const struct mt_alloc_stats *stats = &result->stats;
    char bytes[MT_BYTES_TEXT];
    if (result->plan_bytes == 0)
        return;
    printf("plan          %s, %.4f of the peak that it allows for; %" PRIu64 " of %" PRIu64
           " requests got their place\n",
           mt_format_bytes(result->plan_bytes, bytes), (double)result->plan_bytes / (double)result->plan_peak_bytes,
           stats->planned_requests, stats->planned_requests + stats->unplanned_requests);
}

static void print_step_time(const struct mt_run_plan *plan, const struct mt_run_result *result)
{
    int64_t warmup = plan->config.warmup;
    double device_ms = mean_of(result->step_ms, warmup, result->step_count);
    double wall_ms = mean_of(result->wall_ms, warmup, result->step_count);
    printf("steps         %" PRId64, result->step_count);
    if (warmup > 0)
        printf(", the first %" PRId64 " to warm up", warmup);
    if (!isnan(device_ms))
        printf(", %.2f ms each by the device's clock", device_ms);
    if (result->executes && !isnan(wall_ms))
        printf(", %.2f ms by the wall clock", wall_ms);
    putchar('\n');
}

/* A command to ask next, and what it tells; commands that follow each other are aligned. */
static void print_hint(const char *command, const char *trace_option, const char *tells)
{
    printf("  memtrace %s%s%*s  # %s\n", command, trace_option, 18 - (int)strlen(command), "", tells);
}

static void print_next(const struct mt_run_plan *plan, const struct mt_run *run)
{
    struct mt_text option = {0};
    if (strcmp(plan->trace, MT_DEFAULT_TRACE) != 0) {
        mt_text_add(&option, " --trace ");
        mt_text_add_shell_word(&option, plan->trace);
    }
    const char *trace_option = mt_text_get(&option);
    printf("\n%" PRId64 " events are in %s, as run %" PRId64 ". Ask next:\n", run->event_count, plan->trace, run->id);
    print_hint("top 10 --at peak", trace_option, "the largest blocks at the peak");
    print_hint("categories", trace_option, "what kinds of tensors there are");
    print_hint(run->steps > 0 ? "events --step 0" : "events", trace_option, "every allocation and free, in order");
    mt_text_release(&option);
}

static void print_text(const struct mt_run_plan *plan, const struct mt_run_result *result,
                       const struct findings *findings)
{
    print_title(plan, result);
    print_step_time(plan, result);
    print_losses(result);
    print_plan(result);
    putchar('\n');
    mt_run_peaks_print(&findings->peaks);
    if (findings->question.run != NULL)
        print_next(plan, findings->question.run);
    else
        puts("\nThe run was not traced: when the peaks were and what they were made of is not known.");
}

mt_status mt_run_report(const struct mt_run_plan *plan, const struct mt_run_result *result, mt_report_form form)
{
    struct findings findings;
    mt_status status = findings_load(plan, result, &findings);
    if (status == MT_OK)
        (form == MT_REPORT_JSON ? print_json : print_text)(plan, result, &findings);
    findings_release(&findings);
    return status;
}
