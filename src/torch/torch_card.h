/* A card, as this library needs one: a device that only gives memory, and that orders streams of PyTorch's. The
 * allocator knows a stream by a small number, and the card by its cudaStream_t.
 *
 *   cudaStream_t of PyTorch ──mt_torch_card_stream──▶ mt_stream ──allocator──▶ follow(later, earlier) ──▶ an event
 *
 * torch_card.c keeps the numbers. mt_torch_card_open is in src/torch/cuda; tests have one without a card.
 *
 * Threads: any. */
#ifndef MT_TORCH_TORCH_CARD_H
#define MT_TORCH_TORCH_CARD_H

#include "base/lock.h"
#include "device/device.h"

/* A cudaStream_t, as a number. */
typedef uint64_t mt_torch_stream;

/* The two handles of the default stream that all threads share. Its number is 0. */
enum { MT_TORCH_STREAM_DEFAULT = 0, MT_TORCH_STREAM_LEGACY = 1 };

enum { MT_TORCH_MOST_STREAMS = 4096 };

/* The streams seen so far, by number. Invariants: streams[0 .. count) differ; streams[0] is the default stream;
 * 1 <= count <= MT_TORCH_MOST_STREAMS. */
struct mt_torch_streams {
    struct mt_lock lock;
    mt_torch_stream *streams;
    uint32_t count;
};

/* The first member of the struct that an implementation of mt_torch_card_open allocates. */
struct mt_torch_card {
    struct mt_device device;
    struct mt_torch_streams numbers;
};

/* Opens card `ordinal`. The caller closes it with mt_device_close. MT_NO_DEVICE if there is none. This and every call
 * of the device leave the current card of the calling thread as it is. */
mt_status mt_torch_card_open(int ordinal, struct mt_torch_card **out);

/* For implementations of mt_torch_card_open and of the device's close. */
void mt_torch_streams_start(struct mt_torch_streams *streams);
void mt_torch_streams_end(struct mt_torch_streams *streams);

/* Finds the number of a stream, or gives it one. MT_FAILED if there are MT_TORCH_MOST_STREAMS. */
mt_status mt_torch_card_stream(struct mt_torch_card *card, mt_torch_stream stream, mt_stream *out);

/* Returns the stream with a number, which mt_torch_card_stream has given out. */
mt_torch_stream mt_torch_card_stream_of(struct mt_torch_card *card, mt_stream number);

#endif
