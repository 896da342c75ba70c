/* The policy `torch`: the rules of PyTorch's caching allocator, to predict its reserved memory.
 *
 *   request        pool    segment                        the rest is split off if it is
 *   <= 1 MiB       small   2 MiB                          >= 512 B
 *   < 10 MiB       large   20 MiB                         > 1 MiB
 *   >= 10 MiB      large   the request, up to 2 MiB       > 1 MiB
 *
 * Sizes are rounded up to 512 B, or to steps between powers of two if so set. The best fit for a stream and pool is
 * taken: the smallest block, then the one with the lowest address. address_space.h orders segments as by their
 * addresses on a card.
 *
 * With max_split, a block of at least that size is oversize. It is never split, and serves only oversize requests that
 * waste less than 20 MiB of it. When the device refuses, idle oversize segments of the stream are released before all
 * others. With gc_threshold, before a segment is mapped while more than that share of the capacity is reserved, idle
 * large segments that have waited longer than average are released, until the excess is gone.
 *
 * With expandable_segments, the segments of a stream and pool are a range of addresses that grows by 2 MiB for small
 * requests and by 20 MiB for large ones, and every rest of 512 B is split off. Of two free blocks, the one that could
 * grow less is the better fit. PyTorch grows a range at the lowest possible address, this policy where the fewest pages
 * are missing: the results differ only after memory was released.
 *
 * A private pool of PyTorch is a stream with rules (struct mt_stream_rules). During a capture, nothing is released for
 * a request.
 *
 * Rules: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11, with the device's capacity as the allowed memory. */
#include "alloc/block.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdlib.h>

/* A set of free blocks in the order of mt_block_compare: by bytes, then place of the segment, then offset.
 *
 * It is a treap inside the blocks: link[] are the children, priority is the heap order. Every operation takes O(log n)
 * steps on average and no memory. Priorities belong to the structures, so they are the same in every run with the same
 * requests. Seidel, Aragon, "Randomized search trees", Algorithmica 1996.
 *
 * Invariants: an in-order walk ascends strictly; no child has a higher priority than its parent. */
struct free_tree {
    struct mt_block *root; /* NULL: empty */
    uint64_t count;
};

enum { LEFT, RIGHT };

/* Splits `tree` at `block`: the blocks before it go to *left, the others to *right. */
static void part(struct mt_block *tree, const struct mt_block *block, struct mt_block **left, struct mt_block **right)
{
    while (tree != NULL) {
        if (mt_block_compare(tree, block) < 0) {
            *left = tree;
            left = &tree->link[RIGHT];
            tree = *left;
        } else {
            *right = tree;
            right = &tree->link[LEFT];
            tree = *right;
        }
    }
    *left = NULL;
    *right = NULL;
}

/* Returns the joined tree; every block of `left` comes before every block of `right`. */
static struct mt_block *join(struct mt_block *left, struct mt_block *right)
{
    struct mt_block *root;
    struct mt_block **place = &root;
    while (left != NULL && right != NULL) {
        if (left->priority >= right->priority) {
            *place = left;
            place = &left->link[RIGHT];
            left = *place;
        } else {
            *place = right;
            place = &right->link[LEFT];
            right = *place;
        }
    }
    *place = left != NULL ? left : right;
    return root;
}

/* Adds a block that is not in the tree, and removes one that is. */
static void free_tree_insert(struct free_tree *tree, struct mt_block *block)
{
    struct mt_block **place = &tree->root;
    assert((tree->root == NULL) == (tree->count == 0));
    while (*place != NULL && (*place)->priority >= block->priority)
        place = &(*place)->link[mt_block_compare(*place, block) < 0 ? RIGHT : LEFT];
    part(*place, block, &block->link[LEFT], &block->link[RIGHT]);
    *place = block;
    for (int side = LEFT; side <= RIGHT; side++)
        assert(block->link[side] == NULL || block->link[side]->priority <= block->priority);
    tree->count++;
}

static void free_tree_remove(struct free_tree *tree, struct mt_block *block)
{
    struct mt_block **place = &tree->root;
    assert(tree->count > 0);
    while (*place != block) {
        assert(*place != NULL); /* otherwise the block is not in the tree */
        place = &(*place)->link[mt_block_compare(*place, block) < 0 ? RIGHT : LEFT];
    }
    *place = join(block->link[LEFT], block->link[RIGHT]);
    tree->count--;
    assert((tree->root == NULL) == (tree->count == 0));
}

/* Returns the first block of at least `bytes`, or NULL. */
static struct mt_block *free_tree_find(const struct free_tree *tree, uint64_t bytes)
{
    struct mt_block *found = NULL;
    for (struct mt_block *block = tree->root; block != NULL;) {
        if (block->bytes >= bytes) {
            found = block;
            block = block->link[LEFT];
        } else {
            block = block->link[RIGHT];
        }
    }
    return found;
}

/* Returns the first block after `block`, which need not be in the tree, or NULL. */
static struct mt_block *free_tree_next(const struct free_tree *tree, const struct mt_block *block)
{
    struct mt_block *found = NULL;
    for (struct mt_block *candidate = tree->root; candidate != NULL;) {
        if (mt_block_compare(candidate, block) > 0) {
            found = candidate;
            candidate = candidate->link[LEFT];
        } else {
            candidate = candidate->link[RIGHT];
        }
    }
    return found;
}

/* True if a search for `block` finds it. */
static bool free_tree_holds(const struct free_tree *tree, const struct mt_block *block)
{
    const struct mt_block *at = tree->root;
    while (at != NULL && at != block)
        at = at->link[mt_block_compare(at, block) < 0 ? RIGHT : LEFT];
    return at == block;
}

/* Returns the last block, or NULL. */
static struct mt_block *free_tree_last(const struct free_tree *tree)
{
    struct mt_block *block = tree->root;
    while (block != NULL && block->link[RIGHT] != NULL)
        block = block->link[RIGHT];
    return block;
}

enum {
    SMALL_LIMIT_BYTES = 1 << 20,
    SMALL_SEGMENT_BYTES = 2 << 20,
    MEDIUM_SEGMENT_BYTES = 20 << 20,
    EXACT_SEGMENT_FROM_BYTES = 10 << 20,
    OVERSIZE_SLACK_BYTES = 20 << 20,
};

/* The free blocks of one stream. */
struct stream_trees {
    struct free_tree pool[MT_POOL_COUNT];
};

/* Invariant: stream_count is above every stream that has or had a free block. */
struct torch_index {
    struct stream_trees *streams;
    uint32_t stream_count;
    uint64_t searches[MT_POOL_COUNT]; /* the clock for the ages of free blocks */
};

static void *torch_create(void)
{
    return mt_host_alloc(sizeof(struct torch_index));
}

static void torch_destroy(void *index)
{
    struct torch_index *torch = index;
    free(torch->streams);
    free(torch);
}

static struct free_tree *tree_of(const struct mt_alloc *alloc, mt_stream stream, mt_pool pool)
{
    struct torch_index *torch = alloc->index;
    if (stream >= torch->stream_count) {
        uint32_t count = stream + 1u;
        torch->streams = mt_host_resize(torch->streams, count, sizeof *torch->streams);
        for (uint32_t i = torch->stream_count; i < count; i++)
            torch->streams[i] = (struct stream_trees){0};
        torch->stream_count = count;
    }
    return &torch->streams[stream].pool[pool];
}

/* Rounds up to the next of `divisions` (a power of two) equal steps between two powers of two. */
static bool round_to_division(uint64_t bytes, uint64_t divisions, uint64_t *out_bytes)
{
    assert(bytes > 0 && divisions > 0 && (divisions & (divisions - 1)) == 0);
    uint64_t power = UINT64_C(1) << (63 - __builtin_clzll(bytes));
    return mt_checked_round_up(bytes, power / divisions, out_bytes);
}

static bool torch_round(const struct mt_alloc_settings *settings, uint64_t requested_bytes, uint64_t *out_bytes)
{
    uint64_t divisions = (uint64_t)settings->roundup_power2_divisions;
    if (divisions > 1 && requested_bytes > MT_BLOCK_UNIT * divisions)
        return round_to_division(requested_bytes, divisions, out_bytes);
    return mt_checked_round_up(requested_bytes, MT_BLOCK_UNIT, out_bytes);
}

static mt_pool pool_of(uint64_t bytes)
{
    return bytes <= SMALL_LIMIT_BYTES ? MT_POOL_SMALL : MT_POOL_LARGE;
}

static bool is_oversize(const struct mt_alloc *alloc, uint64_t bytes)
{
    return bytes >= alloc->settings.max_split_bytes;
}

/* True if a sufficiently large block may serve a request. */
static bool suits(const struct mt_alloc *alloc, const struct mt_block *block, uint64_t bytes)
{
    if (!is_oversize(alloc, block->bytes))
        return true;
    return is_oversize(alloc, bytes) && block->bytes - bytes < OVERSIZE_SLACK_BYTES;
}

static bool is_split(const struct mt_alloc *alloc, const struct mt_block *block, uint64_t bytes)
{
    assert(bytes <= block->bytes);
    uint64_t rest = block->bytes - bytes;
    if (mt_rules_of(alloc, block->segment->stream).is_unsplit)
        return false;
    if (block->segment->pool == MT_POOL_SMALL || alloc->settings.expandable_segments)
        return rest >= MT_BLOCK_UNIT;
    return !is_oversize(alloc, bytes) && rest > SMALL_LIMIT_BYTES;
}

static void torch_insert(struct mt_alloc *alloc, struct mt_block *block)
{
    struct torch_index *torch = alloc->index;
    const struct mt_segment *segment = block->segment;
    assert(segment->pool < MT_POOL_COUNT && mt_block_is_sound(block));
    block->freed_at = torch->searches[segment->pool];
    free_tree_insert(tree_of(alloc, segment->stream, segment->pool), block);
}

static void torch_remove(struct mt_alloc *alloc, struct mt_block *block)
{
    free_tree_remove(tree_of(alloc, block->segment->stream, block->segment->pool), block);
}

static struct mt_block *cut(struct mt_alloc *alloc, struct mt_block *block, uint64_t bytes)
{
    struct mt_block_part part = {.bytes = is_split(alloc, block, bytes) ? bytes : block->bytes};
    return mt_block_cut(alloc, block, part, torch_insert);
}

/* Returns the size that a free block would have if the hole after it were filled. */
static uint64_t expandable_bytes(const struct mt_block *block)
{
    return block->bytes + (block->after != NULL && block->after->is_hole ? block->after->bytes : 0);
}

/* Returns the best fit: the first block of the tree that is large enough or, in ranges, a later one that could grow
 * less. */
static struct mt_block *find_best_fit(const struct mt_alloc *alloc, const struct free_tree *tree, uint64_t bytes)
{
    struct mt_block *block = free_tree_find(tree, bytes);
    while (alloc->settings.expandable_segments && block != NULL) {
        struct mt_block *next = free_tree_next(tree, block);
        if (next == NULL || expandable_bytes(next) >= expandable_bytes(block))
            break;
        block = next;
    }
    return block;
}

static struct mt_block *torch_take(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label)
{
    (void)label;
    struct torch_index *torch = alloc->index;
    mt_pool pool = pool_of(bytes);
    torch->searches[pool]++;
    struct free_tree *tree = tree_of(alloc, stream, pool);
    struct mt_block *block = find_best_fit(alloc, tree, bytes);
    if (block == NULL || !suits(alloc, block, bytes))
        return NULL;
    free_tree_remove(tree, block);
    return cut(alloc, block, bytes);
}

static struct mt_block *torch_give(struct mt_alloc *alloc, struct mt_block *block)
{
    block = mt_block_merge(alloc, block, torch_remove);
    torch_insert(alloc, block);
    return block;
}

/* Returns the granularity with which the ranges of a pool grow. */
static uint64_t unit_of(mt_pool pool)
{
    return pool == MT_POOL_SMALL ? SMALL_SEGMENT_BYTES : MEDIUM_SEGMENT_BYTES;
}

static bool torch_least_segment(const struct mt_alloc_settings *settings, uint64_t bytes, uint64_t *out_bytes)
{
    if (settings->expandable_segments)
        return mt_checked_round_up(bytes, unit_of(pool_of(bytes)), out_bytes);
    if (bytes <= SMALL_LIMIT_BYTES)
        *out_bytes = SMALL_SEGMENT_BYTES;
    else if (bytes < EXACT_SEGMENT_FROM_BYTES)
        *out_bytes = MEDIUM_SEGMENT_BYTES;
    else
        return mt_checked_round_up(bytes, MT_SEGMENT_UNIT, out_bytes);
    return true;
}

/* Idle large segments, which garbage collection may release, and the sum of their ages. */
struct idle_ages {
    uint64_t count, sum;
};

static bool is_collectable(const struct mt_alloc *alloc, const struct mt_segment *segment)
{
    return segment->pool == MT_POOL_LARGE && mt_segment_is_idle(segment) &&
           !mt_rules_of(alloc, segment->stream).is_private;
}

static uint64_t age_of(const struct mt_alloc *alloc, const struct mt_segment *segment)
{
    const struct torch_index *torch = alloc->index;
    assert(mt_segment_is_idle(segment));
    return torch->searches[MT_POOL_LARGE] - segment->first->freed_at;
}

static struct idle_ages sum_ages(const struct mt_alloc *alloc)
{
    struct idle_ages ages = {0};
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer) {
        if (!is_collectable(alloc, segment))
            continue;
        ages.count++;
        ages.sum += age_of(alloc, segment);
    }
    return ages;
}

/* Releases every collectable segment that is at least as old as the average; returns their bytes. */
static uint64_t collect_older_than_average(struct mt_alloc *alloc)
{
    struct idle_ages ages = sum_ages(alloc);
    uint64_t before = alloc->stats.reserved_bytes;
    for (struct mt_segment *segment = alloc->oldest, *next; segment != NULL; segment = next) {
        next = segment->newer;
        if (is_collectable(alloc, segment) && age_of(alloc, segment) * ages.count >= ages.sum)
            mt_segment_unmap(alloc, segment);
    }
    return before - alloc->stats.reserved_bytes;
}

static void collect_garbage(struct mt_alloc *alloc)
{
    double share = alloc->settings.gc_threshold;
    if (share <= 0)
        return;
    uint64_t threshold = (uint64_t)(share * (double)alloc->device->capacity_bytes);
    while (alloc->stats.reserved_bytes > threshold && collect_older_than_average(alloc) > 0) {
    }
}

/* Releases idle oversize segments of the stream, largest first, until `bytes` are released; false if there are
 * fewer. */
static bool release_largest(struct mt_alloc *alloc, struct free_tree *tree, uint64_t bytes)
{
    uint64_t released = 0;
    while (released < bytes) {
        struct mt_block *block = free_tree_last(tree);
        if (block == NULL || !is_oversize(alloc, block->bytes) || !mt_segment_is_idle(block->segment))
            return false;
        released += block->bytes;
        mt_segment_unmap(alloc, block->segment);
    }
    return true;
}

/* Releases one idle oversize segment that is large enough, or several; false if there are none to release. */
static bool release_oversize(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    uint64_t limit = alloc->settings.max_split_bytes;
    if (limit == UINT64_MAX)
        return false;
    uint64_t wanted = bytes < limit ? limit : bytes;
    struct free_tree *tree = tree_of(alloc, stream, pool_of(bytes));
    struct mt_block *block = free_tree_find(tree, wanted);
    if (block == NULL || !mt_segment_is_idle(block->segment))
        return release_largest(alloc, tree, wanted);
    mt_segment_unmap(alloc, block->segment);
    return true;
}

/* Maps memory for a request: a segment, or more of a range. Returns a free block outside the index; NULL if the device
 * refuses. */
static struct mt_block *map(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, uint64_t wanted)
{
    mt_pool pool = pool_of(bytes);
    if (alloc->settings.expandable_segments && mt_device_has_ranges(alloc->device))
        return mt_range_grow(alloc, stream, pool, bytes, unit_of(pool));
    return mt_segment_map(alloc, stream, pool, wanted);
}

/* Maps memory for a request, as one free block outside the index; NULL if the device refuses. */
static struct mt_block *reserve(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    uint64_t wanted;
    if (!torch_least_segment(&alloc->settings, bytes, &wanted))
        return NULL;
    collect_garbage(alloc);
    struct mt_block *block = map(alloc, stream, bytes, wanted);
    if (block == NULL && release_oversize(alloc, stream, bytes))
        block = map(alloc, stream, bytes, wanted);
    if (block != NULL || alloc->captures > 0)
        return block;
    mt_segments_release(alloc, UINT64_MAX);
    alloc->stats.retries++;
    return map(alloc, stream, bytes, wanted);
}

static struct mt_block *torch_grow(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label)
{
    (void)label;
    struct mt_block *block = reserve(alloc, stream, bytes);
    return block != NULL ? cut(alloc, block, bytes) : NULL;
}

/* Mixes the ages of idle segments, if they matter. */
static uint64_t torch_fingerprint(const struct mt_alloc *alloc)
{
    uint64_t sum = 0;
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        if (alloc->settings.gc_threshold > 0 && is_collectable(alloc, segment))
            sum = mt_splitmix64(sum ^ age_of(alloc, segment));
    return sum;
}

static bool torch_holds(const struct mt_alloc *alloc, const struct mt_block *block)
{
    return free_tree_holds(tree_of(alloc, block->segment->stream, block->segment->pool), block);
}

/* Walks a tree in order. Fails with MT_FAILED unless the walk finds `count` blocks. */
static mt_status check_tree(const struct mt_alloc *alloc, mt_stream stream, mt_pool pool)
{
    const struct free_tree *tree = tree_of(alloc, stream, pool);
    uint64_t count = 0;
    for (const struct mt_block *block = free_tree_find(tree, 0); block != NULL; block = free_tree_next(tree, block))
        count++;
    if (count == tree->count)
        return MT_OK;
    return mt_fail(MT_FAILED, "the free tree of stream %u, pool %d counts %" PRIu64 " blocks, its walk found %" PRIu64,
                   stream, pool, tree->count, count);
}

static mt_status torch_check(const struct mt_alloc *alloc, uint64_t *out_blocks)
{
    const struct torch_index *torch = alloc->index;
    *out_blocks = 0;
    for (uint32_t stream = 0; stream < torch->stream_count; stream++)
        for (mt_pool pool = 0; pool < MT_POOL_COUNT; pool++) {
            MT_TRY(check_tree(alloc, (mt_stream)stream, pool));
            *out_blocks += torch->streams[stream].pool[pool].count;
        }
    return MT_OK;
}

const struct mt_policy_table mt_policy_torch = {
    .small_limit_bytes = SMALL_LIMIT_BYTES,
    .create = torch_create,
    .destroy = torch_destroy,
    .round = torch_round,
    .least_segment = torch_least_segment,
    .take = torch_take,
    .grow = torch_grow,
    .give = torch_give,
    .insert = torch_insert,
    .remove = torch_remove,
    .holds = torch_holds,
    .fingerprint = torch_fingerprint,
    .check = torch_check,
};
