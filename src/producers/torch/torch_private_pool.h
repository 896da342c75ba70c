/* The private pools of a card, which PyTorch creates for CUDA graphs and torch.cuda.MemPool. Their memory serves no
 * other requests. On a simulated card, our allocator provides them:
 *
 *   PyTorch's pair ──memtrace_torch_pool_use──▶ number ──and a stream──▶ an allocator's stream, with rules (alloc.h)
 *
 * A pool has users: graphs, MemPool objects, and contexts that allocate from it. It keeps its segments while it has a
 * user. In the trace, a pool's part of a stream is a separate stream, named by a setting as in imported snapshots
 * (file/torch_pools.h).
 *
 * Threads: any. */
#pragma once

#include "producers/torch/torch_card.h"

struct mt_private_pool {
    uint64_t first, second; /* PyTorch's pair */
    int users;
    int kind; /* MEMTRACE_TORCH_UNSPLIT | MEMTRACE_TORCH_LENT */
};

/* The pools of a card, by number - 1. All zero: none. */
struct mt_private_pools {
    struct mt_lock lock;
    struct mt_private_pool *pools;
    uint32_t count;
    uint64_t *watched; /* streams of a watched allocator, as mt_private_pool_watched numbers them */
    uint32_t watched_count;
};

/* Where the pools of a card belong: `card` is NULL for a watched allocator. Borrows all. */
struct mt_pool_owner {
    struct mt_torch_card *card;
    struct mt_live_run *run;
    struct mt_private_pools *pools;
};

void mt_private_pools_release(struct mt_private_pools *pools);

/* Returns a copy of the pool with a number. */
struct mt_private_pool mt_private_pool_at(struct mt_private_pools *pools, uint32_t number);

/* Adds a user, and the flags `kind`, to a pool. Creates the pool if needed. Returns its number. */
uint32_t mt_private_pool_add_user(struct mt_private_pools *pools, uint64_t first, uint64_t second, int kind);

/* Adds `change` to a pool's users and returns them; -1 if there is no pool. Sets *out_number to its number. */
int mt_private_pool_change_users(struct mt_private_pools *pools, uint64_t first, uint64_t second, int change,
                                 uint32_t *out_number);

/* Sets the rules of a pool's streams again, after its users or kind have changed. */
void mt_private_pool_apply(const struct mt_pool_owner *owner, uint32_t pool);

/* Releases the idle memory of a pool. */
void mt_private_pool_empty(const struct mt_pool_owner *owner, uint32_t pool);

/* Finds the number of a stream for the card's allocator, or gives it one, with the rules of its pool. Fails as
 * mt_torch_card_stream. */
mt_status mt_private_pool_stream(const struct mt_pool_owner *owner, struct mt_torch_pooled_stream stream,
                                 mt_stream *out);

/* Returns the number, for notes, of a stream's memory in a watched allocator's private pool. Names it in the trace. */
uint64_t mt_private_pool_watched(const struct mt_pool_owner *owner, mt_torch_stream stream, uint64_t first,
                                 uint64_t second);
