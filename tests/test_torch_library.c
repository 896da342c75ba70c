/* The library that gives PyTorch memory, with fake cards: the results of PyTorch's calls, waits between streams,
 * labels, steps and figures. */
#include "fake_card.h"
#include "producers/torch/torch_library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { KIB = 1024, THREADS = 8, ROUNDS = 2000, HELD = 16 };

static int forget(void **state)
{
    (void)state;
    mt_torch_forget();
    fake_cards.opened = fake_cards.closed = fake_cards.synchronized = fake_cards.follows = 0;
    return 0;
}

static void *take(int64_t bytes, int device, mt_torch_stream stream)
{
    mt_addr address;
    assert_int_equal(mt_torch_take(bytes, device, stream, &address), MT_OK);
    return (void *)(uintptr_t)address;
}

static struct memtrace_torch_figures figures(int device, int category)
{
    struct memtrace_torch_figures out;
    assert_int_equal(memtrace_torch_statistics(device, category, &out), MT_OK);
    return out;
}

static void a_card_is_opened_by_its_first_block(void **state)
{
    (void)state;
    memtrace_torch_init(FAKE_CARDS);
    assert_int_equal(fake_cards.opened, 0);
    assert_int_equal(figures(1, MEMTRACE_TORCH_ALL).capacity, 0);
    void *block = take(1000, 1, 0);
    assert_int_equal(fake_cards.opened, 1);
    assert_int_equal(figures(1, MEMTRACE_TORCH_ALL).allocated, 1024);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).allocated, 0);
    memtrace_torch_free(block, 1000, 1, NULL);
    assert_int_equal(figures(1, MEMTRACE_TORCH_ALL).allocated, 0);
    assert_int_equal(figures(1, MEMTRACE_TORCH_ALL).unknown_frees, 0);
}

static void live_memory_counts_as_requested_on_all_cards(void **state)
{
    (void)state;
    memtrace_torch_init(FAKE_CARDS);
    void *block = take(1000, 0, 0);
    take(3000, 1, 0);
    assert_int_equal(memtrace_torch_live(), 4000);
    memtrace_torch_free(block, 1000, 0, NULL);
    assert_int_equal(memtrace_torch_live(), 3000);
}

static void no_bytes_are_no_block_and_no_failure(void **state)
{
    (void)state;
    assert_null(take(0, 0, 0));
    memtrace_torch_free(NULL, 0, 0, NULL);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).unknown_frees, 0);
}

static void what_was_not_taken_is_counted_and_left_alone(void **state)
{
    (void)state;
    void *block = take(1000, 0, 0);
    memtrace_torch_free((char *)block + 512, 1000, 0, NULL);
    memtrace_torch_free(block, 1000, 1, NULL);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).unknown_frees, 2);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).blocks, 1);
}

static void a_card_that_is_not_there_is_a_failure(void **state)
{
    (void)state;
    mt_addr address;
    assert_int_equal(mt_torch_take(1000, FAKE_CARDS, 0, &address), MT_NO_DEVICE);
    assert_int_equal(mt_torch_take(1000, -1, 0, &address), MT_NO_DEVICE);
    assert_int_equal(mt_torch_take(-1, 0, 0, &address), MT_USAGE);
    assert_int_equal(address, 0);
}

static void the_end_of_memory_is_a_status_and_everything_goes_on(void **state)
{
    (void)state;
    mt_addr address;
    void *block = take(1000, 0, 0);
    assert_int_equal(mt_torch_take(INT64_C(1) << 50, 0, 0, &address), MT_OUT_OF_MEMORY);
    assert_non_null(strstr(memtrace_torch_last_error(), "1125899906842624 bytes"));
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).refusals, 1);
    memtrace_torch_free(block, 1000, 0, NULL);
    take(1000, 0, 0);
}

static void no_more_is_taken_than_the_share_that_was_set(void **state)
{
    (void)state;
    mt_addr address;
    memtrace_torch_memory_fraction(0.25, 0); /* before the card is in use */
    take((int64_t)FAKE_CARD_BYTES / 8, 0, 0);
    assert_int_equal(mt_torch_take((int64_t)FAKE_CARD_BYTES / 4, 0, 0, &address), MT_OUT_OF_MEMORY);
    memtrace_torch_memory_fraction(0.5, 0);
    take((int64_t)FAKE_CARD_BYTES / 4, 0, 0);
    memtrace_torch_memory_fraction(0.1, 0); /* less than there is: that stays, and no more comes */
    assert_int_equal(mt_torch_take((int64_t)FAKE_CARD_BYTES / 32, 0, 0, &address), MT_OUT_OF_MEMORY);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).capacity, (uint64_t)((double)FAKE_CARD_BYTES * 0.1));
    memtrace_torch_memory_fraction(2, 0); /* nobody has more than there is */
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).capacity, FAKE_CARD_BYTES);
    memtrace_torch_memory_fraction(0, 0); /* no share is none that can be set */
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).capacity, FAKE_CARD_BYTES);
}

static int layer_of(uint32_t span)
{
    struct mt_torch_span found;
    assert_true(mt_torch_names_find(mt_torch_names_of_all(), span, &found));
    return found.layer;
}

/* Members of a list are layers. A list inside one, as of experts, has the layer of the outer one. */
static void a_layer_within_a_layer_is_of_the_outer_one(void **state)
{
    (void)state;
    uint32_t list = memtrace_torch_span(memtrace_torch_span(0, "model", "Transformer"), "layers", "ModuleList");
    uint32_t block = memtrace_torch_span(list, "3", "Block");
    uint32_t experts = memtrace_torch_span(memtrace_torch_span(block, "experts", "ModuleList"), "7", "Expert");
    assert_int_equal(layer_of(list), -1);
    assert_int_equal(layer_of(block), 3);
    assert_int_equal(layer_of(experts), 3);
}

static void a_stream_gets_blocks_of_its_own(void **state)
{
    (void)state;
    void *first = take(100 * KIB, 0, 0x7000);
    memtrace_torch_free(first, 100 * KIB, 0, (void *)0x7000);
    assert_ptr_not_equal(take(100 * KIB, 0, 0x8000), first);
    assert_ptr_equal(take(100 * KIB, 0, 0x7000), first);
    assert_int_equal(fake_cards.follows, 0);
}

/* cudaStreamLegacy is the default stream. */
static void the_default_stream_has_one_number_by_both_names(void **state)
{
    (void)state;
    void *first = take(100 * KIB, 0, MT_TORCH_STREAM_DEFAULT);
    memtrace_torch_free(first, 100 * KIB, 0, NULL);
    assert_ptr_equal(take(100 * KIB, 0, MT_TORCH_STREAM_LEGACY), first);
}

static void a_recorded_stream_is_waited_for_by_the_block_s_own_and_once(void **state)
{
    (void)state;
    void *block = take(100 * KIB, 1, 0x7000);
    memtrace_torch_record_stream(block, (void *)0x8000);
    memtrace_torch_record_stream(block, (void *)0x8000);
    memtrace_torch_record_stream(block, (void *)0x7000); /* its own */
    memtrace_torch_record_stream(block, NULL);
    assert_int_equal(fake_cards.follows, 0);
    memtrace_torch_free(block, 100 * KIB, 1, (void *)0x7000);
    assert_int_equal(fake_cards.follows, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fake_cards.later[i], 0x7000);
    assert_int_equal(fake_cards.earlier[0] + fake_cards.earlier[1], 0x8000);
    assert_int_equal(fake_cards.synchronized, 0);
}

static void a_block_is_its_own_base(void **state)
{
    (void)state;
    size_t bytes = 1;
    void *block = take(1000, 1, 0);
    assert_ptr_equal(memtrace_torch_base_alloc(block, &bytes), block);
    assert_int_equal(bytes, 1000);
    int elsewhere;
    assert_ptr_equal(memtrace_torch_base_alloc(&elsewhere, &bytes), &elsewhere);
    assert_int_equal(bytes, 0);
}

static void what_is_cached_goes_when_pytorch_says_so(void **state)
{
    (void)state;
    memtrace_torch_free(take(100 * KIB, 0, 0), 100 * KIB, 0, NULL);
    assert_true(figures(0, MEMTRACE_TORCH_ALL).reserved > 0);
    memtrace_torch_reset();
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).reserved, 0);
    assert_true(figures(0, MEMTRACE_TORCH_ALL).peak_reserved > 0);
    memtrace_torch_reset_peaks(0);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).peak_reserved, 0);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).peak_allocated, 0);
}

static void settings_come_before_the_first_block(void **state)
{
    (void)state;
    assert_int_equal(memtrace_torch_configure("policy=loose", NULL, NULL), MT_USAGE);
    assert_non_null(strstr(memtrace_torch_last_error(), "loose"));
    assert_int_equal(memtrace_torch_configure("policy=torch", NULL, NULL), MT_OK);
    take(3 << 20, 0, 0);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).reserved, 20 << 20); /* PyTorch's segment of medium requests */
    assert_int_equal(memtrace_torch_configure("", NULL, NULL), MT_USAGE);
}

static void figures_count_by_the_innermost_label(void **state)
{
    (void)state;
    int norm = memtrace_torch_category("Norm"), mine = memtrace_torch_category("my cache");
    assert_int_equal(norm, MT_CATEGORY_NORM);
    assert_string_equal(memtrace_torch_category_name(mine), "my cache");
    uint32_t outer = memtrace_torch_span_begin(memtrace_torch_span(0, "model", "Model"), mine);
    take(1000, 0, 0);
    (void)memtrace_torch_span_begin(memtrace_torch_span(1, "ln", "RMSNorm"), norm);
    take(2000, 0, 0);
    memtrace_torch_span_end(outer); /* with the one inside */
    take(4000, 0, 0);
    assert_int_equal(figures(0, mine).requested, 1000);
    assert_int_equal(figures(0, norm).requested, 2000);
    assert_int_equal(figures(0, MT_CATEGORY_OTHER).requested, 4000);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).requested, 7000);
    assert_null(memtrace_torch_category_name(mine + 1));
}

static void a_block_that_is_for_something_else_counts_there(void **state)
{
    (void)state;
    void *block = take(1000, 1, 0);
    assert_int_equal(memtrace_torch_relabel(block, 0, MT_CATEGORY_GRADIENT, NULL), MT_OK);
    assert_int_equal(figures(1, MT_CATEGORY_OTHER).requested, 0);
    assert_int_equal(figures(1, MT_CATEGORY_GRADIENT).requested, 1000);
    assert_int_equal(figures(1, MEMTRACE_TORCH_ALL).requested, 1000);
    assert_int_equal(figures(1, MEMTRACE_TORCH_ALL).peak_requested, 1000);
    assert_int_equal(memtrace_torch_relabel((char *)block + 1, 0, MT_CATEGORY_PARAM, NULL), MT_USAGE);
    assert_int_equal(mt_alloc_check(mt_torch_alloc_of(1)), MT_OK);
}

static void a_deep_call_has_its_own_label(void **state)
{
    (void)state;
    enum { DEEP = 300 };
    uint32_t first = 0;
    for (int i = 0; i < DEEP; i++) {
        uint32_t depth = memtrace_torch_span_begin(0, i == DEEP - 1 ? MT_CATEGORY_NORM : MT_CATEGORY_BLOCK);
        first = i == 0 ? depth : first;
    }
    take(1000, 0, 0);
    assert_int_equal(figures(0, MT_CATEGORY_NORM).requested, 1000);
    memtrace_torch_span_end(first);
    take(1000, 0, 0);
    assert_int_equal(figures(0, MT_CATEGORY_OTHER).requested, 1000);
}

static void *other_thread(void *context)
{
    (void)context;
    take(2000, 0, 0);
    return NULL;
}

static void a_label_is_of_one_thread(void **state)
{
    (void)state;
    pthread_t thread;
    uint32_t depth = memtrace_torch_span_begin(0, MT_CATEGORY_NORM);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    memtrace_torch_span_end(depth);
    assert_int_equal(figures(0, MT_CATEGORY_NORM).requested, 0);
    assert_int_equal(figures(0, MT_CATEGORY_OTHER).requested, 2000);
}

/* Takes, uses and gives blocks on both cards; gives all back at the end. */
static void *churn(void *context)
{
    uint64_t seed = (uint64_t)(uintptr_t)context;
    void *held[HELD] = {NULL};
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t slot = (seed * 7 + i * 5) % HELD, bytes = 1 + (i * 7919 + seed * 104729) % 100000;
        int device = (int)(slot % FAKE_CARDS);
        memtrace_torch_free(held[slot], 0, device, NULL);
        uint32_t depth =
            memtrace_torch_span_begin(memtrace_torch_span(0, "thread", ""), (int)(seed % MT_CATEGORY_COUNT));
        held[slot] = take((int64_t)bytes, device, seed % 3);
        memtrace_torch_record_stream(held[slot], (void *)(uintptr_t)(0x1000 + i % 3));
        memtrace_torch_span_end(depth);
    }
    for (int slot = 0; slot < HELD; slot++)
        memtrace_torch_free(held[slot], 0, slot % FAKE_CARDS, NULL);
    return NULL;
}

static void many_threads_leave_nothing_behind(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int device = 0; device < FAKE_CARDS; device++) {
        assert_int_equal(figures(device, MEMTRACE_TORCH_ALL).blocks, 0);
        assert_int_equal(figures(device, MEMTRACE_TORCH_ALL).unknown_frees, 0);
        assert_int_equal(mt_alloc_check(mt_torch_alloc_of(device)), MT_OK);
    }
}

/* Runs in a child: returns a code other than 0 if anything happens that must not. */
static int live_as_child(void *block)
{
    mt_addr address;
    struct memtrace_torch_figures out;
    memtrace_torch_free(block, 1000, 0, NULL);
    memtrace_torch_record_stream(block, NULL);
    (void)memtrace_torch_step_begin();
    if (memtrace_torch_close(0) != MT_OK || memtrace_torch_statistics(0, MEMTRACE_TORCH_ALL, &out) != MT_OK)
        return 1;
    if (mt_torch_take(1000, 0, 0, &address) != MT_NO_DEVICE || strstr(memtrace_torch_last_error(), "spawn") == NULL)
        return 2;
    if (memtrace_torch_configure("", NULL, NULL) != MT_NO_DEVICE)
        return 3;
    return 0;
}

/* Labels memory as a program does; runs in a child. */
static int label_as_child(void)
{
    alarm(5); /* else it would wait for ever */
    uint32_t depth = memtrace_torch_span_begin(memtrace_torch_span(0, "model", "Model"), MT_CATEGORY_NORM);
    (void)memtrace_torch_category("mine");
    memtrace_torch_phase(memtrace_torch_phase_number("forward"), MT_CATEGORY_DATA);
    memtrace_torch_span_end(depth);
    return memtrace_torch_category_name(MT_CATEGORY_NORM) != NULL;
}

/* Other threads of the parent may hold any lock. */
static void a_child_of_fork_waits_for_no_lock_of_its_parents(void **state)
{
    (void)state;
    int code = -1;
    take(1000, 0, 0);
    mt_lock_take(&mt_torch_names_of_all()->lock);
    pid_t child = fork();
    if (child == 0)
        _exit(label_as_child());
    mt_lock_give(&mt_torch_names_of_all()->lock);
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

static void a_child_of_fork_touches_nothing(void **state)
{
    (void)state;
    int code = 0;
    void *block = take(1000, 0, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(live_as_child(block));
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).blocks, 1);
    memtrace_torch_free(block, 1000, 0, NULL);
    assert_int_equal(figures(0, MEMTRACE_TORCH_ALL).unknown_frees, 0);
}

/* Lets the process have no more addresses than it has. */
static bool limit_addresses(void)
{
    char text[64] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    const bool is_read = file != NULL && fgets(text, sizeof text, file) != NULL;
    if (file != NULL)
        fclose(file);
    const rlim_t bytes = strtoul(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
    return is_read && setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) == 0;
}

/* Ends the process, with 0 if spans can be begun without end and without memory. */
static _Noreturn void begin_spans_without_memory(void)
{
    enum { PIECE = 1 << 20, SPANS = 1 << 23 };
    mt_host_keep_reserve(MT_HOST_RESERVE_BYTES);
    const bool is_good = limit_addresses();
    while (is_good && !mt_host_is_exhausted())
        (void)mt_host_alloc(PIECE);
    for (int i = 0; i < SPANS; i++)
        (void)mt_torch_label_begin(1, MT_CATEGORY_FFN);
    mt_thread_spans_end(mt_torch_spans(), 0);
    _exit(is_good && mt_torch_label_now().span == 0 ? MT_OK : MT_FAILED);
}

/* A program that is watched must not end because of us. */
static void a_program_without_memory_goes_on_without_spans(void **state)
{
    int status;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they need more addresses than there are then */
#endif
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        begin_spans_without_memory();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), MT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_card_is_opened_by_its_first_block, forget),
        cmocka_unit_test_setup(live_memory_counts_as_requested_on_all_cards, forget),
        cmocka_unit_test_setup(no_bytes_are_no_block_and_no_failure, forget),
        cmocka_unit_test_setup(what_was_not_taken_is_counted_and_left_alone, forget),
        cmocka_unit_test_setup(a_card_that_is_not_there_is_a_failure, forget),
        cmocka_unit_test_setup(the_end_of_memory_is_a_status_and_everything_goes_on, forget),
        cmocka_unit_test_setup(no_more_is_taken_than_the_share_that_was_set, forget),
        cmocka_unit_test_setup(a_layer_within_a_layer_is_of_the_outer_one, forget),
        cmocka_unit_test_setup(a_stream_gets_blocks_of_its_own, forget),
        cmocka_unit_test_setup(the_default_stream_has_one_number_by_both_names, forget),
        cmocka_unit_test_setup(a_recorded_stream_is_waited_for_by_the_block_s_own_and_once, forget),
        cmocka_unit_test_setup(a_block_is_its_own_base, forget),
        cmocka_unit_test_setup(what_is_cached_goes_when_pytorch_says_so, forget),
        cmocka_unit_test_setup(settings_come_before_the_first_block, forget),
        cmocka_unit_test_setup(figures_count_by_the_innermost_label, forget),
        cmocka_unit_test_setup(a_block_that_is_for_something_else_counts_there, forget),
        cmocka_unit_test_setup(a_deep_call_has_its_own_label, forget),
        cmocka_unit_test_setup(a_label_is_of_one_thread, forget),
        cmocka_unit_test_setup(many_threads_leave_nothing_behind, forget),
        cmocka_unit_test_setup(a_child_of_fork_touches_nothing, forget),
        cmocka_unit_test_setup(a_child_of_fork_waits_for_no_lock_of_its_parents, forget),
        cmocka_unit_test_setup(a_program_without_memory_goes_on_without_spans, forget),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
