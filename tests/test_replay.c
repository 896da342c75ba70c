/* The replay of lifetimes: against a naive sum, against the runs that they were taken from, and against what PyTorch
 * reserved. */
#include "analysis/emptied_cache.h"
#include "analysis/replay.h"
#include "base/memory.h"
#include "base/number_map.h"
#include "base/random.h"
#include "recorded_training.h"
#include "request_sequence.h"
#include "seed.h"

/* Random lifetimes: many ties, some that stay, in no order. */
static size_t make_random(uint64_t seed, struct mt_lifetime *out, size_t most)
{
    size_t count = mt_splitmix64(seed) % most;
    uint64_t draws = 0, span = 2 + mt_splitmix64(seed + 1) % (4 * most);
    for (size_t i = 0; i < count; i++) {
        uint64_t random = mt_splitmix64((seed << 20) + draws++), length = mt_splitmix64((seed << 20) + draws++) % span;
        out[i] = (struct mt_lifetime){.requested_bytes = 1 + (random >> 40) % (UINT64_C(3) << 20),
                                      .begin = (int64_t)(1000 + random % span),
                                      .stream = (mt_stream)(random >> 32 & 1)};
        out[i].end = length == 0 ? MT_POSITION_NEVER : out[i].begin + (int64_t)length;
    }
    return count;
}

/* True if lifetime i is live when lifetime `at` has just begun. */
static bool overlaps(const struct mt_lifetime *lifetimes, size_t i, size_t at)
{
    int64_t now = lifetimes[at].begin;
    bool has_begun = lifetimes[i].begin < now || (lifetimes[i].begin == now && i <= at);
    return has_begun && lifetimes[i].end > now;
}

static uint64_t naive_peak(const struct mt_lifetime *lifetimes, size_t count)
{
    uint64_t peak = 0;
    for (size_t at = 0; at < count; at++) {
        uint64_t live = 0;
        for (size_t i = 0; i < count; i++)
            live += overlaps(lifetimes, i, at) ? lifetimes[i].requested_bytes : 0;
        peak = live > peak ? live : peak;
    }
    return peak;
}

/* Checks that the highest of the curve are the peaks, and that no bin has less than was live as it began. */
static void check_curve(const struct mt_lifetime *lifetimes, size_t count, const struct mt_replay_result *result)
{
    const struct mt_replay_curve *curve = &result->curve;
    uint64_t allocated = 0, reserved = 0;
    assert_in_range(curve->count, 1, MT_REPLAY_BINS);
    for (size_t bin = 0; bin < curve->count; bin++) {
        int64_t at = curve->first + (int64_t)(bin * curve->width);
        uint64_t live = 0;
        for (size_t i = 0; i < count; i++)
            live += lifetimes[i].begin <= at && at < lifetimes[i].end ? lifetimes[i].requested_bytes : 0;
        assert_true(live <= curve->allocated_bytes[bin]);
        assert_true(curve->allocated_bytes[bin] <= curve->reserved_bytes[bin]);
        allocated = curve->allocated_bytes[bin] > allocated ? curve->allocated_bytes[bin] : allocated;
        reserved = curve->reserved_bytes[bin] > reserved ? curve->reserved_bytes[bin] : reserved;
    }
    assert_int_equal(allocated, result->allocated_bytes);
    assert_int_equal(reserved, result->reserved_bytes);
}

enum { MOST_LIFETIMES = 300, ROUNDS = 60 };

static void the_replay_reaches_the_naive_sum(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct mt_lifetime lifetimes[MOST_LIFETIMES];
        size_t count = make_random(seed + round, lifetimes, MOST_LIFETIMES);
        struct mt_alloc_settings settings;
        assert_int_equal(mt_alloc_settings_parse(policies[round % 2], &settings), MT_OK);
        struct mt_replay_result result;
        assert_int_equal(mt_replay_run(lifetimes, count, &settings, UINT64_C(1) << 40, &result), MT_OK);
        assert_int_equal(result.requested_bytes, naive_peak(lifetimes, count));
        assert_true(result.fits);
        assert_true(result.requested_bytes <= result.allocated_bytes &&
                    result.allocated_bytes <= result.reserved_bytes);
        check_curve(lifetimes, count, &result);
    }
}

/* Checks that the replay names the first request that has no room, whatever comes after it. */
static void the_first_lifetime_without_room_is_named(void **state)
{
    (void)state;
    struct mt_alloc_settings settings;
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &settings), MT_OK);
    enum { COUNT = 40 };
    struct mt_lifetime lifetimes[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        lifetimes[i] = (struct mt_lifetime){.requested_bytes = 20 << 20,
                                            .begin = (int64_t)(COUNT - i),
                                            .end = i % 4 == 0 ? (int64_t)(COUNT - i) + 1 : MT_POSITION_NEVER};
    uint64_t capacity = UINT64_C(200) << 20;
    struct mt_replay_result result;
    assert_int_equal(mt_replay_run(lifetimes, COUNT, &settings, capacity, &result), MT_OK);
    assert_false(result.fits);
    assert_int_equal(result.reserved_bytes, capacity);
    struct mt_lifetime *met = lifetimes + result.unmet + 1; /* they were made from the last to the first */
    size_t met_count = COUNT - result.unmet - 1;
    struct mt_replay_result before;
    assert_int_equal(mt_replay_run(met, met_count, &settings, capacity, &before), MT_OK);
    assert_true(before.fits);
    assert_int_equal(mt_replay_run(met - 1, met_count + 1, &settings, capacity, &before), MT_OK);
    assert_false(before.fits);
    assert_int_equal(before.unmet, 0);
}

static void nothing_needs_nothing(void **state)
{
    (void)state;
    struct mt_alloc_settings settings;
    struct mt_replay_result result;
    struct mt_lifetime empty = {.requested_bytes = 0, .begin = 2, .end = 4};
    assert_int_equal(mt_alloc_settings_parse("", &settings), MT_OK);
    assert_int_equal(mt_replay_run(&empty, 1, &settings, 1 << 30, &result), MT_OK);
    assert_int_equal(result.reserved_bytes, 0);
    assert_true(result.fits);
}

/* A key for the place of a block; offsets of these runs are far below 2^40. */
static uint64_t place_of(const struct mt_event *event)
{
    return (uint64_t)event->segment << 40 | event->offset;
}

/* The blocks of a recorded run, their events counted from 1, their labels one a category; the caller's. */
static struct mt_block_row *blocks_of(const struct recording *recording, size_t *out_count)
{
    struct mt_block_row *rows = mt_host_alloc(recording->count * sizeof *rows);
    struct mt_number_map live;
    mt_number_map_create(&live);
    *out_count = 0;
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        uint64_t index;
        if (event->kind == MT_EVENT_ALLOC) {
            mt_number_map_put(&live, place_of(event), *out_count);
            rows[(*out_count)++] = (struct mt_block_row){.alloc_event = (int64_t)i + 1,
                                                         .requested_bytes = event->requested_bytes,
                                                         .label = (uint32_t)mt_label_category(event->label)};
        }
        if (event->kind == MT_EVENT_FREE && mt_number_map_take(&live, place_of(event), &index))
            rows[index].free_event = (int64_t)i + 1;
    }
    mt_number_map_release(&live);
    return rows;
}

/* Returns the lifetimes of the blocks, with the categories that blocks_of uses as labels. The caller frees them. */
static struct mt_lifetime *lifetimes_of_blocks(const struct mt_block_row *blocks, size_t count)
{
    struct mt_lifetime *lifetimes = mt_host_alloc((count + 1) * sizeof *lifetimes);
    for (size_t i = 0; i < count; i++) {
        const struct mt_block_row *block = &blocks[i];
        int64_t end = block->free_event != 0 ? mt_position_at(block->free_event) : MT_POSITION_NEVER;
        lifetimes[i] = (struct mt_lifetime){.requested_bytes = block->requested_bytes,
                                            .begin = mt_position_at(block->alloc_event),
                                            .end = end,
                                            .label = block->label,
                                            .category = (mt_category)block->label,
                                            .stream = block->stream};
    }
    return lifetimes;
}

static void expect_the_same_peaks(const char *alloc, const struct mt_training_config *config)
{
    struct recording recording;
    struct mt_alloc_stats stats;
    struct mt_alloc_settings settings;
    struct mt_replay_result result;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim:h200", alloc, config, NULL, &stats), MT_OK);
    size_t count;
    struct mt_block_row *blocks = blocks_of(&recording, &count);
    struct mt_lifetime *lifetimes = lifetimes_of_blocks(blocks, count);
    assert_int_equal(mt_alloc_settings_parse(alloc, &settings), MT_OK);
    assert_int_equal(mt_replay_run(lifetimes, count, &settings, UINT64_C(141) << 30, &result), MT_OK);
    assert_int_equal(result.requested_bytes, stats.all.peak_requested_bytes);
    assert_int_equal(result.allocated_bytes, stats.all.peak_allocated_bytes);
    assert_int_equal(result.reserved_bytes, stats.peak_reserved_bytes);
    free(lifetimes);
    free(blocks);
    recording_close(&recording);
}

static void a_run_replayed_unchanged_has_its_own_peaks(void **state)
{
    (void)state;
    static const char *const allocs[] = {"policy=tight", "policy=torch", "policy=torch,roundup_power2_divisions=8"};
    for (size_t i = 0; i < sizeof allocs / sizeof allocs[0]; i++) {
        struct mt_training_config config = mt_training_config_default(); /* 2.7B */
        config.steps = 2;
        config.autocast = i % 2 == 1;
        expect_the_same_peaks(allocs[i], &config);
        assert_int_equal(mt_model_config_named("small", &config.model), MT_OK);
        config.autocast = i % 2 == 0;
        config.steps = 3;
        expect_the_same_peaks(allocs[i], &config);
    }
}

/* The requests of a real training step as lifetimes; the caller's. */
static struct mt_lifetime *lifetimes_of(const struct request_sequence *sequence, size_t *out_count)
{
    struct mt_lifetime *lifetimes = mt_host_alloc(REQUEST_MOST_BLOCKS * sizeof *lifetimes);
    size_t *by_id = mt_host_alloc(REQUEST_MOST_BLOCKS * sizeof *by_id), count = 0;
    gzFile file = request_sequence_open(sequence);
    struct request request;
    for (int64_t event = 1; request_sequence_next(file, &request); event++) {
        if (request.frees) {
            lifetimes[by_id[request.id]].end = mt_position_at(event);
            continue;
        }
        by_id[request.id] = count;
        lifetimes[count++] = (struct mt_lifetime){
            .requested_bytes = request.bytes, .begin = mt_position_at(event), .end = MT_POSITION_NEVER};
    }
    gzclose(file);
    free(by_id);
    *out_count = count;
    return lifetimes;
}

static void a_replay_of_pytorchs_requests_reserves_what_pytorch_did(void **state)
{
    (void)state;
    struct mt_alloc_settings settings;
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &settings), MT_OK);
    for (int i = 0; i < REQUEST_SEQUENCES; i++) {
        size_t count;
        struct mt_lifetime *lifetimes = lifetimes_of(&request_sequences[i], &count);
        struct mt_replay_result result;
        assert_int_equal(mt_replay_run(lifetimes, count, &settings, UINT64_C(150) << 30, &result), MT_OK);
        assert_int_equal(result.reserved_bytes, request_sequences[i].reserved_bytes);
        free(lifetimes);
    }
}

/* Two blocks of different sizes, one after the other. */
static void a_release_returns_cached_memory_before_the_next_request(void **state)
{
    (void)state;
    const struct mt_lifetime lifetimes[] = {{.requested_bytes = 20 << 20, .begin = 2, .end = 4},
                                            {.requested_bytes = 40 << 20, .begin = 8, .end = 10}};
    const int64_t positions[] = {6, 12};
    struct mt_alloc_settings settings;
    struct mt_replay_result kept, released;
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &settings), MT_OK);
    assert_int_equal(mt_replay_run(lifetimes, 2, &settings, 1 << 30, &kept), MT_OK);
    assert_int_equal(
        mt_replay_run_releasing(lifetimes, 2, (struct mt_replay_releases){positions, 2}, &settings, 1 << 30, &released),
        MT_OK);
    assert_int_equal(kept.reserved_bytes, 60 << 20);
    assert_int_equal(released.reserved_bytes, 40 << 20);
}

/* Parts of one segment each: emptied at 5 and 6, unmapped at 20 for the request at 21 on a full device, refused at 31,
 * and a private pool that ends at 40. */
static void the_cache_is_emptied_where_no_request_needs_it(void **state)
{
    (void)state;
    const struct mt_segment_row segments[] = {{.number = 0, .pool = ""}, {.number = 1, .pool = "private pool (1, 0)"}};
    const struct mt_part_row parts[] = {{0, 0, 10 << 20, 1, 5},   {0, 0, 10 << 20, 2, 6},   {0, 0, 90 << 20, 8, 20},
                                        {0, 0, 80 << 20, 21, 30}, {1, 0, 10 << 20, 33, 40}, {0, 0, 10 << 20, 41, 50}};
    const struct mt_mark_row marks[] = {{.event = 31, .kind = MT_EVENT_OOM}};
    struct mt_advice_input input = {.segments = segments,
                                    .segment_count = 2,
                                    .parts = parts,
                                    .part_count = sizeof parts / sizeof parts[0],
                                    .marks = marks,
                                    .mark_count = 1,
                                    .first_event = 1,
                                    .last_event = 60,
                                    .program.kind = MT_PROGRAM_PYTORCH,
                                    .capacity_bytes = 100 << 20};
    size_t count;
    int64_t *found = mt_emptied_cache_find(&input, &count);
    assert_int_equal(count, 2);
    assert_int_equal(found[0], mt_position_at(6));
    assert_int_equal(found[1], mt_position_at(50));
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_returns_cached_memory_before_the_next_request),
        cmocka_unit_test(the_cache_is_emptied_where_no_request_needs_it),
        cmocka_unit_test(the_replay_reaches_the_naive_sum),
        cmocka_unit_test(the_first_lifetime_without_room_is_named),
        cmocka_unit_test(nothing_needs_nothing),
        cmocka_unit_test(a_run_replayed_unchanged_has_its_own_peaks),
        cmocka_unit_test(a_replay_of_pytorchs_requests_reserves_what_pytorch_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
