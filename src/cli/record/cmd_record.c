/* memtrace record: any program, recorded. */
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/record/recording.h"
#include "cli/watch/metrics.h"
#include "device/module.h"
#include "producers/cuda/account.h"
#include "producers/file/import.h"
#include "producers/program/child_program.h"
#include "producers/program/program_words.h"
#include "producers/program/python_start.h"
#include "run/handover.h"
#include "run/process_trace.h"
#include "trace/store/recorder.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record_options {
    bool help, kernels, no_torch, no_stacks;
    int allocator; /* an index of allocators */
    const char *trace, *name, *step;
    int64_t device;
    struct mt_metrics_options metrics;
    char *const *words; /* the program and its arguments */
};

enum { OWN, OURS };
static const char *const allocators[] = {[OWN] = "own", [OURS] = "ours", NULL};

static const struct mt_option options[] = {
    MT_OPTION(REST, struct record_options, words, "PROGRAM", .value = "PROGRAM [ARGS]", .takes = MT_TAKES_FILE,
              .help = "what to run, and its arguments, which are left as they are"),
    MT_OPTION(FLAG, struct record_options, kernels, "--kernels",
              .help = "trace each kernel, too: memtrace kernels asks about them"),
    MT_OPTION(FLAG, struct record_options, no_torch, "--no-torch",
              .help = "do not look into PyTorch's allocator: record its segments as any memory"),
    MT_OPTION(FLAG, struct record_options, no_stacks, "--no-stacks",
              .help = "of PyTorch: record no call stacks, lines and operators, which takes less time"),
    MT_OPTION(CHOICE, struct record_options, allocator, "--allocator", .value = "WHICH", .choices = allocators,
              .help = "of PyTorch: its own, or memtrace's in its place (own)"),
    MT_OPTION(TEXT, struct record_options, step, "--step", .value = "TEXT",
              .help = "ranges of NVTX whose name begins so are training steps"),
    MT_OPTION(INTEGER, struct record_options, device, "--device", .value = "N", .low = 0, .high = 1023,
              .help = "count the memory of this GPU only, by CUDA's number (all of them unless given)"),
    MT_OPTION(TEXT, struct record_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct record_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_METRICS_OPTIONS(struct record_options),
    MT_OPTION_HELP(struct record_options),
    MT_OPTIONS_END,
};

_Static_assert((int)MT_EVERY_DEVICE == (int)MT_IMPORT_ANY_DEVICE, "--device is handed to an import");

/* A recording, and the library that records CUDA's calls. */
struct recorded {
    struct mt_recording recording;
    char *library; /* NULL: there is none that can be used */
};

/* Finds the library by opening it, which fails if there is no CUPTI. */
static mt_status find_library(struct recorded *recorded)
{
    mt_inject_refusal_function refusal = NULL;
    Dl_info where;
    mt_status status = mt_module_find(MT_INJECT_FILE, MT_INJECT_REFUSAL_NAME, (void **)&refusal);
    if (status != MT_OK)
        return mt_fail_hint(status,
                            "recording takes CUPTI, of the CUDA toolkit, where memtrace is built and where it runs");
    if (refusal() != NULL)
        return mt_fail(MT_FAILED, "%s", refusal());
    if (dladdr((void *)refusal, &where) == 0 || (recorded->library = realpath(where.dli_fname, NULL)) == NULL)
        return mt_fail(MT_FAILED, "%s can't be found again", MT_INJECT_FILE);
    return MT_OK;
}

/* Fails if another tool is there: the driver and NVTX load one library each. */
static mt_status check_environment(void)
{
    static const char *const taken[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        const char *value = secure_getenv(taken[i]);
        if (value != NULL && value[0] != '\0')
            return mt_fail(MT_FAILED, "another tool is there: %s is %s", taken[i], value);
    }
    return MT_OK;
}

/* Has the driver and NVTX load the library that records CUDA's calls. */
static mt_status prepare_cuda(struct recorded *recorded)
{
    MT_TRY(check_environment());
    MT_TRY(find_library(recorded));
    setenv("CUDA_INJECTION64_PATH", recorded->library, 1);
    setenv("NVTX_INJECTION64_PATH", recorded->library, 1);
    return MT_OK;
}

/* Has Python record PyTorch, if that is wanted and possible; appends to *obstacle why it is not possible. A build that can't
 * says so of Python alone, since any program may be none of PyTorch's. */
static mt_record_torch prepare_torch(const struct record_options *record, struct mt_text *obstacle)
{
    if (record->no_torch)
        return MT_RECORD_TORCH_NOT;
    const char *refused = mt_python_start_refused(record->words);
    mt_status status = refused == NULL ? mt_python_start() : MT_FAILED;
    if (status == MT_OK)
        return record->allocator == OURS && !record->kernels ? MT_RECORD_TORCH_OURS : MT_RECORD_TORCH_OWN;
    if (refused != NULL)
        mt_text_add(obstacle, "%s keeps memtrace out of Python", refused);
    else if (status != MT_NO_DEVICE || mt_python_is(record->words[0]))
        mt_text_add(obstacle, "%s", mt_last_error());
    return MT_RECORD_TORCH_NOT;
}

/* Prepares both ways of recording. Fails if neither is left; notes which one is missing. */
static mt_status prepare_ways(const struct record_options *record, struct recorded *recorded, mt_record_torch *out)
{
    struct mt_text obstacle = {0};
    *out = prepare_torch(record, &obstacle);
    mt_status status = *out != MT_RECORD_TORCH_OURS ? prepare_cuda(recorded) : MT_OK;
    if (status != MT_OK && *out != MT_RECORD_TORCH_NOT && !record->kernels) {
        mt_note("%s; only PyTorch's own allocator is recorded", mt_last_error());
        status = MT_OK;
    } else if (status != MT_OK && obstacle.length > 0) {
        char *error = mt_host_strdup(mt_last_error());
        status = mt_fail(status, "%s; %s", obstacle.data, error);
        free(error);
    } else if (obstacle.length > 0) {
        mt_note("%s, so PyTorch's allocator is not watched", obstacle.data);
    }
    mt_text_release(&obstacle);
    return status;
}

static mt_status prepare(const struct record_options *record, struct recorded *recorded)
{
    mt_record_torch torch;
    MT_TRY(mt_recording_begin(record->trace, &recorded->recording));
    MT_TRY(prepare_ways(record, recorded, &torch));
    const struct mt_record_request request = {.trace = recorded->recording.path,
                                              .answers = recorded->recording.answers,
                                              .name = record->name,
                                              .step = record->step,
                                              .watches_kernels = record->kernels,
                                              .leaves_stacks = record->no_stacks,
                                              .torch = torch,
                                              .device = (int)record->device};
    mt_record_request_give(&request);
    return MT_OK;
}

struct report {
    const struct record_options *record;
    const struct mt_recording *recording;
    int runs, notes;
};

/* Returns the trace that the file TRACE-pid.pickle is for; the caller frees it. NULL if the file is called otherwise. */
static char *trace_of_history(const struct mt_record_answer *answer)
{
    struct mt_text ending = {0};
    mt_text_add(&ending, "-%" PRId64 ".pickle", answer->pid);
    const size_t length = strlen(answer->text), rest = length > ending.length ? length - ending.length : 0;
    const bool fits = rest > 0 && strcmp(answer->text + rest, ending.data) == 0;
    mt_text_release(&ending);
    char *trace = fits ? mt_host_strdup(answer->text) : NULL;
    if (fits)
        trace[rest] = '\0';
    return trace;
}

static void tell_history(const struct report *report, const struct mt_record_answer *answer, const char *trace,
                         const struct mt_import_report *history)
{
    const struct mt_record_answer run = {
        .kind = MT_RECORD_RUN, .pid = answer->pid, .number = history->run, .text = trace};
    unlink(answer->text);
    mt_note("process %" PRId64 ": %" PRIu64 " events of PyTorch's memory history were imported%s", answer->pid,
            history->entries, history->torch.lost_beginning ? "; those before them are lost, since it was full" : "");
    mt_recording_tell_run(report->recording, &run);
}

/* Imports PyTorch's memory history, and removes its file if that succeeds. */
static void import_history(struct report *report, const struct mt_record_answer *answer)
{
    char *trace = trace_of_history(answer);
    struct mt_import_report history;
    if (trace == NULL)
        return;
    const struct mt_import_plan plan = {
        .file = answer->text, .trace = trace, .name = report->record->name, .device = report->record->device};
    if (mt_import(&plan, &history) == MT_OK)
        tell_history(report, answer, trace, &history);
    else
        mt_note("process %" PRId64 ": %s; PyTorch's memory history is left in %s", answer->pid, mt_last_error(),
                answer->text);
    mt_import_report_release(&history);
    free(trace);
}

static void tell_answer(void *context, const struct mt_record_answer *answer)
{
    struct report *report = context;
    if (answer->kind == MT_RECORD_RUN) {
        report->runs++;
        mt_recording_tell_run(report->recording, answer);
        return;
    }
    report->notes++;
    if (answer->kind == MT_RECORD_HISTORY) {
        import_history(report, answer);
        return;
    }
    mt_recording_tell_note(answer);
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

/* Notes each run of the program, or why there is none. */
static void tell_results(const struct mt_recording *recording, const struct record_options *record)
{
    struct report report = {.record = record, .recording = recording};
    if (mt_record_answers_read(recording->answers, tell_answer, &report) != MT_OK)
        mt_note("%s", mt_last_error());
    else if (report.runs == 0 && report.notes == 0)
        tell_nothing(record);
}

/* Begins metrics. Where this process is itself a rank of a job, they are its own: in a file with the rank in its name, at a
 * port of its own. */
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
    mt_status status = mt_metrics_start(&places, own.data, is_rank ? MT_METRICS_ONE : MT_METRICS_RANKS, out);
    mt_text_release(&addition);
    mt_text_release(&own);
    mt_text_release(&file);
    return status;
}

/* Runs the program, with metrics of what is recorded of it. */
static mt_status run_program(const struct record_options *record, const struct recorded *recorded, int *out_code)
{
    struct mt_metrics *metrics = NULL;
    if (recorded->recording.path != NULL && start_metrics(record, recorded->recording.path, &metrics) != MT_OK)
        mt_note("%s; the program runs without metrics", mt_last_error());
    mt_status status = mt_child_program_run(record->words, out_code);
    const struct mt_error error = mt_error_save(status);
    mt_metrics_stop(metrics);
    return mt_error_restore(&error, MT_OK);
}

/* Exits with the program's exit code, so this one command returns no status. */
static mt_status run_record(const void *given)
{
    struct record_options record = *(const struct record_options *)given;
    struct recorded recorded = {0};
    struct mt_program_words words;
    int code;
    if (record.words == NULL)
        return mt_fail(MT_USAGE, "record: which program? memtrace record [OPTIONS] [--] PROGRAM [ARGS]");
    mt_program_words_find(record.words, &words);
    record.words = words.words;
    bool is_recorded = prepare(&record, &recorded) == MT_OK;
    if (!is_recorded)
        mt_note("%s; the program runs without being recorded", mt_last_error());
    mt_status status = run_program(&record, &recorded, &code);
    if (status != MT_OK)
        mt_note("%s", mt_last_error());
    else if (is_recorded)
        tell_results(&recorded.recording, &record);
    mt_recording_end(&recorded.recording);
    free(recorded.library);
    mt_program_words_release(&words);
    exit(code);
}

const struct mt_command mt_command_record = {
    .name = "record",
    .summary = "Runs any CUDA program, unmodified, and records where its device memory goes.",
    .usage = "[OPTIONS] [--] PROGRAM [ARGS]",
    .details =
        "Allocations of every kind are recorded by the function that the program called, with the ranges of NVTX\n"
        "that it was in: cudaMalloc, pools, managed and virtual memory, arrays, variables of modules. In a Python\n"
        "program PyTorch's own allocator is watched: the blocks that it hands out, by module, role and step. What\n"
        "another framework's allocator does inside of its segments is its affair.\n"
        "\n"
        "The program's output, exit code and signals are its own: one that a signal ended gives 128 and the\n"
        "signal's number. What can't be had is said in one line on stderr, and the program runs on.\n" MT_SCRIPT_HELP
        "\n"
        "Each process that uses CUDA becomes a run. The first is added to the trace; those that run beside it get\n"
        "traces of their own, FILE-PID, or by the rank that torchrun gives them, which are named at the end.\n",
    .failed_means = "what the program says by it: every exit code is the program's",
    .examples = "  memtrace record train.py --epochs 1\n"
                "  memtrace record --kernels --name baseline ./simulate input.dat\n"
                "  memtrace record -- torchrun --nproc-per-node 2 train.py\n"
                "  memtrace record --step iteration --trace train.db train.py\n"
                "  memtrace peak\n",
    .options = options,
    MT_OPTIONS_OF(struct record_options, .trace = MT_DEFAULT_TRACE, .device = MT_EVERY_DEVICE),
    .run = run_record,
};
