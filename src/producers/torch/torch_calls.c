/* The functions of memtrace_torch.h that need no state but the cards: what PyTorch calls besides taking memory, labels,
 * and statistics. A block comes by its address alone, without its card; so all cards are searched. */
#include "producers/torch/torch_backward.h"
#include "producers/torch/torch_generated.h"
#include "producers/torch/torch_label.h"
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_memory.h"
#include "producers/torch/torch_operator.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

const char *memtrace_torch_last_error(void)
{
    return mt_last_error();
}

static mt_addr address_of(const void *ptr)
{
    return (mt_addr)(uintptr_t)ptr;
}

/* ---- for PyTorch ---- */

int memtrace_torch_take(int64_t bytes, int device, uint64_t stream, uint32_t pool,
                        const struct memtrace_torch_shape *shape, uint64_t *out_address)
{
    const struct mt_torch_pooled_stream pooled = {.stream = stream, .pool = pool};
    return mt_torch_take_shaped(bytes, device, pooled, shape, out_address);
}

static atomic_uint_fast64_t freed_in_child; /* bytes */

uint64_t memtrace_torch_freed_in_child(void)
{
    return freed_in_child;
}

void memtrace_torch_free(void *ptr, ssize_t size, int device, void *stream)
{
    struct mt_live_run *run = mt_torch_run_of(device);
    (void)stream;
    if (mt_torch_is_child()) {
        freed_in_child += size > 0 ? (uint64_t)size : 0;
        return;
    }
    mt_torch_note_free(size);
    if (ptr != NULL && (run == NULL || !mt_live_run_give(run, address_of(ptr))))
        mt_torch_count_unknown_free();
}

/* Does nothing: a card is opened when it is first used. */
void memtrace_torch_init(int device_count)
{
    (void)device_count;
}

void memtrace_torch_reset(void)
{
    struct mt_live_run *run;
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_release_cached(run);
}

void *memtrace_torch_base_alloc(void *ptr, size_t *size)
{
    uint64_t bytes = 0; /* of a block that is not found */
    struct mt_live_run *run;
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        (void)mt_live_run_find(run, address_of(ptr), &bytes);
    if (size != NULL)
        *size = bytes;
    return ptr;
}

void memtrace_torch_record_stream(void *ptr, void *stream)
{
    struct mt_torch_memory *memory;
    for (int i = 0; (memory = mt_torch_next(&i)) != NULL;)
        (void)mt_torch_memory_use_on(memory, address_of(ptr), (mt_torch_stream)(uintptr_t)stream);
}

void memtrace_torch_use(int device, uint64_t address, int is_write)
{
    struct mt_live_run *run = mt_torch_is_child() ? NULL : mt_torch_run_of(device);
    if (run != NULL)
        (void)mt_live_run_use(run, address, is_write ? MT_LIVE_WRITE : MT_LIVE_READ);
}

void memtrace_torch_copied(int device, uint64_t to, uint64_t from)
{
    struct mt_torch_memory *memory = mt_torch_is_child() ? NULL : mt_torch_memory_of(device);
    if (memory != NULL && mt_torch_operator_is_inner_cast())
        mt_torch_memory_cast(memory, to, from);
}

void memtrace_torch_lose_uses(void)
{
    struct mt_live_run *run;
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_lose_uses(run);
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

/* ---- labels ---- */

uint32_t memtrace_torch_span_begin(uint32_t span, int category)
{
    if (span != 0 && mt_torch_spans() != NULL)
        mt_torch_mark(MT_EVENT_SPAN_BEGIN, 0, span);
    return mt_torch_label_begin(span, mt_torch_known(category));
}

void memtrace_torch_span_end(uint32_t depth)
{
    mt_thread_spans_end(mt_torch_spans(), depth);
}

/* Returns the label that a block of the thread gets now. */
static struct mt_torch_label label_now(void)
{
    const char *class_name;
    struct mt_torch_label label = mt_torch_label_here(&class_name);
    if (!mt_torch_is_child())
        mt_torch_generated_label(mt_torch_names_of_all(), &label);
    return label;
}

uint32_t memtrace_torch_span_now(void)
{
    return label_now().span;
}

int memtrace_torch_category_now(void)
{
    return label_now().category;
}

/* Has a function give the block at an address another label, in the memory of each card. True if one has the block. */
static bool relabel(bool (*relabel_in)(struct mt_torch_memory *, mt_addr, const struct mt_torch_label *),
                    uint64_t address, const struct mt_torch_label *label)
{
    bool is_found = false;
    struct mt_torch_memory *memory;
    for (int i = 0; (memory = mt_torch_next(&i)) != NULL;)
        is_found |= relabel_in(memory, address, label);
    return is_found;
}

/* Returns the label of a block whose purpose becomes known now. */
static struct mt_torch_label label_of(uint32_t span, mt_category category)
{
    return (struct mt_torch_label){.span = span, .category = category, .phase = mt_torch_label_now().phase};
}

bool mt_torch_relabel(uint64_t address, uint32_t span, int category)
{
    const struct mt_torch_label label = label_of(span, mt_torch_known(category));
    return relabel(mt_torch_memory_relabel, address, &label);
}

void memtrace_torch_copy_of_weights(const void *ptr, const char *name)
{
    const uint32_t span = memtrace_torch_span(0, name, MT_TORCH_COPY);
    const struct mt_torch_label label = label_of(span, MT_CATEGORY_PARAM);
    (void)relabel(mt_torch_memory_relabel_alike, address_of(ptr), &label);
}

void memtrace_torch_keep(void)
{
    struct mt_torch_memory *memory;
    for (int i = 0; (memory = mt_torch_next(&i)) != NULL;)
        mt_torch_memory_keep(memory);
}

int memtrace_torch_relabel(const void *ptr, uint32_t span, int category, const struct memtrace_torch_shape *shape)
{
    struct mt_torch_label label = label_of(span, mt_torch_known(category));
    label.shape = shape;
    return relabel(mt_torch_memory_relabel, address_of(ptr), &label)
               ? MT_OK
               : mt_fail(MT_USAGE, "no block of memtrace's begins at %p", ptr);
}

/* ---- operators, and backward ---- */

void memtrace_torch_kernel(const char *name)
{
    if (!mt_torch_is_child())
        mt_torch_names_add_kernel(mt_torch_names_of_all(), name);
}

const char *memtrace_torch_operator_now(void)
{
    struct mt_torch_names *names = mt_torch_names_of_all();
    const struct mt_torch_label label = mt_torch_operator_label(names);
    return label.operator_number > 0 ? mt_torch_names_operator_name(names, label.operator_number) : NULL;
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
    struct mt_alloc *alloc = mt_torch_alloc_of(device);
    struct mt_alloc_stats stats;
    *out = (struct memtrace_torch_figures){0};
    if (category < MEMTRACE_TORCH_ALL || category >= MT_MOST_CATEGORIES)
        return mt_fail(MT_USAGE, "there is no category number %d", category);
    if (alloc == NULL)
        return MT_OK;
    mt_alloc_stats(alloc, &stats);
    add_count(out, category == MEMTRACE_TORCH_ALL ? &stats.all : &stats.category[category]);
    out->reserved = stats.reserved_bytes;
    out->peak_reserved = stats.peak_reserved_bytes;
    out->capacity = __atomic_load_n(&mt_live_run_device(mt_torch_run_of(device))->capacity_bytes, __ATOMIC_RELAXED);
    out->segments = stats.segments;
    out->largest_free = stats.largest_free_bytes;
    out->refusals = stats.ooms;
    out->unknown_frees = mt_torch_unknown_frees();
    return MT_OK;
}

void memtrace_torch_reset_peaks(int device)
{
    struct mt_alloc *alloc = mt_torch_alloc_of(device);
    if (alloc != NULL)
        mt_alloc_reset_peaks(alloc);
}
