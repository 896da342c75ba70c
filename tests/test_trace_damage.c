/* A file that is no trace, or a damaged one, ends in an error message. It crashes neither readers nor recovery. */
#include "recorder_fixture.h"
#include "trace_file_fixture.h"

#include "trace/store/record.h"

#include <signal.h>
#include <sys/wait.h>

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

/* What a file of others may have in the place of a table, or beside it. */
static void tables_that_are_not_a_trace_s_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *says;
    } cases[] = {
        {"ALTER TABLE setting DROP COLUMN value; ALTER TABLE setting ADD COLUMN value TEXT AS (hex(zeroblob(100000)))",
         "it computes setting.value"},
        {"CREATE TABLE copy AS SELECT * FROM summary_peak; DROP TABLE summary_peak; ALTER TABLE copy RENAME TO "
         "summary_peak",
         "it has another"},
        {"DROP TABLE setting; CREATE VIRTUAL TABLE setting USING dbstat", "it has no setting."},
        {"DROP TABLE setting; CREATE VIEW setting AS SELECT 1 AS run, 'a' AS name, 'b' AS value", "it has no setting."},
        {"CREATE TRIGGER kept AFTER UPDATE ON run BEGIN DELETE FROM event; END", "has a trigger"},
        {"ALTER TABLE measurement RENAME COLUMN value TO number", "it has no measurement.value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_record(path, 1, 100);
        make_database(cases[i].sql);
        assert_int_equal(open_for_reading(), MT_BAD_TRACE);
        check_error_says(cases[i].says);
        assert_int_equal(open_for_writing(), MT_BAD_TRACE);
        fixture_remove(path);
        fixture_path(path);
    }
}

static void what_users_add_to_a_trace_is_left_alone(void **state)
{
    (void)state;
    fixture_record(path, 1, 100);
    make_database(
        "CREATE TABLE notes (run, words); INSERT INTO notes VALUES (1, 'mine'); CREATE INDEX mine ON event (time_ns);"
        "CREATE VIEW large AS SELECT * FROM event WHERE block_bytes > 1000; ALTER TABLE run ADD COLUMN owner");
    assert_int_equal(open_for_reading(), MT_OK);
    assert_int_equal(fixture_check_run(path, 1, 1), 100);
    assert_string_equal(sql_text(path, "SELECT words FROM notes"), "mine");
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
        "UPDATE run SET first_event = 9223372036854775807",
        "INSERT INTO kernel SELECT id, 9223372036854775807, 0, 0, 1, NULL, NULL, 0 FROM run",
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

/* A file may refuse a change without a word, which is not waited for. */
static void a_run_that_refuses_to_end_is_not_waited_for(void **state)
{
    (void)state;
    fixture_record(path, 1, 100);
    make_database("UPDATE run SET state = 'running'; CREATE UNIQUE INDEX one_of_a_kind ON run (state)");
    assert_int_equal(open_for_reading(), MT_OK);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "interrupted");
    unlink(path);
    fixture_record(path, 1, 100);
    fixture_record(path, 2, 100);
    const char *table =
        sql_text(path, "SELECT replace(sql, 'state TEXT NOT NULL',"
                       " 'state TEXT NOT NULL UNIQUE ON CONFLICT IGNORE') FROM sqlite_schema WHERE name = 'run'");
    make_database(
        "UPDATE run SET state = iif(id = 1, 'interrupted', 'running'); CREATE TABLE copy AS SELECT * FROM run;"
        "DROP TABLE run");
    make_database(table);
    make_database("INSERT INTO run SELECT * FROM copy");
    assert_int_equal(open_for_reading(), MT_OK);
    assert_string_equal(sql_text(path, "SELECT state FROM run WHERE id = 2"), "running");
}

/* Leaves a run of a process that was killed. Most of its events are in the ring only. Leaving by _exit() would take a
 * second under ThreadSanitizer, and the writer would store them all meanwhile. */
static void leave_ring(uint64_t seed)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        struct script script = script_begin(seed, mt_recorder_sink(fixture_open(path, 1 << 15)));
        script_emit(&script, 6000);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
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

/* The ring that a dead process left, in memory. */
struct leftover {
    char *bytes;
    size_t size;
    union mt_record *records;
    uint64_t stored, count; /* positions below which records are committed, and published */
};

static struct leftover read_leftover(void)
{
    struct leftover ring;
    ring.bytes = read_file_at(beside(".db-ring"), &ring.size);
    ring.records = (union mt_record *)(void *)(ring.bytes + 4096);
    struct mt_ring_header *header = (struct mt_ring_header *)(void *)ring.bytes;
    ring.stored = atomic_load(&header->tail);
    ring.count = atomic_load(&header->head);
    assert_in_range(ring.count, 6000, (ring.size - 4096) / sizeof *ring.records);
    return ring;
}

/* As leave_ring(). Returns the ring, whose `stored` is the trace's: the process may have been killed between a commit
 * and the word of it in the ring. */
static struct leftover leave_and_read_ring(uint64_t seed)
{
    leave_ring(seed);
    struct leftover ring = read_leftover();
    ring.stored = (uint64_t)sql_integer(path, "SELECT ring_position FROM run");
    return ring;
}

/* Leaves a ring of which most is not stored yet: the writer of the process may have been fast. */
static struct leftover leave_full_ring(uint64_t seed)
{
    struct leftover ring = leave_and_read_ring(seed);
    for (int tries = 1; ring.stored > ring.count / 2; tries++) {
        assert_true(tries < 100);
        free(ring.bytes);
        fixture_remove(path);
        fixture_path(path);
        ring = leave_and_read_ring(seed);
    }
    return ring;
}

static void write_leftover(struct leftover *ring)
{
    write_file_at(beside(".db-ring"), ring->bytes, ring->size);
    free(ring->bytes);
}

/* The ways of damaging an event. They return true if they did. */
static bool same_place(struct mt_event *event, uint64_t random)
{
    (void)random;
    event->offset = event->kind == MT_EVENT_ALLOC ? UINT64_MAX : event->offset;
    return event->kind == MT_EVENT_ALLOC;
}

static bool unknown_label(struct mt_event *event, uint64_t random)
{
    event->label |= random % 8 == 0 ? 0xFFF000u : 0;
    return random % 8 == 0;
}

static bool impossible_category(struct mt_event *event, uint64_t random)
{
    event->label |= random % 8 == 0 ? (mt_label_id)0xFF << MT_LABEL_NUMBER_BITS : 0;
    return random % 8 == 0;
}

static bool any_field(struct mt_event *event, uint64_t random)
{
    bool changes = random % 16 == 0;
    if (changes)
        ((unsigned char *)event)[random / 16 % offsetof(struct mt_event, label)] ^=
            (unsigned char)(1 + random / 4096 % 255);
    return changes;
}

static bool any_kind(struct mt_event *event, uint64_t random)
{
    event->kind = random % 16 == 0 ? (uint16_t)(random / 16 % MT_EVENT_KIND_COUNT) : event->kind;
    return random % 16 == 0;
}

/* Damages events as a faulty producer would, which gives them the right checksum. */
static void damage_events(uint64_t seed, bool (*damage)(struct mt_event *event, uint64_t random))
{
    struct leftover ring = read_leftover();
    uint64_t damaged = 0;
    for (uint64_t i = 0; i < ring.count; i++) {
        union mt_record *record = &ring.records[i];
        bool is_sound = record->event.checksum == mt_sum_at(record, i);
        if (!is_sound || record->event.kind >= MT_EVENT_KIND_COUNT)
            continue;
        damaged += damage(&record->event, mt_splitmix64(seed * 10007 + i));
        record->event.checksum = mt_sum_at(record, i);
    }
    assert_true(damaged > 100);
    write_leftover(&ring);
}

static void impossible_events_never_crash_recovery(void **state)
{
    (void)state;
    bool (*const damages[])(struct mt_event *, uint64_t) = {same_place, unknown_label, impossible_category,
                                                            any_field,  any_field,     any_kind};
    for (uint64_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        leave_ring(i);
        damage_events(i, damages[i]);
        mt_status status = open_for_reading();
        if (status != MT_OK)
            fail_msg("damage %d: status %d, %s", (int)i, status, mt_last_error());
        fixture_remove(path);
        fixture_path(path);
    }
}

/* Recovers the ring and checks the run: every stored event is as the script emitted it, and records from `damaged` on,
 * the first that was changed, are counted as missing. */
static void expect_end_at(uint64_t seed, uint64_t damaged, uint64_t count)
{
    mt_status status = open_for_reading();
    if (status != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "damaged");
    assert_true(fixture_exists(path, "-ring-damaged"));
    assert_int_equal(sql_integer(path, "SELECT ring_position + missing_records FROM run"), count);
    int64_t position = sql_integer(path, "SELECT ring_position FROM run");
    assert_true(position <= (int64_t)damaged && position + MT_RECORD_MOST_BYTES / 64 + 2 > (int64_t)damaged);
    assert_int_equal(fixture_check_run(path, 1, seed), sql_integer(path, "SELECT event_count FROM run"));
    fixture_remove(path);
    fixture_path(path);
}

/* As the machine leaves pages that it never wrote. */
static void a_page_of_zeros_ends_the_run_before_it(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct leftover ring = leave_full_ring(seed);
        uint64_t count = ring.count, first = (ring.stored + mt_splitmix64(seed) % (count - ring.stored)) / 64 * 64;
        first += first < ring.stored ? 64 : 0;
        memset(&ring.records[first], 0, 4096);
        write_leftover(&ring);
        expect_end_at(seed, first, count);
    }
}

/* As a page that was not written since the ring's last lap. */
static void records_of_another_position_end_the_run_before_them(void **state)
{
    (void)state;
    struct leftover ring = leave_full_ring(1);
    uint64_t count = ring.count, first = count - 3200;
    memcpy(&ring.records[first], &ring.records[64], 4096);
    write_leftover(&ring);
    expect_end_at(1, first, count);
}

static void a_changed_bit_ends_the_run_before_its_record(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct leftover ring = leave_full_ring(seed);
        uint64_t count = ring.count, bits = 64 * 8;
        uint64_t bit = ring.stored * bits + mt_splitmix64(seed * 77) % ((count - ring.stored) * bits);
        ring.bytes[4096 + bit / 8] ^= (char)(1 << bit % 8);
        write_leftover(&ring);
        expect_end_at(seed, bit / 8 / 64, count);
    }
}

/* Every record that is whole is stored, though nothing says how many there were. */
static void a_damaged_head_loses_no_record(void **state)
{
    (void)state;
    static const uint64_t changes[] = {UINT64_C(1) << 40, UINT64_C(1) << 63, 1};
    for (size_t i = 0; i < 3; i++) {
        struct leftover ring = leave_full_ring(i);
        struct mt_ring_header *header = (struct mt_ring_header *)(void *)ring.bytes;
        atomic_store(&header->head, i == 2 ? 1 : ring.count ^ changes[i]);
        const uint64_t count = ring.count;
        write_leftover(&ring);
        assert_int_equal(open_for_reading(), MT_OK);
        const bool is_damaged = strcmp(sql_text(path, "SELECT state FROM run"), "damaged") == 0;
        assert_true(is_damaged || i == 2); /* the head of an earlier moment is as good as any */
        assert_in_range(sql_integer(path, "SELECT ring_position FROM run"), count, count + 8);
        assert_int_equal(fixture_check_run(path, 1, i), sql_integer(path, "SELECT event_count FROM run"));
        assert_int_equal(fixture_exists(path, "-ring-damaged"), is_damaged);
        fixture_remove(path);
        fixture_path(path);
    }
}

static void a_ring_without_its_first_page_is_kept(void **state)
{
    (void)state;
    struct leftover ring = leave_full_ring(1);
    const int64_t stored = sql_integer(path, "SELECT event_count FROM run");
    memset(ring.bytes, 0, 4096);
    write_leftover(&ring);
    assert_int_equal(open_for_reading(), MT_OK);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "damaged");
    assert_int_equal(sql_integer(path, "SELECT event_count FROM run"), stored);
    assert_true(fixture_exists(path, "-ring-damaged"));
    assert_false(fixture_exists(path, "-ring"));
}

/* Leaves a ring without its first page, and has it recovered. Returns what it held. */
static struct leftover recover_lost_ring(uint64_t seed)
{
    leave_ring(seed);
    struct leftover ring = {.bytes = read_file_at(beside(".db-ring"), &ring.size)};
    memset(ring.bytes, 0, 4096);
    write_file_at(beside(".db-ring"), ring.bytes, ring.size);
    assert_int_equal(open_for_reading(), MT_OK);
    return ring;
}

/* Behind the header, which says who looked at it. */
static void check_kept(struct leftover *ring, const char *ending)
{
    size_t size;
    char *kept = read_file_at(beside(ending), &size);
    assert_int_equal(size, ring->size);
    assert_memory_equal(kept + 4096, ring->bytes + 4096, size - 4096);
    free(kept);
    free(ring->bytes);
}

static void each_damaged_ring_of_a_trace_is_kept(void **state)
{
    (void)state;
    struct leftover first = recover_lost_ring(1), second = recover_lost_ring(2);
    check_kept(&first, ".db-ring-damaged");
    check_kept(&second, ".db-ring-damaged-2");
}

/* A byte that changed within a row, which SQLite can't see. */
static void a_changed_row_of_a_run_that_was_left_is_found(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "UPDATE event SET block_bytes = block_bytes + 512 WHERE id = 777",
        "UPDATE event SET label = NULL WHERE id = (SELECT max(id) FROM event WHERE label IS NOT NULL)",
        "UPDATE event SET stack = ifnull(stack, 0) + 1 WHERE id = 1", "DELETE FROM event WHERE id = 999",
        "DELETE FROM event WHERE id = 3000"};
    for (size_t i = 0; i <= sizeof changes / sizeof changes[0]; i++) {
        fixture_record(path, 1, 3000);
        make_database("UPDATE run SET state = 'running'");
        assert_int_equal(sql_integer(path, "SELECT sum(event_count) FROM batch"), 3000);
        if (i < sizeof changes / sizeof changes[0]) {
            make_database(changes[i]);
            assert_int_equal(open_for_reading(), MT_BAD_TRACE);
            check_error_says("are not those that were stored");
        } else {
            assert_int_equal(open_for_reading(), MT_OK);
        }
        unlink(path);
        unlink(beside(".db-ring"));
    }
}

/* It would end the checks of all batches after it. */
static void a_batch_that_cannot_be_is_damage(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "UPDATE batch SET event_count = 0", "UPDATE batch SET event_count = -1",
        "UPDATE batch SET event_count = 1 << 62",
        "UPDATE batch SET first_event = -1 WHERE first_event = (SELECT max(first_event) FROM batch)"};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        fixture_record(path, 1, 3000);
        make_database("UPDATE run SET state = 'running'");
        make_database(changes[i]);
        assert_int_equal(open_for_reading(), MT_BAD_TRACE);
        check_error_says("has a batch of");
        unlink(path);
        unlink(beside(".db-ring"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_not_a_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_database_of_another_program_is_not_a_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_newer_format_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_without_its_tables_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_table_is_missed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tables_that_are_not_a_trace_s_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_users_add_to_a_trace_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_that_was_cut_short_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_bytes_never_crash_a_reader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_rows_never_crash_recovery, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_refuses_to_end_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_transaction_is_undone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_events_never_crash_recovery, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_of_zeros_ends_the_run_before_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_of_another_position_end_the_run_before_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_bit_ends_the_run_before_its_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_head_loses_no_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_without_its_first_page_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_damaged_ring_of_a_trace_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_row_of_a_run_that_was_left_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_batch_that_cannot_be_is_damage, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
