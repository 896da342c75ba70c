#include "producers/torch/torch_card.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

static void start_streams(struct mt_torch_streams *streams)
{
    streams->streams = mt_host_room(NULL, 0, sizeof *streams->streams);
    streams->streams[0] = (struct mt_torch_pooled_stream){.stream = MT_TORCH_STREAM_DEFAULT};
    streams->count = 1;
}

/* A simulated device uses the host's clock, since its work takes no time. */
static mt_status open_simulated(const char *spelling, struct mt_device **out)
{
    MT_TRY(mt_device_open(spelling, out));
    mt_device_use_host_clock(*out);
    return MT_OK;
}

mt_status mt_torch_card_open(int ordinal, const char *simulated, struct mt_torch_card **out)
{
    struct mt_torch_card *card = mt_host_alloc(sizeof *card);
    mt_lock_create(&card->numbers.lock, MT_RANK_LEAF);
    start_streams(&card->numbers);
    const mt_status status = simulated != NULL ? open_simulated(simulated, &card->device)
                                               : mt_torch_device_open(ordinal, card, &card->device);
    if (status == MT_OK)
        *out = card;
    else
        mt_torch_card_close(card);
    return status;
}

void mt_torch_card_close(struct mt_torch_card *card)
{
    if (card == NULL)
        return;
    mt_device_close(card->device);
    free(card->numbers.streams);
    free(card);
}

/* The lock is held. The search is linear, since programs have a handful of streams. */
static mt_status find_or_add(struct mt_torch_streams *numbers, struct mt_torch_pooled_stream stream, mt_stream *out,
                             bool *out_is_new)
{
    assert(numbers->count >= 1 && numbers->count <= MT_TORCH_MOST_STREAMS);
    for (uint32_t i = 0; i < numbers->count; i++)
        if (numbers->streams[i].stream == stream.stream && numbers->streams[i].pool == stream.pool) {
            *out = (mt_stream)i;
            return MT_OK;
        }
    if (numbers->count == MT_TORCH_MOST_STREAMS)
        return mt_fail(MT_FAILED, "memory was requested on %d streams; there is no room for more",
                       MT_TORCH_MOST_STREAMS);
    numbers->streams = mt_host_room(numbers->streams, numbers->count, sizeof *numbers->streams);
    numbers->streams[numbers->count] = stream;
    *out = (mt_stream)numbers->count++;
    *out_is_new = true;
    return MT_OK;
}

mt_status mt_torch_card_stream(struct mt_torch_card *card, struct mt_torch_pooled_stream stream, mt_stream *out,
                               bool *out_is_new)
{
    *out = 0;
    *out_is_new = false;
    if (stream.stream == MT_TORCH_STREAM_LEGACY)
        stream.stream = MT_TORCH_STREAM_DEFAULT;
    if (stream.stream == MT_TORCH_STREAM_DEFAULT && stream.pool == 0)
        return MT_OK;
    mt_lock_take(&card->numbers.lock);
    mt_status status = find_or_add(&card->numbers, stream, out, out_is_new);
    mt_lock_give(&card->numbers.lock);
    return status;
}

struct mt_torch_pooled_stream mt_torch_card_stream_of(struct mt_torch_card *card, mt_stream number)
{
    mt_lock_take(&card->numbers.lock);
    assert(number < card->numbers.count);
    const struct mt_torch_pooled_stream stream = card->numbers.streams[number];
    mt_lock_give(&card->numbers.lock);
    return stream;
}

uint32_t mt_torch_card_stream_count(struct mt_torch_card *card)
{
    mt_lock_take(&card->numbers.lock);
    const uint32_t count = card->numbers.count;
    mt_lock_give(&card->numbers.lock);
    return count;
}
