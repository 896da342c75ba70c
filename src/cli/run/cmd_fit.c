/* memtrace fit: whether a run fits a device, and which changes make it fit. */
#include "analysis/fit/replayed_fit.h"
#include "analysis/run_settings.h"
#include "answer/output_file.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/run_word.h"
#include "cli/record/program_notes.h"
#include "cli/run/card_need_report.h"
#include "cli/run/fit_report.h"
#include "cli/run/program_fit_report.h"
#include "cli/run/program_largest_report.h"
#include "cli/run/run_options.h"
#include "producers/model/simulation.h"
#include "words/replayed_fit_report.h"

#include <stdio.h>
#include <string.h>

struct fit_options {
    struct mt_run_options run;  /* the run of the question, if any setting is given; the device, the trace and --json */
    const char *which;          /* of the trace's runs */
    uint64_t reserve_bytes;     /* device memory to keep free; or MT_RESERVE_UNSET */
    const char *with;           /* a run with another batch, which shows how memory grows; NULL: none */
    const char *batches;        /* batches of the run and of `with`: "4,8"; NULL: from the trace */
    const char *largest;        /* values of an argument of the program, "batch=1..512"; NULL: no search */
    struct mt_option_list vary; /* values of its other arguments */
    struct mt_dry_options dry;  /* a program instead of a run; its steps are in `run` */
    bool quiet, strict, annotate;
    int scheduler;       /* MT_SCHEDULER_COUNT: print no request */
    const char *summary; /* a file to append Markdown to; NULL: none */
};

static const struct mt_option options[] = {
    MT_DRY_PROGRAM(struct fit_options, dry),
    MT_OPTION(TEXT, struct fit_options, largest, "--largest", .value = "NAME=LOW..HIGH",
              .help = "find the largest value of PROGRAM's argument @NAME that fits; LOW..HIGH:STEP and NAME=VALUE,... "
                      "also work"),
    MT_OPTION(LIST, struct fit_options, vary, "--vary", .value = "NAME=VALUE,...",
              .help = "with --largest: answer for each of these values of another argument; may be repeated"),
    MT_OPTION(TEXT, struct fit_options, run.device, "--device", .value = "DEVICE", .takes = MT_TAKES_DEVICE,
              .help = "sim:rtx4090, sim:24GiB or another simulated device (default: one as large as the run's)"),
    MT_OPTION(BYTES, struct fit_options, reserve_bytes, "--reserve", .value = "SIZE",
              .help = "keep this much of its memory free (default: a card's CUDA context; 0 for a size)"),
    MT_OPTION(TEXT, struct fit_options, which, "--run", .value = "N|NAME", .takes = MT_TAKES_RUN,
              .help = "the run of the trace (default: the newest)"),
    MT_OPTION(TEXT, struct fit_options, with, "--with", .value = "N|NAME", .takes = MT_TAKES_RUN,
              .help = "a run with another batch, to find the largest batch of a run that cannot be repeated"),
    MT_OPTION(TEXT, struct fit_options, batches, "--batches", .value = "A,B",
              .help = "the batches of this run and of --with's run, if the trace does not store them"),
    MT_OPTION(TEXT, struct fit_options, run.trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the trace (default: " MT_DEFAULT_TRACE ")"),
    MT_DRY_OPTIONS(struct fit_options, dry),
    MT_OPTION(FLAG, struct fit_options, quiet, "--quiet",
              .help = "print only the bytes that PROGRAM needs of each GPU; no changes are tried"),
    MT_OPTION(FLAG, struct fit_options, strict, "--strict",
              .help = "exit with 9 if PROGRAM fits, but something that could take memory is unknown or did not run"),
    MT_OPTION(CHOICE, struct fit_options, scheduler, "--as", .value = "SCHEDULER", .choices = mt_scheduler_names,
              .help = "print only the lines that request such GPUs"),
    MT_OPTION(FLAG, struct fit_options, annotate, "--annotate",
              .help = "also print the line of the peak as ::error on stderr if PROGRAM does not fit, or the line at "
                      "which it fails, for GitHub "
                      "Actions and VS Code"),
    MT_OPTION(TEXT, struct fit_options, summary, "--summary", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "also append Markdown to FILE: \"$GITHUB_STEP_SUMMARY\""),
    MT_OPTION_JSON(struct mt_run_options),
    MT_OPTION_HELP(struct mt_run_options),
    MT_RUN_SETTINGS(mt_fit_setting_option, offsetof(struct fit_options, run)),
    MT_OPTIONS_END,
};

/* The run of the question. The trace or `device` owns the plan's texts. The plan's device has the memory that is
 * available to the run. */
struct asked {
    struct mt_trace *trace;   /* NULL: the plan is from options */
    const struct mt_run *run; /* the trace's */
    struct mt_run_plan plan;
    struct mt_fit_device device;
};

/* Chooses the simulated device for the device of the question. */
static mt_status choose_device(const struct fit_options *fit, const char *device, struct asked *asked)
{
    struct mt_card card;
    char spelling[MT_DEVICE_NAME];
    MT_TRY(mt_dry_device_spell(&fit->dry, device, spelling));
    MT_TRY(mt_simulated_card_find(spelling, &card));
    return mt_fit_device_choose(spelling, fit->reserve_bytes, &asked->device);
}

static mt_status plan_options(const struct fit_options *fit, struct asked *asked)
{
    const char *device = fit->run.device != NULL ? fit->run.device : "sim";
    mt_status status = mt_run_options_plan(&fit->run, &asked->plan);
    return status == MT_OK ? choose_device(fit, device, asked) : status;
}

/* Chooses the simulated device for the traced run's device. A card or host is replaced by a simulated one of the same
 * size. */
static mt_status choose_traced_device(const struct fit_options *fit, struct asked *asked)
{
    if (fit->run.device != NULL)
        return choose_device(fit, fit->run.device, asked);
    if (fit->dry.free != NULL)
        return mt_fail(MT_USAGE, "--free is about a card: name it with --device");
    return mt_fit_device_choose_traced(asked->trace, asked->run, fit->reserve_bytes, &asked->device);
}

/* Sets the plan from the traced run. The run may be in progress, since only its settings are needed, which are stored
 * first. */
static mt_status plan_traced(const struct fit_options *fit, struct asked *asked)
{
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

/* Sets the plan, with the given allocator or, regardless of the run's allocator, PyTorch's. */
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
    asked->plan.card = asked->device.has_card ? &asked->device.card : NULL;
    const struct mt_fit_question question = {&asked->plan, asked->run, &asked->device};
    struct mt_fit_answer found;
    MT_TRY(mt_fit_find(&asked->plan, asked->device.asked_reserve_bytes, &found));
    mt_fit_report(&question, &found, fit->run.json ? MT_REPORT_JSON : MT_REPORT_TEXT);
    return found.fit.fits ? MT_OK : fail_short(asked, &found.fit);
}

static mt_status fit_by_simulation(const struct fit_options *fit, struct asked *asked)
{
    if (fit->with != NULL || fit->batches != NULL)
        return mt_fail(MT_USAGE, "--with and --batches are for runs that can't be made again; of this one every batch "
                                 "is simulated");
    MT_TRY(plan_asked(fit, asked));
    return answer(fit, asked);
}

/* ---- a run that can't be repeated ---- */

/* Sets *out to true if the question is about a traced run of another program than memtrace run. Opens the trace. */
static mt_status is_replayed(const struct fit_options *fit, struct asked *asked, bool *out)
{
    struct mt_settings settings;
    *out = false;
    if (mt_run_options_describe(&fit->run))
        return MT_OK;
    MT_TRY(mt_trace_open_to_ask(fit->run.trace, &asked->trace));
    MT_TRY(mt_trace_find_run(asked->trace, fit->which, &asked->run));
    mt_status status = mt_settings_load(asked->trace, asked->run, &settings);
    *out = status == MT_OK && mt_program_of_settings(&settings).kind != MT_PROGRAM_MODEL;
    mt_settings_release(&settings);
    return status;
}

/* Parses "4" or "4,8". */
static mt_status parse_batches(const char *text, struct mt_replayed_question *question)
{
    static const char OPTION[] = "--batches";
    struct mt_text first = {0};
    size_t length = strcspn(text, ",");
    mt_text_add(&first, "%.*s", (int)length, text);
    mt_status status = mt_parse_integer(OPTION, mt_text_get(&first), 1, INT32_MAX, &question->batch);
    if (status == MT_OK && text[length] == ',')
        status = mt_parse_integer(OPTION, text + length + 1, 1, INT32_MAX, &question->other_batch);
    mt_text_release(&first);
    return status;
}

/* Finds the batch stored with a run; 0 if there is none. */
static mt_status find_batch(const struct mt_question *question, int64_t *out)
{
    const char *value;
    MT_TRY(mt_question_setting(question, "batch", &value));
    if (value[0] == '\0' || mt_parse_integer("batch", value, 1, INT32_MAX, out) != MT_OK)
        *out = 0;
    return MT_OK;
}

/* Finds the batches of both runs, which must differ. */
static mt_status find_batches(const struct fit_options *fit, struct mt_replayed_question *question)
{
    MT_TRY(find_batch(question->run, &question->batch));
    if (question->other != NULL)
        MT_TRY(find_batch(question->other, &question->other_batch));
    if (fit->batches != NULL)
        MT_TRY(parse_batches(fit->batches, question));
    if (question->other == NULL)
        return MT_OK;
    if (question->batch == 0 || question->other_batch == 0)
        return mt_fail(MT_USAGE,
                       "the runs do not say their batches: --batches A,B does, A of the run and B of --with's");
    if (question->batch == question->other_batch)
        return mt_fail(MT_USAGE, "both runs have a batch of %lld: two different batches show how memory grows",
                       (long long)question->batch);
    return MT_OK;
}

static mt_status choose_replayed_device(const struct fit_options *fit, struct asked *asked)
{
    if (fit->run.device == NULL && asked->run->capacity_bytes == 0)
        return mt_fail(MT_USAGE, "the trace does not say how much memory the run's device had: name one, such as "
                                 "--device sim:a100-80gb");
    return choose_traced_device(fit, asked);
}

static mt_status answer_replayed(const struct fit_options *fit, struct asked *asked,
                                 struct mt_replayed_question *question)
{
    struct mt_alloc_settings alloc;
    struct mt_replayed_fit found;
    const struct mt_screen screen = mt_output_screen();
    const char *given = fit->run.given[MT_SETTING_ALLOC];
    if (given != NULL && mt_alloc_settings_parse(given, &alloc) != MT_OK)
        return mt_fail_context(MT_USAGE, "--alloc");
    question->alloc = given != NULL ? &alloc : NULL;
    MT_TRY(mt_fit_device_count_outside(&asked->device, asked->trace, asked->run));
    question->capacity_bytes = asked->device.memory_bytes - asked->device.reserve_bytes;
    mt_status status = mt_replayed_fit_find(question, &found);
    if (status == MT_OK && fit->run.json)
        mt_json_print(mt_replayed_fit_json(question, &asked->device, &found));
    else if (status == MT_OK)
        mt_replayed_fit_print(question, &asked->device, &found, &screen);
    if (status == MT_OK && !found.fits)
        status = mt_fail(MT_FAILED, "the run does not fit %s", asked->device.name);
    mt_replayed_fit_release(&found);
    return status;
}

static mt_status fit_by_replay(const struct fit_options *fit, struct asked *asked)
{
    struct mt_question run = {.trace = asked->trace, .run = asked->run}, other = {0};
    struct mt_replayed_question question = {.run = &run};
    mt_status status = choose_replayed_device(fit, asked);
    if (status == MT_OK && fit->with != NULL)
        status = mt_question_open_named(fit->run.trace, fit->with, &other);
    question.other = other.run != NULL ? &other : NULL;
    MT_THEN(status, find_batches(fit, &question));
    MT_THEN(status, answer_replayed(fit, asked, &question));
    if (other.run != NULL)
        mt_question_close(&other);
    return status;
}

/* ---- a program for dry runs ---- */

/* True if the question is about the memory that programs need, not about changes. */
static bool is_about_need(const struct fit_options *fit)
{
    bool has_several = false;
    for (char *const *word = fit->dry.words; *word != NULL; word++)
        has_several |= strcmp(*word, MT_BETWEEN_PROGRAMS) == 0;
    return has_several || fit->quiet || fit->annotate || fit->summary != NULL || fit->scheduler != MT_SCHEDULER_COUNT;
}

/* Fails with MT_USAGE for options of a run, and for a run or a trace in addition to a program. */
static mt_status check_program(const struct fit_options *fit)
{
    const char *program = fit->dry.words[0];
    if (fit->dry.words[1] == NULL && mt_run_word_is(program))
        return mt_run_word_hint(program, mt_fail(MT_USAGE, "\"%s\" is no program", program));
    if (fit->largest == NULL && fit->vary.count > 0)
        return mt_fail(MT_USAGE, "--vary goes with --largest; memtrace sweep --vary lists the memory of each value");
    if (fit->largest != NULL && (is_about_need(fit) || fit->strict))
        return mt_fail(MT_USAGE, "--largest gives an answer of its own: leave --quiet, --strict, --as, --annotate, "
                                 "--summary and --and out");
    if (fit->scheduler != MT_SCHEDULER_COUNT && (fit->quiet || fit->run.json))
        return mt_fail(MT_USAGE, "--as prints its own lines: leave %s out", fit->quiet ? "--quiet" : "--json");
    MT_TRY(mt_output_file_check("--summary", fit->summary, NULL));
    const char *of_trace = fit->which != NULL ? "--run" : fit->with != NULL ? "--with" : "--batches";
    if (fit->which == NULL && fit->with == NULL && fit->batches == NULL)
        return MT_OK;
    return mt_fail(MT_USAGE, "%s is about a run of the trace, not about a program", of_trace);
}

static mt_status fit_need(const struct fit_options *fit, const struct mt_dry_options *usual,
                          const struct mt_fit_device *device)
{
    const struct mt_card_need_question question = {.program = usual,
                                                   .device = device,
                                                   .form = fit->run.json ? MT_REPORT_JSON : MT_REPORT_TEXT,
                                                   .is_quiet = fit->quiet,
                                                   .is_strict = fit->strict,
                                                   .annotates = fit->annotate,
                                                   .scheduler = (mt_scheduler)fit->scheduler,
                                                   .summary = fit->summary,
                                                   .title = "memtrace fit"};
    return mt_card_need_answer(&question);
}

static mt_status fit_program(const struct fit_options *fit)
{
    struct mt_dry_options program = fit->dry;
    struct asked asked = {0};
    MT_TRY(check_program(fit));
    if (!fit->quiet)
        mt_program_python_note(program.words, program.python);
    MT_TRY(mt_program_options_take(&fit->run, &program));
    MT_TRY(choose_device(fit, fit->run.device != NULL ? fit->run.device : "sim", &asked));
    program.free = NULL; /* the trials run with more memory than the device has */
    const mt_report_form form = fit->run.json ? MT_REPORT_JSON : MT_REPORT_TEXT;
    if (is_about_need(fit))
        return fit_need(fit, &program, &asked.device);
    if (fit->largest == NULL)
        return mt_program_fit(&program, &asked.device, form, fit->strict ? MT_FIT_STRICT : MT_FIT_LENIENT);
    const struct mt_program_largest question = {.program = &program,
                                                .device = &asked.device,
                                                .values = fit->largest,
                                                .vary = fit->vary.items,
                                                .vary_count = fit->vary.count};
    return mt_program_largest(&question, form);
}

/* Fails with MT_USAGE for options that need a program. */
static mt_status check_no_program(const struct fit_options *fit)
{
    if (fit->largest != NULL || fit->vary.count > 0)
        return mt_fail(MT_USAGE, "--largest and --vary are about a program's arguments: memtrace fit --largest "
                                 "NAME=LOW..HIGH -- PROGRAM");
    const char *option = fit->quiet                             ? "--quiet"
                         : fit->strict                          ? "--strict"
                         : fit->annotate                        ? "--annotate"
                         : fit->summary != NULL                 ? "--summary"
                         : fit->scheduler != MT_SCHEDULER_COUNT ? "--as"
                                                                : NULL;
    return option == NULL ? MT_OK
                          : mt_fail(MT_USAGE, "%s is about a program: memtrace fit %s -- PROGRAM", option, option);
}

static mt_status run_fit(const void *given)
{
    const struct fit_options *fit = given;
    if (fit->dry.words != NULL)
        return fit_program(fit);
    MT_TRY(check_no_program(fit));
    struct asked asked = {0};
    bool by_replay;
    mt_status status = is_replayed(fit, &asked, &by_replay);
    if (status == MT_OK && by_replay)
        status = fit_by_replay(fit, &asked);
    else if (status == MT_OK)
        status = fit_by_simulation(fit, &asked);
    mt_trace_close(asked.trace);
    return status;
}

const struct mt_command mt_command_fit = {
    .name = "fit",
    .summary = "Checks whether a run fits a device, which changes would make it fit, and how large it may be.",
    .usage = "[OPTIONS] [-- PROGRAM [ARGS]]",
    .details =
        "It checks a run of the trace, or the run that options of memtrace run describe (any except --alloc), or a\n"
        "PyTorch program.\n"
        "All answers are simulated, so no GPU is needed: the run itself, each change that lowers its memory, from\n"
        "cheapest to most expensive in training speed, and the largest batch and sequence. At most 12 steps of a\n"
        "run are simulated, since peaks repeat by then.\n"
        "\n"
        "It assumes PyTorch's allocator, whatever the run used; policy=tight of memtrace run reserves less. --alloc\n"
        "selects another one.\n"
        "\n"
        "The reserved bytes are compared with the device's memory minus the reserve. On a card, the reserve is the\n"
        "memory of CUDA's context and libraries, and of NCCL if the program uses it. The answer names a simulated\n"
        "device with the remaining memory, on which memtrace run can try each claim.\n"
        "\n"
        "A run that was imported or recorded cannot be repeated. Its blocks are replayed with its allocator, as\n"
        "they were, with changes, and with a larger batch: growth with the batch comes from two runs with different\n"
        "batches (--with), or is assumed. The answer says how close the replay is to the run's reserved bytes.\n"
        "\n"
        "A program is run dry (memtrace dry-run), unchanged and once for each change: gradients freed before\n"
        "forward, expandable segments, another optimizer kernel, flash attention, autocast to bf16, checkpointed\n"
        "blocks, weights in bf16. If no single change suffices, combinations are tried. The answer shows the lines\n"
        "of PyTorch code for each change, or why it does not apply. --steps, --cards, --assume, --weights, --ranks,\n"
        "--only and --jobs work as in memtrace dry-run; no run is stored. A job of several ranks fits if each rank\n"
        "does. Changes are tried on a larger card, so that programs that catch out-of-memory errors are not\n"
        "affected.\n"
        "\n"
        "With --largest, the program is run dry with different values of one argument until the largest value that\n"
        "fits and the next larger one are both tried: usually four to six dry runs. The value replaces @NAME in the\n"
        "arguments, also after a =. With --vary, each combination of the other values gets an answer.\n"
        "\n"
        "For a gate in front of a queue, --quiet prints one number: the bytes that the program needs of each GPU,\n"
        "with CUDA's context, libraries and NCCL. --as prints the lines that request it from slurm, k8s, dra, hami,\n"
        "kai or skypilot. The program is run dry once, and no changes are tried. Programs that share a card, such as\n"
        "a trainer and an inference engine, are separated by --and: their bytes add up, and each process has a\n"
        "context. Of several ranks, the one that needs most counts.\n"
        "\n"
        "Exits with 0 if the run, the program or some value fits, 1 if none does or the program fails, 4 if the card\n"
        "is unknown, 8 if the program can't be run dry or puts nothing on a card, and 9 with --strict if it fits, but\n"
        "something that could take memory is unknown.\n",
    .failed_means = "failed, or the run does not fit",
    .examples = "  memtrace fit --device sim:a100-80gb\n"
                "  memtrace fit --device sim:rtx4090 --model small --seq 512 --reserve 1GiB\n"
                "  memtrace fit --model small --autocast bf16 --device sim:24GiB --json\n"
                "  memtrace fit --run small --with large --batches 4,8 --device sim:l4\n"
                "  memtrace fit --device sim:rtx4090 train.py\n"
                "  memtrace fit --device sim:rtx4090 --largest batch=1..512 train.py --batch @batch\n"
                "  memtrace fit --device sim:h100 --largest seq=512..65536:512 --json train.py --seq=@seq\n"
                "  memtrace fit --largest batch=1,2,4,8 --vary seq=1024,2048 train.py --batch @batch --seq @seq\n"
                "  memtrace fit --device sim:h100 -- torchrun --nproc-per-node 8 train.py\n"
                "  memtrace fit --quiet --device sim:h100 -- torchrun --nproc-per-node 8 train.py\n"
                "  memtrace fit --as slurm --device sim:h100 train.py\n"
                "  memtrace fit --device sim:h100 -- python train.py --and python engine.py\n",
    .options = options,
    MT_OPTIONS_OF(struct fit_options, .run.trace = MT_DEFAULT_TRACE, .reserve_bytes = MT_RESERVE_UNSET,
                  .dry = MT_DRY_OPTIONS_USUAL, .scheduler = MT_SCHEDULER_COUNT),
    .answer = &mt_fit_answer_type,
    .run = run_fit,
};
