/* Leaks across steps: what random runs leave behind against sums over all their blocks, and runs made to leak. */
#include "base/text.h"
#include "seed.h"
#include "synthetic.h"
#include "trace/query/leaks.h"
#include "trace_opening.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A trace of its own for each test. */
struct fixture {
    char path[64];
    uint64_t seed;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture.seed = take_seed();
    snprintf(fixture.path, sizeof fixture.path, "test_leaks_%d.db", (int)getpid());
    unlink(fixture.path);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    unlink(((struct fixture *)*state)->path);
    return 0;
}

static mt_label_id make_label_in(const struct synthetic *run, int layer, int64_t length, mt_phase phase)
{
    const struct mt_sink *sink = run->sink;
    char number[16];
    snprintf(number, sizeof number, "%d", layer);
    mt_span_id model = sink->intern_span(sink->context, 0, "model");
    const struct mt_label label = {.category = MT_CATEGORY_LOSS,
                                   .role = MT_ROLE_ACTIVATION,
                                   .phase = phase,
                                   .dtype = MT_F32,
                                   .op = "kept",
                                   .span = sink->intern_span(sink->context, model, number),
                                   .layer = layer,
                                   .dims = 1,
                                   .shape = {length}};
    return sink->intern_label(sink->context, &label);
}

static mt_label_id make_label(const struct synthetic *run, int layer, int64_t length)
{
    return make_label_in(run, layer, length, MT_PHASE_LOSS);
}

/* Takes a block that the moves of the run do not give back. */
static struct synthetic_block keep(struct synthetic *run, mt_label_id label, uint64_t bytes)
{
    if (run->free_count == 0)
        synthetic_grow(run);
    struct synthetic_block block = {run->free_slots[--run->free_count], bytes, (bytes + 511) / 512 * 512, label};
    synthetic_emit_block(run, MT_EVENT_ALLOC, block);
    return block;
}

static void give(struct synthetic *run, struct synthetic_block block)
{
    synthetic_emit_block(run, MT_EVENT_FREE, block);
    run->free_slots[run->free_count++] = block.slot;
}

/* The newest run of the trace, and its leaks. */
struct answer {
    struct mt_trace *trace;
    const struct mt_run *run;
    struct mt_leaks leaks;
};

static void ask(const struct fixture *fixture, struct answer *out)
{
    out->trace = open_newest(fixture->path, &out->run);
    if (mt_trace_leaks(out->trace, out->run, &out->leaks) != MT_OK)
        fail_msg("%s", mt_last_error());
}

static void answer_release(struct answer *answer)
{
    mt_leaks_release(&answer->leaks);
    mt_trace_close(answer->trace);
}

/* True if two labels differ in layer and shape only. */
static bool are_alike(const struct mt_label_row *a, const struct mt_label_row *b)
{
    return strcmp(a->category, b->category) == 0 && strcmp(a->role, b->role) == 0 && strcmp(a->op, b->op) == 0 &&
           strcmp(a->phase, b->phase) == 0 && strcmp(a->dtype, b->dtype) == 0 && strcmp(a->place, b->place) == 0;
}

/* Everything of a run, as scans need it. */
struct whole {
    struct mt_label_row *labels;
    struct mt_block_row *blocks;
    size_t label_count, block_count;
    int64_t ends[64];
    size_t end_count;
};

static void load(const struct answer *answer, struct whole *out)
{
    struct mt_mark_row *marks;
    size_t count;
    int64_t first = answer->run->first_event, last = first + answer->run->event_count - 1;
    *out = (struct whole){0};
    assert_int_equal(mt_trace_labels(answer->trace, answer->run, &out->labels, &out->label_count), MT_OK);
    assert_int_equal(mt_trace_blocks(answer->trace, answer->run, first, last, &out->blocks, &out->block_count), MT_OK);
    assert_int_equal(mt_trace_marks(answer->trace, answer->run, first, last, &marks, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        if (marks[i].kind == MT_EVENT_STEP_END)
            out->ends[out->end_count++] = marks[i].event;
    free(marks);
}

static void whole_release(struct whole *whole)
{
    free(whole->labels);
    free(whole->blocks);
}

/* The bytes of blocks alike to `label` after `event`. */
static uint64_t scan_live(const struct whole *whole, size_t label, int64_t event)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < whole->block_count; i++) {
        const struct mt_block_row *block = &whole->blocks[i];
        bool live = block->alloc_event <= event && (block->free_event == 0 || block->free_event > event);
        if (live && are_alike(&whole->labels[block->label], &whole->labels[label]))
            bytes += block->requested_bytes;
    }
    return bytes;
}

static void check_label(const struct answer *answer, const struct whole *whole, size_t label)
{
    size_t looked_at = whole->end_count - 1 < MT_LEAK_MOST_ENDS ? whole->end_count - 1 : MT_LEAK_MOST_ENDS;
    const int64_t *ends = whole->ends + whole->end_count - looked_at;
    uint64_t first = scan_live(whole, label, ends[0]), before = first, grew = 0;
    bool fell = false;
    for (size_t i = 1; i < looked_at; i++) {
        uint64_t now = scan_live(whole, label, ends[i]);
        grew += now > before;
        fell |= now < before;
        before = now;
    }
    size_t row = answer->leaks.row_of_label[label];
    if (fell || grew < mt_leak_least_growths(looked_at)) {
        assert_true(row == MT_NO_LEAK);
        return;
    }
    assert_true(row < answer->leaks.row_count);
    assert_int_equal(answer->leaks.rows[row].first_bytes, first);
    assert_int_equal(answer->leaks.rows[row].last_bytes, before);
    assert_int_equal(answer->leaks.rows[row].grew, grew);
    assert_string_equal(answer->leaks.rows[row].place, whole->labels[label].place);
}

static void record_random(const struct fixture *fixture, uint64_t seed, uint64_t steps)
{
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, fixture->path, "random", seed, 3 + seed % 40), MT_OK);
    for (uint64_t step = 0; step < steps; step++)
        synthetic_step(&run, step, 20 + seed % 400, 10 + seed % 50);
    assert_int_equal(synthetic_close(&run), MT_OK);
}

static void leaks_of_random_runs_are_those_of_a_scan_over_all_blocks(void **state)
{
    const struct fixture *fixture = *state;
    size_t leaks = 0;
    for (uint64_t i = 0; i < 12; i++) {
        struct answer answer;
        struct whole whole;
        record_random(fixture, fixture->seed + i, MT_LEAK_LEAST_STEPS + i);
        ask(fixture, &answer);
        load(&answer, &whole);
        assert_int_equal(answer.leaks.label_count, whole.label_count);
        for (size_t label = 0; label < whole.label_count; label++)
            check_label(&answer, &whole, label);
        for (size_t row = 1; row < answer.leaks.row_count; row++) {
            const struct mt_leak_row *above = &answer.leaks.rows[row - 1], *below = above + 1;
            assert_true(above->last_bytes - above->first_bytes >= below->last_bytes - below->first_bytes);
        }
        leaks += answer.leaks.row_count;
        whole_release(&whole);
        answer_release(&answer);
    }
    assert_true(leaks > 0);
}

static void a_block_kept_after_each_step_is_found_with_its_bytes(void **state)
{
    const struct fixture *fixture = *state;
    struct synthetic run;
    struct answer answer;
    assert_int_equal(synthetic_open(&run, fixture->path, "leaky", 1, 1), MT_OK);
    for (uint64_t step = 0; step < 4; step++) {
        synthetic_step(&run, step, 0, 1);
        keep(&run, make_label(&run, (int)step % 2, 7), 1000); /* of two layers, one kind */
    }
    assert_int_equal(synthetic_close(&run), MT_OK);
    ask(fixture, &answer);
    assert_int_equal(answer.leaks.row_count, 1);
    const struct mt_leak_row *row = &answer.leaks.rows[0];
    assert_int_equal(answer.leaks.first_step, 1);
    assert_int_equal(answer.leaks.last_step, 3);
    assert_int_equal(row->first_bytes, 1000);
    assert_int_equal(row->last_bytes, 3 * 1000);
    assert_int_equal(row->last_blocks, 3);
    assert_int_equal(row->grew, 2);
    assert_string_equal(row->category, "Loss");
    assert_string_equal(row->op, "kept");
    assert_string_equal(row->place, "model.*");
    assert_string_equal(row->shape, "7");
    answer_release(&answer);
}

static void leaked_blocks_of_several_lengths_are_one_kind(void **state)
{
    const struct fixture *fixture = *state;
    struct synthetic run;
    struct answer answer;
    assert_int_equal(synthetic_open(&run, fixture->path, "lengths", 1, 1), MT_OK);
    for (uint64_t step = 0; step < 5; step++) {
        synthetic_step(&run, step, 0, 1);
        keep(&run, make_label(&run, 0, (int64_t)(100 - step)), 4 * (100 - step));
    }
    assert_int_equal(synthetic_close(&run), MT_OK);
    ask(fixture, &answer);
    assert_int_equal(answer.leaks.row_count, 1);
    assert_string_equal(answer.leaks.rows[0].shape, "");
    assert_int_equal(answer.leaks.rows[0].last_blocks - answer.leaks.rows[0].first_blocks, 3);
    answer_release(&answer);
}

/* Made in the first step, replaced in each, or larger in one step than in the next. */
static void what_stays_and_what_comes_and_goes_is_no_leak(void **state)
{
    const struct fixture *fixture = *state;
    static const uint64_t sizes[] = {512, 1024, 4096, 2048, 2560};
    struct synthetic run;
    struct answer answer;
    struct synthetic_block replaced = {0}, varied = {0};
    assert_int_equal(synthetic_open(&run, fixture->path, "tight", 1, 1), MT_OK);
    for (uint64_t step = 0; step < 5; step++) {
        synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_STEP_BEGIN, .value = step});
        if (step == 0)
            keep(&run, make_label(&run, 0, 1), 4096);
        if (step > 0) {
            give(&run, replaced);
            give(&run, varied);
        }
        replaced = keep(&run, make_label(&run, 1, 2), 2048);
        varied = keep(&run, run.labels[0], sizes[step]);
        synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_STEP_END, .value = step});
    }
    assert_int_equal(synthetic_close(&run), MT_OK);
    ask(fixture, &answer);
    assert_int_equal(answer.leaks.row_count, 0);
    answer_release(&answer);
}

/* Three batches are in flight: each step makes one and frees the oldest. Those from before the first step have another
 * phase. */
static void a_queue_is_no_leak(void **state)
{
    const struct fixture *fixture = *state;
    struct synthetic run;
    struct answer answer;
    struct synthetic_block queue[3 + 4];
    assert_int_equal(synthetic_open(&run, fixture->path, "queue", 1, 1), MT_OK);
    for (int i = 0; i < 3; i++)
        queue[i] = keep(&run, make_label_in(&run, 0, 1, MT_PHASE_INIT), 4096);
    for (uint64_t step = 0; step < 4; step++) {
        synthetic_step(&run, step, 0, 1);
        give(&run, queue[step]);
        queue[step + 3] = keep(&run, make_label(&run, 0, 1), 4096);
    }
    assert_int_equal(synthetic_close(&run), MT_OK);
    ask(fixture, &answer);
    assert_int_equal(answer.leaks.row_count, 0);
    answer_release(&answer);
}

/* A block that was there before, and gets another label between two ends. */
static void another_label_is_no_leak(void **state)
{
    const struct fixture *fixture = *state;
    struct synthetic run;
    struct answer answer;
    assert_int_equal(synthetic_open(&run, fixture->path, "labels", 1, 1), MT_OK);
    struct synthetic_block block = keep(&run, make_label(&run, 0, 1), 4096);
    for (uint64_t step = 0; step < 4; step++) {
        if (step == 2) {
            block.label = run.labels[0];
            synthetic_emit_block(&run, MT_EVENT_RELABEL, block);
        }
        synthetic_step(&run, step, 0, 1);
    }
    assert_int_equal(synthetic_close(&run), MT_OK);
    ask(fixture, &answer);
    assert_int_equal(answer.leaks.row_count, 0);
    answer_release(&answer);
}

/* Ends of steps before the last eight are not compared. */
static void only_the_last_steps_count(void **state)
{
    const struct fixture *fixture = *state;
    struct synthetic run;
    struct answer answer;
    assert_int_equal(synthetic_open(&run, fixture->path, "late", 1, 1), MT_OK);
    for (uint64_t step = 0; step < MT_LEAK_MOST_ENDS + 3; step++) {
        if (step == 2)
            keep(&run, make_label(&run, 0, 1), 4096);
        synthetic_step(&run, step, 0, 1);
    }
    assert_int_equal(synthetic_close(&run), MT_OK);
    ask(fixture, &answer);
    assert_int_equal(answer.leaks.first_step, 3);
    assert_int_equal(answer.leaks.row_count, 0);
    answer_release(&answer);
}

static void a_run_of_two_steps_is_refused_as_too_short(void **state)
{
    const struct fixture *fixture = *state;
    struct answer answer;
    record_random(fixture, 5, MT_LEAK_LEAST_STEPS - 1);
    answer.trace = open_newest(fixture->path, &answer.run);
    assert_int_equal(mt_trace_leaks(answer.trace, answer.run, &answer.leaks), MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "has 2 full steps"));
    answer_release(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(leaks_of_random_runs_are_those_of_a_scan_over_all_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_block_kept_after_each_step_is_found_with_its_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaked_blocks_of_several_lengths_are_one_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_stays_and_what_comes_and_goes_is_no_leak, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_queue_is_no_leak, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_label_is_no_leak, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_last_steps_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_of_two_steps_is_refused_as_too_short, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
