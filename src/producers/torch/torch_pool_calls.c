/* The functions of memtrace_torch.h about private pools and captures of a simulated card. */
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_operator.h"

#include <stddef.h>

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
    *out_number = mt_private_pool_add_user(mt_torch_memory_pools(memory), first, second, kind);
    const struct mt_pool_owner owner = mt_torch_memory_pool_owner(memory);
    mt_private_pool_apply(&owner, *out_number);
    return MT_OK;
}

int memtrace_torch_pool_leave(int device, uint64_t first, uint64_t second)
{
    uint32_t number;
    struct mt_torch_memory *memory = simulated_memory(device);
    const int users =
        memory != NULL ? mt_private_pool_change_users(mt_torch_memory_pools(memory), first, second, -1, &number) : -1;
    if (users != 0)
        return users;
    const struct mt_pool_owner owner = mt_torch_memory_pool_owner(memory);
    mt_private_pool_apply(&owner, number);
    return users;
}

int memtrace_torch_pool_users(int device, uint64_t first, uint64_t second)
{
    uint32_t number;
    struct mt_torch_memory *memory = simulated_memory(device);
    return memory != NULL ? mt_private_pool_change_users(mt_torch_memory_pools(memory), first, second, 0, &number) : -1;
}

void memtrace_torch_pool_empty(int device, uint64_t first, uint64_t second)
{
    uint32_t number;
    struct mt_torch_memory *memory = simulated_memory(device);
    if (memory == NULL || mt_private_pool_change_users(mt_torch_memory_pools(memory), first, second, 0, &number) != 0)
        return;
    const struct mt_pool_owner owner = mt_torch_memory_pool_owner(memory);
    mt_private_pool_empty(&owner, number);
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
    const struct mt_private_pool pool = mt_private_pool_at(mt_torch_memory_pools(list->memory), stream.pool);
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
