#include "producers/file/profile_pairs.h"

#include "base/memory.h"
#include "base/number_map.h"

#include <assert.h>
#include <stdlib.h>

/* The live blocks as a stack for each size. Invariants: youngest[bytes] is 1 + the number of the event that allocated
 * the youngest block; older[i] is this number for the block below the one of event i, 0 if there is none. */
struct live {
    struct mt_number_map youngest;
    uint64_t *older;
};

static void push(struct live *live, uint64_t bytes, size_t event)
{
    uint64_t below = 0;
    mt_number_map_get(&live->youngest, bytes, &below);
    live->older[event] = below;
    mt_number_map_put(&live->youngest, bytes, event + 1);
}

/* Sets *out_event to the event that allocated the youngest block of this size, and removes the block. False if none is
 * live. */
static bool pop(struct live *live, uint64_t bytes, size_t *out_event)
{
    uint64_t youngest = 0;
    if (!mt_number_map_get(&live->youngest, bytes, &youngest) || youngest == 0)
        return false;
    *out_event = (size_t)youngest - 1;
    mt_number_map_put(&live->youngest, bytes, live->older[*out_event]);
    return true;
}

void mt_profile_pair(struct mt_torch_snapshot *snapshot)
{
    struct live live = {.older = mt_host_alloc((snapshot->event_count + 1) * sizeof *live.older)};
    uint64_t next = 1; /* the sum of sizes is bounded, so this stays within the addresses of blocks */
    size_t taken;
    mt_number_map_create(&live.youngest);
    for (size_t i = 0; i < snapshot->event_count; i++) {
        struct mt_torch_event *event = &snapshot->events[i];
        if (event->action == MT_TORCH_ALLOC)
            push(&live, event->bytes, i);
        if (event->action == MT_TORCH_FREE_COMPLETED && pop(&live, event->bytes, &taken)) {
            event->address = snapshot->events[taken].address;
        } else if (event->action == MT_TORCH_ALLOC || event->action == MT_TORCH_FREE_COMPLETED) {
            event->address = next;
            next += event->bytes;
        }
    }
    assert(next <= MT_IMPORT_MOST_SUM + 1);
    mt_number_map_release(&live.youngest);
    free(live.older);
}
