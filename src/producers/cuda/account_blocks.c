/* Blocks by address: what calls take and give back, the cached memory of pools, and the end of contexts. Creates and
 * destroys the account, whose other parts are account_unaddressed.c and account_ranges.c.
 *
 * Relies on foreign memory for the events and their rules. Promises that a block counts once, whichever source reports
 * it first. */
#include "base/memory.h"
#include "producers/cuda/account_parts.h"

#include <assert.h>
#include <stdlib.h>

/* Pools have address ranges where no program has addresses. Each is longer than any pool. */
static const mt_addr first_pool_address = (mt_addr)1 << 60;
static const uint64_t pool_range_bytes = (uint64_t)1 << 48;
enum { MOST_POOLS = 1 << 12 };

#define X(name, text) [MT_MEMORY_##name] = text,
static const char *const kind_names[MT_MEMORY_KIND_COUNT] = {MT_MEMORY_KINDS(X)};
#undef X

/* A pool of the driver's. Its cached memory is mapped at the beginning of its range.
 * Invariants: cached_bytes <= pool_range_bytes; cached_bytes is 0 until is_known. */
struct mt_account_pool {
    uint64_t number; /* as the caller identifies it; not 0 */
    uint64_t used_bytes, cached_bytes;
    uint32_t context; /* of the last block */
    bool is_known;    /* the driver has said what it holds */
};

static void create_blocks(struct mt_account_blocks *blocks)
{
    mt_number_map_create(&blocks->owners);
    mt_number_map_create(&blocks->ended);
}

static void release_blocks(struct mt_account_blocks *blocks)
{
    mt_number_map_release(&blocks->owners);
    mt_number_map_release(&blocks->ended);
    free(blocks->pools);
}

struct mt_account *mt_account_create(const struct mt_sink *sink, const struct mt_account_settings *settings)
{
    struct mt_account *account = mt_host_alloc(sizeof *account);
    assert(sink->intern_label != NULL && sink->intern_span != NULL);
    account->foreign = mt_foreign_create(sink);
    account->sink = *sink;
    account->device = settings->device;
    for (int kind = 0; kind < MT_MEMORY_KIND_COUNT; kind++)
        account->categories[kind] = mt_sink_category(sink, kind_names[kind]);
    create_blocks(&account->blocks);
    mt_account_unaddressed_create(&account->unaddressed);
    mt_account_ranges_create(&account->ranges, settings);
    return account;
}

void mt_account_destroy(struct mt_account *account)
{
    if (account == NULL)
        return;
    mt_foreign_destroy(account->foreign);
    release_blocks(&account->blocks);
    mt_account_unaddressed_release(&account->unaddressed);
    mt_account_ranges_release(&account->ranges);
    free(account);
}

struct mt_account_counts mt_account_counts(const struct mt_account *account)
{
    return account->counts;
}

/* ---- for all parts ---- */

mt_label_id mt_account_label(const struct mt_account *account, mt_category category, const char *op, mt_span_id span)
{
    const struct mt_label label = {.category = category,
                                   .role = MT_ROLE_OTHER,
                                   .role_source = MT_ROLE_SOURCE_INFERRED,
                                   .phase = MT_PHASE_INIT,
                                   .op = op,
                                   .span = span,
                                   .layer = -1};
    mt_label_id id = account->sink.intern_label(account->sink.context, &label);
    assert(id != 0);
    return id;
}

bool mt_account_counts_device(const struct mt_account *account, int device)
{
    return account->device == MT_EVERY_DEVICE || account->device == device;
}

struct mt_foreign_block mt_account_describe(const struct mt_account *account, const struct mt_account_thread *thread,
                                            const struct mt_memory_call *call, mt_addr address)
{
    mt_span_id span = mt_account_span(thread);
    assert((unsigned)call->kind < MT_MEMORY_KIND_COUNT && call->op != NULL);
    return (struct mt_foreign_block){.address = address,
                                     .requested_bytes = call->bytes,
                                     .stream = call->stream,
                                     .label =
                                         mt_account_label(account, account->categories[call->kind], call->op, span),
                                     .span = span};
}

/* ---- pools ---- */

/* Returns the index of a pool + 1, or 0 if it is unknown. */
static uint32_t find_pool(const struct mt_account *account, uint64_t number)
{
    for (uint32_t index = 0; index < account->blocks.pool_count; index++)
        if (account->blocks.pools[index].number == number)
            return index + 1;
    return 0;
}

/* Returns the same, and adds the pool if it is new. Returns 0 for no pool, and if there are too many. */
static uint32_t make_pool(struct mt_account *account, uint64_t number)
{
    uint32_t found = number != 0 ? find_pool(account, number) : 0, index = account->blocks.pool_count;
    if (number == 0 || found != 0 || index == MOST_POOLS)
        return found;
    account->blocks.pools =
        mt_host_room(account->blocks.pools, account->blocks.pool_count++, sizeof *account->blocks.pools);
    account->blocks.pools[index] = (struct mt_account_pool){.number = number};
    mt_foreign_reserve(account->foreign, first_pool_address + index * pool_range_bytes, pool_range_bytes, index);
    return index + 1;
}

static struct mt_account_pool *pool_of(struct mt_account *account, uint32_t pool_number)
{
    assert(pool_number > 0 && pool_number <= account->blocks.pool_count);
    struct mt_account_pool *pool = &account->blocks.pools[pool_number - 1];
    assert(pool->number != 0 && pool->cached_bytes <= pool_range_bytes);
    assert(pool->is_known || pool->cached_bytes == 0);
    return pool;
}

/* Maps or unmaps memory of a pool until `bytes` of it are cached. */
static void cache(struct mt_account *account, uint64_t time_ns, uint32_t pool_number, uint64_t bytes)
{
    struct mt_account_pool *pool = pool_of(account, pool_number);
    mt_addr begin = first_pool_address + (pool_number - 1) * pool_range_bytes;
    if (bytes > pool_range_bytes)
        bytes = pool_range_bytes;
    if (bytes > pool->cached_bytes)
        mt_foreign_map(account->foreign, time_ns, begin + pool->cached_bytes, bytes - pool->cached_bytes, 0);
    else if (bytes < pool->cached_bytes)
        mt_foreign_unmap(account->foreign, time_ns, begin + bytes, pool->cached_bytes - bytes);
    pool->cached_bytes = bytes;
}

/* Takes the block of a call from the cached memory of its pool, as far as that goes. */
static void take_from_pool(struct mt_account *account, const struct mt_memory_call *call, uint32_t pool_number)
{
    if (pool_number == 0)
        return;
    struct mt_account_pool *pool = pool_of(account, pool_number);
    pool->used_bytes += call->bytes;
    pool->context = call->context;
    cache(account, call->time_ns, pool_number, pool->cached_bytes > call->bytes ? pool->cached_bytes - call->bytes : 0);
}

static void give_to_pool(struct mt_account *account, uint64_t time_ns, uint32_t pool_number, uint64_t bytes)
{
    if (pool_number == 0)
        return;
    struct mt_account_pool *pool = pool_of(account, pool_number);
    pool->used_bytes -= bytes < pool->used_bytes ? bytes : pool->used_bytes;
    if (pool->is_known)
        cache(account, time_ns, pool_number, pool->cached_bytes + bytes);
}

void mt_account_pool(struct mt_account *account, uint64_t time_ns, uint64_t pool, uint64_t reserved_bytes)
{
    uint32_t number = find_pool(account, pool);
    if (number == 0)
        return;
    struct mt_account_pool *known = pool_of(account, number);
    known->is_known = true;
    cache(account, time_ns, number, reserved_bytes > known->used_bytes ? reserved_bytes - known->used_bytes : 0);
}

/* ---- calls ---- */

void mt_account_take(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call)
{
    if (!mt_account_counts_device(account, call->device) || call->address == 0)
        return;
    const struct mt_foreign_block block = mt_account_describe(account, thread, call, call->address);
    uint32_t pool = make_pool(account, call->pool);
    mt_account_give(account, call->time_ns, call->address); /* the block before, if its end was lost */
    take_from_pool(account, call, pool);
    mt_foreign_take(account->foreign, call->time_ns, &block);
    mt_number_map_put(&account->blocks.owners, call->address, (uint64_t)pool << 32 | call->context);
}

/* An address without a counted block is no error: its block may be of another device, or older than the account. */
void mt_account_give(struct mt_account *account, uint64_t time_ns, uint64_t address)
{
    struct mt_foreign_block block = {0};
    uint64_t owner;
    if (!mt_number_map_take(&account->blocks.owners, address, &owner))
        return;
    mt_foreign_find(account->foreign, address, &block);
    mt_foreign_give(account->foreign, time_ns, address);
    give_to_pool(account, time_ns, (uint32_t)(owner >> 32), block.requested_bytes);
}

void mt_account_refuse(struct mt_account *account, const struct mt_account_thread *thread,
                       const struct mt_memory_call *call)
{
    if (!mt_account_counts_device(account, call->device))
        return;
    const struct mt_foreign_block request = mt_account_describe(account, thread, call, 0);
    account->counts.refused++;
    mt_foreign_oom(account->foreign, call->time_ns, &request);
}

/* ---- contexts ---- */

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Ends them by address, so that the order does not depend on the map's. */
static void end_blocks(struct mt_account *account, uint64_t time_ns, uint32_t context)
{
    const struct mt_number_map *map = &account->blocks.owners;
    uint64_t *addresses = mt_host_alloc((map->count + 1) * sizeof *addresses);
    size_t count = 0;
    for (size_t i = 0; map->pairs != NULL && i <= map->mask; i++)
        if (map->pairs[i].key != MT_NUMBER_MAP_NO_KEY && (uint32_t)map->pairs[i].value == context)
            addresses[count++] = map->pairs[i].key;
    assert(count <= map->count);
    qsort(addresses, count, sizeof *addresses, by_number);
    for (size_t i = 0; i < count; i++)
        mt_account_give(account, time_ns, addresses[i]);
    free(addresses);
}

/* Releases the cached memory of pools that have no blocks left, too. */
void mt_account_end_context(struct mt_account *account, uint64_t time_ns, uint32_t context)
{
    end_blocks(account, time_ns, context);
    mt_number_map_put(&account->blocks.ended, context, 0);
    for (uint32_t i = 0; i < account->blocks.pool_count; i++)
        if (account->blocks.pools[i].used_bytes == 0 && account->blocks.pools[i].context == context)
            cache(account, time_ns, i + 1, 0);
}
