/* The course of a snapshot: of every event its phase, and of every block its end. Rules say a phase by call stacks; the rest
 * follows from what happens around an event:
 *
 *   init               forward  loss  backward  forward  loss  backward  optimizer │ forward …
 *   └ until a module   └ micro-batches belong to one step: it ends with ───────────┘
 *     is called          the update of an optimizer
 *
 * An update shows by blocks that the optimizer takes, by PyTorch's annotation of it, or by gradients that are freed before
 * the next backward. Threads: one at a time. */
#pragma once

#include "producers/file/torch_callers.h"

#define MT_NO_EVENT UINT32_MAX

/* An event. A request is an allocation or a refused one; other events have the phase and section of the one before. */
struct mt_torch_moment {
    uint32_t partner; /* of an allocation: the event that frees it; of a free: the allocation; MT_NO_EVENT: none */
    uint32_t known;   /* of an allocation: the last event at which it is known to be live */
    uint32_t section; /* counts changes of phase; forward and loss are one here */
    uint8_t phase;    /* an mt_phase */
    bool is_request;
    bool is_said; /* rules set the phase */
    bool begins_step;
    bool is_given; /* taken outside of modules ahead of forward, which finds it live */
};

struct mt_torch_course {
    struct mt_torch_moment *moments;
    size_t count;      /* of events */
    bool has_backward; /* some request is in backward */
};

/* Needs the callers' rules. A block that goes while a refused request is cleaned up has no known end. */
void mt_torch_course_create(struct mt_torch_course *course, const struct mt_torch_snapshot *snapshot,
                            struct mt_torch_callers *callers);
void mt_torch_course_release(struct mt_torch_course *course);
