/* PyTorch's own allocator, watched: entries and reports become blocks, differences are counted, what CUDA gave besides
 * is outside; and backward finds the module whose forward made a node. */
#include "fake_card.h"
#include "producers/torch/torch_backward.h"
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_operator.h"
#include "producers/torch/torch_watch.h"
#include "sql_answer.h"

#include <pthread.h>

enum { MIB = 1 << 20, ALLOC, FREE, SEGMENT_ALLOC, SEGMENT_FREE, MAP, UNMAP, OOM, SNAPSHOT };

static const struct memtrace_torch_abi abi = {.alloc = ALLOC,
                                              .free_requested = FREE,
                                              .segment_alloc = SEGMENT_ALLOC,
                                              .segment_free = SEGMENT_FREE,
                                              .segment_map = MAP,
                                              .segment_unmap = UNMAP,
                                              .oom = OOM};

static int begin(void **state)
{
    *state = enter_folder("test_torch_watch");
    mt_torch_forget();
    assert_int_equal(mt_torch_watch_begin(&abi, "memtrace.db", NULL), MT_OK);
    memtrace_torch_card(0, "a card", (uint64_t)1 << 30);
    return 0;
}

static int end(void **state)
{
    mt_torch_forget();
    return leave_folder(state);
}

static void tell(int action, uint64_t address, uint64_t bytes)
{
    const struct mt_torch_entry entry = {.action = action, .address = address, .bytes = bytes};
    mt_torch_watch_entry(&entry);
}

/* Takes a block of 512 bytes and more, as PyTorch tells of it. */
static void take(uint64_t address, uint64_t bytes, uint64_t allocated, uint64_t reserved)
{
    tell(ALLOC, address, bytes);
    mt_torch_watch_report(0, address, (int64_t)((bytes + 511) / 512 * 512), allocated, reserved);
}

static void tell_pool(int action, uint64_t address, uint64_t bytes)
{
    const struct mt_torch_entry entry = {.action = action, .address = address, .bytes = bytes, .stream = 7, .first = 1};
    mt_torch_watch_entry(&entry);
}

static void close_trace(void)
{
    assert_int_equal(memtrace_torch_close(0), 0);
}

static void a_block_has_the_bytes_of_its_entry_and_of_its_report(void **state)
{
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    take(16 * MIB, 1000, 1024, 2 * MIB);
    assert_int_equal(memtrace_torch_live(), 1000);
    close_trace();
    assert_string_equal(
        ask_trace("SELECT requested_bytes || ' ' || block_bytes FROM run_event WHERE allocation IS NULL "
                  "AND requested_bytes > 0"),
        "1000 1024");
    assert_string_equal(ask_trace("SELECT state FROM run"), "done");
}

static void what_a_private_pool_has_of_a_stream_is_a_named_stream(void **state)
{
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    tell_pool(SEGMENT_ALLOC, 32 * MIB, 2 * MIB);
    tell_pool(ALLOC, 32 * MIB, 1000);
    mt_torch_watch_report(0, 32 * MIB, 1024, 1024, 4 * MIB);
    tell_pool(SEGMENT_ALLOC, 64 * MIB, 2 * MIB);
    close_trace();
    assert_string_equal(
        ask_trace("SELECT group_concat(coalesce(value, '-')) FROM segment LEFT JOIN setting ON setting.run = "
                  "segment.run AND name = 'stream ' || stream"),
        "-,private pool (1, 0),private pool (1, 0)");
    assert_string_equal(ask_trace("SELECT count(DISTINCT stream) FROM segment"), "2");
}

/* An entry whose report did not come counts as one that PyTorch rounded. */
static void a_block_without_a_report_is_not_lost(void **state)
{
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    tell(ALLOC, 16 * MIB, 100);
    take(16 * MIB + 512, 512, 1024, 2 * MIB);
    close_trace();
    assert_string_equal(ask_trace("SELECT sum(block_bytes) FROM run_event JOIN event_kind ON event_kind.id = kind "
                                  "WHERE name = 'alloc'"),
                        "1024");
}

static void tell_card(int device, int action, uint64_t address, uint64_t bytes)
{
    const struct mt_torch_entry entry = {.action = action, .device = device, .address = address, .bytes = bytes};
    mt_torch_watch_entry(&entry);
}

#define REQUESTS                                                                                                       \
    "SELECT group_concat(requested_bytes) FROM run_event JOIN event_kind ON event_kind.id = kind WHERE name = 'alloc'"

/* The numbers of its label and span are of its card's trace. */
static void a_block_without_a_report_stays_on_its_card(void **state)
{
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    tell_card(1, SEGMENT_ALLOC, 64 * MIB, 2 * MIB);
    tell(ALLOC, 16 * MIB, 100);
    tell_card(1, ALLOC, 64 * MIB, 200);
    mt_torch_watch_report(1, 64 * MIB, 512, 512, 2 * MIB);
    close_trace();
    assert_string_equal(ask_trace(REQUESTS), "100");
    assert_int_equal(rename("memtrace-cuda1.db", "memtrace.db"), 0);
    assert_string_equal(ask_trace(REQUESTS), "200");
}

static void a_block_without_a_report_is_not_of_a_later_watch(void **state)
{
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    tell(ALLOC, 16 * MIB, 100);
    close_trace();
    assert_int_equal(mt_torch_watch_begin(&abi, "memtrace.db", NULL), MT_OK);
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    take(16 * MIB + 512, 200, 512, 2 * MIB);
    close_trace();
    assert_string_equal(ask_trace(REQUESTS), "200");
}

static void a_step_that_began_before_the_watch_is_not_of_it(void **state)
{
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    close_trace();
    (void)memtrace_torch_step_begin();
    assert_int_equal(mt_torch_watch_begin(&abi, "memtrace.db", NULL), MT_OK);
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    close_trace();
    assert_string_equal(ask_trace("SELECT count(*) FROM run_event JOIN event_kind ON event_kind.id = kind "
                                  "WHERE name = 'step_begin'"),
                        "0");
}

static void what_pytorch_s_allocator_took_is_not_outside_of_it(void **state)
{
    (void)state;
    memtrace_torch_outside_take(0, 16 * MIB, 2 * MIB, "cudaMalloc");
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    memtrace_torch_outside_take(0, 64 * MIB, 3 * MIB, "cudaMalloc");
    memtrace_torch_outside_take(0, 80 * MIB, 2 * MIB, "cuMemMap"); /* two pieces of an expandable segment */
    memtrace_torch_outside_take(0, 82 * MIB, 2 * MIB, "cuMemMap");
    tell(MAP, 80 * MIB, 4 * MIB);
    take(16 * MIB, 512, 512, 6 * MIB);
    memtrace_torch_outside_give(64 * MIB);
    take(16 * MIB + 512, 512, 1024, 6 * MIB);
    close_trace();
    assert_string_equal(ask_trace("SELECT group_concat(name || ' ' || bytes) FROM outside"),
                        "cudaMalloc 3145728,cudaMalloc 0");
}

static void memory_outside_is_told_by_the_library_that_took_it(void **state)
{
    (void)state;
    char library[] = "libcublasLt.so.13";
    memtrace_torch_outside_take(0, 64 * MIB, 3, "libnccl.so.2");
    memtrace_torch_outside_take(0, 65 * MIB, 5, library);
    memtrace_torch_outside_take(0, 66 * MIB, 7, "cuMemAlloc");
    library[3] = '\0';
    memtrace_torch_outside_take(0, 67 * MIB, 11, "libnccl.so.2");
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    take(16 * MIB, 512, 512, 2 * MIB);
    close_trace();
    assert_string_equal(ask_trace("SELECT group_concat(kind || ' ' || name || ' ' || bytes) FROM "
                                  "(SELECT * FROM outside WHERE bytes > 0 ORDER BY bytes)"),
                        "library libcublasLt.so.13 5,other cuMemAlloc 7,nccl libnccl.so.2 14");
    for (uint64_t i = 64; i < 68; i++)
        memtrace_torch_outside_give(i * MIB);
}

/* A rank looks at all cards, and uses one. */
static void a_card_that_is_only_looked_at_has_no_trace(void **state)
{
    (void)state;
    tell(SNAPSHOT, 0, 0);
    const struct mt_torch_entry entry = {.action = SEGMENT_ALLOC, .device = 1, .address = 16 * MIB, .bytes = 2 * MIB};
    mt_torch_watch_entry(&entry);
    close_trace();
    assert_string_equal(ask_trace("SELECT device FROM run"), "cuda:1");
}

static void a_watched_card_has_no_figures_of_a_simulated_one(void **state)
{
    struct memtrace_torch_figures figures;
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    assert_int_equal(memtrace_torch_held(0), 0);
    assert_int_equal(memtrace_torch_statistics(0, MEMTRACE_TORCH_ALL, &figures), MT_OK);
    assert_int_equal(figures.reserved, 0);
    memtrace_torch_memory_fraction(0.5, 0);
}

static void a_second_watch_begins_anew(void **state)
{
    (void)state;
    assert_int_equal(mt_torch_watch_begin(&abi, "other.db", NULL), MT_USAGE);
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    take(16 * MIB, 512, 512, 2 * MIB);
    close_trace();
    assert_false(memtrace_torch_is_watching());
    tell(FREE, 16 * MIB, 512); /* between the two, nothing is stored */
    assert_int_equal(mt_torch_watch_begin(&abi, "memtrace.db", NULL), MT_OK);
    tell(SEGMENT_ALLOC, 16 * MIB, 2 * MIB);
    close_trace();
    assert_string_equal(ask_trace("SELECT count(*) FROM run"), "2");
}

static void a_refused_request_is_an_event_with_what_the_card_has_free(void **state)
{
    (void)state;
    tell(OOM, 5 * MIB, 7 * MIB);
    close_trace();
    assert_string_equal(ask_trace("SELECT requested_bytes FROM run_event WHERE requested_bytes > 0"), "7340032");
    assert_string_equal(ask_trace("SELECT CAST(value AS INTEGER) FROM measurement"), "5242880");
}

/* ---- backward ---- */

static uint64_t next_node, running_node;
static const char *running_class;
static bool is_running;

static uint64_t next(void)
{
    return next_node;
}

static bool running(struct mt_torch_node *out)
{
    *out = (struct mt_torch_node){running_class, true, running_node};
    return is_running;
}

static const struct mt_torch_graph graph = {next, running};

/* Calls a module that makes nodes. */
static void call(uint32_t span, int nodes)
{
    uint32_t depth = memtrace_torch_span_begin(span, MT_CATEGORY_FFN);
    mt_torch_backward_mark();
    next_node += (uint64_t)nodes;
    memtrace_torch_span_end(depth);
    mt_torch_backward_mark();
}

static uint32_t span_in_backward(uint64_t node)
{
    running_node = node;
    const char *class_name;
    return mt_torch_label_here(&class_name).span;
}

static void backward_is_of_the_module_that_made_the_node(void **state)
{
    (void)state;
    uint32_t first = memtrace_torch_span(0, "first", "A"), empty = memtrace_torch_span(0, "empty", "B"),
             last = memtrace_torch_span(0, "last", "C");
    next_node = 5;
    is_running = true;
    mt_torch_backward_begin(&graph);
    call(first, 3); /* 5 to 7 */
    call(empty, 0);
    next_node += 2;                           /* 8 and 9, outside of modules */
    call(last, 1);                            /* 10 */
    assert_int_equal(span_in_backward(6), 0); /* not in forward */
    memtrace_torch_phase(MT_PHASE_BACKWARD, MT_CATEGORY_LOSS);
    const uint32_t expected[] = {0, first, first, first, 0, 0, last, 0};
    for (uint64_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(span_in_backward(4 + i), expected[i]);
    is_running = false;
    assert_int_equal(span_in_backward(6), 0);
}

/* Only the last forwards are kept. */
static void a_node_of_long_ago_has_no_module(void **state)
{
    (void)state;
    uint32_t span = memtrace_torch_span(0, "layer", "A");
    next_node = 0;
    is_running = true;
    mt_torch_backward_begin(&graph);
    for (int i = 0; i < 100000; i++) {
        call(span, 1);
        next_node++;
    }
    memtrace_torch_phase(MT_PHASE_BACKWARD, MT_CATEGORY_LOSS);
    assert_int_equal(span_in_backward(10), 0);
    assert_int_equal(span_in_backward(199998), span);
    assert_int_equal(span_in_backward(199999), 0);
}

/* ---- operators ---- */

static void an_operator_names_blocks_until_it_ends(void **state)
{
    static const int outer, inner, unknown;
    (void)state;
    mt_torch_operator_begin(&outer, "aten::linear");
    mt_torch_operator_begin(&inner, "aten::addmm");
    assert_string_equal(memtrace_torch_operator_now(), "aten::addmm");
    mt_torch_operator_end(&unknown);
    assert_string_equal(memtrace_torch_operator_now(), "aten::addmm");
    mt_torch_operator_end(&inner);
    assert_string_equal(memtrace_torch_operator_now(), "aten::linear");
    mt_torch_operator_begin(&inner, "aten::addmm"); /* ends with the one around it */
    mt_torch_operator_end(&outer);
    assert_null(memtrace_torch_operator_now());
}

static void an_operator_with_a_kernel_names_what_the_kernel_calls(void **state)
{
    static const struct {
        const char *names[4], *expected;
    } cases[] = {
        {{"aten::linear", "aten::relu", "aten::clamp_min"}, "aten::relu"},
        {{"aten::relu", "aten::empty"}, "aten::relu"},
        {{"aten::reshape", "aten::clone", "aten::empty_like"}, "aten::clone"},
        {{"aten::empty_like", "aten::empty"}, "aten::empty"},
        {{"aten::zeros", "aten::empty"}, "aten::zeros"},
        {{"aten::to", "aten::_to_copy", "aten::empty", "aten::relu"}, "aten::relu"},
        {{"aten::clamp_min"}, "aten::clamp_min"},
    };
    static const char *const kernels[] = {"aten::relu", "aten::clamp_min", "aten::empty"};
    static const char calls[4];
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        memtrace_torch_kernel(kernels[i]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t j = 0; j < 4 && cases[i].names[j] != NULL; j++)
            mt_torch_operator_begin(&calls[j], cases[i].names[j]);
        assert_string_equal(memtrace_torch_operator_now(), cases[i].expected);
        mt_torch_operator_end(&calls[0]);
    }
}

static void a_cast_inside_of_another_operator_is_not_the_program_s_own(void **state)
{
    static const char calls[4];
    static const struct {
        const char *names[4]; /* outermost first */
        bool is_inner;
    } cases[] = {{{"aten::linear", "aten::to", "aten::_to_copy", "aten::copy_"}, true},
                 {{"aten::linear", "aten::_to_copy"}, true},
                 {{"aten::to", "aten::_to_copy", "aten::copy_"}, false},
                 {{"aten::_to_copy", "aten::copy_"}, false},
                 {{"aten::linear", "aten::copy_"}, false},
                 {{NULL}, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int j = 0; j < 4 && cases[i].names[j] != NULL; j++)
            mt_torch_operator_begin(&calls[j], cases[i].names[j]);
        assert_int_equal(mt_torch_operator_is_inner_cast(), cases[i].is_inner);
        mt_torch_operator_end(&calls[0]);
    }
}

static void operators_that_are_nested_too_deep_are_left_out(void **state)
{
    static const char calls[1000];
    (void)state;
    mt_torch_operator_begin(&calls[0], "first");
    for (int i = 1; i < 1000; i++)
        mt_torch_operator_begin(&calls[i], i < 64 ? "kept" : "too deep");
    assert_string_equal(memtrace_torch_operator_now(), "kept");
    for (int i = 999; i > 0; i--)
        mt_torch_operator_end(&calls[i]);
    assert_string_equal(memtrace_torch_operator_now(), "first");
    mt_torch_operator_end(&calls[0]);
}

static void a_block_of_backward_has_the_class_of_its_node(void **state)
{
    static const char *const names[][2] = {{"N5torch8autograd9generated11MmBackward0E", "MmBackward0"},
                                           {"5Short", "Short"},
                                           {"N5torch8autograd7CppNodeI4MineEE", "CppNode"},
                                           {"N5torch8autograd6PyNodeE", "autograd.Function"}};
    (void)state;
    is_running = true;
    mt_torch_backward_begin(&graph);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        running_class = names[i][0];
        memtrace_torch_phase(MT_PHASE_FORWARD, MT_CATEGORY_LOSS);
        assert_null(memtrace_torch_operator_now());
        memtrace_torch_phase(MT_PHASE_BACKWARD, MT_CATEGORY_LOSS);
        assert_string_equal(memtrace_torch_operator_now(), names[i][1]);
    }
    uint32_t depth = memtrace_torch_span_begin(memtrace_torch_span(0, "again", "A"), MT_CATEGORY_FFN);
    assert_null(memtrace_torch_operator_now()); /* forward once more, of a checkpoint */
    memtrace_torch_span_end(depth);
}

/* Takes a block of an operator's call. */
static void take_in(const char *name, const void *call, uint64_t bytes)
{
    static uint64_t allocated;
    mt_torch_operator_begin(call, name);
    allocated += bytes;
    take(16 * MIB + allocated, bytes, allocated, 512 * MIB);
    mt_torch_operator_end(call);
}

/* Takes the blocks of two nodes of autograd in a thread of their own: results and a workspace, and results. */
static void *take_in_backward(void *unused)
{
    static const uint64_t sizes[] = {512, 32 * MIB, 1 * MIB, 32 * MIB};
    memtrace_torch_phase(MT_PHASE_BACKWARD, MT_CATEGORY_LOSS);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        take(((uint64_t)i + 1) * 256 * MIB, sizes[i], 0, 512 * MIB);
    return unused;
}

#define SIZES_OF_CUBLAS                                                                                                \
    "SELECT group_concat(requested_bytes || ' ' || phase) FROM (SELECT requested_bytes, phase FROM run_event JOIN "    \
    "label ON label.run = run_event.run AND label.id = run_event.label WHERE role = 'workspace' AND op = 'workspace' " \
    "AND allocation IS NULL ORDER BY run_event.id)"

static void workspaces_of_products_follow_their_results(void **state)
{
    static const char calls[6];
    pthread_t thread;
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 512 * MIB);
    take_in("aten::addmm", &calls[0], 32 * MIB); /* its result */
    take_in("aten::addmm", &calls[0], 32 * MIB); /* the result of a later call at the same address */
    mt_torch_operator_begin(&calls[1], "aten::linear");
    mt_torch_operator_begin(&calls[2], "aten::addmm");
    take_in("aten::empty", &calls[3], 32 * MIB); /* its result */
    take_in("aten::empty", &calls[3], 32 * MIB); /* cuBLAS's workspace */
    take_in("aten::clone", &calls[4], 1 * MIB);
    take_in("aten::empty", &calls[3], 1 * MIB); /* cublasLt's */
    take_in("aten::empty", &calls[3], 2 * MIB);
    mt_torch_operator_end(&calls[1]);
    take_in("aten::relu", &calls[5], 32 * MIB);
    running_class = "N5torch8autograd9generated11MmBackward0E";
    is_running = true;
    mt_torch_backward_begin(&graph);
    assert_int_equal(pthread_create(&thread, NULL, take_in_backward, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_trace();
    assert_string_equal(ask_trace(SIZES_OF_CUBLAS), "33554432 init,1048576 init,33554432 backward");
}

#define ROLES_OF_BLOCKS                                                                                                \
    "SELECT group_concat(requested_bytes || ' ' || role) FROM (SELECT requested_bytes, role FROM run_event JOIN "      \
    "event_kind ON event_kind.id = kind JOIN label ON label.run = run_event.run AND label.id = run_event.label WHERE " \
    "name IN ('alloc', 'relabel') ORDER BY run_event.id)"

/* Takes a block, and calls a model. */
static void take_before_call(uint64_t bytes)
{
    static uint64_t allocated;
    allocated += (bytes + 511) / 512 * 512;
    take(16 * MIB + allocated, bytes, allocated, 64 * MIB);
    memtrace_torch_keep();
}

static void what_lives_through_calls_of_a_model_is_kept(void **state)
{
    (void)state;
    tell(SEGMENT_ALLOC, 16 * MIB, 64 * MIB);
    take_before_call(100); /* data of the first call */
    memtrace_torch_phase(MT_PHASE_FORWARD, MT_CATEGORY_OTHER);
    memtrace_torch_phase(MT_PHASE_LOSS, MT_CATEGORY_OTHER);
    take_before_call(200);
    take_before_call(300); /* the first block is kept */
    tell(FREE, 16 * MIB + 1024, 0);
    take_before_call(400); /* the third one would be at the eighth call */
    close_trace();
    assert_string_equal(ask_trace(ROLES_OF_BLOCKS),
                        "100 temporary,100 input,200 temporary,300 temporary,100 kept,400 temporary");
}

static int pauses, resumes;

static void pause_observer(void)
{
    pauses++;
}

static void resume_observer(void)
{
    resumes++;
}

static void the_observer_pauses_once_for_a_backward(void **state)
{
    static const struct mt_torch_observer observer = {pause_observer, resume_observer};
    static const mt_phase phases[] = {MT_PHASE_FORWARD, MT_PHASE_LOSS, MT_PHASE_BACKWARD, MT_PHASE_OPTIMIZER,
                                      MT_PHASE_FORWARD};
    (void)state;
    mt_torch_operator_observe(&observer);
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
        memtrace_torch_phase(phases[i], MT_CATEGORY_LOSS);
    mt_torch_operator_observe(NULL);
    memtrace_torch_phase(MT_PHASE_BACKWARD, MT_CATEGORY_LOSS);
    assert_int_equal(pauses, 1);
    assert_int_equal(resumes, 1);
}

int main(void)
{
#define WATCHED(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WATCHED(what_a_private_pool_has_of_a_stream_is_a_named_stream),
        WATCHED(a_block_has_the_bytes_of_its_entry_and_of_its_report),
        WATCHED(a_block_without_a_report_is_not_lost),
        WATCHED(a_block_without_a_report_stays_on_its_card),
        WATCHED(a_block_without_a_report_is_not_of_a_later_watch),
        WATCHED(a_step_that_began_before_the_watch_is_not_of_it),
        WATCHED(what_pytorch_s_allocator_took_is_not_outside_of_it),
        WATCHED(memory_outside_is_told_by_the_library_that_took_it),
        WATCHED(a_card_that_is_only_looked_at_has_no_trace),
        WATCHED(a_watched_card_has_no_figures_of_a_simulated_one),
        WATCHED(a_second_watch_begins_anew),
        WATCHED(a_refused_request_is_an_event_with_what_the_card_has_free),
        WATCHED(backward_is_of_the_module_that_made_the_node),
        WATCHED(a_node_of_long_ago_has_no_module),
        WATCHED(an_operator_names_blocks_until_it_ends),
        WATCHED(what_lives_through_calls_of_a_model_is_kept),
        WATCHED(workspaces_of_products_follow_their_results),
        WATCHED(an_operator_with_a_kernel_names_what_the_kernel_calls),
        WATCHED(a_cast_inside_of_another_operator_is_not_the_program_s_own),
        WATCHED(operators_that_are_nested_too_deep_are_left_out),
        WATCHED(a_block_of_backward_has_the_class_of_its_node),
        WATCHED(the_observer_pauses_once_for_a_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
