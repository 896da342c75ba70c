#include "cli/check/check_report.h"

#include "answer/table.h"
#include "cli/check/check_text.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <stdio.h>
#include <string.h>

/* Of a check that failed: the verdict, and the titles of the columns. */
enum { MOST_LINES = 9, TITLE_LINES = 2 };

static void print_hints(const struct mt_check_hints *hints)
{
    int width = 0;
    for (size_t i = 0; i < hints->count; i++)
        if ((int)hints->items[i].command.length > width)
            width = (int)hints->items[i].command.length;
    for (size_t i = 0; i < hints->count; i++) {
        const struct mt_text *command = &hints->items[i].command;
        fputs("  ", stdout);
        mt_print_name(mt_text_get(command));
        printf("%*s  # %s\n", width - (int)command->length, "", hints->items[i].tells);
    }
}

static void add_failure(struct mt_table *table, const struct mt_check *check, const struct mt_criterion *criterion)
{
    struct mt_text name = {0}, finding = {0};
    mt_criterion_add_name(check, criterion, &name);
    mt_criterion_add_finding(check, criterion, &finding);
    mt_table_add(table, mt_text_get(&name));
    mt_table_add(table, mt_text_get(&finding));
    mt_text_release(&name);
    mt_text_release(&finding);
}

/* A table of the first `limit` criteria that failed. */
static void print_failures(const struct mt_check *check, size_t limit)
{
    static const struct mt_column columns[] = {{"failed", MT_ALIGN_LEFT}, {"found", MT_ALIGN_LEFT}};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    size_t shown = 0;
    for (size_t i = 0; i < check->count && shown < limit; i++) {
        if (check->criteria[i].passed)
            continue;
        add_failure(table, check, &check->criteria[i]);
        shown++;
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_failed(const struct mt_check *check, const struct mt_check_hints *hints, const char *differences)
{
    size_t room = MOST_LINES - TITLE_LINES - hints->count - (differences[0] != '\0');
    size_t shown = check->failed <= room ? check->failed : room - 1;
    print_failures(check, shown);
    if (shown < check->failed)
        printf("… and %zu more: --json lists them all\n", check->failed - shown);
    if (differences[0] != '\0') {
        fputs("settings that differ: ", stdout);
        mt_print_name(differences);
        putchar('\n');
    }
    print_hints(hints);
}

static void print_verdict(const struct mt_check *check)
{
    struct mt_text line = {0};
    mt_check_add_verdict(check, &line);
    mt_print_name(mt_text_get(&line));
    putchar('\n');
    mt_text_release(&line);
}

static void print_passed(const struct mt_check *check)
{
    struct mt_text line = {0};
    mt_check_add_verdict(check, &line);
    mt_check_add_nearest(check, &line);
    mt_print_name(mt_text_get(&line));
    putchar('\n');
    mt_text_release(&line);
}

mt_status mt_check_print(const struct mt_check *check, const struct mt_trace_options *options)
{
    if (check->failed == 0) {
        print_passed(check);
        return MT_OK;
    }
    struct mt_text differences = {0};
    mt_status status = mt_check_add_differences(check, &differences);
    if (status == MT_OK) {
        struct mt_check_hints hints;
        mt_check_hints_create(check, options, &hints);
        print_verdict(check);
        print_failed(check, &hints, mt_text_get(&differences));
        mt_check_hints_release(&hints);
    }
    mt_text_release(&differences);
    return status;
}

static json_t *criterion_json(const struct mt_check *check, const struct mt_criterion *criterion)
{
    struct mt_text name = {0}, finding = {0};
    mt_criterion_add_name(check, criterion, &name);
    mt_criterion_add_finding(check, criterion, &finding);
    bool has_bytes = criterion->kind != MT_CRITERION_ENDED;
    uint64_t over = criterion->passed ? 0 : criterion->value_bytes - criterion->bound_bytes;
    json_t *object = json_pack(
        "{s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o}", "criterion", mt_json_text(mt_text_get(&name)), "category",
        criterion->category[0] != '\0' ? mt_json_text(criterion->category) : json_null(), "relative",
        criterion->is_relative, "passed", criterion->passed, "value_bytes",
        has_bytes ? json_integer((json_int_t)criterion->value_bytes) : json_null(), "bound_bytes",
        has_bytes ? json_integer((json_int_t)criterion->bound_bytes) : json_null(), "over_bytes",
        has_bytes ? json_integer((json_int_t)over) : json_null(), "text", mt_json_text(mt_text_get(&finding)));
    mt_text_release(&name);
    mt_text_release(&finding);
    return object;
}

static json_t *leak_json(const struct mt_leak_row *row)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "category",
                     mt_json_text(row->category), "role", mt_json_text(row->role), "op", mt_json_text(row->op), "phase",
                     mt_json_text(row->phase), "dtype", mt_json_text(row->dtype), "span", mt_json_text(row->place),
                     "shape", mt_json_text(row->shape), "first_bytes", (json_int_t)row->first_bytes, "first_blocks",
                     (json_int_t)row->first_blocks, "last_bytes", (json_int_t)row->last_bytes, "last_blocks",
                     (json_int_t)row->last_blocks, "grew", (json_int_t)row->grew);
}

static json_t *leaks_json(const struct mt_check *check)
{
    const struct mt_leaks *leaks = &check->leaks;
    if (leaks->last_event == 0)
        return json_null();
    json_t *rows = json_array();
    for (size_t i = 0; i < leaks->row_count; i++)
        json_array_append_new(rows, leak_json(&leaks->rows[i]));
    return json_pack("{s:I, s:I, s:o}", "first_step", (json_int_t)leaks->first_step, "last_step",
                     (json_int_t)leaks->last_step, "rows", rows);
}

static json_t *against_json(const struct mt_check *check)
{
    if (check->against == NULL)
        return json_null();
    const struct mt_run *run = check->against->run;
    return json_pack("{s:I, s:o, s:o, s:f}", "run", (json_int_t)run->id, "name", mt_json_text(run->name), "file",
                     mt_json_text(check->against->file), "tolerance_percent", mt_budget_tolerance(check->budget));
}

static json_t *hints_json(const struct mt_check *check, const struct mt_trace_options *options)
{
    struct mt_check_hints hints;
    json_t *list = json_array();
    mt_check_hints_create(check, options, &hints);
    for (size_t i = 0; i < hints.count; i++)
        json_array_append_new(list, mt_json_text(mt_text_get(&hints.items[i].command)));
    mt_check_hints_release(&hints);
    return list;
}

mt_status mt_check_print_json(const struct mt_check *check, const struct mt_trace_options *options)
{
    struct mt_text differences = {0};
    mt_status status = mt_check_add_differences(check, &differences);
    if (status == MT_OK) {
        json_t *object = mt_question_json(check->question, "check"), *criteria = json_array();
        json_object_set_new(object, "passed", json_boolean(check->failed == 0));
        json_object_set_new(object, "failed", json_integer((json_int_t)check->failed));
        for (size_t i = 0; i < check->count; i++)
            json_array_append_new(criteria, criterion_json(check, &check->criteria[i]));
        json_object_set_new(object, "criteria", criteria);
        json_object_set_new(object, "leaks", leaks_json(check));
        json_object_set_new(object, "against", against_json(check));
        json_object_set_new(object, "differences", mt_json_text(mt_text_get(&differences)));
        json_object_set_new(object, "next", hints_json(check, options));
        mt_json_print(object);
    }
    mt_text_release(&differences);
    return status;
}
