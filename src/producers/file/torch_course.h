/* The course of a snapshot: the phase of every event, and the end of every block. Rules set phases by call stacks; the
 * rest follows from the events before and after:
 *
 *   init               forward  loss  backward  forward  loss  backward  optimizer │ forward …
 *   └ until a module   └ micro-batches belong to one step: it ends with ───────────┘
 *     is called          the update of an optimizer
 *
 * An update is recognized by blocks that the optimizer allocates, by PyTorch's annotation, or by gradients that are
 * freed before the next backward. Threads: one at a time. */
#pragma once

#include "producers/file/torch_callers.h"

#define MT_NO_EVENT UINT32_MAX

/* An event. A request is an allocation or a refused request; other events have the phase and section of the one
 * before. */
struct mt_torch_moment {
    uint32_t partner; /* of an allocation: the event that frees it; of a free: the allocation; MT_NO_EVENT: none */
    uint32_t known;   /* of an allocation: the last event at which it is certainly live */
    uint32_t section; /* counts changes of phase; forward and loss are one here */
    uint8_t phase;    /* an mt_phase */
    bool is_request;
    bool is_said; /* rules set the phase */
    bool begins_step;
    bool is_given; /* allocated outside modules before forward, and live when forward begins */
};

struct mt_torch_course {
    struct mt_torch_moment *moments;
    size_t count;      /* of events */
    bool has_backward; /* some request is in backward */
};

/* Needs the callers' rules. A block that is freed in the cleanup after a refused request has no known end. */
void mt_torch_course_create(struct mt_torch_course *course, const struct mt_torch_snapshot *snapshot,
                            struct mt_torch_callers *callers);
void mt_torch_course_release(struct mt_torch_course *course);
