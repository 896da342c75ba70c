/* A category that a program names is one like ours, from the allocator to the page. */
#include "alloc_opening.h"
#include "page/page_run.h"
#include "trace/query/trace.h"
#include "trace_path.h"

enum { MIB = 1 << 20 };

static mt_label_id label_of(struct mt_alloc *alloc, const char *category)
{
    const struct mt_label label = {
        .category = mt_alloc_intern_category(alloc, category), .phase = MT_PHASE_BACKWARD, .op = "take", .layer = -1};
    return mt_alloc_intern_label(alloc, &label);
}

static void take(struct mt_alloc *alloc, const char *category, uint64_t bytes)
{
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(alloc, bytes, 0, label_of(alloc, category), 0, &block), MT_OK);
}

/* The allocator counts it, and says its name when a request of it is refused. */
static void use_allocator(struct mt_alloc *alloc)
{
    struct mt_block *block;
    struct mt_alloc_stats stats;
    take(alloc, "Vision tower", 30 * MIB);
    take(alloc, "Norm", 20 * MIB);
    take(alloc, "Vision tower", 10 * MIB);
    mt_category tower = mt_alloc_intern_category(alloc, "Vision tower");
    assert_int_equal(tower, MT_CATEGORY_COUNT);
    assert_int_equal(mt_alloc_take(alloc, 90 * MIB, 0, label_of(alloc, "Vision tower"), 0, &block), MT_OUT_OF_MEMORY);
    assert_non_null(strstr(mt_last_error(), "of Vision tower;"));
    mt_alloc_stats(alloc, &stats);
    assert_int_equal(stats.category[tower].requested_bytes, 40 * MIB);
    assert_int_equal(stats.last_refusal.live_bytes[tower], 40 * MIB);
    assert_int_equal(mt_alloc_check(alloc), MT_OK);
}

static void record(void)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct mt_device *device = open_device("sim:100MiB");
    struct mt_alloc *alloc = create_alloc(device, "", mt_recorder_sink(recorder));
    use_allocator(alloc);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    fixture_close(recorder, MT_RUN_OOM);
}

static void check_categories(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_category_row *rows;
    size_t count;
    assert_int_equal(mt_trace_categories(trace, run, NULL, &rows, &count), MT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].category, "Vision tower");
    assert_int_equal(rows[0].max_bytes, 30 * MIB);
    assert_int_equal(rows[0].total_bytes, 40 * MIB);
    free(rows);
}

static void check_peak(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(trace, run, MT_MEASURE_REQUESTED, &peak), MT_OK);
    assert_int_equal(peak.share_count, 2);
    assert_string_equal(peak.shares[0].name, "Vision tower");
    assert_int_equal(peak.shares[0].requested_bytes, 40 * MIB);
    mt_peak_row_release(&peak);
}

static void check_page(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_page_names names;
    struct mt_page_run page;
    mt_page_names_create(&names);
    assert_int_equal(mt_page_run_load(trace, path, run, &names, &page), MT_OK);
    assert_int_equal(names.category_count, MT_CATEGORY_COUNT + 1);
    assert_string_equal(mt_name_set_name(names.categories, MT_CATEGORY_COUNT + 1), "Vision tower");
    mt_page_run_release(&page);
    mt_page_names_release(&names);
}

static void a_named_category_is_one_like_ours(void **state)
{
    (void)state;
    struct mt_trace *trace;
    size_t count;
    record();
    assert_int_equal(mt_trace_open(path, &trace), MT_OK);
    const struct mt_run *run = mt_trace_runs(trace, &count);
    check_categories(trace, run);
    check_peak(trace, run);
    check_page(trace, run);
    mt_trace_close(trace);
}

/* The sixty-fifth is Other, in the tables too. */
static void names_beyond_the_most_are_other(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    for (uint64_t i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "named %d", (int)i);
        const struct mt_label label = {.category = mt_sink_category(sink, name), .op = "x", .layer = -1};
        const struct mt_event event = {.sequence = i,
                                       .kind = MT_EVENT_ALLOC,
                                       .requested_bytes = 1,
                                       .block_bytes = 1,
                                       .offset = i,
                                       .label = sink->intern_label(sink->context, &label)};
        sink->emit(sink->context, &event);
    }
    fixture_close(recorder, MT_RUN_DONE);
    int kept = MT_MOST_CATEGORIES - MT_CATEGORY_COUNT;
    assert_int_equal(sql_integer(path, "SELECT count(DISTINCT category) FROM summary_category"), kept + 1);
    assert_int_equal(sql_integer(path, "SELECT blocks FROM summary_peak_category WHERE category = 'Other' AND step = -2"
                                       " AND measure = 'requested'"),
                     100 - kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_named_category_is_one_like_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_beyond_the_most_are_other, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
