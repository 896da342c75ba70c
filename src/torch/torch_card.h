/* A card as this library needs one: a device that only gives memory, and that orders streams which are not its own but
 * PyTorch's. A stream is known to the allocator by a small number, and to the card by what PyTorch calls it.
 *
 *   PyTorch's cudaStream_t ──mt_torch_card_stream──▶ mt_stream ──allocator──▶ follow(later, earlier) ──▶ the card's event
 *
 * torch_card.c keeps the numbers; mt_torch_card_open is src/torch/cuda's, and in tests a device without a card.
 *
 * Threads: any. */
#ifndef MT_TORCH_TORCH_CARD_H
#define MT_TORCH_TORCH_CARD_H

#include "base/lock.h"
#include "device/device.h"

/* A cudaStream_t, by its bits. */
typedef uint64_t mt_torch_stream;

/* The default stream by its other two names: the one that is everybody's has number 0 by both. */
enum { MT_TORCH_STREAM_DEFAULT = 0, MT_TORCH_STREAM_LEGACY = 1 };

enum { MT_TORCH_MOST_STREAMS = 4096 };

/* The streams that came up, by number. Number 0 is the default stream. Invariant: streams[0 .. count) differ. */
struct mt_torch_streams {
    struct mt_lock lock;
    mt_torch_stream *streams;
    uint32_t count;
};

/* Embedded by who opens one, as its first member. */
struct mt_torch_card {
    struct mt_device device;
    struct mt_torch_streams numbers;
};

/* Opens card `ordinal`; owned by the caller, who closes it with mt_device_close. MT_NO_DEVICE if there is none. The
 * current card of the calling thread stays what it is, here and in every call of the device. */
mt_status mt_torch_card_open(int ordinal, struct mt_torch_card **out);

/* For who opens and closes one. */
void mt_torch_streams_start(struct mt_torch_streams *streams);
void mt_torch_streams_end(struct mt_torch_streams *streams);

/* The number of a stream, the same for the same one. MT_FAILED if there are MT_TORCH_MOST_STREAMS. */
mt_status mt_torch_card_stream(struct mt_torch_card *card, mt_torch_stream stream, mt_stream *out);

/* The stream of a number that was given out. */
mt_torch_stream mt_torch_card_stream_of(struct mt_torch_card *card, mt_stream number);

/* A process may not take more than this share of the card's memory: what is reserved already stays. */
void mt_torch_card_limit(struct mt_torch_card *card, double fraction);

#endif
