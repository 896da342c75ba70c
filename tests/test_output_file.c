/* Tests that no command overwrites a file that it, or another command, reads. */
#include "base/status.h"
#include "program.h"

#define TINY "run --device sim --vocab 64 --d-model 16 --d-ff 32 --layers 2 --heads 2 --batch 2 --seq 8 "

/* The trace, another one, links of both kinds to it, a budget and a page that is there already. */
static int set_up(void **state)
{
    *state = enter_folder("test_output_file");
    assert_int_equal(shell("\"$M\" " TINY "&& \"$M\" " TINY "&& \"$M\" " TINY "--trace other.db")->code, 0);
    assert_int_equal(
        shell("ln -s memtrace.db soft && mkdir hard && ln other.db hard/page.html && ln -s soft softer")->code, 0);
    assert_int_equal(
        shell("echo '{\"max-allocated\": \"1TiB\"}' >budget.json && echo old >old.txt && ln old.txt twin.txt")->code,
        0);
    assert_int_equal(shell("sha256sum memtrace.db other.db budget.json old.txt >sums")->code, 0);
    return 0;
}

static void assert_refused(const char *arguments, const char *reason)
{
    const struct said *said = shell("\"$M\" %s", arguments);
    if (said->code != MT_USAGE || said->out[0] != '\0')
        fail_msg("%s: exit code %d: %s%s", arguments, said->code, said->out, said->err);
    assert_says(said->err, reason);
    if (shell("sha256sum --quiet -c sums")->code != 0)
        fail_msg("%s changed a file", arguments);
}

static void no_command_overwrites_a_trace(void **state)
{
    (void)state;
    static const char *const commands[] = {"export -o",
                                           "export --format pprof -o",
                                           "export stacks --diff other.db:1 -o",
                                           "timeline -o",
                                           "timeline --diff other.db:1 -o",
                                           "report -o",
                                           "check --max-allocated 1TiB --junit",
                                           "check --max-allocated 1TiB --summary",
                                           "check --against other.db:1 --junit",
                                           "check --against other.db:1 --summary"};
    static const char *const names[] = {"memtrace.db", "softer", "other.db", "hard/page.html"};
    char arguments[256];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            snprintf(arguments, sizeof arguments, "%s %s", commands[i], names[k]);
            assert_refused(arguments, "is a trace");
        }
}

/* Some write beside the trace while it is there: then its first page may be all that says so. */
static void a_trace_that_is_being_written_is_one_too(void **state)
{
    (void)state;
    const struct said *said =
        shell("\"$M\" " TINY "--steps 100000 --trace live.db >live.txt 2>&1 & run=$!; "
              "until \"$M\" runs --trace live.db >seen.txt 2>&1 && grep -q running seen.txt;"
              " do sleep 0.02; done; \"$M\" export -o live.db; code=$?; kill -9 $run; exit $code");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "is a trace");
    assert_int_equal(MEMTRACE("runs --trace live.db")->code, 0);
}

static void a_check_writes_no_file_that_it_reads_or_wrote(void **state)
{
    (void)state;
    assert_refused("check --budget budget.json --junit budget.json", "--junit budget.json is budget.json itself");
    assert_refused("check --budget budget.json --summary ./budget.json",
                   "--summary ./budget.json is budget.json itself");
    assert_refused("check --max-allocated 1TiB --junit old.txt --summary twin.txt", "is twin.txt itself");
    assert_refused("check --max-allocated 1TiB --junit new.txt --summary ./new.txt", "is ./new.txt itself");
    assert_int_not_equal(shell("test -e new.txt")->code, 0);
    assert_int_equal(MEMTRACE("check --budget budget.json --junit a.xml --summary b.md")->code, 0);
    assert_int_equal(MEMTRACE("check --budget budget.json --junit /dev/null --summary /dev/null")->code, 0);
}

static void files_are_whole_or_as_they_were(void **state)
{
    (void)state;
    static const char *const commands[] = {"report -o page.txt", "check --max-allocated 1TiB --junit page.txt"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        assert_int_equal(
            shell("echo old >page.txt; (trap '' XFSZ; ulimit -f 0; \"$M\" %s >/dev/null)", commands[i])->code,
            MT_NOT_WRITTEN);
        assert_int_equal(shell("grep -qx old page.txt && ! ls page.txt.*")->code, 0);
        assert_int_equal(shell("\"$M\" %s && ! grep -qx old page.txt", commands[i])->code, 0);
    }
}

static void a_file_keeps_who_may_read_it(void **state)
{
    (void)state;
    static const char *const modes[] = {"600", "664", "444", "644"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const struct said *said =
            shell("umask 022; rm -f kept.md; echo old >kept.md; chmod %s kept.md; \"$M\" report -o"
                  " kept.md 2>&1 >/dev/null && stat -c %%a kept.md",
                  modes[i]);
        assert_int_equal(said->code, 0);
        assert_non_null(strstr(said->out, modes[i]));
    }
    assert_int_equal(
        shell("umask 027; rm -f kept.md; \"$M\" report -o kept.md; [ $(stat -c %%a kept.md) = 640 ]")->code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_command_overwrites_a_trace),
        cmocka_unit_test(a_trace_that_is_being_written_is_one_too),
        cmocka_unit_test(a_check_writes_no_file_that_it_reads_or_wrote),
        cmocka_unit_test(files_are_whole_or_as_they_were),
        cmocka_unit_test(a_file_keeps_who_may_read_it),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
