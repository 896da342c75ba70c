/* A disk that is full, or becomes so, ends a run with a sentence, and harms no earlier one. */
#include "recorder_fixture.h"
#include "trace_file_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* In a child: no file may grow past `bytes`, as if the disk ended there; that the system sends a signal for it besides
 * is not to end the program. Returns the close's status as exit code. */
static void record_under_limit(uint64_t bytes, uint64_t ring_records, uint64_t count, const char *words)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {bytes, bytes};
        const struct mt_run_info info = {.device = "sim", .capacity_bytes = 1, .ring_records = ring_records};
        struct mt_recorder *recorder;
        setrlimit(RLIMIT_FSIZE, &limit);
        mt_status status = mt_recorder_open(path, &info, &recorder);
        if (status == MT_OK) {
            struct script script = script_begin(2, mt_recorder_sink(recorder));
            script_emit(&script, count);
            status = mt_recorder_close(recorder, MT_RUN_DONE);
        }
        _exit(strstr(mt_last_error(), words) != NULL ? (int)status : 99);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), MT_NOT_WRITTEN);
}

static void a_ring_that_does_not_fit_the_disk_is_an_error_at_the_start(void **state)
{
    (void)state;
    fixture_record(path, 1, 1000);
    record_under_limit(1 << 20, 1 << 16, 0, "can't allocate");
    assert_false(fixture_exists(path, "-ring"));
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM run"), 1);
    assert_int_equal(fixture_check_run(path, 1, 1), 1000);
}

/* The producer must not hang, the close must fail, and what the ring could keep is stored when there is room again. */
static void a_disk_that_fills_up_ends_the_run_with_an_error(void **state)
{
    (void)state;
    fixture_record(path, 1, 1000);
    record_under_limit(1 << 20, 1 << 12, 200000, "events were lost");
    assert_int_equal(open_for_reading(), MT_OK);
    assert_string_equal(sql_text(path, "PRAGMA integrity_check"), "ok");
    assert_int_equal(fixture_check_run(path, 1, 1), 1000);
    assert_string_equal(sql_text(path, "SELECT state FROM run WHERE id = 2"), "failed");
    uint64_t stored = fixture_check_run(path, 2, 2);
    assert_true(stored > 1000);
    assert_int_equal(stored + (uint64_t)sql_integer(path, "SELECT lost_events FROM run WHERE id = 2"), 200000);
    fixture_record(path, 3, 1000);
    assert_int_equal(fixture_check_run(path, 3, 3), 1000);
}

static char *folder_of_path(char *folder)
{
    snprintf(folder, FIXTURE_PATH_BYTES, "%s", path);
    *strrchr(folder, '/') = '\0';
    return folder;
}

static int unmount_and_tear_down(void **state)
{
    char folder[FIXTURE_PATH_BYTES];
    umount2(folder_of_path(folder), MNT_DETACH);
    return tear_down(state);
}

static void record_small_run(uint64_t seed, uint64_t count, mt_status expected)
{
    struct mt_recorder *recorder = fixture_open(path, 1 << 12);
    struct script script = script_begin(seed, mt_recorder_sink(recorder));
    script_emit(&script, count);
    assert_int_equal(mt_recorder_close(recorder, MT_RUN_DONE), expected);
}

/* Fills what is left of the disk of `folder`. */
static void fill(const char *folder)
{
    static const char zeros[4096];
    char name[FIXTURE_PATH_BYTES + 16];
    snprintf(name, sizeof name, "%s/filler", folder);
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    while (write(file, zeros, sizeof zeros) > 0)
        continue;
    close(file);
}

static uint64_t count_events(int64_t run)
{
    struct mt_database *reader;
    int64_t events = 0;
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT event_count + lost_events FROM run WHERE id = %d", (int)run);
    if (mt_store_open_reading(path, &reader) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(mt_database_integer(reader, sql, &events), MT_OK);
    mt_database_close(reader);
    return (uint64_t)events;
}

/* All records of the ring can be read, from a copy elsewhere, also if the folder for copies is full itself; and it is
 * still there for when there is room. */
static void check_is_read_on_a_full_disk(const char *folder)
{
    fill(folder);
    assert_int_equal(count_events(1), 1000);
    assert_int_equal(count_events(2), 200000);
    setenv("TMPDIR", folder, 1);
    assert_int_equal(count_events(2), 200000);
    unsetenv("TMPDIR");
    assert_true(fixture_exists(path, "-ring"));
}

/* The same with a disk that is really full, where this process may mount one. */
static void a_full_disk_is_survived(void **state)
{
    (void)state;
    char folder[FIXTURE_PATH_BYTES];
    if (mount("none", folder_of_path(folder), "tmpfs", 0, "size=4m") != 0) {
        print_message("no permission to mount a small disk\n");
        skip();
    }
    record_small_run(1, 1000, MT_OK);
    assert_int_equal(open_for_writing(), MT_NOT_WRITTEN); /* its ring is larger than the disk */
    check_error_says("can't allocate");
    record_small_run(2, 200000, MT_NOT_WRITTEN);
    check_error_says("events were lost");
    check_is_read_on_a_full_disk(folder);
    assert_int_equal(mount("none", folder, NULL, MS_REMOUNT, "size=64m"), 0);
    assert_int_equal(open_for_reading(), MT_OK);
    assert_int_equal(fixture_check_run(path, 1, 1), 1000);
    uint64_t stored = fixture_check_run(path, 2, 2);
    assert_int_equal(stored + (uint64_t)sql_integer(path, "SELECT lost_events FROM run WHERE id = 2"), 200000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_ring_that_does_not_fit_the_disk_is_an_error_at_the_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_disk_that_fills_up_ends_the_run_with_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_survived, set_up, unmount_and_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
