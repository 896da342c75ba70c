/* Programs that the library starts, and their outcomes as rows. */
#include "api/trace_parts.h"

#include "analysis/fit/program_fit.h"
#include "analysis/fit/program_largest.h"
#include "analysis/program_sweep.h"
#include "analysis/torch_history.h"
#include "analysis/verdict.h"
#include "base/memory.h"
#include "producers/model/simulation.h"
#include "producers/program/assumed_runs.h"
#include "producers/program/assumed_values.h"
#include "producers/program/child_program.h"
#include "producers/program/dry_tasks.h"
#include "producers/program/rank_program.h"
#include "producers/program/recorded_program.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)MEMTRACE_EVERY_STEP == (int)MT_ALL_DRY_STEPS, "the numbers are the same");

/* ---- options ---- */

static mt_status check_range(const char *what, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return MT_OK;
    return mt_fail(MT_USAGE, "%s are %" PRId64 "; %" PRId64 " to %" PRId64 " are possible", what, value, low, high);
}

static mt_status check_output(int output)
{
    if (output == 0 || (output > 0 && fcntl(output, F_GETFD) >= 0))
        return MT_OK;
    return mt_fail(MT_USAGE, "output %d is not an open file", output);
}

/* Copies the options, with defaults where a field is NULL. */
static mt_status read_options(const memtrace_program_options *given, memtrace_program_options *out)
{
    MT_TRY(mt_api_copy_in("memtrace_program_options", given, out, sizeof *out));
    if (out->words == NULL || out->words[0] == NULL)
        return mt_fail(MT_USAGE, "the words of a program are missing");
    MT_TRY(check_range("cards", out->cards, 0, MT_MOST_DRY_CARDS));
    MT_TRY(check_range("ranks", out->ranks, 0, MT_MOST_RANKS));
    MT_TRY(check_range("steps", out->steps, MEMTRACE_EVERY_STEP, MT_MOST_DRY_STEPS));
    MT_TRY(check_range("seconds of the time limit", out->time_limit_s, 0, MT_MOST_DRY_SECONDS));
    MT_TRY(check_range("jobs", out->jobs, 0, MT_MOST_JOBS));
    MT_TRY(check_output(out->output));
    if (out->trace == NULL)
        out->trace = "memtrace.db";
    if (out->device == NULL && out->mode == MEMTRACE_RUN_DRY)
        out->device = "sim";
    return MT_OK;
}

static struct mt_dry_options dry_options(const memtrace_program_options *options)
{
    return (struct mt_dry_options){.assumed = options->assumed != NULL ? options->assumed : MT_ASSUMED_USUAL,
                                   .weights = options->weights,
                                   .free = options->free_memory,
                                   .only = options->only_ranks,
                                   .ranks = options->ranks,
                                   .cards = options->cards,
                                   .steps = options->steps,
                                   .time_limit = options->time_limit_s,
                                   .jobs = options->jobs,
                                   .words = (char *const *)options->words};
}

/* Reads the options of a function that makes dry runs. */
static mt_status read_dry_options(const memtrace_program_options *given, memtrace_program_options *out,
                                  struct mt_dry_options *out_dry)
{
    MT_TRY(read_options(given, out));
    if (out->mode != MEMTRACE_RUN_DRY)
        return mt_fail(MT_USAGE, "mode %d; only dry runs can be tried", (int)out->mode);
    *out_dry = dry_options(out);
    return MT_OK;
}

/* ---- answers ---- */

enum { MOST_TEXTS = 4 };

/* The texts in a kind of row, by their offsets. */
struct row_texts {
    size_t row_bytes, count, offsets[MOST_TEXTS];
};

static const char **text_of(const struct row_texts *texts, void *row, size_t number)
{
    return (const char **)(void *)((char *)row + texts->offsets[number]);
}

static size_t bytes_of(const struct row_texts *texts, char *rows, size_t count)
{
    size_t bytes = 1 + count * (sizeof(void *) + texts->row_bytes);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < texts->count; k++)
            bytes += strlen(*text_of(texts, rows + i * texts->row_bytes, k)) + 1;
    return bytes;
}

/* Packs rows and their texts into one allocation, with pointers to the rows at the front. Frees `rows` and the
 * texts. */
static const void **pack(const struct row_texts *texts, void *rows, size_t count)
{
    const void **pointers = mt_host_alloc(bytes_of(texts, rows, count));
    char *packed = (char *)(pointers + count), *place = packed + count * texts->row_bytes;
    if (count > 0)
        memcpy(packed, rows, count * texts->row_bytes);
    for (size_t i = 0; i < count; i++) {
        pointers[i] = packed + i * texts->row_bytes;
        for (size_t k = 0; k < texts->count; k++) {
            const char **text = text_of(texts, packed + i * texts->row_bytes, k);
            char *owned = (char *)(uintptr_t)*text;
            *text = place;
            place = stpcpy(place, owned) + 1;
            free(owned);
        }
    }
    free(rows);
    return pointers;
}

static char *copy_of(const char *text)
{
    return mt_host_strdup(mt_api_text(text));
}

/* ---- runs ---- */

/* The runs and notes of a program. */
struct found {
    memtrace_program_row *rows; /* an array for MT_HOST_ADD; owns its texts */
    size_t count;
    struct mt_text notes;
    const char *assumed; /* of the added runs; borrowed; NULL: none */
};

static void add_note(void *context, const char *text)
{
    struct found *found = context;
    mt_text_add(&found->notes, "%s%s", found->notes.length > 0 ? "\n" : "", text);
}

static void add_row(struct found *found, const char *trace, const struct mt_run *run, const struct mt_verdict *verdict)
{
    *MT_HOST_ADD(found->rows, found->count) = (memtrace_program_row){.trace = copy_of(trace),
                                                                     .run = run->id,
                                                                     .rank = run->rank,
                                                                     .state = copy_of(run->state),
                                                                     .fits = verdict->fits,
                                                                     .live_bytes = verdict->live_bytes,
                                                                     .reserved_bytes = verdict->reserved_bytes,
                                                                     .outside_bytes = verdict->outside_bytes,
                                                                     .needed_bytes = verdict->needed_bytes,
                                                                     .card_bytes = verdict->card_bytes,
                                                                     .short_bytes = verdict->short_bytes,
                                                                     .steps = verdict->steps,
                                                                     .line = copy_of(verdict->line.data),
                                                                     .assumed = copy_of(found->assumed)};
}

/* Adds a run, or a note that its trace can't be read. */
static void add_run(struct found *found, const char *trace, int64_t number)
{
    struct mt_question question = {0};
    struct mt_verdict verdict = {0};
    mt_status status = mt_trace_open(trace, &question.trace);
    MT_THEN(status, mt_trace_find_numbered(question.trace, number, &question.run));
    MT_THEN(status, mt_verdict_find(&question, &verdict));
    if (status == MT_OK)
        add_row(found, trace, question.run, &verdict);
    else
        add_note(found, mt_last_error());
    mt_verdict_release(&verdict);
    mt_trace_close(question.trace);
}

static void add_history(struct found *found, const char *name, int device, const struct mt_record_answer *answer)
{
    struct mt_torch_history history;
    mt_status status = mt_torch_history_import(answer, name, device, &history);
    if (status != MT_OK)
        add_note(found, mt_last_error());
    else if (history.trace != NULL)
        add_run(found, history.trace, history.report.run);
    mt_torch_history_release(&history);
}

static void find_runs(const struct mt_program_outcome *outcome, const char *name, int device, struct found *found)
{
    for (size_t i = 0; i < outcome->count; i++) {
        const struct mt_record_answer *answer = &outcome->answers[i];
        struct mt_text words = {0};
        if (answer->kind == MT_RECORD_RUN)
            add_run(found, answer->text, answer->number);
        else if (answer->kind == MT_RECORD_HISTORY)
            add_history(found, name, device, answer);
        else if (answer->kind == MT_RECORD_NOTE || answer->kind == MT_RECORD_LOST)
            mt_program_note_add(answer, &words);
        if (words.length > 0)
            add_note(found, words.data);
        mt_text_release(&words);
    }
    for (int64_t i = 0; i < outcome->notes.count; i++)
        add_note(found, outcome->notes.notes[i].words);
}

/* Dry-runs a program with each assumed value. */
static mt_status run_dry(const memtrace_program_options *options, int output, int *out_exit_code, struct found *found)
{
    const struct mt_dry_options dry = dry_options(options);
    const struct mt_dry_child child = {
        .options = &dry, .device = options->device, .trace = options->trace, .name = options->name};
    struct mt_assumed_run *runs;
    size_t count;
    *out_exit_code = 0;
    mt_status status = mt_assumed_runs_make(&child, dry.words, output, &runs, &count);
    for (size_t i = 0; i < count; i++) {
        found->assumed = runs[i].value;
        if (status == MT_OK)
            find_runs(&runs[i].outcome, options->name, MT_EVERY_DEVICE, found);
        if (*out_exit_code == 0)
            *out_exit_code = runs[i].outcome.code;
    }
    mt_assumed_runs_release(runs, count);
    return status;
}

static mt_status run_recorded(const memtrace_program_options *options, int device, int output, int *out_exit_code,
                              struct found *found)
{
    struct mt_program_outcome outcome = {0};
    const struct mt_recorded_program program = {.words = (char *const *)options->words,
                                                .trace = options->trace,
                                                .name = options->name,
                                                .step = options->step_range,
                                                .watches_kernels = options->kernels != 0,
                                                .leaves_stacks = options->no_stacks != 0,
                                                .device = device};
    const struct mt_recorded_observer observer = {.context = found, .note = add_note};
    mt_status status = mt_recorded_program_run(&program, output, &observer, &outcome);
    if (status == MT_OK)
        find_runs(&outcome, options->name, device, found);
    *out_exit_code = outcome.code;
    mt_program_outcome_release(&outcome);
    return status;
}

/* Parses the number of the only GPU to record. */
static mt_status read_device(const memtrace_program_options *options, int *out)
{
    enum { MOST_DEVICE = 1023 };
    int64_t number = MT_EVERY_DEVICE;
    if (options->mode == MEMTRACE_RUN_RECORDED && options->device != NULL)
        MT_TRY(mt_parse_integer("the device of a recorded program", options->device, 0, MOST_DEVICE, &number));
    *out = (int)number;
    return MT_OK;
}

static mt_status run(const memtrace_program_options *options, int *out_exit_code, struct found *found)
{
    const int output = options->output > 0 ? options->output : MT_OWN_OUTPUT;
    int device;
    MT_TRY(read_device(options, &device));
    return options->mode == MEMTRACE_RUN_DRY ? run_dry(options, output, out_exit_code, found)
                                             : run_recorded(options, device, output, out_exit_code, found);
}

memtrace_status memtrace_program_run(const memtrace_program_options *options, int *out_exit_code,
                                     const memtrace_program_row *const **out_rows, size_t *out_count,
                                     const char **out_notes)
{
    static const struct row_texts texts = {sizeof(memtrace_program_row),
                                           4,
                                           {offsetof(memtrace_program_row, trace),
                                            offsetof(memtrace_program_row, state), offsetof(memtrace_program_row, line),
                                            offsetof(memtrace_program_row, assumed)}};
    memtrace_program_options read;
    struct found found = {0};
    int code;
    MT_API_TRY(read_options(options, &read));
    if (read.mode != MEMTRACE_RUN_DRY && read.mode != MEMTRACE_RUN_RECORDED)
        return mt_api_status(mt_fail(MT_USAGE, "mode %d; there are 0 to %d", (int)read.mode, MEMTRACE_RUN_RECORDED));
    mt_status status = run(&read, &code, &found);
    if (status == MT_OK) {
        *out_exit_code = code;
        *out_count = found.count;
        *out_rows = (const memtrace_program_row *const *)pack(&texts, found.rows, found.count);
    }
    if (status == MT_OK && out_notes != NULL)
        *out_notes = copy_of(found.notes.data);
    mt_text_release(&found.notes);
    return mt_api_status(status);
}

/* ---- fit ---- */

enum { MOST_TRIALS = 1 + 2 * MT_DRY_CHANGE_COUNT };

/* Lists the trials that were made. Returns their number. */
static size_t list_trials(const struct mt_dry_fit *fit, const struct mt_dry_trial *out[MOST_TRIALS])
{
    size_t count = 0;
    out[count++] = &fit->plain;
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (fit->single[change].outcome != MT_TRIAL_NOT_MADE)
            out[count++] = &fit->single[change];
    for (size_t i = 0; i < fit->combined_count; i++)
        out[count++] = &fit->combined[i];
    return count;
}

static memtrace_trial make_trial(const struct mt_dry_trial *trial)
{
    static const char *const outcomes[] = {[MT_TRIAL_NOT_MADE] = "not made",
                                           [MT_TRIAL_RAN] = "ran",
                                           [MT_TRIAL_REFUSED] = "refused",
                                           [MT_TRIAL_FAILED] = "failed",
                                           [MT_TRIAL_KILLED] = "killed"};
    const bool ran = trial->outcome == MT_TRIAL_RAN;
    struct mt_text changes = {0};
    mt_dry_changes_add_names(&trial->changes, &changes);
    return (memtrace_trial){.changes = changes.data != NULL ? changes.data : copy_of(""),
                            .outcome = outcomes[trial->outcome],
                            .words = copy_of(trial->words.data),
                            .fits = ran && trial->peak.fits,
                            .requested_bytes = ran ? trial->peak.requested_bytes : 0,
                            .allocated_bytes = ran ? trial->peak.allocated_bytes : 0,
                            .reserved_bytes = ran ? trial->peak.reserved_bytes : 0,
                            .rank = ran ? trial->rank : -1};
}

static const memtrace_trial *const *make_trials(const struct mt_dry_fit *fit, size_t *out_count)
{
    static const struct row_texts texts = {
        sizeof(memtrace_trial), 2, {offsetof(memtrace_trial, changes), offsetof(memtrace_trial, words)}};
    const struct mt_dry_trial *trials[MOST_TRIALS];
    const size_t count = list_trials(fit, trials);
    memtrace_trial *rows = mt_host_alloc(count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = make_trial(trials[i]);
    *out_count = count;
    return (const memtrace_trial *const *)pack(&texts, rows, count);
}

/* Chooses the device, with the free part of its memory. */
static mt_status choose_device(const memtrace_program_options *options, const struct mt_dry_options *dry,
                               struct mt_fit_device *out)
{
    struct mt_card card;
    char spelling[MT_DEVICE_NAME];
    MT_TRY(mt_dry_device_spell(dry, options->device, spelling));
    MT_TRY(mt_simulated_card_find(spelling, &card));
    return mt_fit_device_choose(spelling, MT_RESERVE_UNSET, out);
}

memtrace_status memtrace_program_fit(const memtrace_program_options *options, const memtrace_trial *const **out_rows,
                                     size_t *out_count)
{
    memtrace_program_options read;
    struct mt_dry_options dry;
    struct mt_fit_device device;
    struct mt_program_fit found;
    MT_API_TRY(read_dry_options(options, &read, &dry));
    MT_API_TRY(choose_device(&read, &dry, &device));
    dry.free = NULL; /* the trials run with more memory than the device has */
    mt_status status = mt_program_fit_find(&dry, &device, NULL, &found);
    if (status == MT_OK && found.fit.plain.outcome != MT_TRIAL_RAN)
        status = mt_fail(MT_FAILED, "%s", mt_text_get(&found.fit.plain.words));
    if (status == MT_OK)
        *out_rows = make_trials(&found.fit, out_count);
    mt_program_fit_release(&found);
    return mt_api_status(status);
}

/* ---- sweep ---- */

/* Returns the first values of a cell, separated by commas. */
static const char *join_values(const struct mt_vary_grid *grid, size_t cell, size_t count)
{
    struct mt_text values = {0};
    for (size_t i = 0; i < count; i++)
        mt_text_add(&values, "%s%s", i > 0 ? "," : "", mt_vary_grid_value(grid, cell, i));
    return values.data != NULL ? values.data : copy_of("");
}

static memtrace_program_cell make_cell(const struct mt_program_sweep_found *found, size_t number)
{
    const struct mt_swept_cell *cell = &found->cells[number];
    return (memtrace_program_cell){.values = join_values(&found->grid, number, found->grid.count),
                                   .state = cell->state,
                                   .words = copy_of(cell->told.data),
                                   .run = cell->run,
                                   .rank = cell->rank,
                                   .allocated_bytes = cell->allocated_bytes,
                                   .reserved_bytes = cell->reserved_bytes};
}

static const memtrace_program_cell *const *make_cells(const struct mt_program_sweep_found *found)
{
    static const struct row_texts texts = {
        sizeof(memtrace_program_cell),
        2,
        {offsetof(memtrace_program_cell, values), offsetof(memtrace_program_cell, words)}};
    memtrace_program_cell *rows = mt_host_alloc(found->count * sizeof *rows);
    for (size_t i = 0; i < found->count; i++)
        rows[i] = make_cell(found, i);
    return (const memtrace_program_cell *const *)pack(&texts, rows, found->count);
}

memtrace_status memtrace_program_sweep(const memtrace_program_options *options, const char *const *lists,
                                       size_t list_count, const memtrace_program_cell *const **out_rows,
                                       size_t *out_count)
{
    memtrace_program_options read;
    struct mt_dry_options dry;
    struct mt_program_sweep_found found;
    MT_API_TRY(read_dry_options(options, &read, &dry));
    const struct mt_program_sweep sweep = {.program = &dry,
                                           .vary = lists,
                                           .vary_count = list_count,
                                           .device = read.device,
                                           .trace = read.trace,
                                           .name = read.name};
    mt_status status = mt_program_sweep_run(&sweep, NULL, &found);
    if (status == MT_OK) {
        *out_rows = make_cells(&found);
        *out_count = found.count;
    }
    mt_program_sweep_release(&found);
    return mt_api_status(status);
}

/* ---- the largest value ---- */

static memtrace_value_trial make_value(const struct mt_largest_found *found, const struct mt_largest_trial *trial)
{
    const struct mt_search_point *largest = mt_largest_search_found(&found->searches[trial->cell]);
    memtrace_value_trial row = {.values = join_values(&found->grid, trial->cell, found->grid.count - 1),
                                .value = mt_value_range_at(&found->range, trial->index),
                                .state = mt_largest_trial_state(trial),
                                .words = copy_of(trial->words.data),
                                .is_largest = largest != NULL && largest->index == trial->index,
                                .rank = trial->peak.rank};
    if (!trial->has_peak)
        return row;
    row.requested_bytes = trial->peak.peak.requested_bytes;
    row.allocated_bytes = trial->peak.peak.allocated_bytes;
    row.reserved_bytes = trial->peak.peak.reserved_bytes;
    row.needed_bytes = row.reserved_bytes + trial->peak.counted.reserve_bytes;
    row.card_bytes = trial->peak.counted.memory_bytes;
    return row;
}

/* Creates the rows of all trials, by search, then value. */
static const memtrace_value_trial *const *make_values(const struct mt_largest_found *found)
{
    static const struct row_texts texts = {
        sizeof(memtrace_value_trial),
        2,
        {offsetof(memtrace_value_trial, values), offsetof(memtrace_value_trial, words)}};
    memtrace_value_trial *rows = mt_host_alloc(found->count * sizeof *rows);
    size_t count = 0;
    for (size_t cell = 0; cell < found->grid.cell_count; cell++) {
        const struct mt_largest_search *search = &found->searches[cell];
        for (size_t i = 0; i < search->count; i++)
            rows[count++] = make_value(found, mt_program_largest_trial(found, cell, &search->points[i]));
    }
    assert(count == found->count);
    return (const memtrace_value_trial *const *)pack(&texts, rows, found->count);
}

memtrace_status memtrace_program_largest(const memtrace_program_options *options, const char *values,
                                         const char *const *lists, size_t list_count,
                                         const memtrace_value_trial *const **out_rows, size_t *out_count)
{
    memtrace_program_options read;
    struct mt_dry_options dry;
    struct mt_fit_device device;
    struct mt_largest_found found;
    MT_API_TRY(read_dry_options(options, &read, &dry));
    MT_API_TRY(choose_device(&read, &dry, &device));
    if (values == NULL)
        return mt_api_status(mt_fail(MT_USAGE, "the values to search are missing"));
    dry.free = NULL; /* the trials run with more memory than the device has */
    const struct mt_program_largest question = {
        .program = &dry, .device = &device, .values = values, .vary = lists, .vary_count = list_count};
    mt_status status = mt_program_largest_find(&question, NULL, &found);
    if (status == MT_OK && !mt_program_largest_any_ran(&found))
        status = mt_fail(MT_FAILED, "the program fails with each value that was tried: %s",
                         mt_text_get(&found.trials[0].words));
    if (status == MT_OK) {
        *out_rows = make_values(&found);
        *out_count = found.count;
    }
    mt_program_largest_release(&found);
    return mt_api_status(status);
}
