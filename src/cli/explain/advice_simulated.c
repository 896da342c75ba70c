#include "cli/explain/advice_simulated.h"

#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/run/fit_report.h"
#include "cli/run/run_options.h"

#include <stdio.h>
#include <string.h>

static int64_t saved_bytes(const struct mt_simulated_advice *simulated, const struct mt_simulated_option *option)
{
    return (int64_t)(simulated->as_it_is.peak_requested_bytes - option->simulation.peak_requested_bytes);
}

static void add_row(struct mt_table *table, const char *what, const struct mt_simulation *simulation)
{
    mt_table_add(table, what);
    mt_table_add_bytes(table, simulation->peak_requested_bytes);
    mt_table_add_bytes(table, simulation->peak_allocated_bytes);
    mt_table_add_bytes(table, simulation->peak_reserved_bytes);
}

static void add_option_row(struct mt_table *table, const struct mt_simulated_advice *simulated,
                           const struct mt_simulated_option *option)
{
    struct mt_text changes = {0};
    char saved[MT_BYTES_TEXT];
    mt_fit_remedy_add_changes(&option->remedy, &changes);
    add_row(table, mt_text_get(&changes), &option->simulation);
    mt_table_add(table, option->simulation.fits ? mt_format_difference(-saved_bytes(simulated, option), saved)
                                                : "ends out of memory");
    mt_text_release(&changes);
}

void mt_simulated_advice_print(const struct mt_simulated_advice *simulated)
{
    static const struct mt_column columns[] = {{"simulated with", MT_ALIGN_LEFT},
                                               {"requested", MT_ALIGN_RIGHT},
                                               {"allocated", MT_ALIGN_RIGHT},
                                               {"reserved", MT_ALIGN_RIGHT},
                                               {"difference", MT_ALIGN_RIGHT}};
    if (simulated->count == 0)
        return;
    printf("\nOptions that are named, on %s, each in a whole run with it:\n", simulated->device);
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    add_row(table, "(as it is)", &simulated->as_it_is);
    mt_table_add(table, "");
    for (size_t i = 0; i < simulated->count; i++)
        add_option_row(table, simulated, &simulated->options[i]);
    mt_table_print(table);
    mt_table_destroy(table);
}

static json_t *peak_json(const struct mt_simulation *simulation)
{
    return json_pack("{s:I, s:I, s:I}", "requested_bytes", (json_int_t)simulation->peak_requested_bytes,
                     "allocated_bytes", (json_int_t)simulation->peak_allocated_bytes, "reserved_bytes",
                     (json_int_t)simulation->peak_reserved_bytes);
}

static json_t *option_json(const struct mt_simulated_advice *simulated, const struct mt_simulated_option *option)
{
    struct mt_text changes = {0}, command = {0};
    mt_fit_remedy_add_changes(&option->remedy, &changes);
    mt_run_command_add(&option->remedy.plan, &command);
    json_t *row = json_pack("{s:o, s:o, s:o, s:b, s:I}", "change", mt_json_text(mt_text_get(&changes)), "command",
                            mt_json_text(mt_text_get(&command)), "peak", peak_json(&option->simulation), "fits",
                            (int)option->simulation.fits, "saved_bytes", (json_int_t)saved_bytes(simulated, option));
    mt_text_release(&changes);
    mt_text_release(&command);
    return row;
}

void mt_simulated_advice_add_json(const struct mt_simulated_advice *simulated, json_t *object)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < simulated->count; i++)
        json_array_append_new(rows, option_json(simulated, &simulated->options[i]));
    json_object_set_new(object, "simulated_as_it_is",
                        simulated->count > 0 ? peak_json(&simulated->as_it_is) : json_null());
    json_object_set_new(object, "simulated", rows);
}
