/* What both stand-ins know of the cards. */
#include "producers/torch/driver/driver.h"
#include "producers/torch/memtrace_torch.h"

#include <stdio.h>
#include <string.h>

static int card_count;

void memtrace_driver_begin(int cards)
{
    card_count = cards;
}

int mt_driver_cards(void)
{
    return card_count;
}

bool mt_driver_has(int device)
{
    return device >= 0 && device < card_count;
}

int mt_driver_refuse(const char *call, int code)
{
    memtrace_torch_driver_failed(call);
    return code;
}

void mt_driver_uuid(int device, unsigned char out[MT_DRIVER_UUID])
{
    memset(out, 0, MT_DRIVER_UUID);
    memcpy(out, "memtrace", sizeof "memtrace" - 1);
    out[MT_DRIVER_UUID - 1] = (unsigned char)device;
}

bool mt_driver_copy(char *out, int64_t capacity, const char *text)
{
    return capacity > 0 && snprintf(out, (size_t)capacity, "%s", text) < capacity;
}

struct mt_driver_memory mt_driver_memory(int device)
{
    struct memtrace_torch_description card;
    struct memtrace_torch_figures figures;
    (void)memtrace_torch_describe(NULL, &card);
    (void)memtrace_torch_statistics(device, MEMTRACE_TORCH_ALL, &figures);
    const uint64_t own = memtrace_torch_held(device) + figures.reserved, held = card.others_bytes + own;
    const uint64_t used = held < card.total_bytes ? held : card.total_bytes;
    return (struct mt_driver_memory){
        .total = card.total_bytes, .used = used, .free = card.total_bytes - used, .own = own < used ? own : used};
}
