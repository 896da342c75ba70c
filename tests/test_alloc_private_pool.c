/* Private pools: what their streams' rules and captures change, and that a pool's state can be restored. */
#include "alloc_rig.h"
#include "base/random.h"
#include "seed.h"

#include <inttypes.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum { OURS = 0, POOL = 3 };

static const char *const settings_texts[] = {"policy=torch", "policy=torch,expandable_segments=on"};

enum { SETTINGS = sizeof settings_texts / sizeof settings_texts[0] };

static struct mt_block *take(struct rig *rig, uint64_t bytes, mt_stream stream)
{
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(rig->alloc, bytes, stream, 1, 0, &block), MT_OK);
    return block;
}

static uint64_t reserved(struct rig *rig)
{
    struct mt_alloc_stats stats;
    assert_int_equal(mt_alloc_check(rig->alloc), MT_OK);
    mt_alloc_stats(rig->alloc, &stats);
    return stats.reserved_bytes;
}

static void set_rules(struct rig *rig, struct mt_stream_rules rules)
{
    mt_alloc_set_rules(rig->alloc, POOL, &rules);
}

static void a_kept_pool_keeps_its_segments_until_it_is_released(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        struct rig rig;
        rig_open(&rig, settings_texts[i], 100 * MIB);
        set_rules(&rig, (struct mt_stream_rules){.is_private = true, .is_kept = true});
        mt_alloc_give(rig.alloc, take(&rig, 20 * MIB, POOL));
        mt_alloc_give(rig.alloc, take(&rig, 40 * MIB, OURS));
        mt_alloc_release_cached(rig.alloc);
        mt_alloc_release_stream(rig.alloc, POOL);
        assert_int_equal(reserved(&rig), 20 * MIB);
        struct mt_block *none;
        assert_int_equal(mt_alloc_take(rig.alloc, 90 * MIB, OURS, 1, 0, &none), MT_OUT_OF_MEMORY);
        assert_int_equal(reserved(&rig), 20 * MIB);
        set_rules(&rig, (struct mt_stream_rules){.is_private = true});
        mt_alloc_give(rig.alloc, take(&rig, 40 * MIB, OURS));
        mt_alloc_release_stream(rig.alloc, POOL);
        assert_int_equal(reserved(&rig), 40 * MIB);
        rig_close(&rig);
    }
}

static void a_capture_releases_nothing_for_a_request(void **state)
{
    (void)state;
    struct rig rig;
    struct mt_block *none;
    rig_open(&rig, "policy=torch", 100 * MIB);
    mt_alloc_give(rig.alloc, take(&rig, 80 * MIB, OURS));
    mt_alloc_capture_begin(rig.alloc);
    assert_int_equal(mt_alloc_take(rig.alloc, 40 * MIB, POOL, 1, 0, &none), MT_OUT_OF_MEMORY);
    mt_alloc_release_cached(rig.alloc);
    assert_int_equal(reserved(&rig), 80 * MIB);
    mt_alloc_capture_end(rig.alloc);
    mt_alloc_give(rig.alloc, take(&rig, 40 * MIB, POOL));
    assert_int_equal(reserved(&rig), 40 * MIB);
    rig_close(&rig);
}

static void a_block_with_users_waits_for_the_end_of_captures(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch", 100 * MIB);
    mt_alloc_capture_begin(rig.alloc);
    mt_alloc_capture_begin(rig.alloc);
    struct mt_block *used = take(&rig, 20 * MIB, POOL), *other = take(&rig, 20 * MIB, POOL);
    const mt_addr address = mt_block_address(used), reused = mt_block_address(other);
    struct mt_block_view view;
    mt_alloc_use_on(rig.alloc, used, OURS);
    mt_alloc_give(rig.alloc, used);
    mt_alloc_give(rig.alloc, other);
    assert_false(mt_alloc_find(rig.alloc, address, &view));
    other = take(&rig, 20 * MIB, POOL);
    assert_int_equal(mt_block_address(other), reused);
    mt_alloc_capture_end(rig.alloc);
    assert_int_not_equal(mt_block_address(take(&rig, 20 * MIB, POOL)), address);
    mt_alloc_capture_end(rig.alloc);
    assert_int_equal(reserved(&rig), 60 * MIB);
    assert_int_equal(mt_block_address(take(&rig, 20 * MIB, POOL)), address);
    mt_alloc_capture_begin(rig.alloc); /* the allocator is destroyed while a block waits */
    mt_alloc_use_on(rig.alloc, other, OURS);
    mt_alloc_give(rig.alloc, other);
    rig_close(&rig);
}

static void an_unsplit_pool_hands_out_whole_segments(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, "policy=torch", 100 * MIB);
    set_rules(&rig, (struct mt_stream_rules){.is_private = true, .is_unsplit = true});
    struct mt_block *small = take(&rig, 1000, POOL);
    take(&rig, 1000, POOL);
    take(&rig, 3 * MIB, POOL);
    take(&rig, 3 * MIB, POOL);
    assert_int_equal(reserved(&rig), 44 * MIB);
    mt_alloc_give(rig.alloc, small);
    take(&rig, MIB, POOL);
    assert_int_equal(reserved(&rig), 44 * MIB);
    rig_close(&rig);
}

static void a_pool_lends_its_free_blocks_before_a_request_is_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct mt_block *block;
    rig_open(&rig, "policy=torch", 100 * MIB);
    set_rules(&rig, (struct mt_stream_rules){.is_private = true, .is_kept = true, .is_lent = true, .lent_to = OURS});
    mt_alloc_give(rig.alloc, take(&rig, 80 * MIB, POOL));
    assert_int_equal(mt_alloc_take(rig.alloc, 60 * MIB, OURS + 1, 1, 0, &block), MT_OUT_OF_MEMORY);
    block = take(&rig, 60 * MIB, OURS);
    assert_int_equal(reserved(&rig), 80 * MIB);
    mt_alloc_give(rig.alloc, block);
    take(&rig, 80 * MIB, POOL);
    rig_close(&rig);
}

/* ---- restoring ---- */

enum { MOST_PIECES = 64 };

struct pieces {
    struct mt_alloc_piece rows[MOST_PIECES];
    size_t count;
};

static void add_piece(void *context, const struct mt_alloc_piece *piece)
{
    struct pieces *pieces = context;
    if (piece->stream != POOL)
        return;
    assert_true(pieces->count < MOST_PIECES);
    pieces->rows[pieces->count++] = *piece;
}

static struct pieces visit(struct rig *rig)
{
    struct pieces pieces;
    memset(&pieces, 0, sizeof pieces);
    mt_alloc_visit(rig->alloc, add_piece, &pieces);
    return pieces;
}

static void a_pool_is_restored_piece_by_piece(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        struct rig rig;
        struct mt_block *blocks[6], *restored[MOST_PIECES];
        rig_open(&rig, settings_texts[i], 200 * MIB);
        for (int n = 0; n < 6; n++)
            blocks[n] = take(&rig, n % 2 == 0 ? 3 * MIB : 700, POOL);
        mt_alloc_give(rig.alloc, blocks[2]);
        mt_alloc_give(rig.alloc, blocks[3]);
        const struct pieces before = visit(&rig);
        for (int n = 0; n < 6; n++)
            if (n != 2 && n != 3)
                mt_alloc_give(rig.alloc, blocks[n]);
        for (size_t n = 0; n < before.count; n++) {
            const struct mt_alloc_request request = {.bytes = before.rows[n].bytes, .stream = POOL, .label = 1};
            assert_int_equal(mt_alloc_take_at(rig.alloc, &request, before.rows[n].address, &restored[n]), MT_OK);
        }
        for (size_t n = 0; n < before.count; n++)
            if (before.rows[n].requested_bytes == 0)
                mt_alloc_give(rig.alloc, restored[n]);
        const struct pieces after = visit(&rig);
        assert_int_equal(after.count, before.count);
        for (size_t n = 0; n < before.count; n++) {
            assert_int_equal(after.rows[n].address, before.rows[n].address);
            assert_int_equal(after.rows[n].bytes, before.rows[n].bytes);
            assert_int_equal(after.rows[n].requested_bytes != 0, before.rows[n].requested_bytes != 0);
        }
        const struct mt_alloc_request taken = {.bytes = 512, .stream = POOL, .label = 1};
        assert_int_equal(mt_alloc_take_at(rig.alloc, &taken, before.rows[0].address, &restored[0]), MT_USAGE);
        rig_close(&rig);
    }
}

/* ---- random calls ---- */

enum { MOST_LIVE = 60, STREAMS = 5, STEPS = 3000 };

struct bed {
    struct rig rig;
    uint64_t seed, draws;
    struct mt_block *live[MOST_LIVE];
    int count, captures;
};

static uint64_t draw(struct bed *bed, uint64_t below)
{
    return mt_splitmix64(bed->seed * UINT64_C(0x9E3779B97F4A7C15) + bed->draws++) % below;
}

static void give_one(struct bed *bed)
{
    const uint64_t place = draw(bed, (uint64_t)bed->count);
    if (draw(bed, 3) == 0)
        mt_alloc_use_on(bed->rig.alloc, bed->live[place], (mt_stream)draw(bed, STREAMS));
    mt_alloc_give(bed->rig.alloc, bed->live[place]);
    bed->live[place] = bed->live[--bed->count];
}

static void take_one(struct bed *bed)
{
    const uint64_t bytes = 1 + draw(bed, UINT64_C(1) << (4 + draw(bed, 22)));
    struct mt_block *block;
    if (mt_alloc_take(bed->rig.alloc, bytes, (mt_stream)draw(bed, STREAMS), 1, 0, &block) == MT_OK)
        bed->live[bed->count++] = block;
}

static void change_something(struct bed *bed)
{
    struct mt_alloc *alloc = bed->rig.alloc;
    const struct mt_stream_rules rules = {.is_private = true,
                                          .is_kept = draw(bed, 2) == 0,
                                          .is_unsplit = draw(bed, 4) == 0,
                                          .is_lent = draw(bed, 4) == 0,
                                          .lent_to = OURS};
    const uint64_t what = draw(bed, 5);
    if (what == 0)
        mt_alloc_set_rules(alloc, (mt_stream)(1 + draw(bed, STREAMS - 1)), &rules);
    else if (what == 1)
        mt_alloc_release_cached(alloc);
    else if (what == 2)
        mt_alloc_release_stream(alloc, (mt_stream)draw(bed, STREAMS));
    else if (bed->captures > 0 && what == 3 && bed->captures--)
        mt_alloc_capture_end(alloc);
    else if (bed->captures < 2 && ++bed->captures)
        mt_alloc_capture_begin(alloc);
}

static void every_call_keeps_the_state_consistent(void **state)
{
    (void)state;
    static const char *const texts[] = {"policy=torch", "policy=torch,expandable_segments=on", "policy=tight",
                                        "policy=torch,max_split=21MiB,gc_threshold=0.5"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct bed bed = {.seed = take_seed()};
        rig_open(&bed.rig, texts[i], 160 * MIB);
        for (int n = 0; n < STEPS; n++) {
            if (draw(&bed, 20) == 0)
                change_something(&bed);
            else if (bed.count == MOST_LIVE || (bed.count > 0 && draw(&bed, 2) == 0))
                give_one(&bed);
            else
                take_one(&bed);
            if (mt_alloc_check(bed.rig.alloc) != MT_OK)
                fail_msg("%s, seed %" PRIu64 ", draw %" PRIu64 ": %s", texts[i], bed.seed, bed.draws, mt_last_error());
        }
        rig_close(&bed.rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_pool_keeps_its_segments_until_it_is_released),
        cmocka_unit_test(a_capture_releases_nothing_for_a_request),
        cmocka_unit_test(a_block_with_users_waits_for_the_end_of_captures),
        cmocka_unit_test(an_unsplit_pool_hands_out_whole_segments),
        cmocka_unit_test(a_pool_lends_its_free_blocks_before_a_request_is_refused),
        cmocka_unit_test(a_pool_is_restored_piece_by_piece),
        cmocka_unit_test(every_call_keeps_the_state_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
