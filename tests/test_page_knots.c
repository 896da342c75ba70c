/* Knots of the timeline page: lines between them are as close to every time as promised. */
#include "page/page_knots.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RUNS = 200, MOST_EVENTS = 20000 };

static uint64_t state; /* of what is drawn */

static uint64_t draw(uint64_t bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % bound;
}

/* Draws times that never fall: even, rough, constant for long, or with very long pauses. */
static size_t draw_times(uint64_t *times)
{
    size_t count = draw(MOST_EVENTS);
    uint64_t now = draw(1000), roughness = 1 + draw(5000), pause = 2 + draw(3000), still = draw(3);
    for (size_t i = 0; i < count; i++) {
        now += still != 0 && i / 500 % 3 == 0 ? 0 : draw(roughness);
        now += draw(pause) == 0 ? draw(UINT64_C(1) << draw(40)) : 0;
        times[i] = now;
    }
    return count;
}

static struct mt_page_knot *find_knots(const uint64_t *times, size_t count, size_t *out_count)
{
    struct mt_packed_list list = {.count = 0};
    for (size_t i = 0; i < count; i++)
        mt_packed_list_add(&list, times[i]);
    struct mt_page_knot *knots = mt_page_knots_find(&list, out_count);
    mt_packed_list_release(&list);
    return knots;
}

static void check_line(const uint64_t *times, size_t count, const struct mt_page_knot *from)
{
    double pitch = (double)(from[1].time - from[0].time) / (double)(from[1].event - from[0].event);
    double most = (double)(times[count - 1] - times[0]) / MT_PAGE_KNOT_PARTS * (1 + 1e-9) + 1e-3;
    for (uint64_t i = from[0].event; i <= from[1].event; i++) {
        double off = (double)from[0].time + (double)(i - from[0].event) * pitch - (double)times[i];
        if (off > most || -off > most)
            fail_msg("event %zu is %g off, more than %g", (size_t)i, off, most);
    }
}

static void lines_between_knots_are_near_every_time(void **unused)
{
    (void)unused;
    static uint64_t times[MOST_EVENTS];
    for (int run = 0; run < RUNS; run++) {
        size_t count = draw_times(times), knot_count;
        struct mt_page_knot *knots = find_knots(times, count, &knot_count);
        assert_true(knot_count <= 2 * (size_t)MT_PAGE_KNOT_PARTS + 2);
        assert_int_equal(knot_count == 0, count == 0);
        for (size_t i = 0; i < knot_count; i++)
            assert_int_equal(knots[i].time, times[knots[i].event]);
        for (size_t i = 0; i + 1 < knot_count; i++) {
            assert_true(knots[i].event < knots[i + 1].event);
            check_line(times, count, &knots[i]);
        }
        if (count > 0) {
            assert_int_equal(knots[0].event, 0);
            assert_int_equal(knots[knot_count - 1].event, count - 1);
        }
        free(knots);
    }
}

static void even_times_take_two_knots(void **unused)
{
    (void)unused;
    static uint64_t times[MOST_EVENTS];
    size_t knot_count;
    for (size_t i = 0; i < MOST_EVENTS; i++)
        times[i] = 500 + 3000 * i + i % 7;
    free(find_knots(times, MOST_EVENTS, &knot_count));
    assert_int_equal(knot_count, 2);
}

int main(void)
{
    state = take_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_between_knots_are_near_every_time),
        cmocka_unit_test(even_times_take_two_knots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
