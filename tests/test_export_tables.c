/* Exported tables: CSV and JSON that agree with the trace. */
#include "csv_reader.h"
#include "export_fixture.h"

static void expect_block_fields(const struct csv *csv, const struct mt_block_row *block,
                                const struct mt_label_row *label, int64_t first_event)
{
    assert_int_equal(csv_integer(csv, "id"), block->alloc_event - first_event);
    assert_int_equal(csv_integer(csv, "alloc_ns"), block->alloc_ns);
    if (block->free_event == 0) {
        assert_string_equal(csv_get(csv, "free_id"), "");
        assert_string_equal(csv_get(csv, "free_ns"), "");
    } else {
        assert_int_equal(csv_integer(csv, "free_id"), block->free_event - first_event);
        assert_int_equal(csv_integer(csv, "free_ns"), block->free_ns);
    }
    assert_int_equal(csv_integer(csv, "requested_bytes"), block->requested_bytes);
    assert_int_equal(csv_integer(csv, "block_bytes"), block->block_bytes);
    assert_int_equal(csv_integer(csv, "segment"), block->segment);
    assert_int_equal(csv_integer(csv, "offset"), block->offset);
    assert_int_equal(csv_integer(csv, "stream"), block->stream);
    assert_string_equal(csv_get(csv, "category"), label->category);
    assert_string_equal(csv_get(csv, "role"), label->role);
    assert_string_equal(csv_get(csv, "op"), label->op);
    assert_string_equal(csv_get(csv, "phase"), label->phase);
    assert_string_equal(csv_get(csv, "dtype"), label->dtype);
    assert_string_equal(csv_get(csv, "shape"), label->shape);
    assert_string_equal(csv_get(csv, "span"), label->span);
    assert_int_equal(csv_get(csv, "layer")[0] == '\0', label->layer < 0);
    assert_true(label->layer < 0 || csv_integer(csv, "layer") == label->layer);
}

static void the_table_of_blocks_says_what_the_trace_says(void **state)
{
    struct fixture *fixture = *state;
    struct mt_block_row *blocks;
    struct mt_label_row *labels;
    size_t count, label_count, row = 0;
    struct csv csv = csv_begin(export_to("blocks", "blocks.csv"));
    assert_int_equal(mt_trace_blocks(fixture->trace, fixture->run, 0, INT64_MAX, &blocks, &count), MT_OK);
    assert_int_equal(mt_trace_labels(fixture->trace, fixture->run, &labels, &label_count), MT_OK);
    assert_true(count > 100);
    for (; csv_next(&csv); row++) {
        assert_true(row < count);
        expect_block_fields(&csv, &blocks[row], &labels[blocks[row].label], fixture->run->first_event);
    }
    assert_int_equal(row, count);
    free(csv.text);
    free(blocks);
    free(labels);
}

/* Returns a value of JSON as CSV has it. */
static void expect_same_value(const json_t *value, const char *field)
{
    char text[32];
    assert_non_null(value);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    assert_string_equal(json_is_null(value) ? "" : json_is_integer(value) ? text : json_string_value(value), field);
}

static void json_has_the_rows_of_csv(void **state)
{
    (void)state;
    static const char *const tables[] = {"blocks", "events", "peaks", "blocks --step 1", "events --step 0"};
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++) {
        struct csv csv = csv_begin(export_to(tables[table], "table.csv"));
        char *text = export_to(tables[table], "table.json"), schema[64];
        json_t *json = json_loads(text, 0, NULL), *rows = json_object_get(json, "rows");
        snprintf(schema, sizeof schema, "memtrace.export_%.*s/%d", (int)strcspn(tables[table], " "), tables[table],
                 strncmp(tables[table], "peaks", strlen("peaks")) == 0 ? 1 : 2);
        assert_schema(json, schema);
        assert_string_equal(text_of(json, "name"), "cast");
        size_t row = 0;
        for (; csv_next(&csv); row++) {
            const json_t *object = json_array_get(rows, row);
            assert_int_equal(json_object_size(object), csv.column_count);
            for (size_t i = 0; i < csv.column_count; i++)
                expect_same_value(json_object_get(object, csv.titles[i]), csv.fields[i]);
        }
        assert_true(row > 20);
        assert_int_equal(row, json_array_size(rows));
        json_decref(json);
        free(text);
        free(csv.text);
    }
}

static void replaying_the_table_of_events_gives_the_peaks(void **state)
{
    struct csv csv = csv_begin(export_to("events", "events.csv"));
    int64_t n = 0, allocated = 0, requested = 0, most_allocated = 0, most_requested = 0;
    for (; csv_next(&csv); n++) {
        bool is_alloc = strcmp(csv_get(&csv, "action"), "alloc") == 0;
        assert_int_equal(csv_integer(&csv, "n"), n);
        assert_true(is_alloc || strcmp(csv_get(&csv, "action"), "free") == 0);
        allocated += csv_integer(&csv, "block_bytes") * (is_alloc ? 1 : -1);
        requested += csv_integer(&csv, "requested_bytes") * (is_alloc ? 1 : -1);
        most_allocated = allocated > most_allocated ? allocated : most_allocated;
        most_requested = requested > most_requested ? requested : most_requested;
    }
    assert_int_equal(most_allocated, peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED));
    assert_int_equal(most_requested, peak_bytes(*state, "cast", MT_MEASURE_REQUESTED));
    free(csv.text);
}

static void rows_of_a_peak_sum_to_it(void **state)
{
    struct csv csv = csv_begin(export_to("peaks", "peaks.csv"));
    char current[128] = "", of_row[sizeof current];
    int64_t left = 0, groups = 0, of_steps = 0;
    bool has_cached = false;
    while (csv_next(&csv)) {
        snprintf(of_row, sizeof of_row, "%s %s %s", csv_get(&csv, "scope"), csv_get(&csv, "step"),
                 csv_get(&csv, "measure"));
        if (strcmp(of_row, current) != 0) {
            assert_int_equal(left, 0);
            left = csv_integer(&csv, "peak_bytes");
            groups++;
        }
        strcpy(current, of_row);
        left -= csv_integer(&csv, "bytes");
        has_cached = has_cached || strcmp(csv_get(&csv, "category"), "(cached)") == 0;
        if (strcmp(of_row, "run  reserved") == 0)
            assert_int_equal(csv_integer(&csv, "peak_bytes"), peak_bytes(*state, "cast", MT_MEASURE_RESERVED));
        if (strcmp(csv_get(&csv, "scope"), "step") == 0 && strcmp(csv_get(&csv, "measure"), "allocated") == 0)
            of_steps = csv_integer(&csv, "peak_bytes") > of_steps ? csv_integer(&csv, "peak_bytes") : of_steps;
    }
    assert_int_equal(left, 0);
    assert_int_equal(groups, 3 * 4); /* the run, before the first step, two steps */
    assert_int_equal(of_steps, peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED));
    assert_true(has_cached);
    free(csv.text);
}

/* Returns the position in the run of the event that begins or ends step 1. */
static int64_t step_mark(const struct fixture *fixture, mt_event_kind kind)
{
    struct mt_mark_row *marks;
    size_t count;
    int64_t found = -1;
    assert_int_equal(mt_trace_marks(fixture->trace, fixture->run, 0, INT64_MAX, &marks, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        if (marks[i].kind == kind && marks[i].value == 1)
            found = marks[i].event - fixture->run->first_event;
    free(marks);
    assert_true(found > 0);
    return found;
}

static void blocks_of_a_step_were_live_in_it(void **state)
{
    int64_t begin = step_mark(*state, MT_EVENT_STEP_BEGIN), end = step_mark(*state, MT_EVENT_STEP_END);
    struct csv whole = csv_begin(export_to("blocks", "whole.csv"));
    struct csv part = csv_begin(export_to("blocks --step 1", "part.csv"));
    size_t left_out = 0;
    while (csv_next(&whole)) {
        bool is_freed = csv_get(&whole, "free_id")[0] != '\0';
        if (csv_integer(&whole, "id") > end || (is_freed && csv_integer(&whole, "free_id") < begin)) {
            left_out++;
            continue;
        }
        assert_true(csv_next(&part));
        assert_string_equal(csv_get(&part, "id"), csv_get(&whole, "id"));
        bool is_freed_later = is_freed && csv_integer(&whole, "free_id") > end;
        assert_string_equal(csv_get(&part, "free_id"), is_freed_later ? "" : csv_get(&whole, "free_id"));
    }
    assert_false(csv_next(&part));
    assert_true(left_out > 0);
    free(whole.text);
    free(part.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_blocks_says_what_the_trace_says),
        cmocka_unit_test(json_has_the_rows_of_csv),
        cmocka_unit_test(replaying_the_table_of_events_gives_the_peaks),
        cmocka_unit_test(rows_of_a_peak_sum_to_it),
        cmocka_unit_test(blocks_of_a_step_were_live_in_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
