/* Two who emit, one trace: the allocator of a run and the notes of its program number their events and segments each
 * from 0, and each calls from threads of its own. This joins them into one sequence, in the order of arrival.
 *
 *   allocator ──▶ source 0 ─┐  one at a time; events and segments
 *                           ├─▶ numbered anew, one clock ──▶ target
 *   notes ──────▶ source 1 ─┘
 *
 * The clock is the host's: of a simulated device, whose own moves only by the cost of ops, nobody executes ops here.
 *
 * Threads: any, each source as its own caller orders. */
#ifndef MT_API_JOINT_SINK_H
#define MT_API_JOINT_SINK_H

#include "base/lock.h"
#include "base/sink.h"

enum { MT_JOINT_SOURCES = 2 };

/* Invariant: births[n] < joint->births is the segment n of this source, for n < count. */
struct mt_joint_source {
    struct mt_joint_sink *joint;
    struct mt_sink sink; /* to hand to who emits */
    uint32_t *births;
    uint32_t count;
};

struct mt_joint_sink {
    struct mt_lock lock; /* around the target; whoever else calls that takes it, too */
    struct mt_sink target;
    uint64_t start_ns, sequence;
    uint64_t last_ns; /* of the last event: times never go back */
    uint32_t births;
    struct mt_joint_source sources[MT_JOINT_SOURCES];
};

/* Borrows what the target refers to; must not be moved while a source is in use. */
void mt_joint_sink_create(struct mt_joint_sink *joint, const struct mt_sink *target);
void mt_joint_sink_release(struct mt_joint_sink *joint);

/* Nanoseconds since it was created. */
uint64_t mt_joint_sink_now_ns(const struct mt_joint_sink *joint);

#endif
