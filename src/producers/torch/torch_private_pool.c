#include "producers/torch/torch_private_pool.h"

#include "base/memory.h"
#include "producers/torch/memtrace_torch.h"
#include "run/live_run.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void mt_private_pools_release(struct mt_private_pools *pools)
{
    free(pools->pools);
    free(pools->watched);
    pools->pools = NULL;
    pools->watched = NULL;
    pools->count = pools->watched_count = 0;
}

/* ---- streams ---- */

struct mt_private_pool mt_private_pool_at(struct mt_private_pools *pools, uint32_t number)
{
    mt_lock_take(&pools->lock);
    assert(number > 0 && number <= pools->count);
    const struct mt_private_pool pool = pools->pools[number - 1];
    mt_lock_give(&pools->lock);
    return pool;
}

static mt_status set_rules(const struct mt_pool_owner *owner, const struct mt_private_pool *pool,
                           struct mt_torch_pooled_stream stream, mt_stream number)
{
    bool is_new;
    struct mt_stream_rules rules = {.is_private = true,
                                    .is_kept = pool->users > 0,
                                    .is_unsplit = (pool->kind & MEMTRACE_TORCH_UNSPLIT) != 0,
                                    .is_lent = (pool->kind & MEMTRACE_TORCH_LENT) != 0};
    stream.pool = 0;
    MT_TRY(mt_torch_card_stream(owner->card, stream, &rules.lent_to, &is_new));
    mt_alloc_set_rules(mt_live_run_alloc(owner->run), number, &rules);
    return MT_OK;
}

static void name_stream(struct mt_live_run *run, const struct mt_private_pool *pool, mt_stream number)
{
    char name[32], words[64];
    snprintf(name, sizeof name, "stream %u", number);
    snprintf(words, sizeof words, "private pool (%" PRIu64 ", %" PRIu64 ")", pool->first, pool->second);
    mt_live_run_set(run, name, words);
}

mt_status mt_private_pool_stream(const struct mt_pool_owner *owner, struct mt_torch_pooled_stream stream,
                                 mt_stream *out)
{
    bool is_new;
    MT_TRY(mt_torch_card_stream(owner->card, stream, out, &is_new));
    if (!is_new || stream.pool == 0)
        return MT_OK;
    const struct mt_private_pool pool = mt_private_pool_at(owner->pools, stream.pool);
    name_stream(owner->run, &pool, *out);
    return set_rules(owner, &pool, stream, *out);
}

/* Calls `change` with each number of the allocator's streams that are a pool's. */
static void each_stream(const struct mt_pool_owner *owner, uint32_t pool,
                        void (*change)(const struct mt_pool_owner *owner, uint32_t pool, mt_stream number))
{
    struct mt_torch_card *card = owner->card;
    for (uint32_t number = 0; number < mt_torch_card_stream_count(card); number++)
        if (mt_torch_card_stream_of(card, (mt_stream)number).pool == pool)
            change(owner, pool, (mt_stream)number);
}

static void set_rules_again(const struct mt_pool_owner *owner, uint32_t pool, mt_stream number)
{
    const struct mt_private_pool now = mt_private_pool_at(owner->pools, pool);
    (void)set_rules(owner, &now, mt_torch_card_stream_of(owner->card, number), number);
}

static void release_stream(const struct mt_pool_owner *owner, uint32_t pool, mt_stream number)
{
    (void)pool;
    mt_alloc_release_stream(mt_live_run_alloc(owner->run), number);
}

/* ---- pools ---- */

/* Returns the number of a pool; 0 if there is none. The lock is held. */
static uint32_t find(const struct mt_private_pools *pools, uint64_t first, uint64_t second)
{
    for (uint32_t i = 0; i < pools->count; i++)
        if (pools->pools[i].first == first && pools->pools[i].second == second)
            return i + 1;
    return 0;
}

/* The same, for a pool that is made if there is none. */
static uint32_t find_or_make(struct mt_private_pools *pools, uint64_t first, uint64_t second)
{
    const uint32_t number = find(pools, first, second);
    if (number > 0)
        return number;
    *MT_HOST_ADD(pools->pools, pools->count) = (struct mt_private_pool){.first = first, .second = second};
    return pools->count;
}

uint32_t mt_private_pool_add_user(struct mt_private_pools *pools, uint64_t first, uint64_t second, int kind)
{
    mt_lock_take(&pools->lock);
    const uint32_t number = find_or_make(pools, first, second);
    pools->pools[number - 1].users++;
    pools->pools[number - 1].kind |= kind;
    mt_lock_give(&pools->lock);
    return number;
}

int mt_private_pool_change_users(struct mt_private_pools *pools, uint64_t first, uint64_t second, int change,
                                 uint32_t *out_number)
{
    int users = -1;
    mt_lock_take(&pools->lock);
    *out_number = find(pools, first, second);
    if (*out_number > 0 && pools->pools[*out_number - 1].users + change >= 0)
        users = pools->pools[*out_number - 1].users += change;
    mt_lock_give(&pools->lock);
    return users;
}

void mt_private_pool_apply(const struct mt_pool_owner *owner, uint32_t pool)
{
    each_stream(owner, pool, set_rules_again);
}

void mt_private_pool_empty(const struct mt_pool_owner *owner, uint32_t pool)
{
    each_stream(owner, pool, release_stream);
}

/* ---- a watched allocator ---- */

enum { POOL_SHIFT = 48 /* above the bits of a stream, which is an address */ };

/* Adds a number to the watched ones. False if it is there. The lock is held. */
static bool add_watched(struct mt_private_pools *pools, uint64_t number)
{
    for (uint32_t i = 0; i < pools->watched_count; i++)
        if (pools->watched[i] == number)
            return false;
    *MT_HOST_ADD(pools->watched, pools->watched_count) = number;
    return true;
}

uint64_t mt_private_pool_watched(const struct mt_pool_owner *owner, mt_torch_stream stream, uint64_t first,
                                 uint64_t second)
{
    struct mt_private_pools *pools = owner->pools;
    struct mt_live_run *run = owner->run;
    mt_lock_take(&pools->lock);
    const uint64_t number = stream ^ (uint64_t)find_or_make(pools, first, second) << POOL_SHIFT;
    const bool is_new = add_watched(pools, number);
    mt_lock_give(&pools->lock);
    if (is_new)
        name_stream(run, &(struct mt_private_pool){.first = first, .second = second}, mt_live_note_stream(run, number));
    return number;
}
