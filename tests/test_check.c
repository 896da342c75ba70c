/* The budget check of the command line: which runs pass and fail, to the byte. */
#include "base/status.h"
#include "program.h"
#include "synthetic.h"

#include <inttypes.h>
#include <sqlite3.h>

/* A model that runs in no time. */
#define TINY "run --device sim --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --batch 2 "

/* Runs: 1 has 4 steps, 2 repeats it, 3 is larger and the newest. */
static int set_up(void **state)
{
    *state = enter_folder("test_check");
    assert_int_equal(MEMTRACE(TINY "--seq 8 --steps 4 --name small")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--seq 8 --steps 4 --name twin")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--seq 64 --steps 4 --name large")->code, 0);
    return 0;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static json_int_t peak_bytes(const char *key)
{
    json_t *peak = json_of(MEMTRACE("peak --json"));
    json_int_t bytes = integer_of(peak, key);
    json_decref(peak);
    return bytes;
}

static void assert_begins(const char *text, const char *part)
{
    if (strncmp(text, part, strlen(part)) != 0)
        fail_msg("it does not begin with \"%s\": %s", part, text);
}

/* Checks that the option passes with a bound of `bytes` and fails with one byte less. */
static void assert_exact(const char *option, json_int_t bytes)
{
    const struct said *said = shell("\"$M\" check %s %lldB", option, (long long)bytes);
    if (said->code != 0)
        fail_msg("%s %lld: %s%s", option, (long long)bytes, said->out, said->err);
    assert_int_equal(count_lines(said->out), 1);
    assert_string_equal(said->err, "");
    said = shell("\"$M\" check %s %lldB", option, (long long)bytes - 1);
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->out, "by 1 B");
    assert_begins(said->out, "run 3 (large) fails 1 of 1 criterion\n");
    assert_string_equal(said->err, "memtrace: run 3 (large) does not pass\n");
}

static void peaks_pass_at_their_bound_and_fail_a_byte_below(void **state)
{
    (void)state;
    assert_exact("--max-allocated", peak_bytes("allocated_bytes"));
    assert_exact("--max-requested", peak_bytes("requested_bytes"));
    assert_exact("--max-reserved", peak_bytes("reserved_bytes"));
}

/* Options that bound categories, with exact bounds, and with one byte less. */
struct bounds {
    char kept[4096], missed[4096];
    json_int_t count;
};

static void add_bound(struct bounds *bounds, const char *option, const char *category, json_int_t bytes)
{
    size_t kept = strlen(bounds->kept), missed = strlen(bounds->missed);
    snprintf(bounds->kept + kept, sizeof bounds->kept - kept, " %s '%s <= %lldB'", option, category, (long long)bytes);
    snprintf(bounds->missed + missed, sizeof bounds->missed - missed, " %s '%s<=%lldB'", option, category,
             (long long)bytes - 1);
    bounds->count++;
}

static void assert_bounds(const struct bounds *bounds)
{
    const struct said *said = shell("\"$M\" check %s", bounds->kept);
    if (said->code != 0)
        fail_msg("%s: %s%s", bounds->kept, said->out, said->err);
    json_t *check = json_of_code(shell("\"$M\" check --json %s", bounds->missed), MT_FAILED);
    const json_t *criteria = json_object_get(check, "criteria");
    assert_int_equal(integer_of(check, "failed"), bounds->count);
    for (size_t i = 1; i < json_array_size(criteria); i++)
        assert_int_equal(integer_of(json_array_get(criteria, i), "over_bytes"), 1);
    json_decref(check);
}

static void categories_pass_at_their_bound_and_fail_a_byte_below(void **state)
{
    (void)state;
    struct bounds bounds = {0};
    json_t *peak = json_of(MEMTRACE("peak --json")), *shares = json_object_get(peak, "by_category");
    for (size_t i = 0; i < json_array_size(shares); i++)
        add_bound(&bounds, "--category", text_of(json_array_get(shares, i), "category"),
                  integer_of(json_array_get(shares, i), "allocated_bytes"));
    json_decref(peak);
    assert_true(bounds.count > 5);
    assert_bounds(&bounds);
}

static void roles_and_phases_pass_at_their_bound_and_fail_a_byte_below(void **state)
{
    (void)state;
    struct bounds bounds = {0};
    json_t *peak = json_of(MEMTRACE("peak --json")), *row;
    size_t index;
    json_array_foreach(json_object_get(peak, "rows"), index, row)
        add_bound(&bounds, "--role", text_of(row, "role"), integer_of(row, "allocated_bytes"));
    json_array_foreach(json_object_get(peak, "phases"), index, row)
        add_bound(&bounds, "--phase", text_of(row, "phase"), integer_of(row, "allocated_bytes"));
    json_decref(peak);
    assert_true(bounds.count > 6);
    assert_bounds(&bounds);
}

/* A module is bounded together with everything inside it. */
static void modules_pass_at_their_bound_and_fail_a_byte_below(void **state)
{
    (void)state;
    static const char module[] = "model.layers.*";
    const size_t length = sizeof module - 1;
    struct bounds bounds = {0};
    json_t *peak = json_of(MEMTRACE("peak --by module --json")), *row;
    json_int_t sum = 0;
    size_t index, within = 0;
    json_array_foreach(json_object_get(peak, "rows"), index, row)
    {
        const char *path = text_of(row, "module");
        bool is_within = strncmp(path, module, length) == 0 && (path[length] == '.' || path[length] == '\0');
        sum += is_within ? integer_of(row, "allocated_bytes") : 0;
        within += is_within;
    }
    json_decref(peak);
    assert_true(within > 1);
    add_bound(&bounds, "--module", module, sum);
    assert_bounds(&bounds);
}

static void what_there_is_not_can_not_be_bounded(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"--role 'activations<=1GiB'", "did you mean \"activation\""},
                                           {"--phase 'fwd<=1GiB'", "forward"},
                                           {"--module 'model.layer<=1GiB'", "no module \"model.layer\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct said *said = shell("\"$M\" check %s", wrong[i][0]);
        assert_int_equal(said->code, MT_USAGE);
        assert_says(said->err, wrong[i][1]);
    }
    FILE *file = fopen("budget.json", "w");
    assert_non_null(file);
    fputs("{\"role\": {\"parameter\": \"1B\"}, \"phase\": {\"forward\": \"1TiB\"}}", file);
    fclose(file);
    assert_says(MEMTRACE("check --budget budget.json")->out, "fails 1 of 2 criteria");
}

/* Of every phase. */
static void largest_allocations_pass_at_their_bound_and_fail_a_byte_below(void **state)
{
    (void)state;
    struct bounds bounds = {0};
    json_t *answer = json_of(MEMTRACE("sql --json 'SELECT category, max(requested_bytes) FROM event JOIN label ON "
                                      "label.run = :run AND label.id = event.label JOIN run ON run.id = :run AND "
                                      "event.id >= first_event AND event.id < first_event + event_count GROUP BY 1'"));
    const json_t *rows = json_object_get(answer, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        add_bound(&bounds, "--largest", json_string_value(json_array_get(json_array_get(rows, i), 0)),
                  json_integer_value(json_array_get(json_array_get(rows, i), 1)));
    json_decref(answer);
    assert_true(bounds.count > 10);
    assert_bounds(&bounds);
}

static void a_failure_is_ten_lines_at_most_and_says_what_to_ask(void **state)
{
    (void)state;
    const struct said *said =
        MEMTRACE("check --against small --tolerance 0 --max-allocated 1B --max-reserved 1B --max-requested 1B"
                 " --category 'Param<=0' --category 'Loss<=0' --largest 'Param<=0' --no-leaks");
    assert_int_equal(said->code, MT_FAILED);
    assert_true(count_lines(said->out) + count_lines(said->err) <= 10);
    assert_says(said->out, "more: --json lists them all");
    assert_says(said->out, "settings that differ: seq 8 → 64");
    assert_says(said->out, "memtrace diff small 3 ");
    assert_says(said->out, "memtrace top --at peak ");
    said = MEMTRACE("check --run twin --trace ./memtrace.db --max-allocated 1B");
    assert_says(said->out, "memtrace top --at peak --run 2 --trace ./memtrace.db ");
}

static void questions_without_sense_are_wrong_usage(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "nothing to check"},
        {"--tolerance 1%", "nothing to check"},
        {"--max-allocated 1B --tolerance 1%", "name that run"},
        {"--max-allocated 1B --floor 1MiB", "name that run"},
        {"--max-allocated 52", "--max-allocated: \"52\" would be 52 bytes: write the unit, as in 52GiB or 52B"},
        {"--category 'AttnScores<=40'", "write the unit, as in 40GiB or 40B"},
        {"--max-allocated lots", "--max-allocated: \"lots\" is not a size"},
        {"--against small --tolerance some", "--tolerance: \"some\" is not a percentage"},
        {"--category 'AttnScore<=1B'", "did you mean \"AttnScores\", \""},
        {"--category 'AttnScores=1B'", "NAME<=SIZE"},
        {"--category '<=1'", "NAME<=SIZE"},
        {"--largest 'Norm<=x'", "--largest \"Norm<=x\": \"x\" is not a size"},
        {"--against large", "compared with itself"},
        {"--against smal", "did you mean \"small\"?"},
        {"--against nowhere.db:small", "there is no file \"nowhere.db\""},
        {"--budget nowhere.json", "nowhere.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" check %s", cases[i][0]);
        if (said->code != MT_USAGE || said->out[0] != '\0')
            fail_msg("%s: exit code %d: %s%s", cases[i][0], said->code, said->out, said->err);
        assert_says(said->err, cases[i][1]);
    }
}

static const struct said *check_budget(const char *json)
{
    FILE *file = fopen("budget.json", "w");
    assert_non_null(file);
    fputs(json, file);
    fclose(file);
    return MEMTRACE("check --budget budget.json");
}

static void a_budget_file_says_what_options_say(void **state)
{
    (void)state;
    static const char *const kept[] = {
        "{\"max-allocated\": \"1GiB\", \"no-leaks\": true}",
        "{\"max-reserved\": 1073741824, \"category\": {\"Param\": \"1MiB\", \"Loss\": 1000000}}",
        "{\"largest\": {\"Softmax\": \"1MiB\"}, \"max-requested\": \"1GB\"}",
        "{\"against\": \"small\", \"tolerance\": \"100000%\"}",
        "{\"against\": \"small\", \"floor\": \"1GiB\"}",
        "{\"against\": 1, \"tolerance\": 100000}"};
    static const char *const missed[] = {
        "{\"max-allocated\": \"1B\"}",        "{\"max-requested\": 4096}",
        "{\"max-reserved\": 4096}",           "{\"category\": {\"Param\": 0}}",
        "{\"largest\": {\"Param\": \"1B\"}}", "{\"against\": \"small\", \"tolerance\": 0}"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (check_budget(kept[i])->code != MT_OK)
            fail_msg("%s: %s", kept[i], shell("cat err.txt")->out);
    for (size_t i = 0; i < sizeof missed / sizeof missed[0]; i++)
        assert_int_equal(check_budget(missed[i])->code, MT_FAILED);
    assert_int_equal(check_budget(missed[0])->code, MT_FAILED);
    assert_int_equal(MEMTRACE("check --budget budget.json --max-allocated 1GiB")->code, MT_OK);
}

static void a_wrong_budget_file_is_wrong_usage_and_says_where(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"max-alocated\": 1}", "did you mean \"max-allocated\", \""},
        {"{\"max-allocated\": 1,}", "line 1"},
        {"{\"max-allocated\": 1, \"max-allocated\": 2}", "duplicate"},
        {"{\"max-allocated\": -1}", "must be a size"},
        {"{\"max-allocated\": 52}", "write the unit, as in 52GiB or 52B"},
        {"{\"max-allocated\": \"much\"}", "\"much\" is not a size"},
        {"{\"category\": \"Param<=1\"}", "must be an object"},
        {"{\"category\": {\"Param\": true}}", "must be a size"},
        {"{\"category\": {\"Parm\": 0}}", "did you mean \"Param\", \""},
        {"{\"no-leaks\": 1}", "true or false"},
        {"{\"against\": true}", "must be a run"},
        {"{\"against\": 1, \"tolerance\": -1}", "must be a percentage"},
        {"{\"against\": 1, \"tolerance\": 1e300}", "from 0 to 1000000"},
        {"{}", "nothing to check"},
        {"[]", "a budget is an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = check_budget(cases[i][0]);
        if (said->code != MT_USAGE)
            fail_msg("%s: exit code %d: %s", cases[i][0], said->code, said->err);
        assert_says(said->err, cases[i][1]);
    }
}

static void a_run_that_did_not_end_well_never_passes(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE(TINY "--seq 8 --trace oom.db")->code, 0);
    assert_int_equal(
        MEMTRACE("run --device sim:2MiB --vocab 4096 --d-model 64 --layers 3 --heads 2 --trace oom.db")->code,
        MT_OUT_OF_MEMORY);
    const struct said *said = MEMTRACE("check --trace oom.db --max-allocated 1TiB --no-leaks");
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->out, "it ended out of memory");
    assert_says(said->out, "memtrace oom --trace oom.db");
    said = MEMTRACE("check --trace oom.db --run 1 --against 2");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "is no measure for others");
}

static void a_run_under_way_is_to_be_checked_later(void **state)
{
    (void)state;
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, "running.db", "running", 1, 5), MT_OK);
    synthetic_step(&run, 0, 100, 20);
    assert_int_equal(mt_recorder_flush(run.sink->context), MT_OK);
    const struct said *said = MEMTRACE("check --trace running.db --max-allocated 1TiB");
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->out, "still running: check it once it has ended");
    assert_int_equal(synthetic_close(&run), MT_OK);
}

/* A run must not pass if its trace has lost the data to check. */
static void a_trace_without_what_is_checked_never_passes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"DELETE FROM summary_peak", "--max-allocated 1TiB"},
        {"DELETE FROM summary_peak_category", "--category 'Param<=1TiB'"},
        {"DELETE FROM summary_category", "--largest 'Param<=1TiB'"},
        {"UPDATE summary_peak SET bytes = 1", "--max-reserved 1TiB"},
        {"DELETE FROM event", "--max-allocated 1TiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sqlite3 *database;
        assert_int_equal(shell("cp memtrace.db damaged.db")->code, 0);
        assert_int_equal(sqlite3_open("damaged.db", &database), SQLITE_OK);
        assert_int_equal(sqlite3_exec(database, cases[i][0], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(database);
        const struct said *said = shell("\"$M\" check --trace damaged.db %s", cases[i][1]);
        if (said->code != MT_BAD_TRACE || said->out[0] != '\0')
            fail_msg("%s: exit code %d: %s%s", cases[i][0], said->code, said->out, said->err);
        assert_says(said->err, "damaged");
    }
}

static void the_self_test_finds_its_leak_and_leaves_nothing_behind(void **state)
{
    (void)state;
    const struct said *said = shell("mkdir -p tmp; TMPDIR=$PWD/tmp \"$M\" check --self-test");
    assert_int_equal(said->code, MT_OK);
    assert_says(said->out, "stops the injected leak");
    assert_null(strstr(said->out, "DOES NOT"));
    assert_int_equal(shell("rmdir tmp")->code, 0);
    json_t *tried = json_of(MEMTRACE("check --self-test --json"));
    assert_true(json_is_true(json_object_get(tried, "works")));
    json_decref(tried);
    said = shell("TMPDIR=$PWD/nowhere \"$M\" check --self-test");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "the gate could not be tried");
    static const char *const criteria[] = {
        "--max-allocated 1GiB",  "--no-leaks",     "--against 1",       "--budget b.json",
        "--category 'Param<=1'", "--tolerance 1%", "--junit junit.xml", "--run 1"};
    for (size_t i = 0; i < sizeof criteria / sizeof criteria[0]; i++) {
        said = shell("\"$M\" check --self-test %s", criteria[i]);
        assert_int_equal(said->code, MT_USAGE);
        assert_says(said->err, "give it alone");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_pass_at_their_bound_and_fail_a_byte_below),
        cmocka_unit_test(categories_pass_at_their_bound_and_fail_a_byte_below),
        cmocka_unit_test(largest_allocations_pass_at_their_bound_and_fail_a_byte_below),
        cmocka_unit_test(roles_and_phases_pass_at_their_bound_and_fail_a_byte_below),
        cmocka_unit_test(modules_pass_at_their_bound_and_fail_a_byte_below),
        cmocka_unit_test(what_there_is_not_can_not_be_bounded),
        cmocka_unit_test(a_failure_is_ten_lines_at_most_and_says_what_to_ask),
        cmocka_unit_test(questions_without_sense_are_wrong_usage),
        cmocka_unit_test(a_budget_file_says_what_options_say),
        cmocka_unit_test(a_wrong_budget_file_is_wrong_usage_and_says_where),
        cmocka_unit_test(a_run_that_did_not_end_well_never_passes),
        cmocka_unit_test(a_run_under_way_is_to_be_checked_later),
        cmocka_unit_test(a_trace_without_what_is_checked_never_passes),
        cmocka_unit_test(the_self_test_finds_its_leak_and_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
