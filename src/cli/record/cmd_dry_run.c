/* memtrace dry-run: runs a PyTorch program without a card. */
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/record/dry_options.h"
#include "cli/record/dry_report.h"
#include "cli/record/program_notes.h"
#include "cli/write/timeline_page.h"
#include "producers/program/assumed_runs.h"
#include "producers/program/child_program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dry_run_options {
    bool help;
    const char *trace, *name, *device, *steps, *page;
    struct mt_dry_options dry;
    struct mt_dry_report_options report;
};

static const struct mt_option options[] = {
    MT_DRY_PROGRAM(struct dry_run_options, dry),
    MT_OPTION(TEXT, struct dry_run_options, device, "--device", .value = "CARD", .takes = MT_TAKES_DEVICE,
              .help = "the card that the program sees: sim:h100, sim:rtx4090, sim:24GiB (sim, the H200)"),
    MT_DRY_OPTIONS(struct dry_run_options, dry),
    MT_OPTION(TEXT, struct dry_run_options, steps, "--steps", .value = "N|all",
              .help = "end the program after N steps, or never (default: loops end once they repeat themselves)"),
    MT_OPTION(INTEGER, struct dry_run_options, dry.time_limit, "--time-limit", .value = "SECONDS", .low = 1,
              .high = MT_MOST_DRY_SECONDS, .help = "end the program after this time"),
    MT_OPTION(FLAG, struct dry_run_options, report.strict, "--strict",
              .help = "exit with 9 if something that could take memory is unknown or did not run"),
    MT_OPTION(TEXT, struct dry_run_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct dry_run_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_OPTION(TEXT, struct dry_run_options, page, "--page", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = MT_PAGE_HELP ", of the run that needs most"),
    MT_OPTION(FLAG, struct dry_run_options, report.json, "--json",
              .help = "print the verdict as JSON; what the program prints goes to stderr"),
    MT_OPTION_HELP(struct dry_run_options),
    MT_OPTIONS_END,
};

/* Parses "all" or a number. */
static mt_status read_steps(const char *text, int64_t *out)
{
    *out = MT_ALL_DRY_STEPS;
    if (text == NULL)
        *out = 0;
    if (text == NULL || strcmp(text, "all") == 0)
        return MT_OK;
    return mt_parse_integer("--steps", text, 1, MT_MOST_DRY_STEPS, out);
}

/* If requested, writes the page of the run that needs most, if there is a run. */
static void write_page(const struct mt_dry_report *reports, size_t count, const char *page)
{
    const struct mt_dry_report_run *run = mt_dry_reports_worst(reports, count);
    if (page != NULL && run != NULL && mt_timeline_page_write(run->path, run->row.run, page) != MT_OK)
        mt_note("there is no page: %s", mt_last_error());
}

/* Reports on a program that has run once for each assumed value, and returns the exit code. */
static int report_on(const struct mt_assumed_run *runs, size_t count, const struct dry_run_options *asked)
{
    struct mt_dry_report *reports = mt_host_alloc(count * sizeof *reports);
    for (size_t i = 0; i < count; i++) {
        mt_program_ranks_note(&runs[i].outcome);
        mt_dry_report_load(&runs[i].outcome, asked->trace, runs[i].value, &reports[i]);
    }
    mt_dry_reports_print(reports, count, &asked->report);
    write_page(reports, count, asked->page);
    const int code = mt_dry_reports_code(reports, count, asked->report.strict);
    for (size_t i = 0; i < count; i++)
        mt_dry_report_release(&reports[i]);
    free(reports);
    return code;
}

/* Runs the program, as one process or as ranks, and reports on it. Exits; returns only if the program was not
 * started. */
static mt_status run_dry(const void *given)
{
    const struct dry_run_options *asked = given;
    struct mt_dry_options dry = asked->dry;
    const struct mt_dry_child child = {
        .options = &dry, .device = asked->device, .trace = asked->trace, .name = asked->name};
    struct mt_assumed_run *runs;
    size_t count;
    if (dry.words == NULL)
        return mt_fail(MT_USAGE, "dry-run: which program? memtrace dry-run [OPTIONS] [--] PROGRAM [ARGS]");
    MT_TRY(read_steps(asked->steps, &dry.steps));
    mt_program_python_note(dry.words, dry.python);
    mt_status status =
        mt_assumed_runs_make(&child, dry.words, asked->report.json ? STDERR_FILENO : MT_OWN_OUTPUT, &runs, &count);
    int code = count > 0 ? runs[0].outcome.code : 0;
    if (status == MT_OK)
        code = report_on(runs, count, asked);
    else if (code != 0)
        mt_note("%s", mt_last_error());
    mt_assumed_runs_release(runs, count);
    if (status != MT_OK && code == 0)
        return mt_dry_hint(status, &dry);
    exit(code);
}

const struct mt_command mt_command_dry_run = {
    .name = "dry-run",
    .summary = "Runs a PyTorch program on a simulated card and reports what it would allocate, to the byte.",
    .usage = "[OPTIONS] [--] PROGRAM [ARGS]",
    .details =
        "No GPU is needed, and the program is not changed. It sees the card that --device names. PyTorch decides\n"
        "what is allocated and freed; memtrace's allocator hands out the memory as PyTorch's would on that card.\n"
        "Large tensors have no data: values of up to 1 MiB are computed on the host, others are assumed. --assume "
        "says\n"
        "what: a number for losses and norms; none, all or a percentage for the true elements of masks. A list of "
        "several,\n"
        "such as 0.5,2,none, runs PROGRAM once for each, and says whether the peak depends on them.\n"
        "\n"
        "Loops end once they repeat themselves: loops over a DataLoader, transformers' Trainer and Lightning end\n"
        "early, and the program continues after them; in other loops it ends. --steps all runs everything.\n"
        "Where the card is full, torch.OutOfMemoryError is raised.\n" MT_SCRIPT_HELP "\n"
        "The last line is the verdict: whether the program fits, or where and by how much it does not. The lines\n"
        "before it name shortened loops, code that did not run, and unknown memory.\n"
        "\n"
        "Once PyTorch is imported, what PROGRAM's Python code writes, renames or removes goes to a folder of the job,\n"
        "which it reads back and which is removed at the end: your files stay as they were. Checkpoints hold shapes,\n"
        "not bytes.\n"
        "\n"
        "With --ranks, or if PROGRAM is a launcher (torchrun, accelerate launch, deepspeed, srun, mpirun), each\n"
        "rank is run alone and has its own trace. No GPU and no network are needed: collectives allocate as on cards,\n"
        "and move no data.\n",
    .failed_means = "the program's own meaning: exit codes are the program's, except 5, 7, 8 and 9",
    .examples = "  memtrace dry-run train.py --batch 8\n"
                "  memtrace dry-run --device sim:rtx4090 --steps 3 -- python3 -m my.trainer config.yaml\n"
                "  memtrace dry-run --assume 1,none,50% detect.py\n"
                "  memtrace dry-run -- torchrun --nproc-per-node 8 train.py\n"
                "  memtrace dry-run --ranks 512 --only 0,1,511 -- torchrun --nproc-per-node 8 train.py\n"
                "  memtrace peak --by module\n",
    .answer = &mt_dry_report_type,
    .options = options,
    MT_OPTIONS_OF(struct dry_run_options, .trace = MT_DEFAULT_TRACE, .device = "sim", .dry = MT_DRY_OPTIONS_USUAL),
    .run = run_dry,
};
