/* How long the blocks of a snapshot live, in its events: whether one outlives the phase in which it was asked for.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_TORCH_LIVES_H
#define MT_TRACE_IMPORT_TORCH_LIVES_H

#include "base/label.h"
#include "trace/import/torch_snapshot.h"

struct mt_torch_lives {
    size_t count;    /* of events */
    uint8_t *phases; /* mt_phase in which an event is; the caller's to fill in */
    uint32_t *ends;  /* of an allocation: the event that freed it, or UINT32_MAX */
};

/* Finds the ends. */
void mt_torch_lives_create(struct mt_torch_lives *lives, const struct mt_torch_snapshot *snapshot);
void mt_torch_lives_release(struct mt_torch_lives *lives);

/* Whether what event `number` allocated is there for a later phase: what forward saves for backward, say. */
bool mt_torch_lives_outlive(const struct mt_torch_lives *lives, size_t number);

#endif
