/* Kernels that pass through the allocator get times on the clock of the events, which begins with the allocator. */
#include "alloc_opening.h"
#include "fake_device.h"
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The fake device's clock counts reservations, so it stands still here. */
enum { CREATED_NS = 1000 };

static void keep(void *context, const struct mt_kernel *kernel)
{
    *(struct mt_kernel *)context = *kernel;
}

/* Returns the kernel that reaches the sink, of one with these times on the device's clock. */
static struct mt_kernel pass_on(uint64_t start_ns, uint64_t end_ns)
{
    struct fake_device fake = fake_device_make(UINT64_C(1) << 30, 1 << 20, 1);
    fake.device.reserve_count = CREATED_NS;
    struct mt_kernel told = {0};
    struct mt_sink sink = {.context = &told, .kernel = keep};
    struct mt_alloc *alloc = create_alloc(&fake.device, "", &sink);
    mt_alloc_kernel(alloc, &(struct mt_kernel){.start_ns = start_ns, .end_ns = end_ns, .name = "gemm", .step = 3});
    mt_alloc_destroy(alloc);
    return told;
}

static void a_kernel_is_told_on_the_clock_of_the_events(void **state)
{
    (void)state;
    struct mt_kernel told = pass_on(CREATED_NS + 20, CREATED_NS + 50);
    assert_int_equal(told.start_ns, 20);
    assert_int_equal(told.end_ns, 50);
    assert_string_equal(told.name, "gemm");
    assert_int_equal(told.step, 3);
}

/* A kernel may begin before the allocator is created. */
static void what_came_before_the_first_moment_is_told_as_of_that(void **state)
{
    (void)state;
    struct mt_kernel across = pass_on(CREATED_NS - 1, CREATED_NS + 7), before = pass_on(3, 5);
    assert_int_equal(across.start_ns, 0);
    assert_int_equal(across.end_ns, 7);
    assert_int_equal(before.start_ns, 0);
    assert_int_equal(before.end_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_is_told_on_the_clock_of_the_events),
        cmocka_unit_test(what_came_before_the_first_moment_is_told_as_of_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
