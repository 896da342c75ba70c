/* A set of numbers against an array of flags. */
#include "alloc/number_set.h"
#include "plan_runs.h"
#include "seed.h"

enum { TURNS = 4000 };

static bool find_below(const bool *flags, uint32_t number, uint32_t *out)
{
    for (uint32_t i = number + 1; i-- > 0;)
        if (flags[i]) {
            *out = i;
            return true;
        }
    return false;
}

static void compare(const struct mt_number_set *set, const bool *flags, uint32_t number)
{
    uint32_t expected = 0, found = 0;
    assert_int_equal(mt_number_set_has(set, number), flags[number]);
    bool is_there = find_below(flags, number, &expected);
    assert_int_equal(mt_number_set_find_below(set, number, &found), is_there);
    assert_int_equal(found, expected);
}

static void play(uint64_t seed, uint32_t bound)
{
    struct mt_number_set set = mt_number_set_create(bound);
    bool *flags = mt_host_alloc(bound);
    uint64_t state = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        uint32_t number = (uint32_t)draw(seed, &state, bound);
        flags[number] = draw(seed, &state, turn < TURNS / 2 ? 3 : 30) == 0;
        (flags[number] ? mt_number_set_insert : mt_number_set_remove)(&set, number);
        compare(&set, flags, (uint32_t)draw(seed, &state, bound));
        compare(&set, flags, bound - 1);
    }
    free(flags);
    mt_number_set_release(&set);
}

static void the_nearest_member_below_is_found(void **unused)
{
    (void)unused;
    static const uint32_t bounds[] = {1, 2, 63, 64, 65, 4096, 4097, 9999, 300000};
    uint64_t seed = take_seed() << 20;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        play(seed + (i << 16), bounds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_nearest_member_below_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
