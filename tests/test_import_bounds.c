/* Small files that expand far: each would take minutes, or all memory, if a value were read anew at every reference
 * to it. */
#include "folder.h"
#include "plain_values.h"

#include "base/interner.h"
#include "producers/file/import.h"
#include "producers/file/pickle.h"
#include "producers/file/torch_labels.h"
#include "producers/file/torch_own.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
enum { MOST_SECONDS = 40 };
#else
enum { MOST_SECONDS = 5 };
#endif
enum { MOST_KIB = 1500 << 10, REFERENCES = 300000 };

/* Adds a text of a pickle. */
static void add_text(struct bytes *bytes, const char *text)
{
    bytes_add_byte(bytes, 'X', 1);
    bytes_add_number(bytes, strlen(text), 4);
    bytes_add_text(bytes, text);
}

static void add_integer(struct bytes *bytes, uint64_t number)
{
    bytes_add_text(bytes, "\x8a\x08");
    bytes_add_number(bytes, number, 8);
}

/* Adds a list of so many references to the value on the stack, and replaces it: two bytes each. */
static void add_references(struct bytes *bytes, int count)
{
    bytes_add(bytes, "q\0000](", 5);
    for (int i = 0; i < count; i++)
        bytes_add(bytes, "h\0", 2);
    bytes_add_text(bytes, "e");
}

/* Adds a text with a number, so that no two are equal. */
static void add_numbered_text(struct bytes *bytes, const char *text, int number)
{
    char name[64];
    snprintf(name, sizeof name, "%s%d", text, number);
    add_text(bytes, name);
}

static void begin(struct bytes *bytes)
{
    bytes_add_text(bytes, "\x80\x02}(");
}

/* Ends the snapshot, replays it by rules and as one of our own, and returns the status of reading. */
static mt_status finish(struct bytes *bytes)
{
    struct mt_value_limits limits = mt_value_limits_of(bytes->length, UINT64_MAX);
    struct mt_value_store *store = mt_value_store_create(&limits);
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_foreign *foreign = mt_foreign_create(&sink), *own_foreign = mt_foreign_create(&sink);
    struct mt_rules *rules = mt_rules_create();
    struct mt_torch_snapshot snapshot = {0};
    struct mt_torch_tally tally;
    struct mt_value root;
    bytes_add_text(bytes, "u.");
    assert_int_equal(mt_rules_add(rules, "mine", "annotation=*zy* -> op=x"), MT_OK);
    assert_int_equal(mt_rules_add_built_in(rules), MT_OK);
    assert_int_equal(mt_pickle_read(bytes->data, bytes->length, store, &root), MT_OK);
    mt_status status = mt_torch_snapshot_read(&root, MT_IMPORT_ANY_DEVICE, &snapshot);
    if (status == MT_OK) {
        struct mt_torch_labels *labels = mt_torch_labels_create(&snapshot, rules, &sink, foreign);
        struct mt_torch_own *own = mt_torch_own_create(&root, &snapshot, 0, &sink, own_foreign);
        const struct mt_torch_labeler by_rules = mt_torch_labels_labeler(labels), as_own = mt_torch_own_labeler(own);
        mt_torch_replay(&snapshot, &by_rules, foreign, &tally);
        mt_torch_labels_end(labels);
        mt_torch_replay(&snapshot, &as_own, own_foreign, &tally);
        mt_torch_own_end(own);
        mt_torch_own_destroy(own);
        mt_torch_labels_destroy(labels);
    }
    mt_torch_snapshot_release(&snapshot);
    mt_rules_destroy(rules);
    mt_foreign_destroy(own_foreign);
    mt_foreign_destroy(foreign);
    mt_interner_destroy(interner);
    mt_value_store_destroy(store);
    free(bytes->data);
    return status;
}

static void expect_frugal(clock_t since)
{
    struct rusage usage;
    assert_true(clock() - since < MOST_SECONDS * CLOCKS_PER_SEC);
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    assert_in_range(usage.ru_maxrss, 1, MOST_KIB);
}

static void add_event(struct bytes *bytes)
{
    add_text(bytes, "action"), add_text(bytes, "alloc");
    add_text(bytes, "addr"), add_integer(bytes, 4096);
    add_text(bytes, "size"), add_integer(bytes, 512);
}

/* Keys that are missing are looked up in all of them. */
static void keys_of_one_event_told_often(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    clock_t since = clock();
    begin(&bytes);
    add_text(&bytes, "segments"), bytes_add_text(&bytes, "]");
    add_text(&bytes, "device_traces"), bytes_add_text(&bytes, "]}(");
    add_event(&bytes);
    for (int i = 0; i < 20000; i++)
        bytes_add_text(&bytes, "J"), bytes_add_number(&bytes, (uint64_t)i, 4), bytes_add_text(&bytes, "N");
    bytes_add_text(&bytes, "u");
    add_references(&bytes, REFERENCES);
    bytes_add_text(&bytes, "a");
    assert_int_equal(finish(&bytes), MT_OK);
    expect_frugal(since);
}

/* Devices are compared by the number of their events. */
static void events_of_one_device_told_of_many(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    clock_t since = clock();
    begin(&bytes);
    add_text(&bytes, "segments"), bytes_add_text(&bytes, "]");
    add_text(&bytes, "device_traces"), bytes_add_text(&bytes, "}(");
    add_event(&bytes);
    bytes_add_text(&bytes, "u");
    add_references(&bytes, REFERENCES / 8);
    add_references(&bytes, REFERENCES);
    assert_int_equal(finish(&bytes), MT_OK);
    expect_frugal(since);
}

/* Rules search all annotations, for every event. */
static void events_within_many_annotations(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    clock_t since = clock();
    begin(&bytes);
    add_text(&bytes, "segments"), bytes_add_text(&bytes, "]");
    add_text(&bytes, "external_annotations"), bytes_add_text(&bytes, "](");
    for (int i = 0; i < 2000; i++) {
        bytes_add_text(&bytes, "}(");
        add_text(&bytes, "stage"), add_text(&bytes, "START");
        add_text(&bytes, "time_us"), add_integer(&bytes, 0);
        add_text(&bytes, "name"), bytes_add_byte(&bytes, 'X', 1), bytes_add_number(&bytes, i % 2 == 0 ? 250 : 2000, 4);
        bytes_add_byte(&bytes, 'z', i % 2 == 0 ? 250 : 2000);
        bytes_add_text(&bytes, "u");
    }
    bytes_add_text(&bytes, "e");
    add_text(&bytes, "device_traces"), bytes_add_text(&bytes, "]}(");
    add_event(&bytes);
    bytes_add_text(&bytes, "u");
    add_references(&bytes, REFERENCES / 8);
    bytes_add_text(&bytes, "a");
    assert_int_equal(finish(&bytes), MT_OK);
    expect_frugal(since);
}

static void names_of_one_span_told_often(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    clock_t since = clock();
    begin(&bytes);
    add_text(&bytes, "segments"), bytes_add_text(&bytes, "]");
    add_text(&bytes, "device_traces"), bytes_add_text(&bytes, "]]a");
    add_text(&bytes, "external_annotations"), bytes_add_text(&bytes, "}(");
    add_text(&bytes, "kind"), add_text(&bytes, "span_begin");
    add_text(&bytes, "spans"), bytes_add_text(&bytes, "](");
    for (int i = 0; i < 50000; i++)
        add_numbered_text(&bytes, "span", i);
    bytes_add_text(&bytes, "eu");
    add_references(&bytes, REFERENCES);
    assert_int_equal(finish(&bytes), MT_OK);
    expect_frugal(since);
}

/* The span of each has the names of all around it. */
static void a_stack_of_a_hundred_thousand_frames(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    clock_t since = clock();
    begin(&bytes);
    add_text(&bytes, "segments"), bytes_add_text(&bytes, "]");
    add_text(&bytes, "device_traces"), bytes_add_text(&bytes, "]]}(");
    add_event(&bytes);
    add_text(&bytes, "frames"), bytes_add_text(&bytes, "](");
    for (int i = 0; i < 100000; i++) {
        bytes_add_text(&bytes, "}(");
        add_text(&bytes, "filename"), add_text(&bytes, "model.py");
        add_text(&bytes, "name"), add_numbered_text(&bytes, "forward", i);
        bytes_add_text(&bytes, "u");
    }
    bytes_add_text(&bytes, "euaa");
    assert_int_equal(finish(&bytes), MT_OK);
    expect_frugal(since);
}

/* Each is another frame with the same long name. */
static void a_name_of_a_million_letters(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    clock_t since = clock();
    begin(&bytes);
    add_text(&bytes, "segments"), bytes_add_byte(&bytes, 'X', 1), bytes_add_number(&bytes, 1 << 20, 4);
    bytes_add_byte(&bytes, 'a', 1 << 20);
    bytes_add(&bytes, "q\0000]", 4);
    add_text(&bytes, "device_traces"), bytes_add_text(&bytes, "](](");
    for (int i = 0; i < 5000; i++) {
        bytes_add_text(&bytes, "}(");
        add_event(&bytes);
        add_text(&bytes, "frames"), bytes_add_text(&bytes, "](}(");
        add_text(&bytes, "name"), bytes_add(&bytes, "h\0", 2);
        add_text(&bytes, "line"), add_integer(&bytes, (uint64_t)i);
        bytes_add_text(&bytes, "ueu");
    }
    bytes_add_text(&bytes, "ee");
    assert_int_equal(finish(&bytes), MT_OK);
    expect_frugal(since);
}

static void blocks_that_segments_share_count_for_each(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    clock_t since = clock();
    begin(&bytes);
    add_text(&bytes, "device_traces"), bytes_add_text(&bytes, "]]a");
    add_text(&bytes, "segments"), bytes_add_text(&bytes, "}(");
    add_text(&bytes, "address"), add_integer(&bytes, 4096);
    add_text(&bytes, "total_size"), add_integer(&bytes, 1 << 21);
    add_text(&bytes, "blocks"), bytes_add_text(&bytes, "}(");
    add_text(&bytes, "size"), add_integer(&bytes, 512);
    bytes_add_text(&bytes, "u");
    add_references(&bytes, 100000);
    bytes_add_text(&bytes, "u");
    add_references(&bytes, 2000);
    assert_int_equal(finish(&bytes), MT_BAD_TRACE);
    assert_non_null(strstr(mt_last_error(), "200000000 blocks"));
    expect_frugal(since);
}

#define MEMORY_COLUMNS "start, globalPid, deviceId, address, memKind, memoryOperationType, streamId"
#define NUMBERS(count) "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < " #count ") "

static void make_database(const char *sql)
{
    sqlite3 *database;
    remove("export.sqlite");
    assert_int_equal(sqlite3_open("export.sqlite", &database), SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(database));
    sqlite3_close(database);
}

static mt_status tell(const char *path, struct mt_import_report *report)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_rules *rules = mt_rules_create();
    *report = (struct mt_import_report){0};
    const struct mt_import_plan plan = {.file = path, .device = MT_IMPORT_ANY_DEVICE};
    const struct mt_import_input input = {.plan = &plan, .rules = rules, .is_database = true};
    mt_status status = mt_nsys_reader.replay(&input, &sink, report);
    mt_rules_destroy(rules);
    mt_interner_destroy(interner);
    return status;
}

static mt_status tell_database(struct mt_import_report *report)
{
    return tell("export.sqlite", report);
}

/* Each range would be compared with all of them. */
static void texts_without_an_index(void **state)
{
    (void)state;
    struct mt_import_report report;
    make_database("CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(" MEMORY_COLUMNS ", bytes);"
                  "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES(1, 1, 0, 512, 2, 0, 0, 512);"
                  "CREATE TABLE StringIds(id, value);" NUMBERS(
                      100000) "INSERT INTO StringIds SELECT i, 'text' FROM c;"
                              "CREATE TABLE NVTX_EVENTS(start, end, eventType, textId);" NUMBERS(
                                  100000) "INSERT INTO NVTX_EVENTS SELECT i, i, 59, 100000 - i FROM c");
    clock_t since = clock();
    assert_int_equal(tell_database(&report), MT_OK);
    assert_int_equal(report.entries, 100001);
    mt_import_report_release(&report);
    expect_frugal(since);
}

static void columns_that_are_computed_are_refused(void **state)
{
    (void)state;
    struct mt_import_report report;
    make_database("CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(" MEMORY_COLUMNS
                  ", bytes AS (length(hex(zeroblob(8000000)))));" NUMBERS(
                      5000) "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT i, 1, 0, i * 512, 2, 0, 0 FROM c");
    clock_t since = clock();
    assert_int_equal(tell_database(&report), MT_BAD_TRACE);
    assert_non_null(strstr(mt_last_error(), "computed columns"));
    mt_import_report_release(&report);
    expect_frugal(since);
}

/* The constraints of a table may compute anything, so they are not evaluated. */
static void checks_of_a_table_are_not_made(void **state)
{
    (void)state;
    struct mt_import_report report;
    make_database("PRAGMA ignore_check_constraints = ON;"
                  "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(" MEMORY_COLUMNS
                  ", bytes CHECK (length(hex(zeroblob(8000000))) > 0));" NUMBERS(
                      3000) "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT i, 1, 0, i * 512, 2, 0, 0, 512 FROM c");
    clock_t since = clock();
    assert_int_equal(tell_database(&report), MT_OK);
    assert_int_equal(report.entries, 3000);
    mt_import_report_release(&report);
    expect_frugal(since);
}

/* In a table over several pages, the inner page names its children, in the first four bytes of its cells and in its
 * head. If all of them name one child, its rows are there again and again, and in a deeper tree at every depth. */
static void pages_that_are_there_twice_are_refused(void **state)
{
    (void)state;
    enum { PAGE = 512, ROOT = PAGE }; /* the first table's root is the second page */
    struct mt_import_report report;
    unsigned char page[PAGE];
    make_database("PRAGMA page_size = 512; CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(" MEMORY_COLUMNS
                  ", bytes);" NUMBERS(
                      60) "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS SELECT i, 1, 0, i * 512, 2, 0, 0, 512 FROM c");
    assert_int_equal(tell_database(&report), MT_OK);
    mt_import_report_release(&report);
    FILE *file = fopen("export.sqlite", "r+b");
    assert_int_equal(fseek(file, ROOT, SEEK_SET), 0);
    assert_int_equal(fread(page, PAGE, 1, file), 1);
    assert_int_equal(page[0], 5); /* an inner page of a table */
    int cells = page[3] << 8 | page[4];
    assert_true(cells > 0);
    for (int i = 0; i < cells; i++)
        memcpy(page + (page[12 + 2 * i] << 8 | page[13 + 2 * i]), page + 8, 4);
    assert_int_equal(fseek(file, ROOT, SEEK_SET), 0);
    assert_int_equal(fwrite(page, PAGE, 1, file), 1);
    fclose(file);
    assert_int_equal(tell_database(&report), MT_BAD_TRACE);
    assert_non_null(strstr(mt_last_error(), "is damaged"));
    mt_import_report_release(&report);
}

/* A file that claims to have a write-ahead log, with a name that has a meaning in a URI. */
static void nothing_is_left_beside_a_file(void **state)
{
    (void)state;
    struct mt_import_report report;
    make_database("PRAGMA journal_mode = WAL; CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(" MEMORY_COLUMNS ", bytes);"
                  "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES(1, 1, 0, 512, 2, 0, 0, 512)");
    assert_int_equal(system("mkdir alone && cp export.sqlite 'alone/a?b#c%41.sqlite'"), 0);
    assert_int_equal(tell("alone/a?b#c%41.sqlite", &report), MT_OK);
    assert_int_equal(report.entries, 1);
    mt_import_report_release(&report);
    assert_int_equal(system("test \"$(ls alone)\" = 'a?b#c%41.sqlite'"), 0);
}

static int set_up(void **state)
{
    *state = enter_folder("test_import_bounds");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_event_told_often),
        cmocka_unit_test(events_of_one_device_told_of_many),
        cmocka_unit_test(events_within_many_annotations),
        cmocka_unit_test(names_of_one_span_told_often),
        cmocka_unit_test(a_stack_of_a_hundred_thousand_frames),
        cmocka_unit_test(a_name_of_a_million_letters),
        cmocka_unit_test(blocks_that_segments_share_count_for_each),
        cmocka_unit_test(texts_without_an_index),
        cmocka_unit_test(columns_that_are_computed_are_refused),
        cmocka_unit_test(checks_of_a_table_are_not_made),
        cmocka_unit_test(pages_that_are_there_twice_are_refused),
        cmocka_unit_test(nothing_is_left_beside_a_file),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
