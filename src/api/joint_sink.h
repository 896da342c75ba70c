/* One sink for two sources of events: the allocator of a run and the notes of its program. Each numbers its events and
 * segments from 0 and calls from threads of its own. This joins them into one sequence, in the order of arrival.
 *
 *   allocator ──▶ source 0 ─┐  one at a time; events and segments
 *                           ├─▶ renumbered, one clock ──▶ target
 *   notes ──────▶ source 1 ─┘
 *
 * The clock is the host's, since the clock of a simulated device moves only with ops, and the library runs none.
 *
 * Threads: any; each source keeps the order of its own calls. */
#ifndef MT_API_JOINT_SINK_H
#define MT_API_JOINT_SINK_H

#include "base/lock.h"
#include "base/sink.h"

enum { MT_JOINT_SOURCES = 2 };

/* Invariant: births[n] < joint->births is the joint number of segment n of this source, for n < count. */
struct mt_joint_source {
    struct mt_joint_sink *joint;
    struct mt_sink sink; /* for the source to emit into */
    uint32_t *births;
    uint32_t count;
};

struct mt_joint_sink {
    struct mt_lock lock; /* held for every call of the target, also by others */
    struct mt_sink target;
    uint64_t start_ns, sequence;
    uint64_t last_ns; /* of the last event: times never go back */
    uint32_t births;  /* number of segments so far */
    struct mt_joint_source sources[MT_JOINT_SOURCES];
};

/* Borrows what the target refers to. The struct must not be moved while a source is in use. */
void mt_joint_sink_create(struct mt_joint_sink *joint, const struct mt_sink *target);
void mt_joint_sink_release(struct mt_joint_sink *joint);

/* Returns the ns since it was created. */
uint64_t mt_joint_sink_now_ns(const struct mt_joint_sink *joint);

#endif
