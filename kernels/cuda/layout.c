#include "kernels/cuda/layout.h"

/* True if dimension `a` is outside dimension `b`. The first view with different strides decides. */
static bool is_outer(int views, const struct mtk_view *const *view, int a, int b)
{
    for (int v = 0; v < views; v++)
        if (view[v]->stride[a] != view[v]->stride[b])
            return view[v]->stride[a] > view[v]->stride[b];
    return a < b;
}

/* Lists the dimensions with more than one element, fastest first. Returns their number. */
static int sorted_dimensions(int views, const struct mtk_view *const *view, int *order)
{
    int count = 0;
    for (int d = MT_MAX_DIMS - 1; d >= 0; d--) {
        if (view[0]->shape[d] == 1)
            continue;
        int place = count++;
        for (; place > 0 && is_outer(views, view, order[place - 1], d); place--)
            order[place] = order[place - 1];
        order[place] = d;
    }
    return count;
}

/* True if dimension d continues the last dimension of the layout without a gap in every view. */
static bool continues(const struct mtk_layout *layout, int views, const struct mtk_view *const *view, int d)
{
    int last = layout->rank - 1;
    for (int v = 0; v < views; v++)
        if (view[v]->stride[d] != layout->shape[last] * layout->stride[v][last])
            return false;
    return true;
}

void mtk_layout_plan(int views, const struct mtk_view *const *view, struct mtk_layout *out)
{
    int order[MT_MAX_DIMS];
    int dimensions = sorted_dimensions(views, view, order);
    *out = (struct mtk_layout){.count = 1};
    for (int i = 0; i < dimensions; i++) {
        int d = order[i];
        out->count *= view[0]->shape[d];
        if (out->rank > 0 && continues(out, views, view, d)) {
            out->shape[out->rank - 1] *= view[0]->shape[d];
            continue;
        }
        out->shape[out->rank] = view[0]->shape[d];
        for (int v = 0; v < views; v++)
            out->stride[v][out->rank] = view[v]->stride[d];
        out->rank++;
    }
    if (out->rank == 0) {
        out->rank = 1;
        out->shape[0] = 1;
    }
}
