/* The places where a trace may be written and read: absent files, links, other files, other writers, permissions. */
#include "recorder_fixture.h"
#include "trace_file_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>

static void check_ring_file_is(const char *content, size_t bytes)
{
    size_t bytes_after;
    char *after = read_file_at(beside(".db-ring"), &bytes_after);
    assert_int_equal(bytes_after, bytes);
    assert_memory_equal(after, content, bytes);
    free(after);
}

static void an_absent_file_is_named(void **state)
{
    (void)state;
    assert_int_equal(open_for_reading(), MT_BAD_TRACE);
    check_error_says("there is no trace");
    check_error_says(path);
    assert_false(fixture_exists(path, ""));
}

static void an_empty_file_becomes_a_trace_but_is_none_yet(void **state)
{
    (void)state;
    write_file("", 0);
    assert_int_equal(open_for_reading(), MT_BAD_TRACE);
    check_error_says("empty");
    fixture_record(path, 1, 100);
    assert_int_equal(fixture_check_run(path, 1, 1), 100);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    char kept[FIXTURE_PATH_BYTES];
    snprintf(kept, sizeof kept, "%s", path);
    strncat(path, "/nowhere/trace.db", sizeof path - strlen(path) - 1);
    assert_int_equal(open_for_writing(), MT_NOT_WRITTEN);
    check_error_says("can't write to the folder");
    check_error_says("nowhere");
    snprintf(path, sizeof path, "%s", kept);
}

static void what_lies_where_the_ring_would_be_is_left_alone(void **state)
{
    (void)state;
    static char content[10000];
    memset(content, 'n', sizeof content);
    fixture_record(path, 1, 100);
    for (size_t bytes = 4; bytes <= sizeof content; bytes += sizeof content - 4) {
        write_file_at(beside(".db-ring"), content, bytes);
        assert_int_equal(open_for_reading(), MT_FAILED);
        check_error_says("-ring is in the way: not a ring of memtrace; move it");
        assert_int_equal(open_for_writing(), MT_NOT_WRITTEN);
        check_error_says("is in the way");
        check_ring_file_is(content, bytes);
    }
    unlink(beside(".db-ring"));
    assert_int_equal(mkdir(beside(".db-ring"), 0755), 0);
    assert_int_equal(open_for_reading(), MT_FAILED);
    check_error_says("is in the way");
    assert_int_equal(open_for_writing(), MT_NOT_WRITTEN);
    check_error_says("is in the way");
    assert_int_equal(rmdir(beside(".db-ring")), 0);
    assert_int_equal(fixture_check_run(path, 1, 1), 100);
}

static void what_lies_beside_a_file_that_is_no_trace_is_left_alone(void **state)
{
    (void)state;
    static char content[10000];
    const char text[] = "notes of somebody, who keeps others in a file that happens to be called like a ring";
    write_file(text, sizeof text);
    for (size_t bytes = 0; bytes <= sizeof content; bytes += sizeof content) {
        write_file_at(beside(".db-ring"), content, bytes);
        assert_int_equal(open_for_reading(), MT_BAD_TRACE);
        assert_int_equal(open_for_writing(), MT_BAD_TRACE);
        check_ring_file_is(content, bytes);
    }
}

/* The path by which a run is opened must not matter: by another one it is still seen to be live. */
static void a_live_run_is_found_through_a_symbolic_link(void **state)
{
    (void)state;
    char kept[FIXTURE_PATH_BYTES];
    snprintf(kept, sizeof kept, "%s", path);
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(4, mt_recorder_sink(recorder));
    script_emit(&script, 5000);
    const char *link = beside(".link.db");
    assert_int_equal(symlink("trace.db", link), 0);
    assert_true((size_t)snprintf(path, sizeof path, "%s", link) < sizeof path);
    assert_int_equal(open_for_reading(), MT_OK);
    assert_int_equal(open_for_writing(), MT_NOT_WRITTEN);
    check_error_says("being written by process");
    unlink(path);
    assert_int_equal(symlink("no.db", path), 0);
    assert_int_equal(open_for_writing(), MT_NOT_WRITTEN);
    check_error_says("can't follow the link");
    unlink(path);
    snprintf(path, sizeof path, "%s", kept);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "running");
    fixture_close(recorder, MT_RUN_DONE);
    assert_int_equal(fixture_check_run(path, 1, 4), 5000);
}

static void a_file_of_two_names_is_read_and_not_written(void **state)
{
    (void)state;
    char other[FIXTURE_PATH_BYTES + 16];
    fixture_record(path, 1, 100);
    make_database("UPDATE run SET state = 'running'");
    snprintf(other, sizeof other, "%s", beside(".other.db"));
    assert_int_equal(link(path, other), 0);
    assert_int_equal(open_for_writing(), MT_NOT_WRITTEN);
    check_error_says("hard links");
    assert_int_equal(open_for_reading(), MT_OK);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "running");
    unlink(other);
    assert_int_equal(open_for_reading(), MT_OK);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "interrupted");
}

/* Names that SQLite would take for something else are files like any other. */
static void a_path_is_taken_literally(void **state)
{
    (void)state;
    static const char *const names[] = {":memory:", "file:u.db", "file:u.db?mode=memory"};
    char kept[FIXTURE_PATH_BYTES], here[FIXTURE_PATH_BYTES];
    snprintf(kept, sizeof kept, "%s", path);
    assert_non_null(getcwd(here, sizeof here));
    *strrchr(path, '/') = '\0';
    assert_int_equal(chdir(path), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s", names[i]);
        assert_int_equal(open_for_writing(), MT_OK);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(open_for_reading(), MT_OK);
        unlink(path);
    }
    path[0] = '\0';
    assert_int_equal(open_for_writing(), MT_USAGE);
    assert_int_equal(open_for_reading(), MT_USAGE);
    check_error_says("path is empty");
    assert_int_equal(chdir(here), 0);
    snprintf(path, sizeof path, "%s", kept);
}

static void what_is_no_regular_file_is_no_trace(void **state)
{
    (void)state;
    char kept[FIXTURE_PATH_BYTES];
    snprintf(kept, sizeof kept, "%s", path);
    snprintf(path, sizeof path, "/dev/null");
    assert_int_equal(open_for_writing(), MT_BAD_TRACE);
    check_error_says("not a regular file");
    assert_int_equal(open_for_reading(), MT_BAD_TRACE);
    check_error_says("not a regular file");
    snprintf(path, sizeof path, "/tmp");
    assert_int_equal(open_for_writing(), MT_BAD_TRACE);
    check_error_says("name a file in it");
    snprintf(path, sizeof path, "%s", kept);
}

static void a_second_writer_learns_the_pid_of_the_first(void **state)
{
    (void)state;
    char words[64];
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(4, mt_recorder_sink(recorder));
    script_emit(&script, 5000);
    assert_int_equal(open_for_writing(), MT_NOT_WRITTEN);
    snprintf(words, sizeof words, "being written by process %d", (int)getpid());
    check_error_says(words);
    script_emit(&script, 5000);
    fixture_close(recorder, MT_RUN_DONE);
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM run"), 1);
    assert_int_equal(fixture_check_run(path, 1, 4), 10000);
}

static void a_file_without_write_permission_is_named(void **state)
{
    (void)state;
    fixture_record(path, 1, 100);
    assert_int_equal(chmod(path, 0444), 0);
    int how;
    pid_t child = fork();
    if (child == 0) {
        if (getuid() == 0 && setuid(65534) != 0)
            _exit(98);
        mt_status status = open_for_writing();
        _exit(strstr(mt_last_error(), "ermission") != NULL ? (int)status : 99);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), MT_NOT_WRITTEN);
    assert_int_equal(fixture_check_run(path, 1, 1), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_absent_file_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_file_becomes_a_trace_but_is_none_yet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_lies_where_the_ring_would_be_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_lies_beside_a_file_that_is_no_trace_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_live_run_is_found_through_a_symbolic_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_two_names_is_read_and_not_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_is_taken_literally, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_regular_file_is_no_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_writer_learns_the_pid_of_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_without_write_permission_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
