/* Simulated devices of the table of cards: memory, inner memory of operators, and time. */
#include "device_opening.h"

#include <stdio.h>
#include <string.h>

enum { LAUNCH_NS = 4170 };

#define GIB ((uint64_t)1 << 30)

static void a_card_with_another_size_keeps_all_but_its_memory(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim:a100-80gb:24GiB"), *whole = open_device("sim:a100-80gb");
    assert_true(device->capacity_bytes == 24 * GIB && device->card.memory_bytes == 24 * GIB);
    assert_string_equal(device->name, "sim:a100-80gb:24GiB");
    assert_string_equal(device->card.name, "a100-80gb");
    assert_int_equal(device->card.multiprocessors, whole->card.multiprocessors);
    mt_device_close(device);
    mt_device_close(whole);
    expect_device_refused("sim:a100-80gb:24", MT_USAGE, "write the unit");
    expect_device_refused("sim:a100-80gb:", MT_USAGE, "");
    expect_device_refused("sim:a100:24GiB", MT_NO_DEVICE, "unknown card \"a100\"");
}

static void expect_workspace(const char *spelling, uint64_t bytes, int multiprocessors)
{
    struct mt_device *device = open_device(spelling);
    assert_int_equal(device->card.matmul_workspace_bytes, bytes);
    assert_int_equal(device->card.multiprocessors, multiprocessors);
    mt_device_close(device);
}

static void a_workspace_is_that_of_the_card_and_of_the_host_that_of_the_reference(void **state)
{
    (void)state;
    expect_workspace("sim", 33554432, 132);
    expect_workspace("sim:1GiB", 33554432, 132);
    expect_workspace("sim:a100-80gb", 8519680, 108);
    expect_workspace("sim:t4:1GiB", 8519680, 40);
    expect_workspace("cpu:1GiB", 33554432, 132);
}

static void expect_room(const char *spelling, double least_gib, double most_gib)
{
    struct mt_device *device = open_device(spelling);
    double gib = (double)device->capacity_bytes / (double)GIB;
    if (gib < least_gib || gib > most_gib)
        fail_msg("%s has %.2f GiB for a run, not %.2f to %.2f", spelling, gib, least_gib, most_gib);
    mt_device_close(device);
}

/* The memory that the driver reports to a program, according to users, less the context. */
static void a_card_has_no_more_than_a_process_gets_there(void **state)
{
    (void)state;
    expect_room("sim:t4", 14.3, 14.56);
    expect_room("sim:l4", 21.7, 22.03);
    expect_room("sim:l40s", 43.9, 44.4);
    expect_room("sim:a100-80gb", 78.5, 79.2);
    expect_room("sim:rtx5090", 30.6, 31.36);
}

static void a_product_is_found_by_its_whole_name(void **state)
{
    (void)state;
    static const char *const products[][2] = {{"cuda:0 (NVIDIA L40S)", "l40s"},
                                              {"cuda:1 (NVIDIA L4)", "l4"},
                                              {"cuda:0 (NVIDIA H200)", "h200"},
                                              {"cuda:0 (NVIDIA GeForce RTX 3080)", "rtx3080"}};
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        struct mt_card card;
        assert_int_equal(mt_device_find_card(products[i][0], &card), MT_OK);
        assert_string_equal(card.name, products[i][1]);
    }
    struct mt_card card;
    assert_false(mt_card_find_product("cuda:0 (NVIDIA GeForce GTX 1080)", &card));
}

static void every_listed_card_opens_under_its_name(void **state)
{
    (void)state;
    size_t cards = 0;
    for (const char *const *card = mt_card_names(); *card != NULL; card++, cards++) {
        char spelling[64];
        snprintf(spelling, sizeof spelling, "sim:%s", *card);
        struct mt_device *device = open_device(spelling);
        assert_string_equal(device->card.name, *card);
        assert_true(device->card.context_bytes > 0 && device->capacity_bytes == mt_card_usable_bytes(&device->card));
        assert_true(device->card.bytes_per_second >= 0.27e12);
        assert_true(device->card.fp32_rate > 0);
        assert_int_equal(mt_card_takes_fp8(&device->card), device->card.fp8_matrix_rate > 0);
        mt_device_close(device);
    }
    assert_true(cards >= 10);
}

static uint64_t time_of(struct mt_device *device, struct mt_work work)
{
    uint64_t before = mt_device_now_ns(device);
    mt_device_spend(device, &work);
    return mt_device_now_ns(device) - before;
}

/* Programs get 0.67 of the rate and 0.9 of the bandwidth. */
static void an_op_takes_the_longer_of_computing_and_moving_and_at_least_a_launch(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim:a100-80gb");
    assert_true(mt_device_now_ns(device) == 0);
    assert_true(time_of(device, (struct mt_work){.dtype = MT_F32}) == LAUNCH_NS);
    assert_true(time_of(device, (struct mt_work){.dtype = MT_F32, .launches = 2}) == 2 * LAUNCH_NS);
    /* 2.039e12 bytes a second: 0.9 of 2.039e9 bytes are a millisecond. */
    assert_true(time_of(device, (struct mt_work){.bytes = 1835100000, .dtype = MT_F32}) == 1000000);
    /* 19.5e12 operations a second outside of the matrix units, 312e12 for bf16 in them. */
    struct mt_work product = {.operations = 26.13e9, .bytes = 1835100000, .dtype = MT_F32, .matrix_product = true};
    assert_true(time_of(device, product) == 2000000);
    product.dtype = MT_BF16;
    assert_true(time_of(device, product) == 1000000);
    product.bytes = 0;
    assert_true(time_of(device, product) == 125000);
    product.operations = 39e9;
    product.matrix_product = false;
    assert_true(time_of(device, product) == 2000000);
    mt_device_close(device);
}

static void bf16_products_run_at_the_fp32_rate_on_cards_without_units_for_them(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim:v100-32gb");
    struct mt_work product = {.operations = 0.67 * 15.7e9, .dtype = MT_BF16, .matrix_product = true};
    assert_true(time_of(device, product) == 1000000);
    mt_device_close(device);
}

static void fp8_products_run_at_the_rate_of_their_units(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim:h100");
    struct mt_work product = {.operations = 0.67 * 1978.9e9, .dtype = MT_F8_E4M3FN, .matrix_product = true};
    assert_true(time_of(device, product) == 1000000);
    product.dtype = MT_F8_E5M2;
    assert_true(time_of(device, product) == 1000000);
    mt_device_close(device);
}

/* Kernels that take less time than their launches wait for the host. Queued work hides launches. */
static void work_begins_when_the_host_has_launched_it(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim");
    const struct mt_work small = {.dtype = MT_F32, .host_ns = 10000};
    assert_true(time_of(device, small) == 10000 + LAUNCH_NS);
    assert_true(time_of(device, small) == 10000);
    const uint64_t long_ns = time_of(device, (struct mt_work){.bytes = 4320000000, .dtype = MT_F32, .host_ns = 10000});
    assert_true(long_ns == 10000 - LAUNCH_NS + 1000000);
    assert_true(time_of(device, small) == LAUNCH_NS);
    assert_int_equal(mt_device_synchronize(device), MT_OK);
    assert_true(time_of(device, small) == 10000 + LAUNCH_NS);
    mt_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_with_another_size_keeps_all_but_its_memory),
        cmocka_unit_test(a_workspace_is_that_of_the_card_and_of_the_host_that_of_the_reference),
        cmocka_unit_test(a_card_has_no_more_than_a_process_gets_there),
        cmocka_unit_test(a_product_is_found_by_its_whole_name),
        cmocka_unit_test(every_listed_card_opens_under_its_name),
        cmocka_unit_test(an_op_takes_the_longer_of_computing_and_moving_and_at_least_a_launch),
        cmocka_unit_test(bf16_products_run_at_the_fp32_rate_on_cards_without_units_for_them),
        cmocka_unit_test(fp8_products_run_at_the_rate_of_their_units),
        cmocka_unit_test(work_begins_when_the_host_has_launched_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
