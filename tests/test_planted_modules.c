/* Commands that start Python run nothing that lies in the current folder, whose files may be a stranger's. */
#include "two_runs.h"

/* Makes modules that say that they were run, with names that the commands import: of the standard library, of engines,
 * and of the package itself. */
#define PLANT                                                                                                          \
    "mkdir -p memtrace fleet/run-job/events; for table in ranks shares steps events/0; do touch "                      \
    "fleet/run-job/$table.parquet; done;"                                                                              \
    "for module in json argparse linecache runpy pathlib sqlite3 tempfile sitecustomize usercustomize duckdb pyarrow " \
    "chdb mcp anyio fleet memtrace/__init__ memtrace/fleet; do echo 'open(\"planted\", \"a\").write(__file__)' "       \
    ">$module.py; "                                                                                                    \
    "done;"

/* Runs the command, also with a PYTHONPATH with the current folder as an empty and as a relative part. */
static void expect_nothing_planted(const char *command)
{
    static const char *const paths[] = {"", "PYTHONPATH=:/nowhere", "PYTHONPATH=/nowhere:.", "PYTHONPATH=./"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const struct said *said =
            shell("rm -f planted; " PLANT "%s \"$M\" %s; cat planted 2>/dev/null", paths[i], command);
        assert_null(strstr(said->out, ".py"));
    }
}

static void a_module_of_the_current_folder_is_not_run(void **state)
{
    (void)state;
    expect_nothing_planted("fleet fleet --engine print >printed.txt");
    assert_says(shell("cat printed.txt")->out, "-- duckdb: The ten highest peaks");
    expect_nothing_planted("fleet fleet");
    expect_nothing_planted("fleet fleet --engine clickhouse");
    expect_nothing_planted("export --format parquet memtrace.db -o parquet");
    expect_nothing_planted("mcp --folder . </dev/null");
}

static void words_reach_the_module_as_they_are(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("fleet 'a folder' peaks spread --engine print --json");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "/a folder/*/ranks.parquet");
    said = MEMTRACE("fleet fleet 'no question'");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "memtrace: fleet: unknown question \"no question\"");
}

/* What the user names is found, and the programs that Python starts have the user's environment but for what is left
 * out. */
static void absolute_folders_of_pythonpath_are_kept(void **state)
{
    (void)state;
    const struct said *said = shell("mkdir mine; echo 'print(\"mine\"); raise ImportError' >mine/duckdb.py;" PLANT
                                    "PYTHONPATH=.:$PWD/mine: \"$M\" fleet fleet");
    assert_string_equal(said->out, "mine\n");
    assert_says(said->err, "duckdb is not installed for ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(a_module_of_the_current_folder_is_not_run),
        TEST_WITH_TWO_RUNS(words_reach_the_module_as_they_are),
        TEST_WITH_TWO_RUNS(absolute_folders_of_pythonpath_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
