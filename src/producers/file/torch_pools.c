#include "producers/file/torch_pools.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void mt_torch_pools_release(struct mt_torch_pools *pools)
{
    free(pools->pools);
    free(pools->streams);
    *pools = (struct mt_torch_pools){0};
}

uint32_t mt_torch_pools_find(struct mt_torch_pools *pools, const struct mt_value *pair)
{
    struct mt_torch_pool pool;
    if (mt_value_count(pair) != 2 || !mt_value_integer(mt_value_at(pair, 0), &pool.first) ||
        !mt_value_integer(mt_value_at(pair, 1), &pool.second))
        return MT_TORCH_POOL_UNSAID;
    if (pool.first == 0 && pool.second == 0)
        return 0;
    for (uint32_t i = 0; i < pools->pool_count; i++)
        if (pools->pools[i].first == pool.first && pools->pools[i].second == pool.second)
            return i + 1;
    if (pools->pool_count == MT_TORCH_MOST_POOLS)
        return MT_TORCH_POOL_UNSAID;
    *MT_HOST_ADD(pools->pools, pools->pool_count) = pool;
    return pools->pool_count;
}

uint64_t mt_torch_pools_stream(struct mt_torch_pools *pools, uint64_t handle, uint32_t pool)
{
    if (pool == MT_TORCH_POOL_UNSAID)
        pool = 0;
    for (uint32_t i = 0; i < pools->stream_count; i++)
        if (pools->streams[i].handle == handle && pools->streams[i].pool == pool)
            return i;
    if (pools->stream_count == MT_TORCH_MOST_STREAMS)
        return pools->stream_count - 1;
    struct mt_torch_stream *added = MT_HOST_ADD(pools->streams, pools->stream_count);
    *added = (struct mt_torch_stream){.handle = handle, .pool = pool};
    if (pool == 0)
        return pools->stream_count - 1;
    const struct mt_torch_pool *pair = &pools->pools[pool - 1];
    snprintf(added->name, sizeof added->name, "stream %" PRIu32, pools->stream_count - 1);
    snprintf(added->words, sizeof added->words, "private pool (%" PRId64 ", %" PRId64 ")", pair->first, pair->second);
    return pools->stream_count - 1;
}
