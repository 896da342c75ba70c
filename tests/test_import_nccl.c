/* memtrace import of what Meta's build of NCCL says of its memory: alone, and next to a snapshot. */
#include "program.h"
#include "same_rows.h"

enum { MIB = 1 << 20 };

#define HELD                                                                                                           \
    "SELECT group_concat(name || ' ' || bytes, ', ') FROM (SELECT * FROM outside WHERE kind = 'nccl' ORDER BY bytes "  \
    "DESC)"
#define WITH_SNAPSHOT(options) "rm -f x.db*; \"$M\" import snapshot.pickle --trace x.db " options

static int set_up(void **state)
{
    *state = enter_folder("test_import_nccl");
    expect_success(shell("for k in log dump; do python3 \"$D\"/import/nccl.py $k nccl.$k || exit; done;"
                         " python3 \"$D\"/import/devices.py xpu snapshot.pickle"));
    return 0;
}

/* At most, 8, 2 and 4 MiB are live. Memory of the host and registrations are none of the device's. */
static void a_log_is_a_run_of_its_allocations(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("import nccl.log --trace log.db");
    expect_success(said);
    assert_says(said->out, "The file has no times");
    assert_int_equal(sql_integer("log.db", "SELECT bytes FROM summary_peak WHERE measure = 'allocated' AND step = -2"),
                     14 * MIB);
    assert_string_equal(sql_text("log.db",
                                 "SELECT group_concat(requested_bytes || ' ' || op || ' ' || coalesce(path, ''),"
                                 " ', ') FROM event JOIN label ON label.id = label LEFT JOIN span ON"
                                 " span.id = label.span WHERE kind = 2"),
                        "8388608 ncclCuMemAlloc ProxySetup:0/1, 2097152 ncclCudaCalloc , "
                        "4194304 cuMemCreate nvlsAllocateMem, 3145728 ncclCuMemAlloc default_pg");
    assert_says(MEMTRACE("runs --trace log.db")->out, "NCCL memory log");
}

static void a_log_fills_the_rows_outside_of_a_snapshot(void **state)
{
    (void)state;
    expect_success(shell(WITH_SNAPSHOT("--nccl nccl.log")));
    assert_string_equal(sql_text("x.db", HELD), "default_pg 8388608, tp 4194304, no communicator 2097152");
    assert_int_equal(sql_integer("x.db", "SELECT sum(event = first_event - 1) FROM outside JOIN run ON run.id = run"),
                     3);
    json_t *said = json_of(MEMTRACE("peak --trace x.db --json"));
    assert_int_equal(integer_of(json_object_get(said, "used"), "bytes"), (22 + 14) * MIB);
    json_decref(said);
}

static void a_dump_of_communicators_fills_them_too(void **state)
{
    (void)state;
    json_t *said = json_of(shell(WITH_SNAPSHOT("--nccl nccl.dump --json")));
    assert_int_equal(integer_of(said, "nccl_bytes"), 12 * MIB);
    json_decref(said);
    assert_string_equal(sql_text("x.db", HELD), "default_pg 8388608, tp 4194304");
    expect_success(
        shell("echo '{\"totalAllocated\":9,\"totalFreed\":2,\"currentUsage\":7,\"peakUsage\":8}' >one.json; %s",
              WITH_SNAPSHOT("--nccl one.json")));
    assert_string_equal(sql_text("x.db", HELD), " 8");
}

/* A program that was killed left the last line unfinished. */
static void a_log_that_is_cut_off_is_read_up_to_there(void **state)
{
    (void)state;
    const struct said *said = shell("head -c -20 nccl.log >cut.log; \"$M\" import cut.log --trace cut.db");
    expect_success(said);
    assert_says(said->out, "The file ends within a line");
    assert_int_equal(sql_integer("cut.db", "SELECT count(*) FROM event WHERE kind = 2"), 4);
}

/* What is done to the files, and the words that say so. */
static void files_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sed 's/\"memoryAddr\": [0-9]*/\"memoryAddr\": -1/' nccl.log >bad",
         "line 1 of NCCL's log has no \"memoryAddr\""},
        {"sed '2s/\"bytes\": [0-9]*/\"bytes\": true/' nccl.log >bad", "line 2 of NCCL's log has no \"bytes\""},
        {"sed '1s/\"bytes\": [0-9]*/\"bytes\": 999999999999999999/' nccl.log >bad", "line 1 of NCCL's log"},
        {"sed '3s/^{/[/' nccl.log >bad", "line 3"},
        {"cp snapshot.pickle bad", "neither NCCL's log of memory events nor a dump"},
        {"sed 's/peakUsage/peak/' nccl.dump >bad", "no \"peakUsage\""},
        {"true >bad", "it is empty"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said =
            shell("%s; rm -f b.db; \"$M\" import snapshot.pickle --nccl bad --trace b.db", cases[i][0]);
        assert_int_equal(said->code, 3);
        assert_says(said->err, cases[i][1]);
        assert_int_equal(access("b.db", F_OK), -1);
    }
    const struct said *said =
        shell("cp snapshot.pickle rank1.pickle; \"$M\" import rank1.pickle --nccl nccl.log --trace b.db");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "nccl.log is of rank 0, and rank1.pickle of rank 1");
    assert_int_equal(MEMTRACE("import rank1.pickle snapshot.pickle --nccl nccl.log --trace b.db")->code, 2);
    assert_int_equal(MEMTRACE("import snapshot.pickle --nccl absent --trace b.db")->code, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_a_run_of_its_allocations),
        cmocka_unit_test(a_log_fills_the_rows_outside_of_a_snapshot),
        cmocka_unit_test(a_dump_of_communicators_fills_them_too),
        cmocka_unit_test(a_log_that_is_cut_off_is_read_up_to_there),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
