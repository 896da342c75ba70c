/* The fingerprint of an allocator: equal at two moments if the next steps are equal, and only then. */
#include "alloc_rig.h"
#include "base/random.h"

#define MIB(n) ((uint64_t)(n) << 20)

static const uint64_t CAPACITY_BYTES = UINT64_C(8) << 30;

static const char *const policies[] = {"policy=tight", "policy=torch"};

enum { POLICIES = 2, REQUESTS = 200, SEEDS = 20 };

static struct mt_block *take(struct rig *rig, uint64_t bytes)
{
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(rig->alloc, bytes, 0, 1, 0, &block), MT_OK);
    return block;
}

/* Takes and gives blocks by the seed, and gives all back at the end. Returns a digest of their places. */
static uint64_t run_step(struct rig *rig, uint64_t seed)
{
    struct mt_block *held[16] = {0};
    uint64_t digest = 0;
    for (uint64_t i = 0; i < REQUESTS; i++) {
        uint64_t draw = mt_splitmix64(seed << 32 | i);
        struct mt_block **slot = &held[draw % 16];
        mt_alloc_give(rig->alloc, *slot);
        *slot = take(rig, 1 + (draw >> 8) % (UINT64_C(1) << (draw >> 4) % 24));
        digest = mt_splitmix64(digest ^ mt_block_address(*slot));
    }
    for (int i = 0; i < 16; i++)
        mt_alloc_give(rig->alloc, held[i]);
    return digest;
}

/* A step that is repeated comes to places that repeat, and the fingerprint shows from which step on. */
static void steps_after_equal_fingerprints_get_equal_blocks(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        int settled = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct rig rig;
            rig_open(&rig, policies[p], CAPACITY_BYTES);
            uint64_t last = 0, last_digest = 0;
            for (int step = 0; step < 8; step++) {
                uint64_t now = mt_alloc_fingerprint(rig.alloc);
                uint64_t digest = run_step(&rig, seed);
                if (step > 0 && now == last) {
                    assert_true(digest == last_digest);
                    settled++;
                }
                last = now;
                last_digest = digest;
            }
            rig_close(&rig);
        }
        assert_true(settled > SEEDS);
    }
}

static void what_decides_about_the_next_block_shows(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct rig rig;
        rig_open(&rig, policies[p], CAPACITY_BYTES);
        struct mt_block *a = take(&rig, MIB(4)), *b = take(&rig, MIB(4)), *c = take(&rig, MIB(4));
        uint64_t all_out = mt_alloc_fingerprint(rig.alloc);
        mt_alloc_give(rig.alloc, a);
        uint64_t without_a = mt_alloc_fingerprint(rig.alloc);
        assert_true(without_a != all_out);
        a = take(&rig, MIB(4) - 1); /* the same block for another request */
        assert_true(mt_alloc_fingerprint(rig.alloc) == all_out);
        mt_alloc_give(rig.alloc, c);
        assert_true(mt_alloc_fingerprint(rig.alloc) != all_out);
        assert_true(mt_alloc_fingerprint(rig.alloc) != without_a);
        mt_alloc_give(rig.alloc, a);
        mt_alloc_give(rig.alloc, b);
        uint64_t idle = mt_alloc_fingerprint(rig.alloc);
        mt_alloc_release_cached(rig.alloc);
        assert_true(mt_alloc_fingerprint(rig.alloc) != idle);
        rig_close(&rig);
    }
}

static void marks_labels_and_time_do_not_show(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct rig rig;
        rig_open(&rig, policies[p], CAPACITY_BYTES);
        struct mt_block *block = take(&rig, MIB(4));
        uint64_t before = mt_alloc_fingerprint(rig.alloc);
        mt_alloc_give(rig.alloc, block);
        mt_alloc_mark(rig.alloc, MT_EVENT_STEP_BEGIN, 1, 0);
        assert_int_equal(mt_alloc_take(rig.alloc, MIB(4), 0, 2, 3, &block), MT_OK);
        assert_true(mt_alloc_fingerprint(rig.alloc) == before);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_after_equal_fingerprints_get_equal_blocks),
        cmocka_unit_test(what_decides_about_the_next_block_shows),
        cmocka_unit_test(marks_labels_and_time_do_not_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
