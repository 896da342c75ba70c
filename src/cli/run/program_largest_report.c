#include "cli/run/program_largest_report.h"

#include "base/memory.h"
#include "cli/output/question.h"
#include "cli/record/dry_options.h"
#include "cli/record/dry_report.h"
#include "cli/record/program_notes.h"
#include "words/change_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A trial. Borrows its texts. */
struct trial_row {
    const char *values[MT_MOST_VARIED]; /* of the other arguments, for tables */
    json_t *axes;
    const struct mt_largest_trial *trial;
    int64_t value, rank;
    const char *state, *words;
    const struct mt_replay_result *peak; /* NULL: unknown */
    uint64_t allocated_bytes, reserved_bytes, outside_bytes, needed_bytes;
    struct mt_figure room;
};

static const struct mt_field trial_fields[] = {
    MT_MEMBERS(struct trial_row, axes, "the values of `--vary` by name, as texts"),
    MT_INTEGER(struct trial_row, value, "value", NULL, NULL),
    MT_TEXT(struct trial_row, state, "state", NULL, "`fits`, `short`, `failed` or `killed`"),
    MT_ROW_OR_NULL(struct trial_row, peak, "peak", &mt_replay_peak_type, "of the process that needs most of its card"),
    MT_KNOWN(struct trial_row, rank, "rank", NULL, "of many ranks, that process"),
    MT_SOME_BYTES(struct trial_row, outside_bytes, "outside_bytes", NULL, NULL),
    MT_SOME_BYTES(struct trial_row, needed_bytes, "needed_bytes", NULL, NULL),
    {.kind = MT_FIELD_FIGURE, .offset = offsetof(struct trial_row, room), .name = "room_bytes"},
    MT_NAME(struct trial_row, words, "words", NULL, "why it has no peak"),
    MT_FIELDS_END,
};
static const struct mt_row_type trial_type = MT_ROW_TYPE(struct trial_row, trial_fields);

/* The columns of a table of trials after the values. */
static const struct mt_field trial_columns[] = {
    MT_TEXT(struct trial_row, state, "state", "", NULL),
    MT_SOME_BYTES(struct trial_row, allocated_bytes, "allocated_bytes", "peak allocated", NULL),
    MT_SOME_BYTES(struct trial_row, reserved_bytes, "reserved_bytes", "reserved", NULL),
    MT_SOME_BYTES(struct trial_row, needed_bytes, "needed_bytes", "needs", NULL),
    {.kind = MT_FIELD_FIGURE, .offset = offsetof(struct trial_row, room), .name = "room_bytes", .heading = "left"},
};
static const struct mt_field rank_column = MT_KNOWN(struct trial_row, rank, "rank", "of rank", NULL);
enum { TRIAL_COLUMNS = sizeof trial_columns / sizeof trial_columns[0] };

/* The answer for a combination of the other arguments' values. Pointers refer to the trials; NULL: none. */
struct cell_row {
    const char *values[MT_MOST_VARIED];
    json_t *axes;
    const struct trial_row *largest, *next, *too_large, *exception;
    bool is_last;
    int64_t value, next_value; /* for tables; 0: none */
    uint64_t allocated_bytes, needed_bytes;
    struct mt_figure room, next_room;
};

static const struct mt_field cell_fields[] = {
    MT_MEMBERS(struct cell_row, axes, "the values of `--vary` by name, as texts"),
    MT_ROW_OR_NULL(struct cell_row, largest, "largest", &trial_type, "the largest that fits"),
    MT_ROW_OR_NULL(struct cell_row, next, "next", &trial_type, "the next larger one"),
    MT_ROW_OR_NULL(struct cell_row, too_large, "too_large", &trial_type, "the smallest that needs too much memory"),
    MT_ROW_OR_NULL(struct cell_row, exception, "exception", &trial_type, "does not fit although a larger one does"),
    MT_FLAG(struct cell_row, is_last, "is_last", NULL, "no larger value was allowed"),
    MT_FIELDS_END,
};
static const struct mt_row_type cell_type = MT_ROW_TYPE(struct cell_row, cell_fields);

static const struct mt_field cell_columns[] = {
    MT_POSITIVE(struct cell_row, value, "largest", "largest", NULL),
    MT_SOME_BYTES(struct cell_row, allocated_bytes, "allocated_bytes", "peak allocated", NULL),
    MT_SOME_BYTES(struct cell_row, needed_bytes, "needed_bytes", "needs", NULL),
    {.kind = MT_FIELD_FIGURE, .offset = offsetof(struct cell_row, room), .name = "room_bytes", .heading = "left"},
    MT_POSITIVE(struct cell_row, next_value, "next", "next", NULL),
    {.kind = MT_FIELD_FIGURE, .offset = offsetof(struct cell_row, next_room), .name = "next_room", .heading = "left"},
};
enum { CELL_COLUMNS = sizeof cell_columns / sizeof cell_columns[0] };

struct answer {
    const char *program, *device, *name, *values;
    uint64_t memory_bytes, reserve_bytes;
    bool fits;
    struct cell_row *cells;
    size_t cell_count;
    struct trial_row *trials;
    size_t trial_count;
    double seconds;
    struct mt_text words;
};

static const struct mt_field answer_fields[] = {
    MT_TEXT(struct answer, program, "program", NULL, NULL),
    MT_TEXT(struct answer, device, "on", NULL, "the device that is asked about"),
    MT_BYTES(struct answer, memory_bytes, "memory_bytes", NULL, NULL),
    MT_BYTES(struct answer, reserve_bytes, "reserve_bytes", NULL, NULL),
    MT_TEXT(struct answer, name, "name", NULL, NULL),
    MT_TEXT(struct answer, values, "values", NULL, NULL),
    MT_FLAG(struct answer, fits, "fits", NULL, "some value fits"),
    MT_ROWS(struct answer, cells, cell_count, "answers", &cell_type, NULL),
    MT_ROWS(struct answer, trials, trial_count, "trials", &trial_type, "by value"),
    MT_NUMBER(struct answer, seconds, "seconds", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct answer, answer_fields);

/* ---- rows ---- */

/* Returns the values of a cell by name, and sets their texts. The searched argument is the last list, and is not
 * included. */
static json_t *axes_of(const struct mt_largest_found *found, size_t cell, const char **values)
{
    const struct mt_vary_grid *grid = &found->grid;
    json_t *axes = json_object();
    for (size_t i = 0; i + 1 < grid->count; i++) {
        values[i] = mt_vary_grid_value(grid, cell, i);
        json_object_set_new(axes, grid->lists[i].text, mt_json_text(values[i]));
    }
    return axes;
}

static void make_trial(const struct mt_largest_found *found, const struct mt_largest_trial *trial,
                       struct trial_row *out)
{
    *out = (struct trial_row){.trial = trial,
                              .value = mt_value_range_at(&found->range, trial->index),
                              .rank = trial->peak.rank,
                              .state = mt_largest_trial_state(trial),
                              .words = trial->words.data};
    out->axes = axes_of(found, trial->cell, out->values);
    if (!trial->has_peak)
        return;
    out->peak = &trial->peak.peak;
    out->allocated_bytes = out->peak->allocated_bytes;
    out->reserved_bytes = out->peak->reserved_bytes;
    out->outside_bytes = trial->peak.counted.reserve_bytes;
    out->needed_bytes = out->reserved_bytes + out->outside_bytes;
    out->room = mt_figure_difference(mt_largest_trial_room_bytes(trial));
}

/* Orders trials by cell, then by value. */
static int compare_trials(const void *a, const void *b)
{
    const struct mt_largest_trial *one = ((const struct trial_row *)a)->trial;
    const struct mt_largest_trial *other = ((const struct trial_row *)b)->trial;
    if (one->cell != other->cell)
        return one->cell < other->cell ? -1 : 1;
    return one->index < other->index ? -1 : one->index > other->index;
}

/* Returns the row of a trial; NULL for NULL. */
static const struct trial_row *row_of(const struct answer *answer, const struct mt_largest_trial *trial)
{
    for (size_t i = 0; i < answer->trial_count && trial != NULL; i++)
        if (answer->trials[i].trial == trial)
            return &answer->trials[i];
    return NULL;
}

static void fill_figures(struct cell_row *out)
{
    if (out->largest != NULL) {
        out->value = out->largest->value;
        out->allocated_bytes = out->largest->allocated_bytes;
        out->needed_bytes = out->largest->needed_bytes;
        out->room = out->largest->room;
    }
    if (out->next != NULL) {
        out->next_value = out->next->value;
        out->next_room = out->next->peak != NULL ? out->next->room : mt_figure_words(out->next->state);
    }
}

static void make_cell(const struct mt_largest_found *found, size_t cell, const struct answer *answer,
                      struct cell_row *out)
{
    const struct mt_largest_search *search = &found->searches[cell];
    const struct mt_search_point *point = mt_largest_search_found(search);
    const struct mt_search_point next = {.index = point != NULL ? point->index + 1 : 0};
    *out = (struct cell_row){.is_last = next.index == found->range.count};
    out->axes = axes_of(found, cell, out->values);
    out->largest = row_of(answer, mt_program_largest_trial(found, cell, point));
    out->next = row_of(answer, mt_program_largest_trial(found, cell, &next));
    point = mt_largest_search_above(search, MT_SEARCH_SHORT);
    out->too_large = row_of(answer, mt_program_largest_trial(found, cell, point));
    point = mt_largest_search_exception(search);
    out->exception = row_of(answer, mt_program_largest_trial(found, cell, point));
    fill_figures(out);
}

static void fill(const struct mt_program_largest *question, const struct mt_largest_found *found, struct answer *out)
{
    static const double NS = 1e9;
    *out = (struct answer){.device = question->device->name,
                           .memory_bytes = question->device->memory_bytes,
                           .reserve_bytes = question->device->reserve_bytes,
                           .name = found->range.name,
                           .values = strchr(question->values, '=') + 1,
                           .cells = mt_host_alloc(found->grid.cell_count * sizeof *out->cells),
                           .cell_count = found->grid.cell_count,
                           .trials = mt_host_alloc((found->count + 1) * sizeof *out->trials),
                           .trial_count = found->count,
                           .seconds = (double)found->elapsed_ns / NS};
    for (char *const *word = question->program->words; *word != NULL; word++)
        mt_text_add(&out->words, "%s%s", out->words.length > 0 ? " " : "", *word);
    out->program = mt_text_get(&out->words);
    for (size_t i = 0; i < found->count; i++)
        make_trial(found, &found->trials[i], &out->trials[i]);
    qsort(out->trials, found->count, sizeof *out->trials, compare_trials);
    for (size_t i = 0; i < out->cell_count; i++) {
        make_cell(found, i, out, &out->cells[i]);
        out->fits = out->fits || out->cells[i].largest != NULL;
    }
}

static void release(struct answer *answer)
{
    for (size_t i = 0; i < answer->cell_count; i++)
        json_decref(answer->cells[i].axes);
    for (size_t i = 0; i < answer->trial_count; i++)
        json_decref(answer->trials[i].axes);
    free(answer->cells);
    free(answer->trials);
    mt_text_release(&answer->words);
}

/* ---- text ---- */

/* Returns the memory that a trial lacks; 0: it fits, or unknown. */
static uint64_t short_bytes(const struct trial_row *row)
{
    const int64_t room_bytes = row->peak != NULL ? mt_largest_trial_room_bytes(row->trial) : 0;
    return room_bytes < 0 ? (uint64_t)-room_bytes : 0;
}

/* Adds "seq 1024, batch 6": the values of the other arguments, and the value. */
static void add_values(const struct answer *answer, const struct trial_row *row, struct mt_text *out)
{
    const char *name;
    json_t *value;
    json_object_foreach(row->axes, name, value) mt_text_add(out, "%s %s, ", name, json_string_value(value));
    mt_text_add(out, "%s %" PRId64, answer->name, row->value);
}

/* Adds "peak 14.65 GiB live; needs 15.88 GiB of the card's 23.52 GiB (15.37 GiB reserved, 520.00 MiB outside
 * PyTorch)". */
static void add_needs(const struct answer *answer, const struct trial_row *row, struct mt_text *out)
{
    mt_text_add(out, "peak %s live; needs %s of the card's %s (%s reserved", MT_SIZE(row->allocated_bytes),
                MT_SIZE(row->needed_bytes), MT_SIZE(answer->memory_bytes), MT_SIZE(row->reserved_bytes));
    if (row->outside_bytes > 0)
        mt_text_add(out, ", %s outside PyTorch", MT_SIZE(row->outside_bytes));
    mt_text_add(out, ")");
    if (row->rank >= 0)
        mt_text_add(out, " on rank %" PRId64 ", which needs most", row->rank);
}

static void say_largest(const struct answer *answer, const struct trial_row *row)
{
    struct mt_text line = {0};
    add_values(answer, row, &line);
    mt_text_add(&line, " is the largest that fits %s: ", answer->device);
    add_needs(answer, row, &line);
    if (short_bytes(row) > 0)
        mt_text_add(&line, ", and fits only as cached memory is freed");
    else
        mt_text_add(&line, ", %s free", MT_SIZE((uint64_t)mt_largest_trial_room_bytes(row->trial)));
    mt_text_add(&line, ".");
    mt_print_line(&line);
}

/* Prints "batch 7 is 1.53 GiB short." or how the program fails. */
static void say_refused(const struct answer *answer, const struct trial_row *row)
{
    struct mt_text line = {0};
    add_values(answer, row, &line);
    if (row->trial->state == MT_SEARCH_FAILED && !row->trial->is_killed)
        mt_text_add(&line, " fails: %s", row->words);
    else if (row->peak == NULL)
        mt_text_add(&line, " %s.", row->words);
    else if (short_bytes(row) > 0)
        mt_text_add(&line, " is %s short.", MT_SIZE(short_bytes(row)));
    else
        mt_text_add(&line, " does not fit.");
    mt_print_line(&line);
}

static void say_exception(const struct answer *answer, const struct trial_row *row)
{
    struct mt_text line = {0};
    add_values(answer, row, &line);
    mt_text_add(&line,
                " does not fit, although a larger one does: memory does not grow with each value, so values that "
                "were not tried may differ.");
    mt_print_line(&line);
}

/* Prints why larger values do not fit, unless the table of several combinations shows it. */
static void say_end(const struct answer *answer, const struct cell_row *cell)
{
    const bool is_plain = answer->cell_count > 1 && cell->next != NULL && cell->next == cell->too_large;
    if (cell->next != NULL && !is_plain)
        say_refused(answer, cell->next);
    if (cell->too_large != NULL && cell->too_large != cell->next)
        say_refused(answer, cell->too_large);
    if (cell->exception != NULL)
        say_exception(answer, cell->exception);
    if (cell->is_last && answer->cell_count == 1)
        mt_say("No larger value was allowed.");
}

static void say_one(const struct answer *answer)
{
    if (answer->cells[0].largest != NULL)
        say_largest(answer, answer->cells[0].largest);
    else
        mt_say("No %s of %s fits %s.", answer->name, answer->values, answer->device);
    say_end(answer, &answer->cells[0]);
}

/* Adds columns for the other arguments' values. Returns the end of the columns. */
static struct mt_field *make_columns(const struct mt_largest_found *found, size_t offset, struct mt_field *out)
{
    for (size_t i = 0; i + 1 < found->grid.count; i++)
        *out++ = (struct mt_field){.kind = MT_FIELD_DIGITS,
                                   .offset = offset + i * sizeof(const char *),
                                   .name = found->grid.lists[i].text,
                                   .heading = found->grid.lists[i].text};
    return out;
}

static void say_several(const struct mt_largest_found *found, const struct answer *answer)
{
    struct mt_field columns[MT_MOST_VARIED + CELL_COLUMNS + 1];
    struct mt_field *end = make_columns(found, offsetof(struct cell_row, values), columns);
    memcpy(end, cell_columns, sizeof cell_columns);
    end[0].heading = answer->name;
    end[CELL_COLUMNS] = (struct mt_field)MT_FIELDS_END;
    const struct mt_row_type type = MT_ROW_TYPE(struct cell_row, columns);
    mt_say("The largest %s of %s that fits %s:", answer->name, answer->values, answer->device);
    mt_rows_print(&type, NULL, "allocated_bytes", answer->cells, answer->cell_count);
    for (size_t i = 0; i < answer->cell_count; i++)
        say_end(answer, &answer->cells[i]);
}

static void print_trials(const struct mt_largest_found *found, const struct answer *answer)
{
    struct mt_field columns[MT_MOST_VARIED + 2 + TRIAL_COLUMNS + 1];
    struct mt_field *end = make_columns(found, offsetof(struct trial_row, values), columns);
    const struct mt_field value = MT_INTEGER(struct trial_row, value, "value", NULL, NULL);
    bool has_ranks = false;
    for (size_t i = 0; i < answer->trial_count; i++)
        has_ranks = has_ranks || answer->trials[i].rank >= 0;
    *end = value;
    end++->heading = answer->name;
    if (has_ranks)
        *end++ = rank_column;
    memcpy(end, trial_columns, sizeof trial_columns);
    end[TRIAL_COLUMNS] = (struct mt_field)MT_FIELDS_END;
    const struct mt_row_type type = MT_ROW_TYPE(struct trial_row, columns);
    mt_say("\nTried, in %zu dry run%s and %.0f s:", answer->trial_count, answer->trial_count == 1 ? "" : "s",
           answer->seconds);
    mt_rows_print(&type, NULL, "reserved_bytes", answer->trials, answer->trial_count);
}

static void print_text(const struct mt_largest_found *found, const struct answer *answer)
{
    if (answer->cell_count == 1)
        say_one(answer);
    else
        say_several(found, answer);
    print_trials(found, answer);
}

/* ---- progress ---- */

/* True if the program ran with this value, for the first time. */
static bool is_first(const struct mt_largest_found *found, const struct mt_largest_trial *trial)
{
    for (size_t i = 0; i + 1 < found->count; i++)
        if (found->trials[i].has_peak)
            return false;
    return trial->has_peak;
}

/* Notes which parts the first dry run assumed or left out, which apply to all, and the result: "batch 22: 41.32 GiB
 * reserved, does not fit". */
static void note_trial(void *context, const struct mt_largest_found *found, const struct mt_largest_trial *trial,
                       const struct mt_program_outcome *outcome)
{
    (void)context;
    const struct answer answer = {.name = found->range.name};
    struct trial_row row;
    struct mt_text line = {0};
    if (is_first(found, trial)) {
        mt_program_outcome_note(outcome);
        mt_dry_caveats_note(outcome);
    }
    make_trial(found, trial, &row);
    add_values(&answer, &row, &line);
    if (row.peak != NULL)
        mt_text_add(&line, ": %s reserved, %s", MT_SIZE(row.reserved_bytes), row.peak->fits ? "fits" : "does not fit");
    else
        mt_text_add(&line, ": %s", row.words);
    mt_note("%s", line.data);
    json_decref(row.axes);
    mt_text_release(&line);
}

/* Fails for a program that did not run with any value, with the end of its output. */
static mt_status fail_program(const struct mt_largest_found *found)
{
    if (found->said.length == 0)
        return mt_fail(MT_FAILED, "there is no answer: each dry run was killed. If host memory was full, try --jobs 1");
    fputs(mt_text_get(&found->said), stderr);
    return mt_fail(MT_FAILED, "the program fails with %s %" PRId64 " and each other value that was tried; see above",
                   found->range.name, mt_value_range_at(&found->range, 0));
}

static mt_status print_answer(const struct mt_program_largest *question, const struct mt_largest_found *found,
                              mt_report_form form)
{
    struct answer answer;
    fill(question, found, &answer);
    if (form == MT_REPORT_JSON)
        mt_answer_print_json("fit_largest", &answer_type, &answer);
    else
        print_text(found, &answer);
    const bool fits = answer.fits;
    release(&answer);
    return fits
               ? MT_OK
               : mt_fail(MT_FAILED, "no value of %s was found that fits %s", found->range.name, question->device->name);
}

mt_status mt_program_largest(const struct mt_program_largest *question, mt_report_form form)
{
    static const struct mt_largest_observer observer = {NULL, note_trial};
    struct mt_largest_found found;
    mt_note("searching %s with dry runs", question->values);
    mt_status status = mt_program_largest_find(question, &observer, &found);
    if (status == MT_USAGE)
        status = mt_fail_hint(mt_dry_hint(status, question->program), "see --largest NAME=LOW..HIGH");
    MT_THEN(status, mt_program_largest_any_ran(&found) ? print_answer(question, &found, form) : fail_program(&found));
    mt_program_largest_release(&found);
    return status;
}
