/* The policy `tight`, the default: a block is found in constant time, and less is reserved. */
#include "alloc/size_classes.h"
#include "base/checked.h"
#include "base/memory.h"

#include <stdlib.h>

/* The free blocks of one stream. */
struct stream_classes {
    struct mt_size_classes pool[MT_POOL_COUNT];
};

/* Invariant: streams[s] exists for every stream s that a block was ever free on. */
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

static struct stream_classes *add_stream(struct tight_index *tight, mt_stream stream)
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

static bool tight_round(const struct mt_alloc_settings *settings, uint64_t requested_bytes, uint64_t *out_bytes)
{
    (void)settings;
    return mt_checked_round_up(requested_bytes, MT_BLOCK_UNIT, out_bytes);
}

static struct mt_block *tight_find(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    return mt_size_classes_find(classes_of(alloc, stream, mt_pool_of(bytes)), bytes);
}

static struct mt_block *tight_grow(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes)
{
    uint64_t wanted;
    if (!mt_checked_round_up(bytes, MT_SEGMENT_UNIT, &wanted))
        return NULL;
    mt_pool pool = mt_pool_of(bytes);
    struct mt_block *block = mt_segment_map(alloc, stream, pool, wanted);
    if (block != NULL)
        return block;
    mt_segments_release_idle(alloc);
    return mt_segment_map(alloc, stream, pool, wanted);
}

static bool tight_splits(const struct mt_alloc *alloc, const struct mt_block *block, uint64_t bytes)
{
    (void)alloc;
    return block->bytes > bytes;
}

static void tight_insert(struct mt_alloc *alloc, struct mt_block *block)
{
    mt_size_classes_insert(classes_of(alloc, block->segment->stream, block->segment->pool), block);
}

static void tight_remove(struct mt_alloc *alloc, struct mt_block *block)
{
    mt_size_classes_remove(classes_of(alloc, block->segment->stream, block->segment->pool), block);
}

static bool tight_holds(const struct mt_alloc *alloc, const struct mt_block *block)
{
    return mt_size_classes_hold(classes_of(alloc, block->segment->stream, block->segment->pool), block);
}

static mt_status tight_check(const struct mt_alloc *alloc, uint64_t *out_blocks)
{
    const struct tight_index *tight = alloc->index;
    *out_blocks = 0;
    mt_status status = MT_OK;
    for (uint32_t stream = 0; stream < tight->stream_count && status == MT_OK; stream++)
        for (mt_pool pool = 0; pool < MT_POOL_COUNT && tight->streams[stream] != NULL; pool++)
            status = mt_status_keep(status, mt_size_classes_check(&tight->streams[stream]->pool[pool], out_blocks));
    return status;
}

const struct mt_policy_table mt_policy_tight = {
    .name = "tight",
    .create = tight_create,
    .destroy = tight_destroy,
    .round = tight_round,
    .find = tight_find,
    .grow = tight_grow,
    .splits = tight_splits,
    .insert = tight_insert,
    .remove = tight_remove,
    .holds = tight_holds,
    .check = tight_check,
};
