/* Blocks, labels, segments and marks of random runs, against the events as they were emitted. */
#include "blocks_fixture.h"

#include "synthetic.h"

enum { PROBES = 12 };

/* The block that an alloc event begins, freed by the next free of its address, found by looking for it. */
static struct mt_block_row expected_block(const struct witness *witness, const struct mt_run *run, size_t alloc)
{
    const struct mt_event *event = &witness->events[alloc];
    struct mt_block_row block = {.alloc_event = id_of(run, alloc),
                                 .alloc_ns = event->time_ns,
                                 .requested_bytes = event->requested_bytes,
                                 .block_bytes = event->block_bytes,
                                 .offset = event->offset,
                                 .segment = event->segment,
                                 .label = mt_label_number(event->label),
                                 .stream = event->stream};
    for (size_t i = alloc + 1; i < witness->count && i < (size_t)run->event_count; i++) {
        if (witness->events[i].kind != MT_EVENT_FREE || witness->events[i].segment != event->segment ||
            witness->events[i].offset != event->offset)
            continue;
        block.free_event = id_of(run, i);
        block.free_ns = witness->events[i].time_ns;
        break;
    }
    return block;
}

static void expect_block(const struct mt_block_row *found, const struct mt_block_row *expected)
{
    assert_int_equal(found->alloc_event, expected->alloc_event);
    assert_int_equal(found->free_event, expected->free_event);
    assert_int_equal(found->alloc_ns, expected->alloc_ns);
    assert_int_equal(found->free_ns, expected->free_ns);
    assert_int_equal(found->requested_bytes, expected->requested_bytes);
    assert_int_equal(found->block_bytes, expected->block_bytes);
    assert_int_equal(found->offset, expected->offset);
    assert_int_equal(found->segment, expected->segment);
    assert_int_equal(found->label, expected->label);
    assert_int_equal(found->stream, expected->stream);
}

/* The blocks live at some moment of [first, last], in order. */
static void expect_blocks(const struct witness *witness, const struct mt_run *run, int64_t first, int64_t last,
                          const struct mt_block_row *found, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < witness->count && id_of(run, i) <= last; i++) {
        if (witness->events[i].kind != MT_EVENT_ALLOC)
            continue;
        struct mt_block_row expected = expected_block(witness, run, i);
        if (expected.free_event != 0 && expected.free_event < first)
            continue;
        if (expected.free_event > last)
            expected.free_event = 0, expected.free_ns = 0;
        assert_true(next < count);
        expect_block(&found[next++], &expected);
    }
    assert_int_equal(next, count);
}

static void check_window(struct fixture *fixture, int run, int64_t first, int64_t last)
{
    struct mt_block_row *rows;
    size_t count;
    assert_int_equal(mt_trace_blocks(fixture->trace, &fixture->runs[run], first, last, &rows, &count), MT_OK);
    expect_blocks(&fixture->witness[run], &fixture->runs[run], first, last, rows, count);
    free(rows);
}

static void check_whole_run(struct fixture *fixture, int run)
{
    const struct mt_run *found = &fixture->runs[run];
    int64_t last = found->first_event + found->event_count - 1;
    check_window(fixture, run, found->first_event, last);
}

static void check_live(struct fixture *fixture, int run, int64_t event)
{
    struct mt_block_row *rows;
    size_t count;
    assert_int_equal(mt_trace_live(fixture->trace, &fixture->runs[run], event, &rows, &count), MT_OK);
    /* What is live after an event is what was live at some moment between it and the next. */
    int64_t between = event + 1;
    size_t next = 0;
    for (size_t i = 0; i < fixture->witness[run].count && id_of(&fixture->runs[run], i) <= event; i++) {
        if (fixture->witness[run].events[i].kind != MT_EVENT_ALLOC)
            continue;
        struct mt_block_row expected = expected_block(&fixture->witness[run], &fixture->runs[run], i);
        if (expected.free_event != 0 && expected.free_event < between)
            continue;
        expected.free_event = 0, expected.free_ns = 0;
        assert_true(next < count);
        expect_block(&rows[next++], &expected);
    }
    assert_int_equal(next, count);
    free(rows);
}

static void blocks_of_a_run_are_its_allocations_with_their_frees(void **state)
{
    for (int run = 0; run < RUNS; run++)
        check_whole_run(*state, run);
}

static void blocks_of_a_window_are_those_that_were_live_in_it(void **state)
{
    struct fixture *fixture = *state;
    for (int probe = 0; probe < PROBES; probe++) {
        int run = probe % RUNS;
        int64_t a = draw_event(fixture, run), b = draw_event(fixture, run);
        check_window(fixture, run, a < b ? a : b, a < b ? b : a);
        check_window(fixture, run, a, a);
    }
}

static void a_window_beyond_the_run_is_cut_to_it(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++) {
        struct mt_block_row *rows;
        size_t count;
        const struct mt_run *found = &fixture->runs[run];
        assert_int_equal(mt_trace_blocks(fixture->trace, found, INT64_MIN, INT64_MAX, &rows, &count), MT_OK);
        expect_blocks(&fixture->witness[run], found, found->first_event, INT64_MAX, rows, count);
        free(rows);
        int64_t end = found->first_event + found->event_count;
        assert_int_equal(mt_trace_blocks(fixture->trace, found, end, end + 5, &rows, &count), MT_OK);
        assert_int_equal(count, 0);
        free(rows);
    }
}

static void live_blocks_are_those_between_two_events(void **state)
{
    struct fixture *fixture = *state;
    for (int probe = 0; probe < PROBES; probe++)
        check_live(fixture, probe % RUNS, draw_event(fixture, probe % RUNS));
    for (int run = 0; run < RUNS; run++) {
        check_live(fixture, run, fixture->runs[run].first_event - 1);
        check_live(fixture, run, INT64_MAX - 1);
    }
}

static void live_blocks_at_the_peak_sum_to_it(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++)
        check_peak(fixture->trace, &fixture->runs[run]);
}

static void labels_say_what_their_numbers_stand_for(void **state)
{
    struct fixture *fixture = *state;
    struct mt_label_row *labels;
    size_t count;
    assert_int_equal(mt_trace_labels(fixture->trace, &fixture->runs[1], &labels, &count), MT_OK);
    assert_string_equal(labels[0].category, "");
    assert_string_equal(labels[0].place, "");
    const struct witness *witness = &fixture->witness[1];
    const char *named[MT_MOST_CATEGORIES] = {0}; /* what those that are not ours are called, as it shows */
    for (size_t i = 0; i < witness->count; i++) {
        if (witness->events[i].kind != MT_EVENT_ALLOC)
            continue;
        assert_in_range(mt_label_number(witness->events[i].label), 1, count - 1);
        const struct mt_label_row *label = &labels[mt_label_number(witness->events[i].label)];
        mt_category category = mt_label_category(witness->events[i].label);
        if (category >= MT_CATEGORY_COUNT && named[category] == NULL)
            named[category] = label->category;
        assert_string_equal(label->category,
                            category < MT_CATEGORY_COUNT ? mt_category_name(category) : named[category]);
        assert_int_equal(strstr(label->place, ".*.") != NULL, label->layer >= 0);
        assert_true(label->layer >= 0 || label->place == label->span);
    }
    for (int i = MT_CATEGORY_COUNT + 1; i < MT_MOST_CATEGORIES; i++)
        if (named[i] != NULL && named[i - 1] != NULL)
            assert_string_not_equal(named[i], named[i - 1]);
    free(labels);
}

static void segments_are_those_that_were_mapped(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++) {
        struct mt_segment_row *rows;
        size_t count, next = 0;
        const struct mt_run *found = &fixture->runs[run];
        assert_int_equal(mt_trace_segments(fixture->trace, found, &rows, &count), MT_OK);
        assert_int_equal(rows[1].unmapped_event, 0);
        for (size_t i = 0; i < fixture->witness[run].count; i++) {
            const struct mt_event *event = &fixture->witness[run].events[i];
            bool is_last = event->offset == 0; /* as they are given back */
            if (event->kind == MT_EVENT_SEGMENT_UNMAP && is_last)
                assert_int_equal(rows[event->segment].unmapped_event, id_of(found, i));
            if (event->kind != MT_EVENT_SEGMENT_MAP || event->offset != 0)
                continue;
            assert_true(next < count);
            assert_int_equal(rows[next].number, event->segment);
            assert_int_equal(rows[next].address, event->segment_address);
            assert_int_equal(rows[next++].mapped_event, id_of(found, i));
        }
        for (size_t i = 0; i + 1 < count; i++)
            assert_int_equal(rows[i].bytes, SYNTHETIC_SLOTS_A_SEGMENT * SYNTHETIC_SLOT_BYTES);
        assert_int_equal(next, count);
        free(rows);
    }
}

static const char *expected_span(const struct mt_event *event, const struct mt_label_row *labels)
{
    if (event->span != 0)
        return "epilogue";
    return event->kind == MT_EVENT_OOM ? labels[mt_label_number(event->label)].span : "";
}

static void check_marks(struct fixture *fixture, int run, int64_t first, int64_t last)
{
    struct mt_mark_row *marks;
    struct mt_label_row *labels;
    size_t count, label_count, next = 0;
    const struct mt_run *found = &fixture->runs[run];
    assert_int_equal(mt_trace_marks(fixture->trace, found, first, last, &marks, &count), MT_OK);
    assert_int_equal(mt_trace_labels(fixture->trace, found, &labels, &label_count), MT_OK);
    for (size_t i = 0; i < fixture->witness[run].count; i++) {
        const struct mt_event *event = &fixture->witness[run].events[i];
        if (event->kind < MT_EVENT_OOM || id_of(found, i) < first || id_of(found, i) > last)
            continue;
        assert_true(next < count);
        assert_int_equal(marks[next].event, id_of(found, i));
        assert_int_equal(marks[next].time_ns, event->time_ns);
        assert_int_equal(marks[next].kind, event->kind);
        assert_int_equal(marks[next].value, event->value);
        assert_int_equal(marks[next].label, mt_label_number(event->label));
        assert_string_equal(marks[next++].span, expected_span(event, labels));
    }
    assert_int_equal(next, count);
    free(marks);
    free(labels);
}

static void marks_are_all_that_is_not_about_memory(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++) {
        int64_t a = draw_event(fixture, run), b = draw_event(fixture, run);
        check_marks(fixture, run, INT64_MIN, INT64_MAX);
        check_marks(fixture, run, a < b ? a : b, a < b ? b : a);
    }
}

static void a_run_that_is_still_being_written_is_answered_for_as_well(void **state)
{
    (void)state;
    struct fixture live;
    struct synthetic run;
    name_trace(&live, "live");
    record_run(live.path, &live.witness[0], live.seed);
    begin_run(&run, &live.witness[1], live.path, live.seed + 1);
    emit_run(&run, live.seed + 1);
    assert_int_equal(mt_recorder_flush(live.witness[1].behind->context), MT_OK);
    open_trace(&live);
    synthetic_step(&run, 99, 5000, 200); /* what came after the opening is not spoken of */
    assert_int_equal(mt_recorder_flush(live.witness[1].behind->context), MT_OK);
    live.witness[1].count = (size_t)live.runs[1].event_count;
    check_whole_run(&live, 1);
    check_live(&live, 1, draw_event(&live, 1));
    check_marks(&live, 1, INT64_MIN, INT64_MAX);
    struct mt_segment_row *segments;
    size_t count, mapped = 0;
    assert_int_equal(mt_trace_segments(live.trace, &live.runs[1], &segments, &count), MT_OK);
    for (size_t i = 0; i < live.witness[1].count; i++)
        mapped += live.witness[1].events[i].kind == MT_EVENT_SEGMENT_MAP && live.witness[1].events[i].offset == 0;
    assert_int_equal(count, mapped);
    free(segments);
    assert_int_equal(synthetic_close(&run), MT_OK);
    clean_up(&live);
}

static int enter(void **state)
{
    *state = enter_folder("test_blocks");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(blocks_of_a_run_are_its_allocations_with_their_frees),
        RANDOM_TEST(blocks_of_a_window_are_those_that_were_live_in_it),
        RANDOM_TEST(a_window_beyond_the_run_is_cut_to_it),
        RANDOM_TEST(live_blocks_are_those_between_two_events),
        RANDOM_TEST(live_blocks_at_the_peak_sum_to_it),
        RANDOM_TEST(labels_say_what_their_numbers_stand_for),
        RANDOM_TEST(segments_are_those_that_were_mapped),
        RANDOM_TEST(marks_are_all_that_is_not_about_memory),
        cmocka_unit_test(a_run_that_is_still_being_written_is_answered_for_as_well),
    };
    return cmocka_run_group_tests(tests, enter, leave_folder);
}
