/* What can go wrong with a trace's file or disk ends in a sentence, and harms no earlier run. */
#include "recorder_fixture.h"

#include "trace/database.h"
#include "trace/ring.h"
#include "trace/store.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char path[FIXTURE_PATH_BYTES];

static int set_up(void **state)
{
    (void)state;
    fixture_path(path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_remove(path);
    return 0;
}

static mt_status open_for_writing(void)
{
    const struct mt_run_info info = {.device = "sim", .capacity_bytes = 1};
    struct mt_recorder *recorder;
    mt_status status = mt_recorder_open(path, &info, &recorder);
    mt_recorder_close(recorder, MT_RUN_DONE);
    return status;
}

static mt_status open_for_reading(void)
{
    struct mt_database *reader;
    mt_status status = mt_store_open_reading(path, &reader);
    mt_database_close(reader);
    return status;
}

static void check_error_says(const char *words)
{
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", mt_last_error(), words);
}

static void write_file_at(const char *name, const char *content, size_t bytes)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_file(const char *content, size_t bytes)
{
    write_file_at(path, content, bytes);
}

static char *read_file_at(const char *name, size_t *bytes)
{
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    char *content = NULL;
    FILE *copy = open_memstream(&content, bytes);
    for (int byte; (byte = getc(file)) != EOF;)
        putc(byte, copy);
    fclose(copy);
    fclose(file);
    return content;
}

static char *read_file(size_t *bytes)
{
    return read_file_at(path, bytes);
}

/* The trace's path with `ending` in place of ".db". */
static const char *beside(const char *ending)
{
    static char name[FIXTURE_PATH_BYTES + 16];
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(path) - strlen(".db")), path, ending);
    return name;
}

static void check_ring_file_is(const char *content, size_t bytes)
{
    size_t bytes_after;
    char *after = read_file_at(beside(".db-ring"), &bytes_after);
    assert_int_equal(bytes_after, bytes);
    assert_memory_equal(after, content, bytes);
    free(after);
}

/* Neither a reader nor a writer takes the file for a trace, and it stays as it is. */
static void check_refused(const char *words)
{
    size_t bytes, bytes_after;
    char *before = read_file(&bytes);
    assert_int_equal(open_for_reading(), MT_BAD_TRACE);
    check_error_says(words);
    assert_int_equal(open_for_writing(), MT_BAD_TRACE);
    check_error_says(words);
    char *after = read_file(&bytes_after);
    assert_int_equal(bytes, bytes_after);
    assert_memory_equal(before, after, bytes);
    assert_false(fixture_exists(path, "-ring"));
    free(before);
    free(after);
}

static void make_database(const char *sql)
{
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}

static void text_is_not_a_trace(void **state)
{
    (void)state;
    const char text[] = "once upon a time there was a file that was no database, and it was long enough to look at: "
                        "more than a hundred bytes, the size of SQLite's header.\n";
    write_file(text, sizeof text - 1);
    check_refused("not a trace");
    write_file(text, 10);
    check_refused("not a trace");
}

static void the_database_of_another_program_is_not_a_trace(void **state)
{
    (void)state;
    make_database("CREATE TABLE run (id INTEGER PRIMARY KEY); PRAGMA application_id = 77");
    check_refused("another program");
}

static void a_newer_format_is_named(void **state)
{
    (void)state;
    fixture_record(path, 1, 100);
    make_database("PRAGMA user_version = 99");
    check_refused("newer memtrace (format 99");
}

static void a_trace_without_its_tables_is_damaged(void **state)
{
    (void)state;
    make_database("CREATE TABLE t (a); PRAGMA application_id = 1836348003; PRAGMA user_version = 1");
    check_refused("damaged");
}

static void every_table_is_missed(void **state)
{
    (void)state;
    static const char *const tables[] = {"run",
                                         "setting",
                                         "measurement",
                                         "span",
                                         "label",
                                         "event",
                                         "kernel",
                                         "kernel_name",
                                         "event_kind",
                                         "segment",
                                         "segment_part",
                                         "step",
                                         "checkpoint",
                                         "summary_peak",
                                         "summary_category",
                                         "summary_peak_category",
                                         "summary_allocation",
                                         "block_use"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char sql[100];
        fixture_record(path, 1, 100);
        snprintf(sql, sizeof sql, "DROP TABLE %s", tables[i]);
        make_database(sql);
        check_refused("is damaged (");
        check_error_says(tables[i]);
        unlink(path);
    }
}

static void a_trace_that_was_cut_short_is_damaged(void **state)
{
    (void)state;
    fixture_record(path, 1, 20000);
    size_t bytes;
    free(read_file(&bytes));
    assert_int_equal(truncate(path, (off_t)(bytes / 2)), 0);
    check_refused("cut short");
    assert_int_equal(truncate(path, 5000), 0);
    check_refused("cut short");
    assert_int_equal(truncate(path, 60), 0);
    check_refused("cut short");
}

/* Any byte of the file may be wrong: opening and reading end in a status, never in a signal. */
static void damaged_bytes_never_crash_a_reader(void **state)
{
    (void)state;
    size_t bytes;
    fixture_record(path, 1, 3000);
    char *whole = read_file(&bytes);
    for (uint64_t seed = 0; seed < 200; seed++) {
        char *damaged = malloc(bytes);
        memcpy(damaged, whole, bytes);
        for (uint64_t i = 0; i < 20; i++)
            damaged[mt_splitmix64(seed * 100 + i) % bytes] ^= (char)(1 + mt_splitmix64(seed * 100 + 50 + i) % 255);
        write_file(damaged, bytes);
        free(damaged);
        struct mt_database *reader;
        int64_t sum;
        if (mt_store_open_reading(path, &reader) == MT_OK) {
            mt_status status = mt_database_integer(reader, "SELECT sum(block_bytes) FROM event", &sum);
            assert_true(status == MT_OK || status == MT_BAD_TRACE || status == MT_USAGE);
        }
        mt_database_close(reader);
    }
    free(whole);
}

/* A trace of a run that is said to be running, with damage: recovery refuses or repairs, and does not crash. */
static void damaged_rows_never_crash_recovery(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE label SET category = 'nonsense' WHERE id = 1",
        "UPDATE label SET phase = NULL WHERE 0; UPDATE label SET phase = 7 WHERE id = 2",
        "UPDATE event SET kind = 99 WHERE id = 50",
        "UPDATE event SET kind = -1 WHERE id = 50",
        "UPDATE event SET allocation = -1 WHERE kind = 3",
        "UPDATE event SET segment = 4000000000, offset = -1",
        "UPDATE event SET label = 1 << 40",
        "DELETE FROM label",
        "DELETE FROM segment",
        "UPDATE event SET kind = 1 WHERE kind = 0 AND offset > 0",
        "UPDATE event SET offset = offset + 5, block_bytes = -7 WHERE kind = 0",
        "DELETE FROM event WHERE id % 3 = 0",
        "UPDATE segment SET address = -1; UPDATE event SET offset = 0",
        "UPDATE run SET first_event = -5, event_count = 1 << 40, ring_position = -3",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        fixture_record(path, 1, 6000);
        make_database(damages[i]);
        make_database("UPDATE run SET state = 'running'");
        mt_status status = open_for_reading();
        assert_true(status == MT_OK || status == MT_BAD_TRACE);
        unlink(path);
        fixture_remove(path);
        fixture_path(path);
    }
}

/* A run of a process that ended without closing it: most of its events are in the ring only. */
static void leave_ring(uint64_t seed)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        struct script script = script_begin(seed, mt_recorder_sink(fixture_open(path, 1 << 14)));
        script_emit(&script, 6000);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* As a process leaves the file that is killed while it writes without a WAL, as the last step of closing does. */
static void leave_half_a_transaction(void)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *handle;
        const char sql[] = "PRAGMA cache_size = 1; BEGIN; UPDATE event SET time_ns = -1";
        bool left =
            sqlite3_open(path, &handle) == SQLITE_OK && sqlite3_exec(handle, sql, NULL, NULL, NULL) == SQLITE_OK;
        _exit(left ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void half_a_transaction_is_undone(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture_record(path, 1, 6000);
        leave_half_a_transaction();
        assert_true(fixture_exists(path, "-journal"));
        write_file_at(beside(".db-ring"), "", 0);
        assert_int_equal(i == 0 ? open_for_reading() : open_for_writing(), MT_OK);
        assert_int_equal(fixture_check_run(path, 1, 1), 6000);
        unlink(path);
    }
}

/* The ways of damaging a record. Returns whether it did. */
static bool no_address(struct mt_event *record, uint64_t random)
{
    (void)random;
    record->address = record->kind == MT_EVENT_ALLOC ? UINT64_MAX : record->address;
    return record->kind == MT_EVENT_ALLOC;
}

static bool unknown_category(struct mt_event *record, uint64_t random)
{
    record->label |= (mt_label_id)(random % 8 == 0 ? 0xF8 : 0) << MT_LABEL_NUMBER_BITS;
    return random % 8 == 0;
}

static bool any_byte(struct mt_event *record, uint64_t random)
{
    if (random % 16 == 0)
        ((unsigned char *)record)[random / 16 % sizeof *record] ^= (unsigned char)(1 + random / 4096 % 255);
    return random % 16 == 0;
}

static void damage_ring(uint64_t seed, bool (*damage)(struct mt_event *record, uint64_t random))
{
    struct mt_event record;
    uint64_t damaged = 0;
    FILE *file = fopen(beside(".db-ring"), "r+");
    assert_non_null(file);
    for (long i = 0; i < 6000; i++) {
        long at = 4096 + i * (long)sizeof record;
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fread(&record, sizeof record, 1, file), 1);
        damaged += damage(&record, mt_splitmix64(seed * 10007 + (uint64_t)i));
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fwrite(&record, sizeof record, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
    assert_true(damaged > 100);
}

static void damaged_records_never_crash_recovery(void **state)
{
    (void)state;
    bool (*const damages[])(struct mt_event *, uint64_t) = {no_address, unknown_category, any_byte, any_byte, any_byte};
    for (uint64_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        leave_ring(i);
        damage_ring(i, damages[i]);
        mt_status status = open_for_reading();
        assert_true(status == MT_OK || (status == MT_FAILED && damages[i] == any_byte));
        fixture_remove(path);
        fixture_path(path);
    }
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
    assert_int_equal(open_for_writing(), MT_FAILED);
    check_error_says("can't write beside");
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
        assert_int_equal(open_for_writing(), MT_FAILED);
        check_error_says("is in the way");
        check_ring_file_is(content, bytes);
    }
    unlink(beside(".db-ring"));
    assert_int_equal(mkdir(beside(".db-ring"), 0755), 0);
    assert_int_equal(open_for_reading(), MT_FAILED);
    check_error_says("is in the way");
    assert_int_equal(open_for_writing(), MT_FAILED);
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
    assert_int_equal(open_for_writing(), MT_FAILED);
    check_error_says("being written by process");
    unlink(path);
    assert_int_equal(symlink("no.db", path), 0);
    assert_int_equal(open_for_writing(), MT_FAILED);
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
    assert_int_equal(open_for_writing(), MT_FAILED);
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
    snprintf(path, sizeof path, "%s", kept);
}

static void a_second_writer_is_told_the_pid_of_the_first(void **state)
{
    (void)state;
    char words[64];
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(4, mt_recorder_sink(recorder));
    script_emit(&script, 5000);
    assert_int_equal(open_for_writing(), MT_FAILED);
    snprintf(words, sizeof words, "being written by process %d", (int)getpid());
    check_error_says(words);
    script_emit(&script, 5000);
    fixture_close(recorder, MT_RUN_DONE);
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM run"), 1);
    assert_int_equal(fixture_check_run(path, 1, 4), 10000);
}

/* In a child: no file may grow past `bytes`, as if the disk ended there. Returns the close's status as exit code. */
static void record_under_limit(uint64_t bytes, uint64_t ring_records, uint64_t count, const char *words)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {bytes, bytes};
        const struct mt_run_info info = {.device = "sim", .capacity_bytes = 1, .ring_records = ring_records};
        struct mt_recorder *recorder;
        signal(SIGXFSZ, SIG_IGN);
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
    assert_int_equal(WEXITSTATUS(how), MT_FAILED);
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

/* The same with a disk that is really full, where this process may mount one. */
static void a_full_disk_is_survived(void **state)
{
    (void)state;
    char folder[FIXTURE_PATH_BYTES];
    if (mount("none", folder_of_path(folder), "tmpfs", 0, "size=2m") != 0) {
        print_message("no permission to mount a small disk\n");
        skip();
    }
    record_small_run(1, 1000, MT_OK);
    assert_int_equal(open_for_writing(), MT_FAILED); /* its ring is larger than the disk */
    check_error_says("can't allocate");
    record_small_run(2, 200000, MT_FAILED);
    check_error_says("events were lost");
    assert_int_equal(mount("none", folder, NULL, MS_REMOUNT, "size=64m"), 0);
    assert_int_equal(open_for_reading(), MT_OK);
    assert_int_equal(fixture_check_run(path, 1, 1), 1000);
    uint64_t stored = fixture_check_run(path, 2, 2);
    assert_int_equal(stored + (uint64_t)sql_integer(path, "SELECT lost_events FROM run WHERE id = 2"), 200000);
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
    assert_int_equal(WEXITSTATUS(how), MT_FAILED);
    assert_int_equal(fixture_check_run(path, 1, 1), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_not_a_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_database_of_another_program_is_not_a_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_newer_format_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_without_its_tables_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_table_is_missed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_that_was_cut_short_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_bytes_never_crash_a_reader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_rows_never_crash_recovery, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_transaction_is_undone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_records_never_crash_recovery, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_absent_file_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_file_becomes_a_trace_but_is_none_yet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_lies_where_the_ring_would_be_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_lies_beside_a_file_that_is_no_trace_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_live_run_is_found_through_a_symbolic_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_two_names_is_read_and_not_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_is_taken_literally, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_regular_file_is_no_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_writer_is_told_the_pid_of_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_that_does_not_fit_the_disk_is_an_error_at_the_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_disk_that_fills_up_ends_the_run_with_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_survived, set_up, unmount_and_tear_down),
        cmocka_unit_test_setup_teardown(a_file_without_write_permission_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
