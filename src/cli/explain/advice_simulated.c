#include "cli/explain/advice_simulated.h"

#include "analysis/run_settings.h"
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/run/fit_report.h"
#include "cli/run/run_command.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

/* The run as it was, on a simulated device of its capacity; MT_USAGE if it is none that can be made again. */
static mt_status plan_simulation(const struct mt_question *question, char *device, struct mt_run_plan *out)
{
    const struct mt_run *run = question->run;
    mt_status status = mt_run_plan_of_run(question->trace, run, out);
    if (mt_device_is_simulated(run->device))
        snprintf(device, MT_BYTES_TEXT, "%s", run->device);
    else
        mt_device_spell_simulated(run->capacity_bytes, device);
    out->device = device;
    return status;
}

static bool has_hint(const struct mt_advice *advice, mt_hint hint)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_hint(&advice->findings[i]) == hint)
            return true;
    return false;
}

static mt_status add_option(const struct mt_run_plan *plan, mt_setting change, struct mt_simulated_advice *out)
{
    struct mt_simulated_option *option = &out->options[out->count];
    if (!mt_fit_remedy_make(plan, change, &option->remedy))
        return MT_OK;
    out->count++;
    return mt_simulate(&option->remedy.plan, &option->simulation);
}

mt_status mt_simulated_advice_load(const struct mt_question *question, const struct mt_advice *advice,
                                   struct mt_simulated_advice *out)
{
    struct mt_run_plan plan;
    *out = (struct mt_simulated_advice){0};
    bool optimizer = has_hint(advice, MT_HINT_UPDATE_IN_BACKWARD), checkpoint = has_hint(advice, MT_HINT_CHECKPOINT);
    if (!optimizer && !checkpoint)
        return MT_OK;
    mt_status status = plan_simulation(question, out->device, &plan);
    if (status != MT_OK)
        return status == MT_USAGE ? MT_OK : status;
    status = mt_simulate(&plan, &out->as_it_is);
    if (status == MT_OK)
        status = add_option(&plan, MT_SETTING_IMPL, out);
    if (status == MT_OK && optimizer)
        status = add_option(&plan, MT_SETTING_OPTIMIZER_IN_BACKWARD, out);
    if (status == MT_OK && checkpoint)
        status = add_option(&plan, MT_SETTING_CHECKPOINT, out);
    return status;
}

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
