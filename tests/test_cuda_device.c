/* The CUDA device, used like an allocator and a training run use it. */
#include "gpu.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static int open_card(void **state)
{
    return mt_device_open("cuda:0", (struct mt_device **)state) == MT_OK ? 0 : -1;
}

static int close_card(void **state)
{
    mt_device_close(*state);
    return 0;
}

static mt_addr reserve(struct mt_device *device, uint64_t bytes)
{
    mt_addr address = 0;
    if (mt_device_reserve(device, bytes, &address) != MT_OK)
        fail_msg("%s", mt_last_error());
    return address;
}

static void its_capacity_is_the_cards_memory(void **state)
{
    struct mt_device *device = *state;
    struct mt_device_memory memory;
    assert_int_equal(mt_device_memory(device, &memory), MT_OK);
    print_message("%s: %.1f MiB total, %.1f used: %.1f by the context, %.1f by libraries\n", device->name,
                  (double)memory.total_bytes / (double)MIB, (double)memory.used_bytes / (double)MIB,
                  (double)memory.context_bytes / (double)MIB, (double)memory.library_bytes / (double)MIB);
    assert_int_equal(device->capacity_bytes, memory.total_bytes);
    assert_true(memory.context_bytes > 0 && memory.free_bytes < memory.total_bytes);
    assert_true(memory.context_bytes + memory.library_bytes <= memory.used_bytes);
    assert_non_null(strstr(device->name, "cuda:0 ("));
    assert_true(mt_device_executes(device));
}

static void what_is_reserved_counts_as_used(void **state)
{
    struct mt_device *device = *state;
    struct mt_device_memory before, after;
    const uint64_t bytes = 512 * MIB;
    assert_int_equal(mt_device_memory(device, &before), MT_OK);
    mt_addr address = reserve(device, bytes);
    assert_int_equal(mt_device_memory(device, &after), MT_OK);
    assert_int_equal(after.used_bytes - before.used_bytes, bytes);
    mt_device_release(device, address, bytes);
}

/* The host's buffer is overwritten right after the write, as is allowed. */
static void what_is_written_is_read_back(void **state)
{
    struct mt_device *device = *state;
    const uint64_t bytes = 3 * MIB + 5;
    unsigned char *out = mt_host_alloc(bytes), *in = mt_host_alloc(bytes);
    mt_addr address = reserve(device, 2 * bytes);
    for (uint64_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(i * 7 + i / 251);
    assert_int_equal(mt_device_write(device, address + 1, out, bytes, 0), MT_OK);
    memset(out, 0, bytes);
    assert_int_equal(mt_device_read(device, in, address + 1, bytes, 0), MT_OK);
    for (uint64_t i = 0; i < bytes; i++)
        assert_true(in[i] == (unsigned char)(i * 7 + i / 251));
    mt_device_release(device, address, 2 * bytes);
    free(out);
    free(in);
}

/* Allocates all memory in decreasing pieces, releases it, and continues to work. */
static void out_of_memory_is_a_status_and_the_device_works_on(void **state)
{
    enum { MOST = 4096 };
    struct mt_device *device = *state;
    static mt_addr address[MOST];
    static uint64_t size[MOST];
    int count = 0;
    for (uint64_t bytes = device->capacity_bytes / 4 / MIB * MIB; bytes >= 2 * MIB && count < MOST;) {
        mt_status status = mt_device_reserve(device, bytes, &address[count]);
        if (status == MT_OK) {
            size[count++] = bytes;
            continue;
        }
        assert_int_equal(status, MT_OUT_OF_MEMORY);
        bytes = bytes / 2 / MIB * MIB;
    }
    assert_true(count >= 4);
    print_message("%s\n", mt_last_error());
    while (count-- > 0)
        mt_device_release(device, address[count], size[count]);
    assert_int_equal(device->reserved_bytes, 0);
    mt_addr one = reserve(device, 2 * MIB);
    struct mtk_view view = {.address = one, .dtype = MT_F32, .shape = {1, 1, 1, 1000}, .stride = {1000, 1000, 1000, 1}};
    float values[1000] = {0};
    assert_int_equal(device->kernels->fill(3, &view, mt_device_queue(device, 0)), MT_OK);
    assert_int_equal(mt_device_read(device, values, one, sizeof values, 0), MT_OK);
    assert_true(values[0] == 3.0f && values[999] == 3.0f);
    mt_device_release(device, one, 2 * MIB);
}

/* The time between two marks is the time of the work queued between them: longer for more work, and nearly 0 for
 * none. */
static void marks_time_the_work_between_them(void **state)
{
    struct mt_device *device = *state;
    const int64_t count = 64 << 20;
    mt_addr address = reserve(device, (uint64_t)count * 4);
    struct mtk_view view = {
        .address = address, .dtype = MT_F32, .shape = {1, 1, 1, count}, .stride = {count, count, count, 1}};
    double nothing_ms, work_ms;
    assert_int_equal(device->kernels->fill(0, &view, mt_device_queue(device, 0)), MT_OK);
    assert_int_equal(mt_device_mark(device, 0), MT_OK);
    assert_int_equal(mt_device_mark(device, 1), MT_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(device->kernels->fill(i, &view, mt_device_queue(device, 0)), MT_OK);
    assert_int_equal(mt_device_mark(device, MT_DEVICE_MARKS - 1), MT_OK);
    assert_int_equal(mt_device_elapsed_ms(device, 0, 1, &nothing_ms), MT_OK);
    assert_int_equal(mt_device_elapsed_ms(device, 1, MT_DEVICE_MARKS - 1, &work_ms), MT_OK);
    print_message("20 fills of %lld MiB: %.3f ms\n", (long long)(count * 4 >> 20), work_ms);
    assert_true(nothing_ms >= 0 && work_ms > 10 * nothing_ms && work_ms > 0.1);
    assert_int_equal(mt_device_synchronize(device), MT_OK);
    mt_device_release(device, address, (uint64_t)count * 4);
}

/* Maps like the allocator: at the end of a range, then unmaps in the middle and maps again, in other pieces. The
 * driver's figure changes with it, remaining memory keeps its bytes, and a kernel may work across pieces. */
static void memory_comes_and_goes_under_parts_of_a_range(void **state)
{
    struct mt_device *device = *state;
    const uint64_t page = MT_DEVICE_PAGE;
    struct mt_device_memory before, during, after;
    mt_addr range;
    unsigned char *out = mt_host_alloc(8 * page), *in = mt_host_alloc(8 * page);
    for (uint64_t i = 0; i < 8 * page; i++)
        out[i] = (unsigned char)(i * 5 + i / 509);
    assert_int_equal(mt_device_memory(device, &before), MT_OK);
    assert_true(mt_device_has_ranges(device));
    if (mt_device_range_open(device, device->capacity_bytes / page * page, &range) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(mt_device_range_map(device, range, 3 * page), MT_OK);
    assert_int_equal(mt_device_range_map(device, range + 3 * page, 64 * page), MT_OK);
    assert_int_equal(mt_device_memory(device, &during), MT_OK);
    assert_int_equal(during.used_bytes - before.used_bytes, 67 * page);
    assert_int_equal(mt_device_write(device, range, out, 8 * page, 0), MT_OK);
    mt_device_range_unmap(device, range + 2 * page, 2 * page); /* parts of both pieces */
    mt_device_range_unmap(device, range + 8 * page, 59 * page);
    assert_int_equal(mt_device_memory(device, &during), MT_OK);
    assert_int_equal(during.used_bytes - before.used_bytes, 6 * page);
    assert_int_equal(mt_device_range_map(device, range + 2 * page, 2 * page), MT_OK);
    assert_int_equal(mt_device_write(device, range + 2 * page, out + 2 * page, 2 * page, 0), MT_OK);
    assert_int_equal(mt_device_read(device, in, range, 8 * page, 0), MT_OK);
    assert_memory_equal(in, out, 8 * page);
    mt_device_range_unmap(device, range, 8 * page);
    assert_int_equal(mt_device_memory(device, &after), MT_OK);
    assert_int_equal(after.used_bytes, before.used_bytes);
    assert_int_equal(device->reserved_bytes, 0);
    mt_device_range_close(device, range, device->capacity_bytes / page * page);
    free(out);
    free(in);
}

/* Fills a range until the card refuses, and prints the time of mapping and unmapping a piece. */
static void a_range_that_the_card_cannot_fill_is_out_of_memory(void **state)
{
    struct mt_device *device = *state;
    const uint64_t page = MT_DEVICE_PAGE, piece = 64 * page;
    uint64_t bytes = device->capacity_bytes / piece * piece, mapped = 0;
    struct mt_device_memory before, after;
    mt_addr range;
    assert_int_equal(mt_device_memory(device, &before), MT_OK);
    assert_int_equal(mt_device_range_open(device, bytes, &range), MT_OK);
    uint64_t start = mt_device_now_ns(device);
    while (mapped < bytes && mt_device_range_map(device, range + mapped, piece) == MT_OK)
        mapped += piece;
    uint64_t pieces = mapped / piece, full = mt_device_now_ns(device);
    assert_true(pieces > 0 && mapped < bytes);
    assert_int_equal(mt_device_range_map(device, range + mapped, bytes - mapped), MT_OUT_OF_MEMORY);
    assert_int_equal(device->reserved_bytes, mapped);
    uint64_t refused = mt_device_now_ns(device);
    mt_device_range_unmap(device, range, mapped);
    uint64_t end = mt_device_now_ns(device);
    print_message("%.1f GiB: mapped in %.1f us a piece of 128 MiB, unmapped in %.1f\n", (double)mapped / (1 << 30),
                  (double)(full - start) / 1000 / (double)pieces, (double)(end - refused) / 1000 / (double)pieces);
    assert_int_equal(mt_device_memory(device, &after), MT_OK);
    assert_int_equal(after.used_bytes, before.used_bytes);
    mt_device_range_close(device, range, bytes);
}

static void a_card_beyond_the_last_is_refused(void **state)
{
    (void)state;
    struct mt_device *device;
    assert_int_equal(mt_device_open("cuda:63", &device), MT_NO_DEVICE);
    assert_non_null(strstr(mt_last_error(), "numbered from 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_capacity_is_the_cards_memory, open_card, close_card),
        cmocka_unit_test_setup_teardown(what_is_reserved_counts_as_used, open_card, close_card),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, open_card, close_card),
        cmocka_unit_test_setup_teardown(out_of_memory_is_a_status_and_the_device_works_on, open_card, close_card),
        cmocka_unit_test_setup_teardown(memory_comes_and_goes_under_parts_of_a_range, open_card, close_card),
        cmocka_unit_test_setup_teardown(a_range_that_the_card_cannot_fill_is_out_of_memory, open_card, close_card),
        cmocka_unit_test_setup_teardown(marks_time_the_work_between_them, open_card, close_card),
        cmocka_unit_test(a_card_beyond_the_last_is_refused),
    };
    return gpu_is_there() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
