/* memtrace sweep: its cells are the runs that memtrace run makes, in order, each once, whatever comes of the others. */
#include "base/status.h"
#include "program.h"

#include <sqlite3.h>

/* A model that runs in no time. */
#define SIZES "--vocab 256 --d-model 32 --d-ff 64 --layers 2 --heads 2 --device sim "

static int set_up(void **state)
{
    *state = enter_folder("test_sweep");
    return 0;
}

static const json_t *row_of(const json_t *sweep, size_t row)
{
    const json_t *found = json_array_get(json_object_get(sweep, "rows"), row);
    assert_non_null(found);
    return found;
}

static size_t row_count(const json_t *sweep)
{
    return json_array_size(json_object_get(sweep, "rows"));
}

static json_int_t runs_in(const char *trace)
{
    json_t *runs = json_of(shell("\"$M\" runs --trace %s --json", trace));
    json_int_t count = (json_int_t)json_array_size(json_object_get(runs, "rows"));
    json_decref(runs);
    return count;
}

/* Checks that the row has the same settings and the same peak as `run` with these settings. */
static void assert_is_the_run(const json_t *row, const char *mode, const char *autocast, int seq, int batch)
{
    assert_string_equal(text_of(row, "mode"), mode);
    assert_string_equal(text_of(row, "autocast"), autocast);
    assert_int_equal(integer_of(row, "seq"), seq);
    assert_int_equal(integer_of(row, "batch"), batch);
    json_t *run = json_of(shell("\"$M\" run " SIZES "--no-trace --json --mode %s --autocast %s --seq %d --batch %d",
                                mode, autocast, seq, batch));
    const json_t *peak = json_object_get(run, "peak");
    assert_int_equal(integer_of(row, "allocated_bytes"), integer_of(peak, "allocated_bytes"));
    assert_int_equal(integer_of(row, "reserved_bytes"), integer_of(peak, "reserved_bytes"));
    json_decref(run);
}

static void the_cells_are_the_product_in_the_order_of_the_axes(void **state)
{
    (void)state;
    static const char *const modes[] = {"fwd_bwd", "fwd"}, *const autocasts[] = {"off", "bf16"};
    static const int seqs[] = {16, 8}, batches[] = {1, 3};
    json_t *sweep = json_of(MEMTRACE("sweep " SIZES "--batch 1,3 --seq 16,8 --autocast off,bf16 --mode fwd_bwd,fwd"
                                     " --json"));
    assert_schema(sweep, "memtrace.sweep/1");
    assert_int_equal(row_count(sweep), 16);
    assert_int_equal(integer_of(sweep, "done"), 16);
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(integer_of(row_of(sweep, i), "run"), i + 1);
        assert_string_equal(text_of(row_of(sweep, i), "state"), "done");
        assert_is_the_run(row_of(sweep, i), modes[i / 8], autocasts[i / 4 % 2], seqs[i / 2 % 2], batches[i % 2]);
    }
    json_decref(sweep);
}

static void every_axis_can_be_a_list(void **state)
{
    (void)state;
    json_t *sweep = json_of(MEMTRACE("sweep --device sim --seq 8 --batch 1 --steps 1 --model small,medium --impl eager"
                                     " --zero-grad before-backward,before-forward"
                                     " --alloc policy=tight,policy=torch,max_split=64MiB,policy=torch --json"));
    assert_int_equal(row_count(sweep), 12);
    assert_string_equal(text_of(row_of(sweep, 0), "model"), "small");
    assert_string_equal(text_of(row_of(sweep, 6), "model"), "medium");
    assert_string_equal(text_of(row_of(sweep, 2), "zero_grad"), "before-backward");
    assert_string_equal(text_of(row_of(sweep, 3), "zero_grad"), "before-forward");
    assert_string_equal(text_of(row_of(sweep, 0), "alloc"), "policy=tight");
    assert_string_equal(text_of(row_of(sweep, 1), "alloc"), "policy=torch,max_split=64MiB");
    assert_string_equal(text_of(row_of(sweep, 2), "alloc"), "policy=torch");
    json_decref(sweep);
}

static void what_the_trace_has_is_not_run_again(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("sweep " SIZES "--seq 8,16 --batch 1,2")->code, 0);
    const struct said *said = MEMTRACE("sweep " SIZES "--seq 8,16,32 --batch 1,2 --json");
    assert_says(said->err, "cell 1 of 6: custom, fwd_bwd, autocast off, seq 8, batch 1: is in the trace as run 1\n");
    json_t *sweep = json_of(said);
    assert_int_equal(integer_of(sweep, "was_there"), 4);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(integer_of(row_of(sweep, i), "run"), i + 1);
        assert_int_equal(json_is_true(json_object_get(row_of(sweep, i), "was_there")), i < 4);
        assert_true(integer_of(row_of(sweep, i), "allocated_bytes") > 0);
    }
    json_decref(sweep);
    assert_int_equal(runs_in("memtrace.db"), 6);
    assert_int_equal(MEMTRACE("sweep " SIZES "--seq 8 --batch 1 --seed 1")->code, 0);
    assert_int_equal(runs_in("memtrace.db"), 7);
    assert_int_equal(MEMTRACE("sweep " SIZES "--seq 8 --batch 1 --again")->code, 0);
    assert_int_equal(runs_in("memtrace.db"), 8);
}

static void what_run_has_made_counts_as_there(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run " SIZES "--seq 8 --batch 1 --name mine")->code, 0);
    json_t *sweep = json_of(MEMTRACE("sweep " SIZES "--seq 8,16 --batch 1 --json"));
    assert_int_equal(integer_of(sweep, "was_there"), 1);
    assert_string_equal(text_of(row_of(sweep, 0), "name"), "mine");
    json_decref(sweep);
}

static void a_run_that_did_not_end_by_itself_is_run_again(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("sweep " SIZES "--seq 8,16 --batch 1")->code, 0);
    sqlite3 *trace;
    assert_int_equal(sqlite3_open("memtrace.db", &trace), SQLITE_OK);
    assert_int_equal(sqlite3_exec(trace, "UPDATE run SET state = 'interrupted' WHERE id = 2", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(trace);
    json_t *sweep = json_of(MEMTRACE("sweep " SIZES "--seq 8,16 --batch 1 --json"));
    assert_int_equal(integer_of(row_of(sweep, 0), "run"), 1);
    assert_int_equal(integer_of(row_of(sweep, 1), "run"), 3);
    json_decref(sweep);
}

#define SHORT_OF_MEMORY "sweep --device sim:1GiB --model small --steps 1 --batch 1,64,2 --seq 32 --mode fwd "

static void a_cell_out_of_memory_is_a_result(void **state)
{
    (void)state;
    json_t *sweep = json_of(MEMTRACE(SHORT_OF_MEMORY "--json"));
    assert_int_equal(integer_of(sweep, "oom"), 1);
    assert_int_equal(integer_of(sweep, "done"), 2);
    const json_t *row = row_of(sweep, 1);
    assert_string_equal(text_of(row, "state"), "oom");
    assert_true(json_is_null(json_object_get(row, "step_ms")));
    assert_true(integer_of(json_object_get(row, "oom"), "requested_bytes") > 0);
    assert_string_equal(text_of(json_object_get(row, "oom"), "phase"), "forward");
    assert_true(json_is_null(json_object_get(row_of(sweep, 2), "oom")));
    assert_true(json_is_number(json_object_get(row_of(sweep, 2), "step_ms")));
    json_decref(sweep);
    const struct said *said = MEMTRACE(SHORT_OF_MEMORY);
    assert_int_equal(said->code, 0);
    assert_says(said->out, "out of memory: ");
    assert_says(said->out, "3 cells: 2 done, 1 out of memory, 0 failed; 3 were in the trace already (--again");
    assert_int_equal(runs_in("memtrace.db"), 3);
}

/* Its text is too short for the second cell's sequence. */
static void a_cell_that_fails_keeps_none_from_running(void **state)
{
    (void)state;
    static const char sweep_text[] = "sweep " SIZES "--data text --batch 1 --seq 8,512,16 --json";
    assert_int_equal(shell("printf %%0100d 0 >text")->code, 0);
    json_t *sweep = json_of_code(shell("\"$M\" %s", sweep_text), MT_FAILED);
    assert_says(MEMTRACE("sweep " SIZES "--data text --batch 1 --seq 512")->err, "1 of 1 cells failed");
    assert_int_equal(integer_of(sweep, "failed"), 1);
    assert_int_equal(integer_of(sweep, "done"), 2);
    assert_says(text_of(row_of(sweep, 1), "error"), "text has 100 bytes");
    assert_string_equal(text_of(row_of(sweep, 1), "state"), "failed");
    assert_true(json_is_null(json_object_get(row_of(sweep, 0), "error")));
    assert_string_equal(text_of(row_of(sweep, 2), "state"), "done");
    json_decref(sweep);
    assert_int_equal(shell("printf %%01000d 0 >text")->code, 0);
    sweep = json_of(shell("\"$M\" %s", sweep_text));
    assert_int_equal(integer_of(sweep, "done"), 3);
    assert_int_equal(integer_of(sweep, "was_there"), 2);
    json_decref(sweep);
}

static void values_that_can_not_be_are_found_before_anything_runs(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--model small,medum", "did you mean \"medium\""},
        {"--seq 8,16,x", "--seq"},
        {"--seq 8,,16", "empty"},
        {"--seq ''", "empty"},
        {"--seq 8,16,8", "has 8 twice"},
        {"--mode fwd,back", "--mode"},
        {"--autocast off,bf1", "did you mean \"bf16\""},
        {"--batch 1,0", "batch is 0"},
        {"--alloc policy=tight,policy=toch", "did you mean \"torch\""},
        {"--alloc policy=tight,max_split=1GiB", "policy=torch"},
        {"--model small --heads 7", "7 heads do not divide"},
        {"--model small --name 12", "--name"},
        {"--seq 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,"
         "37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65",
         "64 values"},
        {"--json=yes", "takes no value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" sweep --device sim %s", cases[i][0]);
        if (said->code != MT_USAGE)
            fail_msg("%s: exit code %d: %s", cases[i][0], said->code, said->err);
        assert_string_equal(said->out, "");
        assert_says(said->err, cases[i][1]);
        assert_null(strstr(said->err, "autocast off, seq"));
    }
    assert_int_equal(MEMTRACE("sweep --device smi --model small")->code, MT_NO_DEVICE);
    assert_int_equal(access("memtrace.db", F_OK), -1);
}

static void names_tell_the_cells_apart(void **state)
{
    (void)state;
    json_t *sweep = json_of(MEMTRACE("sweep " SIZES "--name base --mode fwd --seq 8,16 --batch 1,2 --json"));
    assert_string_equal(text_of(row_of(sweep, 1), "name"), "base-8-2");
    assert_string_equal(text_of(row_of(sweep, 2), "name"), "base-16-1");
    json_decref(sweep);
    assert_int_equal(MEMTRACE("peak --run base-16-2")->code, 0);
    assert_int_equal(MEMTRACE("sweep " SIZES "--name alone --seq 32")->code, 0);
    assert_int_equal(MEMTRACE("peak --run alone")->code, 0);
}

static void the_help_names_the_values_that_run_takes(void **state)
{
    (void)state;
    static const char *const options[] = {"--mode", "--autocast", "--zero-grad", "--impl"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char line[256];
        const struct said *said = shell("\"$M\" run --help | sed -n 's/^  \\(%s [^ ]*\\).*/\\1/p'", options[i]);
        assert_true(said->out[0] == '-');
        snprintf(line, sizeof line, "%.*s,...", (int)strcspn(said->out, "\n"), said->out);
        assert_says(MEMTRACE("sweep --help")->out, line);
    }
}

static void the_table_shows_what_varies(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("sweep " SIZES "--seq 8,16 --zero-grad before-forward,before-backward");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "zero-grad");
    assert_says(said->out, "4 cells: 4 done, 0 out of memory, 0 failed\n");
    assert_says(said->out, "estimates");
    assert_null(strstr(said->out, "alloc  "));
    assert_says(said->err, "cell 4 of 4: custom, fwd_bwd, autocast off, seq 16, batch 4, zero-grad before-backward\n");
}

static double number_of(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void assert_near(double a, double b)
{
    if (!(a - b < 1e-9 * b && b - a < 1e-9 * b))
        fail_msg("%g is not %g", a, b);
}

/* The first of each warm-up is the measure of those that do the same work. */
static void times_are_totals_rates_and_ratios(void **state)
{
    (void)state;
    json_t *sweep =
        json_of(MEMTRACE("sweep " SIZES "--seq 8 --batch 2 --steps 2 --autocast off,bf16 --warmup 0,3 --json"));
    assert_int_equal(row_count(sweep), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = row_of(sweep, i), *first = row_of(sweep, i % 2);
        double step_ms = number_of(row, "step_ms");
        assert_int_equal(integer_of(row, "warmup"), i % 2 == 0 ? 0 : 3);
        assert_near(number_of(row, "tokens_per_s"), 2 * 8 / (step_ms / 1000));
        assert_near(number_of(row, "speedup"), number_of(first, "step_ms") / step_ms);
        assert_near(number_of(row, "total_s"), number_of(row, "warmup_s") + 2 * step_ms / 1000);
        assert_int_equal(number_of(row, "warmup_s") > 0, i % 2 == 1);
        assert_true(number_of(row, "variation") >= 0);
    }
    assert_true(number_of(row_of(sweep, 2), "speedup") != 1);
    json_decref(sweep);
    sweep = json_of(MEMTRACE("sweep " SIZES "--seq 8 --batch 2 --steps 1 --json"));
    assert_true(json_is_null(json_object_get(row_of(sweep, 0), "variation")));
    json_decref(sweep);
}

static void columns_without_meaning_are_left_out(void **state)
{
    (void)state;
    const char *table = MEMTRACE("sweep " SIZES "--seq 8,16")->out;
    assert_null(strstr(table, "speed-up"));
    assert_null(strstr(table, "warm-up s"));
    assert_says(table, "tokens/s");
    table = MEMTRACE("sweep " SIZES "--seq 8 --impl eager,fused --warmup 1")->out;
    assert_says(table, "speed-up  ");
    assert_says(table, "warm-up s  ");
    table = MEMTRACE("sweep " SIZES "--seq 8 --optimizer adamw,none")->out;
    assert_null(strstr(table, "speed-up"));
}

static void the_table_is_also_csv_and_markdown(void **state)
{
    (void)state;
    static const char header[] = "model,mode,autocast,seq,batch,allocated_bytes,reserved_bytes,step_ms,variation,"
                                 "tokens_per_s,total_s,time_is_estimated,run,state\n";
    const struct said *said = MEMTRACE("sweep " SIZES "--seq 8,16 --format csv");
    assert_int_equal(said->code, 0);
    assert_memory_equal(said->out, header, strlen(header));
    assert_says(said->out, "custom,fwd_bwd,off,16,4,");
    assert_says(said->out, ",true,2,done\n");
    said = MEMTRACE("sweep " SIZES "--seq 8,16 --format markdown");
    assert_says(said->out, "| model  | mode    | autocast | seq | batch | peak allocated |");
    assert_int_equal(MEMTRACE("sweep " SIZES "--format csv --json")->code, MT_USAGE);
}

/* Another process holds the trace's ring, as a run does that is written. */
static void a_trace_that_another_writes_ends_the_sweep_at_once(void **state)
{
    (void)state;
    const struct said *said = shell("\"$M\" run " SIZES "--steps 50000 >/dev/null 2>&1 & "
                                    "until [ -s memtrace.db-ring ]; do sleep 0.02; done; "
                                    "\"$M\" sweep " SIZES "--seq 8,16,32 --batch 1; code=$?; "
                                    "kill -9 $!; wait; (exit $code)");
    assert_true(said->code != 0);
    assert_string_equal(said->out, "");
    assert_says(said->err, "cell 1 of 3 can't be begun: ");
    assert_null(strstr(said->err, "cell 2 of 3"));
}

/* Interrupted in its first cell, which is the long one: those that are left are cheap. */
static void an_interrupted_sweep_tells_what_there_is_and_goes_on(void **state)
{
    (void)state;
    static const char sweep_text[] = "sweep " SIZES "--steps 300 --mode fwd_bwd,infer --seq 8,16 --batch 1";
    const struct said *said =
        shell("env --default-signal=INT \"$M\" %s & until grep -q 'cell 1 of 4' err.txt; do sleep 0.01; done; "
              "kill -INT $!; wait $!",
              sweep_text);
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->err, "this cell is ended first");
    assert_says(said->err, "of 4 cells; the same command, without --again, runs the others");
    assert_says(said->out, " done, 0 out of memory, 0 failed");
    json_t *sweep = json_of(shell("\"$M\" %s --json", sweep_text));
    assert_int_equal(row_count(sweep), 4);
    assert_true(integer_of(sweep, "was_there") > 0);
    assert_int_equal(runs_in("memtrace.db"), 4);
    json_decref(sweep);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(the_cells_are_the_product_in_the_order_of_the_axes),
        TEST(every_axis_can_be_a_list),
        TEST(what_the_trace_has_is_not_run_again),
        TEST(what_run_has_made_counts_as_there),
        TEST(a_run_that_did_not_end_by_itself_is_run_again),
        TEST(a_cell_out_of_memory_is_a_result),
        TEST(a_trace_that_another_writes_ends_the_sweep_at_once),
        TEST(an_interrupted_sweep_tells_what_there_is_and_goes_on),
        TEST(a_cell_that_fails_keeps_none_from_running),
        TEST(values_that_can_not_be_are_found_before_anything_runs),
        TEST(names_tell_the_cells_apart),
        TEST(the_help_names_the_values_that_run_takes),
        TEST(the_table_shows_what_varies),
        TEST(times_are_totals_rates_and_ratios),
        TEST(columns_without_meaning_are_left_out),
        TEST(the_table_is_also_csv_and_markdown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
