/* The account of a recorded program: calls and activity records, in any order, become memory that obeys the event
 * record and sums up to the memory held. */
#include "account_fixture.h"
#include "seed.h"

enum { OPERATIONS = 4000, PLACES = 40, HANDLES = 12, WINDOWS = 20 };

/* Sums over all events. */
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

static void a_handle_that_comes_again_ends_the_memory_whose_release_was_lost(void **state)
{
    (void)state;
    make(5, 2 * MIB);
    make(5, 4 * MIB);
    assert_holds(4 * MIB, 1);
    mt_account_map(account, 100 * MIB, 4 * MIB, 5);
    make(5, 8 * MIB); /* and what is mapped stays until it is unmapped */
    assert_holds(12 * MIB, 2);
    mt_account_unmap(account, now_ns++, 100 * MIB, 4 * MIB);
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
    assert_int_equal(mt_account_counts(account).matched_records, 3);
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

/* Until some activity record matches a call, their numbers may not be comparable. */
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

/* No record reports the end of this memory, and some arrive after the context has ended. */
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

/* Reserved bytes are the bytes that the driver holds for the pool, with or without blocks. */
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

/* Pools of another device, for instance. */
static void a_context_leaves_the_pools_of_others(void **state)
{
    (void)state;
    take_of_pool(MIB, 100, 320);
    mt_account_give(account, now_ns++, MIB);
    mt_account_end_context(account, now_ns++, 2);
    assert_int_equal(look().reserved_bytes, 320);
    mt_account_end_context(account, now_ns++, 1);
    assert_int_equal(look().reserved_bytes, 0);
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

/* ---- against a naive model ---- */

/* An address with its bytes, 0 for none; a piece of physical memory; and the mappings. */
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
    seed = take_seed();
    drawn = 0;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACCOUNT_TEST(each_kind_of_memory_has_a_category_of_its_own),
        ACCOUNT_TEST(what_was_not_taken_here_is_not_given_back),
        ACCOUNT_TEST(an_address_that_comes_again_ends_the_block_whose_end_was_lost),
        ACCOUNT_TEST(physical_memory_counts_once_until_it_is_released_and_unmapped),
        ACCOUNT_TEST(a_handle_that_comes_again_ends_the_memory_whose_release_was_lost),
        ACCOUNT_TEST(records_of_told_calls_add_nothing),
        ACCOUNT_TEST(records_fill_in_what_no_call_told),
        ACCOUNT_TEST(memory_that_calls_tell_is_filled_in_only_where_numbers_are_known_to_agree),
        ACCOUNT_TEST(what_a_pool_keeps_is_reserved_and_nobodys),
        ACCOUNT_TEST(a_context_leaves_the_pools_of_others),
        ACCOUNT_TEST(a_pool_of_which_nothing_is_said_holds_its_blocks),
        ACCOUNT_TEST(a_context_takes_its_memory_with_it),
        ACCOUNT_TEST(a_context_takes_what_records_told_with_it),
        ACCOUNT_TEST(only_the_memory_of_the_wanted_device_counts),
        ACCOUNT_TEST(a_refused_request_is_the_end_of_memory),
        ACCOUNT_TEST(any_calls_in_any_order_sum_up_to_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
