#include "page/page_knots.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* The lines from an anchor that are close enough to all times since: those with low <= slope <= high, in ns an
 * event. */
struct cone {
    size_t anchor;
    double low, high;
};

static struct cone cone_from(size_t anchor)
{
    return (struct cone){.anchor = anchor, .low = -INFINITY, .high = INFINITY};
}

/* Narrows the cone to lines close to the time of an event. True if the line to this event itself was in the cone. */
static bool extend(struct cone *cone, const uint64_t *times, size_t event, double tolerance)
{
    assert(event > cone->anchor && times[event] >= times[cone->anchor]);
    double share = 1 / (double)(event - cone->anchor), rise = (double)(times[event] - times[cone->anchor]);
    double slope = rise * share, low = (rise - tolerance) * share, high = (rise + tolerance) * share;
    bool passes = slope >= cone->low && slope <= cone->high;
    cone->low = low > cone->low ? low : cone->low;
    cone->high = high < cone->high ? high : cone->high;
    return passes;
}

struct mt_page_knot *mt_page_knots_find(const uint64_t *times, size_t count, size_t *out_count)
{
    struct mt_page_knot *knots = mt_host_alloc((2 * (size_t)MT_PAGE_KNOT_PARTS + 4) * sizeof *knots);
    double tolerance = count > 0 ? (double)(times[count - 1] - times[0]) / MT_PAGE_KNOT_PARTS : 0;
    size_t found = 0;
    struct cone cone = cone_from(0);
    for (size_t event = 1; event < count; event++) {
        if (extend(&cone, times, event, tolerance))
            continue;
        knots[found++] = (struct mt_page_knot){.event = cone.anchor, .time = times[cone.anchor]};
        cone = cone_from(event - 1);
        extend(&cone, times, event, tolerance);
    }
    if (count > 0)
        knots[found++] = (struct mt_page_knot){.event = cone.anchor, .time = times[cone.anchor]};
    if (count > 1)
        knots[found++] = (struct mt_page_knot){.event = count - 1, .time = times[count - 1]};
    assert(found <= 2 * (size_t)MT_PAGE_KNOT_PARTS + 4);
    *out_count = found;
    return knots;
}
