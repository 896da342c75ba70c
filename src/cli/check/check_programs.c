#include "cli/check/check_programs.h"

#include "answer/answer.h"
#include "base/memory.h"
#include "cli/check/program_budgets.h"
#include "cli/run/card_need_report.h"
#include "producers/model/simulation.h"

#include <stdlib.h>

static mt_status choose_device(const struct mt_program_budget *budget, struct mt_fit_device *out)
{
    struct mt_card card;
    mt_status status = mt_simulated_card_find(budget->device, &card);
    MT_THEN(status, mt_fit_device_choose(budget->device, MT_RESERVE_UNSET, out));
    return status == MT_OK ? status : mt_fail_context(status, "[%s]", budget->name);
}

static mt_status check_budget(const struct mt_programs_check *check, const struct mt_program_budget *budget,
                              const struct mt_fit_device *device, json_t *list)
{
    struct mt_text title = {0};
    const struct mt_dry_options program = {.assumed = MT_ASSUMED_USUAL, .words = budget->words};
    mt_text_add(&title, "memtrace check %s", budget->name);
    const struct mt_card_need_question question = {.program = &program,
                                                   .device = device,
                                                   .limit_bytes = budget->limit_bytes,
                                                   .form = check->json ? MT_REPORT_JSON : MT_REPORT_TEXT,
                                                   .is_strict = budget->is_strict,
                                                   .annotates = check->annotates,
                                                   .scheduler = MT_SCHEDULER_COUNT,
                                                   .summary = check->summary,
                                                   .title = mt_text_get(&title),
                                                   .budget = budget->name,
                                                   .list = list};
    mt_status status = mt_card_need_answer(&question);
    mt_text_release(&title);
    return status == MT_USAGE ? mt_fail_context(status, "[%s]", budget->name) : status;
}

static void print_json(json_t *list, bool passed)
{
    json_t *value = mt_schema_json("check_programs");
    json_object_set_new(value, "passed", json_boolean(passed));
    json_object_set_new(value, "budgets", list);
    mt_json_print(value);
}

/* Checks each budget, in the order of the file. */
static mt_status check_budgets(const struct mt_programs_check *check, const struct mt_program_budgets *budgets,
                               const struct mt_fit_device *devices)
{
    size_t failed = 0;
    mt_status first = MT_OK, status = MT_OK;
    json_t *list = check->json ? json_array() : NULL;
    for (size_t i = 0; i < budgets->count && status != MT_USAGE; i++) {
        status = check_budget(check, &budgets->items[i], &devices[i], list);
        first = mt_status_keep(first, status);
        failed += status != MT_OK;
    }
    if (status == MT_USAGE) {
        json_decref(list);
        return status;
    }
    if (check->json)
        print_json(list, failed == 0);
    return failed == 0 ? MT_OK
                       : mt_fail(first, "%zu of %zu budgets of %s are not kept", failed, budgets->count, check->path);
}

mt_status mt_programs_check_answer(const struct mt_programs_check *check)
{
    struct mt_program_budgets budgets;
    mt_status status = mt_program_budgets_read(check->path, &budgets);
    struct mt_fit_device *devices = mt_host_alloc((budgets.count + 1) * sizeof *devices);
    for (size_t i = 0; i < budgets.count && status == MT_OK; i++)
        status = choose_device(&budgets.items[i], &devices[i]);
    MT_THEN(status, check_budgets(check, &budgets, devices));
    free(devices);
    mt_program_budgets_release(&budgets);
    return status;
}
