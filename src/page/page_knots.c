#include "page/page_knots.h"

#include "base/memory.h"

#include <math.h>
#include <stdbool.h>

/* Lines from an anchor that pass all times since: those with low <= slope <= high, in time an event. */
struct cone {
    size_t anchor;
    double low, high;
};

static struct cone cone_from(size_t anchor)
{
    return (struct cone){.anchor = anchor, .low = -INFINITY, .high = INFINITY};
}

/* Whether the line from the anchor to an event passes the times between near enough; then it must pass this one's, too. */
static bool extend(struct cone *cone, const uint64_t *times, size_t event, double tolerance)
{
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
    *out_count = found;
    return knots;
}
