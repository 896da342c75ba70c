/* Relief: what would have met a request that was refused. The run up to it is replayed with one change, the request comes
 * last, and the change is told only if everything is met. Of what the run would have asked for after that, nobody knows
 * anything.
 *
 * Threads: any; input and refusal are only read. */
#ifndef MT_WHATIF_RELIEF_H
#define MT_WHATIF_RELIEF_H

#include "analysis/refusal.h"

typedef enum mt_relief_kind {
    MT_RELIEF_PATTERN,  /* blocks that show a pattern of advice.h, without what they waste */
    MT_RELIEF_POLICY,   /* the allocator's other policy */
    MT_RELIEF_USED_ONLY /* every block from its first to its last use only */
} mt_relief_kind;

/* A change that would have met the request. */
struct mt_relief {
    mt_relief_kind kind;
    struct mt_finding finding; /* of a pattern: its texts are those of the labels */
    mt_policy policy;          /* of the replay */
    struct mt_replay_result replay;
};

/* Invariants: every item's replay met all; items are ordered from the change that costs a program least; of patterns that
 * are mended the same way, there is the one that saves most. */
struct mt_reliefs {
    bool is_reproduced;      /* without a change, the replay ends at the request; otherwise there are no items */
    uint64_t capacity_bytes; /* of the replays' device: that of the run's or, if the request is met there, since others
                              * held of it, what the run held when it asked */
    struct mt_relief *items;
    size_t count;
};

/* `refusal` is that of `input`. Takes a replay for each of up to `limit` patterns (1 or more) and two more. Release in any
 * case. */
mt_status mt_reliefs_create(const struct mt_advice_input *input, const struct mt_refusal *refusal, size_t limit,
                            struct mt_reliefs *out);
void mt_reliefs_release(struct mt_reliefs *reliefs);

#endif
