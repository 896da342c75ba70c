/* A packed list against an array. */
#include "base/packed_list.h"
#include "plan_runs.h"
#include "seed.h"

enum { NUMBERS = 3000, CHANGES = 2000 };

static void compare(const struct mt_packed_list *list, const uint64_t *numbers, size_t count)
{
    assert_int_equal(list->count, count);
    for (size_t i = 0; i < count; i++)
        if (mt_packed_list_get(list, i) != numbers[i])
            fail_msg("number %zu is %" PRIu64 ", not %" PRIu64, i, mt_packed_list_get(list, i), numbers[i]);
}

/* Draws a number of up to `bits` bits, often one that 512 divides. */
static uint64_t draw_number(uint64_t seed, uint64_t *state, unsigned bits)
{
    uint64_t number = mt_splitmix64(seed + (*state)++) >> (64 - bits);
    return draw(seed, state, 2) == 0 ? number & ~UINT64_C(511) : number;
}

static void play(uint64_t seed, unsigned bits)
{
    struct mt_packed_list list = {.count = 0};
    uint64_t numbers[NUMBERS], state = 0;
    size_t count = draw(seed, &state, NUMBERS);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = draw_number(seed, &state, bits);
        mt_packed_list_add(&list, numbers[i]);
    }
    compare(&list, numbers, count);
    for (int change = 0; change < CHANGES && count > 0; change++) {
        size_t index = draw(seed, &state, count);
        numbers[index] = draw_number(seed, &state, 1 + (unsigned)draw(seed, &state, 64));
        mt_packed_list_set(&list, index, numbers[index]);
    }
    compare(&list, numbers, count);
    mt_packed_list_release(&list);
    assert_int_equal(list.count, 0);
}

static void every_number_is_read_back(void **unused)
{
    (void)unused;
    uint64_t seed = take_seed() << 20;
    for (unsigned bits = 1; bits <= 64; bits++)
        play(seed + (bits << 12), bits);
}

static void a_number_takes_as_few_bits_as_its_neighbours_need(void **unused)
{
    (void)unused;
    struct mt_packed_list list = {.count = 0};
    for (uint64_t i = 0; i < 2 * MT_PACKED_PART; i++)
        mt_packed_list_add(&list, (UINT64_C(1) << 60) + i % 8 * 4096);
    for (size_t part = 0; part < 2; part++)
        assert_int_equal(list.parts[part].bits, 3);
    mt_packed_list_release(&list);
    for (int i = 0; i < MT_PACKED_PART; i++)
        mt_packed_list_add(&list, UINT64_MAX);
    assert_null(list.parts[0].words);
    mt_packed_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_number_is_read_back),
                                       cmocka_unit_test(a_number_takes_as_few_bits_as_its_neighbours_need)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
