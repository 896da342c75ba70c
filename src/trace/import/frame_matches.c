#include "trace/import/frame_matches.h"

#include "base/memory.h"
#include "base/number_map.h"

#include <assert.h>
#include <stdlib.h>

/* A distinct frame. Invariant: two have not the same name, file and line, as pointers and number. */
struct known_frame {
    struct mt_call_frame frame;
    mt_frame_id number; /* in the sink; 0: not interned yet */
};

/* Invariants: sets[i * words .. (i + 1) * words) is the set of frames[i]; `numbers` has their places. A frame whose hash another
 * has comes under the next free key. */
struct mt_frame_matches {
    const struct mt_rule *rules;
    size_t rule_count, words, count;
    struct mt_number_map numbers;
    struct known_frame *frames;
    uint64_t **sets;
};

struct mt_frame_matches *mt_frame_matches_create(const struct mt_rule *rules, size_t count)
{
    struct mt_frame_matches *matches = mt_host_alloc(sizeof *matches);
    matches->rules = rules;
    matches->rule_count = count;
    matches->words = (count + 63) / 64;
    mt_number_map_create(&matches->numbers);
    return matches;
}

void mt_frame_matches_destroy(struct mt_frame_matches *matches)
{
    if (matches == NULL)
        return;
    mt_number_map_release(&matches->numbers);
    for (size_t i = 0; i < matches->count; i++)
        free(matches->sets[i]);
    free(matches->sets);
    free(matches->frames);
    free(matches);
}

size_t mt_frame_matches_words(const struct mt_frame_matches *matches)
{
    return matches->words;
}

static bool is_same(const struct mt_call_frame *a, const struct mt_call_frame *b)
{
    return a->name == b->name && a->file == b->file && a->line == b->line;
}

static uint64_t hash_frame(const struct mt_call_frame *frame)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = (uint64_t)(uintptr_t)frame->name * factor;
    hash = ((hash ^ hash >> 29) + (uint64_t)(uintptr_t)frame->file) * factor;
    return ((hash ^ hash >> 29) + (uint64_t)frame->line) * factor >> 1;
}

static void add_frame(struct mt_frame_matches *matches, const struct mt_call_frame *frame)
{
    assert(matches->rule_count <= matches->words * 64);
    uint64_t *set = mt_host_alloc((matches->words + 1) * sizeof *set);
    for (size_t rule = 0; rule < matches->rule_count; rule++)
        if (mt_rule_fits_frame(&matches->rules[rule], frame))
            set[rule / 64] |= UINT64_C(1) << rule % 64;
    matches->frames = mt_host_room(matches->frames, matches->count, sizeof *matches->frames);
    matches->sets = mt_host_room(matches->sets, matches->count, sizeof *matches->sets);
    matches->frames[matches->count] = (struct known_frame){.frame = *frame};
    matches->sets[matches->count++] = set;
}

/* Returns the place of a frame, which is added if it is new. */
static size_t find_frame(struct mt_frame_matches *matches, const struct mt_call_frame *frame)
{
    uint64_t key = hash_frame(frame), place;
    for (; mt_number_map_get(&matches->numbers, key, &place); key = (key + 1) & INT64_MAX)
        if (is_same(&matches->frames[place].frame, frame))
            return place;
    mt_number_map_put(&matches->numbers, key, matches->count);
    add_frame(matches, frame);
    return matches->count - 1;
}

const uint64_t *mt_frame_matches_of(struct mt_frame_matches *matches, const struct mt_call_frame *frame)
{
    size_t place = find_frame(matches, frame);
    return matches->sets[place];
}

mt_frame_id mt_frame_matches_number(struct mt_frame_matches *matches, const struct mt_call_frame *frame,
                                    const struct mt_sink *sink)
{
    assert(sink->intern_frame != NULL);
    size_t place = find_frame(matches, frame);
    struct known_frame *known = &matches->frames[place];
    if (known->number == 0)
        known->number = sink->intern_frame(
            sink->context,
            &(struct mt_frame){.function = frame->name,
                               .file = frame->file,
                               .line = frame->line > 0 && frame->line <= UINT32_MAX ? (uint32_t)frame->line : 0});
    return known->number;
}
