/* The files that continuous integration reads. Names come from whoever wrote the trace: each form escapes them. */
#include "answer/output_file.h"
#include "cli/check/check_report.h"
#include "cli/check/check_text.h"
#include "cli/output/output.h"

#include <inttypes.h>
#include <string.h>

/* A test case of the suite; what failed says so twice, since readers show either the message or the text. */
static void add_test_case(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    struct mt_text name = {0}, finding = {0};
    mt_criterion_add_name(check, criterion, &name);
    mt_criterion_add_finding(check, criterion, &finding);
    mt_text_add(out, "    <testcase classname=\"memtrace.check\" name=\"");
    mt_text_add_markup(out, mt_text_get(&name));
    if (criterion->passed) {
        mt_text_add(out, "\"/>\n");
    } else {
        mt_text_add(out, "\">\n      <failure type=\"budget\" message=\"");
        mt_text_add_markup(out, mt_text_get(&finding));
        mt_text_add(out, "\">");
        mt_text_add_markup(out, mt_text_get(&finding));
        mt_text_add(out, "</failure>\n    </testcase>\n");
    }
    mt_text_release(&name);
    mt_text_release(&finding);
}

mt_status mt_check_write_junit(const struct mt_check *check, const char *path)
{
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
        add_test_case(check, &check->criteria[i], &out);
    mt_text_add(&out, "  </testsuite>\n</testsuites>\n");
    mt_status status = mt_output_file_put(path, MT_OUTPUT_BY_NAME, mt_text_get(&out));
    mt_text_release(&run);
    mt_text_release(&out);
    return status;
}

static void add_summary_row(const struct mt_check *check, const struct mt_criterion *criterion, struct mt_text *out)
{
    struct mt_text name = {0}, finding = {0};
    mt_criterion_add_name(check, criterion, &name);
    mt_criterion_add_finding(check, criterion, &finding);
    mt_text_add(out, "| %s | ", criterion->passed ? "passes" : "**fails**");
    mt_text_add_markdown(out, mt_text_get(&name));
    mt_text_add(out, " | ");
    mt_text_add_markdown(out, mt_text_get(&finding));
    mt_text_add(out, " |\n");
    mt_text_release(&name);
    mt_text_release(&finding);
}

/* Commands, which a fence takes as they are. */
static void add_summary_hints(const struct mt_check *check, const struct mt_trace_options *options, struct mt_text *out)
{
    struct mt_check_hints hints;
    mt_check_hints_create(check, options, &hints);
    if (hints.count > 0)
        mt_text_add(out, "\nAsk next:\n\n```\n");
    for (size_t i = 0; i < hints.count; i++) {
        mt_text_add_visible(out, mt_text_get(&hints.items[i].command));
        mt_text_add(out, "  # %s\n", hints.items[i].tells);
    }
    if (hints.count > 0)
        mt_text_add(out, "```\n");
    mt_check_hints_release(&hints);
}

mt_status mt_check_append_summary(const struct mt_check *check, const struct mt_trace_options *options,
                                  const char *path)
{
    struct mt_text verdict = {0}, differences = {0}, out = {0};
    mt_check_add_verdict(check, &verdict);
    mt_status status = mt_check_add_differences(check, &differences);
    mt_text_add(&out, "### memtrace check: ");
    mt_text_add_markdown(&out, mt_text_get(&verdict));
    mt_text_add(&out, "\n\n| | criterion | found |\n|---|---|---|\n");
    for (size_t i = 0; i < check->count; i++)
        add_summary_row(check, &check->criteria[i], &out);
    if (differences.length > 0) {
        struct mt_text against = {0};
        mt_check_add_against(check, &against);
        mt_text_add(&out, "\nSettings that differ from ");
        mt_text_add_markdown(&out, mt_text_get(&against));
        mt_text_add(&out, ": ");
        mt_text_add_markdown(&out, mt_text_get(&differences));
        mt_text_add(&out, "\n");
        mt_text_release(&against);
    }
    add_summary_hints(check, options, &out);
    mt_text_add(&out, "\n");
    if (status == MT_OK)
        status = mt_output_file_put(path, MT_OUTPUT_APPENDED, mt_text_get(&out));
    mt_text_release(&verdict);
    mt_text_release(&differences);
    mt_text_release(&out);
    return status;
}
