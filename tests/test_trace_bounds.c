/* Bounds of one question to a trace. A page of a small file may name the same child again and again, and then a few
 * pages have billions of rows. No command waits for them, and none takes the memory that they would. */
#include "program.h"
#include "trace_edit.h"

#include "base/clock.h"
#include "trace/store/bounds.h"
#include "trace/store/database.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* SQLite's pages of a trace, and the tree that is built of them. A key is above all that the trace has. */
enum { PAGE_BYTES = 16384, END_BYTES = 16, HEADER_BYTES = 12, CELL_BYTES = 5, COUNTER_AT = 24, KEY = 127, LEVELS = 3 };
enum { CELLS = (PAGE_BYTES - END_BYTES - HEADER_BYTES) / (CELL_BYTES + 2) };
enum { TABLE_INTERIOR = 5, TABLE_LEAF = 13 };

enum { MOST_SECONDS = 30, MOST_BYTES = 1 << 30 };

static int set_up(void **state)
{
    *state = enter_folder("bounds");
    const struct said *said =
        MEMTRACE("run --device sim:h100 --model small --layers 1 --batch 1 --seq 64 --steps 1 --trace trace.db");
    if (said->code != 0)
        fail_msg("%s", said->err);
    return 0;
}

static void put(unsigned char *place, int bytes, uint32_t value)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8)
        place[i] = (unsigned char)value;
}

static void read_page(int file, uint32_t number, unsigned char *page)
{
    assert_int_equal(pread(file, page, PAGE_BYTES, (off_t)(number - 1) * PAGE_BYTES), PAGE_BYTES);
}

static void write_page(int file, uint32_t number, const unsigned char *page)
{
    assert_int_equal(pwrite(file, page, PAGE_BYTES, (off_t)(number - 1) * PAGE_BYTES), PAGE_BYTES);
}

/* Writes an inner page of a table's tree, all of whose children are the same. */
static void write_repeating(int file, uint32_t number, uint32_t child)
{
    unsigned char page[PAGE_BYTES] = {TABLE_INTERIOR};
    const int content = PAGE_BYTES - END_BYTES - CELLS * CELL_BYTES;
    put(page + 3, 2, CELLS);
    put(page + 5, 2, (uint32_t)content);
    put(page + 8, 4, child);
    for (int i = 0; i < CELLS; i++) {
        put(page + HEADER_BYTES + 2 * i, 2, (uint32_t)(content + i * CELL_BYTES));
        put(page + content + i * CELL_BYTES, 4, child);
        page[content + i * CELL_BYTES + 4] = KEY;
    }
    write_page(file, number, page);
}

/* Returns the page where a table's tree begins. */
static uint32_t root_of(const char *trace, const char *table)
{
    sqlite3 *database;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(trace, &database), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(database, "SELECT rootpage FROM sqlite_schema WHERE name = ?", -1, &statement, NULL),
        SQLITE_OK);
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const uint32_t root = (uint32_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return root;
}

/* Says that another program has written, so that no checksum is compared. */
static void change_counter(int file)
{
    unsigned char page[PAGE_BYTES];
    read_page(file, 1, page);
    page[COUNTER_AT + 3] ^= 0x55;
    write_page(file, 1, page);
}

/* Has the table's rows repeated some 10^10 times. */
static void repeat_rows(const char *trace, const char *table)
{
    struct stat about;
    unsigned char page[PAGE_BYTES];
    const uint32_t root = root_of(trace, table);
    int file = open(trace, O_RDWR | O_CLOEXEC);
    assert_int_equal(fstat(file, &about), 0);
    uint32_t last = (uint32_t)(about.st_size / PAGE_BYTES), leaf = root;
    read_page(file, root, page);
    while (page[0] == TABLE_INTERIOR) {
        leaf = (uint32_t)page[8] << 24 | (uint32_t)page[9] << 16 | (uint32_t)page[10] << 8 | page[11];
        read_page(file, leaf, page);
    }
    assert_int_equal(page[0], TABLE_LEAF);
    write_page(file, ++last, page);
    for (int i = 0; i < LEVELS; i++, last++)
        write_repeating(file, i + 1 < LEVELS ? last + 1 : root, last);
    change_counter(file);
    close(file);
}

/* Has the first two rows of a small table change places. Whoever asks for the row behind the second gets the first. */
static void swap_rows(const char *trace, const char *table)
{
    unsigned char page[PAGE_BYTES];
    const uint32_t root = root_of(trace, table);
    int file = open(trace, O_RDWR | O_CLOEXEC);
    read_page(file, root, page);
    assert_int_equal(page[0], TABLE_LEAF);
    const unsigned char first[2] = {page[8], page[9]};
    memmove(page + 8, page + 10, 2);
    memcpy(page + 10, first, 2);
    write_page(file, root, page);
    change_counter(file);
    close(file);
}

static void rows_that_repeat_are_not_waited_for(void **state)
{
    (void)state;
    static const char *const commands[] = {"peak", "export --format csv -o rows.csv"};
    repeat_rows("trace.db", "event");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const uint64_t begin = mt_clock_ns();
        const struct said *said = shell("\"$M\" %s --trace trace.db", commands[i]);
        assert_int_equal(said->code, 3);
        assert_says(said->err, "more than a file of 560.00 KiB needs; memtrace verify says more");
        assert_in_range(mt_clock_since_ns(begin), 0, UINT64_C(1000000000) * MOST_SECONDS);
    }
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    assert_in_range(usage.ru_maxrss, 1, MOST_BYTES / 1024);
}

static void verify_tells_of_rows_that_repeat(void **state)
{
    (void)state;
    repeat_rows("trace.db", "block_use");
    const struct said *said = MEMTRACE("verify --trace trace.db");
    assert_int_equal(said->code, 3);
    assert_says(said->out, "SQLite's integrity check: ");
}

/* One row after another is asked for, by its number. */
static void runs_in_a_ring_are_not_followed(void **state)
{
    (void)state;
    MEMTRACE("run --device sim:h100 --model small --layers 1 --batch 1 --seq 64 --steps 1 --trace trace.db");
    shell("cp trace.db running.db");
    swap_rows("trace.db", "run");
    const struct said *said = shell("timeout 20 \"$M\" verify --trace trace.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err, "its runs are not in their order");
    edit_trace("running.db", "UPDATE run SET state = 'running'");
    swap_rows("running.db", "run");
    said = shell("timeout 20 \"$M\" runs --trace running.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err, "its runs are not in their order");
}

/* Runs a statement of ours to its end, or that of its bounds. */
static mt_status run_to_its_end(struct mt_database *database, const char *sql)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, database, sql, MT_BIND_INTEGER(0))
        assert_int_equal(mt_statement_columns(row), 1);
    return status;
}

static void rows_and_memory_have_bounds(void **state)
{
    (void)state;
#define NUMBERS "WITH RECURSIVE numbers (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM numbers) "
    static const struct {
        const char *sql, *says;
    } cases[] = {
        {NUMBERS "SELECT i FROM numbers", " rows, more than a file of "},
        {NUMBERS "SELECT i FROM numbers ORDER BY -i, hex(randomblob(2000))", " of memory, more than a file of "},
        {NUMBERS "SELECT sum(i) FROM numbers", " s, more than a file of "},
    };
    struct mt_database *database;
    mt_bounds_count_memory();
    assert_int_equal(mt_database_open_reading("trace.db", &database), MT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(run_to_its_end(database, cases[i].sql), MT_BAD_TRACE);
        assert_says(mt_last_error(), cases[i].says);
        assert_int_equal(run_to_its_end(database, "SELECT count(*) FROM event WHERE id > ?1"), MT_OK);
    }
    mt_database_close(database);
}

static void what_a_user_asks_has_no_bounds(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("sql --trace trace.db --csv 'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
                                       " SELECT i + 1 FROM n LIMIT 1500000) SELECT i FROM n' | tail -1");
    assert_string_equal(said->err, "");
    assert_string_equal(said->out, "1500000\n");
    said = MEMTRACE("sql --trace trace.db 'SELECT length(hex(zeroblob(20000000))) AS digits'");
    assert_string_equal(said->err, "");
    assert_says(said->out, "40000000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_that_repeat_are_not_waited_for, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(verify_tells_of_rows_that_repeat, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(runs_in_a_ring_are_not_followed, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(rows_and_memory_have_bounds, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(what_a_user_asks_has_no_bounds, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
