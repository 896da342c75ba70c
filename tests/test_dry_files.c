/* The folder of a dry run's files, from outside: shell scripts stand for the program. */
#include "base/status.h"
#include "program.h"

static void the_program_has_a_folder_that_is_removed(void **state)
{
    (void)state;
    const struct said *said = shell("\"$M\" dry-run -- sh -c '" READ_SETTING(
        "files", "files") "echo $files; cd $files; mkdir -p a/b;"
                          "touch a/b/c; ln -s / root' >folder; test $? -eq 8 && test -n \"$(cat folder)\" &&"
                          "test ! -e \"$(cat folder)\" && test -d /bin");
    assert_int_equal(said->code, 0);
}

static void ranks_share_the_folder(void **state)
{
    (void)state;
    const struct said *said =
        MEMTRACE("dry-run --ranks 2 -- sh -c '" READ_SETTING("files", "files") "echo $RANK >>$files/ranks;"
                                                                               "cat $files/ranks'");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "0\n0\n1\n");
}

static void folders_that_the_program_has_made_are_removed_if_they_are_empty(void **state)
{
    (void)state;
    const struct said *said = shell("mkdir full empty; touch full/file; \"$M\" dry-run -- sh -c '" READ_SETTING(
        "files", "files") "mkdir -p made/deep; printf \"$PWD/made\\000$PWD/made/deep\\000$PWD/full\\000$PWD/emp\" "
                          ">$files/folders'; test $? -eq 8 && test ! -e made && test -e full/file && test -d empty");
    assert_int_equal(said->code, 0);
}

static void folders_of_killed_processes_are_removed_after_a_day(void **state)
{
    (void)state;
    const struct said *said =
        shell("mkdir tmp outside; cd tmp; "
              "for name in left held young; do mkdir -p memtrace-job.$name; touch memtrace-job.$name/answers; done;"
              "ln -s ../outside memtrace-job.link; touch ../outside/file; mkdir -p other;"
              "touch -d '2 days ago' memtrace-job.left memtrace-job.held other ../outside;"
              "(flock 9; TMPDIR=$PWD \"$M\" dry-run -- true) 9<memtrace-job.held; ls . ../outside");
    assert_says(said->out, "memtrace-job.held\nmemtrace-job.link\nmemtrace-job.young\nother\n");
    assert_says(said->out, "file\n");
    assert_null(strstr(said->out, "left"));
}

static void a_failing_program_leaves_no_folder(void **state)
{
    (void)state;
    const struct said *said = shell("mkdir tmp; TMPDIR=$PWD/tmp \"$M\" dry-run -- sh -c 'kill -9 $$'; ls tmp");
    assert_string_equal(said->out, "");
}

static void a_folder_that_can_t_be_made_is_named(void **state)
{
    (void)state;
    const struct said *said = shell("TMPDIR=$PWD/none \"$M\" dry-run -- true");
    assert_int_equal(said->code, 1);
    assert_says(said->err, "/none/memtrace-");
}

static int enter(void **state)
{
    *state = enter_folder("dry_files");
    return 0;
}

#define FILES_TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES_TEST(the_program_has_a_folder_that_is_removed),
        FILES_TEST(ranks_share_the_folder),
        FILES_TEST(folders_that_the_program_has_made_are_removed_if_they_are_empty),
        FILES_TEST(folders_of_killed_processes_are_removed_after_a_day),
        FILES_TEST(a_failing_program_leaves_no_folder),
        FILES_TEST(a_folder_that_can_t_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
