/* PyTorch's rules again, as simply as possible: arrays and linear searches. The policy `torch` is
 * compared with this, block by block. Without max_split and gc_threshold. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MODEL_MOST_PIECES = 2000, MODEL_MOST_SEGMENTS = 500, MODEL_PLACES = 1 << 17, MODEL_PAGE_BYTES = 2 << 20 };

struct model_piece {
    uint64_t offset, bytes;
    uint32_t birth;
    bool is_free;
};

struct model_segment {
    uint64_t bytes;
    int place; /* of its first page */
    unsigned stream;
    bool is_small, is_mapped;
};

/* Segments are never removed from the array: the index is the birth number. */
struct alloc_model {
    struct model_piece pieces[MODEL_MOST_PIECES];
    int piece_count;
    struct model_segment segments[MODEL_MOST_SEGMENTS];
    uint32_t segment_count;
    uint64_t capacity, reserved, divisions;
    int chunk_pages;                  /* the pages of all chunks, which are at the end of is_place_free */
    bool is_place_free[MODEL_PLACES]; /* by page, in ascending order */
};

static inline uint64_t model_ceil(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static inline uint64_t model_round(const struct alloc_model *model, uint64_t bytes)
{
    if (model->divisions < 2 || bytes <= 512 * model->divisions)
        return model_ceil(bytes, 512);
    uint64_t floor = 1;
    while (floor * 2 <= bytes)
        floor *= 2;
    return model_ceil(bytes, floor / model->divisions);
}

static inline void model_set_places(struct alloc_model *model, int first, uint64_t bytes, bool is_free)
{
    for (int i = 0; i < (int)(bytes / MODEL_PAGE_BYTES); i++)
        model->is_place_free[first + i] = is_free;
}

/* Adds a chunk below all others; its first `bytes` are free. Returns its first page. */
static inline int model_add_chunk(struct alloc_model *model, uint64_t bytes, uint64_t free_bytes)
{
    model->chunk_pages += (int)(model_ceil(bytes, 32 << 20) / MODEL_PAGE_BYTES);
    model_set_places(model, MODEL_PLACES - model->chunk_pages, free_bytes, true);
    return MODEL_PLACES - model->chunk_pages;
}

static inline int model_place(struct alloc_model *model, uint64_t bytes)
{
    if (model->segment_count == 0)
        model_add_chunk(model, 32 << 20, 24 << 20);
    if (model->segment_count == 2)
        model_add_chunk(model, 400 << 20, 400 << 20);
    for (int i = MODEL_PLACES - model->chunk_pages, pages = 0; i < MODEL_PLACES; i++) {
        pages = model->is_place_free[i] ? pages + 1 : 0;
        if (pages == (int)(bytes / MODEL_PAGE_BYTES))
            return i + 1 - pages;
    }
    return model_add_chunk(model, bytes, model_ceil(bytes, 32 << 20));
}

static inline bool model_before(const struct alloc_model *model, const struct model_piece *a,
                                const struct model_piece *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    return a->birth != b->birth ? model->segments[a->birth].place < model->segments[b->birth].place
                                : a->offset < b->offset;
}

static inline struct model_piece *model_best(struct alloc_model *model, unsigned stream, uint64_t bytes)
{
    struct model_piece *best = NULL;
    for (int i = 0; i < model->piece_count; i++) {
        struct model_piece *piece = &model->pieces[i];
        const struct model_segment *segment = &model->segments[piece->birth];
        if (!piece->is_free || piece->bytes < bytes || segment->stream != stream ||
            segment->is_small != (bytes <= 1 << 20))
            continue;
        if (best == NULL || model_before(model, piece, best))
            best = piece;
    }
    return best;
}

static inline void model_remove(struct alloc_model *model, struct model_piece *piece)
{
    *piece = model->pieces[--model->piece_count];
}

static inline void model_release_idle(struct alloc_model *model)
{
    for (int i = model->piece_count; i-- > 0;) {
        struct model_piece *piece = &model->pieces[i];
        struct model_segment *segment = &model->segments[piece->birth];
        if (!piece->is_free || piece->bytes != segment->bytes)
            continue;
        segment->is_mapped = false;
        model_set_places(model, segment->place, segment->bytes, true);
        model->reserved -= segment->bytes;
        model_remove(model, piece);
    }
}

static inline struct model_piece *model_map(struct alloc_model *model, unsigned stream, uint64_t bytes)
{
    uint64_t mib = 1 << 20;
    uint64_t wanted = bytes <= mib ? 2 * mib : bytes < 10 * mib ? 20 * mib : model_ceil(bytes, 2 * mib);
    if (model->reserved + wanted > model->capacity)
        model_release_idle(model);
    if (model->reserved + wanted > model->capacity)
        return NULL;
    model->reserved += wanted;
    int place = model_place(model, wanted);
    model_set_places(model, place, wanted, false);
    uint32_t birth = model->segment_count++;
    model->segments[birth] = (struct model_segment){wanted, place, stream, bytes <= mib, true};
    struct model_piece *piece = &model->pieces[model->piece_count++];
    *piece = (struct model_piece){.bytes = wanted, .birth = birth, .is_free = true};
    return piece;
}

/* Allocates a piece for a request, and copies it to `out`. False if there is no memory for it. */
static inline bool model_take(struct alloc_model *model, unsigned stream, uint64_t bytes, struct model_piece *out)
{
    bytes = model_round(model, bytes);
    struct model_piece *piece = model_best(model, stream, bytes);
    if (piece == NULL)
        piece = model_map(model, stream, bytes);
    if (piece == NULL)
        return false;
    uint64_t rest = piece->bytes - bytes;
    if (model->segments[piece->birth].is_small ? rest >= 512 : rest > 1 << 20) {
        model->pieces[model->piece_count++] = (struct model_piece){piece->offset + bytes, rest, piece->birth, true};
        piece->bytes = bytes;
    }
    piece->is_free = false;
    *out = *piece;
    return true;
}

static inline struct model_piece *model_find(struct alloc_model *model, uint32_t birth, uint64_t offset)
{
    for (int i = 0; i < model->piece_count; i++)
        if (model->pieces[i].birth == birth && model->pieces[i].offset == offset)
            return &model->pieces[i];
    return NULL;
}

/* Joins `piece` with the free piece after it, if there is one. */
static inline void model_join(struct alloc_model *model, struct model_piece piece)
{
    struct model_piece *behind = model_find(model, piece.birth, piece.offset + piece.bytes);
    if (behind == NULL || !behind->is_free)
        return;
    uint64_t bytes = behind->bytes;
    model_remove(model, behind);
    model_find(model, piece.birth, piece.offset)->bytes += bytes;
}

static inline void model_give(struct alloc_model *model, struct model_piece piece)
{
    model_find(model, piece.birth, piece.offset)->is_free = true;
    model_join(model, piece);
    for (int i = 0; i < model->piece_count; i++) {
        struct model_piece before = model->pieces[i];
        if (before.is_free && before.birth == piece.birth && before.offset + before.bytes == piece.offset) {
            model_join(model, before);
            return;
        }
    }
}
