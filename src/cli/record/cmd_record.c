/* memtrace record: runs any program and records it. */
#include "analysis/torch_history.h"
#include "base/text.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/record/dry_options.h"
#include "cli/record/program_notes.h"
#include "cli/watch/metrics_options.h"
#include "cli/write/timeline_page.h"
#include "producers/program/child_program.h"
#include "producers/program/recorded_program.h"
#include "run/process_trace.h"
#include "trace/store/recorder.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record_options {
    bool help, kernels, no_torch, no_stacks, holders;
    int allocator; /* an index of allocators */
    const char *trace, *name, *step, *page, *python;
    int64_t device;
    struct mt_metrics_options metrics;
    char *const *words; /* the program and its arguments */
};

enum { OWN, OURS };
static const char *const allocators[] = {[OWN] = "own", [OURS] = "ours", NULL};

static const struct mt_option options[] = {
    MT_OPTION(REST, struct record_options, words, "PROGRAM", .value = "PROGRAM [ARGS]", .takes = MT_TAKES_FILE,
              .help = "the program to run, and its arguments"),
    MT_OPTION(FLAG, struct record_options, kernels, "--kernels",
              .help = "trace each kernel, too: memtrace kernels lists them"),
    MT_OPTION(FLAG, struct record_options, no_torch, "--no-torch",
              .help = "do not watch PyTorch's allocator; record its segments as any other memory"),
    MT_OPTION(FLAG, struct record_options, no_stacks, "--no-stacks",
              .help = "PyTorch: do not record call stacks, lines and operators, which saves time"),
    MT_OPTION(FLAG, struct record_options, holders, "--holders",
              .help = "PyTorch: search for the variables that keep growing memory, a pause of about a second"),
    MT_OPTION(CHOICE, struct record_options, allocator, "--allocator", .value = "WHICH", .choices = allocators,
              .help = "PyTorch: use its own allocator, or memtrace's instead (own)"),
    MT_OPTION(TEXT, struct record_options, step, "--step", .value = "TEXT",
              .help = "NVTX ranges whose names begin with TEXT are training steps"),
    MT_OPTION(INTEGER, struct record_options, device, "--device", .value = "N", .low = 0, .high = 1023,
              .help = "count the memory of this GPU only, by CUDA's number (default: all)"),
    MT_OPTION(TEXT, struct record_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct record_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_OPTION(TEXT, struct record_options, page, "--page", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = MT_PAGE_HELP ", of the first run"),
    MT_OPTION(TEXT, struct record_options, python, "--python", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = MT_PYTHON_HELP),
    MT_METRICS_OPTIONS(struct record_options),
    MT_OPTION_HELP(struct record_options),
    MT_OPTIONS_END,
};

struct report {
    const struct record_options *record;
    const struct mt_program_outcome *outcome;
    const struct mt_record_answer *first; /* run; NULL: none yet */
    int runs, notes;
};

/* Imports PyTorch's memory history. */
static void import_history(const struct report *report, const struct mt_record_answer *answer)
{
    struct mt_torch_history history;
    mt_status status = mt_torch_history_import(answer, report->record->name, report->record->device, &history);
    const struct mt_record_answer run = {
        .kind = MT_RECORD_RUN, .pid = answer->pid, .number = history.report.run, .text = history.trace};
    if (status != MT_OK)
        mt_note("process %" PRId64 ": %s; PyTorch's memory history is left in %s", answer->pid, mt_last_error(),
                answer->text);
    else if (history.trace != NULL) {
        mt_note("process %" PRId64 ": %" PRIu64 " events of PyTorch's memory history were imported%s", answer->pid,
                history.report.entries,
                history.report.torch.lost_beginning ? "; those before them are lost, since it was full" : "");
        mt_program_run_note(report->outcome, report->record->trace, &run);
    }
    mt_torch_history_release(&history);
}

static void tell_answer(struct report *report, const struct mt_record_answer *answer)
{
    if (answer->kind == MT_RECORD_RUN) {
        report->first = report->first != NULL ? report->first : answer;
        report->runs++;
        mt_program_run_note(report->outcome, report->record->trace, answer);
        return;
    }
    report->notes++;
    if (answer->kind == MT_RECORD_HISTORY) {
        import_history(report, answer);
        return;
    }
    mt_program_process_note(answer);
}

static void tell_nothing(const struct record_options *record)
{
    if (record->device != MT_EVERY_DEVICE)
        mt_note("the program was not seen to use GPU %" PRId64 ", so there was nothing to record", record->device);
    else if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == NULL)
        mt_note("there is no CUDA driver here, so there was nothing to record");
    else
        mt_note("the program did not use CUDA, so there was nothing to record");
}

/* Notes each run of the program, or why there are none. */
static void tell_results(const struct record_options *record, const struct mt_program_outcome *outcome)
{
    struct report report = {.record = record, .outcome = outcome};
    for (size_t i = 0; i < outcome->count; i++)
        tell_answer(&report, &outcome->answers[i]);
    if (report.runs == 0 && report.notes == 0)
        tell_nothing(record);
    if (record->page != NULL && report.first != NULL &&
        mt_timeline_page_write(report.first->text, report.first->number, record->page) != MT_OK)
        mt_note("there is no page: %s", mt_last_error());
}

/* Starts metrics. If this process is a rank of a job, the file has the rank in its name, and the port is the rank's
 * own. */
static mt_status start_metrics(const struct record_options *record, const char *trace, struct mt_metrics **out)
{
    struct mt_metrics_options places = record->metrics;
    struct mt_run_rank rank;
    const char *job;
    struct mt_text addition = {0}, file = {0}, own = {0};
    const bool is_rank = mt_process_rank_read(&rank, &job);
    if (is_rank && rank.rank > 0)
        mt_text_add(&addition, "-rank%" PRId64, rank.rank);
    if (places.port != 0 && is_rank && rank.local_rank > 0)
        places.port += rank.local_rank;
    if (places.file != NULL)
        mt_process_trace_name(&file, places.file, mt_text_get(&addition));
    places.file = file.data;
    mt_process_trace_name(&own, trace, mt_text_get(&addition));
    mt_status status = mt_metrics_begin(&places, own.data, is_rank ? MT_METRICS_ONE : MT_METRICS_RANKS, out);
    mt_text_release(&addition);
    mt_text_release(&own);
    mt_text_release(&file);
    return status;
}

/* The program while it runs. */
struct recording {
    const struct record_options *record;
    struct mt_metrics *metrics; /* NULL: none */
};

static void print_note(void *context, const char *text)
{
    (void)context;
    mt_note("%s", text);
}

static void begin_metrics(void *context, const char *trace)
{
    struct recording *recording = context;
    if (start_metrics(recording->record, trace, &recording->metrics) != MT_OK)
        mt_note("%s; the program runs without metrics", mt_last_error());
}

/* Runs the program, with metrics of the recorded runs. */
static mt_status run_program(const struct record_options *record, struct mt_program_outcome *out)
{
    struct recording recording = {.record = record};
    const struct mt_recorded_program program = {.words = record->words,
                                                .python = record->python,
                                                .trace = record->trace,
                                                .name = record->name,
                                                .step = record->step,
                                                .watches_kernels = record->kernels,
                                                .leaves_torch = record->no_torch,
                                                .leaves_stacks = record->no_stacks,
                                                .finds_holders = record->holders,
                                                .uses_our_alloc = record->allocator == OURS,
                                                .device = (int)record->device};
    const struct mt_recorded_observer observer = {&recording, print_note, begin_metrics};
    mt_status status = mt_recorded_program_run(&program, MT_OWN_OUTPUT, &observer, out);
    const struct mt_error error = mt_error_save(status);
    mt_metrics_end(recording.metrics);
    return mt_error_restore(&error, MT_OK);
}

/* Exits with the program's exit code; only this command does not return a status. */
static mt_status run_record(const void *given)
{
    const struct record_options *record = given;
    struct mt_program_outcome outcome;
    if (record->words == NULL)
        return mt_fail(MT_USAGE, "record: which program? memtrace record [OPTIONS] [--] PROGRAM [ARGS]");
    mt_program_python_note(record->words, record->python);
    if (run_program(record, &outcome) != MT_OK)
        mt_note("%s", mt_last_error());
    else if (outcome.path != NULL)
        tell_results(record, &outcome);
    const int code = outcome.code;
    mt_program_outcome_release(&outcome);
    exit(code);
}

const struct mt_command mt_command_record = {
    .name = "record",
    .summary = "Runs any CUDA program, unmodified, and records where its device memory goes.",
    .usage = "[OPTIONS] [--] PROGRAM [ARGS]",
    .details =
        "Allocations of every kind are recorded, with the function that the program called and the NVTX ranges\n"
        "around it: cudaMalloc, pools, managed and virtual memory, arrays, variables of modules. In a Python\n"
        "program, PyTorch's own allocator is watched: its blocks by module, role and step. Allocations inside\n"
        "another framework's segments are not visible.\n"
        "\n"
        "The program keeps its output, exit code and signals; a program ended by a signal exits with 128 plus the\n"
        "signal's number. If something cannot be recorded, memtrace prints one line on stderr and the program\n"
        "continues.\n" MT_SCRIPT_HELP "\n"
        "Each process that uses CUDA becomes a run. The first is added to the trace. Processes that run at the same\n"
        "time write traces of their own, FILE-PID, or by rank under torchrun. Their names are printed at the end.\n",
    .failed_means = "the program's own meaning: every exit code is the program's",
    .examples = "  memtrace record train.py --epochs 1\n"
                "  memtrace record --kernels --name baseline ./simulate input.dat\n"
                "  memtrace record -- torchrun --nproc-per-node 2 train.py\n"
                "  memtrace record --step iteration --trace train.db train.py\n"
                "  memtrace peak\n",
    .options = options,
    MT_OPTIONS_OF(struct record_options, .trace = MT_DEFAULT_TRACE, .device = MT_EVERY_DEVICE),
    .run = run_record,
};
