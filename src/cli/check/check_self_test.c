#include "cli/check/check_self_test.h"

#include "analysis/check.h"
#include "answer/table.h"
#include "cli/output/output.h"

/* Adds the name of the criterion that was tried: "max-allocated", "no-leaks". */
static void add_criterion(const struct mt_check_trial *trial, struct mt_text *out)
{
    static const char *const names[] = {[MT_CRITERION_ENDED] = "ended well",
                                        [MT_CRITERION_PEAK] = "max-",
                                        [MT_CRITERION_CATEGORY] = "category",
                                        [MT_CRITERION_LARGEST] = "largest",
                                        [MT_CRITERION_LEAKS] = "no-leaks"};
    mt_text_add(out, "%s", trial->is_relative ? "against" : names[trial->kind]);
    if (trial->kind == MT_CRITERION_PEAK && !trial->is_relative)
        mt_text_add(out, "%s", mt_measure_name(trial->measure));
}

/* Adds what the check must do of the budget. */
static void add_expected(const struct mt_check_trial *trial, struct mt_text *out)
{
    char bytes[MT_BYTES_TEXT];
    mt_format_bytes(trial->bytes, bytes);
    if (trial->is_relative)
        mt_text_add(out, "lets a run like the other through, and stops one with more");
    else if (trial->kind == MT_CRITERION_ENDED)
        mt_text_add(out, "stops a run that ended out of memory within its bounds");
    else if (trial->kind == MT_CRITERION_LEAKS)
        mt_text_add(out, "lets the clean run through, and stops the injected leak of %s a step", bytes);
    else
        mt_text_add(out, "lets %s through, and stops at a bound of one byte less", bytes);
}

static void print_table(const struct mt_check_trials *trials)
{
    static const struct mt_column columns[] = {
        {"", MT_ALIGN_LEFT}, {"criterion", MT_ALIGN_LEFT}, {"must do", MT_ALIGN_LEFT}};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < trials->count; i++) {
        struct mt_text criterion = {0}, expected = {0};
        add_criterion(&trials->items[i], &criterion);
        add_expected(&trials->items[i], &expected);
        mt_table_add(table, trials->items[i].held ? "does" : "DOES NOT");
        mt_table_add(table, mt_text_get(&criterion));
        mt_table_add(table, mt_text_get(&expected));
        mt_text_release(&criterion);
        mt_text_release(&expected);
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_json(const struct mt_check_trials *trials)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < trials->count; i++) {
        struct mt_text criterion = {0}, expected = {0};
        add_criterion(&trials->items[i], &criterion);
        add_expected(&trials->items[i], &expected);
        json_array_append_new(rows, json_pack("{s:o, s:o, s:b}", "criterion", mt_json_text(mt_text_get(&criterion)),
                                              "expected", mt_json_text(mt_text_get(&expected)), "held",
                                              (int)trials->items[i].held));
        mt_text_release(&criterion);
        mt_text_release(&expected);
    }
    mt_json_print(json_pack("{s:s, s:b, s:o}", "schema", "memtrace.check_self_test/1", "works", trials->broken == 0,
                            "rows", rows));
}

mt_status mt_check_self_test(const struct mt_trace_options *options)
{
    struct mt_check_trials trials;
    mt_status status = mt_check_trials_run(&trials);
    if (status != MT_OK)
        return mt_fail_context(MT_USAGE, "the gate could not be tried");
    (options->json ? print_json : print_table)(&trials);
    if (trials.broken > 0) {
        mt_note("check: the gate is broken: %zu of %zu criteria do not do what they must", trials.broken, trials.count);
        return MT_OK;
    }
    return mt_fail(MT_FAILED,
                   "the injected leak was found and all %zu criteria close: this exit code says that the gate"
                   " works",
                   trials.count);
}
