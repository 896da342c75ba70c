/* Cards that other processes use, too: "sim:l4:free=20GiB". */
#include "program.h"

#include "device/device.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static void a_shared_card_has_what_others_leave(void **state)
{
    (void)state;
    static const struct {
        const char *spelling;
        uint64_t memory_mib, free_mib, context_mib;
    } cases[] = {
        {"sim:l4:free=10GiB", 22558, 10240, 236},    {"sim:free=100GiB", 143156, 102400, 600},
        {"sim:24GiB:free=10GiB", 24576, 10240, 0},   {"sim:l4:8GiB:free=1GiB", 8192, 1024, 0},
        {"sim:l4:free=22558MiB", 22558, 22558, 236},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_device *device;
        uint64_t free_bytes, total_bytes;
        assert_int_equal(mt_device_open(cases[i].spelling, &device), MT_OK);
        assert_string_equal(device->name, cases[i].spelling);
        assert_true(device->capacity_bytes == (cases[i].free_mib - cases[i].context_mib) * MIB);
        assert_int_equal(mt_device_free_memory(device, &free_bytes, &total_bytes), MT_OK);
        assert_true(total_bytes == cases[i].memory_mib * MIB && free_bytes == device->capacity_bytes);
        mt_device_close(device);
    }
}

static void what_a_process_holds_is_taken_from_what_is_free(void **state)
{
    (void)state;
    struct mt_device *device;
    mt_addr address;
    assert_int_equal(mt_device_open("sim:l4:free=10GiB", &device), MT_OK);
    mt_device_hold(device, GIB);
    assert_true(device->capacity_bytes == 9 * GIB);
    assert_int_equal(mt_device_reserve(device, 9 * GIB + 1, &address), MT_OUT_OF_MEMORY);
    assert_int_equal(mt_device_reserve(device, 9 * GIB, &address), MT_OK);
    mt_device_release(device, address, 9 * GIB);
    mt_device_limit(device, 0.25); /* of the whole memory */
    assert_true(device->capacity_bytes == 22558 * MIB / 4);
    mt_device_hold(device, 11 * GIB);
    assert_true(device->capacity_bytes == 0);
    mt_device_close(device);
}

static void a_size_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sim:l4:free=30GiB", "30.00 GiB can't be free: sim:l4 has 22.03 GiB"},
        {"sim:l4:free=236MiB", "236.00 MiB free leaves nothing: CUDA's context uses 236.00 MiB of sim:l4"},
        {"sim:l4:free=20GX", "\"20GX\" is not a size"},
        {"sim:l4:free=", "not a size"},
        {"sim:l4:free=0", "capacity above 0"},
        {"sim:none:free=20GiB", "none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_device *device;
        assert_int_not_equal(mt_device_open(cases[i][0], &device), MT_OK);
        assert_says(mt_last_error(), cases[i][1]);
    }
}

/* A run's device is found in its trace by that name. */
static void commands_know_the_card_of_a_run(void **state)
{
    (void)state;
    struct mt_card card;
    assert_true(mt_device_find_traced_card("sim:l4:free=1GiB", &card));
    assert_string_equal(card.name, "l4");
    assert_true(card.others_bytes == 22558 * MIB - GIB);
    const struct said *said = MEMTRACE("run --device sim:l4:free=1GiB --model small --seq 128 --steps 1");
    assert_int_equal(said->code, MT_OUT_OF_MEMORY);
    said = MEMTRACE("oom");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "capacity      788.00 MiB");
    assert_says(said->out, "run 1, sim:l4:free=1GiB, oom");
}

static void fit_compares_with_what_is_free(void **state)
{
    (void)state;
    json_t *answer = json_of(MEMTRACE("fit --device sim:l4 --free 5GiB --model small --seq 128 --steps 1 --json"));
    assert_string_equal(text_of(answer, "device"), "sim:l4:free=5GiB");
    assert_true((uint64_t)integer_of(answer, "memory_bytes") == 5 * GIB);
    assert_true((uint64_t)integer_of(answer, "capacity_bytes") == 5 * GIB - 236 * MIB);
    assert_string_equal(text_of(answer, "simulated_device"), "sim:l4:free=5GiB");
    json_decref(answer);
    assert_int_equal(MEMTRACE("fit --device sim:l4 --free 1GiB --model small --seq 128 --steps 1")->code, MT_FAILED);
}

static void a_wrong_size_is_refused_before_the_program_starts(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"dry-run --device sim:l4 --free 30GiB -- touch started", "30.00 GiB can't be free: sim:l4 has 22.03 GiB"},
        {"dry-run --free much -- touch started", "--free: \"much\" is not a size"},
        {"dry-run --device sim:l4:free=1GiB --free 2GiB -- touch started", "free"},
        {"fit --device sim:l4 --free 30GiB -- touch started", "30.00 GiB can't be free"},
        {"sweep --vary lr=1 --device sim:l4 --free 30GiB -- touch started @lr", "30.00 GiB can't be free"},
        {"sweep --model small --free 1GiB", "--free is about a program's card"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i][0]);
        if (said->code != MT_USAGE)
            fail_msg("%s: exit code %d: %s", cases[i][0], said->code, said->err);
        assert_says(said->err, cases[i][1]);
        assert_int_not_equal(access("started", F_OK), 0);
    }
}

static int enter(void **state)
{
    *state = enter_folder("card_free");
    return 0;
}

#define FREE_TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FREE_TEST(a_shared_card_has_what_others_leave),   FREE_TEST(what_a_process_holds_is_taken_from_what_is_free),
        FREE_TEST(a_size_that_makes_no_sense_is_refused), FREE_TEST(commands_know_the_card_of_a_run),
        FREE_TEST(fit_compares_with_what_is_free),        FREE_TEST(a_wrong_size_is_refused_before_the_program_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
