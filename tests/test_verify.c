/* verify finds damage wherever it is, and --salvage saves what is whole. */
#include "program.h"
#include "seed.h"
#include "trace_edit.h"

enum { SALVAGES = 25 };

static int set_up(void **state)
{
    *state = enter_folder("verify");
    const struct said *said =
        MEMTRACE("run --device sim:h100 --model small --layers 3 --batch 2 --seq 64 --steps 2 --trace trace.db");
    if (said->code != 0)
        fail_msg("%s", said->err);
    return 0;
}

/* Checks that one of the rows of verify is damaged, and says so in these words. */
static void expect_damage(const char *trace, const char *what, const char *words)
{
    json_t *json = json_of_code(shell("\"$M\" verify --json --trace %s", trace), 3),
           *rows = json_object_get(json, "rows");
    size_t i;
    json_t *row;
    bool is_found = false;
    json_array_foreach(rows, i, row)
    {
        const bool is_it = strcmp(json_string_value(json_object_get(row, "what")), what) == 0;
        if (is_it && strcmp(json_string_value(json_object_get(row, "result")), "damaged") == 0) {
            assert_says(json_string_value(json_object_get(row, "found")), words);
            is_found = true;
        }
    }
    assert_true(is_found);
    json_decref(json);
}

static int64_t number_of(const char *path, const char *sql)
{
    sqlite3 *database;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return number;
}

static void a_trace_is_whole(void **state)
{
    (void)state;
    MEMTRACE("run --device sim:h100 --model small --layers 1 --batch 1 --seq 64 --steps 1 --trace trace.db");
    const struct said *said = MEMTRACE("verify --trace trace.db");
    assert_int_equal(said->code, 0);
    assert_null(strstr(said->out, "damaged"));
    assert_null(strstr(said->out, "unknown"));
    assert_says(said->out, "  2  summaries  whole");
}

static void changes_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *change, *what, *words;
    } cases[] = {
        {"DELETE FROM event WHERE id = 500", "events", "not those that were stored"},
        {"DELETE FROM event WHERE id = (SELECT max(id) FROM event)", "events", "not those that were stored"},
        {"UPDATE event SET time_ns = time_ns + 1 WHERE id = 500", "events", "not those that were stored"},
        {"DELETE FROM batch; UPDATE event SET span = -5 WHERE id = 500", "events",
         "500 has a number that no event has"},
        {"DELETE FROM label WHERE id = 7", "events", "name a label, a span or a stack that is not there"},
        {"UPDATE summary_peak SET bytes = bytes - 512 WHERE step = -2", "summaries", "summary_peak: 6 rows"},
        {"DELETE FROM summary_category WHERE step = 0", "summaries", "summary_category"},
        {"UPDATE step SET last_event = last_event - 1 WHERE number = 1", "summaries", "step: 2 rows"},
        {"INSERT INTO checkpoint VALUES (1, 5, x'00')", "summaries", "checkpoint"},
        {"UPDATE segment_part SET bytes = bytes + 512", "summaries", "segment_part"},
        {"UPDATE run SET missing_records = 3", "end", "3 records of its ring"},
        {"UPDATE run SET lost_events = 4", "end", "4 events could not be stored"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shell("cp trace.db changed.db");
        edit_trace("changed.db", cases[i].change);
        expect_damage("changed.db", cases[i].what, cases[i].words);
    }
}

/* Of a trace of some megabytes, a thread checks the file while the events are read. */
static void a_large_trace_is_checked_on_two_threads(void **state)
{
    (void)state;
    MEMTRACE("run --device sim:h100 --model small --seq 64 --steps 16 --trace large.db");
    assert_true(number_of("large.db", "SELECT count(*) FROM event") > 60000);
    const struct said *said = MEMTRACE("verify --trace large.db");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "pages      whole");
    assert_says(said->out, "1  summaries  whole");
    assert_true(strstr(said->out, "SQLite's integrity check") < strstr(said->out, "all as they were stored"));
    const int64_t page = number_of("large.db", "SELECT pageno FROM dbstat WHERE name = 'event' AND pagetype = 'leaf' "
                                               "ORDER BY path LIMIT 1 OFFSET 9"),
                  bytes = number_of("large.db", "PRAGMA page_size");
    char words[64];
    shell("printf x | dd of=large.db bs=1 seek=%" PRId64 " conv=notrunc status=none", (page - 1) * bytes + bytes / 2);
    expect_damage("large.db", "pages", "1 of");
    snprintf(words, sizeof words, "Page %" PRId64 ": unable to get the page", page);
    expect_damage("large.db", "database", words);
    snprintf(words, sizeof words, "the checksum of page %" PRId64 " does not match", page);
    expect_damage("large.db", "events", words);
}

/* The answer is the same as before the damage: everything that was changed can be derived. */
static void summaries_are_derived_anew(void **state)
{
    (void)state;
    char *before = strdup(MEMTRACE("peak --trace trace.db")->out);
    edit_trace("trace.db", "UPDATE summary_peak SET bytes = 1; DELETE FROM step; DELETE FROM segment_part;"
                           "DELETE FROM checkpoint; DELETE FROM summary_allocation");
    assert_int_equal(MEMTRACE("verify --trace trace.db --salvage new.db")->code, 0);
    assert_string_equal(MEMTRACE("peak --trace new.db")->out, before);
    assert_int_equal(MEMTRACE("verify --trace new.db")->code, 0);
    free(before);
}

static void a_run_ends_before_its_first_missing_event(void **state)
{
    (void)state;
    edit_trace("trace.db", "UPDATE run SET name = 'first'; DELETE FROM batch; DELETE FROM event WHERE id = 500");
    MEMTRACE("run --device sim:h100 --model small --layers 1 --batch 1 --seq 64 --steps 1 --trace trace.db");
    const struct said *said = MEMTRACE("verify --trace trace.db --salvage new.db");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "new.db has what could be read");
    assert_int_equal(number_of("new.db", "SELECT count(*) FROM event WHERE id < 1000"), 499);
    said = MEMTRACE("peak --run 1 --trace new.db");
    assert_int_equal(said->code, 0);
    assert_says(said->err, "records after event 499 were damaged and are lost");
    assert_int_equal(MEMTRACE("peak --run 2 --trace new.db")->code, 0);
    expect_damage("new.db", "end", "records");
}

static void check_events_are_those_of_the_trace(void)
{
    sqlite3 *database;
    sqlite3_stmt *unlike;
    assert_int_equal(sqlite3_open("new.db", &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "ATTACH 'trace.db' AS whole", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(database, "SELECT count(*) FROM (SELECT * FROM main.event EXCEPT SELECT * FROM whole.event)",
                           -1, &unlike, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(unlike), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int64(unlike, 0), 0);
    sqlite3_finalize(unlike);
    sqlite3_close(database);
}

/* A batch may claim any events: none that its run has not. */
static void impossible_batches_end_a_run(void **state)
{
    static const char *const changes[] = {
        "UPDATE batch SET first_event = -7 WHERE first_event = 1",
        "UPDATE batch SET event_count = 0 WHERE first_event = (SELECT max(first_event) FROM batch)",
        "UPDATE batch SET first_event = 1 << 62 WHERE first_event = (SELECT max(first_event) FROM batch)",
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        shell("cp trace.db damaged.db; rm -f new.db");
        edit_trace("damaged.db", changes[i]);
        const struct said *said = MEMTRACE("verify --trace damaged.db --salvage new.db");
        assert_int_equal(said->code, 0);
        const int64_t saved = number_of("new.db", "SELECT event_count FROM run");
        assert_in_range(saved, 0, number_of("trace.db", "SELECT event_count FROM run"));
        assert_int_equal(number_of("new.db", "SELECT count(*) FROM event"), saved);
        check_events_are_those_of_the_trace();
    }
}

/* Returns true if it is in the first page. */
static bool damage_a_place(const char *path, uint64_t random)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file), place = (long)(random % (uint64_t)bytes);
    fseek(file, place, SEEK_SET);
    assert_int_not_equal(fputc((int)(random >> 32 & 0xFF), file), EOF);
    fclose(file);
    return place < 16384;
}

/* Every saved event is one that there was, in its place, and the new trace holds together. */
static void nothing_is_made_up(void **state)
{
    (void)state;
    const uint64_t seed = take_seed();
    for (uint64_t i = 0; i < attack_count(SALVAGES); i++) {
        shell("cp trace.db damaged.db; rm -f new.db");
        bool is_first_lost = false;
        for (uint64_t j = 0; j < 1 + i % 4; j++)
            is_first_lost |= damage_a_place("damaged.db", mt_splitmix64((seed * SALVAGES + i) * 8 + j));
        const struct said *said = MEMTRACE("verify --trace damaged.db --salvage new.db");
        if (said->code == 3 && is_first_lost)
            continue; /* its only batch is damaged, too, so that nothing says where the tables are */
        if (said->code != 0)
            fail_msg("copy %d: %s", (int)i, said->err);
        check_events_are_those_of_the_trace();
        said = MEMTRACE("verify --json --trace new.db");
        json_t *json = json_of_code(said, said->code), *rows = json_object_get(json, "rows"), *row;
        size_t k;
        json_array_foreach(rows, k, row) if (strcmp(json_string_value(json_object_get(row, "what")), "end") != 0)
            assert_string_equal(json_string_value(json_object_get(row, "result")), "whole");
        json_decref(json);
    }
}

static void lose_first_page(const char *path, long bytes)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    for (long i = 0; i < bytes; i++)
        assert_int_not_equal(fputc(0, file), EOF);
    fclose(file);
}

/* It says where each table begins, which is the same for all traces of a format. */
static void a_lost_first_page_loses_no_event(void **state)
{
    static const long lost[] = {16384, 4096, 512, 16};
    (void)state;
    char *before = strdup(MEMTRACE("peak --trace trace.db")->out);
    const int64_t events = number_of("trace.db", "SELECT event_count FROM run");
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        shell("cp trace.db damaged.db; rm -f new.db");
        lose_first_page("damaged.db", lost[i]);
        assert_int_equal(MEMTRACE("peak --trace damaged.db")->code, 3);
        const struct said *said = MEMTRACE("verify --trace damaged.db --salvage new.db");
        if (said->code != 0)
            fail_msg("%s", said->err);
        assert_int_equal(number_of("new.db", "SELECT count(*) FROM event"), events);
        check_events_are_those_of_the_trace();
        assert_string_equal(MEMTRACE("peak --trace new.db")->out, before);
        assert_int_equal(MEMTRACE("verify --trace new.db")->code, 0);
    }
    free(before);
}

/* There, tables lie elsewhere: nothing of it is taken for what it is not. */
static void the_first_page_of_another_order_is_not_guessed(void **state)
{
    (void)state;
    shell("cp trace.db damaged.db");
    edit_trace("damaged.db", "CREATE TABLE copy AS SELECT * FROM event; DROP TABLE setting; DROP TABLE event;"
                             "CREATE TABLE a (a); CREATE TABLE b (b); VACUUM");
    lose_first_page("damaged.db", 16384);
    const struct said *said = MEMTRACE("verify --trace damaged.db --salvage new.db");
    assert_int_equal(said->code, 3);
    assert_int_equal(shell("test -e new.db")->code, 1);
}

/* A signal ends it as it stores the first rows. */
static void a_killed_salvage_leaves_nothing_under_the_new_name(void **state)
{
    (void)state;
    const struct said *said =
        shell("for try in $(seq 100); do rm -f new*; \"$M\" verify --trace trace.db --salvage new.db >/dev/null 2>&1 &"
              " until ls | grep -q '^new'; do kill -0 $! || break; done; kill -STOP $!;"
              " ls | sed 's/[0-9][0-9]*$/PID/' >found; kill -9 $!; wait $! || break; done; cat found");
    assert_null(strstr(said->out, "new.db\n"));
    assert_says(said->out, "new.db.PID\n");
    assert_int_equal(shell("test -e new.db")->code, 1);
    assert_int_equal(MEMTRACE("verify --trace trace.db --salvage new.db")->code, 0);
    assert_int_equal(MEMTRACE("verify --trace new.db")->code, 0);
}

static void what_cannot_be_done_is_said(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("verify --trace trace.db --salvage trace.db")->code, 2);
    shell("echo 'no trace' > text");
    const struct said *said = MEMTRACE("verify --trace text --salvage new.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err, "not a trace");
    assert_int_equal(shell("test -e new.db")->code, 1);
    assert_int_equal(MEMTRACE("verify --trace nowhere.db")->code, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_trace_is_whole, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(changes_are_found, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_large_trace_is_checked_on_two_threads, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(summaries_are_derived_anew, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_run_ends_before_its_first_missing_event, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(impossible_batches_end_a_run, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(nothing_is_made_up, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_lost_first_page_loses_no_event, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(the_first_page_of_another_order_is_not_guessed, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_killed_salvage_leaves_nothing_under_the_new_name, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_done_is_said, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
