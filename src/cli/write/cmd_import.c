/* memtrace import: files of other programs as runs of a trace. */
#include "base/clock.h"
#include "cli/output/output.h"
#include "cli/write/import_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct import_options {
    bool help, json;
    const char *file, *rules, *trace, *name;
    int64_t device;
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct import_options, file, "FILE", .takes = MT_TAKES_FILE, .help = "what to import"),
    MT_OPTION(TEXT, struct import_options, rules, "--rules", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "rules that say what blocks are for, asked before those that are built in"),
    MT_OPTION(TEXT, struct import_options, name, "--name", .value = "TEXT",
              .help = "a name for the run (of one that memtrace exported, its own unless given)"),
    MT_OPTION(
        INTEGER, struct import_options, device, "--device", .value = "N", .low = 0, .high = INT32_MAX,
        .help = "of a file about several devices, the one to import (that with most events, or memory, unless given)"),
    MT_OPTION(TEXT, struct import_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the trace to add a run to (" MT_DEFAULT_TRACE " unless given)"),
    MT_OPTION_JSON(struct import_options),
    MT_OPTION_HELP(struct import_options),
    MT_OPTIONS_END,
};

static mt_status print_run(const struct import_options *import, struct mt_imported_run *imported,
                           const struct mt_question *question)
{
    struct mt_run_peaks peaks;
    mt_status status = mt_run_peaks_load(question, &peaks);
    imported->question = question;
    imported->peaks = &peaks;
    if (status == MT_OK && import->json)
        mt_import_print_json(imported);
    else if (status == MT_OK)
        mt_import_print(imported);
    mt_run_peaks_release(&peaks);
    return status;
}

/* Reads the run back from the trace, so that the answer agrees with those of all other commands. */
static mt_status show_import(const struct import_options *import, const struct mt_import_report *report, double seconds)
{
    char number[MT_BYTES_TEXT];
    struct mt_question question;
    snprintf(number, sizeof number, "%" PRId64, report->run);
    const struct mt_trace_options asked = {.trace = import->trace, .run = number};
    struct mt_imported_run imported = {
        .report = report, .file = import->file, .trace = import->trace, .seconds = seconds};
    mt_status status = mt_question_open(&asked, &question);
    if (status != MT_OK)
        return status;
    status = print_run(import, &imported, &question);
    mt_question_close(&question);
    return status;
}

static bool is_readable(const char *path)
{
    struct stat about;
    return access(path, R_OK) == 0 && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static mt_status run_import(const void *given)
{
    const struct import_options *import = given;
    const struct mt_import_plan plan = {.file = import->file,
                                        .trace = import->trace,
                                        .name = import->name,
                                        .rules = import->rules,
                                        .device = import->device};
    struct mt_import_report report;
    if (import->file == NULL)
        return mt_fail(MT_USAGE, "name the file to import, such as snapshot.pickle");
    uint64_t begin = mt_clock_ns();
    mt_status status = mt_import(&plan, &report);
    if (is_readable(import->file) && (import->rules == NULL || is_readable(import->rules))) /* what failed is writing */
        mt_fail_writing_hint(status, NULL);
    double seconds = (double)(mt_clock_ns() - begin) / 1e9;
    if (status == MT_OK)
        status = show_import(import, &report, seconds);
    mt_import_report_release(&report);
    return status;
}

const struct mt_command mt_command_import = {
    .name = "import",
    .summary = "Makes a run of a file that another program wrote: PyTorch, Nsight Systems or RMM.",
    .usage = "FILE [OPTIONS]",
    .details = "FILE is a memory snapshot of PyTorch, as torch.cuda.memory._dump_snapshot() writes it, a pickle, or "
               "the same as\n"
               "JSON; an export of Nsight Systems to SQLite; or a log of RMM in CSV; as it is or, but for SQLite, "
               "through gzip.\n"
               "It is read as data: nothing in it is executed. All other commands work on the run: peak, top, diff, "
               "categories,\n"
               "advise, check, timeline. What blocks are for is told by rules over who asked for them; docs/import.md "
               "explains\n"
               "how to write some.\n",
    .examples = "  memtrace import snapshot.pickle\n"
                "  memtrace import before.pickle.gz --name before && memtrace import after.pickle.gz --name after\n"
                "  memtrace diff before after\n"
                "  memtrace import snapshot.pickle --rules mine.rules\n",
    .options = options,
    MT_OPTIONS_OF(struct import_options, .trace = MT_DEFAULT_TRACE, .device = MT_IMPORT_ANY_DEVICE),
    .answer = &mt_import_answer_type,
    .run = run_import,
};
