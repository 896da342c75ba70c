/* memtrace run: runs the built-in model and traces it. */
#include "cli/output/output.h"
#include "cli/output/peak_report.h"
#include "cli/run/run_options.h"
#include "cli/run/told_session.h"
#include "producers/model/token_source.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct mt_option options[] = {
    MT_RUN_SETTINGS(mt_run_setting_option, 0),
    MT_OPTION(
        TEXT, struct mt_run_options, device, "--device", .value = "DEVICE", .takes = MT_TAKES_DEVICE,
        .help = "auto, cuda, cuda:1, sim, sim:a100-80gb, sim:l4:8GiB, sim:24GiB, sim:FILE.json, cpu, cpu:4GiB (auto)"),
    MT_OPTION(FLAG, struct mt_run_options, kernels, "--kernels",
              .help = "trace each kernel, too, on sim its estimate: memtrace kernels lists them"),
    MT_OPTION(TEXT, struct mt_run_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct mt_run_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_OPTION_WAIT(struct mt_run_options),
    MT_OPTION(FLAG, struct mt_run_options, no_trace, "--no-trace", .help = "write no trace"),
    MT_METRICS_OPTIONS(struct mt_run_options),
    MT_OPTION(FLAG, struct mt_run_options, no_grad_norms, "--no-grad-norms",
              .help = "with --json: do not read gradients back, which takes seconds for a large model on a card"),
    MT_OPTION_JSON(struct mt_run_options),
    MT_OPTION_HELP(struct mt_run_options),
    MT_OPTIONS_END,
};

/* The peaks and the traced run. Without a trace, the peaks are from the allocator's counters. */
struct findings {
    struct mt_question question; /* zero: not traced */
    struct mt_run_peaks peaks;
};

static mt_status findings_load(const struct mt_run_plan *plan, const struct mt_run_result *result, struct findings *out)
{
    *out = (struct findings){.peaks = mt_run_peaks_of_stats(&result->stats)};
    if (plan->trace == NULL)
        return MT_OK;
    MT_TRY(mt_trace_open(plan->trace, &out->question.trace));
    MT_TRY(mt_trace_find_numbered(out->question.trace, result->run, &out->question.run));
    return mt_run_peaks_load(&out->question, MT_GROUP_ROLE, &out->peaks);
}

static void findings_release(struct findings *findings)
{
    mt_run_peaks_release(&findings->peaks);
    mt_question_close(&findings->question);
}

/* The answer in JSON. */
struct run_answer {
    int64_t run, events; /* run 0, events below 0: not traced */
    const char *name, *trace, *state, *device;
    uint64_t parameters;
    json_t *losses, *grad_norms, *step_ms, *wall_ms;
    bool time_is_estimated;
    struct mt_run_peaks_answer peaks;
    const struct mt_run_result *plan; /* NULL: no plan was followed */
};

static const struct mt_field plan_fields[] = {
    MT_COUNT(struct mt_run_result, plan_bytes, "bytes", NULL, "of the plan's places"),
    MT_COUNT(struct mt_run_result, plan_peak_bytes, "peak_bytes", NULL, "the least that any plan needs"),
    MT_COUNT(struct mt_run_result, stats.planned_requests, "planned_requests", NULL,
             "that got the place planned for them"),
    MT_COUNT(struct mt_run_result, stats.unplanned_requests, "unplanned_requests", NULL, "that got another"),
    MT_FIELDS_END,
};
static const struct mt_row_type plan_type = MT_ROW_TYPE(struct mt_run_result, plan_fields);

#define ROW struct run_answer
static const struct mt_field answer_fields[] = {
    MT_POSITIVE(ROW, run, "run", NULL, NULL),
    MT_TEXT(ROW, name, "name", NULL, NULL),
    MT_TEXT(ROW, trace, "trace", NULL, NULL),
    MT_TEXT(ROW, state, "state", NULL, NULL),
    MT_TEXT(ROW, device, "device", NULL, NULL),
    MT_COUNT(ROW, parameters, "parameters", NULL, "numbers in the model's weights"),
    MT_VALUE(ROW, losses, "losses", NULL, "a number a step, warm-up included; null where none was computed"),
    MT_VALUE(ROW, grad_norms, "grad_norms", NULL,
             "by parameter, the Euclidean norm of its gradient in the first step; `--no-grad-norms` leaves them out"),
    MT_VALUE(ROW, step_ms, "step_ms", NULL, "a number for each step after the warm-up, by the device's clock"),
    MT_FLAG(ROW, time_is_estimated, "time_is_estimated", NULL, "on sim: step_ms follows from the card's figures"),
    MT_VALUE(ROW, wall_ms, "wall_ms", NULL, "the same by the wall clock; empty where nothing is computed"),
    MT_KNOWN(ROW, events, "events", NULL, "that the trace has of this run"),
    MT_ROW(ROW, peaks, "peak", &mt_run_peaks_types[MT_GROUP_ROLE],
           "all but the first three are null with `--no-trace`"),
    MT_ROW_OR_NULL(ROW, plan, "plan", &plan_type, "of `--plan on`"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct run_answer, answer_fields);

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

static mt_run_state state_of(const struct mt_run_result *result)
{
    if (result->status == MT_OK)
        return MT_RUN_DONE;
    return result->status == MT_OUT_OF_MEMORY ? MT_RUN_OOM : MT_RUN_FAILED;
}

static void print_json(const struct mt_run_plan *plan, const struct mt_run_result *result,
                       const struct findings *findings)
{
    const struct mt_run *run = findings->question.run;
    const int64_t warmup = plan->config.warmup, steps = result->step_count;
    assert((run == NULL) == (result->run == 0) && warmup >= 0);
    struct run_answer answer = {.run = result->run,
                                .events = run != NULL ? run->event_count : -1,
                                .name = plan->name,
                                .trace = plan->trace,
                                .state = mt_run_state_name(state_of(result)),
                                .device = result->device,
                                .parameters = mt_model_parameter_count(&plan->config.model),
                                .losses = numbers_json(result->losses, 0, steps),
                                .grad_norms = grad_norms_json(result),
                                .step_ms = numbers_json(result->step_ms, warmup, steps),
                                .time_is_estimated = mt_device_is_simulated(result->device),
                                .wall_ms = numbers_json(result->wall_ms, warmup, result->executes ? steps : 0),
                                .peaks = mt_run_peaks_answer_of(&findings->peaks),
                                .plan = result->plan_bytes > 0 ? result : NULL};
    mt_answer_print_json("run", &answer_type, &answer);
    json_decref(answer.losses);
    json_decref(answer.grad_norms);
    json_decref(answer.step_ms);
    json_decref(answer.wall_ms);
}

static void print_title(const struct mt_run_plan *plan, const struct mt_run_result *result)
{
    const struct mt_training_config *config = &plan->config;
    struct mt_text line = {0};
    if (result->run != 0)
        mt_text_add(&line, "run %" PRId64 ": ", result->run);
    mt_text_add(&line, "%s (", config->model.name);
    mt_text_add_parameter_count(&line, mt_model_parameter_count(&config->model));
    mt_text_add(&line, "), %s, batch %" PRId64 ", sequence %" PRId64 ", %s, %s, on %s",
                mt_implementation_names[config->implementation], config->batch, config->seq,
                mt_mode_names[config->mode], mt_precision_words(config), result->device);
    mt_print_line(&line);
}

/* The column of values after their names. */
enum { VALUE_COLUMN = 14 };

/* Prints the name, and the words wrapped in the column of values; releases them. */
static void print_value(const char *name, struct mt_text *words)
{
    printf("%-*s", VALUE_COLUMN, name);
    mt_print_wrapped(mt_text_get(words), VALUE_COLUMN);
    mt_text_release(words);
}

static void print_losses(const struct mt_run_result *result)
{
    struct mt_text losses = {0};
    for (int64_t i = 0; i < result->step_count; i++)
        if (!isnan(result->losses[i]))
            mt_text_add(&losses, "%s%.4f", losses.length > 0 ? ", " : "", result->losses[i]);
    if (losses.length == 0)
        mt_text_add(&losses, "not computed");
    print_value("losses", &losses);
}

/* Returns the mean time of the steps in [begin, end) that have a time; NAN if there is none. */
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

/* Prints the size of the plan, and how many requests followed it. */
static void print_plan(const struct mt_run_result *result)
{
    const struct mt_alloc_stats *stats = &result->stats;
    if (result->plan_bytes == 0)
        return;
    struct mt_text words = {0};
    mt_text_add(&words, "%s, %.4f of the peak that it allows for; %" PRIu64 " of %" PRIu64 " requests got their place",
                MT_SIZE(result->plan_bytes), (double)result->plan_bytes / (double)result->plan_peak_bytes,
                stats->planned_requests, stats->planned_requests + stats->unplanned_requests);
    print_value("plan", &words);
}

static void print_step_time(const struct mt_run_plan *plan, const struct mt_run_result *result)
{
    int64_t warmup = plan->config.warmup;
    double device_ms = mean_of(result->step_ms, warmup, result->step_count);
    double wall_ms = mean_of(result->wall_ms, warmup, result->step_count);
    struct mt_text words = {0};
    mt_text_add(&words, "%" PRId64, result->step_count);
    if (warmup > 0)
        mt_text_add(&words, ", the first %" PRId64 " to warm up", warmup);
    if (!isnan(device_ms) && mt_device_is_simulated(result->device))
        mt_text_add(&words, ", est. %.2f ms each", device_ms);
    else if (!isnan(device_ms))
        mt_text_add(&words, ", %.2f ms each by the device's clock", device_ms);
    if (result->executes && !isnan(wall_ms))
        mt_text_add(&words, ", %.2f ms by the wall clock", wall_ms);
    print_value("steps", &words);
}

/* Prints a command to run next and a remark, aligned with other hints. */
static void print_hint(const char *command, const char *trace_option, const char *tells)
{
    printf("  memtrace %s%s%*s  # %s\n", command, trace_option, 18 - (int)strlen(command), "", tells);
}

static void print_next(const struct mt_run_plan *plan, const struct mt_run *run)
{
    struct mt_text option = {0};
    mt_text_add_trace_option(&option, plan->trace);
    const char *trace_option = mt_text_get(&option);
    mt_say("\n%" PRId64 " events are in %s, as run %" PRId64 ". Ask next:", run->event_count, plan->trace, run->id);
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
    mt_run_peaks_print(&findings->peaks, &(struct mt_peaks_form){.most_rows = MT_PEAK_ROWS});
    if (findings->question.run != NULL)
        print_next(plan, findings->question.run);
    else
        mt_say("\nThe run was not traced: when the peaks were and what they were made of is not known.");
}

static mt_status report(const struct mt_run_plan *plan, const struct mt_run_result *result, mt_report_form form)
{
    struct findings findings;
    mt_status status = findings_load(plan, result, &findings);
    if (status == MT_OK)
        (form == MT_REPORT_JSON ? print_json : print_text)(plan, result, &findings);
    findings_release(&findings);
    return status;
}

/* Prints that nothing is lost, and ends the program in the usual way. */
static void on_interrupt(int number)
{
    mt_interrupt_say("\nmemtrace: interrupted; the trace has everything until now\n");
    raise(number);
}

static mt_status run_traced(const struct mt_run_plan *plan, const struct mt_metrics_options *places,
                            struct mt_run_result *result)
{
    struct sigaction before;
    struct mt_metrics *metrics;
    *result = (struct mt_run_result){0};
    MT_TRY(mt_metrics_begin(places, plan->trace, MT_METRICS_ONE, &metrics));
    mt_interrupt_catch(on_interrupt, &before);
    mt_status status = mt_told_session(plan, result);
    mt_interrupt_release(&before);
    const struct mt_error error = mt_error_save(status);
    mt_metrics_end(metrics);
    return mt_error_restore(&error, MT_OK);
}

/* Fails if the tokens to read do not exist, before a run is added to the trace. */
static mt_status check_data(const struct mt_run_plan *plan)
{
    struct mt_token_source *tokens = NULL;
    mt_status status = mt_token_source_open(&plan->config, &tokens);
    mt_token_source_close(tokens);
    return status;
}

static mt_status run_run(const void *given)
{
    const struct mt_run_options *run = given;
    struct mt_run_plan plan;
    MT_TRY(mt_run_options_plan(run, &plan));
    if (plan.trace == NULL && (run->metrics.file != NULL || run->metrics.port != 0))
        return mt_fail(MT_USAGE, "metrics are read from the trace: leave out --no-trace");
    MT_TRY(check_data(&plan));
    struct mt_run_result result;
    mt_status status = plan.trace != NULL ? run_traced(&plan, &run->metrics, &result) : mt_told_session(&plan, &result);
    MT_THEN(status, report(&plan, &result, run->json ? MT_REPORT_JSON : MT_REPORT_TEXT));
    if (result.error != NULL)
        status = mt_fail(result.status, "%s", result.error);
    mt_run_result_release(&result);
    return status;
}

const struct mt_command mt_command_run = {
    .name = "run",
    .summary = "Runs training steps of a transformer and traces where every byte of device memory goes.",
    .usage = "[OPTIONS]",
    .details =
        "On cuda and cpu it really trains. On sim, the same model, allocator and events run without arithmetic, so\n"
        "there are no losses. Each run is added to the trace; after Ctrl-C the trace is readable.\n"
        "\n"
        "The models are the ones of Stanford's course CS336, with the same names. 2.7B has the layers and the width\n"
        "of GPT-3 2.7B, but 3.41 billion parameters: SwiGLU has three feed-forward matrices instead of two, and the\n"
        "head does not share the embedding's weights. A model of your own is a file with all sizes, optionally with\n"
        "\"rope\": true:\n"
        "\n"
        "  {\"vocab\": 10000, \"d_model\": 768, \"d_ff\": 3072, \"layers\": 12, \"heads\": 12}\n"
        "\n"
        "Steps repeat, so with --plan on all requests are known before the first step, and each block gets a\n"
        "planned place. Hardly more is reserved than the peak. Requests that differ from the plan are served as\n"
        "without one.\n",
    .examples = "  memtrace run --model 2.7B --seq 256 --mode fwd_bwd\n"
                "  memtrace run --model small --autocast bf16 --alloc policy=torch --name baseline\n"
                "  memtrace run --model 2.7B --autocast bf16 --impl fused --plan on\n"
                "  memtrace run --device sim:24GiB --model medium --seq 512 --json\n"
                "  memtrace run --device cpu --vocab 256 --d-model 64 --d-ff 128 --layers 2 --heads 4 --seq 32\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_run_options, .trace = MT_DEFAULT_TRACE, .wait = MT_USUAL_WAIT),
    .answer = &answer_type,
    .run = run_run,
};
