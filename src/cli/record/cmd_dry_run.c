/* memtrace dry-run: a program of PyTorch, without a card. */
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/record/child_program.h"
#include "cli/record/dry_ranks.h"
#include "cli/record/python_start.h"
#include "cli/record/recording.h"
#include "device/device.h"
#include "record/account.h"
#include "record/handover.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CARDS = 64, MOST_STEPS = 1000000 };

struct dry_run_options {
    bool help;
    const char *trace, *name, *device, *assumed, *only;
    int64_t ranks, cards, steps; /* 0: not said */
    char *const *words;          /* the program and its arguments */
};

static const struct mt_option options[] = {
    MT_OPTION(REST, struct dry_run_options, words, "PROGRAM", .value = "PROGRAM [ARGS]", .takes = MT_TAKES_FILE,
              .help = "what to run, and its arguments, which are left as they are"),
    MT_OPTION(TEXT, struct dry_run_options, device, "--device", .value = "CARD", .takes = MT_TAKES_DEVICE,
              .help = "the card that the program sees: sim:h100, sim:rtx4090, sim:24GiB (sim, the H200)"),
    MT_OPTION(INTEGER, struct dry_run_options, cards, "--cards", .value = "N", .low = 1, .high = MOST_CARDS,
              .help = "how many of them it sees (1, or one for each rank of a node)"),
    MT_OPTION(INTEGER, struct dry_run_options, ranks, "--ranks", .value = "N", .low = 1, .high = MT_MOST_RANKS,
              .help = "run the program as N ranks, one after the other (as torchrun's words say)"),
    MT_OPTION(TEXT, struct dry_run_options, only, "--only", .value = "RANKS",
              .help = "run only these: 0,1,510-511 (up to 8 all, else some that stand for others)"),
    MT_OPTION(INTEGER, struct dry_run_options, steps, "--steps", .value = "N", .low = 1, .high = MOST_STEPS,
              .help = "end the program after N steps (when two in a row request the same, or after ten)"),
    MT_OPTION(TEXT, struct dry_run_options, assumed, "--assume", .value = "NUMBER",
              .help = "what a value is that was not computed, such as a loss (1)"),
    MT_OPTION(TEXT, struct dry_run_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct dry_run_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_OPTION_HELP(struct dry_run_options),
    MT_OPTIONS_END,
};

/* Fails unless the spelling is that of a simulated device that can be opened. */
static mt_status check_device(const char *spelling)
{
    struct mt_device *device = NULL;
    if (strstr(spelling, ".json") != NULL)
        return mt_fail(MT_USAGE, "a dry run takes a known card or a size, not the file of a card: %s", spelling);
    if (!mt_device_is_simulated(spelling))
        return mt_fail(MT_USAGE, "a dry run takes a simulated card: --device sim:h100, not %s", spelling);
    MT_TRY(mt_device_open(spelling, &device));
    mt_device_close(device);
    return MT_OK;
}

static mt_status check_number(const char *text)
{
    char *end;
    (void)strtod(text, &end);
    return end != text && *end == '\0' ? MT_OK : mt_fail(MT_USAGE, "--assume takes a number, not \"%s\"", text);
}

static mt_status prepare(const struct dry_run_options *dry, char *const *words, int64_t cards,
                         struct mt_recording *recording)
{
    const char *refused = mt_python_start_refused(words);
    MT_TRY(check_device(dry->device));
    MT_TRY(check_number(dry->assumed));
    if (refused != NULL)
        return mt_fail(MT_USAGE, "%s keeps memtrace out of Python: leave it out", refused);
    MT_TRY(mt_python_start());
    MT_TRY(mt_recording_begin(dry->trace, recording));
    const struct mt_record_request request = {.trace = recording->path,
                                              .answers = recording->answers,
                                              .name = dry->name,
                                              .torch = MT_RECORD_TORCH_DRY,
                                              .device = MT_EVERY_DEVICE};
    const struct mt_dry_request what = {
        .device = dry->device, .cards = cards, .steps = dry->steps, .assumed = dry->assumed};
    mt_record_request_give(&request);
    mt_dry_request_give(&what);
    return MT_OK;
}

struct report {
    const struct mt_recording *recording;
    int runs, notes;
    bool is_out_of_memory; /* one of the runs ended so */
};

static bool ended_out_of_memory(const struct mt_record_answer *answer)
{
    struct mt_trace *trace = NULL;
    const struct mt_run *run;
    const bool is_found =
        mt_trace_open(answer->text, &trace) == MT_OK && mt_trace_find_numbered(trace, answer->number, &run) == MT_OK;
    const bool is_out_of_memory = is_found && mt_run_is(run, MT_RUN_OOM);
    mt_trace_close(trace);
    return is_out_of_memory;
}

static void take_answer(void *context, const struct mt_record_answer *answer)
{
    struct report *report = context;
    if (answer->kind != MT_RECORD_RUN) {
        report->notes++;
        mt_recording_tell_note(answer);
        return;
    }
    report->runs++;
    report->is_out_of_memory |= ended_out_of_memory(answer);
    mt_recording_tell_run(report->recording, answer);
}

/* Tells of the runs. Returns the exit code: the program's, unless it failed since the card was full. */
static int tell_results(const struct mt_recording *recording, int code)
{
    struct report report = {.recording = recording};
    if (mt_record_answers_read(recording->answers, take_answer, &report) != MT_OK)
        mt_note("%s", mt_last_error());
    else if (report.runs == 0 && report.notes == 0)
        mt_note("the program took no memory of a card by PyTorch, so there is nothing to tell");
    return code != 0 && report.is_out_of_memory ? MT_OUT_OF_MEMORY : code;
}

/* Runs the program, as one process or as ranks, and tells of it. Exits with its exit code, so it returns only if the program was
 * not started. */
static mt_status run_program(const struct dry_run_options *dry, const struct mt_rank_program *program)
{
    const bool is_many = program->ranks > 0;
    const int64_t cards = dry->cards > 0                              ? dry->cards
                          : is_many && program->per_node < MOST_CARDS ? program->per_node
                                                                      : 1;
    char *const *words = is_many ? program->words : dry->words;
    struct mt_recording recording = {0};
    int code = 0;
    MT_TRY(prepare(dry, words, cards, &recording));
    mt_status status =
        is_many ? mt_dry_ranks_run(program, dry->only, &recording, &code) : mt_child_program_run(words, &code);
    if (status != MT_OK && code == 0) {
        mt_recording_end(&recording);
        return status;
    }
    if (status != MT_OK)
        mt_note("%s", mt_last_error());
    else
        code = tell_results(&recording, code);
    mt_recording_end(&recording);
    exit(code);
}

static mt_status run_dry(const void *given)
{
    const struct dry_run_options *dry = given;
    struct mt_rank_program program = {0};
    if (dry->words == NULL)
        return mt_fail(MT_USAGE, "dry-run: which program? memtrace dry-run [OPTIONS] -- PROGRAM [ARGS]");
    const bool is_many = dry->ranks > 0 || mt_rank_program_is(dry->words);
    if (dry->only != NULL && !is_many)
        return mt_fail(MT_USAGE, "--only names ranks; say how many there are with --ranks, or run torchrun");
    if (is_many)
        MT_TRY(mt_rank_program_read(dry->words, dry->ranks, dry->cards, &program));
    mt_status status = run_program(dry, &program);
    mt_rank_program_release(&program);
    return status;
}

const struct mt_command mt_command_dry_run = {
    .name = "dry-run",
    .summary = "Runs a program of PyTorch on a simulated card, and tells what it would allocate, to the byte.",
    .usage = "[OPTIONS] [--] PROGRAM [ARGS]",
    .details =
        "No GPU is needed, and the program is not changed. It runs with a PyTorch without CUDA, and sees the card\n"
        "that --device names. PyTorch decides what is allocated and when it dies; memtrace's allocator gives out\n"
        "the memory as PyTorch's would on that card. Large tensors have no data: what is up to 1 MiB is computed on\n"
        "the host, a value that was not computed is 1 (--assume), and each place that asked for one is said once.\n"
        "\n"
        "The program ends when two steps in a row made the same requests, and exits as if it had ended by itself;\n"
        "torch.save and its like write nothing. Where the card is full, torch.OutOfMemoryError is raised.\n"
        "\n"
        "With --ranks, or if PROGRAM is torchrun, each rank is run by itself, and has a trace of its own. No GPU and "
        "no\n"
        "network are needed: collectives take what they would take, and move nothing.\n",
    .failed_means = "what the program says by it: every exit code is the program's, and 5 where the card was full",
    .examples = "  memtrace dry-run -- python3 train.py --batch 8\n"
                "  memtrace dry-run --device sim:rtx4090 --steps 3 -- python3 -m my.trainer config.yaml\n"
                "  memtrace dry-run -- torchrun --nproc-per-node 8 train.py\n"
                "  memtrace dry-run --ranks 512 --only 0,1,511 -- torchrun --nproc-per-node 8 train.py\n"
                "  memtrace peak --by module\n",
    .options = options,
    MT_OPTIONS_OF(struct dry_run_options, .trace = MT_DEFAULT_TRACE, .device = "sim", .assumed = "1"),
    .run = run_dry,
};
