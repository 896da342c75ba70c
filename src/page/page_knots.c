#include "page/page_knots.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* The lines from an anchor that are close enough to all times since: those with low <= slope <= high, in ns an
 * event. */
struct cone {
    struct mt_page_knot anchor;
    double low, high;
};

static struct cone cone_from(struct mt_page_knot anchor)
{
    return (struct cone){.anchor = anchor, .low = -INFINITY, .high = INFINITY};
}

/* Narrows the cone to lines close to the time of an event. True if the line to this event itself was in the cone. */
static bool extend(struct cone *cone, struct mt_page_knot to, double tolerance)
{
    assert(to.event > cone->anchor.event && to.time >= cone->anchor.time);
    double share = 1 / (double)(to.event - cone->anchor.event), rise = (double)(to.time - cone->anchor.time);
    double slope = rise * share, low = (rise - tolerance) * share, high = (rise + tolerance) * share;
    bool passes = slope >= cone->low && slope <= cone->high;
    cone->low = low > cone->low ? low : cone->low;
    cone->high = high < cone->high ? high : cone->high;
    return passes;
}

static struct mt_page_knot knot_at(const struct mt_packed_list *times, size_t event)
{
    return (struct mt_page_knot){.event = event, .time = mt_packed_list_get(times, event)};
}

static double tolerance_of(const struct mt_packed_list *times)
{
    if (times->count == 0)
        return 0;
    uint64_t first = mt_packed_list_get(times, 0), last = mt_packed_list_get(times, times->count - 1);
    return (double)(last - first) / MT_PAGE_KNOT_PARTS;
}

struct mt_page_knot *mt_page_knots_find(const struct mt_packed_list *times, size_t *out_count)
{
    struct mt_page_knot *knots = mt_host_alloc((2 * (size_t)MT_PAGE_KNOT_PARTS + 4) * sizeof *knots);
    double tolerance = tolerance_of(times);
    size_t found = 0;
    struct mt_page_knot before = times->count > 0 ? knot_at(times, 0) : (struct mt_page_knot){0};
    struct cone cone = cone_from(before);
    for (size_t event = 1; event < times->count; event++) {
        struct mt_page_knot knot = knot_at(times, event);
        if (!extend(&cone, knot, tolerance)) {
            knots[found++] = cone.anchor;
            cone = cone_from(before);
            extend(&cone, knot, tolerance);
        }
        before = knot;
    }
    if (times->count > 0)
        knots[found++] = cone.anchor;
    if (times->count > 1)
        knots[found++] = before;
    assert(found <= 2 * (size_t)MT_PAGE_KNOT_PARTS + 4);
    *out_count = found;
    return knots;
}
