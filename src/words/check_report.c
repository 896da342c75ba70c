#include "words/check_report.h"

#include "answer/escape.h"
#include "answer/output_file.h"
#include "answer/table.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>

/* The lines about a check that failed, and those of them that are the verdict and the titles of the columns. */
enum { MOST_LINES = 9, TITLE_LINES = 2 };

static void print_hints(const struct mt_check_hints *hints, const struct mt_screen *screen)
{
    size_t width = 0;
    for (size_t i = 0; i < hints->count; i++)
        width = mt_larger(width, hints->items[i].command.length);
    for (size_t i = 0; i < hints->count; i++) {
        const struct mt_text *command = &hints->items[i].command;
        struct mt_text visible = {0};
        mt_text_add_visible(&visible, mt_text_get(command));
        fprintf(screen->file, "  %s%*s  # %s\n", mt_text_get(&visible), (int)(width - command->length), "",
                hints->items[i].tells);
        mt_text_release(&visible);
    }
}

/* Prints a table of the first `limit` criteria that failed. */
static void print_failures(const struct mt_check_row *row, size_t limit, const struct mt_screen *screen)
{
    struct mt_criterion_row *failures = mt_host_alloc((limit + 1) * sizeof *failures);
    size_t shown = 0;
    for (size_t i = 0; i < row->count && shown < limit; i++)
        if (!row->criteria[i].criterion.passed)
            failures[shown++] = row->criteria[i];
    assert(shown == limit);
    mt_screen_rows(screen, &mt_criterion_type, "criterion text", NULL, failures, shown);
    free(failures);
}

static void print_failed(const struct mt_check_row *row, const struct mt_screen *screen)
{
    const char *differences = mt_text_get(&row->differences);
    size_t failed = (size_t)row->failed;
    size_t room = MOST_LINES - TITLE_LINES - row->hints.count - (differences[0] != '\0');
    assert(failed > 0 && room >= 2);
    size_t shown = failed <= room ? failed : room - 1;
    print_failures(row, shown, screen);
    if (shown < failed)
        mt_screen_say(screen, "… and %zu more: --json lists them all", failed - shown);
    if (differences[0] != '\0')
        mt_screen_say(screen, "settings that differ: %s", differences);
    print_hints(&row->hints, screen);
}

void mt_check_print(const struct mt_check_row *row, const struct mt_screen *screen)
{
    struct mt_text line = {0};
    mt_check_add_verdict(row->check, &line);
    if (row->passed)
        mt_check_add_nearest(row->check, &line);
    mt_screen_line(screen, &line);
    if (!row->passed)
        print_failed(row, screen);
}

/* Adds a test case of the suite. One that failed says so twice, since readers show either the message or the text. */
static void add_test_case(const struct mt_criterion_row *row, struct mt_text *out)
{
    assert(row->name.length > 0 && row->finding.length > 0);
    mt_text_add(out, "    <testcase classname=\"memtrace.check\" name=\"");
    mt_text_add_markup(out, mt_text_get(&row->name));
    if (row->criterion.passed) {
        mt_text_add(out, "\"/>\n");
    } else {
        mt_text_add(out, "\">\n      <failure type=\"budget\" message=\"");
        mt_text_add_markup(out, mt_text_get(&row->finding));
        mt_text_add(out, "\">");
        mt_text_add_markup(out, mt_text_get(&row->finding));
        mt_text_add(out, "</failure>\n    </testcase>\n");
    }
}

mt_status mt_check_write_junit(const struct mt_check_row *row, const char *path)
{
    const struct mt_check *check = row->check;
    struct mt_text run = {0}, out = {0};
    mt_check_add_run(check, &run);
    mt_text_add(&out,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<testsuites tests=\"%zu\" failures=\"%zu\" errors=\"0\">\n  <testsuite name=\"memtrace check\""
                " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"0\" timestamp=\"",
                check->count, check->failed, check->count, check->failed);
    mt_text_add_markup(&out, check->question->run->started_at);
    mt_text_add(&out, "\">\n    <properties>\n      <property name=\"run\" value=\"");
    mt_text_add_markup(&out, mt_text_get(&run));
    mt_text_add(&out, "\"/>\n    </properties>\n");
    for (size_t i = 0; i < check->count; i++)
        add_test_case(&row->criteria[i], &out);
    mt_text_add(&out, "  </testsuite>\n</testsuites>\n");
    mt_status status = mt_output_file_put(path, MT_OUTPUT_BY_NAME, mt_text_get(&out));
    mt_text_release(&run);
    mt_text_release(&out);
    return status;
}

static void add_summary_row(const struct mt_criterion_row *row, struct mt_text *out)
{
    mt_text_add(out, "| %s | ", row->criterion.passed ? "passes" : "**fails**");
    mt_text_add_markdown(out, mt_text_get(&row->name));
    mt_text_add(out, " | ");
    mt_text_add_markdown(out, mt_text_get(&row->finding));
    mt_text_add(out, " |\n");
}

/* Adds the commands to ask next. A fence takes them as they are. */
static void add_summary_hints(const struct mt_check_hints *hints, struct mt_text *out)
{
    if (hints->count == 0)
        return;
    mt_text_add(out, "\nAsk next:\n\n```\n");
    for (size_t i = 0; i < hints->count; i++) {
        mt_text_add_visible(out, mt_text_get(&hints->items[i].command));
        mt_text_add(out, "  # %s\n", hints->items[i].tells);
    }
    mt_text_add(out, "```\n");
}

mt_status mt_check_append_summary(const struct mt_check_row *row, const char *path)
{
    struct mt_text verdict = {0}, against = {0}, out = {0};
    mt_check_add_verdict(row->check, &verdict);
    mt_text_add(&out, "### memtrace check: ");
    mt_text_add_markdown(&out, mt_text_get(&verdict));
    mt_text_add(&out, "\n\n| | criterion | found |\n|---|---|---|\n");
    for (size_t i = 0; i < row->count; i++)
        add_summary_row(&row->criteria[i], &out);
    if (row->differences.length > 0) {
        mt_check_add_against(row->check, &against);
        mt_text_add(&out, "\nSettings that differ from ");
        mt_text_add_markdown(&out, mt_text_get(&against));
        mt_text_add(&out, ": ");
        mt_text_add_markdown(&out, mt_text_get(&row->differences));
        mt_text_add(&out, "\n");
    }
    add_summary_hints(&row->hints, &out);
    mt_text_add(&out, "\n");
    mt_status status = mt_output_file_put(path, MT_OUTPUT_APPENDED, mt_text_get(&out));
    mt_text_release(&verdict);
    mt_text_release(&against);
    mt_text_release(&out);
    return status;
}
