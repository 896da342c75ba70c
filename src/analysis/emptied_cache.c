/* A sweep over the events that map and unmap memory, in order. Unmaps in a row are one moment. */
#include "analysis/emptied_cache.h"

#include "base/memory.h"
#include "base/order.h"

#include <stdlib.h>

/* Memory that one event mapped or unmapped. */
struct change {
    int64_t event;
    uint64_t bytes;
    bool maps;
    bool is_shared; /* not in a private pool, which PyTorch unmaps when its graph is destroyed */
};

struct sweep {
    const struct mt_advice_input *input;
    struct change *changes; /* by event */
    size_t count, at;
    size_t mark;       /* index of the next mark */
    uint64_t reserved; /* after the changes before `at` */
};

static int compare_changes(const void *left, const void *right)
{
    return MT_COMPARE(((const struct change *)left)->event, ((const struct change *)right)->event);
}

static void sweep_create(const struct mt_advice_input *input, struct sweep *out)
{
    *out = (struct sweep){.input = input};
    out->changes = mt_host_alloc((2 * input->part_count + 1) * sizeof *out->changes);
    for (size_t i = 0; i < input->part_count; i++) {
        const struct mt_part_row *part = &input->parts[i];
        const bool is_shared = input->segments[part->segment].pool[0] == '\0';
        out->changes[out->count++] = (struct change){part->mapped_event, part->bytes, true, is_shared};
        if (part->unmapped_event != 0)
            out->changes[out->count++] = (struct change){part->unmapped_event, part->bytes, false, is_shared};
    }
    qsort(out->changes, out->count, sizeof *out->changes, compare_changes);
}

/* True if the request at an event was refused. The events of successive calls ascend. */
static bool is_refused(struct sweep *sweep, int64_t event)
{
    const struct mt_mark_row *marks = sweep->input->marks;
    while (sweep->mark < sweep->input->mark_count && marks[sweep->mark].event < event)
        sweep->mark++;
    return sweep->mark < sweep->input->mark_count && marks[sweep->mark].event == event &&
           marks[sweep->mark].kind == MT_EVENT_OOM;
}

/* Passes the unmaps in a row. Returns the last of their events. Sets whether one of them is shared. */
static int64_t pass_unmaps(struct sweep *sweep, bool *out_is_shared)
{
    int64_t last = sweep->changes[sweep->at].event;
    *out_is_shared = false;
    for (; sweep->at < sweep->count; sweep->at++) {
        const struct change *change = &sweep->changes[sweep->at];
        if (change->maps || change->event > last + 1)
            break;
        *out_is_shared |= change->is_shared;
        sweep->reserved -= change->bytes;
        last = change->event;
    }
    return last;
}

/* True if a request follows for which memory was unmapped, since the device was nearly full. `before` was reserved
 * until then. */
static bool makes_room(struct sweep *sweep, int64_t last, uint64_t before)
{
    enum { SPARE_PART = 10 }; /* of the device, for contexts and other processes */
    const uint64_t capacity = sweep->input->capacity_bytes;
    const struct change *next = &sweep->changes[sweep->at];
    const bool maps_next = sweep->at < sweep->count && next->maps && next->event == last + 1;
    return is_refused(sweep, last + 1) || (maps_next && before + next->bytes > capacity - capacity / SPARE_PART);
}

int64_t *mt_emptied_cache_find(const struct mt_advice_input *input, size_t *out_count)
{
    const bool is_known = input->program.kind == MT_PROGRAM_PYTORCH || input->program.kind == MT_PROGRAM_LIBRARY;
    struct sweep sweep;
    *out_count = 0;
    if (!is_known || input->settings.gc_threshold > 0)
        return NULL;
    sweep_create(input, &sweep);
    int64_t *found = mt_host_alloc((input->part_count + 1) * sizeof *found);
    while (sweep.at < sweep.count) {
        if (sweep.changes[sweep.at].maps) {
            sweep.reserved += sweep.changes[sweep.at++].bytes;
            continue;
        }
        bool is_shared;
        const uint64_t before = sweep.reserved;
        const int64_t last = pass_unmaps(&sweep, &is_shared);
        if (is_shared && last >= input->first_event && last <= input->last_event && !makes_room(&sweep, last, before))
            found[(*out_count)++] = mt_position_at(last);
    }
    free(sweep.changes);
    return found;
}
