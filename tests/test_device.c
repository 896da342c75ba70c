/* Devices: their spellings, refusals and capacities. */
#include "base/random.h"
#include "base/text.h"
#include "device_opening.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20240611 };

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static void only_a_simulated_device_is_taken_for_one(void **state)
{
    (void)state;
    static const char *const simulated[] = {"sim", "sim:h200", "sim:24GiB", "sim:", "sim (H200)"};
    static const char *const others[] = {"simulator", "simulator:1GiB", "si", "", "cpu", "cuda:0 (sim)", "Sim", " sim"};
    for (size_t i = 0; i < sizeof simulated / sizeof simulated[0]; i++)
        assert_true(mt_device_is_simulated(simulated[i]));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(mt_device_is_simulated(others[i]));
}

/* Capacities, also those with more digits than a double holds. */
static void a_simulated_device_of_so_many_bytes_has_just_these(void **state)
{
    (void)state;
    static const uint64_t capacities[] = {0, 1, 24 * GIB, ((uint64_t)1 << 53) + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        struct mt_device *device;
        char spelling[MT_DEVICE_NAME];
        assert_int_equal(mt_device_open_simulated(NULL, capacities[i], &device), MT_OK);
        assert_true(device->capacity_bytes == capacities[i]);
        assert_string_equal(device->name, mt_device_spell_simulated(NULL, capacities[i], spelling));
        assert_true(mt_device_is_simulated(spelling));
        mt_device_close(device);
    }
    struct mt_device *spelled = open_device("sim:25769803776");
    assert_true(spelled->capacity_bytes == 24 * GIB && spelled->card.memory_bytes == 24 * GIB);
    mt_device_close(spelled);
}

static void sim_without_a_card_is_an_h200(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim");
    assert_string_equal(device->name, "sim:h200");
    assert_true(device->card.memory_bytes == 143156 * MIB);
    assert_true(device->capacity_bytes == mt_card_usable_bytes(&device->card));
    assert_string_equal(device->card.name, "h200");
    assert_false(mt_device_executes(device));
    mt_device_close(device);
}

static void sim_with_a_size_has_that_capacity_and_the_rates_of_an_h200(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim:24GiB"), *h200 = open_device("sim");
    assert_true(device->capacity_bytes == 24 * GIB);
    assert_true(device->card.bytes_per_second == h200->card.bytes_per_second);
    mt_device_close(device);
    mt_device_close(h200);
}

static void unknown_spellings_are_refused_with_the_nearest_match(void **state)
{
    (void)state;
    expect_device_refused("simm", MT_NO_DEVICE, "did you mean \"sim\"");
    expect_device_refused("gpu", MT_NO_DEVICE, "There are sim, cpu");
    expect_device_refused("", MT_NO_DEVICE, "there are sim, cpu");
    expect_device_refused("sim:h2000", MT_NO_DEVICE, "did you mean \"h200\"");
    expect_device_refused("sim:", MT_NO_DEVICE, "memtrace cards lists them");
    expect_device_refused("sim:a100-80", MT_NO_DEVICE, "did you mean");
    expect_device_refused("a-kind-that-is-longer-than-any-name-of-a-kind", MT_NO_DEVICE, "there are sim, cpu");
}

/* With cards or without, none has that number. */
static void a_gpu_that_is_not_there_is_refused_with_the_reason(void **state)
{
    (void)state;
    expect_device_refused("cuda:63", MT_NO_DEVICE, "");
    assert_true(strlen(mt_last_error()) > strlen("no GPU: "));
    expect_device_refused("cuda:64", MT_USAGE, "the number of a GPU");
    expect_device_refused("cuda:first", MT_USAGE, "the number of a GPU");
}

static void capacities_that_are_no_sizes_are_refused(void **state)
{
    (void)state;
    expect_device_refused("sim:24XB", MT_USAGE, "not a size");
    expect_device_refused("sim:0", MT_USAGE, "above 0");
    expect_device_refused("sim:24", MT_USAGE,
                          "\"24\": a device of 24 bytes has no room for anything: write the unit, as in 24GiB");
    expect_device_refused("cpu:0GiB", MT_USAGE, "above 0");
    expect_device_refused("cpu:much", MT_USAGE, "not a size");
    expect_device_refused("cpu:", MT_USAGE, "not a size");
}

static void reservations_stop_at_the_capacity_and_resume_after_a_release(void **state)
{
    const char *spelling = *state;
    struct mt_device *device = open_device(spelling);
    mt_addr first, second, third;
    assert_true(device->capacity_bytes == 8 * MIB);
    assert_int_equal(mt_device_reserve(device, 5 * MIB, &first), MT_OK);
    assert_int_equal(mt_device_reserve(device, 3 * MIB + 1, &second), MT_OUT_OF_MEMORY);
    assert_non_null(strstr(mt_last_error(), "3.00 MiB of 8.00 MiB left"));
    assert_true(device->reserved_bytes == 5 * MIB);
    assert_int_equal(mt_device_reserve(device, 3 * MIB, &second), MT_OK);
    assert_true(device->reserved_bytes == device->capacity_bytes);
    assert_int_equal(mt_device_reserve(device, 1, &third), MT_OUT_OF_MEMORY);
    mt_device_release(device, first, 5 * MIB);
    assert_int_equal(mt_device_reserve(device, 5 * MIB, &third), MT_OK);
    mt_device_release(device, second, 3 * MIB);
    mt_device_release(device, third, 5 * MIB);
    assert_true(device->reserved_bytes == 0);
    mt_device_close(device);
}

/* Like torch.cuda.set_per_process_memory_fraction: a fraction of all memory, part of which the context uses already. */
static void a_limit_is_a_fraction_of_the_cards_memory_less_what_its_context_takes(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim:t4");
    const uint64_t whole = device->capacity_bytes;
    mt_addr address;
    mt_device_limit(device, 0.5);
    assert_int_equal(device->capacity_bytes, device->card.memory_bytes / 2);
    assert_int_equal(mt_device_reserve(device, whole / 2 + GIB, &address), MT_OUT_OF_MEMORY);
    mt_device_limit(device, 1);
    assert_true(whole < device->card.memory_bytes);
    assert_int_equal(device->capacity_bytes, whole);
    mt_device_close(device);
}

static void sizes_that_no_device_has_are_out_of_memory(void **state)
{
    const char *spelling = *state;
    struct mt_device *device = open_device(spelling);
    mt_addr address;
    assert_int_equal(mt_device_reserve(device, UINT64_MAX, &address), MT_OUT_OF_MEMORY);
    assert_int_equal(mt_device_reserve(device, 0, &address), MT_USAGE);
    assert_true(device->reserved_bytes == 0);
    mt_device_close(device);
}

static void the_chosen_reserve_fails_and_no_other(void **state)
{
    const char *spelling = *state;
    struct mt_device *device = open_device(spelling);
    device->fail_reserve_at = 3;
    for (int number = 1; number <= 5; number++) {
        mt_addr address;
        mt_status status = mt_device_reserve(device, MIB, &address);
        assert_int_equal(status, number == 3 ? MT_OUT_OF_MEMORY : MT_OK);
        assert_true(device->reserved_bytes == (status == MT_OK ? MIB : 0));
        if (status == MT_OK)
            mt_device_release(device, address, MIB);
    }
    mt_device_close(device);
}

static void a_host_that_refuses_is_out_of_memory_and_counts_nothing(void **state)
{
    (void)state;
    struct mt_device *device = open_device("cpu:4194304TiB");
    mt_addr address;
    assert_int_equal(mt_device_reserve(device, (uint64_t)1 << 61, &address), MT_OUT_OF_MEMORY);
    assert_non_null(strstr(mt_last_error(), "refuses"));
    assert_true(device->reserved_bytes == 0);
    mt_device_close(device);
}

/* Reservations of random sizes, some of them released: no two live ones overlap, and all are aligned. */
static void live_reservations_never_overlap(void **state)
{
    enum { SLOTS = 64, ROUNDS = 2000 };
    const char *spelling = *state;
    printf("seed %d\n", SEED);
    struct mt_device *device = open_device(spelling);
    mt_addr address[SLOTS];
    uint64_t bytes[SLOTS] = {0};
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t slot = mt_splitmix64(round + SEED) % SLOTS;
        if (bytes[slot] != 0) {
            mt_device_release(device, address[slot], bytes[slot]);
            bytes[slot] = 0;
            continue;
        }
        uint64_t wanted = 1 + mt_splitmix64(round * 31 + SEED) % (100 * 1024);
        assert_int_equal(mt_device_reserve(device, wanted, &address[slot]), MT_OK);
        assert_true(address[slot] % 512 == 0);
        for (int other = 0; other < SLOTS; other++)
            assert_true(bytes[other] == 0 || address[other] + bytes[other] <= address[slot] ||
                        address[slot] + wanted <= address[other]);
        bytes[slot] = wanted;
    }
    for (int slot = 0; slot < SLOTS; slot++)
        if (bytes[slot] != 0)
            mt_device_release(device, address[slot], bytes[slot]);
    assert_true(device->reserved_bytes == 0);
    mt_device_close(device);
}

enum { SHARERS = 3, TURNS = 5000 };

/* Reserves and releases its share of the capacity repeatedly. Returns NULL if it is refused. */
static void *reserve_repeatedly(void *shared)
{
    struct mt_device *device = shared;
    uint64_t share = device->capacity_bytes / SHARERS;
    for (int turn = 0; turn < TURNS; turn++) {
        mt_addr address;
        if (mt_device_reserve(device, share, &address) != MT_OK)
            return NULL;
        mt_device_release(device, address, share);
    }
    return device;
}

/* All shares fit at once, so a refusal is a counting error. In the end nothing may stay counted. */
static void threads_share_a_devices_capacity(void **state)
{
    const char *spelling = *state;
    struct mt_device *device = open_device(spelling);
    pthread_t threads[SHARERS];
    for (int t = 0; t < SHARERS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, reserve_repeatedly, device), 0);
    for (int t = 0; t < SHARERS; t++) {
        void *never_refused;
        assert_int_equal(pthread_join(threads[t], &never_refused), 0);
        assert_non_null(never_refused);
    }
    assert_true(device->reserved_bytes == 0);
    assert_true(device->reserve_count == SHARERS * TURNS);
    mt_device_close(device);
}

static void what_is_written_to_host_memory_is_read_back(void **state)
{
    (void)state;
    struct mt_device *device = open_device("cpu:1MiB");
    unsigned char sent[1000], received[1000] = {0};
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(mt_splitmix64(i) >> 56);
    mt_addr address;
    assert_int_equal(mt_device_reserve(device, 4096, &address), MT_OK);
    assert_int_equal(mt_device_write(device, address + 512, sent, sizeof sent, 0), MT_OK);
    assert_int_equal(mt_device_synchronize(device), MT_OK);
    assert_int_equal(mt_device_read(device, received, address + 512, sizeof received, 0), MT_OK);
    assert_memory_equal(sent, received, sizeof sent);
    mt_device_release(device, address, 4096);
    mt_device_close(device);
}

static void the_simulated_device_drops_writes_and_refuses_reads(void **state)
{
    (void)state;
    struct mt_device *device = open_device("sim");
    mt_addr address;
    int number = 7;
    assert_int_equal(mt_device_reserve(device, 512, &address), MT_OK);
    assert_int_equal(mt_device_write(device, address, &number, sizeof number, 0), MT_OK);
    assert_int_equal(mt_device_read(device, &number, address, sizeof number, 0), MT_FAILED);
    assert_int_equal(number, 7);
    mt_device_close(device);
}

static void the_host_clock_runs_by_itself(void **state)
{
    (void)state;
    struct mt_device *device = open_device("cpu");
    uint64_t first = mt_device_now_ns(device), last = first;
    mt_device_spend(device, &(struct mt_work){.operations = 1e30});
    assert_true(first < 1000000000u);
    while (last == first)
        last = mt_device_now_ns(device);
    assert_true(last > first && last < 60000000000u);
    assert_false(mt_device_executes(device)); /* its kernels are added by the model */
    mt_device_close(device);
}

/* Memory is mapped under any pages of a range and unmapped in other pieces, and counts as reserved. */
static void memory_comes_and_goes_under_parts_of_a_range(void **state)
{
    struct mt_device *device = open_device(*state);
    const uint64_t page = MT_DEVICE_PAGE;
    mt_addr range;
    assert_true(mt_device_has_ranges(device));
    assert_int_equal(mt_device_range_open(device, 100 * page, &range), MT_OK);
    assert_int_equal(device->reserved_bytes, 0);
    assert_int_equal(mt_device_range_map(device, range + page, 3 * page), MT_OK);
    assert_int_equal(mt_device_range_map(device, range + 4 * page, 2 * page), MT_OK);
    assert_int_equal(device->reserved_bytes, 5 * page);
    mt_device_range_unmap(device, range + 2 * page, 3 * page);
    assert_int_equal(device->reserved_bytes, 2 * page);
    assert_int_equal(mt_device_range_map(device, range + 2 * page, page), MT_OK);
    mt_device_range_unmap(device, range + page, 2 * page);
    mt_device_range_unmap(device, range + 5 * page, page);
    assert_int_equal(device->reserved_bytes, 0);
    mt_device_range_close(device, range, 100 * page);
    mt_device_close(device);
}

static void ranges_may_be_larger_than_the_capacity_and_their_memory_not(void **state)
{
    struct mt_device *device = open_device(*state); /* of 100 MiB */
    mt_addr range;
    assert_int_equal(mt_device_range_open(device, 8 * GIB, &range), MT_OK);
    assert_int_equal(mt_device_range_map(device, range, 100 * MIB), MT_OK);
    assert_int_equal(mt_device_range_map(device, range + 6 * GIB, 2 * MIB), MT_OUT_OF_MEMORY);
    mt_device_range_unmap(device, range + 50 * MIB, 2 * MIB);
    assert_int_equal(mt_device_range_map(device, range + 6 * GIB, 2 * MIB), MT_OK);
    mt_device_range_unmap(device, range + 6 * GIB, 2 * MIB);
    assert_int_equal(mt_device_range_open(device, MIB, &range), MT_USAGE);
    device->fail_reserve_at = device->reserve_count + 1;
    assert_int_equal(mt_device_range_map(device, range, 2 * MIB), MT_OUT_OF_MEMORY);
    assert_int_equal(device->reserved_bytes, 98 * MIB);
    mt_device_range_unmap(device, range, 50 * MIB);
    mt_device_range_unmap(device, range + 52 * MIB, 48 * MIB);
    mt_device_range_close(device, range, 8 * GIB);
    mt_device_close(device);
}

static void host_memory_of_a_range_keeps_what_is_written_while_it_is_there(void **state)
{
    (void)state;
    struct mt_device *device = open_device("cpu");
    mt_addr range;
    unsigned char out[3] = {1, 2, 3}, in[3] = {0};
    assert_int_equal(mt_device_range_open(device, 8 * MIB, &range), MT_OK);
    assert_int_equal(mt_device_range_map(device, range, 4 * MIB), MT_OK);
    assert_int_equal(mt_device_write(device, range + 2 * MIB, out, 3, 0), MT_OK);
    assert_int_equal(mt_device_range_map(device, range + 4 * MIB, 4 * MIB), MT_OK);
    mt_device_range_unmap(device, range, 2 * MIB);
    assert_int_equal(mt_device_read(device, in, range + 2 * MIB, 3, 0), MT_OK);
    assert_memory_equal(in, out, 3);
    mt_device_range_unmap(device, range + 2 * MIB, 6 * MIB);
    assert_int_equal(mt_device_range_map(device, range + 2 * MIB, 2 * MIB), MT_OK);
    assert_int_equal(mt_device_read(device, in, range + 2 * MIB, 1, 0), MT_OK);
    assert_int_equal(in[0], 0); /* other memory */
    mt_device_range_unmap(device, range + 2 * MIB, 2 * MIB);
    mt_device_range_close(device, range, 8 * MIB);
    mt_device_close(device);
}

int main(void)
{
    static char small_sim[] = "sim:8MiB", small_cpu[] = "cpu:8MiB", sim[] = "sim", cpu[] = "cpu:1GiB",
                hundred_sim[] = "sim:100MiB", hundred_cpu[] = "cpu:100MiB";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_simulated_device_is_taken_for_one),
        cmocka_unit_test(a_simulated_device_of_so_many_bytes_has_just_these),
        cmocka_unit_test(sim_without_a_card_is_an_h200),
        cmocka_unit_test(sim_with_a_size_has_that_capacity_and_the_rates_of_an_h200),
        cmocka_unit_test(unknown_spellings_are_refused_with_the_nearest_match),
        cmocka_unit_test(a_gpu_that_is_not_there_is_refused_with_the_reason),
        cmocka_unit_test(capacities_that_are_no_sizes_are_refused),
        cmocka_unit_test_prestate(reservations_stop_at_the_capacity_and_resume_after_a_release, small_sim),
        cmocka_unit_test_prestate(reservations_stop_at_the_capacity_and_resume_after_a_release, small_cpu),
        cmocka_unit_test(a_limit_is_a_fraction_of_the_cards_memory_less_what_its_context_takes),
        cmocka_unit_test_prestate(sizes_that_no_device_has_are_out_of_memory, sim),
        cmocka_unit_test_prestate(sizes_that_no_device_has_are_out_of_memory, cpu),
        cmocka_unit_test_prestate(the_chosen_reserve_fails_and_no_other, sim),
        cmocka_unit_test_prestate(the_chosen_reserve_fails_and_no_other, cpu),
        cmocka_unit_test(a_host_that_refuses_is_out_of_memory_and_counts_nothing),
        cmocka_unit_test_prestate(live_reservations_never_overlap, sim),
        cmocka_unit_test_prestate(live_reservations_never_overlap, cpu),
        cmocka_unit_test_prestate(threads_share_a_devices_capacity, small_sim),
        cmocka_unit_test_prestate(threads_share_a_devices_capacity, small_cpu),
        cmocka_unit_test_prestate(memory_comes_and_goes_under_parts_of_a_range, sim),
        cmocka_unit_test_prestate(memory_comes_and_goes_under_parts_of_a_range, cpu),
        cmocka_unit_test_prestate(ranges_may_be_larger_than_the_capacity_and_their_memory_not, hundred_sim),
        cmocka_unit_test_prestate(ranges_may_be_larger_than_the_capacity_and_their_memory_not, hundred_cpu),
        cmocka_unit_test(host_memory_of_a_range_keeps_what_is_written_while_it_is_there),
        cmocka_unit_test(what_is_written_to_host_memory_is_read_back),
        cmocka_unit_test(the_simulated_device_drops_writes_and_refuses_reads),
        cmocka_unit_test(the_host_clock_runs_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
