/* What programs call: labels, and what they ask for. */
#include "torch/torch_library.h"

#include <string.h>

const char *memtrace_torch_last_error(void)
{
    return mt_last_error();
}

/* ---- names ---- */

uint32_t memtrace_torch_span(uint32_t parent, const char *name, const char *kind)
{
    return mt_torch_is_child() ? 0 : mt_torch_names_span(mt_torch_names_of_all(), parent, name, kind);
}

const char *memtrace_torch_category_name(int category)
{
    return category >= 0 && category < MT_MOST_CATEGORIES && !mt_torch_is_child()
               ? mt_torch_names_category_name(mt_torch_names_of_all(), (mt_category)category)
               : NULL;
}

int memtrace_torch_phase_number(const char *name)
{
    for (int i = 0; i < MT_PHASE_COUNT; i++)
        if (strcmp(mt_phase_name((mt_phase)i), name) == 0)
            return i;
    return -1;
}

static mt_category known(int category)
{
    return category >= 0 && category < MT_MOST_CATEGORIES ? (mt_category)category : MT_CATEGORY_OTHER;
}

/* ---- labels ---- */

struct mark {
    mt_event_kind kind;
    mt_span_id span;
};

static void tell_mark(struct mt_torch_memory *memory, void *context)
{
    const struct mark *mark = context;
    mt_torch_memory_mark(memory, mark->kind, 0, mark->span);
}

static void mark_span(mt_event_kind kind, mt_span_id span)
{
    struct mark mark = {kind, span};
    if (span != 0)
        mt_torch_each(tell_mark, &mark);
}

uint32_t memtrace_torch_span_begin(uint32_t span, int category)
{
    uint32_t depth = mt_torch_label_begin(span, known(category));
    mark_span(MT_EVENT_SPAN_BEGIN, mt_torch_label_span_at(depth + 1));
    return depth;
}

void memtrace_torch_span_end(uint32_t depth)
{
    for (uint32_t d = mt_torch_label_depth(); d > depth; d--)
        mark_span(MT_EVENT_SPAN_END, mt_torch_label_span_at(d));
    mt_torch_label_end(depth);
}

uint32_t memtrace_torch_span_now(void)
{
    return mt_torch_label_now().span;
}

int memtrace_torch_category_now(void)
{
    return mt_torch_label_now().category;
}

void memtrace_torch_place(uint32_t span, int category)
{
    if (mt_torch_label_place(span, known(category)) != span)
        mt_torch_mark_place(span);
}

void memtrace_torch_come_to(uint32_t span, int category, void *gradient)
{
    (void)gradient;
    memtrace_torch_place(span, category);
}

struct relabel {
    mt_addr address;
    struct mt_torch_label label;
    bool is_found;
};

static void relabel_block(struct mt_torch_memory *memory, void *context)
{
    struct relabel *relabel = context;
    if (mt_torch_memory_relabel(memory, relabel->address, &relabel->label))
        relabel->is_found = true;
}

int memtrace_torch_relabel(const void *ptr, uint32_t span, int category)
{
    struct relabel relabel = {
        .address = (mt_addr)(uintptr_t)ptr,
        .label = {.span = span, .category = known(category), .phase = mt_torch_label_now().phase}};
    mt_torch_each(relabel_block, &relabel);
    return relabel.is_found ? MT_OK : mt_fail(MT_USAGE, "no block of memtrace's begins at %p", ptr);
}

/* ---- statistics ---- */

static void add_count(struct memtrace_torch_figures *out, const struct mt_alloc_count *count)
{
    out->requested = count->requested_bytes;
    out->allocated = count->allocated_bytes;
    out->blocks = count->blocks;
    out->peak_requested = count->peak_requested_bytes;
    out->peak_allocated = count->peak_allocated_bytes;
    out->allocations = count->total_allocs;
}

int memtrace_torch_statistics(int device, int category, struct memtrace_torch_figures *out)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    struct mt_alloc_stats stats;
    *out = (struct memtrace_torch_figures){0};
    if (category < MEMTRACE_TORCH_ALL || category >= MT_MOST_CATEGORIES)
        return mt_fail(MT_USAGE, "there is no category number %d", category);
    if (memory == NULL)
        return MT_OK;
    mt_alloc_stats(mt_torch_memory_alloc(memory), &stats);
    add_count(out, category == MEMTRACE_TORCH_ALL ? &stats.all : &stats.category[category]);
    out->reserved = stats.reserved_bytes;
    out->peak_reserved = stats.peak_reserved_bytes;
    out->capacity = mt_torch_memory_capacity(memory);
    out->segments = stats.segments;
    out->largest_free = stats.largest_free_bytes;
    out->refusals = stats.ooms;
    out->unknown_frees = mt_torch_unknown_frees();
    return MT_OK;
}

void memtrace_torch_reset_peaks(int device)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    if (memory != NULL)
        mt_alloc_reset_peaks(mt_torch_memory_alloc(memory));
}
