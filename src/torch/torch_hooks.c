/* What PyTorch calls beside taking memory. Blocks come by their address alone; whose card that is, the cards are asked. */
#include "torch/torch_library.h"

static mt_addr address_of(const void *ptr)
{
    return (mt_addr)(uintptr_t)ptr;
}

void memtrace_torch_free(void *ptr, ssize_t size, int device, void *stream)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    (void)size;
    (void)stream;
    if (ptr != NULL && (memory == NULL || !mt_torch_memory_give(memory, address_of(ptr))))
        mt_torch_count_unknown_free();
}

/* Cards are opened as they are used. */
void memtrace_torch_init(int device_count)
{
    (void)device_count;
}

static void release_cached(struct mt_torch_memory *memory, void *context)
{
    (void)context;
    mt_alloc_release_cached(mt_torch_memory_alloc(memory));
}

void memtrace_torch_reset(void)
{
    mt_torch_each(release_cached, NULL);
}

void memtrace_torch_memory_fraction(double fraction, int device)
{
    mt_torch_limit(device, fraction);
}

struct search {
    mt_addr address;
    uint64_t bytes; /* of the block; 0: not found */
};

static void find_block(struct mt_torch_memory *memory, void *context)
{
    struct search *search = context;
    (void)mt_torch_memory_find(memory, search->address, &search->bytes);
}

void *memtrace_torch_base_alloc(void *ptr, size_t *size)
{
    struct search search = {.address = address_of(ptr)};
    mt_torch_each(find_block, &search);
    if (size != NULL)
        *size = search.bytes;
    return ptr;
}

struct use {
    mt_addr address;
    mt_torch_stream stream;
};

static void use_block(struct mt_torch_memory *memory, void *context)
{
    const struct use *use = context;
    (void)mt_torch_memory_use_on(memory, use->address, use->stream);
}

void memtrace_torch_record_stream(void *ptr, void *stream)
{
    struct use use = {address_of(ptr), (mt_torch_stream)(uintptr_t)stream};
    mt_torch_each(use_block, &use);
}
