/* memtrace run: a training run, traced. */
#include "cli/command.h"
#include "cli/run/interrupt.h"
#include "cli/run/run_options.h"
#include "cli/run/run_report.h"
#include "cli/run/told_session.h"
#include "model/token_source.h"

static const struct mt_option options[] = {
    MT_RUN_SETTINGS(mt_run_setting_option, 0),
    MT_OPTION(TEXT, struct mt_run_options, device, "--device", .value = "DEVICE", .takes = MT_TAKES_DEVICE,
              .help = "auto, cuda, cuda:1, sim, sim:a100-80gb, sim:24GiB, cpu, cpu:4GiB (auto)"),
    MT_OPTION(FLAG, struct mt_run_options, kernels, "--kernels",
              .help = "trace each kernel of a GPU, too: memtrace kernels asks about them"),
    MT_OPTION(TEXT, struct mt_run_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct mt_run_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_OPTION(FLAG, struct mt_run_options, no_trace, "--no-trace", .help = "write no trace"),
    MT_OPTION(FLAG, struct mt_run_options, no_grad_norms, "--no-grad-norms",
              .help = "with --json: read no gradients back, which takes seconds of a large model on a card"),
    MT_OPTION_JSON(struct mt_run_options),
    MT_OPTION_HELP(struct mt_run_options),
    MT_OPTIONS_END,
};

/* Ends the program as usual, and says first that nothing is lost. */
static void on_interrupt(int number)
{
    mt_interrupt_say("\nmemtrace: interrupted; what was traced by then can be asked for, as of any run\n");
    raise(number);
}

static mt_status run_traced(const struct mt_run_plan *plan, struct mt_run_result *result)
{
    struct sigaction before;
    mt_interrupt_catch(on_interrupt, &before);
    mt_status status = mt_told_session(plan, result);
    mt_interrupt_release(&before);
    return status;
}

/* Fails if the tokens that the steps read are not there, before the trace gets a run that could not begin. */
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
    mt_status status = mt_run_options_plan(run, &plan);
    if (status == MT_OK)
        status = check_data(&plan);
    if (status != MT_OK)
        return status;
    struct mt_run_result result;
    status = plan.trace != NULL ? run_traced(&plan, &result) : mt_told_session(&plan, &result);
    if (status == MT_OK)
        status = mt_run_report(&plan, &result, run->json ? MT_REPORT_JSON : MT_REPORT_TEXT);
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
        "On cuda and cpu it really trains. On sim the same model, allocator and events run, and only the arithmetic\n"
        "is absent, so its losses are. A file of sizes is JSON with vocab, d_model, d_ff, layers, heads and\n"
        "rope. Each run is added to the trace; Ctrl-C leaves it readable.\n"
        "\n"
        "Steps repeat: with --plan on their requests are known before the first, and so is a place for each block, so\n"
        "that hardly more is reserved than the peak. What differs from the plan is served as without one.\n",
    .examples = "  memtrace run --model 2.7B --seq 256 --mode fwd_bwd\n"
                "  memtrace run --model small --autocast bf16 --alloc policy=torch --name baseline\n"
                "  memtrace run --model 2.7B --autocast bf16 --impl fused --plan on\n"
                "  memtrace run --device sim:24GiB --model medium --seq 512 --json\n"
                "  memtrace run --device cpu --vocab 256 --d-model 64 --d-ff 128 --layers 2 --heads 4 --seq 32\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_run_options, .trace = MT_DEFAULT_TRACE),
    .answer = &mt_run_answer_type,
    .run = run_run,
};
