/* The parts of segments that have memory: random maps and unmaps, sound ones and others, against a map of every byte;
 * and as a trace tells them. */
#include "seed.h"
#include "trace/query/blocks.h"
#include "trace/store/parts.h"
#include "trace_edit.h"
#include "trace_path.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SEGMENTS = 3, BYTES = 48, ROUNDS = 30, EVENTS = 120 };

/* The event that mapped a byte; 0: it has no memory. `history`: after each event. */
struct bytes {
    int64_t mapped_by[SEGMENTS][BYTES];
    int64_t history[EVENTS + 1][SEGMENTS][BYTES];
};

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = mt_splitmix64(*random);
    return (*random >> 20) % below;
}

static struct mt_part draw_part(uint64_t *random, int64_t event)
{
    uint64_t offset = draw(random, BYTES);
    return (struct mt_part){.segment = (uint32_t)draw(random, SEGMENTS),
                            .offset = offset,
                            .bytes = draw(random, BYTES - offset + 1),
                            .mapped_event = event};
}

/* Returns how many of the part's bytes have memory. */
static uint64_t count_mapped(const struct bytes *bytes, const struct mt_part *part)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < part->bytes; i++)
        count += bytes->mapped_by[part->segment][part->offset + i] != 0;
    return count;
}

static void set_mapped(struct bytes *bytes, const struct mt_part *part, int64_t event)
{
    for (uint64_t i = 0; i < part->bytes; i++)
        bytes->mapped_by[part->segment][part->offset + i] = event;
}

static void apply(struct mt_parts *parts, struct bytes *bytes, uint64_t *random, int64_t event)
{
    struct mt_part part = draw_part(random, event);
    uint64_t mapped = count_mapped(bytes, &part);
    if (draw(random, 2) == 0) {
        assert_int_equal(mt_parts_map(parts, part), part.bytes - mapped);
        set_mapped(bytes, &part, event);
    } else {
        assert_int_equal(mt_parts_unmap(parts, part, event), mapped);
        set_mapped(bytes, &part, 0);
    }
    memcpy(bytes->history[event], bytes->mapped_by, sizeof bytes->mapped_by);
}

/* True if a later row is of the same part. */
static bool is_replaced(const struct mt_parts *parts, size_t row)
{
    const struct mt_part *one = &parts->rows[row];
    for (size_t i = row + 1; i < parts->row_count; i++)
        if (parts->rows[i].segment == one->segment && parts->rows[i].offset == one->offset &&
            parts->rows[i].mapped_event == one->mapped_event)
            return true;
    return false;
}

/* Takes the row's memory out of the history, where it must be. */
static void take_out(struct bytes *bytes, const struct mt_part *part)
{
    int64_t end = part->unmapped_event != 0 ? part->unmapped_event : EVENTS + 1;
    for (int64_t event = part->mapped_event; event < end; event++)
        for (uint64_t i = 0; i < part->bytes; i++) {
            int64_t *mapped_by = &bytes->history[event][part->segment][part->offset + i];
            assert_int_equal(*mapped_by, part->mapped_event);
            *mapped_by = 0;
        }
}

static void parts_are_the_bytes_that_have_memory(void **state)
{
    (void)state;
    static const int64_t nothing[EVENTS + 1][SEGMENTS][BYTES];
    uint64_t random = take_seed();
    for (int round = 0; round < ROUNDS; round++) {
        struct bytes *bytes = calloc(1, sizeof *bytes);
        struct mt_parts parts;
        mt_parts_create(&parts);
        for (int64_t event = 1; event <= EVENTS; event++)
            apply(&parts, bytes, &random, event);
        for (size_t i = 0; i < parts.row_count; i++)
            if (!is_replaced(&parts, i))
                take_out(bytes, &parts.rows[i]);
        assert_memory_equal(bytes->history, nothing, sizeof nothing);
        mt_parts_release(&parts);
        free(bytes);
    }
}

static void what_lies_beyond_2_to_the_64_is_cut_off(void **state)
{
    (void)state;
    struct mt_parts parts;
    mt_parts_create(&parts);
    const struct mt_part part = {.offset = UINT64_MAX - 10, .bytes = UINT64_MAX, .mapped_event = 1};
    assert_int_equal(mt_parts_map(&parts, part), 10);
    assert_int_equal(mt_parts_map(&parts, (struct mt_part){.bytes = UINT64_MAX, .mapped_event = 2}), UINT64_MAX - 10);
    assert_int_equal(mt_parts_unmap(&parts, part, 3), 10);
    mt_parts_release(&parts);
}

/* A tree that were no more than a list would take minutes. */
static void many_parts_in_any_order_are_no_burden(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    struct mt_parts parts;
    mt_parts_create(&parts);
    for (uint64_t i = 0; i < COUNT; i++)
        mt_parts_map(&parts, (struct mt_part){.offset = 2 * (COUNT - i), .bytes = 1, .mapped_event = 1});
    assert_int_equal(mt_parts_unmap(&parts, (struct mt_part){.bytes = UINT64_MAX}, 2), COUNT);
    assert_int_equal(parts.root, 0);
    mt_parts_release(&parts);
}

/* Emits what the recorder is to store: a segment of three parts that grows, loses its middle in one piece across two of
 * them, gets some of it back, and ends; and one that stays. */
static const struct mt_event segment_events[] = {
    {.kind = MT_EVENT_SEGMENT_MAP, .segment = 0, .offset = 0, .block_bytes = 40},
    {.kind = MT_EVENT_SEGMENT_MAP, .segment = 1, .offset = 0, .block_bytes = 7},
    {.kind = MT_EVENT_SEGMENT_MAP, .segment = 0, .offset = 40, .block_bytes = 20},
    {.kind = MT_EVENT_SEGMENT_UNMAP, .segment = 0, .offset = 30, .block_bytes = 15},
    {.kind = MT_EVENT_SEGMENT_MAP, .segment = 0, .offset = 35, .block_bytes = 5},
    {.kind = MT_EVENT_SEGMENT_MAP, .segment = 1, .offset = 100, .block_bytes = 60},
    {.kind = MT_EVENT_SEGMENT_UNMAP, .segment = 0, .offset = 0, .block_bytes = 60},
};
enum { SEGMENT_EVENTS = sizeof segment_events / sizeof segment_events[0] };

static void record(void)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    for (uint64_t i = 0; i < SEGMENT_EVENTS; i++) {
        struct mt_event event = segment_events[i];
        event.sequence = i;
        event.segment_address = ((uint64_t)event.segment + 1) * 4096;
        sink->emit(sink->context, &event);
    }
    fixture_close(recorder, MT_RUN_DONE);
}

static struct mt_part_row *read_parts(size_t *count)
{
    struct mt_trace *trace;
    struct mt_part_row *rows;
    size_t runs;
    assert_int_equal(mt_trace_open(path, &trace), MT_OK);
    assert_int_equal(mt_trace_parts(trace, &mt_trace_runs(trace, &runs)[0], &rows, count), MT_OK);
    mt_trace_close(trace);
    return rows;
}

static void a_trace_tells_what_was_mapped_from_when_to_when(void **state)
{
    (void)state;
    static const struct mt_part_row expected[] = {
        {.segment = 0, .offset = 0, .bytes = 30, .mapped_event = 1, .unmapped_event = 7},
        {.segment = 0, .offset = 30, .bytes = 10, .mapped_event = 1, .unmapped_event = 4},
        {.segment = 0, .offset = 35, .bytes = 5, .mapped_event = 5, .unmapped_event = 7},
        {.segment = 0, .offset = 40, .bytes = 5, .mapped_event = 3, .unmapped_event = 4},
        {.segment = 0, .offset = 45, .bytes = 15, .mapped_event = 3, .unmapped_event = 7},
        {.segment = 1, .offset = 0, .bytes = 7, .mapped_event = 2},
        {.segment = 1, .offset = 100, .bytes = 60, .mapped_event = 6},
    };
    size_t count;
    record();
    struct mt_part_row *rows = read_parts(&count);
    assert_int_equal(count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].segment, expected[i].segment);
        assert_int_equal(rows[i].offset, expected[i].offset);
        assert_int_equal(rows[i].bytes, expected[i].bytes);
        assert_int_equal(rows[i].mapped_event, expected[i].mapped_event);
        assert_int_equal(rows[i].unmapped_event, expected[i].unmapped_event);
    }
    free(rows);
}

static void a_segment_reaches_to_the_end_of_its_last_part_and_ends_with_its_last_byte(void **state)
{
    (void)state;
    record();
    assert_string_equal(sql_text(path,
                                 "SELECT group_concat(id || ' ' || address || ' ' || bytes || ' ' || mapped_event ||"
                                 " ' ' || ifnull(unmapped_event, 'stays'), ', ') FROM segment"),
                        "0 4096 60 1 7, 1 8192 160 2 stays");
    assert_string_equal(sql_text(path, "SELECT group_concat(offset) FROM event"), "0,0,40,30,35,100,0");
}

static void what_is_reserved_is_what_was_mapped_less_what_was_unmapped(void **state)
{
    (void)state;
    record();
    assert_string_equal(sql_text(path, "SELECT bytes || ' ' || event FROM summary_peak WHERE measure = 'reserved'"
                                       " AND step = -2"),
                        "117 6"); /* 40 + 7 + 20 - 15 + 5 + 60 */
}

static void impossible_parts_are_damage(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "segment = 2 + offset",          "segment = -1",        "offset = -4096",   "bytes = -1",
        "bytes = (1 << 62) + (1 << 61)", "offset = ~(1 << 63)", "mapped_event = -2"};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char sql[200];
        struct mt_trace *trace;
        struct mt_part_row *rows;
        size_t runs, count;
        record();
        snprintf(sql, sizeof sql, "UPDATE segment_part SET %s WHERE segment = 1", changes[i]);
        edit_trace(path, sql);
        assert_int_equal(mt_trace_open(path, &trace), MT_OK);
        if (mt_trace_parts(trace, &mt_trace_runs(trace, &runs)[0], &rows, &count) != MT_BAD_TRACE)
            fail_msg("accepted: %s", changes[i]);
        assert_null(rows);
        mt_trace_close(trace);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_bytes_that_have_memory),
        cmocka_unit_test(what_lies_beyond_2_to_the_64_is_cut_off),
        cmocka_unit_test(many_parts_in_any_order_are_no_burden),
        cmocka_unit_test_setup_teardown(a_trace_tells_what_was_mapped_from_when_to_when, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_segment_reaches_to_the_end_of_its_last_part_and_ends_with_its_last_byte,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_reserved_is_what_was_mapped_less_what_was_unmapped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_parts_are_damage, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
