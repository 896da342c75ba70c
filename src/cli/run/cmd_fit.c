/* memtrace fit: tells if a run fits a device, and the changes that make it fit. */
#include "analysis/run_settings.h"
#include "analysis/simulation.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/run/fit_report.h"
#include "cli/run/run_options.h"

#include <stdio.h>

struct fit_options {
    struct mt_run_options run; /* the run to ask about, if any setting is given; the device, the trace and --json */
    const char *which;         /* of the trace's runs */
    uint64_t reserve_bytes;    /* of the device's memory, kept free; or MT_RESERVE_UNSET */
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct fit_options, run.device, "--device", .value = "DEVICE", .takes = MT_TAKES_DEVICE,
              .help = "sim:rtx4090, sim:24GiB or another simulated device (one as large as the run's)"),
    MT_OPTION(BYTES, struct fit_options, reserve_bytes, "--reserve", .value = "SIZE",
              .help = "keep that much of its memory free (of a card what CUDA's context takes; of a size 0)"),
    MT_OPTION(TEXT, struct fit_options, which, "--run", .value = "N|NAME", .takes = MT_TAKES_RUN,
              .help = "the run of the trace to ask about (the newest unless given)"),
    MT_OPTION(TEXT, struct fit_options, run.trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the trace (" MT_DEFAULT_TRACE " unless given)"),
    MT_OPTION_JSON(struct mt_run_options),
    MT_OPTION_HELP(struct mt_run_options),
    MT_RUN_SETTINGS(mt_fit_setting_option, offsetof(struct fit_options, run)),
    MT_OPTIONS_END,
};

/* The run that is asked about. The texts of the plan belong to the trace or to `device`. The device of the plan is
 * as large as a run may be. */
struct asked {
    struct mt_trace *trace;   /* NULL: the plan is of options */
    const struct mt_run *run; /* the trace's */
    struct mt_run_plan plan;
    struct mt_fit_device device;
};

/* Chooses the device that was asked about, which is simulated. */
static mt_status choose_device(const struct fit_options *fit, const char *device, struct asked *asked)
{
    struct mt_card card;
    MT_TRY(mt_simulated_card_find(device, &card));
    return mt_fit_device_choose(device, fit->reserve_bytes, &asked->device);
}

static mt_status plan_options(const struct fit_options *fit, struct asked *asked)
{
    const char *device = fit->run.device != NULL ? fit->run.device : "sim";
    mt_status status = mt_run_options_plan(&fit->run, &asked->plan);
    return status == MT_OK ? choose_device(fit, device, asked) : status;
}

/* Chooses the device of the traced run. For a card or the host it is a simulated one of the same size. */
static mt_status choose_traced_device(const struct fit_options *fit, struct asked *asked)
{
    const struct mt_run *run = asked->run;
    if (fit->run.device != NULL)
        return choose_device(fit, fit->run.device, asked);
    return mt_fit_device_choose_traced(run, fit->reserve_bytes, &asked->device);
}

/* Plans the traced run. It may still be running: only its settings are needed, and they are stored first. */
static mt_status plan_traced(const struct fit_options *fit, struct asked *asked)
{
    MT_TRY(mt_trace_open_to_ask(fit->run.trace, &asked->trace));
    MT_TRY(mt_trace_find_run(asked->trace, fit->which, &asked->run));
    mt_status status = mt_run_plan_of_run(asked->trace, asked->run, &asked->plan);
    if (status == MT_USAGE)
        return mt_fail(status, "%s; describe it by options of memtrace run, such as --model small", mt_last_error());
    return status == MT_OK ? choose_traced_device(fit, asked) : status;
}

static mt_status plan_run(const struct fit_options *fit, struct asked *asked)
{
    if (!mt_run_options_describe(&fit->run))
        return plan_traced(fit, asked);
    if (fit->which != NULL)
        return mt_fail(MT_USAGE, "--run %s asks about a run as it was; leave the options out that describe another one",
                       fit->which);
    return plan_options(fit, asked);
}

/* Plans the run with the allocator that was given or else, whatever the run had, PyTorch's. */
static mt_status plan_asked(const struct fit_options *fit, struct asked *asked)
{
    const char *alloc = fit->run.given[MT_SETTING_ALLOC];
    MT_TRY(plan_run(fit, asked));
    if (alloc != NULL)
        return mt_setting_parse(MT_SETTING_ALLOC, alloc, &asked->plan);
    asked->plan.alloc = mt_alloc_settings_as_torch(&asked->plan.alloc);
    return MT_OK;
}

static mt_status fail_short(const struct asked *asked, const struct mt_fit *fit)
{
    char shortage[MT_BYTES_TEXT];
    struct mt_text name = {0};
    mt_text_add_visible(&name, asked->device.name);
    mt_format_bytes((uint64_t)-mt_fit_room_bytes(fit), shortage);
    mt_fail(MT_FAILED, "the run does not fit %s: it is %s short", mt_text_get(&name), shortage);
    mt_text_release(&name);
    return MT_FAILED;
}

static mt_status answer(const struct fit_options *fit, struct asked *asked)
{
    asked->plan.device = asked->device.simulated;
    const struct mt_fit_question question = {&asked->plan, asked->run, &asked->device};
    struct mt_fit_answer found;
    MT_TRY(mt_fit_find(&asked->plan, asked->device.asked_reserve_bytes, &found));
    mt_fit_report(&question, &found, fit->run.json ? MT_REPORT_JSON : MT_REPORT_TEXT);
    return found.fit.fits ? MT_OK : fail_short(asked, &found.fit);
}

static mt_status run_fit(const void *given)
{
    const struct fit_options *fit = given;
    struct asked asked = {0};
    mt_status status = plan_asked(fit, &asked);
    if (status == MT_OK)
        status = answer(fit, &asked);
    mt_trace_close(asked.trace);
    return status;
}

const struct mt_command mt_command_fit = {
    .name = "fit",
    .summary = "Tells whether a run fits a device, what would make it fit, and how large it may be.",
    .usage = "[OPTIONS]",
    .details =
        "It asks about a run of the trace, or about the one that options of memtrace run describe if there are any\n"
        "besides --alloc.\n"
        "Every answer is simulated, which needs no GPU: the run itself, each change that lowers its memory, from the\n"
        "one that costs training least to the dearest, and the largest batch and sequence. Of a run's steps 12 at\n"
        "most are simulated, by which peaks repeat.\n\n"
        "It is about PyTorch's allocator, whatever the run had: policy=tight of memtrace run reserves less. --alloc\n"
        "names another one.\n\n"
        "What the allocator reserves is compared with the device's memory less the reserve: of a card, what CUDA's\n"
        "context and libraries take of it. The answer names the simulated device that has what is left, so that\n"
        "memtrace run can try each claim on it.\n\n"
        "The exit code is 0 if the run fits and 1 if it does not.\n",
    .failed_means = "failed, or the run does not fit",
    .examples = "  memtrace fit --device sim:a100-80gb\n"
                "  memtrace fit --device sim:rtx4090 --model small --seq 512 --reserve 1GiB\n"
                "  memtrace fit --model small --autocast bf16 --device sim:24GiB --json\n",
    .options = options,
    MT_OPTIONS_OF(struct fit_options, .run.trace = MT_DEFAULT_TRACE, .reserve_bytes = MT_RESERVE_UNSET),
    .answer = &mt_fit_answer_type,
    .run = run_fit,
};
