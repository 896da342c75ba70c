/* Commands that question a trace: sums that hold to the byte, JSON with the keys that others rely on, SQL. */
#include "two_runs.h"

#include <sqlite3.h>

static void steps_tells_times_without_warmup_run_by_run(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE(TINY "--device cpu --warmup 2 --steps 3")->code, 0);
    json_t *steps = json_of(MEMTRACE("steps --json"));
    assert_schema(steps, "memtrace.steps/1");
    ASSERT_ROWS(steps, "run", "name", "state", "device", "model", "batch", "seq", "mode", "precision", "warmup",
                "estimated", "ms", "oom");
    const json_t *rows = json_object_get(steps, "rows"), *last = json_array_get(rows, 2);
    assert_int_equal(json_array_size(rows), 3);
    assert_true(json_is_true(json_object_get(json_array_get(rows, 0), "estimated")));
    assert_true(json_is_false(json_object_get(last, "estimated")));
    static const char *const parts[] = {"forward", "loss", "backward", "optimizer", "step"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const json_t *ms = json_object_get(json_object_get(last, "ms"), parts[i]);
        assert_int_equal(integer_of(ms, "count"), 3);
        assert_true(json_real_value(json_object_get(ms, "min")) <= json_real_value(json_object_get(ms, "median")));
        assert_true(json_real_value(json_object_get(ms, "mean")) <= json_real_value(json_object_get(ms, "max")));
    }
    json_decref(steps);
    assert_says(MEMTRACE("steps")->out, " ± ");
    assert_says(MEMTRACE("steps")->out, "Times on sim are estimates");
    assert_null(strstr(MEMTRACE("steps --run 3")->out, "estimates"));
    assert_int_equal(count_lines(MEMTRACE("steps --run 3 --full")->out), 1 + 5);
}

/* Adds readings of a card's driver to the trace, as a run on a card stores them. */
static void add_driver_readings(void)
{
    static const char sql[] =
        "INSERT INTO measurement VALUES (2, 'memory:driver_used', 2, 1000), (2, 'memory:requested', 2, 600),"
        " (2, 'memory:allocated', 2, 640), (2, 'memory:reserved', 2, 700), (2, 'memory:context', 2, 250),"
        " (2, 'memory:library', 2, 60)";
    sqlite3 *trace;
    assert_int_equal(sqlite3_open("memtrace.db", &trace), SQLITE_OK);
    assert_int_equal(sqlite3_exec(trace, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(trace);
}

static void used_adds_up_to_the_drivers_figure(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("used");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "no driver");
    add_driver_readings();
    json_t *used = json_of(MEMTRACE("used --json"));
    assert_schema(used, "memtrace.used/1");
    ASSERT_ROWS(used, "name", "bytes", "share");
    const json_t *rows = json_object_get(used, "rows");
    json_int_t sum = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += integer_of(json_array_get(rows, i), "bytes");
    assert_int_equal(sum, integer_of(used, "used_bytes"));
    assert_int_equal(integer_of(used, "unexplained_bytes"), -10);
    assert_true(json_is_null(json_object_get(used, "card_free_bytes")));
    json_decref(used);
    assert_says(MEMTRACE("used")->out, "at the end of step 2");
    assert_says(MEMTRACE("used")->out, "-10 B   -1.0 %");
}

static void of_a_simulated_card_it_is_estimated_what_a_driver_would_count(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE(TINY "--device sim:h200 --name h200 --steps 1")->code, 0);
    json_t *peak = json_of(MEMTRACE("peak --json --run h200")), *used = json_of(MEMTRACE("used --json --run h200"));
    const json_t *holders = json_object_get(peak, "outside"), *context = json_array_get(holders, 0);
    const json_t *sum = json_object_get(peak, "used");
    assert_int_equal(json_array_size(holders), 1);
    assert_string_equal(text_of(context, "kind"), "context");
    assert_int_equal(integer_of(context, "bytes"), 629145600);
    assert_true(json_is_true(json_object_get(context, "estimated")));
    assert_int_equal(integer_of(sum, "bytes"), integer_of(peak, "reserved_bytes") + 629145600);
    assert_int_equal(integer_of(used, "used_bytes"), integer_of(sum, "bytes"));
    assert_true(json_is_true(json_object_get(used, "estimated")));
    json_decref(used);
    json_decref(peak);
    assert_says(MEMTRACE("peak --run h200")->out, "\ncontext ");
    peak = json_of(MEMTRACE("peak --json --run second"));
    assert_int_equal(json_array_size(json_object_get(peak, "outside")), 0);
    assert_true(json_is_null(json_object_get(peak, "used")));
    json_decref(peak);
}

static void peak_sums_to_the_byte(void **state)
{
    (void)state;
    json_t *peak = json_of(MEMTRACE("peak --json --run first"));
    assert_schema(peak, "memtrace.peak/3");
    const json_t *shares = json_object_get(peak, "by_category");
    json_int_t sum = 0;
    for (size_t i = 0; i < json_array_size(shares); i++) {
        sum += integer_of(json_array_get(shares, i), "allocated_bytes");
        assert_true(integer_of(json_array_get(shares, i), "blocks") > 0);
    }
    assert_int_equal(sum, integer_of(peak, "allocated_bytes"));
    assert_true(integer_of(peak, "requested_bytes") <= sum);
    assert_true(integer_of(peak, "reserved_bytes") >= sum);
    assert_int_equal(integer_of(json_object_get(peak, "reserved"), "bytes"), integer_of(peak, "reserved_bytes"));
    json_decref(peak);
}

static void top_and_categories_have_the_promised_keys(void **state)
{
    (void)state;
    json_t *top = json_of(MEMTRACE("top 4 --json")), *each = json_of(MEMTRACE("top 4 --each --at peak --json"));
    assert_schema(top, "memtrace.top/2");
    assert_true(json_is_true(json_object_get(top, "complete")));
    ASSERT_ROWS(top, "bytes", "count", "category", "op", "phase", "span", "role", "dtype", "shape");
    ASSERT_ROWS(each, "bytes", "count", "category", "op", "phase", "span", "role", "dtype", "shape", "line", "frames");
    assert_int_equal(json_array_size(json_object_get(top, "rows")), 4);
    json_t *categories = json_of(MEMTRACE("categories --json"));
    assert_schema(categories, "memtrace.categories/2");
    ASSERT_ROWS(categories, "category", "forward_max_bytes", "max_bytes", "per_step", "total_bytes");
    json_decref(categories);
    json_decref(top);
    json_decref(each);
}

static void events_are_the_same_as_table_csv_and_json(void **state)
{
    (void)state;
    json_t *events = json_of(MEMTRACE("events --step 1 --json"));
    assert_schema(events, "memtrace.events/1");
    ASSERT_ROWS(events, "n", "action", "id", "bytes", "category", "op", "phase", "span", "line", "frames");
    size_t count = json_array_size(json_object_get(events, "rows"));
    const char *csv = MEMTRACE("events --step 1 --csv")->out;
    static const char head[] = "n,action,id,bytes,category,op,phase,span,line,frames\n0,alloc,";
    assert_int_equal(strncmp(csv, head, sizeof head - 1), 0);
    assert_int_equal(count_lines(csv), count + 1);
    assert_int_equal(count_lines(MEMTRACE("events --step 1 --run second")->out), count + 1);
    json_decref(events);
}

static void sql_reads_and_does_not_write(void **state)
{
    (void)state;
    json_t *answer = json_of(MEMTRACE("sql --json 'SELECT id, name, NULL, 0.5 FROM run'"));
    assert_schema(answer, "memtrace.sql/1");
    assert_int_equal(json_array_size(json_object_get(answer, "columns")), 4);
    assert_int_equal(json_array_size(json_object_get(answer, "rows")), 2);
    json_decref(answer);
    assert_string_equal(MEMTRACE("sql --csv \"SELECT 1 AS a, 'x,y' AS b\"")->out, "a,b\n1,\"x,y\"\n");
    assert_int_equal(MEMTRACE("sql 'SELECT 1 AS \"\"'")->code, 0);
    assert_string_equal(MEMTRACE("sql \"SELECT 1 AS number, 'x' AS text\"")->out, "number  text\n     1  x\n");
    assert_says(MEMTRACE("sql --csv \"SELECT name FROM pragma_table_info('run')\"")->out, "name\nid\n");
    assert_string_equal(MEMTRACE("sql --csv \"SELECT sum(value) AS s FROM json_each('[1,2]')\"")->out, "s\n3\n");
    assert_says(MEMTRACE("sql 'SELECT * FROM pragma_journal_mode'")->err, "only statements that read");
    assert_says(MEMTRACE("sql \"UPDATE sqlite_master SET sql = ''\"")->err, "memtrace: ");
    const struct said *said = MEMTRACE("sql 'DELETE FROM event'");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "only statements that read");
    assert_true(count_lines(MEMTRACE("events --run first")->out) > 100);
}

static void what_is_no_trace_exits_with_3(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("peak --trace missing.db");
    assert_int_equal(said->code, MT_BAD_TRACE);
    assert_says(said->err, "memtrace run --trace missing.db");
    assert_int_equal(shell("echo no trace >text.db; \"$M\" peak --trace text.db")->code, MT_BAD_TRACE);
    assert_int_equal(shell("head -c 20000 memtrace.db >cut.db; \"$M\" events --trace cut.db")->code, MT_BAD_TRACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(steps_tells_times_without_warmup_run_by_run),
        TEST_WITH_TWO_RUNS(used_adds_up_to_the_drivers_figure),
        TEST_WITH_TWO_RUNS(of_a_simulated_card_it_is_estimated_what_a_driver_would_count),
        TEST_WITH_TWO_RUNS(peak_sums_to_the_byte),
        TEST_WITH_TWO_RUNS(top_and_categories_have_the_promised_keys),
        TEST_WITH_TWO_RUNS(events_are_the_same_as_table_csv_and_json),
        TEST_WITH_TWO_RUNS(sql_reads_and_does_not_write),
        TEST_WITH_TWO_RUNS(what_is_no_trace_exits_with_3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
