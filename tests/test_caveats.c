/* Caveats and the reason why a run ended: what programs sent is what answers say, and later totals replace earlier
 * ones. */
#include "base/random.h"
#include "program.h"
#include "seed.h"
#include "trace/query/caveats.h"
#include "trace/store/recorder.h"
#include "trace_edit.h"

#include <math.h>

enum { SENT = 400, KEYS = MT_CAVEAT_KIND_COUNT * 3 * 2 * 2 };

static int set_up(void **state)
{
    *state = enter_folder("test_caveats");
    return 0;
}

static struct mt_recorder *open_run(const char *name)
{
    const struct mt_run_info info = {.name = name, .device = "sim:h200", .ring_records = 1024};
    struct mt_recorder *recorder;
    if (mt_recorder_open("trace.db", &info, &recorder) != MT_OK)
        fail_msg("%s", mt_last_error());
    return recorder;
}

static void close_run(struct mt_recorder *recorder)
{
    assert_int_equal(mt_recorder_close(recorder, MT_RUN_DONE), MT_OK);
}

/* ---- the plainest model: an array by key ---- */

static int64_t draw_number(uint64_t *state)
{
    const uint64_t drawn = mt_splitmix64((*state)++);
    return drawn % 4 == 0 ? -1 : (int64_t)(drawn % 7);
}

/* Returns the caveat of a key, with random numbers. */
static struct mt_caveat draw_caveat(uint64_t *state, int key)
{
    static const char *const names[] = {"item", "aten::x", "train loader"}, *const files[] = {"", "train.py"};
    const uint64_t value = mt_splitmix64((*state)++);
    return (struct mt_caveat){.kind = (mt_caveat_kind)(key / 12),
                              .name = names[key / 4 % 3],
                              .file = files[key / 2 % 2],
                              .line = key % 2,
                              .count = draw_number(state),
                              .total = draw_number(state),
                              .bytes = draw_number(state),
                              .value = value % 2 == 0 ? NAN : (double)(value % 9) / 4};
}

static int compare(const void *left, const void *right)
{
    const struct mt_caveat *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    if (strcmp(a->name, b->name) != 0)
        return strcmp(a->name, b->name);
    return strcmp(a->file, b->file) != 0 ? strcmp(a->file, b->file) : (int)(a->line - b->line);
}

static void assert_equal(const struct mt_caveat *row, const struct mt_caveat *expected)
{
    assert_int_equal(row->kind, expected->kind);
    assert_string_equal(row->name, expected->name);
    assert_string_equal(row->file, expected->file);
    assert_int_equal(row->line, expected->line);
    assert_int_equal(row->count, expected->count);
    assert_int_equal(row->total, expected->total);
    assert_int_equal(row->bytes, expected->bytes);
    assert_true(isnan(expected->value) ? isnan(row->value) : row->value == expected->value);
}

/* Compares the caveats of a run with those sent last for each key; a NULL name: none was sent. */
static void expect_caveats(struct mt_trace *trace, const char *run_name, const struct mt_caveat *last)
{
    struct mt_caveat sorted[KEYS], *rows;
    const struct mt_run *run;
    size_t expected = 0, count;
    for (int i = 0; i < KEYS; i++)
        if (last[i].name != NULL)
            sorted[expected++] = last[i];
    qsort(sorted, expected, sizeof *sorted, compare);
    assert_int_equal(mt_trace_find_run(trace, run_name, &run), MT_OK);
    assert_int_equal(mt_trace_caveats(trace, run, &rows, &count), MT_OK);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++)
        assert_equal(&rows[i], &sorted[i]);
    free(rows);
}

static void the_last_caveat_of_a_key_counts(void **state)
{
    (void)state;
    static struct mt_caveat last[2][KEYS];
    static const char *const names[] = {"first", "second"};
    uint64_t random = take_seed();
    for (int run = 0; run < 2; run++) {
        struct mt_recorder *recorder = open_run(names[run]);
        for (int i = 0; i < SENT; i++) {
            const int key = (int)(mt_splitmix64(random++) % KEYS);
            last[run][key] = draw_caveat(&random, key);
            mt_recorder_caveat(recorder, &last[run][key]);
        }
        close_run(recorder);
    }
    struct mt_trace *trace;
    assert_int_equal(mt_trace_open("trace.db", &trace), MT_OK);
    for (int run = 0; run < 2; run++)
        expect_caveats(trace, names[run], last[run]);
    mt_trace_close(trace);
}

static void every_kind_and_reason_is_found_by_its_name(void **state)
{
    (void)state;
    mt_caveat_kind kind;
    mt_ended_by reason;
    for (int i = 0; i < MT_CAVEAT_KIND_COUNT; i++) {
        assert_true(mt_caveat_kind_find(mt_caveat_kind_name((mt_caveat_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    for (int i = 0; i < MT_ENDED_BY_COUNT; i++) {
        assert_true(mt_ended_by_find(mt_ended_by_name((mt_ended_by)i), &reason));
        assert_int_equal(reason, i);
    }
    assert_string_equal(mt_caveat_kind_name(MT_CAVEAT_KIND_COUNT), "?");
    assert_string_equal(mt_ended_by_name(MT_ENDED_BY_COUNT), "?");
    assert_false(mt_caveat_kind_find("?", &kind));
    assert_false(mt_ended_by_find("", &reason));
}

/* ---- answers ---- */

/* Records a run with a caveat of each kind, and one without. */
static void record_two_runs(void)
{
    static const struct mt_caveat caveats[] = {
        {MT_CAVEAT_SHORTENED, "train loader", "train.py", 30, 3, 100, -1, NAN},
        {MT_CAVEAT_NOT_RUN, "evaluate(...)", "train.py", 41, -1, -1, -1, NAN},
        {MT_CAVEAT_UNKNOWN, "aten::y", "", 0, 1, -1, 1024, NAN},
        {MT_CAVEAT_UNKNOWN, "aten::x\x1b[1m", "", 0, 2, -1, 2048, NAN},
        {MT_CAVEAT_ASSUMED, "item", "train.py", 36, 5, -1, -1, 0.5},
        {MT_CAVEAT_GROWTH, "list of losses", "", 0, 1500, -1, 4096, NAN},
        {MT_CAVEAT_WEIGHTS, "org/model", "train.py", 7, -1, -1, -1, NAN},
        {MT_CAVEAT_CHOICE, "softmax", "kernels.py", 9, 2, 8, 512, NAN},
        {MT_CAVEAT_EAGER, "no triton", "train.py", 3, -1, -1, -1, NAN},
    };
    close_run(open_run("plain"));
    struct mt_recorder *recorder = open_run("dry");
    for (size_t i = 0; i < sizeof caveats / sizeof caveats[0]; i++)
        mt_recorder_caveat(recorder, &caveats[i]);
    mt_recorder_ended_by(recorder, MT_ENDED_BY_PROGRAM);
    mt_recorder_ended_by(recorder, MT_ENDED_BY_TIME_LIMIT);
    close_run(recorder);
}

static const char lists[] =
    "{\"ended_by\": \"time limit\","
    " \"shortened\": [{\"name\": \"train loader\", \"count\": 3, \"total\": 100, \"file\": \"train.py\", \"line\": "
    "30}],"
    " \"not_run\": [{\"name\": \"evaluate(...)\", \"file\": \"train.py\", \"line\": 41}],"
    " \"unknown\": [{\"name\": \"aten::x\\u001b[1m\", \"count\": 2, \"bytes\": 2048, \"file\": null, \"line\": null},"
    " {\"name\": \"aten::y\", \"count\": 1, \"bytes\": 1024, \"file\": null, \"line\": null}],"
    " \"assumed\": [{\"name\": \"item\", \"value\": 0.5, \"count\": 5, \"file\": \"train.py\", \"line\": 36}],"
    " \"growth\": [{\"name\": \"list of losses\", \"bytes\": 4096, \"count\": 1500, \"total\": null, \"done\": null, "
    "\"file\": null, \"line\": null}],"
    " \"weights\": [{\"name\": \"org/model\", \"file\": \"train.py\", \"line\": 7}],"
    " \"choices\": [{\"name\": \"softmax\", \"count\": 2, \"total\": 8, \"bytes\": 512, \"file\": \"kernels.py\", "
    "\"line\": 9}],"
    " \"eager\": [{\"name\": \"no triton\", \"file\": \"train.py\", \"line\": 3}]}";
static const char no_lists[] =
    "{\"ended_by\": null, \"shortened\": [], \"not_run\": [], \"unknown\": [], \"assumed\": [],"
    " \"growth\": [], \"weights\": [], \"choices\": [], \"eager\": []}";

/* Checks that an answer has the members of `expected`. */
static void expect_members(const json_t *answer, const char *expected)
{
    json_t *members = json_loads(expected, 0, NULL), *value;
    const char *key;
    assert_non_null(members);
    json_object_foreach(members, key, value) if (!json_equal(json_object_get(answer, key), value))
        fail_msg("%s is not as expected", key);
    json_decref(members);
}

static void answers_list_the_caveats_of_their_run(void **state)
{
    (void)state;
    record_two_runs();
    json_t *runs = json_of(MEMTRACE("runs --json --trace trace.db")), *rows = json_object_get(runs, "rows");
    expect_members(json_array_get(rows, 0), no_lists);
    expect_members(json_array_get(rows, 1), lists);
    json_t *peak = json_of(MEMTRACE("peak --json --trace trace.db")),
           *plain = json_of(MEMTRACE("peak --json --run plain --trace trace.db"));
    expect_members(peak, lists);
    expect_members(plain, no_lists);
    json_decref(plain);
    json_decref(peak);
    json_decref(runs);
}

static void peak_says_whose_scratch_memory_it_lacks(void **state)
{
    (void)state;
    record_two_runs();
    assert_says(MEMTRACE("peak --trace trace.db")->out,
                "\nscratch memory of these operators is unknown and not counted: aten::x\\x1b[1m (2 calls, results of "
                "2.00 KiB), aten::y (1 calls, results of 1.00 KiB)\n");
    assert_null(strstr(MEMTRACE("peak --run plain --trace trace.db")->out, "scratch"));
}

static void runs_have_a_column_for_ends_where_one_is_known(void **state)
{
    (void)state;
    close_run(open_run("plain"));
    assert_null(strstr(MEMTRACE("runs --trace trace.db")->out, "ended by"));
    record_two_runs();
    const struct said *said = MEMTRACE("runs --trace trace.db");
    assert_says(said->out, "ended by");
    assert_says(said->out, "time limit");
}

/* ---- damage ---- */

static void salvage_keeps_caveats_and_verify_finds_the_trace_whole(void **state)
{
    (void)state;
    record_two_runs();
    const struct said *said = MEMTRACE("verify --trace trace.db --salvage saved.db");
    if (said->code != 0)
        fail_msg("%s", said->err);
    json_t *peak = json_of(MEMTRACE("peak --json --trace saved.db"));
    expect_members(peak, lists);
    json_decref(peak);
}

/* A file of others may have any value anywhere. */
static void strange_rows_are_read_without_harm(void **state)
{
    (void)state;
    struct mt_trace *trace;
    const struct mt_run *run;
    struct mt_caveat *rows;
    size_t count;
    record_two_runs();
    edit_trace("trace.db",
               "INSERT INTO caveat VALUES (2, 'rumour', 'x', '', 0, 1, 1, 1, 1), (2, CAST(x'756e6b6e6f776e0078' AS "
               "TEXT), 'x', '', 0, 1, 1, 1, 1), (2, 'assumed growth', '', '', 0, 1, 1, 1, 1),"
               " (2, 'assumed', x'00ff', '', -7, -9, 'many', -1, 'none');"
               " UPDATE run SET ended_by = x'41' WHERE id = 2");
    assert_int_equal(mt_trace_open("trace.db", &trace), MT_OK);
    assert_int_equal(mt_trace_find_run(trace, "2", &run), MT_OK);
    assert_int_equal(mt_trace_caveats(trace, run, &rows, &count), MT_OK);
    assert_int_equal(count, 10);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || rows[i].kind >= rows[i - 1].kind);
        assert_true(rows[i].count >= -1 && rows[i].total >= -1 && rows[i].bytes >= -1 && rows[i].line >= 0);
        assert_non_null(rows[i].name);
    }
    free(rows);
    mt_trace_close(trace);
}

int main(void)
{
#define CAVEATS_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, leave_folder)
    const struct CMUnitTest tests[] = {
        CAVEATS_TEST(the_last_caveat_of_a_key_counts),
        CAVEATS_TEST(every_kind_and_reason_is_found_by_its_name),
        CAVEATS_TEST(answers_list_the_caveats_of_their_run),
        CAVEATS_TEST(peak_says_whose_scratch_memory_it_lacks),
        CAVEATS_TEST(runs_have_a_column_for_ends_where_one_is_known),
        CAVEATS_TEST(salvage_keeps_caveats_and_verify_finds_the_trace_whole),
        CAVEATS_TEST(strange_rows_are_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
