/* Random runs through the recorder: allocations and frees of labelled blocks in steps, with nothing behind them. */
#pragma once

#include "base/memory.h"
#include "base/random.h"
#include "trace/store/recorder.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { SYNTHETIC_LAYERS = 4, SYNTHETIC_MOST_LABELS = 16 * 4 * SYNTHETIC_LAYERS };

/* Segments of some slots, which are mapped one by one; a block has a slot to itself. */
#define SYNTHETIC_SLOT_BYTES (UINT64_C(1) << 20)
enum { SYNTHETIC_SLOTS_A_SEGMENT = 4 };

struct synthetic_block {
    uint64_t slot, requested_bytes, block_bytes;
    mt_label_id label;
};

/* A run under way. Invariants: every slot with memory below `slot_count` is in `live` or in `free_slots`, once. */
struct synthetic {
    struct mt_recorder *recorder;
    const struct mt_sink *sink;
    uint64_t seed, draws, sequence;
    mt_label_id labels[SYNTHETIC_MOST_LABELS];
    size_t label_count;
    struct synthetic_block *live;
    uint64_t *free_slots;
    size_t live_count, free_count, slot_count;
};

/* A number below `bound`. */
static inline uint64_t synthetic_draw(struct synthetic *run, uint64_t bound)
{
    return mt_splitmix64(run->seed * 1000003 + run->draws++) % bound;
}

static inline void synthetic_emit(struct synthetic *run, struct mt_event event)
{
    event.sequence = run->sequence++;
    event.time_ns = event.sequence * 100;
    run->sink->emit(run->sink->context, &event);
}

/* Every category in every phase, outside of layers and in each. */
/* One of ours, or of three that the run names. */
static inline mt_category synthetic_category(struct synthetic *run)
{
    static const char *const named[] = {"Tower", "Adapter", "Replay buffer"};
    uint64_t drawn = synthetic_draw(run, MT_CATEGORY_COUNT + 3);
    if (drawn < MT_CATEGORY_COUNT)
        return (mt_category)drawn;
    return run->sink->intern_category(run->sink->context, named[drawn - MT_CATEGORY_COUNT]);
}

static inline void synthetic_make_labels(struct synthetic *run, size_t count)
{
    const struct mt_sink *sink = run->sink;
    mt_span_id model = sink->intern_span(sink->context, 0, "model");
    mt_span_id layers = sink->intern_span(sink->context, model, "layers");
    for (size_t i = 0; i < count; i++) {
        int layer = (int)synthetic_draw(run, SYNTHETIC_LAYERS + 1) - 1;
        char number[16];
        snprintf(number, sizeof number, "%d", layer);
        mt_span_id above = layer < 0 ? model : sink->intern_span(sink->context, layers, number);
        const char *part = synthetic_draw(run, 2) == 0 ? "ffn" : "attn";
        struct mt_label label = {.category = synthetic_category(run),
                                 .role = (mt_role)synthetic_draw(run, 2),
                                 .phase = (mt_phase)synthetic_draw(run, MT_PHASE_COUNT),
                                 .dtype = MT_F32,
                                 .op = synthetic_draw(run, 2) == 0 ? "einsum" : "add",
                                 .span = sink->intern_span(sink->context, above, part),
                                 .layer = layer};
        run->labels[run->label_count++] = sink->intern_label(sink->context, &label);
    }
}

static inline uint64_t synthetic_segment_address(uint64_t segment)
{
    return (segment + 1) * SYNTHETIC_SLOTS_A_SEGMENT * SYNTHETIC_SLOT_BYTES;
}

/* The memory of a slot comes or goes. */
static inline void synthetic_emit_slot(struct synthetic *run, mt_event_kind kind, uint64_t slot)
{
    uint64_t segment = slot / SYNTHETIC_SLOTS_A_SEGMENT;
    uint64_t offset = slot % SYNTHETIC_SLOTS_A_SEGMENT * SYNTHETIC_SLOT_BYTES;
    synthetic_emit(run, (struct mt_event){.kind = (uint16_t)kind,
                                          .segment_address = synthetic_segment_address(segment),
                                          .block_bytes = SYNTHETIC_SLOT_BYTES,
                                          .offset = offset,
                                          .segment = (uint32_t)segment});
}

/* The newest segment grows by a slot, which is free, or begins with it. */
static inline void synthetic_grow(struct synthetic *run)
{
    synthetic_emit_slot(run, MT_EVENT_SEGMENT_MAP, run->slot_count);
    run->live = mt_host_resize(run->live, run->slot_count + 1, sizeof *run->live);
    run->free_slots = mt_host_resize(run->free_slots, run->slot_count + 1, sizeof *run->free_slots);
    run->free_slots[run->free_count++] = run->slot_count++;
}

static inline void synthetic_emit_block(struct synthetic *run, mt_event_kind kind, struct synthetic_block block)
{
    uint64_t segment = block.slot / SYNTHETIC_SLOTS_A_SEGMENT;
    uint64_t offset = block.slot % SYNTHETIC_SLOTS_A_SEGMENT * SYNTHETIC_SLOT_BYTES;
    synthetic_emit(run, (struct mt_event){.kind = (uint16_t)kind,
                                          .requested_bytes = block.requested_bytes,
                                          .block_bytes = block.block_bytes,
                                          .offset = offset,
                                          .segment = (uint32_t)segment,
                                          .label = block.label});
}

static inline void synthetic_take(struct synthetic *run)
{
    static const uint64_t sizes[] = {1, 512, 700, 4096, 100000, SYNTHETIC_SLOT_BYTES};
    if (run->free_count == 0)
        synthetic_grow(run);
    struct synthetic_block block = {.slot = run->free_slots[--run->free_count],
                                    .requested_bytes = sizes[synthetic_draw(run, sizeof sizes / sizeof sizes[0])],
                                    .label = run->labels[synthetic_draw(run, run->label_count)]};
    block.block_bytes = (block.requested_bytes + 511) / 512 * 512;
    synthetic_emit_block(run, MT_EVENT_ALLOC, block);
    run->live[run->live_count++] = block;
}

static inline void synthetic_give(struct synthetic *run)
{
    size_t chosen = synthetic_draw(run, run->live_count);
    struct synthetic_block block = run->live[chosen];
    synthetic_emit_block(run, MT_EVENT_FREE, block);
    run->live[chosen] = run->live[--run->live_count];
    run->free_slots[run->free_count++] = block.slot;
}

/* `moves` allocations and frees: as many of each around `live_target` live blocks. */
static inline void synthetic_move(struct synthetic *run, uint64_t moves, size_t live_target)
{
    for (uint64_t i = 0; i < moves; i++) {
        bool takes = run->live_count == 0 || synthetic_draw(run, 2 * live_target) >= run->live_count;
        (takes ? synthetic_take : synthetic_give)(run);
    }
}

static inline void synthetic_step(struct synthetic *run, uint64_t number, uint64_t moves, size_t live_target)
{
    synthetic_emit(run, (struct mt_event){.kind = MT_EVENT_STEP_BEGIN, .value = number});
    synthetic_move(run, moves, live_target);
    synthetic_emit(run, (struct mt_event){.kind = MT_EVENT_STEP_END, .value = number});
}

static inline mt_status synthetic_open(struct synthetic *run, const char *path, const char *name, uint64_t seed,
                                       size_t labels)
{
    *run = (struct synthetic){.seed = seed};
    struct mt_run_info info = {.name = name, .device = "sim:synthetic", .capacity_bytes = 1ull << 40};
    mt_status status = mt_recorder_open(path, &info, &run->recorder);
    if (status != MT_OK)
        return status;
    run->sink = mt_recorder_sink(run->recorder);
    synthetic_make_labels(run, labels);
    return MT_OK;
}

static inline mt_status synthetic_close(struct synthetic *run)
{
    free(run->live);
    free(run->free_slots);
    return mt_recorder_close(run->recorder, MT_RUN_DONE);
}
