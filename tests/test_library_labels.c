/* What a program of the library can say of a block besides the common: many dims, another label later, a span that the
 * thread is not in, a call stack; and labels of programs that were compiled with an older header. */
#include "library_fixture.h"
#include "recorder_fixture.h"
#include "trace/query/blocks.h"
#include "trace_opening.h"

#include <memtrace.h>
#include <pthread.h>

static const memtrace_top_row *const *top_rows(memtrace_trace *trace, const memtrace_run_row *row, size_t count)
{
    const memtrace_top_row *const *rows;
    size_t found;
    assert_ok(memtrace_trace_top(trace, row, MEMTRACE_WHOLE_RUN, 100, &rows, &found));
    assert_int_equal(found, count);
    return rows;
}

static void a_shape_has_up_to_sixteen_dims(void **state)
{
    (void)state;
    memtrace_run *run = open_run(NULL);
    memtrace_label label = label_of("Mine");
    label.dims = MEMTRACE_MOST_DIMS;
    for (int i = 0; i < MEMTRACE_MOST_DIMS; i++)
        label.shape[i] = i + 1;
    assert_ok(memtrace_note_take(run, 4096, 512, 0, &label));
    label.dims++;
    assert_fails(memtrace_note_take(run, 8192, 512, 0, &label), MEMTRACE_USAGE, "17 dims; 0 to 16");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    const memtrace_top_row *const *rows = top_rows(trace, row, 1);
    assert_string_equal(rows[0]->shape, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16");
    memtrace_free(rows);
    memtrace_trace_close(trace);
}

/* The label of version 0.1, which ended with four numbers. What lies behind it is not the library's to read. */
struct label_0_1 {
    size_t size;
    const char *category;
    memtrace_role role;
    memtrace_dtype dtype;
    const char *op;
    int32_t dims;
    int64_t shape[4];
    uint64_t beyond[32];
};

static void a_label_of_version_0_1_has_four_dims_and_no_more(void **state)
{
    (void)state;
    struct label_0_1 old = {.size = offsetof(struct label_0_1, beyond),
                            .category = "Old",
                            .role = MEMTRACE_GRADIENT,
                            .dtype = MEMTRACE_U8,
                            .dims = 4,
                            .shape = {2, 3, 4, 5}};
    memset(old.beyond, 0x5A, sizeof old.beyond);
    memtrace_run *run = open_run(NULL);
    assert_ok(memtrace_note_take(run, 4096, 120, 0, (const memtrace_label *)&old));
    old.dims = 5;
    assert_fails(memtrace_note_take(run, 8192, 120, 0, (const memtrace_label *)&old), MEMTRACE_USAGE, "5 dims; 0 to 4");
    old.size = offsetof(struct label_0_1, shape);
    assert_fails(memtrace_note_take(run, 8192, 120, 0, (const memtrace_label *)&old), MEMTRACE_USAGE, "5 dims; 0 to 0");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    const memtrace_top_row *const *rows = top_rows(trace, row, 1);
    assert_string_equal(rows[0]->shape, "2,3,4,5");
    assert_string_equal(rows[0]->role, "gradient");
    assert_string_equal(rows[0]->span, "");
    memtrace_free(rows);
    memtrace_trace_close(trace);
}

static void a_block_that_gets_another_label_has_it_from_then_on(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    memtrace_label gradient = label_of("Gradient");
    gradient.role = MEMTRACE_GRADIENT;
    uint64_t product = take(run, 5 * MIB, "einsum");
    assert_ok(memtrace_relabel(run, product, &gradient));
    uint64_t other = take(run, 3 * MIB, "Param");
    assert_fails(memtrace_relabel(run, product + 512, &gradient), MEMTRACE_USAGE, "no live block begins");
    gradient.role = (memtrace_role)77;
    assert_fails(memtrace_relabel(run, product, &gradient), MEMTRACE_USAGE, "role 77");
    memtrace_block block = {.size = sizeof block};
    assert_ok(memtrace_find(run, product, &block));
    assert_int_equal(block.requested_bytes, 5 * MIB);
    assert_ok(memtrace_give(run, product));
    assert_ok(memtrace_give(run, other));
    memtrace_statistics statistics = {.size = sizeof statistics};
    assert_ok(memtrace_run_statistics(run, &statistics));
    assert_int_equal(statistics.peak_requested_bytes, 8 * MIB);
    assert_int_equal(statistics.blocks, 0);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_REQUESTED);
    assert_int_equal(peak->bytes, 8 * MIB);
    assert_int_equal(peak->share_count, 2);
    assert_int_equal(share_of(peak, "Gradient")->requested_bytes, 5 * MIB);
    memtrace_free(peak);
    memtrace_trace_close(trace);
}

static void a_noted_block_gets_another_label_too(void **state)
{
    (void)state;
    memtrace_run *run = open_run(NULL);
    memtrace_label parameter = label_of("Param");
    memtrace_note_map(run, 64 * MIB, 32 * MIB, 0);
    assert_ok(memtrace_note_take(run, 64 * MIB, 8 * MIB, 9, NULL));
    assert_ok(memtrace_note_relabel(run, 64 * MIB, &parameter));
    assert_ok(memtrace_note_take(run, 80 * MIB, 4 * MIB, 0, NULL));
    assert_ok(memtrace_note_relabel(run, 65 * MIB, &parameter)); /* no block begins there */
    parameter.dims = -1;
    assert_fails(memtrace_note_relabel(run, 64 * MIB, &parameter), MEMTRACE_USAGE, "-1 dims");
    memtrace_note_counts counts = {.size = sizeof counts};
    assert_ok(memtrace_run_note_counts(run, &counts));
    assert_int_equal(counts.takes, 2);
    assert_int_equal(counts.gives, 0);
    assert_int_equal(counts.unseen_relabels, 1);
    memtrace_note_give(run, 64 * MIB);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_ALLOCATED);
    assert_int_equal(peak->bytes, 12 * MIB);
    assert_int_equal(share_of(peak, "Param")->requested_bytes, 8 * MIB);
    assert_int_equal(share_of(peak, "Other")->requested_bytes, 4 * MIB);
    memtrace_free(peak);
    memtrace_trace_close(trace);
}

static void a_role_says_how_it_was_found(void **state)
{
    (void)state;
    static const char *const sources[] = {"declared", "observed", "inferred"};
    memtrace_run *run = open_run("sim");
    for (int i = 0; i < 3; i++) {
        memtrace_label label = label_of("Param");
        uint64_t address;
        label.role_source = (memtrace_role_source)i;
        assert_ok(memtrace_take(run, 4096, 0, &label, &address));
    }
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const struct mt_run *row;
    struct mt_label_row *labels;
    size_t count;
    struct mt_trace *trace = open_newest(TRACE, &row);
    assert_int_equal(mt_trace_labels(trace, row, &labels, &count), MT_OK);
    assert_int_equal(count, 4); /* the first is none */
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(labels[i + 1].role_source, sources[i]);
    free(labels);
    mt_trace_close(trace);
}

static void a_span_by_its_path_is_the_one_that_nested_spans_are(void **state)
{
    (void)state;
    static const char *const names[] = {"model", "layers", "7", "ffn"};
    memtrace_run *run = open_run("sim");
    memtrace_label label = label_of("Mine");
    for (int i = 0; i < 4; i++)
        assert_ok(memtrace_span_begin(run, names[i]));
    take(run, 4096, "Mine");
    for (int i = 0; i < 4; i++)
        assert_ok(memtrace_span_end(run));
    label.span = memtrace_span(run, "model.layers.7.ffn");
    uint64_t address;
    assert_ok(memtrace_take(run, 4096, 0, &label, &address));
    assert_ok(memtrace_span_enter(run, label.span));
    take(run, 4096, "Mine");
    assert_ok(memtrace_span_end(run));
    label.span = memtrace_span(run, "model.layers.8.ffn");
    assert_ok(memtrace_take(run, 4096, 0, &label, &address));
    assert_int_equal(label.span, memtrace_span(run, ".model.layers..8.ffn"));
    assert_int_equal(memtrace_span(run, NULL), 0);
    assert_int_equal(memtrace_span(run, "."), 0);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    const memtrace_top_row *const *rows = top_rows(trace, row, 1);
    assert_int_equal(rows[0]->count, 4);
    assert_string_equal(rows[0]->span, "model.layers.*.ffn");
    memtrace_free(rows);
    memtrace_trace_close(trace);
}

static void numbers_of_another_run_are_refused(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    memtrace_label label = label_of("Mine");
    uint64_t address;
    assert_ok(memtrace_span_begin(run, "by name alone"));
    label.span = 1;
    assert_fails(memtrace_take(run, 4096, 0, &label, &address), MEMTRACE_USAGE, "1 is no span of this run");
    assert_fails(memtrace_span_enter(run, 99), MEMTRACE_USAGE, "99 is no span of this run");
    assert_fails(memtrace_span_enter(run, 0), MEMTRACE_USAGE, "0 is no span of this run");
    label.span = 0;
    label.stack = 99;
    assert_fails(memtrace_take(run, 4096, 0, &label, &address), MEMTRACE_USAGE, "99 is no stack of this run");
    assert_int_equal(memtrace_stack(run, 0, 99), 0);
    assert_int_equal(memtrace_stack(run, 0, 0), 0);
    label.stack = 0;
    label.role_source = (memtrace_role_source)3;
    assert_fails(memtrace_take(run, 4096, 0, &label, &address), MEMTRACE_USAGE, "source 3");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

/* Two requests of one function and one of its caller: three frames, and as many stacks. */
static void the_call_stack_of_a_request_is_stored(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    memtrace_label label = label_of("Mine");
    uint64_t address;
    const uint32_t outer = memtrace_stack(run, 0, memtrace_frame(run, "main", "train.py", 40));
    for (uint32_t line = 12; line < 14; line++) {
        label.stack = memtrace_stack(run, outer, memtrace_frame(run, "forward", "model.py", line));
        assert_ok(memtrace_take(run, 4096, 0, &label, &address));
    }
    assert_int_equal(memtrace_stack(run, outer, memtrace_frame(run, "forward", "model.py", 13)), label.stack);
    label.stack = memtrace_stack(run, 0, memtrace_frame(run, NULL, NULL, 0));
    assert_ok(memtrace_note_take(run, 4096, 512, 0, &label));
    label.stack = 0;
    assert_ok(memtrace_take(run, 4096, 0, &label, &address));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    assert_string_equal(sql_text(TRACE, "SELECT group_concat(function || ' ' || file || ':' || line) FROM "
                                        "(SELECT * FROM frame ORDER BY id)"),
                        "main train.py:40,forward model.py:12,forward model.py:13, :0");
    assert_string_equal(sql_text(TRACE, "SELECT group_concat(ifnull(parent, -1)) FROM (SELECT parent FROM event LEFT "
                                        "JOIN stack ON stack.id = event.stack WHERE kind = "
                                        "(SELECT id FROM event_kind WHERE name = 'alloc') ORDER BY event.id)"),
                        "1,1,0,-1");
}

static void memory_outside_of_allocators_is_told_by_kind_and_holder(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    assert_ok(memtrace_note_outside(run, MEMTRACE_CONTEXT, NULL, 500 * MIB));
    assert_ok(memtrace_note_outside(run, MEMTRACE_NCCL, "ring", MIB));
    memtrace_step_begin(run);
    assert_ok(memtrace_note_outside(run, MEMTRACE_NCCL, "ring", 3 * MIB));
    assert_ok(memtrace_note_outside(run, MEMTRACE_OUTSIDE, "driver", 0));
    assert_fails(memtrace_note_outside(run, (memtrace_outside)4, "", 1), MEMTRACE_USAGE, "kind 4; there are 0 to 3");
    assert_fails(memtrace_note_outside(run, MEMTRACE_NCCL, "", UINT64_MAX), MEMTRACE_USAGE,
                 "18446744073709551615 bytes outside; at most 9223372036854775807 can be noted");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    assert_string_equal(sql_text(TRACE, "SELECT group_concat(kind || ' ' || name || ' ' || (bytes / 1048576)) FROM "
                                        "(SELECT * FROM outside ORDER BY event, kind)"),
                        "context  500,nccl ring 1,nccl ring 3,other driver 0");
}

/* The library asks no driver, also on a card that has one. */
static void what_a_process_uses_is_not_told_of_runs_of_the_library(void **state)
{
    (void)state;
    const struct mt_run *row;
    struct mt_used_row used;
    assert_ok(memtrace_run_close(open_run("sim"), MEMTRACE_RUN_DONE));
    struct mt_trace *trace = open_newest(TRACE, &row);
    assert_int_equal(mt_trace_used(trace, row, &used), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "run 1, on sim:h200, has no driver's figure"));
    mt_trace_close(trace);
}

static void *go_on(void *run)
{
    assert_ok(memtrace_phase_begin(run, MEMTRACE_BACKWARD));
    memtrace_step_begin(run);
    return NULL;
}

static void phase_and_step_are_the_runs(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    pthread_t thread;
    assert_int_equal(memtrace_phase_now(run), MEMTRACE_INIT);
    assert_int_equal(memtrace_step_now(run), MEMTRACE_BEFORE_STEPS);
    memtrace_step_begin(run);
    memtrace_step_end(run);
    assert_int_equal(pthread_create(&thread, NULL, go_on, run), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(memtrace_phase_now(run), MEMTRACE_BACKWARD);
    assert_int_equal(memtrace_step_now(run), 1);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(a_shape_has_up_to_sixteen_dims),
        LIBRARY_TEST(a_label_of_version_0_1_has_four_dims_and_no_more),
        LIBRARY_TEST(a_block_that_gets_another_label_has_it_from_then_on),
        LIBRARY_TEST(a_noted_block_gets_another_label_too),
        LIBRARY_TEST(a_role_says_how_it_was_found),
        LIBRARY_TEST(a_span_by_its_path_is_the_one_that_nested_spans_are),
        LIBRARY_TEST(numbers_of_another_run_are_refused),
        LIBRARY_TEST(the_call_stack_of_a_request_is_stored),
        LIBRARY_TEST(memory_outside_of_allocators_is_told_by_kind_and_holder),
        LIBRARY_TEST(what_a_process_uses_is_not_told_of_runs_of_the_library),
        LIBRARY_TEST(phase_and_step_are_the_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
