/* The page of a report: the runs that it has, its hints at missing ones, its refusals, and names of a trace that are
 * markup. */
#include "base/status.h"
#include "program.h"
#include "report_reader.h"
#include "trace_edit.h"

#include <math.h>

/* A name that is markup in HTML and in Markdown, and a control sequence on a terminal. */
#define HOSTILE_NAME "<script>alert(1)</script>&\"|*_[x](y)`\\033[31m"

/* Tables and sentences need runs that support them; a hint stands in their place. */
static void what_is_absent_is_hinted_at(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    json_t *page = report();
    assert_null(table_of(page, "autocast", "comparison"));
    assert_null(table_of(page, "autocast", "causes"));
    assert_null(table_of(page, "autocast", "peaks"));
    assert_null(table_of(page, "dtypes", "dtypes"));
    assert_null(table_of(page, "timing", "warm-up"));
    assert_null(table_of(page, "peaks", "out-of-memory"));
    assert_false(is_said(page, "residual", "under autocast"));
    static const char *const sections[] = {"timing", "implementations", "autocast", "dtypes", "kernels"};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        assert_true(json_array_size(json_object_get(section_of(page, sections[i]), "hints")) > 0);
    json_decref(page);
}

static void forward_passes_may_keep_their_output(void **state)
{
    (void)state;
    static const char hint[] = ": `memtrace run --mode fwd --keep-output on`";
    run(TINY "--seq 8");
    assert_null(strstr(MEMTRACE("report")->out, hint));
    run(TINY "--seq 8 --mode fwd");
    assert_says(MEMTRACE("report")->out, hint);
    run(TINY "--seq 8 --mode fwd --keep-output on");
    assert_null(strstr(MEMTRACE("report")->out, hint));
}

static void warm_up_is_compared(void **state)
{
    (void)state;
    run(TINY "--seq 8 --steps 3");
    run(TINY "--seq 8 --steps 3 --warmup 2");
    json_t *page = report(), *table = table_of(page, "timing", "warm-up");
    assert_int_equal(json_array_size(rows_of(table)), 1);
    double cold = json_number_value(json_object_get(cell_of(table, 0, "without warm-up, ms"), "value"));
    double warm = json_number_value(json_object_get(cell_of(table, 0, "with, ms"), "value"));
    double difference = json_number_value(json_object_get(cell_of(table, 0, "difference"), "value"));
    assert_true(cold > warm && warm > 0);
    assert_true(fabs(cold - warm - difference) < 1e-9);
    assert_int_equal(json_array_size(rows_of(table_of(page, "timing", "steps"))), 1);
    json_decref(page);
}

/* A full step tells of the forward pass of its own configuration, and of no other's; a graph is one. */
static void forward_passes_are_timed_where_no_full_step_is_of_their_kind(void **state)
{
    (void)state;
    run(TINY "--seq 8 --mode fwd");
    run(TINY "--seq 8 --mode fwd_bwd");
    json_t *page = report();
    assert_int_equal(json_array_size(rows_of(table_of(page, "timing", "steps"))), 1);
    json_decref(page);
    run(TINY "--seq 8 --mode fwd --attention softmax");
    run(TINY "--seq 8 --mode fwd_bwd --zero-grad before-forward");
    run(TINY "--seq 8 --mode fwd_bwd --zero-grad before-forward --cuda-graph on");
    page = report();
    const json_t *table = table_of(page, "timing", "steps");
    assert_int_equal(json_array_size(rows_of(table)), 4);
    row_of(table, "attention", "softmax");
    row_of(table, "CUDA graph", "on");
    json_decref(page);
}

static void out_of_memory_is_a_row(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE(TINY "--seq 512 --device sim:64MiB")->code, MT_OUT_OF_MEMORY);
    run(TINY "--seq 8");
    json_t *page = report(), *table = table_of(page, "peaks", "out-of-memory");
    assert_int_equal(json_array_size(rows_of(table)), 1);
    assert_int_equal(cell_bytes(table, 0, "card has"), 64 << 20);
    assert_true(cell_bytes(table, 0, "asked for") > 0);
    size_t row = row_of(table_of(page, "peaks", "peaks"), "device", "sim:64MiB");
    assert_string_equal(cell_text(table_of(page, "peaks", "peaks"), row, "allocated"), "out of memory");
    json_decref(page);
}

/* The newest run of a configuration counts, but one of a single step only where there is no other. */
static void newest_steady_run_counts(void **state)
{
    (void)state;
    run(TINY "--seq 8 --steps 3 --name first");
    run(TINY "--seq 8 --steps 4 --name second");
    run(TINY "--seq 8 --steps 1 --name third");
    json_t *page = report(), *table = table_of(page, "runs", "runs");
    assert_int_equal(json_array_size(rows_of(table)), 1);
    assert_string_equal(cell_text(table, 0, "name"), "second");
    json_decref(page);
}

/* The page begins with what was found, in every format, and each finding stands in its section, too. */
static void what_was_found_comes_first(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    run(TINY "--seq 32");
    json_t *page = report();
    const json_t *findings = json_object_get(page, "findings");
    assert_true(json_array_size(findings) >= 3);
    for (size_t i = 0; i < json_array_size(findings); i++)
        assert_true(is_said(page, text_of(json_array_get(findings, i), "section"),
                            text_of(json_array_get(findings, i), "text")));
    const json_t *table = table_of(page, "peaks", "peaks");
    assert_says(text_of(json_array_get(findings, 0), "text"), "Run 2 (");
    assert_says(text_of(json_array_get(findings, 2), "text"), "The highest peak is ");
    assert_says(text_of(json_array_get(findings, 2), "text"), cell_text(table, 1, "allocated"));
    json_decref(page);
    const char *markdown = MEMTRACE("report")->out;
    assert_true(strstr(markdown, "## What was found") < strstr(markdown, "## Your runs"));
    assert_true(strstr(markdown, "## Run 2") < strstr(markdown, "## Timing"));
    const char *html = MEMTRACE("report --format html")->out;
    assert_true(strstr(html, "<nav ") < strstr(html, "<li>Run 2 "));
    assert_says(html, " <a href=\"#peaks\">Peaks in fp32</a></li>");
}

/* A column in which all rows agree is told in the title alone; one in which no row has anything is not told. */
static void constant_columns_are_left_out(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    run(TINY "--seq 32");
    const char *markdown = MEMTRACE("report")->out;
    assert_says(markdown, "; in each row pass: full step; precision: fp32; after a step: ");
    assert_says(markdown, "time is: estimate**");
    assert_says(markdown, "**\n\n| seq | allocated |  reserved |\n");
    assert_null(strstr(markdown, "published reserved"));
    json_t *page = report();
    assert_string_equal(cell_text(table_of(page, "peaks", "peaks"), 0, "pass"), "full step");
    json_decref(page);
}

/* A bar is as long as its number: the larger of two reaches the end of the scale. */
/* The end of a module's path tells it apart from others; the whole is the label's title. */
static void long_modules_in_charts_keep_both_ends(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    edit_trace("memtrace.db", "UPDATE span SET path = 'PeftModelForCausalLM.base_model.model.' ||"
                              " 'transformer_with_long_context.' || path");
    const char *html = MEMTRACE("report --format html")->out;
    assert_says(html, "<title>PeftModelForCausalLM.base_model.model.transformer_with_long_context.model.layers.*.ffn.w1"
                      "</title>PeftModelForCausalLM.base_mode…");
    assert_says(html, "model.layers.*.ffn.w1</text>");
}

static void tables_have_charts(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    run(TINY "--seq 32");
    json_t *page = report(), *table = table_of(page, "peaks", "peaks");
    double share = (double)cell_bytes(table, 0, "allocated") / (double)cell_bytes(table, 1, "reserved");
    const char *chart = strstr(MEMTRACE("report --format html")->out, "aria-label=\"Chart: Peaks");
    double place, width[3];
    assert_non_null(chart);
    for (size_t i = 0; i < 3; i++) {
        chart = strstr(chart, "<rect class=") + strlen("<rect class=");
        assert_int_equal(sscanf(chart, "\"%*c\" x=\"%lf\" y=\"%*f\" width=\"%lf\"", &place, &width[i]), 2);
        assert_true(place == 270);
    }
    const double whole = 760 - 270 - 96;
    assert_true(fabs(width[0] - share * whole) < 0.11 * share * whole + 0.11 || share > 1);
    assert_true(width[0] < width[2] && width[2] <= whole);
    assert_null(strstr(MEMTRACE("report")->out, "<svg"));
    json_decref(page);
}

static void rows_and_bars_link_to_timelines(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    run(TINY "--seq 32");
    run("report -o page.v2.html --timelines");
    const char *html = shell("cat page.v2.html")->out;
    assert_says(html, "<td class=\"n\"><a href=\"page.v2-timelines/run-1.html\">8</a></td>");
    assert_says(html, "<a href=\"page.v2-timelines/run-2.html\"><text");
    assert_int_equal(shell("grep -q 'id=\"chunk-0\"' page.v2-timelines/run-1.html page.v2-timelines/run-2.html")->code,
                     0);
    assert_null(strstr(MEMTRACE("report --format html")->out, "run-1.html"));
    assert_int_equal(MEMTRACE("report --timelines")->code, MT_USAGE);
    assert_int_equal(shell("touch a-timelines && \"$M\" report -o a.html --timelines")->code, MT_NOT_WRITTEN);
}

static void html_holds_names_as_text(void **state)
{
    (void)state;
    run(TINY "--seq 8 --name \"$(printf '" HOSTILE_NAME "')\"");
    const struct said *said = MEMTRACE("report --format html");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;|*_[x](y)`\\x1b[31m");
    assert_null(strstr(said->out, "<script"));
    assert_null(strchr(said->out, '\033'));
    assert_says(said->out, "default-src 'none'");
    assert_null(strstr(said->out, "src="));
    assert_null(strstr(said->out, "href=\"http"));
    assert_says(said->out, "</html>");
}

/* Counts the bars that are not part of a text. */
static size_t count_bars(const char *line, size_t length)
{
    size_t bars = 0;
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\\')
            i++;
        else
            bars += line[i] == '|';
    }
    return bars;
}

static void markdown_holds_names_as_text(void **state)
{
    (void)state;
    run(TINY "--seq 8 --name \"$(printf '" HOSTILE_NAME "')\"");
    const struct said *said = MEMTRACE("report");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "\\<script\\>alert(1)\\</script\\>\\&\"\\|\\*\\_\\[x\\](y)\\`\\\\x1b\\[31m");
    assert_int_equal(shell("cp memtrace.db 'a``b.db'")->code, 0);
    assert_says(MEMTRACE("report --trace 'a``b.db'")->out, ": ``` memtrace report --study --trace 'a``b.db' ```");
    said = MEMTRACE("report");
    size_t expected = 0, rows = 0;
    for (const char *line = said->out; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        size_t bars = line[0] == '|' ? count_bars(line, length) : 0;
        if (bars > 0 && expected > 0) {
            assert_int_equal(bars, expected);
            rows++;
        }
        expected = bars;
        line += length + (line[length] == '\n');
    }
    assert_true(rows > 20);
}

static void format_is_told_by_the_name(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    run("report -o page.html");
    assert_int_equal(shell("head -c 15 page.html")->code, 0);
    assert_says(shell("head -c 15 page.html")->out, "<!DOCTYPE html>");
    run("report -o page.md");
    assert_says(shell("head -c 2 page.md")->out, "# ");
    run("report --format html -o page.txt");
    assert_says(shell("head -c 15 page.txt")->out, "<!DOCTYPE html>");
}

static void refuses_what_makes_no_page(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    const struct said *said = MEMTRACE("report -o ./memtrace.db");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "is a trace");
    assert_int_equal(MEMTRACE("report --json -o page.json")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("report -o absent/page.html")->code, MT_NOT_WRITTEN);
    said = MEMTRACE("report -o a.b/page.pdf");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "as HTML (.html) or Markdown (.md), not as pdf");
    assert_int_equal(shell("mkdir a.b && \"$M\" report -o a.b/page && head -c 2 a.b/page | grep -q '# '")->code, 0);
    assert_int_not_equal(MEMTRACE("report --trace absent.db")->code, 0);
    assert_int_equal(
        shell("\"$M\" " TINY "--seq 64 --device sim:1GiB --trace only.db --steps 1000000 & "
              "for i in $(seq 1000); do \"$M\" runs --trace only.db | grep -q running && break; sleep 0.01; done; "
              "kill -9 $!; wait $! || \"$M\" report --trace only.db")
            ->code,
        MT_USAGE);
    assert_says(shell("\"$M\" report --trace only.db")->err, "nothing to report");
}

/* Runs of any program are listed, newest first, and each has a section; only runs that say what was trained have
 * tables. */
static void own_runs_come_first(void **state)
{
    (void)state;
    run(TINY "--seq 8 --name mine");
    assert_int_equal(
        shell("printf 'Thread,Time,Action,Pointer,Size,Stream\\n1,10:00:00:000001,allocate,0x1000,4096,0\\n'"
              " >log.csv && \"$M\" import log.csv --trace imported.db")
            ->code,
        0);
    const struct said *said = MEMTRACE("report --trace imported.db");
    assert_int_equal(said->code, 0);
    assert_null(strstr(said->out, "Kernels"));
    assert_says(said->out, "peaks at 4.00 KiB allocated, before the first step; ");
    assert_says(said->out, "in imported.db, read by memtrace ");
    assert_int_equal(MEMTRACE("import log.csv")->code, 0);
    said = MEMTRACE("report --format html");
    const char *second = strstr(said->out, "<h2 id=\"run-2\">"),
               *first = strstr(said->out, "<h2 id=\"run-1\">Run 1: mine");
    assert_non_null(second);
    assert_true(second < first && first < strstr(said->out, "<h2 id=\"timing\">"));
    assert_says(said->out, "<td class=\"n\"><a href=\"#run-2\">2</a></td>");
    assert_says(second, "aria-label=\"Allocated over time\">\n<path class=\"area\" d=\"M0 150V");
    json_t *page = report();
    assert_int_equal(json_array_size(rows_of(table_of(page, "own-runs", "own-runs"))), 2);
    assert_string_equal(cell_text(table_of(page, "run-1", "run"), 0, "name"), "mine");
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_absent_is_hinted_at),
        TEST(forward_passes_may_keep_their_output),
        TEST(warm_up_is_compared),
        TEST(forward_passes_are_timed_where_no_full_step_is_of_their_kind),
        TEST(out_of_memory_is_a_row),
        TEST(newest_steady_run_counts),
        TEST(what_was_found_comes_first),
        TEST(constant_columns_are_left_out),
        TEST(long_modules_in_charts_keep_both_ends),
        TEST(tables_have_charts),
        TEST(rows_and_bars_link_to_timelines),
        TEST(html_holds_names_as_text),
        TEST(markdown_holds_names_as_text),
        TEST(format_is_told_by_the_name),
        TEST(refuses_what_makes_no_page),
        TEST(own_runs_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
