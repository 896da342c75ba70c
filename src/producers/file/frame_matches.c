#include "producers/file/frame_matches.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* A frame's rules and number. */
struct known_frame {
    uint64_t *sets;     /* of rules; NULL: not looked for yet */
    mt_frame_id number; /* in the sink; 0: not interned yet */
};

/* Invariant: known[i] belongs to the frame with the number i. */
struct mt_frame_matches {
    const struct mt_rule *rules;
    size_t rule_count, words, count;
    struct known_frame *known;
};

struct mt_frame_matches *mt_frame_matches_create(const struct mt_rule *rules, size_t count)
{
    struct mt_frame_matches *matches = mt_host_alloc(sizeof *matches);
    *matches = (struct mt_frame_matches){.rules = rules, .rule_count = count, .words = (count + 63) / 64};
    return matches;
}

void mt_frame_matches_destroy(struct mt_frame_matches *matches)
{
    if (matches == NULL)
        return;
    for (size_t i = 0; i < matches->count; i++)
        free(matches->known[i].sets);
    free(matches->known);
    free(matches);
}

size_t mt_frame_matches_words(const struct mt_frame_matches *matches)
{
    return matches->words;
}

static uint64_t *find_sets(const struct mt_frame_matches *matches, const struct mt_call_frame *frame)
{
    assert(matches->rule_count <= matches->words * 64);
    uint64_t *sets = mt_host_alloc((2 * matches->words + 1) * sizeof *sets);
    for (size_t i = 0; i < matches->rule_count; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;
        if (mt_rule_fits_frame(&matches->rules[i], frame))
            sets[i / 64] |= bit;
        if (mt_rule_fits_operator(&matches->rules[i], frame))
            sets[matches->words + i / 64] |= bit;
    }
    return sets;
}

static struct known_frame *find_known(struct mt_frame_matches *matches, const struct mt_call_frame *frame)
{
    while (matches->count <= frame->number)
        *MT_HOST_ADD(matches->known, matches->count) = (struct known_frame){0};
    return &matches->known[frame->number];
}

const uint64_t *mt_frame_matches_of(struct mt_frame_matches *matches, const struct mt_call_frame *frame)
{
    struct known_frame *known = find_known(matches, frame);
    if (known->sets == NULL)
        known->sets = find_sets(matches, frame);
    return known->sets;
}

mt_frame_id mt_frame_matches_number(struct mt_frame_matches *matches, const struct mt_call_frame *frame,
                                    const struct mt_sink *sink)
{
    assert(sink->intern_frame != NULL);
    struct known_frame *known = find_known(matches, frame);
    if (known->number == 0)
        known->number = sink->intern_frame(
            sink->context,
            &(struct mt_frame){.function = frame->name,
                               .file = frame->file,
                               .line = frame->line > 0 && frame->line <= UINT32_MAX ? (uint32_t)frame->line : 0});
    return known->number;
}
