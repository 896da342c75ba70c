/* The size classes against a linear search. While no class has more blocks than a search looks at, it finds the best
 * fit. */
#include "alloc/size_classes.h"
#include "base/memory.h"
#include "base/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST_BLOCKS = 8, ROUNDS = 20000, SEEDS = 3 };

/* A set of a few blocks, in the classes and in a plain array. */
struct rig {
    struct mt_size_classes classes;
    struct mt_block blocks[MOST_BLOCKS];
    int count;
    uint64_t seed, draws;
};

static uint64_t draw(struct rig *rig, uint64_t below)
{
    return mt_splitmix64(rig->seed << 40 | rig->draws++) % below;
}

/* In a third of the rounds, sizes are close together, so that classes are shared. In the others they vary freely. */
static uint64_t draw_bytes(struct rig *rig)
{
    uint64_t units = draw(rig, 3) == 0 ? 4096 + draw(rig, 300) : 1 + draw(rig, UINT64_C(1) << (1 + draw(rig, 40)));
    return units * MT_BLOCK_UNIT;
}

static void fill(struct rig *rig)
{
    rig->classes = (struct mt_size_classes){0};
    rig->count = 1 + (int)draw(rig, MOST_BLOCKS);
    for (int i = 0; i < rig->count; i++) {
        rig->blocks[i] = (struct mt_block){.bytes = draw_bytes(rig), .is_free = true};
        mt_size_classes_insert(&rig->classes, &rig->blocks[i]);
    }
}

static uint64_t best_bytes(const struct rig *rig, uint64_t bytes)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < rig->count; i++)
        if (rig->blocks[i].bytes >= bytes && rig->blocks[i].bytes < best)
            best = rig->blocks[i].bytes;
    return best;
}

static void expect_best(const struct rig *rig, uint64_t bytes)
{
    const struct mt_block *found = mt_size_classes_find(&rig->classes, bytes);
    uint64_t found_bytes = found != NULL ? found->bytes : UINT64_MAX;
    if (found_bytes != best_bytes(rig, bytes))
        fail_msg("seed %" PRIu64 ", draw %" PRIu64 ": %" PRIu64 " bytes got %" PRIu64 ", best is %" PRIu64, rig->seed,
                 rig->draws, bytes, found_bytes, best_bytes(rig, bytes));
}

static void a_search_finds_the_best_fit(void **state)
{
    (void)state;
    struct rig *rig = mt_host_alloc(sizeof *rig);
    for (rig->seed = 1; rig->seed <= SEEDS; rig->seed++) {
        print_message("seed %" PRIu64 "\n", rig->seed);
        for (int round = 0; round < ROUNDS; round++) {
            fill(rig);
            expect_best(rig, draw_bytes(rig));
            for (int i = 0; i < rig->count; i++) {
                expect_best(rig, rig->blocks[i].bytes);
                expect_best(rig, rig->blocks[i].bytes + MT_BLOCK_UNIT);
            }
        }
    }
    free(rig);
}

/* Removes the blocks in random order; after each, exactly the others are held. */
static void remove_all(struct rig *rig)
{
    struct mt_block *left[MOST_BLOCKS];
    int count = rig->count;
    for (int i = 0; i < count; i++)
        left[i] = &rig->blocks[i];
    while (count > 0) {
        struct mt_block **slot = &left[draw(rig, (uint64_t)count)], *removed = *slot;
        mt_size_classes_remove(&rig->classes, removed);
        *slot = left[--count];
        uint64_t blocks = 0;
        assert_int_equal(mt_size_classes_check(&rig->classes, &blocks), MT_OK);
        assert_int_equal(blocks, count);
        assert_false(mt_size_classes_hold(&rig->classes, removed));
        for (int i = 0; i < count; i++)
            assert_true(mt_size_classes_hold(&rig->classes, left[i]));
    }
}

static void removal_in_any_order_leaves_the_others(void **state)
{
    (void)state;
    struct rig *rig = mt_host_alloc(sizeof *rig);
    rig->seed = 4;
    print_message("seed %" PRIu64 "\n", rig->seed);
    for (int round = 0; round < 500; round++) {
        fill(rig);
        remove_all(rig);
        assert_null(mt_size_classes_find(&rig->classes, 1));
    }
    free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_finds_the_best_fit),
        cmocka_unit_test(removal_in_any_order_leaves_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
