/* The published table of reserved memory on the card that it was measured on, cell by cell. apps/study/published.h says
 * where it comes from. */
#include "recorded_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { STEPS = 15 }; /* of the published runs */

static const double TWO_DIGITS_GIB = 0.005;

static double reserved_gib(const struct mt_training_config *config)
{
    struct recording recording;
    struct mt_alloc_stats stats;
    recording_open(&recording);
    if (recording_train(&recording, "sim:a100-80gb", "policy=torch", config, NULL, &stats) != MT_OK)
        fail_msg("%s", mt_last_error());
    recording_close(&recording);
    return (double)stats.peak_reserved_bytes / (1 << 30);
}

struct cell {
    int64_t seq;
    mt_mode mode;
    bool autocast;
    double gib, slack_gib;
};

static void expect_cell(const struct cell *cell, mt_region_end autocast_end)
{
    struct mt_training_config config = mt_training_config_default();
    config.seq = cell->seq;
    config.mode = cell->mode;
    config.autocast = cell->autocast;
    config.autocast_end = autocast_end;
    config.steps = STEPS;
    double ours = reserved_gib(&config);
    print_message("seq %lld%s%s: %.4f GiB, published %.2f\n", (long long)cell->seq,
                  cell->mode == MT_MODE_FWD ? "" : ", full step", cell->autocast ? ", autocast" : "", ours, cell->gib);
    assert_true(fabs(ours - cell->gib) <= cell->slack_gib);
}

static void eight_cells_come_out_to_both_digits(void **state)
{
    (void)state;
    static const struct cell cells[] = {
        {128, MT_MODE_FWD, false, 18.51, TWO_DIGITS_GIB},     {256, MT_MODE_FWD, false, 25.34, TWO_DIGITS_GIB},
        {512, MT_MODE_FWD, false, 44.17, TWO_DIGITS_GIB},     {128, MT_MODE_FWD_BWD, false, 57.18, TWO_DIGITS_GIB},
        {256, MT_MODE_FWD_BWD, false, 66.09, TWO_DIGITS_GIB}, {128, MT_MODE_FWD, true, 22.76, TWO_DIGITS_GIB},
        {256, MT_MODE_FWD, true, 27.51, TWO_DIGITS_GIB},      {512, MT_MODE_FWD, true, 39.23, TWO_DIGITS_GIB},
    };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        expect_cell(&cells[i], MT_REGION_END_BEFORE_BACKWARD);
}

/* The places of equal blocks change the second by 0.05 GiB (docs/eager.md). */
static void full_steps_under_autocast_ran_backward_in_the_region(void **state)
{
    (void)state;
    static const struct cell cells[] = {
        {128, MT_MODE_FWD_BWD, true, 61.39, TWO_DIGITS_GIB},
        {256, MT_MODE_FWD_BWD, true, 66.72, 0.055},
    };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        expect_cell(&cells[i], MT_REGION_END_AFTER_BACKWARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_cells_come_out_to_both_digits),
        cmocka_unit_test(full_steps_under_autocast_ran_backward_in_the_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
