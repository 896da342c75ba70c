#include "torch/torch_card.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

void mt_torch_streams_start(struct mt_torch_streams *streams)
{
    streams->streams = mt_host_room(NULL, 0, sizeof *streams->streams);
    streams->streams[0] = MT_TORCH_STREAM_DEFAULT;
    streams->count = 1;
}

void mt_torch_streams_end(struct mt_torch_streams *streams)
{
    free(streams->streams);
    streams->streams = NULL;
    streams->count = 0;
}

/* The lock is held. The search is linear, since programs have a handful of streams. */
static mt_status find_or_add(struct mt_torch_streams *numbers, mt_torch_stream stream, mt_stream *out)
{
    assert(numbers->count >= 1 && numbers->count <= MT_TORCH_MOST_STREAMS);
    for (uint32_t i = 0; i < numbers->count; i++)
        if (numbers->streams[i] == stream) {
            *out = (mt_stream)i;
            return MT_OK;
        }
    if (numbers->count == MT_TORCH_MOST_STREAMS)
        return mt_fail(MT_FAILED, "memory was requested on %d streams; there is no room for more",
                       MT_TORCH_MOST_STREAMS);
    numbers->streams = mt_host_room(numbers->streams, numbers->count, sizeof *numbers->streams);
    numbers->streams[numbers->count] = stream;
    *out = (mt_stream)numbers->count++;
    return MT_OK;
}

mt_status mt_torch_card_stream(struct mt_torch_card *card, mt_torch_stream stream, mt_stream *out)
{
    if (stream == MT_TORCH_STREAM_DEFAULT || stream == MT_TORCH_STREAM_LEGACY) {
        *out = 0;
        return MT_OK;
    }
    mt_lock_take(&card->numbers.lock);
    mt_status status = find_or_add(&card->numbers, stream, out);
    mt_lock_give(&card->numbers.lock);
    return status;
}

mt_torch_stream mt_torch_card_stream_of(struct mt_torch_card *card, mt_stream number)
{
    mt_lock_take(&card->numbers.lock);
    assert(number < card->numbers.count);
    mt_torch_stream stream = card->numbers.streams[number];
    mt_lock_give(&card->numbers.lock);
    return stream;
}
