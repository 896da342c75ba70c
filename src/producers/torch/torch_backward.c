#include "producers/torch/torch_backward.h"

#include <assert.h>
#include <stdatomic.h>

enum { MOST_BOUNDARIES = 1 << 16 }; /* of some forwards of a large model; older ones are forgotten */

struct boundary {
    uint64_t first; /* the number of the first node that belongs to it */
    mt_span_id span;
    mt_category category;
};

/* Invariants: boundary number n, of the last MOST_BOUNDARIES that were kept, is at n % MOST_BOUNDARIES; their `first`
 * never falls. */
static struct backward {
    struct mt_lock lock;
    const struct mt_torch_graph *_Atomic graph; /* NULL: nothing is kept */
    uint64_t count;
    struct boundary boundaries[MOST_BOUNDARIES];
} backward = {.lock = MT_LOCK(MT_RANK_LEAF)};

static _Thread_local bool is_owner; /* its nodes are known */

static struct boundary *boundary_at(uint64_t number)
{
    assert(number < backward.count && backward.count - number <= MOST_BOUNDARIES);
    return &backward.boundaries[number % MOST_BOUNDARIES];
}

void mt_torch_backward_begin(const struct mt_torch_graph *graph)
{
    is_owner = true;
    backward.graph = graph;
}

void mt_torch_backward_forget(void)
{
    backward.graph = NULL;
    backward.count = 0;
    is_owner = false;
}

/* A boundary without a node takes the place of the one before it. */
void mt_torch_backward_mark(void)
{
    const struct mt_torch_graph *graph = atomic_load_explicit(&backward.graph, memory_order_relaxed);
    if (!is_owner || graph == NULL)
        return;
    const struct mt_torch_label label = mt_torch_label_now();
    const uint64_t first = graph->next();
    mt_lock_take(&backward.lock);
    if (backward.count == 0 || boundary_at(backward.count - 1)->first < first)
        backward.count++;
    *boundary_at(backward.count - 1) =
        (struct boundary){.first = first, .span = label.span, .category = label.category};
    mt_lock_give(&backward.lock);
}

/* Finds the last boundary at or before a node. The lock is held. Backward runs through the boundaries in the opposite
 * order, so the thread's last answer or the one before it mostly is the answer; a search among all of them misses the
 * cache. */
static const struct boundary *find(uint64_t node)
{
    static _Thread_local uint64_t last; /* its number */
    uint64_t low = backward.count > MOST_BOUNDARIES ? backward.count - MOST_BOUNDARIES : 0, high = backward.count;
    if (low == high || boundary_at(low)->first > node)
        return NULL;
    if (last > low && last < high && boundary_at(last - 1)->first <= node &&
        (last + 1 == high || boundary_at(last + 1)->first > node)) {
        low = last - 1;
        high = last + 1;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (boundary_at(middle)->first <= node)
            low = middle;
        else
            high = middle;
    }
    last = low;
    return boundary_at(low);
}

struct mt_torch_label mt_torch_label_here(const char **class_name)
{
    struct mt_torch_label label = mt_torch_label_now();
    const struct mt_torch_graph *graph = atomic_load_explicit(&backward.graph, memory_order_relaxed);
    struct mt_torch_node node;
    *class_name = NULL;
    if (label.phase != MT_PHASE_BACKWARD || label.span != 0 || graph == NULL || !graph->running(&node))
        return label;
    *class_name = node.class_name;
    if (!node.is_known)
        return label;
    mt_lock_take(&backward.lock);
    const struct boundary *found = find(node.number);
    if (found != NULL && found->span != 0) {
        label.span = found->span;
        label.category = found->category;
    }
    mt_lock_give(&backward.lock);
    return label;
}

bool mt_torch_backward_is_running(void)
{
    const struct mt_torch_graph *graph = atomic_load_explicit(&backward.graph, memory_order_relaxed);
    struct mt_torch_node node;
    return graph != NULL && graph->running(&node);
}
