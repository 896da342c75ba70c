/* Blocks without an address of the program's: each gets one of ours, which no program has.
 *
 * Physical memory (cuMemCreate) has a handle and may be mapped at several ranges of addresses or at none. Each piece is
 * one block, from its creation until it has no handles and no mappings:
 *
 *   handle ──▶ piece ──▶ block
 *   range  ──▶ piece
 *
 * Activity records report memory that no call did. By then its address may belong to another block.
 *
 * Handles and ranges that were not reported are memory of other processes, and ignored. */
#include "base/memory.h"
#include "producers/cuda/account_parts.h"

#include <assert.h>
#include <stdlib.h>

enum { CALL_SLOTS = 1 << 20 }; /* a power of two */

static const mt_addr first_address = (mt_addr)1 << 61;

/* A piece of physical memory. It is free once both counts are 0. Then nothing refers to its index, and the next piece
 * gets it. */
struct mt_physical_piece {
    mt_addr block;
    uint64_t handles, mappings;
    size_t next_free; /* index of the next free piece + 1; 0: none */
};

/* A range where a piece is mapped. */
struct mapping {
    struct mt_address_range range;
    uint64_t piece; /* its index */
};

void mt_account_unaddressed_create(struct mt_account_unaddressed *unaddressed)
{
    unaddressed->next_address = first_address;
    mt_number_map_create(&unaddressed->handles);
    mt_address_map_create(&unaddressed->mappings, sizeof(struct mapping));
    mt_number_map_create(&unaddressed->recorded);
    unaddressed->calls = mt_host_alloc(CALL_SLOTS * sizeof *unaddressed->calls);
}

void mt_account_unaddressed_release(struct mt_account_unaddressed *unaddressed)
{
    mt_number_map_release(&unaddressed->handles);
    mt_address_map_release(&unaddressed->mappings);
    mt_number_map_release(&unaddressed->recorded);
    free(unaddressed->pieces);
    free(unaddressed->calls);
}

/* Takes a block at an address of ours, and returns the address. Returns 0 if the call's device is not counted, if it
 * asks for 0 bytes, and if no addresses are left. */
static mt_addr take_block(struct mt_account *account, const struct mt_account_thread *thread,
                          const struct mt_memory_call *call)
{
    mt_addr address = account->unaddressed.next_address;
    assert(address >= first_address && address <= MT_FOREIGN_MOST_ADDRESS);
    if (!mt_account_counts_device(account, call->device) || call->bytes == 0 ||
        call->bytes > MT_FOREIGN_MOST_ADDRESS - address)
        return 0;
    account->unaddressed.next_address += call->bytes;
    const struct mt_foreign_block block = mt_account_describe(account, thread, call, address);
    mt_foreign_take(account->foreign, call->time_ns, &block);
    return address;
}

/* ---- pieces of physical memory ---- */

/* Returns the index of a new piece with one handle. */
static uint64_t add_piece(struct mt_account_unaddressed *unaddressed, mt_addr block)
{
    bool is_reused = unaddressed->first_free > 0;
    size_t index = is_reused ? unaddressed->first_free - 1 : unaddressed->piece_count;
    if (is_reused)
        unaddressed->first_free = unaddressed->pieces[index].next_free;
    else
        unaddressed->pieces =
            mt_host_room(unaddressed->pieces, unaddressed->piece_count++, sizeof *unaddressed->pieces);
    assert(!is_reused || (unaddressed->pieces[index].handles == 0 && unaddressed->pieces[index].mappings == 0));
    unaddressed->pieces[index] = (struct mt_physical_piece){.block = block, .handles = 1};
    return index;
}

static struct mt_physical_piece *piece_at(const struct mt_account_unaddressed *unaddressed, uint64_t index)
{
    assert(index < unaddressed->piece_count);
    return &unaddressed->pieces[index];
}

static struct mt_physical_piece *find_piece(const struct mt_account_unaddressed *unaddressed, uint64_t handle)
{
    uint64_t index;
    if (!mt_number_map_get(&unaddressed->handles, handle, &index))
        return NULL;
    assert(piece_at(unaddressed, index)->handles > 0);
    return piece_at(unaddressed, index);
}

static void give_unused(struct mt_account *account, uint64_t time_ns, struct mt_physical_piece *piece)
{
    struct mt_account_unaddressed *unaddressed = &account->unaddressed;
    if (piece->handles > 0 || piece->mappings > 0)
        return;
    mt_foreign_give(account->foreign, time_ns, piece->block);
    piece->next_free = unaddressed->first_free;
    unaddressed->first_free = (size_t)(piece - unaddressed->pieces) + 1;
}

/* ---- handles ---- */

/* Forgets a handle that is released, since the driver may give out its number again. */
static void end_handle(struct mt_account *account, uint64_t time_ns, uint64_t handle)
{
    uint64_t index;
    if (!mt_number_map_take(&account->unaddressed.handles, handle, &index))
        return;
    piece_at(&account->unaddressed, index)->handles = 0;
    give_unused(account, time_ns, piece_at(&account->unaddressed, index));
}

void mt_account_make(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call)
{
    mt_addr block = take_block(account, thread, call);
    if (block == 0)
        return;
    end_handle(account, call->time_ns, call->address); /* the one before, if its end was lost */
    uint64_t index = add_piece(&account->unaddressed, block);
    mt_number_map_put(&account->unaddressed.handles, call->address, index);
}

void mt_account_hold(struct mt_account *account, uint64_t handle)
{
    struct mt_physical_piece *piece = find_piece(&account->unaddressed, handle);
    if (piece != NULL)
        piece->handles++;
}

void mt_account_let_go(struct mt_account *account, uint64_t time_ns, uint64_t handle)
{
    struct mt_physical_piece *piece = find_piece(&account->unaddressed, handle);
    if (piece != NULL && --piece->handles == 0)
        end_handle(account, time_ns, handle);
}

/* ---- mappings ---- */

void mt_account_map(struct mt_account *account, uint64_t address, uint64_t bytes, uint64_t handle)
{
    struct mt_account_unaddressed *unaddressed = &account->unaddressed;
    struct mt_physical_piece *piece = find_piece(unaddressed, handle);
    if (piece == NULL || bytes == 0 || bytes > UINT64_MAX - address ||
        mt_address_map_find(&unaddressed->mappings, address, address + bytes) != NULL)
        return;
    const struct mapping mapping = {.range = {address, address + bytes},
                                    .piece = (uint64_t)(piece - unaddressed->pieces)};
    mt_address_map_add(&unaddressed->mappings, &mapping);
    piece->mappings++;
}

static void unmap_first(struct mt_account *account, uint64_t time_ns, const struct mapping *mapping)
{
    struct mt_physical_piece *piece = piece_at(&account->unaddressed, mapping->piece);
    assert(piece->mappings > 0);
    mt_address_map_remove(&account->unaddressed.mappings, mapping->range.begin);
    piece->mappings--;
    give_unused(account, time_ns, piece);
}

void mt_account_unmap(struct mt_account *account, uint64_t time_ns, uint64_t address, uint64_t bytes)
{
    const struct mapping *mapping;
    if (bytes > UINT64_MAX - address)
        return;
    while ((mapping = mt_address_map_find(&account->unaddressed.mappings, address, address + bytes)) != NULL)
        unmap_first(account, time_ns, mapping);
}

/* ---- activity records ---- */

void mt_account_expect(struct mt_account *account, uint32_t call)
{
    account->unaddressed.calls[call % CALL_SLOTS] = call;
}

static void release_recorded(struct mt_account *account, const struct mt_memory_record *record)
{
    mt_addr block;
    if (!mt_number_map_take(&account->unaddressed.recorded, record->address, &block))
        return;
    assert(block >= first_address && block < account->unaddressed.next_address);
    account->counts.filled_records++;
    mt_account_give(account, record->time_ns, block);
}

/* True if the memory of a record may be added. Kinds that calls report are added only once some record has matched a
 * call. Without a match, the numbers of calls and records may differ, and all memory would count twice. */
static bool may_fill(const struct mt_account *account, const struct mt_memory_record *record)
{
    return record->kind == MT_MEMORY_ARRAY || record->kind == MT_MEMORY_STATIC || account->counts.matched_records > 0;
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
    mt_addr block = take_block(account, NULL, &call);
    if (block == 0)
        return;
    account->counts.filled_records++;
    mt_number_map_put(&account->unaddressed.recorded, record->address, block);
    mt_number_map_put(&account->blocks.owners, block, record->context);
    if (has_ended(account, record->context))
        mt_account_give(account, record->time_ns, block);
}

void mt_account_record(struct mt_account *account, const struct mt_memory_record *record)
{
    if (record->call != 0 && account->unaddressed.calls[record->call % CALL_SLOTS] == record->call) {
        account->counts.matched_records++;
        return;
    }
    release_recorded(account, record); /* also before a second one at the address: the end of the first was lost */
    if (record->releases)
        return;
    if (may_fill(account, record))
        take_recorded(account, record);
    else
        account->counts.doubtful++;
}
