/* The checksums of the ring's records: both ways to compute them agree, and every changed bit changes them. */
#include "seed.h"
#include "trace/store/ring_sum.h"

#include <cmocka.h>

enum { RECORDS = 1000, SUMMED_BITS = 60 * 8, CHECKSUM_BIT = SUMMED_BITS };

static union mt_record random_record(uint64_t *random)
{
    union mt_record record;
    for (int i = 0; i < 8; i++)
        record.words[i] = *random = mt_splitmix64(*random);
    return record;
}

static void flip(union mt_record *record, int bit)
{
    record->words[bit / 64] ^= UINT64_C(1) << bit % 64;
}

static void test_both_ways_agree(void **state)
{
    (void)state;
    uint64_t random = take_seed();
    for (int i = 0; i < RECORDS; i++) {
        union mt_record record = random_record(&random);
        uint32_t begin = (uint32_t)random;
        uint32_t slow = mt_sum_slow(begin, &record, record.words[7]);
        assert_int_equal(mt_sum_on(begin, &record), slow);
        if (mt_sum_is_quick())
            assert_int_equal(mt_sum_quick_at(&record, random), mt_sum_at(&record, random));
    }
}

#ifdef __x86_64__
/* RFC 3720, B.4: 32 bytes of zeros, and of ones. */
static void test_crc_is_that_of_the_standard(void **state)
{
    (void)state;
    uint64_t zeros = UINT32_MAX, ones = UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        zeros = mt_crc_slow(zeros, 0);
        ones = mt_crc_slow(ones, UINT64_MAX);
    }
    assert_int_equal(zeros ^ UINT32_MAX, 0x8A9136AA);
    assert_int_equal(ones ^ UINT32_MAX, 0x62A8AB43);
}
#endif

static void test_every_changed_bit_is_seen(void **state)
{
    (void)state;
    uint64_t random = take_seed();
    for (int i = 0; i < RECORDS; i++) {
        union mt_record record = random_record(&random);
        const uint32_t sum = mt_sum_at(&record, random);
        for (int bit = 0; bit < SUMMED_BITS; bit++) {
            flip(&record, bit);
            assert_int_not_equal(mt_sum_at(&record, random), sum);
            flip(&record, bit);
        }
        flip(&record, CHECKSUM_BIT); /* which is not part of what it sums */
        assert_int_equal(mt_sum_at(&record, random), sum);
    }
}

static void test_every_changed_bit_of_the_position_is_seen(void **state)
{
    (void)state;
    uint64_t random = take_seed();
    for (int i = 0; i < RECORDS; i++) {
        union mt_record record = random_record(&random);
        const uint32_t sum = mt_sum_at(&record, random);
        for (int bit = 0; bit < 64; bit++)
            assert_int_not_equal(mt_sum_at(&record, random ^ UINT64_C(1) << bit), sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways_agree),
#ifdef __x86_64__
        cmocka_unit_test(test_crc_is_that_of_the_standard),
#endif
        cmocka_unit_test(test_every_changed_bit_is_seen),
        cmocka_unit_test(test_every_changed_bit_of_the_position_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
