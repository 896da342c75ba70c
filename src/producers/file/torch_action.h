/* The action of an event in a memory snapshot. Threads: any. */
#pragma once

#include "producers/file/value.h"

#define MT_TORCH_ACTIONS(X)                                                                                            \
    X(ALLOC, "alloc")                                                                                                  \
    X(FREE_REQUESTED, "free_requested") /* the tensor was freed */                                                     \
    X(FREE_COMPLETED, "free_completed") /* and no other stream uses its block any more */                              \
    X(SEGMENT_ALLOC, "segment_alloc")                                                                                  \
    X(SEGMENT_FREE, "segment_free")                                                                                    \
    X(SEGMENT_MAP, "segment_map") /* of an expandable segment: memory for a part of its addresses */                   \
    X(SEGMENT_UNMAP, "segment_unmap")                                                                                  \
    X(SNAPSHOT, "snapshot")                                                                                            \
    X(OOM, "oom")                                                                                                      \
    X(ANNOTATE, "annotate")                                                                                            \
    X(WORKSPACE, "workspace_snapshot") /* of Ascend: announces the allocation of a workspace */                        \
    X(OTHER, "")                       /* newer than this program */

#define X(name, text) MT_TORCH_##name,
typedef enum mt_torch_action { MT_TORCH_ACTIONS(X) MT_TORCH_ACTION_COUNT } mt_torch_action;
#undef X

/* Returns "alloc", …; "" for MT_TORCH_OTHER. */
const char *mt_torch_action_name(mt_torch_action action);

/* Returns the action of a text; MT_TORCH_OTHER for an unknown one. */
mt_torch_action mt_torch_action_find(const struct mt_value *value);
