/* What a recorded program's calls, CUPTI's records and NVTX's ranges say, in whatever order, becomes memory that obeys the
 * event record and sums up to what is held. */
#include "recording.h"

#include "base/clock.h"
#include "base/random.h"
#include "record/account.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { MIB = 1 << 20, MOST_KERNELS = 16, OPERATIONS = 4000, PLACES = 40, HANDLES = 12, WINDOWS = 20 };

static struct recording recording;
static struct mt_account *account;
static struct mt_account_thread main_thread, other_thread;
static uint64_t now_ns;

/* Kernels as the account told them, with a copy of each name. */
static struct {
    struct mt_kernel kernels[MOST_KERNELS];
    char names[MOST_KERNELS][32];
    size_t count;
} ran;

static void keep_kernel(void *context, const struct mt_kernel *kernel)
{
    (void)context;
    assert_in_range(ran.count, 0, MOST_KERNELS - 1);
    snprintf(ran.names[ran.count], sizeof ran.names[0], "%s", kernel->name);
    ran.kernels[ran.count++] = *kernel;
}

static mt_category intern_category(void *context, const char *name)
{
    return mt_interner_category(((struct recording *)context)->interner, name);
}

static const char *category_name(void *context, mt_category category)
{
    return mt_interner_category_name(((struct recording *)context)->interner, category);
}

static char *spell_nothing(const char *name)
{
    (void)name;
    return NULL;
}

static struct mt_sink open_sink(void)
{
    struct mt_sink sink = recording_sink(&recording);
    sink.intern_category = intern_category;
    sink.category_name = category_name;
    sink.kernel = keep_kernel;
    return sink;
}

static void open_with(const struct mt_account_settings *settings)
{
    recording_open(&recording);
    const struct mt_sink sink = open_sink();
    account = mt_account_create(&sink, settings);
    ran.count = 0;
    now_ns = 0;
}

static void close_account(void)
{
    mt_account_forget_thread(account, &main_thread, now_ns++);
    mt_account_forget_thread(account, &other_thread, now_ns++);
    mt_account_destroy(account);
    recording_close(&recording);
}

static int set_up(void **state)
{
    (void)state;
    open_with(&(struct mt_account_settings){.step = "step", .device = MT_EVERY_DEVICE, .spell = spell_nothing});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_account();
    return 0;
}

/* What events sum up to. */
struct sums {
    uint64_t requested_bytes, block_bytes, reserved_bytes, blocks, ooms;
};

static void add_event(struct sums *sums, const struct mt_event *event)
{
    switch (event->kind) {
    case MT_EVENT_ALLOC:
    case MT_EVENT_FREE:
        sums->requested_bytes += event->kind == MT_EVENT_ALLOC ? event->requested_bytes : -event->requested_bytes;
        sums->block_bytes += event->kind == MT_EVENT_ALLOC ? event->block_bytes : -event->block_bytes;
        sums->blocks += event->kind == MT_EVENT_ALLOC ? 1 : UINT64_MAX;
        break;
    case MT_EVENT_SEGMENT_MAP:
    case MT_EVENT_SEGMENT_UNMAP:
        sums->reserved_bytes += event->kind == MT_EVENT_SEGMENT_MAP ? event->block_bytes : -event->block_bytes;
        break;
    case MT_EVENT_OOM:
        sums->ooms++;
        break;
    default:
        break;
    }
}

static struct sums look(void)
{
    struct sums sums = {0};
    for (size_t i = 0; i < recording.count; i++)
        add_event(&sums, &recording.events[i]);
    return sums;
}

static void assert_holds(uint64_t bytes, uint64_t blocks)
{
    const struct sums sums = look();
    assert_int_equal(sums.requested_bytes, bytes);
    assert_int_equal(sums.block_bytes, bytes);
    assert_int_equal(sums.reserved_bytes, bytes);
    assert_int_equal(sums.blocks, blocks);
}

static struct mt_memory_call call_of(mt_memory_kind kind, uint64_t address, uint64_t bytes)
{
    return (struct mt_memory_call){
        .time_ns = now_ns++, .op = "cudaMalloc", .kind = kind, .address = address, .bytes = bytes, .context = 1};
}

static void take(uint64_t address, uint64_t bytes)
{
    const struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, address, bytes);
    mt_account_take(account, &main_thread, &call);
}

static void make(uint64_t handle, uint64_t bytes)
{
    const struct mt_memory_call call = call_of(MT_MEMORY_VIRTUAL, handle, bytes);
    mt_account_make(account, &main_thread, &call);
}

static void record(mt_memory_kind kind, bool releases, uint64_t address, uint64_t bytes, uint32_t call)
{
    const struct mt_memory_record told = {.time_ns = now_ns++,
                                          .op = "table",
                                          .kind = kind,
                                          .releases = releases,
                                          .address = address,
                                          .bytes = bytes,
                                          .call = call,
                                          .context = 1};
    mt_account_record(account, &told);
}

static const struct mt_label *last_label(void)
{
    return recording_label_of(&recording, &recording.events[recording.count - 1]);
}

static void each_kind_of_memory_has_a_category_of_its_own(void **state)
{
    (void)state;
    static const char *const names[] = {"Device", "Pool", "Managed", "Virtual", "Array", "Static"};
    for (int kind = 0; kind < MT_MEMORY_KIND_COUNT; kind++) {
        const struct mt_memory_call call = call_of((mt_memory_kind)kind, (uint64_t)(kind + 1) * MIB, 1000);
        mt_account_take(account, &main_thread, &call);
        assert_string_equal(category_name(&recording, last_label()->category), names[kind]);
        assert_string_equal(last_label()->op, "cudaMalloc");
    }
    assert_holds((uint64_t)MT_MEMORY_KIND_COUNT * 1000, MT_MEMORY_KIND_COUNT);
}

static void a_block_belongs_to_the_ranges_of_its_thread(void **state)
{
    (void)state;
    mt_account_enter(account, &main_thread, now_ns++, "model");
    mt_account_enter(account, &main_thread, now_ns++, "layer");
    mt_account_enter(account, &other_thread, now_ns++, "loader");
    take(MIB, 10);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "model.layer");
    mt_account_leave(account, &main_thread, now_ns++);
    take(2 * MIB, 10);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "model");
    const struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, 3 * MIB, 10);
    mt_account_take(account, &other_thread, &call);
    assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "loader");
    mt_account_leave(account, &main_thread, now_ns++);
    mt_account_leave(account, &main_thread, now_ns++); /* one too many */
    take(4 * MIB, 10);
    assert_int_equal(last_label()->span, 0);
}

/* Their events are those of one thread, so that they nest, whatever another one does in between. */
static void ranges_are_events_of_one_thread(void **state)
{
    (void)state;
    mt_account_enter(account, &main_thread, now_ns++, "a");
    mt_account_enter(account, &other_thread, now_ns++, "b");
    mt_account_leave(account, &main_thread, now_ns++);
    mt_account_leave(account, &other_thread, now_ns++);
    assert_int_equal(recording.count, 2);
    assert_int_equal(recording.events[0].kind, MT_EVENT_SPAN_BEGIN);
    assert_int_equal(recording.events[1].kind, MT_EVENT_SPAN_END);
    assert_int_equal(recording.events[0].span, recording.events[1].span);
}

/* What comes after it would be part of them, and of their step. */
static void a_thread_that_ends_within_its_ranges_ends_them(void **state)
{
    (void)state;
    mt_account_enter(account, &main_thread, now_ns++, "step");
    mt_account_enter(account, &main_thread, now_ns++, "a");
    mt_account_enter(account, &main_thread, now_ns++, "b");
    mt_account_forget_thread(account, &main_thread, now_ns++);
    static const mt_event_kind kinds[] = {MT_EVENT_STEP_BEGIN, MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_BEGIN,
                                          MT_EVENT_SPAN_END,   MT_EVENT_SPAN_END,   MT_EVENT_STEP_END};
    assert_int_equal(recording.count, sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; i < recording.count; i++)
        assert_int_equal(recording.events[i].kind, kinds[i]);
    assert_int_equal(recording.events[1].span, recording.events[4].span);
    mt_account_enter(account, &other_thread, now_ns++, "c");
    assert_int_equal(recording.count, sizeof kinds / sizeof kinds[0] + 1);
}

static void ranges_of_a_name_are_steps_and_no_part_of_the_path(void **state)
{
    (void)state;
    for (int step = 0; step < 2; step++) {
        mt_account_enter(account, &main_thread, now_ns++, step == 0 ? "step 0" : "step 1");
        mt_account_enter(account, &main_thread, now_ns++, "forward");
        take((uint64_t)(step + 1) * MIB, 10);
        assert_string_equal(mt_interner_find_span(recording.interner, last_label()->span)->path, "forward");
        mt_account_leave(account, &main_thread, now_ns++);
        mt_account_leave(account, &main_thread, now_ns++);
        assert_int_equal(recording.events[recording.count - 1].kind, MT_EVENT_STEP_END);
        assert_int_equal(recording.events[recording.count - 1].value, step);
    }
}

static void what_was_not_taken_here_is_not_given_back(void **state)
{
    (void)state;
    mt_account_give(account, now_ns++, 77);
    mt_account_let_go(account, now_ns++, 77);
    mt_account_unmap(account, now_ns++, 0, UINT64_MAX);
    mt_account_map(account, MIB, MIB, 77);
    record(MT_MEMORY_ARRAY, true, 77, 0, 9);
    take(0, 10);  /* a null pointer */
    take(MIB, 0); /* no bytes */
    assert_int_equal(look().blocks, 0);
    take(MIB, 100);
    mt_account_give(account, now_ns++, MIB);
    mt_account_give(account, now_ns++, MIB);
    assert_holds(0, 0);
}

static void an_address_that_comes_again_ends_the_block_whose_end_was_lost(void **state)
{
    (void)state;
    take(MIB, 100);
    take(MIB, 300);
    take(MIB + 200, 500); /* overlaps */
    assert_holds(500, 1);
}

static void physical_memory_counts_once_until_it_is_released_and_unmapped(void **state)
{
    (void)state;
    make(5, 2 * MIB);
    assert_holds(2 * MIB, 1);
    mt_account_map(account, 100 * MIB, 2 * MIB, 5);
    mt_account_map(account, 200 * MIB, 2 * MIB, 5);
    mt_account_hold(account, 5);
    mt_account_let_go(account, now_ns++, 5);
    mt_account_let_go(account, now_ns++, 5);
    assert_holds(2 * MIB, 1);
    make(5, 4 * MIB); /* the handle's number comes again while the first memory is mapped */
    assert_holds(6 * MIB, 2);
    mt_account_unmap(account, now_ns++, 100 * MIB, 2 * MIB);
    assert_holds(6 * MIB, 2);
    mt_account_unmap(account, now_ns++, 150 * MIB, 100 * MIB);
    assert_holds(4 * MIB, 1);
    mt_account_let_go(account, now_ns++, 5);
    assert_holds(0, 0);
}

static void records_of_told_calls_add_nothing(void **state)
{
    (void)state;
    mt_account_expect(account, 40);
    take(MIB, 100);
    mt_account_expect(account, 41);
    make(5, 200);
    record(MT_MEMORY_DEVICE, false, MIB, 100, 40);
    record(MT_MEMORY_DEVICE, false, 0, 200, 41);
    assert_holds(300, 2);
    mt_account_expect(account, 42);
    mt_account_give(account, now_ns++, MIB);
    take(MIB, 70); /* before the record of the free comes */
    record(MT_MEMORY_DEVICE, true, MIB, 100, 42);
    assert_holds(270, 2);
    assert_int_equal(mt_account_counts(account).told_records, 3);
    assert_int_equal(mt_account_counts(account).filled_records, 0);
}

static void records_fill_in_what_no_call_told(void **state)
{
    (void)state;
    take(MIB, 100);
    record(MT_MEMORY_STATIC, false, MIB, 50, 7); /* at an address that is another's by now */
    record(MT_MEMORY_ARRAY, false, 99, 30, 8);
    assert_holds(180, 3);
    assert_string_equal(last_label()->op, "table");
    record(MT_MEMORY_STATIC, true, MIB, 50, 9);
    assert_holds(130, 2);
    record(MT_MEMORY_ARRAY, false, 99, 40, 10); /* the first one's end was lost */
    assert_holds(140, 2);
    assert_int_equal(mt_account_counts(account).filled_records, 5);
}

/* Before any record was found to be of a call that was told, its number may mean nothing. */
static void memory_that_calls_tell_is_filled_in_only_where_numbers_are_known_to_agree(void **state)
{
    (void)state;
    record(MT_MEMORY_DEVICE, false, MIB, 100, 7);
    assert_holds(0, 0);
    assert_int_equal(mt_account_counts(account).doubtful, 1);
    mt_account_expect(account, 8);
    take(2 * MIB, 10);
    record(MT_MEMORY_DEVICE, false, 2 * MIB, 10, 8);
    record(MT_MEMORY_DEVICE, false, 3 * MIB, 100, 9);
    assert_holds(110, 2);
}

/* Nothing tells of their end beside, and some are told of when they have gone. */
static void a_context_takes_what_records_told_with_it(void **state)
{
    (void)state;
    record(MT_MEMORY_ARRAY, false, MIB, 1000, 0);
    record(MT_MEMORY_STATIC, false, 2 * MIB, 500, 0);
    assert_holds(1500, 2);
    mt_account_end_context(account, now_ns++, 2);
    assert_holds(1500, 2);
    mt_account_end_context(account, now_ns++, 1);
    assert_holds(0, 0);
    record(MT_MEMORY_ARRAY, true, MIB, 1000, 0);
    record(MT_MEMORY_STATIC, false, 3 * MIB, 700, 0);
    assert_holds(0, 0);
    assert_int_equal(recording.events[recording.count - 2].requested_bytes, 700);
}

static void a_context_takes_its_memory_with_it(void **state)
{
    (void)state;
    struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, MIB, 10);
    call.context = 2;
    mt_account_take(account, &main_thread, &call);
    take(3 * MIB, 30);
    take(2 * MIB, 20);
    make(5, 400);
    mt_account_end_context(account, now_ns++, 1);
    assert_holds(410, 2);
}

static void take_of_pool(uint64_t address, uint64_t bytes, uint64_t reserved_bytes)
{
    struct mt_memory_call call = call_of(MT_MEMORY_POOL, address, bytes);
    call.pool = 77;
    mt_account_take(account, &main_thread, &call);
    if (reserved_bytes > 0)
        mt_account_pool(account, now_ns++, 77, reserved_bytes);
}

/* What is reserved is what the driver holds for the pool, whatever of it blocks have. */
static void what_a_pool_keeps_is_reserved_and_nobodys(void **state)
{
    (void)state;
    take_of_pool(MIB, 100, 320);
    assert_int_equal(look().reserved_bytes, 320);
    take_of_pool(2 * MIB, 300, 640);
    assert_int_equal(look().reserved_bytes, 640);
    mt_account_give(account, now_ns++, MIB);
    mt_account_give(account, now_ns++, 2 * MIB);
    assert_int_equal(look().reserved_bytes, 640);
    assert_int_equal(look().block_bytes, 0);
    take_of_pool(MIB, 600, 640);
    assert_int_equal(look().reserved_bytes, 640);
    take_of_pool(3 * MIB, 10, 610); /* the rest was given back in between */
    assert_int_equal(look().reserved_bytes, 610);
    take(9 * MIB, 5);
    assert_int_equal(look().reserved_bytes, 615);
    assert_int_equal(look().block_bytes, 615);
    mt_account_give(account, now_ns++, 3 * MIB);
    mt_account_pool(account, now_ns++, 77, 0); /* the pool is destroyed while a block lives */
    assert_holds(605, 2);
    mt_account_end_context(account, now_ns++, 1);
    assert_holds(0, 0);
}

static void a_pool_of_which_nothing_is_said_holds_its_blocks(void **state)
{
    (void)state;
    take_of_pool(MIB, 100, 0);
    take_of_pool(2 * MIB, 300, 0);
    mt_account_give(account, now_ns++, MIB);
    assert_holds(300, 1);
}

static void only_the_memory_of_the_wanted_device_counts(void **state)
{
    (void)state;
    close_account();
    open_with(&(struct mt_account_settings){.device = 1, .spell = spell_nothing});
    for (int device = 0; device < 3; device++) {
        struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, (uint64_t)(device + 1) * MIB, 1u << device);
        call.device = device;
        mt_account_take(account, NULL, &call);
        mt_account_refuse(account, NULL, &call);
        call.address = (uint64_t)device + 1;
        mt_account_make(account, NULL, &call);
        const struct mt_memory_record told = {.kind = MT_MEMORY_STATIC,
                                              .op = "s",
                                              .address = (uint64_t)device + 9,
                                              .bytes = 1u << device,
                                              .device = device};
        mt_account_record(account, &told);
    }
    assert_holds(6, 3);
    assert_int_equal(look().ooms, 1);
    mt_account_give(account, now_ns++, MIB);
    mt_account_give(account, now_ns++, 2 * MIB);
    assert_holds(4, 2);
}

static void a_refused_request_is_the_end_of_memory(void **state)
{
    (void)state;
    const struct mt_memory_call call = call_of(MT_MEMORY_DEVICE, 0, (uint64_t)1 << 40);
    mt_account_refuse(account, &main_thread, &call);
    assert_int_equal(look().ooms, 1);
    assert_int_equal(recording.events[0].requested_bytes, (uint64_t)1 << 40);
    assert_int_equal(mt_account_counts(account).refused, 1);
}

static void launch(struct mt_account_thread *thread, uint32_t number)
{
    if (mt_account_launch_changed(thread))
        mt_account_launch_label(account, thread);
    mt_account_launch(account, number, thread->launch_label);
}

static void run_kernel(uint32_t number, const char *name, uint64_t start_ns)
{
    const struct mt_kernel_run run = {
        .start_ns = start_ns, .end_ns = start_ns + 5, .name = name, .launch = number, .stream = number};
    mt_account_ran(account, &run);
}

static void tell_kernel(void *context, const struct mt_kernel *kernel)
{
    mt_account_kernel(context, kernel);
}

/* The records come when the step and the range are long over, in two deliveries. */
static void kernels_belong_to_the_range_and_step_of_their_launch(void **state)
{
    (void)state;
    launch(&main_thread, 1);
    mt_account_enter(account, &main_thread, now_ns++, "step");
    mt_account_enter(account, &main_thread, now_ns++, "forward");
    launch(&main_thread, 2);
    launch(&other_thread, 3);
    mt_account_leave(account, &main_thread, now_ns++);
    mt_account_leave(account, &main_thread, now_ns++);
    run_kernel(3, "c", 1300);
    run_kernel(2, "b", 1200);
    mt_account_take_kernels(account, -1000, tell_kernel, account);
    run_kernel(1, "a", 1100);
    run_kernel(99, "nobody's", 1400);
    run_kernel(0, "of no call", 1500);
    mt_account_take_kernels(account, -1000, tell_kernel, account);
    static const struct {
        const char *name, *path;
        int64_t step;
        uint64_t start_ns;
    } expected[] = {{"b", "forward", 0, 200},
                    {"c", "", 0, 300},
                    {"a", "", -1, 100},
                    {"nobody's", "", -1, 400},
                    {"of no call", "", -1, 500}};
    assert_int_equal(ran.count, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct mt_label *label = mt_interner_find_label(recording.interner, ran.kernels[i].label);
        assert_string_equal(ran.names[i], expected[i].name);
        assert_int_equal(ran.kernels[i].step, expected[i].step);
        assert_int_equal(ran.kernels[i].start_ns, expected[i].start_ns);
        assert_string_equal(label->op, "kernel");
        if (expected[i].path[0] == '\0')
            assert_int_equal(label->span, 0);
        else
            assert_string_equal(mt_interner_find_span(recording.interner, label->span)->path, expected[i].path);
    }
}

/* ---- against a naive model ---- */

/* A place that holds bytes or none; a piece of physical memory; and what is mapped where. */
static struct {
    uint64_t places[PLACES];
    struct {
        uint64_t bytes, handles, mappings;
    } pieces[OPERATIONS];
    int piece_count;
    int handle_piece[HANDLES], window_piece[WINDOWS]; /* -1: none */
} naive;

static uint64_t seed, drawn;

static uint64_t draw(uint64_t below)
{
    return mt_splitmix64(seed * 7919 + drawn++) % below;
}

static uint64_t naive_bytes(void)
{
    uint64_t bytes = 0;
    for (int i = 0; i < PLACES; i++)
        bytes += naive.places[i];
    for (int i = 0; i < naive.piece_count; i++)
        if (naive.pieces[i].handles + naive.pieces[i].mappings > 0)
            bytes += naive.pieces[i].bytes;
    return bytes;
}

static void take_or_give(void)
{
    uint64_t place = draw(PLACES), address = (place + 1) * MIB;
    if (naive.places[place] == 0 && draw(4) > 0) {
        naive.places[place] = 1 + draw(MIB);
        take(address, naive.places[place]);
        return;
    }
    naive.places[place] = 0;
    mt_account_give(account, now_ns++, address);
}

static void make_or_let_go(void)
{
    uint64_t handle = draw(HANDLES);
    int piece = naive.handle_piece[handle];
    if (piece < 0) {
        piece = naive.handle_piece[handle] = naive.piece_count++;
        naive.pieces[piece].bytes = 1 + draw(MIB);
        naive.pieces[piece].handles = 1;
        make(handle, naive.pieces[piece].bytes);
    } else if (draw(3) == 0) {
        naive.pieces[piece].handles++;
        mt_account_hold(account, handle);
    } else {
        if (--naive.pieces[piece].handles == 0)
            naive.handle_piece[handle] = -1;
        mt_account_let_go(account, now_ns++, handle);
    }
}

static void map_or_unmap(void)
{
    uint64_t window = draw(WINDOWS), handle = draw(HANDLES), count = 1 + draw(3);
    int piece = naive.handle_piece[handle];
    if (draw(2) == 0) {
        mt_account_map(account, (1000 + window) * MIB, MIB, handle);
        if (piece >= 0 && naive.window_piece[window] < 0) {
            naive.window_piece[window] = piece;
            naive.pieces[piece].mappings++;
        }
        return;
    }
    mt_account_unmap(account, now_ns++, (1000 + window) * MIB, count * MIB);
    for (uint64_t i = window; i < window + count && i < WINDOWS; i++) {
        if (naive.window_piece[i] >= 0)
            naive.pieces[naive.window_piece[i]].mappings--;
        naive.window_piece[i] = -1;
    }
}

static void any_calls_in_any_order_sum_up_to_what_is_held(void **state)
{
    (void)state;
    static void (*const operations[])(void) = {take_or_give, make_or_let_go, map_or_unmap};
    struct sums sums = {0};
    seed = mt_clock_ns() >> 8;
    drawn = 0;
    print_message("seed %" PRIu64 "\n", seed);
    memset(&naive, 0, sizeof naive);
    memset(naive.handle_piece, -1, sizeof naive.handle_piece);
    memset(naive.window_piece, -1, sizeof naive.window_piece);
    for (size_t i = 0, seen = 0; i < OPERATIONS; i++) {
        operations[draw(3)]();
        for (; seen < recording.count; seen++)
            add_event(&sums, &recording.events[seen]);
        assert_int_equal(sums.requested_bytes, naive_bytes());
        assert_int_equal(sums.reserved_bytes, naive_bytes());
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_kind_of_memory_has_a_category_of_its_own),
        TEST(a_block_belongs_to_the_ranges_of_its_thread),
        TEST(ranges_are_events_of_one_thread),
        TEST(a_thread_that_ends_within_its_ranges_ends_them),
        TEST(ranges_of_a_name_are_steps_and_no_part_of_the_path),
        TEST(what_was_not_taken_here_is_not_given_back),
        TEST(an_address_that_comes_again_ends_the_block_whose_end_was_lost),
        TEST(physical_memory_counts_once_until_it_is_released_and_unmapped),
        TEST(records_of_told_calls_add_nothing),
        TEST(records_fill_in_what_no_call_told),
        TEST(memory_that_calls_tell_is_filled_in_only_where_numbers_are_known_to_agree),
        TEST(what_a_pool_keeps_is_reserved_and_nobodys),
        TEST(a_pool_of_which_nothing_is_said_holds_its_blocks),
        TEST(a_context_takes_its_memory_with_it),
        TEST(a_context_takes_what_records_told_with_it),
        TEST(only_the_memory_of_the_wanted_device_counts),
        TEST(a_refused_request_is_the_end_of_memory),
        TEST(kernels_belong_to_the_range_and_step_of_their_launch),
        TEST(any_calls_in_any_order_sum_up_to_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
