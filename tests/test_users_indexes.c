/* Users may add indexes to a trace, and SQLite may read through them. One that is not what its table says changes no
 * answer: a command tells of it, or does without. */
#include "program.h"
#include "trace_edit.h"

static const char *const commands[] = {
    "peak --json",
    "peak --by module --json",
    "top --at peak --json",
    "categories --json",
    "steps --json",
    "events --json",
    "runs --json",
    "advise --json",
    "export --format csv -o -",
    "check --max-allocated 1GiB",
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int set_up(void **state)
{
    *state = enter_folder("indexes");
    const struct said *said =
        MEMTRACE("run --device sim:h100 --model small --layers 1 --batch 1 --seq 64 --steps 2 --trace trace.db");
    if (said->code != 0)
        fail_msg("%s", said->err);
    return 0;
}

/* Adds an index that is empty, but says that it is of all rows. */
static void add_lying_index(const char *trace, const char *columns)
{
    char sql[500];
    snprintf(sql, sizeof sql,
             "CREATE INDEX mine ON %s WHERE 0; PRAGMA writable_schema = ON;"
             "UPDATE sqlite_schema SET sql = replace(sql, ' WHERE 0', '') WHERE name = 'mine'",
             columns);
    edit_trace(trace, sql);
}

/* Either way is right. Returns true if the command did without. */
static bool answers_or_tells(const char *command, const char *whole, const char *added)
{
    const struct said *said = shell("\"$M\" %s --trace changed.db", command);
    if (said->code == 3) {
        assert_says(said->err, "has an index \"mine\", added by another program, that is not what its table says");
        return false;
    }
    if (said->code != 0 || strcmp(said->out, whole) != 0)
        fail_msg("%s with an index on %s: %d, %s%s", command, added, said->code, said->out, said->err);
    return true;
}

static void a_lying_index_changes_no_answer(void **state)
{
    (void)state;
    static const char *const added[] = {
        "event (kind)",
        "event (id)",
        "event (kind, id, block_bytes, requested_bytes, time_ns)",
        "block_use (allocation)",
        "event (allocation)",
        "step (run)",
        "step (run, last_event)",
        "setting (run, name, value)",
        "label (run, id, category)",
        "segment (run)",
        "summary_peak (measure)",
        "measurement (name)",
        "batch (first_event)",
        "run (state)",
    };
    enum { NEVER_READ = 4 }; /* the first ones: their tables are too large to be compared whenever they are asked */
    char *whole[COMMANDS];
    int told = 0;
    for (int i = 0; i < COMMANDS; i++)
        whole[i] = strdup(shell("\"$M\" %s --trace trace.db", commands[i])->out);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        shell("cp trace.db changed.db");
        add_lying_index("changed.db", added[i]);
        for (int k = 0; k < COMMANDS; k++) {
            const bool is_told = !answers_or_tells(commands[k], whole[k], added[i]);
            if (is_told && i < NEVER_READ)
                fail_msg("%s reads through an index on %s", commands[k], added[i]);
            told += is_told;
        }
    }
    assert_in_range(told, 10, 70);
    for (int i = 0; i < COMMANDS; i++)
        free(whole[i]);
}

/* Ours may not be replaced by one of that name. */
static void an_index_in_the_place_of_ours_is_compared(void **state)
{
    (void)state;
    char *whole = strdup(MEMTRACE("top --at peak --json --trace trace.db")->out);
    edit_trace("trace.db",
               "DROP INDEX event_relabel; CREATE INDEX event_relabel ON event (label) WHERE kind = 10 AND 0;"
               "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql ="
               " 'CREATE INDEX event_relabel ON event (allocation)' WHERE name = 'event_relabel'");
    const struct said *said = MEMTRACE("top --at peak --json --trace trace.db");
    if (said->code == 0)
        assert_string_equal(said->out, whole);
    else
        assert_says(said->err, "has an index \"event_relabel\", added by another program");
    free(whole);
}

static void an_honest_index_is_left_alone(void **state)
{
    (void)state;
    char *whole = strdup(MEMTRACE("steps --json --trace trace.db")->out);
    edit_trace("trace.db", "CREATE INDEX mine ON step (run); CREATE INDEX also_mine ON event (kind)");
    const struct said *said = MEMTRACE("steps --json --trace trace.db");
    assert_int_equal(said->code, 0);
    assert_string_equal(said->out, whole);
    assert_says(MEMTRACE("sql --trace trace.db 'EXPLAIN QUERY PLAN SELECT id FROM event WHERE kind = 3'")->out,
                "USING COVERING INDEX also_mine");
    assert_int_equal(MEMTRACE("verify --trace trace.db")->code, 0);
    free(whole);
}

/* Recovery reads the trace as a writer does. */
static void recovery_reads_through_no_lying_index(void **state)
{
    (void)state;
    add_lying_index("trace.db", "step (run)");
    edit_trace("trace.db", "UPDATE run SET state = 'running'");
    const struct said *said = MEMTRACE("runs --json --trace trace.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err, "has an index \"mine\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lying_index_changes_no_answer, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(an_index_in_the_place_of_ours_is_compared, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(an_honest_index_is_left_alone, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(recovery_reads_through_no_lying_index, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
