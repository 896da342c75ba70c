/* The tables of a report: bytes equal the trace's, sums add up, and sentences and published figures stand where
 * runs support them. */
#include "program.h"
#include "report_reader.h"
#include "trace/query/trace.h"
#include "trace/store/recorder.h"

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
    const json_t *small = table_of(page, "accumulation", "small-addends");
    assert_string_equal(cell_text(small, 1, "sum in"), "fp16");
    assert_string_equal(cell_text(small, 1, "result"), "4.0000");
    assert_true(is_said(page, "accumulation", "A sum in fp16 of fp16 addends stands still at 4"));
    assert_true(is_said(page, "accumulation", "A sum in bf16 of bf16 addends stands still at 4"));
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

/* Returns what a run has allocated after its last step. */
static json_int_t bytes_after_steps(const char *run)
{
    json_t *answer = json_of(shell(
        "\"$M\" sql --json \"SELECT sum(CASE kind.name WHEN 'alloc' THEN block_bytes WHEN 'free' THEN -block_bytes END)"
        " AS bytes FROM event JOIN event_kind kind ON kind.id = event.kind WHERE event.id >= (SELECT first_event FROM "
        "run"
        " WHERE id = %s) AND event.id <= (SELECT max(last_event) FROM step WHERE run = %s)\"",
        run, run));
    json_int_t bytes = json_integer_value(json_array_get(json_array_get(rows_of(answer), 0), 0));
    json_decref(answer);
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
        assert_int_equal(cell_bytes(wide, row, "after a step"), bytes_after_steps(runs[row][0]));
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

/* Under fp16, and where labels of kernels have no dtype. */
static void dtypes_under_fp16_are_those_of_tensors(void **state)
{
    (void)state;
    run(TINY "--seq 8 --autocast fp16 --kernels --steps 2");
    json_t *page = report(), *table = table_of(page, "dtypes", "dtypes");
    assert_string_equal(cell_text(table, row_of(table, "tensor", "logits"), "fp16 autocast"), "fp16");
    for (size_t row = 0; row < json_array_size(rows_of(table)); row++)
        assert_string_not_equal(cell_text(table, row, "fp16 autocast"), "none");
    /* That of the parameters: the loss scaler's, which is of two dtypes, is none of the model's. */
    assert_string_equal(cell_text(table, row_of(table, "tensor", "optimizer state"), "fp16 autocast"), "fp32");
    assert_true(is_said(page, "dtypes", "Matrix products take copies of their operands in fp16"));
    assert_int_equal(json_array_size(rows_of(table_of(page, "autocast", "peaks"))), 1);
    run(TINY "--seq 8 --autocast off --kernels --steps 2");
    json_decref(page);
    page = report();
    assert_true(is_said(page, "autocast", ": under autocast the allocated peak is "));
    json_decref(page);
}

/* Returns "fp32 bf16" of a tensor, its dtypes in fp32 and under autocast; "" if the table lacks it. */
static void read_dtypes(const json_t *table, const char *what, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t row = 0; row < json_array_size(rows_of(table)); row++)
        if (strcmp(cell_text(table, row, "tensor"), what) == 0)
            snprintf(text, size, "%s %s", cell_text(table, row, "fp32"), cell_text(table, row, "bf16 autocast"));
}

static void assert_dtypes(const json_t *table, const char *what, const char *expected)
{
    char dtypes[32];
    read_dtypes(table, what, dtypes, sizeof dtypes);
    if (strcmp(dtypes, expected) != 0)
        fail_msg("%s is of \"%s\", not of \"%s\"", what, dtypes, expected);
}

/* Runs a variant in fp32 and under autocast, into a trace of its own, and returns the report. The caller releases
 * it. */
static json_t *report_of_variant(const char *variant)
{
    static const char sizes[] = "--vocab 64 --d-model 32 --d-ff 64 --layers 2 --heads 2 --batch 2 --seq 8";
    assert_int_equal(
        shell("rm -f v.db; for a in off bf16; do \"$M\" run --device sim %s %s --autocast $a --trace v.db; done", sizes,
              variant)
            ->code,
        0);
    return json_of(MEMTRACE("report --json --trace v.db"));
}

/* The tensors are found in each variant of attention, and in each implementation. Flash attention has no tensor for
 * softmax's output. */
static void dtypes_are_found_whatever_the_ops_are_called(void **state)
{
    (void)state;
    static const char *const variants[] = {"--attention custom",  "--attention softmax",
                                           "--attention weights", "--impl fused --attention weights",
                                           "--attention flash",   "--impl fused --attention flash"};
    static const char *const expected[][2] = {{"parameters", "fp32 fp32"},
                                              {"first linear layer's output", "fp32 bf16"},
                                              {"first feed-forward layer's output", "fp32 bf16"},
                                              {"attention's output", "fp32 bf16"},
                                              {"residual stream", "fp32 fp32"},
                                              {"logits", "fp32 bf16"},
                                              {"loss", "fp32 fp32"},
                                              {"gradients of parameters", "fp32 fp32"},
                                              {"optimizer state", "fp32 fp32"}};
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        json_t *page = report_of_variant(variants[i]), *table = table_of(page, "dtypes", "dtypes");
        for (size_t row = 0; row < sizeof expected / sizeof expected[0]; row++)
            assert_dtypes(table, expected[row][0], expected[row][1]);
        assert_dtypes(table, "norm's output", strstr(variants[i], "fused") ? "fp32 bf16" : "fp32 fp32");
        assert_dtypes(table, "softmax's output", i < 2 ? "fp32 fp32" : i < 4 ? "fp32 bf16" : "");
        assert_true(is_said(page, "dtypes", "in no tensor") == (i >= 4));
        json_decref(page);
    }
}

/* Returns the table of the largest kinds whose title has that part. */
static json_t *largest_of(const json_t *page, const char *part)
{
    size_t i;
    json_t *table;
    json_array_foreach(json_object_get(section_of(page, "largest"), "tables"), i, table)
    {
        if (strstr(text_of(table, "title"), part) != NULL)
            return table;
    }
    fail_msg("no table is of %s", part);
    return NULL;
}

/* Softmax's maximum counts ties in backward, in int64: twice of what forward has in fp32. */
static void largest_in_forward_and_overall_are_told_apart(void **state)
{
    (void)state;
    run(TINY "--seq 32 --mode fwd");
    run(TINY "--seq 32 --mode fwd_bwd");
    json_t *page = report(), *table = table_of(page, "categories", "categories");
    const json_int_t square = (json_int_t)TINY_BATCH * 2 * 32 * 32 * 4;
    size_t row = row_of(table, "category", "Softmax");
    assert_int_equal(cell_bytes(table, row, "largest in forward, fp32"), square);
    assert_int_equal(cell_bytes(table, row, "largest overall, fp32"), 2 * square);
    assert_true(is_said(page, "categories", "Overall is of every phase: furthest"));
    const json_t *forward = largest_of(page, "forward pass"), *step = largest_of(page, "full step");
    assert_int_equal(cell_bytes(forward, row_of(forward, "category", "AttnOut"), "size"), square);
    row = row_of(step, "category", "Softmax");
    assert_int_equal(cell_bytes(step, row, "size"), 2 * square);
    assert_string_equal(cell_text(step, row, "phase"), "backward");
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
    assert_int_equal(json_array_size(hints), 2);
    assert_says(text_of(json_array_get(hints, 0), "reason"), "1 of the 6 published");
    assert_says(text_of(json_array_get(hints, 0), "command"), "report --study --trace memtrace.db");
    json_decref(page);
}

/* Figures of PyTorch's allocator are compared with no other one, and sentences name the allocator. */
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
    assert_says(said->out, "2.7B, forward pass, policy=tight, fp32: for 2 times the tokens");
    assert_says(said->out, "2.7B, forward pass, policy=torch, fp32: for 2 times the tokens");
    assert_null(strstr(said->out, "± 0.00"));
}

/* The fused model's attention is its own, so runs are of the same training though theirs differs. A run that ran out of
 * memory has no peak to compare. */
static void eager_and_fused_runs_are_compared(void **state)
{
    (void)state;
    run(TINY "--seq 32");
    run(TINY "--seq 32 --impl fused");
    run(TINY "--seq 8 --impl fused");
    run(TINY "--seq 512 --device sim:100MiB --impl fused");
    assert_int_equal(MEMTRACE(TINY "--seq 512 --device sim:100MiB")->code, MT_OUT_OF_MEMORY);
    json_t *page = report(), *table = table_of(page, "implementations", "implementations");
    assert_int_equal(json_array_size(rows_of(table)), 2);
    size_t whole = row_of(table, "device", "sim:h200"), short_of = row_of(table, "device", "sim:100MiB");
    json_int_t eager = cell_bytes(table, whole, "allocated, eager"),
               fused = cell_bytes(table, whole, "allocated, fused");
    assert_true(fused > 0 && fused < eager);
    assert_int_equal(cell_bytes(table, whole, "saved"), fused - eager);
    double ratio = json_number_value(json_object_get(cell_of(table, whole, "step ms, eager"), "value")) /
                   json_number_value(json_object_get(cell_of(table, whole, "step ms, fused"), "value"));
    assert_true(ratio > 1);
    assert_float_equal(json_number_value(json_object_get(cell_of(table, whole, "speed-up"), "value")), ratio, 1e-6);
    assert_string_equal(cell_text(table, short_of, "allocated, eager"), "out of memory");
    assert_true(cell_bytes(table, short_of, "allocated, fused") > 0);
    assert_true(json_object_get(cell_of(table, short_of, "speed-up"), "value") == NULL);
    json_decref(page);
}

/* Emits a step with two kernels, one of them a product's. */
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

/* True if the report of a run there says how far its kernels are from PyTorch's, and has their column. */
static bool is_compared(const char *device)
{
    char command[256];
    snprintf(command, sizeof command,
             "run --device %s --model 2.7B --seq 128 --zero-grad before-backward --steps 1 --kernels --trace %s.db",
             device, device + strlen("sim:"));
    run(command);
    json_t *page = json_of(shell("\"$M\" report --json --trace %s.db", device + strlen("sim:")));
    const json_t *table = table_of(page, "kernels", "kernels");
    bool is_said_so = is_said(page, "kernels", "of PyTorch's kernels"), has_column = false;
    size_t i;
    json_t *column;
    json_array_foreach(json_object_get(table, "columns"), i, column) has_column =
        has_column || strcmp(json_string_value(column), "PyTorch's on H200") == 0;
    assert_int_equal(has_column, is_said_so);
    json_decref(page);
    return is_said_so;
}

/* PyTorch's kernels were measured on an H200. */
static void kernels_of_another_card_are_not_compared(void **state)
{
    (void)state;
    assert_true(is_compared("sim:h200"));
    assert_false(is_compared("sim:b200"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(accumulation_is_the_published_one),
        TEST(peaks_are_those_of_the_trace),
        TEST(causes_sum_to_the_difference),
        TEST(residual_stream_is_what_the_formula_says),
        TEST(dtypes_are_read_from_labels),
        TEST(dtypes_under_fp16_are_those_of_tensors),
        TEST(dtypes_are_found_whatever_the_ops_are_called),
        TEST(largest_in_forward_and_overall_are_told_apart),
        TEST(published_figures_stand_beside_ours),
        TEST(allocators_are_told_apart),
        TEST(eager_and_fused_runs_are_compared),
        TEST(kernels_are_shown_by_phase),
        TEST(kernels_of_another_card_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
