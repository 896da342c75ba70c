/* memtrace sweep: a grid of runs in one trace. */
#include "analysis/run_settings.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/report_form.h"
#include "cli/record/program_notes.h"
#include "cli/run/program_sweep_report.h"
#include "cli/run/sweep_report.h"
#include "cli/run/told_session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct sweep_options {
    struct mt_run_options run; /* lists of values for the axes, and single values for other settings */
    bool again;
    int format;                 /* of mt_report_format_names */
    struct mt_option_list vary; /* values of a program's arguments */
    struct mt_dry_options dry;  /* the program; its steps are in `run` */
};

static const struct mt_option options[] = {
    MT_DRY_PROGRAM(struct sweep_options, dry),
    MT_OPTION(LIST, struct sweep_options, vary, "--vary", .value = "NAME=VALUE,...",
              .help = "values of the argument @NAME of PROGRAM; may be repeated"),
    MT_DRY_OPTIONS(struct sweep_options, dry),
    MT_RUN_SETTINGS(mt_sweep_setting_option, offsetof(struct sweep_options, run)),
    MT_OPTION(TEXT, struct sweep_options, run.device, "--device", .value = "DEVICE", .takes = MT_TAKES_DEVICE,
              .help = "as for memtrace run (auto)"),
    MT_OPTION(FLAG, struct sweep_options, run.kernels, "--kernels",
              .help = "trace each kernel, too, on sim its estimate"),
    MT_OPTION(TEXT, struct sweep_options, run.trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the runs are added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION_WAIT(struct mt_run_options),
    MT_OPTION(TEXT, struct sweep_options, run.name, "--name", .value = "TEXT",
              .help = "name of the runs: TEXT and the values that vary, joined by dashes"),
    MT_OPTION(FLAG, struct sweep_options, again, "--again", .help = "also run the cells that the trace already has"),
    MT_OPTION(CHOICE, struct sweep_options, format, "--format", .value = "FORMAT", .choices = mt_report_format_names,
              .help = "of the table (text)"),
    MT_OPTION_JSON(struct mt_run_options),
    MT_OPTION_HELP(struct mt_run_options),
    MT_OPTIONS_END,
};

/* The trace's runs and their settings, to be compared with cells. */
struct earlier {
    struct mt_trace *trace; /* NULL: no trace yet */
    struct earlier_run {
        int64_t id;
        struct mt_settings settings;
    } * runs;
    size_t count;
};

/* Keeps the run if it is done or ran out of memory. A repetition of any other run could end differently. */
static mt_status keep_run(void *context, struct mt_trace *trace, const struct mt_run *run)
{
    struct earlier *earlier = context;
    if (!mt_run_is(run, MT_RUN_DONE) && !mt_run_is(run, MT_RUN_OOM))
        return MT_OK;
    earlier->runs = mt_host_resize(earlier->runs, earlier->count + 1, sizeof *earlier->runs);
    struct earlier_run *kept = &earlier->runs[earlier->count++];
    *kept = (struct earlier_run){.id = run->id};
    return mt_settings_load(trace, run, &kept->settings);
}

static mt_status load_earlier(const struct sweep_options *options_given, struct earlier *out)
{
    *out = (struct earlier){0};
    if (options_given->again || access(options_given->run.trace, F_OK) != 0)
        return MT_OK;
    mt_status status = mt_trace_open(options_given->run.trace, &out->trace);
    return status == MT_OK ? mt_runs_visit(out->trace, NULL, keep_run, out) : status;
}

static void release_earlier(struct earlier *earlier)
{
    for (size_t i = 0; i < earlier->count; i++)
        mt_settings_release(&earlier->runs[i].settings);
    free(earlier->runs);
    mt_trace_close(earlier->trace);
}

/* Returns the newest run that is equal to the cell on this device; 0: none. */
static int64_t find_equal(const struct earlier *earlier, const struct mt_sweep_cell *cell,
                          const struct mt_device *device)
{
    struct mt_settings settings = mt_settings_of_plan(&cell->plan, device);
    int64_t found = 0;
    for (size_t i = earlier->count; i-- > 0 && found == 0;)
        if (mt_settings_agree(&earlier->runs[i].settings, &settings, MT_SETTINGS_ALL, NULL))
            found = earlier->runs[i].id;
    mt_settings_release(&settings);
    return found;
}

/* Marks the cells that the trace already has. */
static mt_status find_cells(const struct sweep_options *sweep, const struct mt_sweep_grid *grid,
                            const struct mt_device *device, struct mt_sweep_result *results)
{
    struct earlier earlier;
    mt_status status = load_earlier(sweep, &earlier);
    for (size_t i = 0; i < grid->cell_count && status == MT_OK; i++) {
        results[i].run = find_equal(&earlier, &grid->cells[i], device);
        if (results[i].run != 0)
            results[i].outcome = MT_CELL_WAS_THERE;
    }
    release_earlier(&earlier);
    return status;
}

/* Opens the device once before all cells, so that its error is printed only once. Resolves the device "auto", and finds
 * out whether its kernels can be watched. */
static mt_status prepare(const struct sweep_options *sweep, struct mt_sweep_grid *grid, struct mt_sweep_result *results)
{
    const char *spelling = sweep->run.device != NULL ? sweep->run.device : MT_DEVICE_AUTO;
    struct mt_device *device;
    MT_TRY(mt_told_device_open(spelling, &device));
    if (strcmp(spelling, MT_DEVICE_AUTO) == 0)
        spelling = mt_device_kind(device);
    bool watches = sweep->run.kernels && mt_device_watch_kernels(device) == MT_OK;
    if (sweep->run.kernels && !watches)
        mt_note("%s; the runs go on without records of kernels", mt_last_error());
    for (size_t i = 0; i < grid->cell_count; i++) {
        grid->cells[i].plan.device = spelling;
        grid->cells[i].plan.watches_kernels = watches;
    }
    mt_status status = find_cells(sweep, grid, device, results);
    mt_device_close(device);
    return status;
}

/* Notes "cell 3 of 60: …". */
static void note_cell(const struct mt_sweep_grid *grid, size_t cell, const struct mt_sweep_result *result)
{
    struct mt_text text = {0};
    mt_sweep_describe_cell(grid, &grid->cells[cell], &text);
    if (result->outcome == MT_CELL_WAS_THERE)
        mt_note("cell %zu of %zu: %s: is in the trace as run %" PRId64, cell + 1, grid->cell_count, text.data,
                result->run);
    else
        mt_note("cell %zu of %zu: %s", cell + 1, grid->cell_count, text.data);
    mt_text_release(&text);
}

/* Runs a cell. Out of memory is a result; any other failure is stored with the cell, and noted if it has a run. */
static mt_status run_cell(const struct mt_sweep_cell *cell, struct mt_sweep_result *out)
{
    struct mt_run_result result;
    mt_status status = mt_told_session(&cell->plan, &result);
    const char *error = status != MT_OK ? mt_last_error() : result.error;
    if (status == MT_OK && result.status != MT_OUT_OF_MEMORY)
        status = result.status;
    assert(out->outcome != MT_CELL_WAS_THERE && out->run == 0);
    out->run = result.run;
    if (status != MT_OK) {
        out->outcome = MT_CELL_FAILED;
        out->error = mt_host_strdup(error);
        if (out->run != 0)
            mt_note("%s", out->error);
    }
    mt_run_result_release(&result);
    return status;
}

/* Set by the first ^C, since a signal handler may do nothing more. The only global variable of the command line. */
static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
    mt_interrupt_say("\nmemtrace: this cell is ended first; ^C again leaves it undone\n");
}

/* Runs every cell that the trace does not have, and returns the first failure. Continues after a failed run. Ends early
 * at ^C, or if no run can be added to the trace, for example since another process writes it. *out_count is the number
 * of cells that were handled. */
static mt_status run_cells(const struct mt_sweep_grid *grid, struct mt_sweep_result *results, size_t *out_count)
{
    mt_status first = MT_OK;
    *out_count = 0;
    for (size_t i = 0; i < grid->cell_count && !is_interrupted; i++) {
        mt_status status = MT_OK;
        note_cell(grid, i, &results[i]);
        if (results[i].outcome != MT_CELL_WAS_THERE)
            status = run_cell(&grid->cells[i], &results[i]);
        if (status != MT_OK && results[i].run == 0)
            return status;
        first = mt_status_keep(first, status);
        *out_count = i + 1;
    }
    return first;
}

/* Fails for a sweep that ended after `count` cells, or with failed cells. */
static mt_status fail_cells(mt_status status, const struct mt_sweep_grid *grid, const struct mt_sweep_result *results,
                            size_t count)
{
    static const char resume[] = "the same command, without --again, runs the others";
    size_t failed = 0;
    assert(count <= grid->cell_count);
    if (count < grid->cell_count && status != MT_OK && results[count].error != NULL)
        return mt_fail(status, "cell %zu of %zu can't be begun: %s", count + 1, grid->cell_count, results[count].error);
    if (count < grid->cell_count)
        return mt_fail(MT_FAILED, "interrupted after %zu of %zu cells; %s", count, grid->cell_count, resume);
    for (size_t i = 0; i < grid->cell_count; i++)
        failed += results[i].outcome == MT_CELL_FAILED;
    return mt_fail(status, "%zu of %zu cells failed", failed, grid->cell_count);
}

static mt_status sweep_grid(const struct sweep_options *sweep, mt_report_form form, struct mt_sweep_grid *grid,
                            struct mt_sweep_result *results)
{
    struct sigaction before;
    mt_status status = prepare(sweep, grid, results);
    if (status != MT_OK)
        return status;
    struct mt_sweep_grid seen_to = *grid;
    is_interrupted = 0;
    mt_interrupt_catch(on_interrupt, &before);
    mt_status cells = run_cells(grid, results, &seen_to.cell_count);
    mt_interrupt_release(&before);
    const struct mt_sweep done = {sweep->run.trace, &seen_to, results};
    if (seen_to.cell_count > 0)
        status = mt_sweep_report(&done, form);
    if (cells == MT_OK && seen_to.cell_count == grid->cell_count)
        return status;
    return fail_cells(cells, grid, results, seen_to.cell_count);
}

static mt_status sweep_program(const struct sweep_options *sweep, mt_report_form form)
{
    struct mt_dry_options program = sweep->dry;
    mt_program_python_note(program.words, program.python);
    MT_TRY(mt_program_options_take(&sweep->run, &program));
    const struct mt_program_sweep grid = {.program = &program,
                                          .vary = sweep->vary.items,
                                          .vary_count = sweep->vary.count,
                                          .device = sweep->run.device != NULL ? sweep->run.device : "sim",
                                          .trace = sweep->run.trace,
                                          .name = sweep->run.name};
    return mt_program_sweep(&grid, form);
}

static mt_status run_sweep(const void *given)
{
    const struct sweep_options *sweep = given;
    mt_report_form form;
    MT_TRY(mt_report_form_find(sweep->run.json, sweep->format, &form));
    if (sweep->dry.words != NULL)
        return sweep_program(sweep, form);
    if (sweep->vary.count > 0)
        return mt_fail(MT_USAGE, "--vary is of a program's arguments: memtrace sweep --vary NAME=VALUE,... -- PROGRAM");
    if (sweep->dry.free != NULL)
        return mt_fail(MT_USAGE, "--free is about a program's card; here it is --device sim:CARD:free=SIZE");
    struct mt_run_options base = sweep->run;
    base.json = false; /* JSON of a sweep has no gradients, so they need not be read back */
    struct mt_sweep_grid grid;
    mt_status status = mt_sweep_grid_create(&base, &grid);
    if (status == MT_OK) {
        struct mt_sweep_result *results = mt_host_alloc(grid.cell_count * sizeof *results);
        status = sweep_grid(sweep, form, &grid, results);
        for (size_t i = 0; i < grid.cell_count; i++)
            free(results[i].error);
        free(results);
    }
    mt_sweep_grid_release(&grid);
    return status;
}

const struct mt_command mt_command_sweep = {
    .name = "sweep",
    .summary = "Runs a grid of configurations into one trace and compares their memory and time.",
    .usage = "[OPTIONS] [-- PROGRAM [ARGS]]",
    .details =
        "It has the options of memtrace run. Options whose value ends in ,... accept several values, separated by\n"
        "commas. They form a grid, and each combination is a run: by model first, then mode, autocast, sequence,\n"
        "batch. Allocator settings contain commas themselves, so each such value begins with policy=.\n"
        "\n"
        "A run that is out of memory is a result, and the sweep continues. It also continues after a run that\n"
        "failed, but then ends with that run's exit code. A cell that the trace already has with the same settings,\n"
        "completed or out of memory, is not run again, so the same command resumes an interrupted sweep. After ^C,\n"
        "the current cell completes and the results so far are printed; a second ^C stops at once.\n"
        "\n"
        "With a PyTorch program, the sweep makes a dry run (memtrace dry-run) for each combination of --vary's\n"
        "values, which replace @NAME in the arguments, also after a =. All cells are run, several at a time\n"
        "(--jobs).\n",
    .examples = "  memtrace sweep --model small,medium --seq 128,256,512 --autocast off,bf16 --device sim\n"
                "  memtrace sweep --model small --batch 1,2,4,8 --device sim:rtx4090 --name batches\n"
                "  memtrace sweep --model small,medium --impl eager,fused --warmup 0,5 --format markdown >times.md\n"
                "  memtrace sweep --model small --alloc policy=tight,policy=torch,max_split=200MiB --json\n"
                "  memtrace sweep --vary batch=2,4,8 --device sim:l4 train.py --batch @batch\n",
    .options = options,
    MT_OPTIONS_OF(struct sweep_options, .run.trace = MT_DEFAULT_TRACE, .run.wait = MT_USUAL_WAIT,
                  .dry = MT_DRY_OPTIONS_USUAL),
    .answer = &mt_sweep_answer_type,
    .run = run_sweep,
};
