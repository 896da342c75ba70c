/* The rules that fit single frames, found once for each distinct frame: deep call stacks differ in a few frames, and
 * share most.
 *
 * Threads: one at a time. */
#pragma once

#include "base/sink.h"
#include "producers/file/rule.h"

struct mt_frame_matches;

/* Borrows the rules. */
struct mt_frame_matches *mt_frame_matches_create(const struct mt_rule *rules, size_t count);
void mt_frame_matches_destroy(struct mt_frame_matches *matches); /* may be NULL */

/* Returns the number of words in a set of rules: rule r is bit r % 64 of word r / 64. */
size_t mt_frame_matches_words(const struct mt_frame_matches *matches);

/* Returns two sets, one after the other: rules whose condition on a Python or C++ frame this frame meets, and rules
 * whose condition on an operator it meets. They belong to the matches. Frames are identified by their numbers. */
const uint64_t *mt_frame_matches_of(struct mt_frame_matches *matches, const struct mt_call_frame *frame);

/* Returns the number of the frame in a sink, always the same one. The frame is interned once. */
mt_frame_id mt_frame_matches_number(struct mt_frame_matches *matches, const struct mt_call_frame *frame,
                                    const struct mt_sink *sink);
