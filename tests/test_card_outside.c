/* A process's memory on a card outside its allocator: the figures of the profile, and the rest of the card. */
#include "device/card_outside.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static struct mt_card find(const char *name)
{
    struct mt_card card;
    assert_true(mt_card_find(name, &card));
    return card;
}

static struct mt_outside held(const char *name, mt_outside_part part, int ranks)
{
    const struct mt_card card = find(name);
    struct mt_outside out;
    assert_true(mt_card_outside(&card, part, ranks, &out));
    return out;
}

static void every_figure_lies_in_its_range(void **state)
{
    (void)state;
    for (const char *const *name = mt_card_names(); *name != NULL; name++) {
        const struct mt_card card = find(*name);
        for (mt_outside_part part = 0; part < MT_OUTSIDE_PART_COUNT; part++)
            for (int ranks = 1; ranks <= 4; ranks++) {
                struct mt_outside out;
                if (!mt_card_outside(&card, part, ranks, &out))
                    continue;
                assert_true(out.bytes > 0 && out.low_bytes <= out.bytes && out.bytes <= out.high_bytes);
                assert_true(out.high_bytes < card.memory_bytes / 4);
            }
        assert_true(held(*name, MT_PART_PROCESS, 1).bytes == card.context_bytes);
    }
}

static void what_was_not_measured_is_not_known(void **state)
{
    (void)state;
    const struct mt_card t4 = find("t4");
    struct mt_outside out;
    assert_false(mt_card_outside(&t4, MT_PART_NCCL_RING, 4, &out));
    assert_false(mt_card_outside(&t4, MT_PART_NCCL_PEER, 4, &out));
    assert_false(mt_card_outside(&t4, MT_PART_LIBRARIES, 1, &out));
    assert_true(held("t4", MT_PART_CONTEXT, 1).bytes == t4.context_bytes);
}

static void a_rank_alone_is_connected_with_none(void **state)
{
    (void)state;
    const struct mt_card h200 = find("h200");
    struct mt_outside out;
    assert_false(mt_card_outside(&h200, MT_PART_NCCL_RING, 1, &out));
    assert_false(mt_card_outside(&h200, MT_PART_NCCL_PEER, 1, &out));
    assert_true(held("a100-80gb", MT_PART_NCCL_RING, 2).bytes == 544 * MIB);
    assert_true(held("a100-80gb", MT_PART_NCCL_RING, 3).bytes == 688 * MIB);
}

static void a_device_of_a_size_has_its_card_s_context(void **state)
{
    (void)state;
    struct mt_card sized;
    struct mt_outside out;
    assert_int_equal(mt_device_find_card("sim:l4:8GiB", &sized), MT_OK);
    assert_int_equal(sized.context_bytes, 0);
    assert_true(mt_card_outside(&sized, MT_PART_CONTEXT, 1, &out));
    assert_true(out.bytes == find("l4").context_bytes);
}

/* The context is counted once; a limit and memory outside the allocator do not add up. */
static void what_is_held_leaves_less_of_a_card(void **state)
{
    (void)state;
    struct mt_device *device;
    assert_int_equal(mt_device_open("sim:t4", &device), MT_OK);
    const uint64_t memory = device->card.memory_bytes, whole = device->capacity_bytes;
    mt_device_hold(device, device->card.context_bytes / 2);
    assert_true(device->capacity_bytes == whole);
    mt_device_hold(device, device->card.context_bytes + 100 * MIB);
    assert_true(device->capacity_bytes == whole - 100 * MIB);
    mt_device_limit(device, 0.5);
    assert_true(device->capacity_bytes == memory / 2);
    mt_device_hold(device, memory - 50 * MIB);
    assert_true(device->capacity_bytes == 50 * MIB);
    mt_device_close(device);
}

static void a_size_is_all_for_the_run(void **state)
{
    (void)state;
    struct mt_device *device;
    assert_int_equal(mt_device_open("sim:t4:8GiB", &device), MT_OK);
    mt_device_hold(device, 1 << 30);
    assert_true(device->capacity_bytes == (uint64_t)8 << 30);
    mt_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_lies_in_its_range),
        cmocka_unit_test(what_was_not_measured_is_not_known),
        cmocka_unit_test(a_rank_alone_is_connected_with_none),
        cmocka_unit_test(a_device_of_a_size_has_its_card_s_context),
        cmocka_unit_test(what_is_held_leaves_less_of_a_card),
        cmocka_unit_test(a_size_is_all_for_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
