/* memtrace dry-run: a program of PyTorch, without a card. */
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/record/child_program.h"
#include "cli/record/dry_child.h"
#include "record/handover.h"

#include <stdlib.h>

struct dry_run_options {
    bool help;
    const char *trace, *name, *device;
    struct mt_dry_options dry;
};

static const struct mt_option options[] = {
    MT_DRY_PROGRAM(struct dry_run_options, dry),
    MT_OPTION(TEXT, struct dry_run_options, device, "--device", .value = "CARD", .takes = MT_TAKES_DEVICE,
              .help = "the card that the program sees: sim:h100, sim:rtx4090, sim:24GiB (sim, the H200)"),
    MT_DRY_OPTIONS(struct dry_run_options, dry),
    MT_OPTION(INTEGER, struct dry_run_options, dry.steps, "--steps", .value = "N", .low = 1, .high = MT_MOST_DRY_STEPS,
              .help = "end the program after N steps (when two in a row request the same, or after ten)"),
    MT_OPTION(TEXT, struct dry_run_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct dry_run_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_OPTION_HELP(struct dry_run_options),
    MT_OPTIONS_END,
};

struct report {
    const struct mt_recording *recording;
    bool is_many; /* ranks, whose notes were told */
    int64_t pid;  /* of the last process that answered */
    int runs, notes;
    bool has_processes;    /* others answered, too */
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

static void count_answer(void *context, const struct mt_record_answer *answer)
{
    struct report *report = context;
    report->has_processes |= report->runs + report->notes > 0 && report->pid != answer->pid;
    report->pid = answer->pid;
    if (answer->kind == MT_RECORD_RUN)
        report->runs++;
    else
        report->notes++;
}

static void tell_note(void *context, const struct mt_record_answer *answer)
{
    const struct report *report = context;
    if (report->is_many)
        return;
    if (answer->kind == MT_RECORD_NOTE && !report->has_processes)
        mt_note("%s", answer->text);
    else if (answer->kind != MT_RECORD_RUN)
        mt_recording_tell_note(answer);
}

static void tell_run(void *context, const struct mt_record_answer *answer)
{
    struct report *report = context;
    if (answer->kind != MT_RECORD_RUN)
        return;
    report->is_out_of_memory |= ended_out_of_memory(answer);
    mt_recording_tell_run(report->recording, answer);
}

static mt_status tell_answers(struct report *report)
{
    const char *answers = report->recording->answers;
    MT_TRY(mt_record_answers_read(answers, count_answer, report));
    MT_TRY(mt_record_answers_read(answers, tell_note, report));
    return mt_record_answers_read(answers, tell_run, report);
}

/* Tells of the runs, after what was assumed in them. Returns the exit code: the program's, unless it failed since the card was
 * full. */
static int tell_results(const struct mt_recording *recording, bool is_many, int code)
{
    struct report report = {.recording = recording, .is_many = is_many};
    if (tell_answers(&report) != MT_OK)
        mt_note("%s", mt_last_error());
    else if (code == 0 && report.runs == 0 && report.notes == 0)
        mt_note("the program took no memory of a card by PyTorch, so there is nothing to tell");
    return code != 0 && report.is_out_of_memory ? MT_OUT_OF_MEMORY : code;
}

/* Runs the program, as one process or as ranks, and tells of it. Exits with its exit code, so it returns only if the program was
 * not started. */
static mt_status run_dry(const void *given)
{
    const struct dry_run_options *asked = given;
    const struct mt_dry_child child = {
        .options = &asked->dry, .device = asked->device, .trace = asked->trace, .name = asked->name};
    struct mt_dry_child_run run;
    if (asked->dry.words == NULL)
        return mt_fail(MT_USAGE, "dry-run: which program? memtrace dry-run [OPTIONS] -- PROGRAM [ARGS]");
    MT_TRY(mt_dry_children_prepare(&asked->dry, asked->device));
    mt_status status = mt_dry_child_start(&child, asked->dry.words, MT_OWN_OUTPUT, &run);
    if (status != MT_OK && run.code != 0)
        mt_note("%s", mt_last_error());
    if (status == MT_OK)
        run.code = tell_results(&run.recording, run.is_many, run.code);
    if (run.recording.path != NULL)
        mt_recording_end(&run.recording);
    if (status != MT_OK && run.code == 0)
        return status;
    exit(run.code);
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
    MT_OPTIONS_OF(struct dry_run_options, .trace = MT_DEFAULT_TRACE, .device = "sim", .dry = MT_DRY_OPTIONS_USUAL),
    .run = run_dry,
};
