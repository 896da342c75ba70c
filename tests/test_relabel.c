/* A live block that gets another label stays one block, and every answer about a moment knows the label that it had
 * then. */
#include "read_rows.h"
#include "trace_edit.h"
#include "trace_path.h"

#include "trace/query/blocks.h"
#include "trace/query/groups.h"
#include "trace/query/walk.h"
#include "trace/store/foreign.h"
#include "trace_opening.h"

#include <inttypes.h>

enum { BYTES = 2000, MORE_BYTES = 3000 };

static mt_label_id label_of(const struct mt_sink *sink, mt_category category, mt_role role)
{
    const struct mt_label label = {
        .category = category, .role = role, .phase = MT_PHASE_BACKWARD, .op = "x", .layer = -1};
    return sink->intern_label(sink->context, &label);
}

/* A product becomes a gradient before the peak, and something else after it: events 1 to 7. */
static void record(void)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    struct mt_foreign *foreign = mt_foreign_create(sink);
    struct mt_foreign_block block = {
        .address = 1 << 20, .requested_bytes = BYTES, .label = label_of(sink, MT_CATEGORY_EINSUM, MT_ROLE_TEMPORARY)};
    mt_label_id gradient = label_of(sink, MT_CATEGORY_GRADIENT, MT_ROLE_GRADIENT);
    mt_foreign_map(foreign, 1, 1 << 20, 1 << 20, 0);
    mt_foreign_take(foreign, 2, &block);
    assert_true(mt_foreign_relabel(foreign, 3, 1 << 20, gradient, 0));
    assert_true(mt_foreign_relabel(foreign, 3, 1 << 20, gradient, 0)); /* which it has: no event */
    assert_false(mt_foreign_relabel(foreign, 3, (1 << 20) + 512, gradient, 0));
    block.address += 4096;
    block.requested_bytes = MORE_BYTES;
    mt_foreign_take(foreign, 4, &block);
    mt_foreign_give(foreign, 5, (1 << 20) + 4096);
    mt_foreign_relabel(foreign, 6, 1 << 20, label_of(sink, MT_CATEGORY_OTHER, MT_ROLE_OTHER), 0);
    mt_foreign_give(foreign, 7, 1 << 20);
    mt_foreign_destroy(foreign);
    fixture_close(recorder, MT_RUN_DONE);
}

static struct mt_trace *open_run(const struct mt_run **run)
{
    record();
    struct mt_trace *trace = open_newest(path, run);
    assert_int_equal((*run)->event_count, 7);
    return trace;
}

static void a_relabel_is_a_row_with_its_alloc(void **state)
{
    (void)state;
    record();
    assert_string_equal(sql_text(path, "SELECT group_concat(id || ' ' || kind || ' ' || ifnull(label, '-') || ' ' ||"
                                       " ifnull(allocation, '-'), ', ') FROM event WHERE kind > 1"),
                        "2 2 1 -, 3 10 2 2, 4 2 1 -, 5 3 1 4, 6 10 3 2, 7 3 3 2");
    assert_string_equal(sql_text(path, "SELECT group_concat(allocation || ' ' || event || ' ' || label) FROM relabel"),
                        "2 3 2,2 6 3");
    assert_string_equal(sql_text(path,
                                 "SELECT group_concat(allocation || ' ' || category || ' ' || role || ' ' ||"
                                 " begin_ns || ' ' || end_event || ' ' || end_ns || ' ' || run, ', ') FROM block"),
                        "2 Other other 2 7 7 1, 4 einsum temporary 4 5 5 1");
}

static void the_peak_is_made_of_the_labels_of_its_moment(void **state)
{
    (void)state;
    const struct mt_run *run;
    struct mt_trace *trace = open_run(&run);
    struct mt_peak_row peak;
    struct mt_top_row *top;
    size_t count;
    bool complete;
    assert_int_equal(mt_trace_peak(trace, run, MT_MEASURE_REQUESTED, &peak), MT_OK);
    assert_int_equal(peak.bytes, BYTES + MORE_BYTES);
    assert_int_equal(peak.share_count, 2);
    assert_string_equal(peak.shares[0].name, "einsum");
    assert_int_equal(peak.shares[0].requested_bytes, MORE_BYTES);
    assert_string_equal(peak.shares[1].name, "Gradient");
    assert_int_equal(peak.shares[1].requested_bytes, BYTES);
    mt_peak_row_release(&peak);
    assert_int_equal(mt_trace_peak_by(trace, run, MT_ALL_STEPS, MT_MEASURE_REQUESTED, MT_GROUP_ROLE, &peak), MT_OK);
    assert_int_equal(peak.share_count, 2);
    assert_string_equal(peak.shares[1].name, "gradient");
    assert_int_equal(peak.shares[1].requested_bytes, BYTES);
    mt_peak_row_release(&peak);
    assert_int_equal(
        mt_trace_top(trace, run, &(struct mt_top_choice){.moment = MT_TOP_AT_PEAK}, 9, &top, &count, &complete), MT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(top[1].category, "Gradient");
    free(top);
    mt_trace_close(trace);
}

static void a_live_block_has_the_label_of_the_moment_asked(void **state)
{
    (void)state;
    static const uint32_t labels[] = {1, 2, 2, 2, 3};
    const struct mt_run *run;
    struct mt_trace *trace = open_run(&run);
    struct mt_block_row *blocks;
    size_t count;
    for (int64_t event = 2; event < 7; event++) {
        assert_int_equal(mt_trace_live(trace, run, event, &blocks, &count), MT_OK);
        assert_int_equal(count, event == 4 ? 2 : 1);
        assert_int_equal(blocks[0].alloc_event, 2);
        assert_int_equal(blocks[0].label, labels[event - 2]);
        free(blocks);
    }
    mt_trace_close(trace);
}

static void expect_row(const struct mt_block_row *row, int64_t begin, int64_t end, uint32_t label)
{
    assert_int_equal(row->alloc_event, begin);
    assert_int_equal(row->free_event, end);
    assert_int_equal(row->alloc_ns, begin);
    assert_int_equal(row->free_ns, end);
    assert_int_equal(row->label, label);
    assert_int_equal(row->offset, 0);
    assert_int_equal(row->requested_bytes, BYTES);
}

static void a_block_is_one_row_or_one_for_each_label(void **state)
{
    (void)state;
    const struct mt_run *run;
    struct mt_trace *trace = open_run(&run);
    struct mt_block_row *blocks;
    size_t count;
    assert_int_equal(mt_trace_blocks(trace, run, 1, 7, &blocks, &count), MT_OK);
    assert_int_equal(count, 2);
    expect_row(&blocks[0], 2, 7, 3);
    free(blocks);
    assert_int_equal(read_blocks_by_label(trace, run, &blocks, &count), MT_OK);
    assert_int_equal(count, 4);
    expect_row(&blocks[0], 2, 3, 1);
    expect_row(&blocks[1], 3, 6, 2);
    expect_row(&blocks[3], 6, 7, 3);
    free(blocks);
    mt_trace_close(trace);
}

static void a_relabel_has_the_bytes_of_its_alloc_whatever_its_row_says(void **state)
{
    (void)state;
    const struct mt_run *run;
    struct mt_trace *trace = open_run(&run);
    struct mt_walk *walk;
    struct mt_walk_event event;
    bool more = true;
    mt_trace_close(trace);
    edit_trace(path, "UPDATE event SET requested_bytes = 9000, block_bytes = 9216 WHERE kind = 10");
    trace = open_newest(path, &run);
    assert_int_equal(mt_walk_begin(trace, run, &walk), MT_OK);
    while (mt_walk_next(walk, &event, &more) == MT_OK && more) {
        if (event.kind != MT_EVENT_RELABEL)
            continue;
        assert_int_equal(event.value, BYTES);
        assert_true(event.block_bytes >= BYTES && event.block_bytes < 9216);
    }
    mt_walk_end(walk);
    mt_trace_close(trace);
}

static void a_walk_tells_both_labels_and_the_last_with_the_free(void **state)
{
    (void)state;
    const struct mt_run *run;
    struct mt_trace *trace = open_run(&run);
    struct mt_walk *walk;
    struct mt_walk_event event;
    bool more = true;
    uint32_t last = 1, relabels = 0;
    assert_int_equal(mt_walk_begin(trace, run, &walk), MT_OK);
    while (mt_walk_next(walk, &event, &more) == MT_OK && more) {
        if (event.kind == MT_EVENT_RELABEL) {
            assert_int_equal(event.old_label, last);
            assert_int_equal(event.address, 1 << 20);
            assert_int_equal(event.id, 1);
            last = event.label;
            relabels++;
        }
        if (event.kind == MT_EVENT_FREE && event.id == 1)
            assert_int_equal(event.label, last);
    }
    assert_int_equal(relabels, 2);
    assert_int_equal(last, 3);
    mt_walk_end(walk);
    mt_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_relabel_is_a_row_with_its_alloc, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_peak_is_made_of_the_labels_of_its_moment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_live_block_has_the_label_of_the_moment_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_block_is_one_row_or_one_for_each_label, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_relabel_has_the_bytes_of_its_alloc_whatever_its_row_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_walk_tells_both_labels_and_the_last_with_the_free, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
