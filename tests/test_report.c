/* The page of the tables: its bytes are the trace's, its sums add up, its sentences and published figures stand where the
 * runs support them, and what a trace calls things stays text in every format. */
#include "program.h"
#include "trace/recorder.h"
#include "trace/trace.h"

#include <math.h>

/* A model that runs in no time, on a simulated card; MT_PROGRAM runs it. */
#define TINY "run --device sim --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --batch 2 "
enum { TINY_BATCH = 2, TINY_WIDTH = 16 };

/* A name that means something in HTML, in Markdown and to a terminal. */
#define HOSTILE_NAME "<script>alert(1)</script>&\"|*_[x](y)`\\033[31m"

static json_t *section_of(const json_t *page, const char *key)
{
    size_t i;
    json_t *section;
    json_array_foreach(json_object_get(page, "sections"), i, section)
    {
        if (strcmp(text_of(section, "key"), key) == 0)
            return section;
    }
    fail_msg("there is no section %s", key);
    return NULL;
}

/* NULL: the section has none of that key. */
static json_t *table_of(const json_t *page, const char *section, const char *key)
{
    size_t i;
    json_t *table;
    json_array_foreach(json_object_get(section_of(page, section), "tables"), i, table)
    {
        if (strcmp(text_of(table, "key"), key) == 0)
            return table;
    }
    return NULL;
}

static size_t column_of(const json_t *table, const char *title)
{
    size_t i;
    json_t *column;
    json_array_foreach(json_object_get(table, "columns"), i, column)
    {
        if (strcmp(json_string_value(column), title) == 0)
            return i;
    }
    fail_msg("there is no column %s", title);
    return 0;
}

static json_t *rows_of(const json_t *table)
{
    assert_non_null(table);
    return json_object_get(table, "rows");
}

static json_t *cell_of(const json_t *table, size_t row, const char *column)
{
    json_t *cells = json_array_get(rows_of(table), row);
    assert_int_equal(json_array_size(cells), json_array_size(json_object_get(table, "columns")));
    return json_array_get(cells, column_of(table, column));
}

static const char *cell_text(const json_t *table, size_t row, const char *column)
{
    return text_of(cell_of(table, row, column), "text");
}

static json_int_t cell_bytes(const json_t *table, size_t row, const char *column)
{
    return integer_of(cell_of(table, row, column), "bytes");
}

/* The row whose cell of a column has that text. */
static size_t row_of(const json_t *table, const char *column, const char *text)
{
    for (size_t row = 0; row < json_array_size(rows_of(table)); row++)
        if (strcmp(cell_text(table, row, column), text) == 0)
            return row;
    fail_msg("no row has %s %s", column, text);
    return 0;
}

/* Whether a sentence of the section has that part. */
static bool is_said(const json_t *page, const char *section, const char *part)
{
    size_t i;
    json_t *text;
    json_array_foreach(json_object_get(section_of(page, section), "text"), i, text)
    {
        if (strstr(json_string_value(text), part) != NULL)
            return true;
    }
    return false;
}

static json_t *report(void)
{
    json_t *page = json_of(MEMTRACE("report --json"));
    assert_schema(page, "memtrace.report/1");
    return page;
}

static void run(const char *arguments)
{
    const struct said *said = shell("\"$M\" %s", arguments);
    if (said->code != 0)
        fail_msg("%s: exit code %d: %s", arguments, said->code, said->err);
}

static int set_up(void **state)
{
    *state = enter_folder("report");
    return 0;
}

static void run_both_precisions(void)
{
    run(TINY "--seq 8 --autocast off");
    run(TINY "--seq 8 --autocast bf16");
    run(TINY "--seq 32 --autocast off");
    run(TINY "--seq 32 --autocast bf16");
}

static void accumulation_is_the_published_one(void **state)
{
    (void)state;
    static const char *const expected[][3] = {{"fp32", "fp32", "10.0001"},
                                              {"fp16", "fp16", "9.9531"},
                                              {"bf16", "bf16", "4.0000"},
                                              {"fp32", "fp16", "10.0021"},
                                              {"fp32", "bf16", "10.0098"}};
    run(TINY "--seq 8");
    json_t *page = report(), *table = table_of(page, "accumulation", "accumulation");
    assert_int_equal(json_array_size(rows_of(table)), sizeof expected / sizeof expected[0]);
    for (size_t row = 0; row < sizeof expected / sizeof expected[0]; row++) {
        assert_string_equal(cell_text(table, row, "sum in"), expected[row][0]);
        assert_string_equal(cell_text(table, row, "addends in"), expected[row][1]);
        assert_string_equal(cell_text(table, row, "result"), expected[row][2]);
    }
    assert_true(is_said(page, "accumulation", "bf16 sum of bf16 addends stands still at 4"));
    assert_false(is_said(page, "accumulation", "fp16 sum of fp16 addends stands still"));
    json_decref(page);
}

static json_int_t peak_bytes(struct mt_trace *trace, const char *number, mt_measure measure)
{
    const struct mt_run *found;
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_find_run(trace, number, &found), MT_OK);
    assert_int_equal(mt_trace_peak(trace, found, measure, &peak), MT_OK);
    json_int_t bytes = (json_int_t)peak.bytes;
    mt_peak_row_release(&peak);
    return bytes;
}

static void peaks_are_those_of_the_trace(void **state)
{
    (void)state;
    struct mt_trace *trace;
    run_both_precisions();
    json_t *page = report(), *wide = table_of(page, "peaks", "peaks"), *narrow = table_of(page, "autocast", "peaks");
    assert_int_equal(mt_trace_open("memtrace.db", &trace), MT_OK);
    assert_int_equal(json_array_size(rows_of(wide)), 2);
    assert_int_equal(json_array_size(rows_of(narrow)), 2);
    static const char *const runs[][2] = {{"1", "2"}, {"3", "4"}};
    for (size_t row = 0; row < 2; row++) {
        assert_int_equal(cell_bytes(wide, row, "allocated"), peak_bytes(trace, runs[row][0], MT_MEASURE_ALLOCATED));
        assert_int_equal(cell_bytes(wide, row, "reserved"), peak_bytes(trace, runs[row][0], MT_MEASURE_RESERVED));
        assert_int_equal(cell_bytes(narrow, row, "allocated"), peak_bytes(trace, runs[row][1], MT_MEASURE_ALLOCATED));
        assert_int_equal(cell_bytes(narrow, row, "reserved"), peak_bytes(trace, runs[row][1], MT_MEASURE_RESERVED));
    }
    mt_trace_close(trace);
    json_decref(page);
}

/* Each column of causes sums to its last row, which is the difference of the comparison. */
static void causes_sum_to_the_difference(void **state)
{
    (void)state;
    static const char *const titles[] = {"seq 8", "seq 32"};
    run_both_precisions();
    json_t *page = report(), *causes = table_of(page, "autocast", "causes");
    json_t *comparison = table_of(page, "autocast", "comparison");
    size_t last = json_array_size(rows_of(causes)) - 1;
    assert_true(last >= 2);
    for (size_t i = 0; i < 2; i++) {
        json_int_t sum = 0, delta = cell_bytes(comparison, i, "difference");
        for (size_t row = 0; row < last; row++)
            sum += cell_bytes(causes, row, titles[i]);
        assert_int_not_equal(delta, 0);
        assert_int_equal(sum, delta);
        assert_int_equal(cell_bytes(causes, last, titles[i]), delta);
        assert_int_equal(
            cell_bytes(comparison, i, "allocated, autocast") - cell_bytes(comparison, i, "allocated, fp32"), delta);
    }
    json_decref(page);
}

static void residual_stream_is_what_the_formula_says(void **state)
{
    (void)state;
    static const int lengths[] = {8, 32};
    run_both_precisions();
    json_t *page = report(), *table = table_of(page, "residual", "residual");
    assert_int_equal(json_array_size(rows_of(table)), 4);
    for (size_t row = 0; row < 4; row++) {
        json_int_t bytes = (json_int_t)TINY_BATCH * lengths[row % 2] * TINY_WIDTH * 4;
        assert_int_equal(cell_bytes(table, row, "by formula"), bytes);
        assert_int_equal(cell_bytes(table, row, "in the trace"), bytes);
    }
    assert_true(is_said(page, "residual", "stays fp32 under autocast"));
    json_decref(page);
}

static void dtypes_are_read_from_labels(void **state)
{
    (void)state;
    static const char *const expected[][3] = {{"parameters", "fp32", "fp32"},
                                              {"first linear layer's output", "fp32", "bf16"},
                                              {"first feed-forward layer's output", "fp32", "bf16"},
                                              {"norm's output", "fp32", "fp32"},
                                              {"logits", "fp32", "bf16"},
                                              {"loss", "fp32", "fp32"},
                                              {"gradients of parameters", "fp32", "fp32"}};
    run_both_precisions();
    json_t *page = report(), *table = table_of(page, "dtypes", "dtypes");
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        size_t row = row_of(table, "tensor", expected[i][0]);
        assert_string_equal(cell_text(table, row, "fp32"), expected[i][1]);
        assert_string_equal(cell_text(table, row, "bf16 autocast"), expected[i][2]);
    }
    json_decref(page);
}

static void published_figures_stand_beside_ours(void **state)
{
    (void)state;
    run("run --device sim --model 2.7B --seq 128 --mode fwd --steps 2 --alloc policy=torch");
    json_t *page = report(), *table = table_of(page, "peaks", "published");
    assert_int_equal(json_array_size(rows_of(table)), 1);
    assert_string_equal(cell_text(table, 0, "published reserved"), "18.51 GiB");
    assert_int_equal(cell_bytes(table, 0, "allocated"), INT64_C(19675807744));
    assert_int_equal(cell_bytes(table, 0, "reserved"), INT64_C(19883098112));
    assert_int_equal(cell_bytes(table, 0, "difference"), 0);
    json_t *hints = json_object_get(section_of(page, "peaks"), "hints");
    assert_int_equal(json_array_size(hints), 1);
    assert_says(text_of(json_array_get(hints, 0), "reason"), "1 of the 6 published");
    assert_says(text_of(json_array_get(hints, 0), "command"), "report --study --trace memtrace.db");
    json_decref(page);
}

/* Figures of PyTorch's allocator are not held against another one, and sentences say which they are of. */
static void allocators_are_told_apart(void **state)
{
    (void)state;
    static const char *const options[] = {"--seq 128", "--seq 256", "--seq 128 --alloc policy=torch",
                                          "--seq 256 --alloc policy=torch"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char command[128];
        snprintf(command, sizeof command, "run --device sim --model 2.7B --mode fwd --steps 2 %s", options[i]);
        run(command);
    }
    json_t *page = report();
    assert_int_equal(json_array_size(rows_of(table_of(page, "peaks", "published"))), 2);
    assert_int_equal(json_array_size(rows_of(table_of(page, "peaks", "peaks"))), 2);
    json_decref(page);
    const struct said *said = MEMTRACE("report");
    assert_says(said->out, "2.7B, forward pass, policy=tight: for 2 times the tokens");
    assert_says(said->out, "2.7B, forward pass, policy=torch: for 2 times the tokens");
    assert_null(strstr(said->out, "± 0.00"));
}

/* Two kernels of a step, one of them a product's. */
static void give_kernels(const struct mt_sink *sink)
{
    static const char *const ops[] = {"einsum.matmul", "softmax.exp"};
    struct mt_event begin = {.kind = MT_EVENT_STEP_BEGIN}, end = {.kind = MT_EVENT_STEP_END};
    sink->emit(sink->context, &begin);
    for (int i = 0; i < 2; i++) {
        struct mt_label label = {.category = MT_CATEGORY_EINSUM, .phase = MT_PHASE_FORWARD, .op = ops[i], .layer = -1};
        struct mt_kernel kernel = {.end_ns = i == 0 ? 3000000 : 1000000,
                                   .name = i == 0 ? "gemm" : "exp|kernel",
                                   .label = sink->intern_label(sink->context, &label)};
        sink->kernel(sink->context, &kernel);
    }
    sink->emit(sink->context, &end);
}

static void kernels_are_shown_by_phase(void **state)
{
    (void)state;
    static const struct mt_run_setting settings[] = {
        {"model", "tiny"}, {"batch", "2"}, {"seq", "8"}, {"kernels", "on"}};
    const struct mt_run_info info = {
        .device = "cuda:0", .capacity_bytes = 1 << 30, .settings = settings, .setting_count = 4};
    struct mt_recorder *recorder;
    run(TINY "--seq 8");
    assert_int_equal(mt_recorder_open("memtrace.db", &info, &recorder), MT_OK);
    give_kernels(mt_recorder_sink(recorder));
    assert_int_equal(mt_recorder_close(recorder, MT_RUN_DONE), MT_OK);
    json_t *page = report(), *table = table_of(page, "kernels", "kernels");
    assert_int_equal(json_array_size(rows_of(table)), 1);
    assert_string_equal(cell_text(table, 0, "phase"), "forward");
    assert_string_equal(cell_text(table, 0, "ms"), "4.000");
    assert_string_equal(cell_text(table, 0, "products"), "3.000");
    assert_string_equal(cell_text(table, 0, "share of phase"), "75.0 %");
    assert_string_equal(cell_text(table, 0, "largest other"), "1.000");
    assert_true(is_said(page, "kernels", "Matrix products take 75.0 %"));
    assert_int_equal(json_array_size(json_object_get(section_of(page, "kernels"), "hints")), 0);
    json_decref(page);
}

/* Neither a table nor a sentence without runs that support it; a hint in their place. */
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
    static const char *const sections[] = {"timing", "autocast", "dtypes", "kernels"};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        assert_true(json_array_size(json_object_get(section_of(page, sections[i]), "hints")) > 0);
    json_decref(page);
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

/* Bars that are no part of a text. */
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
    assert_int_not_equal(MEMTRACE("report --trace absent.db")->code, 0);
    assert_int_equal(
        shell("\"$M\" " TINY "--seq 64 --device sim:1GiB --trace only.db --steps 1000000 & "
              "for i in $(seq 1000); do \"$M\" runs --trace only.db | grep -q running && break; sleep 0.01; done; "
              "kill -9 $!; wait $! || \"$M\" report --trace only.db")
            ->code,
        MT_USAGE);
    assert_says(shell("\"$M\" report --trace only.db")->err, "nothing to report");
}

static void runs_that_do_not_say_what_was_trained_are_named(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    assert_null(strstr(MEMTRACE("report")->out, "further runs"));
    assert_int_equal(
        shell("printf 'Thread,Time,Action,Pointer,Size,Stream\\n1,10:00:00:000001,allocate,0x1000,4096,0\\n'"
              " >log.csv && \"$M\" import log.csv --trace imported.db")
            ->code,
        0);
    const struct said *said = MEMTRACE("report --trace imported.db");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "says which mode, batch and sequence were trained");
    assert_says(said->err, "memtrace peak, top, diff");
    assert_int_equal(MEMTRACE("import log.csv")->code, 0);
    assert_says(MEMTRACE("report")->out, "further runs that do not say which mode");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(accumulation_is_the_published_one),
        TEST(peaks_are_those_of_the_trace),
        TEST(causes_sum_to_the_difference),
        TEST(residual_stream_is_what_the_formula_says),
        TEST(dtypes_are_read_from_labels),
        TEST(published_figures_stand_beside_ours),
        TEST(allocators_are_told_apart),
        TEST(kernels_are_shown_by_phase),
        TEST(what_is_absent_is_hinted_at),
        TEST(warm_up_is_compared),
        TEST(forward_passes_are_timed_where_no_full_step_is_of_their_kind),
        TEST(out_of_memory_is_a_row),
        TEST(newest_steady_run_counts),
        TEST(html_holds_names_as_text),
        TEST(markdown_holds_names_as_text),
        TEST(format_is_told_by_the_name),
        TEST(refuses_what_makes_no_page),
        TEST(runs_that_do_not_say_what_was_trained_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
