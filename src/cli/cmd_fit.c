/* memtrace fit: does a run fit a device, and what would make it? */
#include "command.h"
#include "fit_report.h"
#include "question.h"
#include "run_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct fit_options {
    struct mt_run_options run; /* what to ask about, if any of it is given, and the device, the trace and --json */
    const char *which;         /* of the trace's runs */
};

#define ONE(...) MT_RUN_OPTION(offsetof(struct fit_options, run), __VA_ARGS__)
#define AXIS(axis, ...) ONE(__VA_ARGS__)
static const struct mt_option options[] = {
    {.name = "--device",
     .value = "DEVICE",
     .help = "sim:rtx4090, sim:24GiB or another simulated device (one as large as the run's)",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct fit_options, run.device)},
    {.name = "--run",
     .value = "N|NAME",
     .help = "the run of the trace to ask about (the newest unless given)",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct fit_options, which),
     .takes = MT_TAKES_RUN},
    {.name = "--trace",
     .value = "FILE",
     .help = "the trace (" MT_DEFAULT_TRACE " unless given)",
     .kind = MT_OPTION_TEXT,
     .offset = offsetof(struct fit_options, run.trace),
     .takes = MT_TAKES_FILE},
    {.name = "--json", .help = "print JSON", .kind = MT_OPTION_FLAG, .offset = offsetof(struct fit_options, run.json)},
    {.name = "--help",
     .help = "print this and exit",
     .kind = MT_OPTION_FLAG,
     .offset = offsetof(struct fit_options, run.help)},
    MT_RUN_OPTIONS(AXIS, ONE),
    MT_OPTIONS_END,
};
#undef AXIS
#undef ONE

/* What is asked about: the plan's texts may be the trace's, or `device`. */
struct asked {
    struct mt_question question; /* zero: the plan is of options */
    struct mt_run_plan plan;
    char device[MT_BYTES_TEXT];
};

static mt_status plan_options(const struct mt_run_options *run, struct asked *asked)
{
    mt_status status = mt_run_options_plan(run, &asked->plan);
    if (run->device == NULL)
        asked->plan.device = "sim";
    return status;
}

/* A card or the host is asked about as a simulated one of its size. */
static mt_status plan_traced(const struct fit_options *fit, struct asked *asked)
{
    const struct mt_trace_options trace = {.trace = fit->run.trace, .run = fit->which};
    struct mt_question question;
    mt_status status = mt_question_open(&trace, &question);
    if (status != MT_OK)
        return status;
    asked->question = question;
    const struct mt_run *run = asked->question.run;
    status = mt_run_plan_of_run(asked->question.trace, run, &asked->plan);
    if (status == MT_USAGE)
        return mt_fail(status, "%s; describe it by options of memtrace run, such as --model small", mt_last_error());
    if (status != MT_OK)
        return status;
    if (strncmp(run->device, "sim", 3) != 0) {
        snprintf(asked->device, sizeof asked->device, "sim:%" PRIu64, run->capacity_bytes);
        asked->plan.device = asked->device;
    }
    if (fit->run.device != NULL)
        asked->plan.device = fit->run.device;
    return MT_OK;
}

static mt_status plan_asked(const struct fit_options *fit, struct asked *asked)
{
    if (!mt_run_options_given(&fit->run))
        return plan_traced(fit, asked);
    if (fit->which != NULL)
        return mt_fail(MT_USAGE, "--run %s asks about a run as it was; leave the options out that describe another one",
                       fit->which);
    return plan_options(&fit->run, asked);
}

static mt_status answer(const struct fit_options *fit, const struct asked *asked)
{
    const struct mt_fit_question question = {&asked->plan, asked->question.run};
    struct mt_fit_answer found;
    mt_status status = mt_fit_find(&asked->plan, &found);
    if (status != MT_OK)
        return status;
    (fit->run.json ? mt_fit_print_json : mt_fit_print_text)(&question, &found);
    if (found.fit.fits)
        return MT_OK;
    char short_of[MT_BYTES_TEXT];
    return mt_fail(MT_FAILED, "the run does not fit %s: it is %s short", asked->plan.device,
                   mt_format_bytes(found.fit.needs_bytes - found.fit.capacity_bytes, short_of));
}

static mt_status run_fit(const void *given)
{
    const struct fit_options *fit = given;
    struct asked asked = {0};
    mt_status status = plan_asked(fit, &asked);
    if (status == MT_OK)
        status = answer(fit, &asked);
    mt_question_close(&asked.question);
    return status;
}

const struct mt_command mt_command_fit = {
    .name = "fit",
    .summary = "Tells whether a run fits a device, what would make it fit, and how large it may be.",
    .usage = "[OPTIONS]",
    .details =
        "It asks about a run of the trace, or about the one that options of memtrace run describe if there are any.\n"
        "Every answer is simulated, which needs no GPU: the run itself, each change that lowers its memory, from the\n"
        "one that costs training least to the dearest, and the largest batch and sequence. What the allocator\n"
        "reserves is compared with all of the device's memory; CUDA's context and libraries are not counted.\n\n"
        "The exit code is 0 if the run fits and 1 if it does not.\n",
    .examples = "  memtrace fit --device sim:a100-80gb\n"
                "  memtrace fit --device sim:rtx4090 --model small --seq 512\n"
                "  memtrace fit --model small --autocast bf16 --device sim:24GiB --json\n",
    .options = options,
    .defaults = &(const struct fit_options){.run = MT_RUN_OPTIONS_NONE},
    .options_bytes = sizeof(struct fit_options),
    .run = run_fit,
};
