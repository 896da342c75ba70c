/* A run for which there is not enough memory: its exit code, its words, and the trace that it leaves. */
#include "two_runs.h"

static void a_run_without_a_block_has_no_peak(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("run --device sim:2MiB --model small --trace none.db");
    assert_int_equal(said->code, MT_OUT_OF_MEMORY);
    assert_says(said->out, "-     -      -        -\n");
    assert_null(strstr(said->out, "init"));
}

static void steps_of_a_run_without_memory_are_oom(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim:1GiB --model small --steps 1 --trace oom.db")->code, MT_OUT_OF_MEMORY);
    assert_says(MEMTRACE("steps --trace oom.db")->out, "OOM: ");
    json_t *steps = json_of(MEMTRACE("steps --trace oom.db --json"));
    const json_t *oom = json_object_get(json_array_get(json_object_get(steps, "rows"), 0), "oom");
    assert_true(integer_of(oom, "requested_bytes") > 0);
    assert_string_equal(json_string_value(json_object_get(oom, "phase")), "forward");
    json_decref(steps);
}

static json_int_t number_of(const char *trace, const char *sql)
{
    json_t *answer = json_of(shell("\"$M\" sql --trace %s --json \"%s\"", trace, sql));
    json_int_t number = json_integer_value(json_array_get(json_array_get(json_object_get(answer, "rows"), 0), 0));
    json_decref(answer);
    return number;
}

/* Of category einsum. */
static json_int_t products_per_step(const char *trace)
{
    json_t *answer = json_of(shell("\"$M\" categories --trace %s --json", trace));
    const json_t *rows = json_object_get(answer, "rows");
    json_int_t count = -1;
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(rows, i), "category")), "einsum") == 0)
            count = integer_of(json_array_get(rows, i), "per_step");
    json_decref(answer);
    return count;
}

/* The second step holds the optimizer's state from its beginning, so it needs more than the first. */
static void a_step_that_ran_out_of_memory_does_not_count_as_full(void **state)
{
    (void)state;
    static const char step_ends[] = "SELECT count(last_event) * 10 + count(*) FROM step";
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 128 --steps 1 --trace whole.db")->code, 0);
    assert_int_equal(
        MEMTRACE("run --device sim:2500MiB --model small --seq 128 --warmup 0 --steps 3 --trace short.db")->code,
        MT_OUT_OF_MEMORY);
    assert_int_equal(number_of("short.db", step_ends), 12);
    assert_true(products_per_step("whole.db") > 0);
    assert_int_equal(products_per_step("short.db"), products_per_step("whole.db"));
    assert_int_equal(number_of("short.db", "SELECT count(*) FROM measurement WHERE name = 'step_ms' AND step = 1"), 0);
}

static void out_of_memory_exits_with_5_and_leaves_a_readable_trace(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("run --device sim:1GiB --model small --steps 1 --trace oom.db");
    assert_int_equal(said->code, MT_OUT_OF_MEMORY);
    assert_says(said->err, "out of device memory");
    json_t *runs = json_of(MEMTRACE("runs --trace oom.db --json"));
    const json_t *run = json_array_get(json_object_get(runs, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "oom");
    json_t *peak = json_of(MEMTRACE("peak --trace oom.db --json"));
    assert_in_range(integer_of(peak, "reserved_bytes"), 900 << 20, 1 << 30);
    json_decref(peak);
    json_decref(runs);
}

/* The same whether the run is traced or not, since the allocator tells it. */
static void out_of_memory_says_who_asked_and_what_was_live(void **state)
{
    (void)state;
    static const char run[] = "\"$M\" run --device sim:24GiB --model 2.7B --seq 256 %s";
    static const char *const parts[] = {
        "asked for 10.00 MiB (10485760 bytes) of einsum; 23.95 GiB are live",
        "\n| asked by    model.layers.28.ffn.w2 for einsum: einsum, temporary, in forward\n",
        "\n| live        23.95 GiB: Param 12.69 GiB, FFN 3.40 GiB, ",
        "\n| freed       nothing: no segment was idle\n",
    };
    static const char *const ways[] = {"--no-trace", "--trace oom.db"};
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        const struct said *said = shell(run, ways[way]);
        assert_int_equal(said->code, MT_OUT_OF_MEMORY);
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            assert_says(said->err, parts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(a_run_without_a_block_has_no_peak),
        TEST_WITH_TWO_RUNS(steps_of_a_run_without_memory_are_oom),
        TEST_WITH_TWO_RUNS(a_step_that_ran_out_of_memory_does_not_count_as_full),
        TEST_WITH_TWO_RUNS(out_of_memory_exits_with_5_and_leaves_a_readable_trace),
        TEST_WITH_TWO_RUNS(out_of_memory_says_who_asked_and_what_was_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
