/* Whenever a recording process is killed, the next command that opens its trace finds every event that was emitted. */
#include "recorder_fixture.h"

#include "seed.h"
#include "trace/store/recorder.h"
#include "trace/store/store.h"

#include <errno.h>
#include <grp.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { KILLS = 20, MOST_DELAY_US = 60000, SMALL_RING = 4096, NOBODY = 65534 };

static char path[FIXTURE_PATH_BYTES];

/* The number of events that the child has emitted, in memory that outlives it. */
static _Atomic uint64_t *emitted;

static int set_up(void **state)
{
    (void)state;
    fixture_path(path);
    emitted = mmap(NULL, sizeof *emitted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return emitted == MAP_FAILED;
}

static int tear_down(void **state)
{
    (void)state;
    munmap(emitted, sizeof *emitted);
    fixture_remove(path);
    return 0;
}

/* The child: records a script until it is killed, or emits `count` events and waits to be killed. */
static void record_until_killed(uint64_t seed, uint64_t ring_records, uint64_t count)
{
    struct mt_recorder *recorder = fixture_open(path, ring_records);
    struct script script = script_begin(seed, mt_recorder_sink(recorder));
    for (uint64_t i = 0; i < count; i++) {
        if (i == count / 2) /* later events are only in the ring, and so are their labels */
            mt_recorder_flush(script.sink->context);
        script_emit(&script, 1);
        atomic_store(emitted, script.sequence);
    }
    for (;;)
        pause();
}

/* The child: ends a run, and emits `count` events of another; or begins none, if `count` is 0. */
static void end_a_run_and_record(uint64_t count)
{
    const struct mt_run_info info = fixture_info(SMALL_RING);
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(1, mt_recorder_sink(recorder));
    script_emit(&script, 1000);
    bool is_well = mt_recorder_end(recorder, MT_RUN_DONE) == MT_OK;
    script = script_begin(2, mt_recorder_sink(recorder));
    if (is_well && count > 0 && mt_recorder_begin(recorder, &info) == MT_OK)
        script_emit(&script, count);
    atomic_store(emitted, is_well ? 1000 + count : 0);
    for (;;)
        pause();
}

static pid_t start_child(uint64_t seed, uint64_t ring_records, uint64_t count)
{
    atomic_store(emitted, 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        record_until_killed(seed, ring_records, count);
    return child;
}

static void kill_child(pid_t child)
{
    int how;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
}

static void sleep_us(uint64_t us)
{
    const struct timespec pause = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

static void wait_for_events(uint64_t count)
{
    while (atomic_load(emitted) < count)
        sleep_us(1000);
}

/* Leaves a run whose process died after `count` events. None of them needs to be in the file yet. */
static void leave_killed_run(uint64_t seed, uint64_t count)
{
    pid_t child = start_child(seed, 0, count);
    wait_for_events(count);
    kill_child(child);
    assert_true(fixture_exists(path, "-ring"));
}

static void open_and_close(void)
{
    struct mt_database *reader;
    if (mt_store_open_reading(path, &reader) != MT_OK)
        fail_msg("%s", mt_last_error());
    mt_database_close(reader);
}

static int64_t newest_run(void)
{
    return sql_integer(path, "SELECT max(id) FROM run");
}

static void check_whole(void)
{
    assert_string_equal(sql_text(path, "PRAGMA integrity_check"), "ok");
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM run WHERE state = 'running'"), 0);
    assert_false(fixture_exists(path, "-ring"));
    assert_false(fixture_exists(path, "-wal"));
}

/* Each kill adds a run to the same trace. A child that has not begun its run yet has emitted nothing. */
static void every_emitted_event_survives_sigkill(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    for (uint64_t i = 0; i < KILLS; i++) {
        int64_t before = i == 0 ? 0 : newest_run();
        pid_t child = start_child(seed + i, i % 2 == 0 ? 0 : SMALL_RING, UINT64_MAX);
        sleep_us(mt_splitmix64(seed + i) % MOST_DELAY_US);
        if (i == 0)
            wait_for_events(1); /* so that there is a trace */
        kill_child(child);
        uint64_t published = atomic_load(emitted);
        open_and_close();
        check_whole();
        if (newest_run() == before) {
            assert_int_equal(published, 0);
            continue;
        }
        uint64_t stored = fixture_check_run(path, newest_run(), seed + i);
        print_message("kill %d: %llu events published, %llu stored\n", (int)i, (unsigned long long)published,
                      (unsigned long long)stored);
        assert_true(stored >= published);
        assert_true(stored <= published + 1);
    }
}

static void a_recovered_run_has_the_tables_of_a_closed_one(void **state)
{
    (void)state;
    static const char *const tables[] = {
        "summary_peak", "summary_peak_category", "summary_category", "summary_allocation", "checkpoint", "step",
        "segment",      "segment_part"};
    static const char uses[] = "SELECT count(*) FROM run JOIN block_use ON allocation >= first_event AND"
                               " allocation < first_event + event_count WHERE run.id = %d";
    leave_killed_run(5, 20000);
    open_and_close();
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "interrupted");
    fixture_record(path, 5, 20000);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE run = 1", tables[i]);
        int64_t rows = sql_integer(path, sql);
        assert_true(rows > 0);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE run = 2", tables[i]);
        assert_int_equal(sql_integer(path, sql), rows);
    }
    char sql[200];
    snprintf(sql, sizeof sql, uses, 1);
    int64_t blocks = sql_integer(path, sql);
    snprintf(sql, sizeof sql, uses, 2);
    assert_true(blocks > 0);
    assert_int_equal(sql_integer(path, sql), blocks);
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM summary_peak a JOIN summary_peak b USING (step, measure,"
                                       " bytes) WHERE a.run = 1 AND b.run = 2 AND b.event = a.event + 20000"),
                     sql_integer(path, "SELECT count(*) FROM summary_peak WHERE run = 1"));
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM summary_allocation a JOIN summary_allocation b USING"
                                       " (requested_bytes, label, count) WHERE a.run = 1 AND b.run = 2"),
                     sql_integer(path, "SELECT count(*) FROM summary_allocation WHERE run = 1"));
    assert_int_equal(sql_integer(path,
                                 "SELECT count(*) FROM summary_category a JOIN summary_category b USING (step,"
                                 " phase, category, count, total_bytes, max_bytes) WHERE a.run = 1 AND b.run = 2"),
                     sql_integer(path, "SELECT count(*) FROM summary_category WHERE run = 1"));
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM summary_peak_category a JOIN summary_peak_category b USING"
                                       " (step, measure, category, allocated_bytes, requested_bytes, blocks)"
                                       " WHERE a.run = 1 AND b.run = 2"),
                     sql_integer(path, "SELECT count(*) FROM summary_peak_category WHERE run = 1"));
    assert_int_equal(sql_integer(path, "SELECT count(DISTINCT category) FROM summary_category"), MT_CATEGORY_COUNT + 5);
}

static void a_new_run_recovers_the_one_before(void **state)
{
    (void)state;
    leave_killed_run(6, 5000);
    fixture_record(path, 7, 3000);
    assert_int_equal(fixture_check_run(path, 1, 6), 5000);
    assert_int_equal(fixture_check_run(path, 2, 7), 3000);
    check_whole();
}

/* Records, and starts a child that lives as long as `reading` has a writer. */
static void record_beside_a_child(int reading, int writing)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(8, mt_recorder_sink(recorder));
    char nothing;
    script_emit(&script, 5000);
    if (fork() == 0) {
        mt_recorder_disown(recorder);
        atomic_store(emitted, 5000);
        close(writing);
        ssize_t got = read(reading, &nothing, 1);
        _exit((int)got);
    }
    for (;;)
        pause();
}

/* A forked child has the ring's file and mapping, and their lock, too. */
static void a_child_that_disowns_a_run_does_not_keep_it_alive(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    atomic_store(emitted, 0);
    pid_t child = fork();
    if (child == 0)
        record_beside_a_child(ends[0], ends[1]);
    wait_for_events(5000);
    kill_child(child);
    open_and_close();
    check_whole();
    assert_int_equal(fixture_check_run(path, 1, 8), 5000);
    close(ends[1]);
    close(ends[0]);
}

/* The child: stores caveats, a setting and the reason of its end, and waits to be killed before the writer needs to
 * store them. */
static void record_caveats(void)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(9, mt_recorder_sink(recorder));
    const struct mt_caveat earlier = {MT_CAVEAT_UNKNOWN, "aten::x", "train.py", 4, 1, -1, 100, NAN},
                           later = {MT_CAVEAT_UNKNOWN, "aten::x", "train.py", 4, 3, -1, 300, NAN},
                           assumed = {MT_CAVEAT_ASSUMED, "item", "", 0, 2, -1, -1, 1.5};
    mt_recorder_caveat(recorder, &earlier);
    script_emit(&script, 100);
    mt_recorder_flush(recorder);
    mt_recorder_caveat(recorder, &later);
    mt_recorder_caveat(recorder, &assumed);
    mt_recorder_set(recorder, &(struct mt_run_setting){.name = "stream 2", .value = "private pool (1, 0)"});
    mt_recorder_ended_by(recorder, MT_ENDED_BY_TIME_LIMIT);
    atomic_store(emitted, 100);
    for (;;)
        pause();
}

static void caveats_and_settings_survive_sigkill(void **state)
{
    (void)state;
    atomic_store(emitted, 0);
    pid_t child = fork();
    if (child == 0)
        record_caveats();
    wait_for_events(100);
    kill_child(child);
    open_and_close();
    check_whole();
    assert_string_equal(sql_text(path, "SELECT ended_by FROM run"), "time limit");
    assert_string_equal(sql_text(path, "SELECT value FROM setting WHERE name = 'stream 2'"), "private pool (1, 0)");
    assert_string_equal(
        sql_text(
            path,
            "SELECT group_concat(run || '|' || kind || '|' || name || '|' || file || '|' || line || '|' || "
            "ifnull(count, '')"
            " || '|' || ifnull(total, '') || '|' || ifnull(bytes, '') || '|' || ifnull(value, ''), ' ') FROM caveat"),
        "1|assumed|item||0|2|||1.5 1|unknown|aten::x|train.py|4|3||300|");
}

static void recovering_twice_is_harmless(void **state)
{
    (void)state;
    leave_killed_run(9, 5000);
    open_and_close();
    char *peak = strdup(sql_text(path, "SELECT group_concat(bytes) FROM summary_peak"));
    open_and_close();
    open_and_close();
    assert_int_equal(fixture_check_run(path, 1, 9), 5000);
    assert_string_equal(peak, sql_text(path, "SELECT group_concat(bytes) FROM summary_peak"));
    free(peak);
}

static void copy_file(const char *from, const char *to)
{
    char command[3 * FIXTURE_PATH_BYTES];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

/* As if the recovering process had been killed after its commit and before removing the ring. */
static void a_ring_that_stayed_after_its_recovery_is_not_stored_again(void **state)
{
    (void)state;
    char ring[FIXTURE_PATH_BYTES + 8], kept[FIXTURE_PATH_BYTES + 8];
    snprintf(ring, sizeof ring, "%s-ring", path);
    leave_killed_run(10, 5000);
    snprintf(kept, sizeof kept, "%s-kept", path);
    copy_file(ring, kept);
    open_and_close();
    assert_int_equal(rename(kept, ring), 0);
    open_and_close();
    fixture_record(path, 11, 1000);
    assert_int_equal(fixture_check_run(path, 1, 10), 5000);
    assert_int_equal(fixture_check_run(path, 2, 11), 1000);
    check_whole();
}

static void a_ring_beside_another_trace_is_not_taken_for_its(void **state)
{
    (void)state;
    leave_killed_run(12, 5000);
    char journal[FIXTURE_PATH_BYTES + 8];
    snprintf(journal, sizeof journal, "%s-wal", path);
    unlink(path);
    unlink(journal);
    fixture_record(path, 13, 1000);
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM run"), 1);
    assert_int_equal(fixture_check_run(path, 1, 13), 1000);
}

static void recovery_survives_being_killed(void **state)
{
    (void)state;
    leave_killed_run(14, 200000);
    for (uint64_t i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            open_and_close();
            _exit(0);
        }
        sleep_us(2000 * i);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    open_and_close();
    assert_int_equal(fixture_check_run(path, 1, 14), 200000);
    check_whole();
}

/* In a child that can't map the ring: returns the outcome of opening for reading, or for writing. */
static int open_without_address_space(bool reads)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    int count = file != NULL ? fscanf(file, "%lu", &pages) : 0;
    struct rlimit limit = {(pages + 8000) * 4096, RLIM_INFINITY};
    if (file != NULL)
        fclose(file);
    if (count != 1 || setrlimit(RLIMIT_AS, &limit) != 0)
        return 99;
    struct mt_database *reader;
    struct mt_recorder *recorder;
    const struct mt_run_info info = fixture_info(SMALL_RING);
    return reads ? mt_store_open_reading(path, &reader) : mt_recorder_open(path, &info, &recorder);
}

/* An unreadable ring is not removed. */
static void a_ring_that_cannot_be_mapped_stays(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* which takes address space without end */
#endif
    leave_killed_run(31, 20000);
    for (int reads = 0; reads < 2; reads++) {
        int how;
        pid_t child = fork();
        if (child == 0)
            _exit(open_without_address_space(reads != 0));
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), reads ? MT_FAILED : MT_NOT_WRITTEN);
    }
    open_and_close();
    assert_int_equal(fixture_check_run(path, 1, 31), 20000);
}

static void a_live_run_is_left_alone(void **state)
{
    (void)state;
    pid_t child = start_child(15, 0, 5000);
    struct mt_database *reader;
    wait_for_events(5000);
    assert_int_equal(mt_store_open_reading(path, &reader), MT_OK);
    mt_database_close(reader);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "running");
    assert_true(fixture_exists(path, "-ring"));
    kill_child(child);
    open_and_close();
    assert_int_equal(fixture_check_run(path, 1, 15), 5000);
}

/* In a forked child: becomes a user without write permission, opens the trace, and counts its content. */
static int count_as_nobody(uint64_t expected)
{
    struct mt_database *reader;
    int64_t events, ended;
    if (getuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return 2;
    if (mt_store_open_reading(path, &reader) != MT_OK) {
        fprintf(stderr, "%s\n", mt_last_error());
        return 3;
    }
    mt_status status = mt_database_integer(reader, "SELECT count(*) FROM event", &events);
    status = mt_status_keep(status,
                            mt_database_integer(reader, "SELECT count(*) FROM run WHERE state <> 'running'", &ended));
    mt_database_close(reader);
    return status == MT_OK && events == (int64_t)expected && ended == 1 ? 0 : 4;
}

static void folder_mode(mode_t mode)
{
    char folder[FIXTURE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(chmod(folder, mode), 0);
}

static void check_in_read_only_folder(uint64_t expected)
{
    int how;
    folder_mode(0555);
    pid_t child = fork();
    if (child == 0)
        _exit(count_as_nobody(expected));
    waitpid(child, &how, 0);
    folder_mode(0755);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static void a_killed_run_is_whole_in_a_folder_that_cannot_be_written(void **state)
{
    (void)state;
    leave_killed_run(16, 20000);
    check_in_read_only_folder(20000);
    assert_true(fixture_exists(path, "-ring"));
    open_and_close();
    assert_int_equal(fixture_check_run(path, 1, 16), 20000);
}

static void a_closed_run_is_read_in_a_folder_that_cannot_be_written(void **state)
{
    (void)state;
    fixture_record(path, 17, 3000);
    check_in_read_only_folder(3000);
}

/* Between its runs and in one that is not the first. */
static void a_recorder_that_dies_after_its_first_run_leaves_that_as_it_ended(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 500};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        atomic_store(emitted, 0);
        pid_t child = fork();
        if (child == 0)
            end_a_run_and_record(counts[i]);
        wait_for_events(1000 + counts[i]);
        kill_child(child);
        open_and_close();
        check_whole();
        assert_string_equal(sql_text(path, "SELECT state FROM run WHERE id = 1"), "done");
        assert_int_equal(fixture_check_run(path, 1, 1), 1000);
        assert_int_equal(sql_integer(path, "SELECT count(*) FROM run"), counts[i] == 0 ? 1 : 2);
        if (counts[i] > 0)
            assert_int_equal(fixture_check_run(path, 2, 2), counts[i]);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_emitted_event_survives_sigkill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_recovered_run_has_the_tables_of_a_closed_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_run_recovers_the_one_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_child_that_disowns_a_run_does_not_keep_it_alive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(caveats_and_settings_survive_sigkill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recovering_twice_is_harmless, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_that_stayed_after_its_recovery_is_not_stored_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_beside_another_trace_is_not_taken_for_its, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recovery_survives_being_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_recorder_that_dies_after_its_first_run_leaves_that_as_it_ended, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_ring_that_cannot_be_mapped_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_live_run_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_killed_run_is_whole_in_a_folder_that_cannot_be_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_closed_run_is_read_in_a_folder_that_cannot_be_written, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
