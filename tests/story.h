/* Runs written by hand: blocks that are taken, used and given back, in steps and phases, as the input of advice. */
#pragma once

#include "analysis/advise/advise.h"
#include "base/memory.h"

#include <stdlib.h>

enum {
    STORY_BLOCKS = 2000,
    STORY_MARKS = 200,
    STORY_SEGMENTS = 8,
    STORY_PARTS = 4 * STORY_SEGMENTS,
    STORY_EVENT_NS = 1000
};

enum story_label { NO_LABEL, PARAM, GRAD, OPT_STATE, SAVED, TEMPORARY, WEIGHT_CAST, LOSS, STORY_LABELS };

static const struct mt_label_row story_labels[STORY_LABELS] = {
    [NO_LABEL] = {"", "", "", "", "", "", "", "", -1, ""},
    [PARAM] = {"Param", "parameter", "parameter", "init", "fp32", "", "model.w", "model.w", -1, "declared"},
    [GRAD] = {"Gradient", "gradient", "grad", "backward", "fp32", "", "model.w", "model.w", -1, "declared"},
    [OPT_STATE] = {"Opt State", "optimizer state", "adamw", "optimizer", "fp32", "", "optimizer", "optimizer", -1,
                   "declared"},
    [SAVED] = {"FFN", "activation", "mul", "forward", "fp32", "", "model.ffn", "model.ffn", -1, "declared"},
    [TEMPORARY] = {"FFN", "temporary", "add", "forward", "fp32", "", "model.ffn", "model.ffn", -1, "declared"},
    [WEIGHT_CAST] = {"einsum", "weight cast", "cast", "forward", "bf16", "", "model.w", "model.w", -1, "declared"},
    [LOSS] = {"Loss", "temporary", "mean", "loss", "fp32", "", "loss", "loss", -1, "declared"},
};

/* Invariant: `event` is the last one there was; ids begin at 1. */
struct story {
    struct mt_block_row blocks[STORY_BLOCKS];
    struct mt_use_row uses[STORY_BLOCKS];
    struct mt_mark_row marks[STORY_MARKS];
    struct mt_segment_row segments[STORY_SEGMENTS];
    struct mt_part_row parts[STORY_PARTS];
    size_t block_count, mark_count, segment_count, part_count;
    int64_t event;
};

static inline struct story *story_begin(void)
{
    return mt_host_alloc(sizeof(struct story));
}

static inline uint64_t story_ns(const struct story *story)
{
    return (uint64_t)story->event * STORY_EVENT_NS;
}

/* Returns the block's index. */
static inline size_t story_take(struct story *story, enum story_label label, uint64_t bytes)
{
    story->event++;
    story->uses[story->block_count] = (struct mt_use_row){.known = true};
    story->blocks[story->block_count] = (struct mt_block_row){.alloc_event = story->event,
                                                              .alloc_ns = story_ns(story),
                                                              .requested_bytes = bytes,
                                                              .block_bytes = (bytes + 511) / 512 * 512,
                                                              .label = (uint32_t)label};
    return story->block_count++;
}

static inline void story_give(struct story *story, size_t block)
{
    story->event++;
    story->blocks[block].free_event = story->event;
    story->blocks[block].free_ns = story_ns(story);
}

static inline void story_touch(struct story *story, size_t block)
{
    struct mt_use_row *use = &story->uses[block];
    if (use->reads + use->writes == 0)
        use->first = use->last = story->event;
    if (story->event - use->last > use->idle_to - use->idle_from) {
        use->idle_from = use->last;
        use->idle_to = story->event;
    }
    use->last = story->event;
}

static inline void story_read(struct story *story, size_t block)
{
    story_touch(story, block);
    story->uses[block].reads++;
}

static inline void story_write(struct story *story, size_t block)
{
    story_touch(story, block);
    story->uses[block].writes++;
    story->uses[block].unread = true;
}

static inline void story_mark(struct story *story, mt_event_kind kind, uint64_t value)
{
    story->event++;
    story->marks[story->mark_count++] = (struct mt_mark_row){
        .event = story->event, .time_ns = story_ns(story), .kind = kind, .value = value, .span = ""};
}

/* Memory of a segment that is there from now on. Returns the part's index, which holds until another comes. */
static inline size_t story_grow(struct story *story, uint32_t segment, uint64_t offset, uint64_t bytes)
{
    size_t at = story->part_count++;
    for (; at > 0 && (story->parts[at - 1].segment > segment ||
                      (story->parts[at - 1].segment == segment && story->parts[at - 1].offset > offset));
         at--)
        story->parts[at] = story->parts[at - 1];
    story->parts[at] =
        (struct mt_part_row){.segment = segment, .offset = offset, .bytes = bytes, .mapped_event = ++story->event};
    if (story->segments[segment].bytes < offset + bytes)
        story->segments[segment].bytes = offset + bytes;
    return at;
}

/* A segment that is there from now on. */
static inline void story_map(struct story *story, uint64_t bytes)
{
    uint32_t number = (uint32_t)story->segment_count++;
    story->segments[number] = (struct mt_segment_row){.number = number, .mapped_event = story->event + 1, .pool = ""};
    story_grow(story, number, 0, bytes);
}

/* The part's memory goes. */
static inline void story_unmap(struct story *story, size_t part)
{
    story->parts[part].unmapped_event = ++story->event;
}

static inline struct mt_advice_input story_input(const struct story *story, const char *alloc)
{
    struct mt_advice_input input = {.blocks = story->blocks,
                                    .uses = story->uses,
                                    .block_count = story->block_count,
                                    .labels = story_labels,
                                    .label_count = STORY_LABELS,
                                    .marks = story->marks,
                                    .mark_count = story->mark_count,
                                    .segments = story->segments,
                                    .segment_count = story->segment_count,
                                    .parts = story->parts,
                                    .part_count = story->part_count,
                                    .first_event = 1,
                                    .last_event = story->event,
                                    .capacity_bytes = UINT64_C(1) << 40};
    if (mt_alloc_settings_parse(alloc, &input.settings) != MT_OK)
        abort();
    return input;
}
