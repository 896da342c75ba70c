/* Several processes that add runs to one trace take turns. */
#include "program.h"

#define TINY "run --device sim:h100 --model small --layers 2 --batch 1 --seq 64 --steps 1 --trace trace.db "

static int set_up(void **state)
{
    *state = enter_folder("writers");
    return 0;
}

static void ten_writers_store_ten_runs(void **state)
{
    (void)state;
    const struct said *said =
        shell("for i in 1 2 3 4 5 6 7 8 9 10; do \"$M\" " TINY "--name run$i >/dev/null & pids=\"$pids $!\"; done;"
              "for pid in $pids; do wait $pid || exit 1; done");
    if (said->code != 0)
        fail_msg("%s", said->err);
    json_t *json = json_of(MEMTRACE("runs --json --trace trace.db"));
    assert_int_equal(json_array_size(json_object_get(json, "rows")), 10);
    json_decref(json);
    assert_int_equal(MEMTRACE("verify --trace trace.db")->code, 0);
}

/* The lock of a ring, held by another program. */
static void a_writer_waits_as_long_as_it_is_told(void **state)
{
    (void)state;
    MEMTRACE(TINY);
    const struct said *said = shell("cp trace.db trace.db-ring; : > trace.db-ring;"
                                    "flock -x trace.db-ring sleep 3 & sleep 0.3; \"$M\" " TINY "--wait 0");
    assert_int_equal(said->code, 6);
    assert_says(said->err, "is being written by another process");
    said = shell("flock -x trace.db-ring sleep 1 & sleep 0.3; \"$M\" " TINY "--wait 20");
    if (said->code != 0)
        fail_msg("%s", said->err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_writers_store_ten_runs, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_writer_waits_as_long_as_it_is_told, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
