#include "torch/torch_label.h"

#include <stdatomic.h>

struct place {
    mt_span_id span;
    mt_category category;
};

/* Invariant: stack[0 .. min(depth, MT_TORCH_MOST_DEPTH)) are what was begun, outermost first. */
struct thread_labels {
    uint32_t depth;
    struct place stack[MT_TORCH_MOST_DEPTH];
    struct place place;
    uint32_t epoch; /* of the place */
};

/* A library that others call by name has nowhere else to keep what belongs to a thread, or to the program. The phase in
 * one word, so that nobody reads half of a change: its number of changes << 16 | category << 8 | phase. */
static _Thread_local struct thread_labels labels;
static _Atomic uint64_t program_phase = (uint64_t)1 << 16 | MT_CATEGORY_OTHER << 8 | MT_PHASE_INIT;

enum { EPOCH_SHIFT = 16, CATEGORY_SHIFT = 8, BYTE = 0xff };

static uint32_t epoch_of(uint64_t word)
{
    return (uint32_t)(word >> EPOCH_SHIFT);
}

struct mt_torch_label mt_torch_label_now(void)
{
    uint64_t word = atomic_load_explicit(&program_phase, memory_order_relaxed);
    struct mt_torch_label label = {.phase = (mt_phase)(word & BYTE),
                                   .category = (mt_category)(word >> CATEGORY_SHIFT & BYTE)};
    const struct place *place = NULL;
    if (labels.depth > 0)
        place = &labels.stack[(labels.depth < MT_TORCH_MOST_DEPTH ? labels.depth : MT_TORCH_MOST_DEPTH) - 1];
    else if (labels.epoch == epoch_of(word))
        place = &labels.place;
    if (place != NULL) {
        label.span = place->span;
        label.category = place->category;
    }
    return label;
}

uint32_t mt_torch_label_begin(mt_span_id span, mt_category category)
{
    if (labels.depth < MT_TORCH_MOST_DEPTH)
        labels.stack[labels.depth] = (struct place){span, category};
    return labels.depth++;
}

void mt_torch_label_end(uint32_t depth)
{
    if (depth < labels.depth)
        labels.depth = depth;
}

mt_span_id mt_torch_label_span_at(uint32_t depth)
{
    return depth >= 1 && depth <= labels.depth && depth <= MT_TORCH_MOST_DEPTH ? labels.stack[depth - 1].span : 0;
}

uint32_t mt_torch_label_depth(void)
{
    return labels.depth;
}

mt_span_id mt_torch_label_place(mt_span_id span, mt_category category)
{
    uint32_t epoch = epoch_of(atomic_load_explicit(&program_phase, memory_order_relaxed));
    mt_span_id before = labels.epoch == epoch ? labels.place.span : 0;
    labels.place = (struct place){span, category};
    labels.epoch = epoch;
    return before;
}

bool mt_torch_label_phase(mt_phase phase, mt_category category)
{
    uint64_t before = atomic_load_explicit(&program_phase, memory_order_relaxed), after;
    do
        after = (uint64_t)(epoch_of(before) + 1) << EPOCH_SHIFT | (uint64_t)category << CATEGORY_SHIFT | phase;
    while (!atomic_compare_exchange_weak_explicit(&program_phase, &before, after, memory_order_relaxed,
                                                  memory_order_relaxed));
    return (before & BYTE) != phase;
}
