/* The policy `tight`, the default: finds a block in constant time, and reserves less than `torch`.
 *
 *   request      pool    memory
 *   <= 64 KiB    small   a range of addresses for each stream and pool, which grows by the 2 MiB pages that the request
 *   above        large   lacks (range.c)
 *
 * Addresses cost nothing, so a range is as large as the device, and memory is mapped at its end in pages of 2 MiB. New
 * memory joins the free block at the end, so no segment has an unusable end. When the device refuses, free pages are
 * released everywhere, first as many as are missing, then all. They leave holes, which are filled again at the place
 * that needs the fewest pages. On a card, each page is a separate allocation, because the driver unmaps only whole
 * allocations. Creating and mapping one takes 14 µs, once, during warm-up. Releasing waits for the queued work, so it
 * is done only if necessary.
 *
 * Sizes are rounded up to 512 B and every rest is split off, so a block is never larger than its rounded request. Free
 * blocks are in size classes (size_classes.h) by stream and pool.
 *
 * A request gets the beginning or the end of a free block. That decides its neighbours, and so which free blocks
 * coalesce later. The category of its label shows whether it is long-lived, as parameters, gradients and optimizer
 * state are. It is placed next to the neighbour of the same kind. So the activations of a layer leave one gap, not
 * several, when they are freed: with categories the mean for the fused models below is 1.007, without 1.011. If both
 * neighbours are of the same kind, large blocks go to the end and small ones to the beginning. At a range's end a
 * request goes to the beginning, so that the rest joins the memory by which the range grows. Labels do not decide which
 * free block is taken, only which part of it; but a replay needs the categories.
 *
 * The ratio of the reserved to the allocated peak, for the first eight steps of a 2.7B model with PyTorch's requests
 * (fp32 | bf16 autocast; without categories), and for nine steps of built-in models with 0.4 to 2.7 B parameters,
 * sequences of 256 and 512, with all settings of precision, weight casts and gradients (mean and worst of 16 eager | 56
 * fused):
 *
 *                                                  PyTorch requests   eager            fused
 *   as above                                       1.004 | 1.006      1.008   1.013    1.007   1.034
 *   always at the beginning, best fit              1.007 | 1.007      1.009   1.018    1.011   1.029
 *   the same, tightest fit of a class              1.008 | 1.007      1.009   1.015    1.010   1.026
 *   the lowest block that fits                     1.007 | 1.005      1.009   1.024    1.027   1.106
 *   only by the kind of neighbours                 1.008 | 1.007      1.008   1.018    1.008   1.022
 *   next to the younger neighbour                  1.003 | 1.006      1.009   1.019    1.010   1.027
 *   only large ones at the end                     1.004 | 1.006      1.009   1.017    1.011   1.039
 *   a third pool for up to 16 MiB                  1.014 | 1.016      1.012   1.038    1.028   1.124
 *   segments for whole requests, no ranges         1.012 | 1.009
 *   PyTorch's rules                                1.044 | 1.024
 *
 * For the 2.7B model alone it is 1.0005 to 1.0063 with sequences of 256, and at most 1.0121 with 512. A bound between
 * large and small of 8 to 64 MiB, small pools from none to 1 MiB, and other tie-breaking change a mean by 0.001 and a
 * worst case by 0.01: the figures depend on which blocks happen to be neighbours. A model with 0.1 B parameters has
 * 1.02 to 1.05, because one page is 0.2 % of its memory, and so is each gap.
 *
 * Moving free pages to places that lack memory, instead of growing beyond 1.004 or 1.008, gave 1.006 on average. But
 * most fused runs kept moving hundreds of pages in each step, and each move waits for the card. Moving them only while
 * the peak still grows left holes of addresses that cost more than they saved: up to 1.058.
 *
 * Cached memory is kept until the device refuses. Then as many pages are released as are missing. Before the request is
 * refused, all free pages and idle segments of every stream are released. */
#include "alloc/block.h"
#include "alloc/size_classes.h"
#include "base/checked.h"
#include "base/memory.h"

#include <stdlib.h>

enum { SMALL_LIMIT_BYTES = 64 << 10, LARGE_FROM_BYTES = 32 << 20 };

/* The free blocks of one stream. */
struct stream_classes {
    struct mt_size_classes pool[MT_POOL_COUNT];
};

/* Invariant: streams[s] exists for every stream s that has or had a free block. */
struct tight_index {
    struct stream_classes **streams;
    uint32_t stream_count;
};

static void *tight_create(void)
{
    return mt_host_alloc(sizeof(struct tight_index));
}

static void tight_destroy(void *index)
{
    struct tight_index *tight = index;
    for (uint32_t i = 0; i < tight->stream_count; i++)
        free(tight->streams[i]);
    free(tight->streams);
    free(tight);
}

static __attribute__((cold, noinline)) struct stream_classes *add_stream(struct tight_index *tight, mt_stream stream)
{
    if (stream >= tight->stream_count) {
        uint32_t count = stream + 1u;
        tight->streams = mt_host_resize(tight->streams, count, sizeof(struct stream_classes *));
        for (uint32_t i = tight->stream_count; i < count; i++)
            tight->streams[i] = NULL;
        tight->stream_count = count;
    }
    return tight->streams[stream] = mt_host_alloc(sizeof(struct stream_classes));
}

static struct mt_size_classes *classes_of(const struct mt_alloc *alloc, mt_stream stream, mt_pool pool)
{
    struct tight_index *tight = alloc->index;
    struct stream_classes *classes = stream < tight->stream_count ? tight->streams[stream] : NULL;
    if (classes == NULL)
        classes = add_stream(tight, stream);
    return &classes->pool[pool];
}

static __attribute__((cold, noinline)) struct mt_size_classes *find_free_lists(const struct mt_alloc *alloc,
                                                                               struct mt_segment *segment)
{
    return segment->free_lists = classes_of(alloc, segment->stream, segment->pool);
}

/* Returns the size classes for a segment's blocks. They never move, so they are looked up once. */
static struct mt_size_classes *free_lists_of(const struct mt_alloc *alloc, struct mt_segment *segment)
{
    return segment->free_lists != NULL ? segment->free_lists : find_free_lists(alloc, segment);
}

static bool tight_round(const struct mt_alloc_settings *settings, uint64_t requested_bytes, uint64_t *out_bytes)
{
    (void)settings;
    return mt_checked_round_up(requested_bytes, MT_BLOCK_UNIT, out_bytes);
}

static mt_pool pool_of(uint64_t bytes)
{
    return bytes <= SMALL_LIMIT_BYTES ? MT_POOL_SMALL : MT_POOL_LARGE;
}

static void tight_insert(struct mt_alloc *alloc, struct mt_block *block)
{
    mt_size_classes_insert(free_lists_of(alloc, block->segment), block);
}

static void tight_remove(struct mt_alloc *alloc, struct mt_block *block)
{
    mt_size_classes_remove(free_lists_of(alloc, block->segment), block);
}

static bool is_long_lived(mt_label_id label)
{
    mt_category category = mt_label_category(label);
    return category == MT_CATEGORY_PARAM || category == MT_CATEGORY_GRADIENT || category == MT_CATEGORY_OPT_STATE;
}

/* True if a neighbour of a free block is allocated and as long-lived as a request with this label. NULL: no
 * neighbour. */
static bool is_like(const struct mt_block *neighbour, mt_label_id label)
{
    assert(neighbour == NULL || !neighbour->is_free);
    return neighbour != NULL && !neighbour->is_hole && is_long_lived(neighbour->label) == is_long_lived(label);
}

/* Returns the part of a free block to allocate for a request of `bytes`. */
static struct mt_block_part part_for(const struct mt_block *block, uint64_t bytes, mt_label_id label)
{
    assert(block->bytes > bytes);
    if (block->after != NULL && block->after->is_hole) /* the rest must join the memory by which the range grows */
        return (struct mt_block_part){.bytes = bytes};
    bool like_before = is_like(block->before, label), like_after = is_like(block->after, label);
    bool at_end = like_before != like_after ? like_after : bytes >= LARGE_FROM_BYTES;
    return (struct mt_block_part){.skip = at_end ? block->bytes - bytes : 0, .bytes = bytes};
}

/* Two of five blocks in a step fit exactly, because the same sizes recur. */
static struct mt_block *cut(struct mt_alloc *alloc, struct mt_block *block, uint64_t bytes, mt_label_id label)
{
    if (block->bytes == bytes)
        return block;
    return mt_block_cut(alloc, block, part_for(block, bytes, label), tight_insert);
}

static struct mt_block *tight_take(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label)
{
    struct mt_size_classes *classes = classes_of(alloc, stream, pool_of(bytes));
    struct mt_block *block = mt_size_classes_find(classes, bytes);
    if (block == NULL)
        return NULL;
    assert(block->bytes >= bytes && block->segment->stream == stream && block->segment->pool == pool_of(bytes));
    mt_size_classes_remove(classes, block);
    return cut(alloc, block, bytes, label);
}

static struct mt_block *tight_give(struct mt_alloc *alloc, struct mt_block *block)
{
    block = mt_block_merge(alloc, block, tight_remove);
    tight_insert(alloc, block);
    return block;
}

static bool tight_least_segment(const struct mt_alloc_settings *settings, uint64_t bytes, uint64_t *out_bytes)
{
    (void)settings;
    return mt_checked_round_up(bytes, MT_SEGMENT_UNIT, out_bytes);
}

/* Maps memory in a range for a request. If the device refuses, releases as much of the cache as is missing, then all of
 * it. */
static struct mt_block *reserve_in_range(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, uint64_t whole)
{
    mt_pool pool = pool_of(bytes);
    struct mt_block *block = mt_range_grow(alloc, stream, pool, bytes, MT_SEGMENT_UNIT);
    if (block == NULL && mt_segments_release(alloc, whole) >= whole)
        block = mt_range_grow(alloc, stream, pool, bytes, MT_SEGMENT_UNIT);
    if (block == NULL && mt_segments_release(alloc, UINT64_MAX) > 0) {
        alloc->stats.retries++;
        block = mt_range_grow(alloc, stream, pool, bytes, MT_SEGMENT_UNIT);
    }
    return block;
}

/* The same, as a separate segment. */
static struct mt_block *reserve_segment(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, uint64_t whole)
{
    struct mt_block *block = mt_segment_map(alloc, stream, pool_of(bytes), whole);
    if (block != NULL)
        return block;
    alloc->stats.retries += mt_segments_release(alloc, UINT64_MAX) > 0;
    return mt_segment_map(alloc, stream, pool_of(bytes), whole);
}

/* Maps memory for a request, as one free block outside the index; NULL if the device refuses. If there are no ranges,
 * or no addresses for one, the request gets a segment. If a range failed for another reason than out of memory, and the
 * segment is then refused for lack of memory, the range is tried once more, so that its failure is the reported
 * reason. */
static struct mt_block *reserve(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    uint64_t whole;
    bool has_ranges = mt_device_has_ranges(alloc->device);
    if (!tight_least_segment(&alloc->settings, bytes, &whole))
        return NULL;
    struct mt_block *block = has_ranges ? reserve_in_range(alloc, stream, bytes, whole) : NULL;
    bool has_failed = block == NULL && alloc->failure != MT_OUT_OF_MEMORY;
    if (block == NULL)
        block = reserve_segment(alloc, stream, bytes, whole);
    if (block == NULL && has_failed && alloc->failure == MT_OUT_OF_MEMORY)
        block = mt_range_grow(alloc, stream, pool_of(bytes), bytes, MT_SEGMENT_UNIT);
    return block;
}

static struct mt_block *tight_grow(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label)
{
    struct mt_block *block = reserve(alloc, stream, bytes);
    return block != NULL ? cut(alloc, block, bytes, label) : NULL;
}

/* Mixes the order of blocks in all classes. */
static uint64_t tight_fingerprint(const struct mt_alloc *alloc)
{
    const struct tight_index *tight = alloc->index;
    uint64_t sum = 0;
    for (uint32_t stream = 0; stream < tight->stream_count; stream++)
        for (mt_pool pool = 0; pool < MT_POOL_COUNT && tight->streams[stream] != NULL; pool++)
            sum = mt_size_classes_fold(&tight->streams[stream]->pool[pool], sum);
    return sum;
}

static bool tight_holds(const struct mt_alloc *alloc, const struct mt_block *block)
{
    return mt_size_classes_hold(free_lists_of(alloc, block->segment), block);
}

static mt_status tight_check(const struct mt_alloc *alloc, uint64_t *out_blocks)
{
    const struct tight_index *tight = alloc->index;
    *out_blocks = 0;
    for (uint32_t stream = 0; stream < tight->stream_count; stream++)
        for (mt_pool pool = 0; pool < MT_POOL_COUNT && tight->streams[stream] != NULL; pool++) {
            MT_TRY(mt_size_classes_check(&tight->streams[stream]->pool[pool], out_blocks));
        }
    return MT_OK;
}

const struct mt_policy_table mt_policy_tight = {
    .small_limit_bytes = SMALL_LIMIT_BYTES,
    .create = tight_create,
    .destroy = tight_destroy,
    .round = tight_round,
    .least_segment = tight_least_segment,
    .take = tight_take,
    .grow = tight_grow,
    .give = tight_give,
    .insert = tight_insert,
    .remove = tight_remove,
    .holds = tight_holds,
    .fingerprint = tight_fingerprint,
    .check = tight_check,
};
