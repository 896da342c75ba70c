#include "producers/torch/torch_private_pool.h"

#include "base/memory.h"
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_operator.h"

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

/* Returns a copy of the pool with a number. */
static struct mt_private_pool pool_at(struct mt_private_pools *pools, uint32_t number)
{
    mt_lock_take(&pools->lock);
    assert(number > 0 && number <= pools->count);
    const struct mt_private_pool pool = pools->pools[number - 1];
    mt_lock_give(&pools->lock);
    return pool;
}

static mt_status set_rules(struct mt_torch_memory *memory, const struct mt_private_pool *pool,
                           struct mt_torch_pooled_stream stream, mt_stream number)
{
    bool is_new;
    struct mt_stream_rules rules = {.is_private = true,
                                    .is_kept = pool->users > 0,
                                    .is_unsplit = (pool->kind & MEMTRACE_TORCH_UNSPLIT) != 0,
                                    .is_lent = (pool->kind & MEMTRACE_TORCH_LENT) != 0};
    stream.pool = 0;
    MT_TRY(mt_torch_card_stream(mt_torch_memory_card(memory), stream, &rules.lent_to, &is_new));
    mt_alloc_set_rules(mt_live_run_alloc(mt_torch_memory_run(memory)), number, &rules);
    return MT_OK;
}

static void name_stream(struct mt_live_run *run, const struct mt_private_pool *pool, mt_stream number)
{
    char name[32], words[64];
    snprintf(name, sizeof name, "stream %u", number);
    snprintf(words, sizeof words, "private pool (%" PRIu64 ", %" PRIu64 ")", pool->first, pool->second);
    mt_live_run_set(run, name, words);
}

mt_status mt_private_pool_stream(struct mt_torch_memory *memory, struct mt_torch_pooled_stream stream, mt_stream *out)
{
    bool is_new;
    MT_TRY(mt_torch_card_stream(mt_torch_memory_card(memory), stream, out, &is_new));
    if (!is_new || stream.pool == 0)
        return MT_OK;
    const struct mt_private_pool pool = pool_at(mt_torch_memory_pools(memory), stream.pool);
    name_stream(mt_torch_memory_run(memory), &pool, *out);
    return set_rules(memory, &pool, stream, *out);
}

/* Calls `change` with each number of the allocator's streams that are a pool's. */
static void each_stream(struct mt_torch_memory *memory, uint32_t pool,
                        void (*change)(struct mt_torch_memory *memory, uint32_t pool, mt_stream number))
{
    struct mt_torch_card *card = mt_torch_memory_card(memory);
    for (uint32_t number = 0; number < mt_torch_card_stream_count(card); number++)
        if (mt_torch_card_stream_of(card, (mt_stream)number).pool == pool)
            change(memory, pool, (mt_stream)number);
}

static void set_rules_again(struct mt_torch_memory *memory, uint32_t pool, mt_stream number)
{
    const struct mt_private_pool now = pool_at(mt_torch_memory_pools(memory), pool);
    (void)set_rules(memory, &now, mt_torch_card_stream_of(mt_torch_memory_card(memory), number), number);
}

static void release_stream(struct mt_torch_memory *memory, uint32_t pool, mt_stream number)
{
    (void)pool;
    mt_alloc_release_stream(mt_live_run_alloc(mt_torch_memory_run(memory)), number);
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

static uint32_t add_user(struct mt_private_pools *pools, uint64_t first, uint64_t second, int kind)
{
    mt_lock_take(&pools->lock);
    const uint32_t number = find_or_make(pools, first, second);
    pools->pools[number - 1].users++;
    pools->pools[number - 1].kind |= kind;
    mt_lock_give(&pools->lock);
    return number;
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

uint64_t mt_private_pool_watched(struct mt_torch_memory *memory, mt_torch_stream stream, uint64_t first,
                                 uint64_t second)
{
    struct mt_private_pools *pools = mt_torch_memory_pools(memory);
    struct mt_live_run *run = mt_torch_memory_run(memory);
    mt_lock_take(&pools->lock);
    const uint64_t number = stream ^ (uint64_t)find_or_make(pools, first, second) << POOL_SHIFT;
    const bool is_new = add_watched(pools, number);
    mt_lock_give(&pools->lock);
    if (is_new)
        name_stream(run, &(struct mt_private_pool){.first = first, .second = second}, mt_live_note_stream(run, number));
    return number;
}

/* ---- pools of a simulated card ---- */

/* Returns the memory of a simulated card in use, whose pools can be asked for; NULL for another. */
static struct mt_torch_memory *simulated_memory(int device)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    return memory != NULL && mt_torch_memory_card(memory) != NULL ? memory : NULL;
}

int memtrace_torch_pool_use(int device, uint64_t first, uint64_t second, int kind, uint32_t *out_number)
{
    struct mt_torch_memory *memory;
    MT_TRY(mt_torch_memory_for(device, &memory));
    *out_number = add_user(mt_torch_memory_pools(memory), first, second, kind);
    each_stream(memory, *out_number, set_rules_again);
    return MT_OK;
}

/* Adds `change` to a pool's users and returns them; -1 if there is no pool. Sets *out_number to its number. */
static int change_users(struct mt_torch_memory *memory, uint64_t first, uint64_t second, int change,
                        uint32_t *out_number)
{
    struct mt_private_pools *pools = mt_torch_memory_pools(memory);
    int users = -1;
    mt_lock_take(&pools->lock);
    *out_number = find(pools, first, second);
    if (*out_number > 0 && pools->pools[*out_number - 1].users + change >= 0)
        users = pools->pools[*out_number - 1].users += change;
    mt_lock_give(&pools->lock);
    return users;
}

int memtrace_torch_pool_leave(int device, uint64_t first, uint64_t second)
{
    uint32_t number;
    struct mt_torch_memory *memory = simulated_memory(device);
    const int users = memory != NULL ? change_users(memory, first, second, -1, &number) : -1;
    if (users == 0)
        each_stream(memory, number, set_rules_again);
    return users;
}

int memtrace_torch_pool_users(int device, uint64_t first, uint64_t second)
{
    uint32_t number;
    struct mt_torch_memory *memory = simulated_memory(device);
    return memory != NULL ? change_users(memory, first, second, 0, &number) : -1;
}

void memtrace_torch_pool_empty(int device, uint64_t first, uint64_t second)
{
    uint32_t number;
    struct mt_torch_memory *memory = simulated_memory(device);
    if (memory != NULL && change_users(memory, first, second, 0, &number) == 0)
        each_stream(memory, number, release_stream);
}

void memtrace_torch_capture_begin(int device)
{
    struct mt_torch_memory *memory;
    if (mt_torch_memory_for(device, &memory) == MT_OK)
        mt_alloc_capture_begin(mt_live_run_alloc(mt_torch_memory_run(memory)));
}

void memtrace_torch_capture_end(int device)
{
    struct mt_torch_memory *memory = simulated_memory(device);
    if (memory != NULL)
        mt_alloc_capture_end(mt_live_run_alloc(mt_torch_memory_run(memory)));
}

/* ---- pieces ---- */

/* Pieces under way. */
struct piece_list {
    struct mt_torch_memory *memory;
    struct memtrace_torch_piece *rows;
    int count, most;
};

static void add_piece(void *context, const struct mt_alloc_piece *piece)
{
    struct piece_list *list = context;
    if (list->count++ >= list->most)
        return;
    const struct mt_torch_pooled_stream stream =
        mt_torch_card_stream_of(mt_torch_memory_card(list->memory), piece->stream);
    struct memtrace_torch_piece *row = &list->rows[list->count - 1];
    *row = (struct memtrace_torch_piece){.segment = piece->segment_address,
                                         .address = piece->address,
                                         .bytes = piece->bytes,
                                         .requested = piece->requested_bytes,
                                         .stream = stream.stream,
                                         .is_small = piece->pool == MT_POOL_SMALL,
                                         .is_expandable = piece->is_range,
                                         .is_waiting = piece->is_waiting};
    if (stream.pool == 0)
        return;
    const struct mt_private_pool pool = pool_at(mt_torch_memory_pools(list->memory), stream.pool);
    row->first = pool.first;
    row->second = pool.second;
}

int memtrace_torch_pieces(int device, struct memtrace_torch_piece *out, int most)
{
    struct piece_list list = {.memory = simulated_memory(device), .rows = out, .most = most};
    if (list.memory != NULL)
        mt_alloc_visit(mt_live_run_alloc(mt_torch_memory_run(list.memory)), add_piece, &list);
    return list.count;
}

int memtrace_torch_take_at(int device, uint64_t address, uint64_t bytes)
{
    struct mt_torch_memory *memory = simulated_memory(device);
    const struct mt_torch_label label = mt_torch_operator_label(mt_torch_names_of_all());
    if (memory == NULL)
        return mt_fail(MT_USAGE, "card %d has no memory", device);
    mt_torch_note_request((int64_t)bytes);
    return mt_torch_memory_take_at(memory, bytes, address, &label);
}
