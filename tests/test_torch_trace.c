/* The traces of PyTorch's memory: one for each card, in any order of first use, and ended while blocks are live. */
#include "base/text.h"
#include "fake_card.h"
#include "folder.h"
#include "producers/torch/torch_library.h"
#include "trace/query/blocks.h"
#include "trace/query/caveats.h"
#include "trace_opening.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int begin(void **state)
{
    *state = enter_folder("test_torch_trace");
    mt_torch_forget();
    assert_int_equal(memtrace_torch_configure("", "run.db", "a program"), 0);
    return 0;
}

static int end(void **state)
{
    mt_torch_forget();
    return leave_folder(state);
}

static void *take(int64_t bytes, int device)
{
    mt_addr address;
    assert_int_equal(mt_torch_take(bytes, device, 0, &address), MT_OK);
    return (void *)(uintptr_t)address;
}

/* A finished trace with its one run. */
struct ended {
    struct mt_trace *trace;
    const struct mt_run *run;
};

static struct ended open_ended(const char *path)
{
    struct ended ended;
    ended.trace = open_newest(path, &ended.run);
    assert_int_equal(ended.run->lost_events, 0);
    return ended;
}

static mt_status begin_events(void *context)
{
    (void)context;
    return MT_OK;
}

static mt_status add_event(void *context, const struct mt_event_row *row)
{
    mt_text_add(context, "%s %" PRIu64 " %s %s %s %s %s\n", row->action, row->bytes, row->category, row->role,
                row->phase, row->op, row->span);
    return MT_OK;
}

/* Returns the blocks of the run, a line each. The caller releases it. */
static struct mt_text events_of(const struct ended *ended, int64_t step)
{
    struct mt_text text = {0};
    struct mt_event_visitor visitor = {.context = &text, .begin = begin_events, .visit = add_event};
    assert_int_equal(mt_trace_events(ended->trace, ended->run, step, &visitor), MT_OK);
    return text;
}

static void assert_events(const struct ended *ended, int64_t step, const char *expected)
{
    struct mt_text text = events_of(ended, step);
    assert_string_equal(mt_text_get(&text), expected);
    mt_text_release(&text);
}

static void phase(const char *name, int category)
{
    memtrace_torch_phase(memtrace_torch_phase_number(name), category);
}

/* Runs a step with the calls of the hooks: forward, backward in the same thread, and a gradient. */
static void train(void)
{
    uint32_t model = memtrace_torch_span(0, "model", "Transformer");
    uint32_t layer = memtrace_torch_span(memtrace_torch_span(model, "layers", "ModuleList"), "3", "Block");
    uint32_t w1 = memtrace_torch_span(memtrace_torch_span(layer, "ffn", "FeedForward"), "w1", "Linear");
    (void)memtrace_torch_step_begin();
    phase("forward", MT_CATEGORY_DATA);
    memtrace_torch_free(take(8000, 0), 0, 0, NULL);
    uint32_t depth = memtrace_torch_span_begin(w1, MT_CATEGORY_EINSUM);
    void *kept = take(4000, 0);
    memtrace_torch_span_end(depth);
    phase("backward", MT_CATEGORY_LOSS);
    depth = memtrace_torch_span_begin(w1, MT_CATEGORY_EINSUM);
    void *gradient = take(2000, 0);
    memtrace_torch_span_end(depth);
    assert_int_equal(memtrace_torch_relabel(gradient, w1, MT_CATEGORY_GRADIENT, NULL), 0);
    memtrace_torch_free(kept, 0, 0, NULL);
    memtrace_torch_free(gradient, 0, 0, NULL);
    memtrace_torch_measure("loss", 4.25);
    memtrace_torch_step_end();
}

static void assert_roles_are_observed(const struct ended *ended)
{
    struct mt_label_row *labels;
    size_t count;
    assert_int_equal(mt_trace_labels(ended->trace, ended->run, &labels, &count), MT_OK);
    assert_true(count > 2);
    for (size_t i = 1; i < count; i++)
        assert_string_equal(labels[i].role_source, "observed");
    free(labels);
}

static void a_step_is_in_the_trace_as_it_was_told(void **state)
{
    (void)state;
    struct mt_measurement_row *losses;
    size_t count;
    train();
    assert_int_equal(memtrace_torch_close(0), 0);
    struct ended ended = open_ended("run.db");
    assert_string_equal(ended.run->name, "a program");
    assert_string_equal(ended.run->state, "done");
    assert_string_equal(ended.run->device, "fake:0");
    assert_int_equal(ended.run->steps, 1);
    assert_roles_are_observed(&ended);
    assert_int_equal(ended.run->last_full_step, 0);
    assert_events(&ended, 0,
                  "alloc 8000 Data input forward  \n"
                  "free 8000 Data input forward  \n"
                  "alloc 4000 einsum activation forward Linear model.layers.3.ffn.w1\n"
                  "alloc 2000 einsum temporary backward Linear model.layers.3.ffn.w1\n"
                  "relabel 2000 Gradient gradient backward Linear model.layers.3.ffn.w1\n"
                  "free 4000 einsum activation forward Linear model.layers.3.ffn.w1\n"
                  "free 2000 Gradient gradient backward Linear model.layers.3.ffn.w1\n");
    assert_int_equal(mt_trace_measurements(ended.trace, ended.run, "loss", &losses, &count), MT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(losses[0].step, 0);
    assert_true(losses[0].value == 4.25);
    free(losses);
    mt_trace_close(ended.trace);
}

/* Returns the spans of the run as they begin and end: "+" and "-" with the last part of their path. */
static struct mt_text spans_of(const struct ended *ended)
{
    struct mt_text text = {0};
    struct mt_mark_row *marks;
    size_t count;
    int64_t first = ended->run->first_event;
    assert_int_equal(
        mt_trace_marks(ended->trace, ended->run, first, first + ended->run->event_count - 1, &marks, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        if (marks[i].kind == MT_EVENT_SPAN_BEGIN || marks[i].kind == MT_EVENT_SPAN_END)
            mt_text_add(&text, "%c%s ", marks[i].kind == MT_EVENT_SPAN_BEGIN ? '+' : '-', marks[i].span);
        else if (marks[i].kind == MT_EVENT_PHASE)
            mt_text_add(&text, "%s ", mt_phase_name((mt_phase)marks[i].value));
    free(marks);
    return text;
}

static void assert_spans(const char *expected)
{
    assert_int_equal(memtrace_torch_close(0), 0);
    struct ended ended = open_ended("run.db");
    struct mt_text text = spans_of(&ended);
    assert_string_equal(mt_text_get(&text), expected);
    mt_text_release(&text);
    mt_trace_close(ended.trace);
}

static void deep_calls_end_as_they_began(void **state)
{
    (void)state;
    enum { DEEP = 300 };
    uint32_t span = memtrace_torch_span(0, "s", "Call");
    struct mt_text expected = {0};
    take(1000, 0);
    for (int i = 0; i < DEEP; i++)
        (void)memtrace_torch_span_begin(span, MT_CATEGORY_BLOCK);
    memtrace_torch_span_end(0);
    mt_text_add(&expected, "init ");
    for (int i = 0; i < 2 * DEEP; i++)
        mt_text_add(&expected, i < DEEP ? "+s " : "-s ");
    assert_spans(expected.data);
    mt_text_release(&expected);
}

/* A card that is first used during a step knows that step, and earlier names. */
static void each_card_has_a_trace_of_its_own(void **state)
{
    (void)state;
    int mine = memtrace_torch_category("key-value cache");
    take(1000, 0);
    (void)memtrace_torch_step_begin();
    uint32_t depth = memtrace_torch_span_begin(memtrace_torch_span(0, "cache", "Cache"), mine);
    take(3000, 1);
    memtrace_torch_span_end(depth);
    int another = memtrace_torch_category("another");
    depth = memtrace_torch_span_begin(0, another);
    take(5000, 1);
    memtrace_torch_span_end(depth);
    memtrace_torch_step_end();
    assert_int_equal(memtrace_torch_close(1), 0);
    struct ended second = open_ended("run-cuda1.db"), first = open_ended("run.db");
    assert_string_equal(second.run->device, "fake:1");
    assert_string_equal(second.run->state, "failed");
    assert_int_equal(second.run->last_full_step, 0);
    assert_events(&second, 0,
                  "alloc 3000 key-value cache temporary init Cache cache\nalloc 5000 another temporary init  \n");
    assert_events(&first, MT_ALL_STEPS, "alloc 1000 Other temporary init  \n");
    mt_trace_close(first.trace);
    mt_trace_close(second.trace);
}

static void caveats_and_the_end_are_in_the_trace_of_every_card(void **state)
{
    (void)state;
    static const char *const traces[] = {"run.db", "run-cuda1.db"};
    struct mt_caveat *rows;
    size_t count;
    take(1000, 0);
    take(1000, 1);
    memtrace_torch_caveat("assumed", "item", "train.py", 40, 1, -1, -1, 1);
    memtrace_torch_caveat("assumed", "item", "train.py", 40, 7, -1, -1, 1);
    memtrace_torch_caveat("shortened", "train loader", NULL, -1, 3, 100, -5, NAN);
    memtrace_torch_caveat("guessed", "a kind that there is not", NULL, 0, 1, 1, 1, 1);
    memtrace_torch_caveat(NULL, NULL, NULL, 0, 0, 0, 0, 0);
    memtrace_torch_ended_by("steps");
    memtrace_torch_ended_by("settled");
    memtrace_torch_ended_by("boredom");
    memtrace_torch_ended_by(NULL);
    assert_int_equal(memtrace_torch_close(0), 0);
    for (int card = 0; card < 2; card++) {
        struct ended ended = open_ended(traces[card]);
        assert_string_equal(ended.run->ended_by, "settled");
        assert_int_equal(mt_trace_caveats(ended.trace, ended.run, &rows, &count), MT_OK);
        assert_int_equal(count, 2);
        assert_int_equal(rows[0].kind, MT_CAVEAT_SHORTENED);
        assert_string_equal(rows[0].name, "train loader");
        assert_string_equal(rows[0].file, "");
        assert_int_equal(rows[0].line, 0);
        assert_int_equal(rows[0].count, 3);
        assert_int_equal(rows[0].total, 100);
        assert_int_equal(rows[0].bytes, -1);
        assert_true(isnan(rows[0].value));
        assert_int_equal(rows[1].kind, MT_CAVEAT_ASSUMED);
        assert_string_equal(rows[1].file, "train.py");
        assert_int_equal(rows[1].line, 40);
        assert_int_equal(rows[1].count, 7);
        assert_true(rows[1].value == 1);
        free(rows);
        mt_trace_close(ended.trace);
    }
}

static void memory_outlives_its_trace(void **state)
{
    (void)state;
    struct memtrace_torch_figures figures;
    void *before = take(1000, 0);
    assert_int_equal(memtrace_torch_close(5), 0);
    memtrace_torch_free(before, 0, 0, NULL);
    int late = memtrace_torch_category("late");
    uint32_t depth = memtrace_torch_span_begin(memtrace_torch_span(0, "late", ""), late);
    take(3000, 0);
    memtrace_torch_span_end(depth);
    (void)memtrace_torch_step_begin();
    memtrace_torch_measure("loss", 1);
    assert_int_equal(memtrace_torch_close(0), 0);
    assert_int_equal(memtrace_torch_statistics(0, late, &figures), 0);
    assert_int_equal(figures.requested, 3000);
    struct ended ended = open_ended("run.db");
    assert_string_equal(ended.run->state, "oom");
    assert_int_equal(ended.run->steps, 0);
    assert_events(&ended, MT_ALL_STEPS, "alloc 1000 Other temporary init  \n");
    mt_trace_close(ended.trace);
}

static void a_trace_that_can_t_be_written_is_said_by_the_first_block(void **state)
{
    (void)state;
    mt_addr address;
    assert_int_equal(memtrace_torch_configure("", "nowhere/run.db", NULL), 0);
    assert_int_equal(mt_torch_take(1000, 0, 0, &address), MT_NOT_WRITTEN);
    assert_non_null(strstr(memtrace_torch_last_error(), "nowhere"));
    assert_int_equal(fake_cards.opened, fake_cards.closed);
}

static void a_child_of_fork_leaves_the_trace_to_its_parent(void **state)
{
    (void)state;
    int code;
    take(1000, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(memtrace_torch_close(1));
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    take(2000, 0);
    assert_int_equal(memtrace_torch_close(0), 0);
    struct ended ended = open_ended("run.db");
    assert_string_equal(ended.run->state, "done");
    assert_events(&ended, MT_ALL_STEPS, "alloc 1000 Other temporary init  \nalloc 2000 Other temporary init  \n");
    mt_trace_close(ended.trace);
}

/* Returns the address of a block from a pool of the simulated card. */
static uint64_t take_from(uint32_t pool, uint64_t stream, int64_t bytes)
{
    uint64_t address;
    assert_int_equal(memtrace_torch_take(bytes, 0, stream, pool, NULL, &address), MT_OK);
    return address;
}

static void a_private_pool_of_a_simulated_card_is_named_in_the_trace(void **state)
{
    (void)state;
    uint32_t pool, again;
    assert_int_equal(memtrace_torch_configure("policy=torch", "run.db", "a program"), 0);
    assert_int_equal(memtrace_torch_simulate("sim:h100"), 0);
    assert_int_equal(memtrace_torch_pool_users(0, 1, 0), -1);
    assert_int_equal(memtrace_torch_pool_use(0, 1, 0, 0, &pool), MT_OK);
    assert_int_equal(memtrace_torch_pool_use(0, 1, 0, 0, &again), MT_OK);
    assert_int_equal(pool, again);
    const uint64_t address = take_from(pool, 7, 4 << 20), ordinary = take_from(0, 7, 4 << 20);
    memtrace_torch_record_stream((void *)(uintptr_t)address, (void *)7); /* its own stream */
    struct memtrace_torch_piece pieces[8];
    assert_int_equal(memtrace_torch_pieces(0, pieces, 8), 4);
    assert_true(pieces[0].address == address && pieces[0].first == 1 && pieces[0].second == 0 && pieces[0].stream == 7);
    assert_true(pieces[2].address == ordinary && pieces[2].first == 0 && pieces[2].requested == 4 << 20);
    memtrace_torch_free((void *)(uintptr_t)address, 4 << 20, 0, NULL);
    memtrace_torch_free((void *)(uintptr_t)ordinary, 4 << 20, 0, NULL);
    assert_int_equal(memtrace_torch_pool_leave(0, 1, 0), 1);
    memtrace_torch_reset();
    assert_int_equal(memtrace_torch_pieces(0, NULL, 0), 1);
    assert_int_equal(memtrace_torch_take_at(0, address, 512), MT_OK);
    memtrace_torch_free((void *)(uintptr_t)address, 512, 0, NULL);
    assert_int_equal(memtrace_torch_pool_leave(0, 1, 0), 0);
    assert_int_equal(memtrace_torch_pool_leave(0, 1, 0), -1);
    memtrace_torch_pool_empty(0, 1, 0);
    assert_int_equal(memtrace_torch_pieces(0, NULL, 0), 0);
    assert_int_equal(memtrace_torch_close(0), MT_OK);
    struct ended ended = open_ended("run.db");
    struct mt_segment_row *segments;
    size_t count;
    assert_int_equal(mt_trace_segments(ended.trace, ended.run, &segments, &count), MT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(segments[0].pool, "private pool (1, 0)");
    assert_string_equal(segments[1].pool, "");
    assert_int_not_equal(segments[0].stream, segments[1].stream);
    free(segments);
    mt_trace_close(ended.trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_is_in_the_trace_as_it_was_told, begin, end),
        cmocka_unit_test_setup_teardown(deep_calls_end_as_they_began, begin, end),
        cmocka_unit_test_setup_teardown(each_card_has_a_trace_of_its_own, begin, end),
        cmocka_unit_test_setup_teardown(caveats_and_the_end_are_in_the_trace_of_every_card, begin, end),
        cmocka_unit_test_setup_teardown(memory_outlives_its_trace, begin, end),
        cmocka_unit_test_setup_teardown(a_trace_that_can_t_be_written_is_said_by_the_first_block, begin, end),
        cmocka_unit_test_setup_teardown(a_child_of_fork_leaves_the_trace_to_its_parent, begin, end),
        cmocka_unit_test_setup_teardown(a_private_pool_of_a_simulated_card_is_named_in_the_trace, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
