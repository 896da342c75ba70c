#include "record/account.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "trace/address_map.h"
#include "trace/foreign.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_SLOTS = 1 << 20, LAUNCH_SLOTS = 1 << 20 }; /* powers of two */

/* Where the addresses of what has none begin: no program has addresses there. Pools have a range each, as long as no pool
 * can be. */
static const mt_addr first_own_address = (mt_addr)1 << 61, first_pool_address = (mt_addr)1 << 60;
static const uint64_t pool_range_bytes = (uint64_t)1 << 48;
enum { MOST_POOLS = 1 << 12 };

#define X(name, text) [MT_MEMORY_##name] = text,
static const char *const kind_names[MT_MEMORY_KIND_COUNT] = {MT_MEMORY_KINDS(X)};
#undef X

/* Physical memory. It is free once both counts are 0: then nobody knows its index, which the next one has. */
struct physical {
    mt_addr block;
    uint64_t handles, mappings;
    size_t next_free; /* the index of another one that is free + 1; 0: of none */
};

/* A range where physical memory is mapped. */
struct mapping {
    struct mt_address_range range;
    uint64_t physical; /* index of it */
};

/* A pool of the driver's. Once it is known what the driver holds: cached_bytes are mapped at the beginning of its range. */
struct pool {
    uint64_t number; /* of the caller */
    uint64_t used_bytes, cached_bytes;
    bool is_known;
};

/* A launch; its number, in the upper half of the first word, is written last. */
struct launch {
    _Atomic uint64_t number_and_label;
    _Atomic int64_t step;
};

/* Invariants: owners has every live block that was taken with an address of the program's, or that a record told;
 * calls[n % CALL_SLOTS] is the last expected call n. */
struct mt_account {
    struct mt_foreign *foreign;
    struct mt_sink sink;
    struct mt_account_settings settings;
    char *step_prefix; /* NULL: there are no steps */
    mt_category categories[MT_MEMORY_KIND_COUNT];
    struct mt_number_map owners; /* address to context, and above 32 bits the pool's index + 1 */
    struct pool *pools;
    uint32_t pool_count;
    struct mt_number_map recorded; /* address that a record told, to the block's own */
    struct mt_number_map ended;    /* contexts, of which records may still come */
    struct mt_number_map handles;  /* to the index of the physical memory */
    struct physical *physical;
    size_t physical_count, first_free; /* as next_free */
    struct mt_address_map mappings;
    mt_addr next_own_address;
    uint32_t *calls;
    struct launch *launches; /* of number n at n % LAUNCH_SLOTS */
    _Atomic int64_t step;    /* that is going on */
    struct mt_kernel_log *kernels;
    const struct mt_account_thread *teller; /* whose ranges are events; NULL: nobody's yet */
    struct mt_account_counts counts;
};

struct mt_account *mt_account_create(const struct mt_sink *sink, const struct mt_account_settings *settings)
{
    struct mt_account *account = mt_host_alloc(sizeof *account);
    account->foreign = mt_foreign_create(sink);
    account->sink = *sink;
    account->settings = *settings;
    account->step_prefix = settings->step != NULL ? mt_host_strdup(settings->step) : NULL;
    for (int kind = 0; kind < MT_MEMORY_KIND_COUNT; kind++)
        account->categories[kind] = mt_sink_category(sink, kind_names[kind]);
    mt_number_map_create(&account->owners);
    mt_number_map_create(&account->recorded);
    mt_number_map_create(&account->ended);
    mt_number_map_create(&account->handles);
    mt_address_map_create(&account->mappings, sizeof(struct mapping));
    account->next_own_address = first_own_address;
    account->calls = mt_host_alloc(CALL_SLOTS * sizeof *account->calls);
    account->launches = mt_host_alloc(LAUNCH_SLOTS * sizeof *account->launches);
    account->step = MT_NO_STEP;
    account->kernels = mt_kernel_log_create(settings->spell);
    return account;
}

void mt_account_destroy(struct mt_account *account)
{
    if (account == NULL)
        return;
    mt_foreign_destroy(account->foreign);
    mt_number_map_release(&account->owners);
    mt_number_map_release(&account->recorded);
    mt_number_map_release(&account->ended);
    mt_number_map_release(&account->handles);
    mt_address_map_release(&account->mappings);
    mt_kernel_log_destroy(account->kernels);
    free(account->pools);
    free(account->physical);
    free(account->calls);
    free(account->launches);
    free(account->step_prefix);
    free(account);
}

struct mt_account_counts mt_account_counts(const struct mt_account *account)
{
    return account->counts;
}

static mt_span_id span_of(const struct mt_account_thread *thread)
{
    return thread != NULL && thread->depth > 0 ? thread->ranges[thread->depth - 1].span : 0;
}

static mt_label_id intern_label(const struct mt_account *account, mt_category category, const char *op, mt_span_id span)
{
    const struct mt_label label = {
        .category = category, .role = MT_ROLE_TEMPORARY, .phase = MT_PHASE_INIT, .op = op, .span = span, .layer = -1};
    return account->sink.intern_label(account->sink.context, &label);
}

static bool is_counted(const struct mt_account *account, int device)
{
    return account->settings.device == MT_EVERY_DEVICE || account->settings.device == device;
}

static struct mt_foreign_block describe(const struct mt_account *account, const struct mt_account_thread *thread,
                                        const struct mt_memory_call *call, mt_addr address)
{
    mt_span_id span = span_of(thread);
    return (struct mt_foreign_block){.address = address,
                                     .requested_bytes = call->bytes,
                                     .stream = call->stream,
                                     .label = intern_label(account, account->categories[call->kind], call->op, span),
                                     .span = span};
}

/* ---- calls ---- */

void mt_account_expect(struct mt_account *account, uint32_t call)
{
    account->calls[call % CALL_SLOTS] = call;
}

/* The index of a pool + 1; 0 if it is unknown. */
static uint32_t find_pool(const struct mt_account *account, uint64_t number)
{
    for (uint32_t index = 0; index < account->pool_count; index++)
        if (account->pools[index].number == number)
            return index + 1;
    return 0;
}

/* The same, made if it is new; 0 for none, and for one too many. */
static uint32_t make_pool(struct mt_account *account, uint64_t number)
{
    uint32_t found = number != 0 ? find_pool(account, number) : 0, index = account->pool_count;
    if (number == 0 || found != 0 || index == MOST_POOLS)
        return found;
    account->pools = mt_host_room(account->pools, account->pool_count++, sizeof *account->pools);
    account->pools[index] = (struct pool){.number = number};
    mt_foreign_reserve(account->foreign, first_pool_address + index * pool_range_bytes, pool_range_bytes, index);
    return index + 1;
}

/* Makes the memory of a pool that no block has as large as that. */
static void cache(struct mt_account *account, uint64_t time_ns, uint32_t pool_number, uint64_t bytes)
{
    struct pool *pool = &account->pools[pool_number - 1];
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
static void take_of_pool(struct mt_account *account, uint64_t time_ns, uint32_t pool_number, uint64_t bytes)
{
    if (pool_number == 0)
        return;
    struct pool *pool = &account->pools[pool_number - 1];
    pool->used_bytes += bytes;
    cache(account, time_ns, pool_number, pool->cached_bytes > bytes ? pool->cached_bytes - bytes : 0);
}

static void give_to_pool(struct mt_account *account, uint64_t time_ns, uint32_t pool_number, uint64_t bytes)
{
    if (pool_number == 0)
        return;
    struct pool *pool = &account->pools[pool_number - 1];
    pool->used_bytes -= bytes < pool->used_bytes ? bytes : pool->used_bytes;
    if (pool->is_known)
        cache(account, time_ns, pool_number, pool->cached_bytes + bytes);
}

void mt_account_pool(struct mt_account *account, uint64_t time_ns, uint64_t pool, uint64_t reserved_bytes)
{
    uint32_t number = find_pool(account, pool);
    if (number == 0)
        return;
    struct pool *known = &account->pools[number - 1];
    known->is_known = true;
    cache(account, time_ns, number, reserved_bytes > known->used_bytes ? reserved_bytes - known->used_bytes : 0);
}

void mt_account_take(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call)
{
    if (!is_counted(account, call->device) || call->address == 0)
        return;
    const struct mt_foreign_block block = describe(account, thread, call, call->address);
    uint32_t pool = make_pool(account, call->pool);
    mt_account_give(account, call->time_ns, call->address); /* of the one before, if that was lost */
    take_of_pool(account, call->time_ns, pool, call->bytes);
    mt_foreign_take(account->foreign, call->time_ns, &block);
    mt_number_map_put(&account->owners, call->address, (uint64_t)pool << 32 | call->context);
}

/* Of an address that no counted block begins at, nothing: it may be of another device, or from before. */
void mt_account_give(struct mt_account *account, uint64_t time_ns, uint64_t address)
{
    struct mt_foreign_block block = {0};
    uint64_t owner;
    if (!mt_number_map_take(&account->owners, address, &owner))
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

/* By address, so that the order is the same whatever the map's is. Pools that no block is left of go too. */
void mt_account_end_context(struct mt_account *account, uint64_t time_ns, uint32_t context)
{
    const struct mt_number_map *map = &account->owners;
    uint64_t *addresses = mt_host_alloc((map->count + 1) * sizeof *addresses);
    size_t count = 0;
    for (size_t i = 0; map->pairs != NULL && i <= map->mask; i++)
        if (map->pairs[i].key != MT_NUMBER_MAP_NO_KEY && (uint32_t)map->pairs[i].value == context)
            addresses[count++] = map->pairs[i].key;
    qsort(addresses, count, sizeof *addresses, by_number);
    for (size_t i = 0; i < count; i++)
        mt_account_give(account, time_ns, addresses[i]);
    free(addresses);
    mt_number_map_put(&account->ended, context, 0);
    for (uint32_t i = 0; i < account->pool_count; i++)
        if (account->pools[i].used_bytes == 0)
            cache(account, time_ns, i + 1, 0);
}

/* ---- memory without an address ---- */

/* Takes a block at an address of our own, which it returns; 0 if there is none left. */
static mt_addr take_own(struct mt_account *account, const struct mt_account_thread *thread,
                        const struct mt_memory_call *call)
{
    mt_addr address = account->next_own_address;
    if (call->bytes == 0 || call->bytes > MT_FOREIGN_MOST_ADDRESS - address)
        return 0;
    account->next_own_address += call->bytes;
    const struct mt_foreign_block block = describe(account, thread, call, address);
    mt_foreign_take(account->foreign, call->time_ns, &block);
    return address;
}

/* Its index. */
static uint64_t make_physical(struct mt_account *account, mt_addr block)
{
    size_t index = account->first_free > 0 ? account->first_free - 1 : account->physical_count;
    if (account->first_free > 0)
        account->first_free = account->physical[index].next_free;
    else
        account->physical = mt_host_room(account->physical, account->physical_count++, sizeof *account->physical);
    account->physical[index] = (struct physical){.block = block, .handles = 1};
    return index;
}

void mt_account_make(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call)
{
    mt_addr block = is_counted(account, call->device) ? take_own(account, thread, call) : 0;
    if (block == 0)
        return;
    uint64_t index = make_physical(account, block);
    mt_number_map_put(&account->handles, call->address, index);
}

static struct physical *find_physical(const struct mt_account *account, uint64_t handle)
{
    uint64_t index;
    return mt_number_map_get(&account->handles, handle, &index) ? &account->physical[index] : NULL;
}

static void give_unused(struct mt_account *account, uint64_t time_ns, struct physical *physical)
{
    if (physical->handles > 0 || physical->mappings > 0)
        return;
    mt_foreign_give(account->foreign, time_ns, physical->block);
    physical->next_free = account->first_free;
    account->first_free = (size_t)(physical - account->physical) + 1;
}

void mt_account_hold(struct mt_account *account, uint64_t handle)
{
    struct physical *physical = find_physical(account, handle);
    if (physical != NULL)
        physical->handles++;
}

/* A handle that nobody holds is no handle: the number may come again. */
void mt_account_let_go(struct mt_account *account, uint64_t time_ns, uint64_t handle)
{
    struct physical *physical = find_physical(account, handle);
    uint64_t index;
    if (physical == NULL || --physical->handles > 0)
        return;
    mt_number_map_take(&account->handles, handle, &index);
    give_unused(account, time_ns, physical);
}

static void unmap_first(struct mt_account *account, uint64_t time_ns, const struct mapping *mapping)
{
    struct physical *physical = &account->physical[mapping->physical];
    mt_address_map_remove(&account->mappings, mapping->range.begin);
    physical->mappings--;
    give_unused(account, time_ns, physical);
}

void mt_account_unmap(struct mt_account *account, uint64_t time_ns, uint64_t address, uint64_t bytes)
{
    const struct mapping *mapping;
    if (bytes > UINT64_MAX - address)
        return;
    while ((mapping = mt_address_map_find(&account->mappings, address, address + bytes)) != NULL)
        unmap_first(account, time_ns, mapping);
}

void mt_account_map(struct mt_account *account, uint64_t address, uint64_t bytes, uint64_t handle)
{
    uint64_t index;
    if (!mt_number_map_get(&account->handles, handle, &index) || bytes == 0 || bytes > UINT64_MAX - address ||
        mt_address_map_find(&account->mappings, address, address + bytes) != NULL)
        return;
    const struct mapping mapping = {.range = {address, address + bytes}, .physical = index};
    mt_address_map_add(&account->mappings, &mapping);
    account->physical[index].mappings++;
}

/* ---- records ---- */

static void release_recorded(struct mt_account *account, const struct mt_memory_record *record)
{
    mt_addr block;
    if (!mt_number_map_take(&account->recorded, record->address, &block))
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
    return mt_number_map_get(&account->ended, context, &nothing);
}

static void take_recorded(struct mt_account *account, const struct mt_memory_record *record)
{
    const struct mt_memory_call call = {.time_ns = record->time_ns,
                                        .op = record->op,
                                        .kind = record->kind,
                                        .bytes = record->bytes,
                                        .device = record->device};
    mt_addr block = is_counted(account, call.device) ? take_own(account, NULL, &call) : 0;
    if (block == 0)
        return;
    account->counts.filled_records++;
    mt_number_map_put(&account->recorded, record->address, block);
    mt_number_map_put(&account->owners, block, record->context);
    if (has_ended(account, record->context))
        mt_account_give(account, record->time_ns, block);
}

void mt_account_record(struct mt_account *account, const struct mt_memory_record *record)
{
    if (record->call != 0 && account->calls[record->call % CALL_SLOTS] == record->call) {
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

/* ---- ranges ---- */

static bool is_step(const struct mt_account *account, const char *name)
{
    return account->step_prefix != NULL && strncmp(name, account->step_prefix, strlen(account->step_prefix)) == 0;
}

static bool tells(struct mt_account *account, const struct mt_account_thread *thread)
{
    if (account->teller == NULL)
        account->teller = thread;
    return account->teller == thread;
}

static void push(struct mt_account_thread *thread, struct mt_account_range range)
{
    thread->ranges = mt_host_room(thread->ranges, thread->depth, sizeof *thread->ranges);
    thread->ranges[thread->depth++] = range;
}

/* A step is no part of the path: the same place in the program is one span in all of them. */
void mt_account_enter(struct mt_account *account, struct mt_account_thread *thread, uint64_t time_ns, const char *name)
{
    struct mt_account_range range = {
        .span = span_of(thread), .is_told = tells(account, thread), .is_step = is_step(account, name)};
    if (!range.is_step)
        range.span = account->sink.intern_span(account->sink.context, range.span, name[0] != '\0' ? name : "?");
    push(thread, range);
    if (!range.is_told)
        return;
    if (range.is_step)
        account->step = mt_foreign_step_begin(account->foreign, time_ns);
    else
        mt_foreign_span_begin(account->foreign, time_ns, range.span);
}

void mt_account_leave(struct mt_account *account, struct mt_account_thread *thread, uint64_t time_ns)
{
    if (thread->depth == 0)
        return;
    const struct mt_account_range range = thread->ranges[--thread->depth];
    if (!range.is_told)
        return;
    if (!range.is_step) {
        mt_foreign_span_end(account->foreign, time_ns, range.span);
        return;
    }
    mt_foreign_step_end(account->foreign, time_ns);
    account->step = MT_NO_STEP;
}

void mt_account_forget_thread(struct mt_account *account, struct mt_account_thread *thread, uint64_t time_ns)
{
    while (thread->depth > 0)
        mt_account_leave(account, thread, time_ns);
    if (account->teller == thread)
        account->teller = NULL;
    free(thread->ranges);
    *thread = (struct mt_account_thread){0};
}

/* ---- kernels ---- */

static mt_label_id label_launch(const struct mt_account *account, mt_span_id span)
{
    return intern_label(account, MT_CATEGORY_OTHER, "kernel", span);
}

mt_label_id mt_account_launch_label(struct mt_account *account, struct mt_account_thread *thread)
{
    thread->launch_span = span_of(thread);
    thread->launch_label = label_launch(account, thread->launch_span);
    return thread->launch_label;
}

void mt_account_launch(struct mt_account *account, uint32_t number, mt_label_id label)
{
    struct launch *launch = &account->launches[number % LAUNCH_SLOTS];
    atomic_store_explicit(&launch->step, atomic_load_explicit(&account->step, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&launch->number_and_label, (uint64_t)number << 32 | label, memory_order_release);
}

void mt_account_ran(struct mt_account *account, const struct mt_kernel_run *run)
{
    struct launch *launch = &account->launches[run->launch % LAUNCH_SLOTS];
    uint64_t known = atomic_load_explicit(&launch->number_and_label, memory_order_acquire);
    if (run->launch != 0 && known >> 32 == run->launch) {
        const struct mt_kernel_launch told = {.step = atomic_load_explicit(&launch->step, memory_order_relaxed),
                                              .label = (mt_label_id)known,
                                              .number = run->launch};
        mt_kernel_log_launch(account->kernels, &told);
    }
    mt_kernel_log_ran(account->kernels, run);
}

void mt_account_take_kernels(struct mt_account *account, int64_t shift_ns,
                             void (*take)(void *context, const struct mt_kernel *kernel), void *context)
{
    mt_kernel_log_take(account->kernels, shift_ns, take, context);
}

void mt_account_kernel(struct mt_account *account, const struct mt_kernel *kernel)
{
    struct mt_kernel told = *kernel;
    if (told.label == 0)
        told.label = label_launch(account, 0);
    mt_foreign_kernel(account->foreign, &told);
}
