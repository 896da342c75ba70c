/* Blocks by address: what calls take and give back, what pools keep beyond them, what ends with a context; and the
 * driver's records, which tell of a block that no call told. Begins and ends the account, whose other parts are
 * account_physical.c and account_ranges.c.
 *
 * Relies on foreign memory for the events and their rules; promises that a block counts once, whoever tells of it. */
#include "record/account_parts.h"

#include "base/memory.h"

#include <stdlib.h>

enum { CALL_SLOTS = 1 << 20 }; /* a power of two */

/* Where the addresses of what has none begin: no program has addresses there. Pools have a range each, as long as no
 * pool can be. */
static const mt_addr first_own_address = (mt_addr)1 << 61, first_pool_address = (mt_addr)1 << 60;
static const uint64_t pool_range_bytes = (uint64_t)1 << 48;
enum { MOST_POOLS = 1 << 12 };

#define X(name, text) [MT_MEMORY_##name] = text,
static const char *const kind_names[MT_MEMORY_KIND_COUNT] = {MT_MEMORY_KINDS(X)};
#undef X

/* A pool of the driver's. Once it is known what the driver holds: cached_bytes are mapped at the beginning of its
 * range. */
struct mt_account_pool {
    uint64_t number; /* of the caller */
    uint64_t used_bytes, cached_bytes;
    uint32_t context; /* of the last block */
    bool is_known;
};

static void create_blocks(struct mt_account_blocks *blocks)
{
    mt_number_map_create(&blocks->owners);
    mt_number_map_create(&blocks->recorded);
    mt_number_map_create(&blocks->ended);
    blocks->next_own_address = first_own_address;
    blocks->calls = mt_host_alloc(CALL_SLOTS * sizeof *blocks->calls);
}

static void release_blocks(struct mt_account_blocks *blocks)
{
    mt_number_map_release(&blocks->owners);
    mt_number_map_release(&blocks->recorded);
    mt_number_map_release(&blocks->ended);
    free(blocks->pools);
    free(blocks->calls);
}

struct mt_account *mt_account_create(const struct mt_sink *sink, const struct mt_account_settings *settings)
{
    struct mt_account *account = mt_host_alloc(sizeof *account);
    account->foreign = mt_foreign_create(sink);
    account->sink = *sink;
    account->device = settings->device;
    for (int kind = 0; kind < MT_MEMORY_KIND_COUNT; kind++)
        account->categories[kind] = mt_sink_category(sink, kind_names[kind]);
    create_blocks(&account->blocks);
    mt_account_physical_create(&account->physical);
    mt_account_ranges_create(&account->ranges, settings);
    return account;
}

void mt_account_destroy(struct mt_account *account)
{
    if (account == NULL)
        return;
    mt_foreign_destroy(account->foreign);
    release_blocks(&account->blocks);
    mt_account_physical_release(&account->physical);
    mt_account_ranges_release(&account->ranges);
    free(account);
}

struct mt_account_counts mt_account_counts(const struct mt_account *account)
{
    return account->counts;
}

mt_label_id mt_account_label(const struct mt_account *account, mt_category category, const char *op, mt_span_id span)
{
    const struct mt_label label = {
        .category = category, .role = MT_ROLE_TEMPORARY, .phase = MT_PHASE_INIT, .op = op, .span = span, .layer = -1};
    return account->sink.intern_label(account->sink.context, &label);
}

static bool is_counted(const struct mt_account *account, int device)
{
    return account->device == MT_EVERY_DEVICE || account->device == device;
}

static struct mt_foreign_block describe(const struct mt_account *account, const struct mt_account_thread *thread,
                                        const struct mt_memory_call *call, mt_addr address)
{
    mt_span_id span = mt_account_span(thread);
    return (struct mt_foreign_block){.address = address,
                                     .requested_bytes = call->bytes,
                                     .stream = call->stream,
                                     .label =
                                         mt_account_label(account, account->categories[call->kind], call->op, span),
                                     .span = span};
}

mt_addr mt_account_take_own(struct mt_account *account, const struct mt_account_thread *thread,
                            const struct mt_memory_call *call)
{
    mt_addr address = account->blocks.next_own_address;
    if (!is_counted(account, call->device) || call->bytes == 0 || call->bytes > MT_FOREIGN_MOST_ADDRESS - address)
        return 0;
    account->blocks.next_own_address += call->bytes;
    const struct mt_foreign_block block = describe(account, thread, call, address);
    mt_foreign_take(account->foreign, call->time_ns, &block);
    return address;
}

/* ---- pools ---- */

/* The index of a pool + 1; 0 if it is unknown. */
static uint32_t find_pool(const struct mt_account *account, uint64_t number)
{
    for (uint32_t index = 0; index < account->blocks.pool_count; index++)
        if (account->blocks.pools[index].number == number)
            return index + 1;
    return 0;
}

/* The same, made if it is new; 0 for none, and for one too many. */
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

/* Makes the memory of a pool that no block has as large as that. */
static void cache(struct mt_account *account, uint64_t time_ns, uint32_t pool_number, uint64_t bytes)
{
    struct mt_account_pool *pool = &account->blocks.pools[pool_number - 1];
    mt_addr begin = first_pool_address + (pool_number - 1) * pool_range_bytes;
    if (bytes > pool_range_bytes)
        bytes = pool_range_bytes;
    if (bytes > pool->cached_bytes)
        mt_foreign_map(account->foreign, time_ns, begin + pool->cached_bytes, bytes - pool->cached_bytes, 0);
    else if (bytes < pool->cached_bytes)
        mt_foreign_unmap(account->foreign, time_ns, begin + bytes, pool->cached_bytes - bytes);
    pool->cached_bytes = bytes;
}

/* A block comes of what the pool has, as far as that goes. */
static void take_of_pool(struct mt_account *account, const struct mt_memory_call *call, uint32_t pool_number)
{
    if (pool_number == 0)
        return;
    struct mt_account_pool *pool = &account->blocks.pools[pool_number - 1];
    pool->used_bytes += call->bytes;
    pool->context = call->context;
    cache(account, call->time_ns, pool_number, pool->cached_bytes > call->bytes ? pool->cached_bytes - call->bytes : 0);
}

static void give_to_pool(struct mt_account *account, uint64_t time_ns, uint32_t pool_number, uint64_t bytes)
{
    if (pool_number == 0)
        return;
    struct mt_account_pool *pool = &account->blocks.pools[pool_number - 1];
    pool->used_bytes -= bytes < pool->used_bytes ? bytes : pool->used_bytes;
    if (pool->is_known)
        cache(account, time_ns, pool_number, pool->cached_bytes + bytes);
}

void mt_account_pool(struct mt_account *account, uint64_t time_ns, uint64_t pool, uint64_t reserved_bytes)
{
    uint32_t number = find_pool(account, pool);
    if (number == 0)
        return;
    struct mt_account_pool *known = &account->blocks.pools[number - 1];
    known->is_known = true;
    cache(account, time_ns, number, reserved_bytes > known->used_bytes ? reserved_bytes - known->used_bytes : 0);
}

/* ---- calls ---- */

void mt_account_expect(struct mt_account *account, uint32_t call)
{
    account->blocks.calls[call % CALL_SLOTS] = call;
}

void mt_account_take(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call)
{
    if (!is_counted(account, call->device) || call->address == 0)
        return;
    const struct mt_foreign_block block = describe(account, thread, call, call->address);
    uint32_t pool = make_pool(account, call->pool);
    mt_account_give(account, call->time_ns, call->address); /* of the one before, if that was lost */
    take_of_pool(account, call, pool);
    mt_foreign_take(account->foreign, call->time_ns, &block);
    mt_number_map_put(&account->blocks.owners, call->address, (uint64_t)pool << 32 | call->context);
}

/* Of an address that no counted block begins at, nothing: it may be of another device, or from before. */
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
    if (!is_counted(account, call->device))
        return;
    const struct mt_foreign_block request = describe(account, thread, call, 0);
    account->counts.refused++;
    mt_foreign_oom(account->foreign, call->time_ns, &request);
}

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* By address, so that the order is the same whatever the map's is. */
static void end_blocks(struct mt_account *account, uint64_t time_ns, uint32_t context)
{
    const struct mt_number_map *map = &account->blocks.owners;
    uint64_t *addresses = mt_host_alloc((map->count + 1) * sizeof *addresses);
    size_t count = 0;
    for (size_t i = 0; map->pairs != NULL && i <= map->mask; i++)
        if (map->pairs[i].key != MT_NUMBER_MAP_NO_KEY && (uint32_t)map->pairs[i].value == context)
            addresses[count++] = map->pairs[i].key;
    qsort(addresses, count, sizeof *addresses, by_number);
    for (size_t i = 0; i < count; i++)
        mt_account_give(account, time_ns, addresses[i]);
    free(addresses);
}

/* Pools that no block is left of go, too. */
void mt_account_end_context(struct mt_account *account, uint64_t time_ns, uint32_t context)
{
    end_blocks(account, time_ns, context);
    mt_number_map_put(&account->blocks.ended, context, 0);
    for (uint32_t i = 0; i < account->blocks.pool_count; i++)
        if (account->blocks.pools[i].used_bytes == 0 && account->blocks.pools[i].context == context)
            cache(account, time_ns, i + 1, 0);
}

/* ---- records ---- */

static void release_recorded(struct mt_account *account, const struct mt_memory_record *record)
{
    mt_addr block;
    if (!mt_number_map_take(&account->blocks.recorded, record->address, &block))
        return;
    account->counts.filled_records++;
    mt_account_give(account, record->time_ns, block);
}

/* Kinds that calls tell are filled in only once a record was found to belong to a call: else numbers can't be
 * compared, and all would count twice. */
static bool may_fill(const struct mt_account *account, const struct mt_memory_record *record)
{
    return record->kind == MT_MEMORY_ARRAY || record->kind == MT_MEMORY_STATIC || account->counts.told_records > 0;
}

static bool has_ended(const struct mt_account *account, uint32_t context)
{
    uint64_t nothing;
    return mt_number_map_get(&account->blocks.ended, context, &nothing);
}

static void take_recorded(struct mt_account *account, const struct mt_memory_record *record)
{
    const struct mt_memory_call call = {.time_ns = record->time_ns,
                                        .op = record->op,
                                        .kind = record->kind,
                                        .bytes = record->bytes,
                                        .device = record->device};
    mt_addr block = mt_account_take_own(account, NULL, &call);
    if (block == 0)
        return;
    account->counts.filled_records++;
    mt_number_map_put(&account->blocks.recorded, record->address, block);
    mt_number_map_put(&account->blocks.owners, block, record->context);
    if (has_ended(account, record->context))
        mt_account_give(account, record->time_ns, block);
}

void mt_account_record(struct mt_account *account, const struct mt_memory_record *record)
{
    if (record->call != 0 && account->blocks.calls[record->call % CALL_SLOTS] == record->call) {
        account->counts.told_records++;
        return;
    }
    release_recorded(account, record); /* a second one at the address: the first one's end was lost */
    if (record->releases)
        return;
    if (may_fill(account, record))
        take_recorded(account, record);
    else
        account->counts.doubtful++;
}
