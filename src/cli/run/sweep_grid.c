#include "cli/run/sweep_grid.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 64, MOST_CELLS = 10000 };

/* The values of each axis, in the grid's texts. */
struct values {
    const char *of[MT_SETTING_COUNT][MOST_VALUES];
};

/* Returns the length of the value at `text`. It ends at the comma before the next value, which begins with `begin`, or
 * at the end. */
static size_t value_length(const char *text, const char *begin)
{
    for (const char *comma = strchr(text, ','); comma != NULL; comma = strchr(comma + 1, ','))
        if (strncmp(comma + 1, begin, strlen(begin)) == 0)
            return (size_t)(comma - text);
    return strlen(text);
}

static mt_status check_value(const char *const *values, size_t count)
{
    const char *value = values[count - 1];
    if (value[0] == '\0')
        return mt_fail(MT_USAGE, "a value of the list is empty");
    for (size_t i = 0; i + 1 < count; i++)
        if (strcmp(values[i], value) == 0)
            return mt_fail(MT_USAGE, "the list has %s twice", value);
    return MT_OK;
}

/* Splits the list into values. */
static mt_status cut_list(mt_setting axis, const char *list, struct mt_sweep_grid *grid, struct values *out)
{
    const char *begin = mt_setting_table[axis].list_begin != NULL ? mt_setting_table[axis].list_begin : "";
    char *text = grid->texts[axis] = mt_host_strdup(list);
    size_t *count = &grid->value_count[axis];
    for (bool more = true; more;) {
        if (*count == MOST_VALUES)
            return mt_fail(MT_USAGE, "a list has %d values at most", MOST_VALUES);
        size_t length = value_length(text, begin);
        more = text[length] != '\0';
        text[length] = '\0';
        out->of[axis][(*count)++] = text;
        MT_TRY(check_value(out->of[axis], *count));
        text += length + 1;
    }
    return MT_OK;
}

/* Adds the setting's option to the error's text. */
static mt_status fail_axis(mt_setting axis, mt_status status)
{
    char option[MT_OPTION_TEXT_BYTES];
    return mt_fail_context(status, "%s", mt_run_option_spell(axis, option));
}

static mt_status cut_lists(const char *const given[], struct mt_sweep_grid *grid, struct values *out)
{
    grid->cell_count = 1;
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++) {
        if (given[axis] == NULL || mt_setting_table[axis].axis == MT_AXIS_NONE)
            continue;
        mt_status status = cut_list(axis, given[axis], grid, out);
        if (status != MT_OK)
            return fail_axis(axis, status);
        grid->cell_count *= grid->value_count[axis];
        if (grid->cell_count > MOST_CELLS)
            return mt_fail(MT_USAGE, "the grid has more than %d cells: sweep it in parts", MOST_CELLS);
    }
    return MT_OK;
}

/* Chooses the values of cell `number`. The last axis changes fastest. */
static void choose_values(const struct mt_sweep_grid *grid, const struct values *values, size_t number,
                          struct mt_sweep_cell *cell)
{
    for (int axis = MT_SETTING_COUNT - 1; axis >= 0; axis--) {
        if (grid->value_count[axis] == 0)
            continue;
        cell->value[axis] = values->of[axis][number % grid->value_count[axis]];
        number /= grid->value_count[axis];
    }
    assert(number == 0);
}

/* Returns the sweep's name with the values of the cell: "baseline-small-128". The caller frees it. */
static char *name_cell(const struct mt_sweep_grid *grid, const char *name, const struct mt_sweep_cell *cell)
{
    struct mt_text text = {0};
    mt_text_add(&text, "%s", name);
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++)
        if (grid->value_count[axis] > 1)
            mt_text_add(&text, "-%s", cell->value[axis]);
    return text.data;
}

/* Sets a value of an axis as `run` does for its option. */
static mt_status choose(mt_setting axis, const char *value, struct mt_run_options *options)
{
    struct mt_option_texts texts;
    struct mt_option option;
    mt_run_setting_option(axis, &texts, &option);
    options->given[axis] = value;
    return mt_option_check(&option, value);
}

static mt_status plan_cell(const struct mt_run_options *base, struct mt_sweep_cell *cell)
{
    struct mt_run_options options = *base;
    mt_status status = MT_OK;
    options.name = cell->name;
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT && status == MT_OK; axis++)
        if (cell->value[axis] != NULL)
            status = choose(axis, cell->value[axis], &options);
    return status == MT_OK ? mt_run_options_plan(&options, &cell->plan) : status;
}

mt_status mt_sweep_grid_create(const struct mt_run_options *base, struct mt_sweep_grid *out)
{
    *out = (struct mt_sweep_grid){0};
    struct values values;
    mt_status status = cut_lists(base->given, out, &values);
    if (status != MT_OK)
        return status;
    assert(out->cell_count >= 1 && out->cell_count <= MOST_CELLS);
    out->cells = mt_host_alloc(out->cell_count * sizeof *out->cells);
    for (size_t i = 0; i < out->cell_count && status == MT_OK; i++) {
        struct mt_sweep_cell *cell = &out->cells[i];
        choose_values(out, &values, i, cell);
        if (base->name != NULL)
            cell->name = name_cell(out, base->name, cell);
        status = plan_cell(base, cell);
        if (status != MT_OK && out->cell_count > 1)
            mt_fail_context(status, "cell %zu of %zu", i + 1, out->cell_count);
    }
    return status;
}

void mt_sweep_grid_release(struct mt_sweep_grid *grid)
{
    for (size_t i = 0; grid->cells != NULL && i < grid->cell_count; i++)
        free(grid->cells[i].name);
    for (mt_setting axis = 0; axis < MT_SETTING_COUNT; axis++)
        free(grid->texts[axis]);
    free(grid->cells);
    *grid = (struct mt_sweep_grid){0};
}
