#include "cli/run/sweep_grid.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 64, MOST_CELLS = 10000 };

static const struct {
    const char *option;
    const char *begin; /* what a value begins with, where it may have commas itself */
} axes[MT_AXIS_COUNT] = {[MT_AXIS_MODEL] = {"--model", ""},
                         [MT_AXIS_MODE] = {"--mode", ""},
                         [MT_AXIS_AUTOCAST] = {"--autocast", ""},
                         [MT_AXIS_ATTENTION] = {"--attention", ""},
                         [MT_AXIS_SEQ] = {"--seq", ""},
                         [MT_AXIS_BATCH] = {"--batch", ""},
                         [MT_AXIS_ZERO_GRAD] = {"--zero-grad", ""},
                         [MT_AXIS_IMPL] = {"--impl", ""},
                         [MT_AXIS_WEIGHT_CAST] = {"--weight-cast", ""},
                         [MT_AXIS_CHECKPOINT] = {"--checkpoint", ""},
                         [MT_AXIS_OPTIMIZER_IN_BACKWARD] = {"--optimizer-in-backward", ""},
                         [MT_AXIS_ALLOC] = {"--alloc", "policy="}};

const char *mt_sweep_axis_option(mt_sweep_axis axis)
{
    return axes[axis].option;
}

/* The values of each axis, in the grid's texts. */
struct values {
    const char *of[MT_AXIS_COUNT][MOST_VALUES];
};

/* How long the value at `text` is: up to a comma before another one, or to the end. */
static size_t value_length(const char *text, const char *begin)
{
    for (const char *comma = strchr(text, ','); comma != NULL; comma = strchr(comma + 1, ','))
        if (strncmp(comma + 1, begin, strlen(begin)) == 0)
            return (size_t)(comma - text);
    return strlen(text);
}

static mt_status check_value(const char *option, const char *const *values, size_t count)
{
    const char *value = values[count - 1];
    if (value[0] == '\0')
        return mt_fail(MT_USAGE, "%s: a value of the list is empty", option);
    for (size_t i = 0; i + 1 < count; i++)
        if (strcmp(values[i], value) == 0)
            return mt_fail(MT_USAGE, "%s: the list has %s twice", option, value);
    return MT_OK;
}

/* Cuts the list into values. */
static mt_status cut_list(mt_sweep_axis axis, const char *list, struct mt_sweep_grid *grid, struct values *out)
{
    char *text = grid->texts[axis] = mt_host_strdup(list);
    size_t *count = &grid->value_count[axis];
    for (bool more = true; more;) {
        if (*count == MOST_VALUES)
            return mt_fail(MT_USAGE, "%s: a list has %d values at most", axes[axis].option, MOST_VALUES);
        size_t length = value_length(text, axes[axis].begin);
        more = text[length] != '\0';
        text[length] = '\0';
        out->of[axis][(*count)++] = text;
        mt_status status = check_value(axes[axis].option, out->of[axis], *count);
        if (status != MT_OK)
            return status;
        text += length + 1;
    }
    return MT_OK;
}

static mt_status cut_lists(const char *const lists[MT_AXIS_COUNT], struct mt_sweep_grid *grid, struct values *out)
{
    mt_status status = MT_OK;
    grid->cell_count = 1;
    for (mt_sweep_axis axis = 0; axis < MT_AXIS_COUNT && status == MT_OK; axis++) {
        if (lists[axis] == NULL)
            continue;
        status = cut_list(axis, lists[axis], grid, out);
        grid->cell_count *= grid->value_count[axis];
        if (status == MT_OK && grid->cell_count > MOST_CELLS)
            status = mt_fail(MT_USAGE, "the grid has more than %d cells: sweep it in parts", MOST_CELLS);
    }
    return status;
}

/* The values of cell `number`: its digits, where the last axis counts fastest. */
static void choose_values(const struct mt_sweep_grid *grid, const struct values *values, size_t number,
                          struct mt_sweep_cell *cell)
{
    for (int axis = MT_AXIS_COUNT - 1; axis >= 0; axis--) {
        if (grid->value_count[axis] == 0)
            continue;
        cell->value[axis] = values->of[axis][number % grid->value_count[axis]];
        number /= grid->value_count[axis];
    }
}

/* "baseline-small-128": the sweep's name and what tells its cells apart. */
static char *name_cell(const struct mt_sweep_grid *grid, const char *name, const struct mt_sweep_cell *cell)
{
    struct mt_text text = {0};
    mt_text_add(&text, "%s", name);
    for (int axis = 0; axis < MT_AXIS_COUNT; axis++)
        if (grid->value_count[axis] > 1)
            mt_text_add(&text, "-%s", cell->value[axis]);
    return text.data;
}

static mt_status plan_cell(const struct mt_run_options *base, struct mt_sweep_cell *cell)
{
    struct mt_run_options options = *base;
    char *arguments[2 * MT_AXIS_COUNT];
    int count = 0;
    for (int axis = 0; axis < MT_AXIS_COUNT; axis++) {
        if (cell->value[axis] == NULL)
            continue;
        arguments[count++] = (char *)axes[axis].option; /* read only */
        arguments[count++] = (char *)cell->value[axis];
    }
    mt_status status = mt_options_parse(mt_run_option_table, count, arguments, &options);
    options.name = cell->name;
    return status == MT_OK ? mt_run_options_plan(&options, &cell->plan) : status;
}

mt_status mt_sweep_grid_create(const struct mt_run_options *base, const char *const lists[MT_AXIS_COUNT],
                               struct mt_sweep_grid *out)
{
    *out = (struct mt_sweep_grid){0};
    struct values values;
    mt_status status = cut_lists(lists, out, &values);
    if (status != MT_OK)
        return status;
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
    for (int axis = 0; axis < MT_AXIS_COUNT; axis++)
        free(grid->texts[axis]);
    free(grid->cells);
    *grid = (struct mt_sweep_grid){0};
}
