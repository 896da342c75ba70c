/* The call stacks of a snapshot, each parsed and matched with the rules once: many requests share one.
 *
 * Threads: one at a time. */
#pragma once

#include "base/number_map.h"
#include "producers/file/rules.h"
#include "producers/file/torch_annotations.h"
#include "producers/file/torch_replay.h"

struct mt_torch_caller {
    const struct mt_value *frames;
    struct mt_call_stack stack;
    struct mt_rule_choice choice;
    const char *op; /* belongs to the names */
    mt_span_id span;
    mt_stack_id stored; /* the stack's number in the run */
    bool has_span;      /* `span` was looked for */
    bool has_stored;    /* and `stored` */
    uint64_t other_bytes, other_blocks;
};

/* Invariants: `numbers` maps each list of frames, by its address, to its place in callers[0 .. count); `hashes` maps
 * the hash of its frames. */
struct mt_torch_callers {
    const struct mt_rules *rules;
    struct mt_call_frames *frames;
    struct mt_frame_matches *matches;
    struct mt_number_map numbers, hashes;
    struct mt_torch_caller *callers;
    size_t count;
};

/* Borrows the rules. */
void mt_torch_callers_create(struct mt_torch_callers *callers, const struct mt_rules *rules);
void mt_torch_callers_release(struct mt_torch_callers *callers);

/* Returns the caller with these frames. Valid until the next call. */
struct mt_torch_caller *mt_torch_callers_find(struct mt_torch_callers *callers, const struct mt_value *frames);

/* Stacks are stored up to this depth, from the innermost frame on, since a file can refer to a long list in a few
 * bytes. */
enum { MT_TORCH_MOST_FRAMES = 1024 };

/* Returns the number of the caller's stack in a sink. Returns 0 if it has no frames, or stacks are not kept. */
mt_stack_id mt_torch_callers_store(struct mt_torch_callers *callers, struct mt_torch_caller *caller,
                                   const struct mt_sink *sink);

/* Returns the number of the caller's stack inside another. */
mt_stack_id mt_torch_callers_store_within(struct mt_torch_callers *callers, const struct mt_torch_caller *caller,
                                          mt_stack_id outer, const struct mt_sink *sink);

/* The metadata of a workspace of Ascend without metadata of its own. */
#define MT_TORCH_WORKSPACE_METADATA "workspace of torch_npu"

/* Returns the metadata that the program gave the block of an event; "" if none. */
const char *mt_torch_metadata(const struct mt_torch_event *event);

/* Returns the frames of the operator that an event of backward undoes, if anomaly detection was on: texts in the format
 * of Python's tracebacks, outermost first. A value of kind NONE otherwise. */
const struct mt_value *mt_torch_forward_frames(const struct mt_torch_event *event);

/* Returns a request as rules see it, without its call stack, as far as phases depend on it. Borrows the open
 * annotations. */
struct mt_rule_subject mt_torch_subject(const struct mt_torch_request *request,
                                        const struct mt_torch_annotations *open);

/* Fills in the report's call stacks with the most bytes without a category, largest first. */
void mt_torch_callers_report(const struct mt_torch_callers *callers, struct mt_import_report *out);
