/* Physical memory: what cuMemCreate makes, which has a handle and no address, and may be mapped at several ranges of
 * addresses or none. Each piece is one block, at an address that the account gives it, from its making until no handle
 * and no mapping is left.
 *
 *   handle ──▶ piece ──▶ block
 *   range  ──▶ piece
 *
 * Relies on the account for blocks, and touches nothing else of it. Handles and ranges that it was not told of are
 * others' memory, and ignored. */
#include "base/memory.h"
#include "record/account_parts.h"

#include <stdlib.h>

/* A piece. It is free once both counts are 0: then nobody knows its index, which the next one has. */
struct mt_physical_piece {
    mt_addr block;
    uint64_t handles, mappings;
    size_t next_free; /* the index of another one that is free + 1; 0: of none */
};

/* A range where a piece is mapped. */
struct mapping {
    struct mt_address_range range;
    uint64_t piece; /* index of it */
};

void mt_account_physical_create(struct mt_account_physical *physical)
{
    mt_number_map_create(&physical->handles);
    mt_address_map_create(&physical->mappings, sizeof(struct mapping));
}

void mt_account_physical_release(struct mt_account_physical *physical)
{
    mt_number_map_release(&physical->handles);
    mt_address_map_release(&physical->mappings);
    free(physical->pieces);
}

/* Its index. */
static uint64_t add_piece(struct mt_account_physical *physical, mt_addr block)
{
    size_t index = physical->first_free > 0 ? physical->first_free - 1 : physical->piece_count;
    if (physical->first_free > 0)
        physical->first_free = physical->pieces[index].next_free;
    else
        physical->pieces = mt_host_room(physical->pieces, physical->piece_count++, sizeof *physical->pieces);
    physical->pieces[index] = (struct mt_physical_piece){.block = block, .handles = 1};
    return index;
}

static struct mt_physical_piece *find_piece(const struct mt_account_physical *physical, uint64_t handle)
{
    uint64_t index;
    return mt_number_map_get(&physical->handles, handle, &index) ? &physical->pieces[index] : NULL;
}

static void give_unused(struct mt_account *account, uint64_t time_ns, struct mt_physical_piece *piece)
{
    struct mt_account_physical *physical = &account->physical;
    if (piece->handles > 0 || piece->mappings > 0)
        return;
    mt_foreign_give(account->foreign, time_ns, piece->block);
    piece->next_free = physical->first_free;
    physical->first_free = (size_t)(piece - physical->pieces) + 1;
}

/* ---- handles ---- */

/* A handle that nobody holds is no handle: the number may come again. */
static void end_handle(struct mt_account *account, uint64_t time_ns, uint64_t handle)
{
    uint64_t index;
    if (!mt_number_map_take(&account->physical.handles, handle, &index))
        return;
    account->physical.pieces[index].handles = 0;
    give_unused(account, time_ns, &account->physical.pieces[index]);
}

void mt_account_make(struct mt_account *account, const struct mt_account_thread *thread,
                     const struct mt_memory_call *call)
{
    mt_addr block = mt_account_take_own(account, thread, call);
    if (block == 0)
        return;
    end_handle(account, call->time_ns, call->address); /* of the one before, if that was lost */
    uint64_t index = add_piece(&account->physical, block);
    mt_number_map_put(&account->physical.handles, call->address, index);
}

void mt_account_hold(struct mt_account *account, uint64_t handle)
{
    struct mt_physical_piece *piece = find_piece(&account->physical, handle);
    if (piece != NULL)
        piece->handles++;
}

void mt_account_let_go(struct mt_account *account, uint64_t time_ns, uint64_t handle)
{
    struct mt_physical_piece *piece = find_piece(&account->physical, handle);
    if (piece != NULL && --piece->handles == 0)
        end_handle(account, time_ns, handle);
}

/* ---- mappings ---- */

void mt_account_map(struct mt_account *account, uint64_t address, uint64_t bytes, uint64_t handle)
{
    struct mt_account_physical *physical = &account->physical;
    uint64_t index;
    if (!mt_number_map_get(&physical->handles, handle, &index) || bytes == 0 || bytes > UINT64_MAX - address ||
        mt_address_map_find(&physical->mappings, address, address + bytes) != NULL)
        return;
    const struct mapping mapping = {.range = {address, address + bytes}, .piece = index};
    mt_address_map_add(&physical->mappings, &mapping);
    physical->pieces[index].mappings++;
}

static void unmap_first(struct mt_account *account, uint64_t time_ns, const struct mapping *mapping)
{
    struct mt_physical_piece *piece = &account->physical.pieces[mapping->piece];
    mt_address_map_remove(&account->physical.mappings, mapping->range.begin);
    piece->mappings--;
    give_unused(account, time_ns, piece);
}

void mt_account_unmap(struct mt_account *account, uint64_t time_ns, uint64_t address, uint64_t bytes)
{
    const struct mapping *mapping;
    if (bytes > UINT64_MAX - address)
        return;
    while ((mapping = mt_address_map_find(&account->physical.mappings, address, address + bytes)) != NULL)
        unmap_first(account, time_ns, mapping);
}
