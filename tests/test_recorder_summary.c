/* The summaries say what a naive recount of the stored events says, and the containers below them keep their word. */
#include "base/number_map.h"
#include "seed.h"
#include "trace/store/allocations.h"
#include "trace/store/store.h"
#include "trace/store/summary.h"
#include "trace_path.h"

static uint64_t fresh_seed(void)
{
    uint64_t seed = take_seed();
    return seed;
}

static int record_two(void **state)
{
    set_up(state);
    fixture_record(path, fresh_seed(), 1000);
    fixture_record(path, fresh_seed(), 13000);
    return 0;
}

/* The first text of a query over view `e`: run 2's events, with the step that each lies in and its category and
 * phase. */
static const char *ask(const char *sql)
{
    char text[4096];
    snprintf(text, sizeof text,
             "WITH m AS MATERIALIZED (SELECT event.*, sum(kind = 7) OVER (ORDER BY event.id) AS begun,"
             " CASE kind WHEN 2 THEN block_bytes WHEN 3 THEN -block_bytes ELSE 0 END AS allocated_change,"
             " CASE kind WHEN 2 THEN requested_bytes WHEN 3 THEN -requested_bytes ELSE 0 END AS requested_change,"
             " CASE kind WHEN 0 THEN block_bytes WHEN 1 THEN -block_bytes ELSE 0 END AS reserved_change"
             " FROM event JOIN run ON run.id = 2 AND event.id >= first_event AND event.id < first_event + event_count),"
             " e AS MATERIALIZED (SELECT m.*, iif(begun = 0, -1, begun - 1) AS step, category, phase,"
             " sum(allocated_change) OVER (ORDER BY m.id) AS allocated,"
             " sum(requested_change) OVER (ORDER BY m.id) AS requested,"
             " sum(reserved_change) OVER (ORDER BY m.id) AS reserved"
             " FROM m LEFT JOIN label ON label.run = 2 AND label.id = m.label),"
             " b AS MATERIALIZED (SELECT ifnull(allocation, id) AS id, max(block_bytes) AS block_bytes,"
             " max(requested_bytes) AS requested_bytes, max(iif(kind = 2, label, 0)) AS label,"
             " max(iif(kind = 3, id, NULL)) AS freed FROM m WHERE kind IN (2, 3) GROUP BY 1) %s",
             sql);
    return sql_text(path, text);
}

/* Both queries give one text; neither is empty. */
static void check_same(const char *summary, const char *recount)
{
    char *expected = strdup(ask(recount));
    assert_true(strlen(expected) > 0);
    assert_string_equal(ask(summary), expected);
    free(expected);
}

static void peaks_of_the_run_are_the_highest_sums(void **state)
{
    (void)state;
    static const char *const measures[] = {"allocated", "requested", "reserved"};
    for (int i = 0; i < 3; i++) {
        char summary[256], recount[256];
        snprintf(summary, sizeof summary,
                 "SELECT bytes || ' at ' || event FROM summary_peak WHERE run = 2 AND step = -2 AND measure = '%s'",
                 measures[i]);
        snprintf(recount, sizeof recount, "SELECT %s || ' at ' || id FROM e ORDER BY %s DESC, id LIMIT 1", measures[i],
                 measures[i]);
        check_same(summary, recount);
    }
}

static void peaks_of_the_steps_are_the_highest_sums_in_them(void **state)
{
    (void)state;
    static const char *const measures[] = {"allocated", "requested", "reserved"};
    for (int i = 0; i < 3; i++) {
        char summary[512], recount[512];
        snprintf(summary, sizeof summary,
                 "SELECT group_concat(step || ':' || bytes || '@' || event) FROM (SELECT * FROM summary_peak"
                 " WHERE run = 2 AND step > -2 AND measure = '%s' ORDER BY step)",
                 measures[i]);
        snprintf(recount, sizeof recount,
                 "SELECT group_concat(step || ':' || %s || '@' || id) FROM (SELECT step, %s, min(id) AS id FROM e"
                 " WHERE (step, %s) IN (SELECT step, max(%s) FROM e GROUP BY step) GROUP BY step ORDER BY step)",
                 measures[i], measures[i], measures[i], measures[i]);
        check_same(summary, recount);
    }
}

/* The blocks of view `b` that are live at each peak, with the labels that they have there. */
#define LIVE_AT_PEAKS                                                                                                  \
    " FROM summary_peak AS p CROSS JOIN b ON b.id <= p.event AND (freed IS NULL OR freed > p.event)"                   \
    " CROSS JOIN label ON label.run = 2 AND label.id = ifnull((SELECT r.label FROM relabel AS r"                       \
    " WHERE r.allocation = b.id AND r.event <= p.event ORDER BY r.event DESC LIMIT 1), b.label)"

static void compositions_are_what_was_live_there(void **state)
{
    (void)state;
    check_same("SELECT group_concat(measure || category || allocated_bytes || '/' || requested_bytes || '/' || blocks)"
               " FROM (SELECT * FROM summary_peak_category WHERE run = 2 AND step = -2 ORDER BY measure, category)",
               "SELECT group_concat(measure || category || a || '/' || r || '/' || b) FROM (SELECT measure, category,"
               " sum(block_bytes) AS a, sum(requested_bytes) AS r, count(*) AS b" LIVE_AT_PEAKS
               " WHERE p.run = 2 AND p.step = -2 GROUP BY measure, category ORDER BY measure, category)");
    check_same("SELECT group_concat(step || measure || category || allocated_bytes || '/' || blocks)"
               " FROM (SELECT * FROM summary_peak_category WHERE run = 2 AND step > -2"
               " ORDER BY step, measure, category)",
               "SELECT group_concat(step || measure || category || a || '/' || b) FROM (SELECT p.step, measure,"
               " category, sum(block_bytes) AS a, count(*) AS b" LIVE_AT_PEAKS " WHERE p.run = 2 AND p.step > -2"
               " GROUP BY p.step, measure, category ORDER BY p.step, measure, category)");
}

static void compositions_by_role_are_what_was_live_there(void **state)
{
    (void)state;
    check_same(
        "SELECT group_concat(step || measure || role || allocated_bytes || '/' || requested_bytes || '/' || blocks)"
        " FROM (SELECT * FROM summary_peak_role WHERE run = 2 ORDER BY step, measure, role)",
        "SELECT group_concat(step || measure || role || a || '/' || r || '/' || b) FROM (SELECT p.step, measure,"
        " role, sum(block_bytes) AS a, sum(requested_bytes) AS r, count(*) AS b" LIVE_AT_PEAKS
        " WHERE p.run = 2 GROUP BY p.step, measure, role ORDER BY p.step, measure, role)");
}

static void counts_are_those_of_the_allocations(void **state)
{
    (void)state;
    check_same(
        "SELECT group_concat(step || phase || category || count || '/' || total_bytes || '/' || max_bytes)"
        " FROM (SELECT * FROM summary_category WHERE run = 2 ORDER BY step, phase, category)",
        "SELECT group_concat(step || phase || category || n || '/' || t || '/' || x) FROM (SELECT step, phase,"
        " category, count(*) AS n, sum(requested_bytes) AS t, max(requested_bytes) AS x FROM e WHERE kind IN (2, 10)"
        " GROUP BY step, phase, category ORDER BY step, phase, category)");
    check_same("SELECT count(*) || '/' || sum(count) || '/' || sum(first_event * count) FROM summary_allocation"
               " WHERE run = 2",
               "SELECT count(*) || '/' || sum(n) || '/' || sum(f * n) FROM (SELECT count(*) AS n, min(id) AS f FROM e"
               " WHERE kind IN (2, 10) GROUP BY requested_bytes, label)");
}

static void steps_and_segments_are_those_of_the_events(void **state)
{
    (void)state;
    check_same("SELECT group_concat(number || ':' || first_event || '-' || ifnull(last_event, '') || '@' || begin_ns)"
               " FROM (SELECT * FROM step WHERE run = 2 ORDER BY number)",
               "SELECT group_concat(b.requested_bytes || ':' || b.id || '-' || ifnull(f.id, '') || '@' || b.time_ns)"
               " FROM e b LEFT JOIN e f ON f.kind = 8 AND f.requested_bytes = b.requested_bytes WHERE b.kind = 7");
    check_same("SELECT group_concat(id || ':' || bytes || '@' || mapped_event) FROM (SELECT * FROM segment"
               " WHERE run = 2 ORDER BY id)",
               "SELECT group_concat(segment || ':' || bytes || '@' || first) FROM (SELECT segment,"
               " max(offset + block_bytes) AS bytes, min(id) AS first FROM e WHERE kind = 0 GROUP BY segment)");
    check_same(
        "SELECT group_concat(segment || '+' || offset || ':' || bytes || '@' || mapped_event) FROM"
        " (SELECT * FROM segment_part WHERE run = 2 AND unmapped_event IS NULL ORDER BY mapped_event)",
        "SELECT group_concat(segment || '+' || offset || ':' || block_bytes || '@' || id) FROM e WHERE kind = 0");
}

/* Reads an unsigned LEB128 number. */
static uint64_t read_leb128(const unsigned char **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return value;
    }
}

/* Compares one checkpoint with a query for the allocs up to it that no free up to it ends. Returns the live blocks. */
static int check_checkpoint(sqlite3 *handle, int64_t first_event, int64_t event, const unsigned char *live, int bytes)
{
    const unsigned char *end = live + bytes;
    int count = 0;
    sqlite3_stmt *row =
        sql_prepare(handle, "SELECT id FROM event WHERE kind = 2 AND id BETWEEN ? AND ? AND id NOT IN (SELECT"
                            " allocation FROM event WHERE kind = 3 AND id BETWEEN ? AND ?) ORDER BY id");
    for (int i = 0; i < 2; i++) {
        sqlite3_bind_int64(row, 2 * i + 1, first_event);
        sqlite3_bind_int64(row, 2 * i + 2, event);
    }
    int64_t id = first_event;
    for (; sqlite3_step(row) == SQLITE_ROW; count++) {
        assert_true(live < end);
        id += (int64_t)read_leb128(&live);
        assert_int_equal(sqlite3_column_int64(row, 0), id);
    }
    assert_ptr_equal(live, end);
    sqlite3_finalize(row);
    return count;
}

static void checkpoints_hold_the_live_blocks(void **state)
{
    (void)state;
    int checkpoints = 0, blocks = 0;
    sqlite3 *handle = sql_open(path);
    sqlite3_stmt *row = sql_prepare(handle, "SELECT first_event, event, live FROM run JOIN checkpoint ON"
                                            " checkpoint.run = run.id WHERE run.id = 2");
    for (; sqlite3_step(row) == SQLITE_ROW; checkpoints++)
        blocks += check_checkpoint(handle, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                                   sqlite3_column_blob(row, 2), sqlite3_column_bytes(row, 2));
    sqlite3_finalize(row);
    sqlite3_close(handle);
    assert_int_equal(checkpoints, 13000 / 4096);
    assert_true(blocks > 0);
}

/* Random puts and takes against an array that is searched from end to end. */
static void the_number_map_agrees_with_an_array(void **state)
{
    (void)state;
    enum { KEYS = 3000, OPERATIONS = 200000 };
    static uint64_t naive[KEYS]; /* 0: absent */
    uint64_t seed = fresh_seed(), value;
    struct mt_number_map map;
    mt_number_map_create(&map);
    memset(naive, 0, sizeof naive);
    for (uint64_t i = 0; i < OPERATIONS; i++) {
        uint64_t draw = mt_splitmix64(seed + i), index = draw % KEYS, key = index << 33;
        if (draw >> 40 & 1) {
            mt_number_map_put(&map, key, i + 1);
            naive[index] = i + 1;
            continue;
        }
        value = 0;
        assert_int_equal(mt_number_map_take(&map, key, &value), naive[index] != 0);
        assert_int_equal(value, naive[index]);
        naive[index] = 0;
    }
    for (uint64_t index = 0; index < KEYS; index++) {
        value = 0;
        assert_int_equal(mt_number_map_get(&map, index << 33, &value), naive[index] != 0);
        assert_int_equal(value, naive[index]);
    }
    mt_number_map_put(&map, MT_NUMBER_MAP_NO_KEY, 1);
    assert_false(mt_number_map_take(&map, MT_NUMBER_MAP_NO_KEY, &value));
    mt_number_map_release(&map);
}

/* More different sizes than are kept, in random order, each twice: the largest are there with their counts. */
static void the_largest_allocations_stay_exact_when_the_table_is_full(void **state)
{
    (void)state;
    const uint64_t sizes = 5 * MT_SUMMARY_ALLOCATIONS, step = 7919;
    struct mt_allocations allocations;
    uint64_t kept = 0, lowest = UINT64_MAX;
    mt_allocations_create(&allocations);
    for (uint64_t i = 0; i < 2 * sizes; i++)
        mt_allocations_add(&allocations, 1 + (uint32_t)(i % 3), 1 + i * step % sizes, (int64_t)i);
    for (size_t i = 0; i <= allocations.mask; i++) {
        const struct mt_allocation_row *row = &allocations.rows[i];
        if (row->count == 0)
            continue;
        kept += row->count;
        lowest = row->requested_bytes < lowest ? row->requested_bytes : lowest;
    }
    assert_true(allocations.complete_from_bytes > 1);
    assert_int_equal(lowest, allocations.complete_from_bytes);
    assert_int_equal(kept, 2 * (sizes + 1 - allocations.complete_from_bytes));
    assert_true(allocations.used >= MT_SUMMARY_ALLOCATIONS && allocations.used <= 2 * MT_SUMMARY_ALLOCATIONS);
    mt_allocations_release(&allocations);
}

static void one_size_with_very_many_labels_is_kept_whole(void **state)
{
    (void)state;
    const uint32_t labels = 3 * MT_SUMMARY_ALLOCATIONS;
    struct mt_allocations allocations;
    mt_allocations_create(&allocations);
    for (uint32_t label = 1; label <= labels; label++)
        mt_allocations_add(&allocations, label, 4096, label);
    assert_int_equal(allocations.used, labels);
    assert_true(allocations.complete_from_bytes <= 4096);
    mt_allocations_release(&allocations);
}

/* The writer stores the steps that are over, and forgets them; a reader of the live run sees each of them once. */
static void steps_that_are_over_are_stored_while_the_run_goes_on(void **state)
{
    (void)state;
    char live[FIXTURE_PATH_BYTES];
    struct mt_database *reader;
    int64_t rows, different;
    fixture_path(live);
    struct mt_recorder *recorder = fixture_open(live, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    struct script script = script_begin(fresh_seed(), sink);
    for (int64_t over = 1; over <= 5; over++) {
        script_emit(&script, 1000);
        assert_int_equal(mt_recorder_flush(sink->context), MT_OK);
        assert_int_equal(sql_integer(live, "SELECT count(DISTINCT step) FROM summary_peak"), over);
        assert_int_equal(mt_store_open_reading(live, &reader), MT_OK);
        assert_int_equal(mt_database_integer(reader, "SELECT count(*) FROM summary_peak", &rows), MT_OK);
        assert_int_equal(mt_database_integer(reader,
                                             "SELECT count(*) FROM (SELECT DISTINCT step, measure FROM"
                                             " summary_peak)",
                                             &different),
                         MT_OK);
        mt_database_close(reader);
        assert_int_equal(rows, (over + 2) * 3); /* with the step under way and the run */
        assert_int_equal(different, rows);
    }
    fixture_close(recorder, MT_RUN_DONE);
    assert_int_equal(sql_integer(live, "SELECT count(*) FROM summary_peak"), (5 + 2) * 3);
    fixture_remove(live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_of_the_run_are_the_highest_sums),
        cmocka_unit_test(peaks_of_the_steps_are_the_highest_sums_in_them),
        cmocka_unit_test(compositions_are_what_was_live_there),
        cmocka_unit_test(compositions_by_role_are_what_was_live_there),
        cmocka_unit_test(counts_are_those_of_the_allocations),
        cmocka_unit_test(steps_and_segments_are_those_of_the_events),
        cmocka_unit_test(checkpoints_hold_the_live_blocks),
        cmocka_unit_test(steps_that_are_over_are_stored_while_the_run_goes_on),
        cmocka_unit_test(the_number_map_agrees_with_an_array),
        cmocka_unit_test(the_largest_allocations_stay_exact_when_the_table_is_full),
        cmocka_unit_test(one_size_with_very_many_labels_is_kept_whole),
    };
    return cmocka_run_group_tests(tests, record_two, tear_down);
}
