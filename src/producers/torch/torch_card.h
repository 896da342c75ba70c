/* A card, as this library needs one: a device that only gives memory, and that orders streams of PyTorch's. It is a
 * real one, or a simulated one for a program that runs without a card. The allocator knows a stream by a small number,
 * and the card by its cudaStream_t.
 *
 *   cudaStream_t of PyTorch ──mt_torch_card_stream──▶ mt_stream ──allocator──▶ follow(later, earlier) ──▶ an event
 *
 * torch_card.c keeps the numbers. mt_torch_device_open is in src/producers/torch/cuda; tests have one without a card.
 *
 * Threads: any. */
#pragma once

#include "base/lock.h"
#include "device/device.h"

/* A cudaStream_t, as a number. */
typedef uint64_t mt_torch_stream;

/* The two handles of the default stream that all threads share. Its number is 0. */
enum { MT_TORCH_STREAM_DEFAULT = 0, MT_TORCH_STREAM_LEGACY = 1 };

enum { MT_TORCH_MOST_STREAMS = 4096 };

/* A stream to the allocator: what a pool has of a stream. */
struct mt_torch_pooled_stream {
    mt_torch_stream stream;
    uint32_t pool; /* as torch_private_pool.h numbers it; 0: not a private one */
};

/* The streams seen so far, by number. Invariants: streams[0 .. count) differ; streams[0] is the default stream, without
 * a private pool; 1 <= count <= MT_TORCH_MOST_STREAMS. */
struct mt_torch_streams {
    struct mt_lock lock;
    struct mt_torch_pooled_stream *streams;
    uint32_t count;
};

struct mt_torch_card {
    struct mt_device *device; /* owned */
    struct mt_torch_streams numbers;
};

/* Opens card `ordinal`; a simulated one if `simulated` is the spelling of a device, and not NULL. Fails with
 * MT_NO_DEVICE if there is none. This and every call of the device leave the current card of the calling thread as it
 * is. */
mt_status mt_torch_card_open(int ordinal, const char *simulated, struct mt_torch_card **out);
void mt_torch_card_close(struct mt_torch_card *card); /* may be NULL */

/* Opens the device of real card `ordinal`, which borrows `card` for its streams. */
mt_status mt_torch_device_open(int ordinal, struct mt_torch_card *card, struct mt_device **out);

/* Finds the number of a stream, or gives it one, and sets *out_is_new then. MT_FAILED if there are
 * MT_TORCH_MOST_STREAMS. */
mt_status mt_torch_card_stream(struct mt_torch_card *card, struct mt_torch_pooled_stream stream, mt_stream *out,
                               bool *out_is_new);

/* Returns the stream with a number, which mt_torch_card_stream has given out. */
struct mt_torch_pooled_stream mt_torch_card_stream_of(struct mt_torch_card *card, mt_stream number);

/* Returns the count of numbers that were given out. */
uint32_t mt_torch_card_stream_count(struct mt_torch_card *card);
