/* Memory outside the run's allocator, and marks. Every note gets the current time. */
#include "base/memory.h"
#include "run/live_parts.h"

#include <assert.h>

/* Locks the notes and returns the time. */
static uint64_t enter(struct mt_live_run *run)
{
    assert(run->foreign != NULL);
    mt_lock_take(&run->notes_lock);
    return mt_live_run_now_ns(run);
}

static void leave(struct mt_live_run *run)
{
    mt_lock_give(&run->notes_lock);
}

void mt_live_note_take(struct mt_live_run *run, const struct mt_foreign_block *block)
{
    mt_foreign_take(run->foreign, enter(run), block);
    run->sums.requested_bytes += block->requested_bytes;
    run->sums.allocated_bytes += block->block_bytes;
    leave(run);
}

void mt_live_note_give(struct mt_live_run *run, mt_addr address)
{
    const struct mt_foreign_bytes bytes = mt_foreign_give(run->foreign, enter(run), address);
    run->sums.requested_bytes -= bytes.requested;
    run->sums.allocated_bytes -= bytes.block;
    leave(run);
}

bool mt_live_note_relabel(struct mt_live_run *run, mt_addr address, mt_label_id label, mt_span_id span)
{
    bool is_found = mt_foreign_relabel(run->foreign, enter(run), address, label, span);
    leave(run);
    return is_found;
}

void mt_live_notes_relabel_all(struct mt_live_run *run, mt_label_choice choose, void *context)
{
    mt_foreign_relabel_all(run->foreign, enter(run), choose, context);
    leave(run);
}

void mt_live_note_refusal(struct mt_live_run *run, const struct mt_foreign_block *request)
{
    mt_foreign_oom(run->foreign, enter(run), request);
    leave(run);
}

/* The lock is held. */
static void map(struct mt_live_run *run, uint64_t now_ns, mt_addr address, uint64_t bytes, uint64_t stream)
{
    mt_foreign_map(run->foreign, now_ns, address, bytes, stream);
    run->sums.reserved_bytes += bytes;
}

void mt_live_note_map(struct mt_live_run *run, mt_addr address, uint64_t bytes, uint64_t stream)
{
    map(run, enter(run), address, bytes, stream);
    leave(run);
}

void mt_live_note_unmap(struct mt_live_run *run, mt_addr address, uint64_t bytes)
{
    mt_foreign_unmap(run->foreign, enter(run), address, bytes);
    run->sums.reserved_bytes -= bytes;
    leave(run);
}

/* Reserves the range of addresses at this memory, unless a range contains it. PyTorch reserves nine eighths of a card's
 * memory, and maps from the range's beginning. The lock is held. */
static void reserve_range(struct mt_live_run *run, mt_addr address)
{
    enum { WITHOUT_CAPACITY = 40 /* the bits of a range's size */ };
    const uint64_t bytes =
        run->capacity_bytes > 0 ? run->capacity_bytes + run->capacity_bytes / 8 : (uint64_t)1 << WITHOUT_CAPACITY;
    for (size_t i = 0; i < run->range_count; i++)
        if (address >= run->ranges[i].begin && address < run->ranges[i].end)
            return;
    *MT_HOST_ADD(run->ranges, run->range_count) = (struct mt_live_range){address, address + bytes};
    (void)mt_foreign_reserve(run->foreign, address, bytes, address);
}

void mt_live_note_growth(struct mt_live_run *run, mt_addr address, uint64_t bytes, uint64_t stream)
{
    const uint64_t now_ns = enter(run);
    reserve_range(run, address);
    map(run, now_ns, address, bytes, stream);
    leave(run);
}

mt_stream mt_live_note_stream(struct mt_live_run *run, uint64_t stream)
{
    (void)enter(run);
    const mt_stream number = mt_foreign_stream_number(run->foreign, stream);
    leave(run);
    return number;
}

int64_t mt_live_note_step(struct mt_live_run *run)
{
    (void)enter(run);
    int64_t step = mt_foreign_step(run->foreign);
    leave(run);
    return step;
}

struct mt_foreign_counts mt_live_note_counts(struct mt_live_run *run)
{
    (void)enter(run);
    struct mt_foreign_counts counts = mt_foreign_counts(run->foreign);
    leave(run);
    return counts;
}

struct mt_live_sums mt_live_note_sums(struct mt_live_run *run)
{
    (void)enter(run);
    struct mt_live_sums sums = run->sums;
    leave(run);
    return sums;
}

/* ---- marks ---- */

static void mark_note(struct mt_live_run *run, mt_event_kind kind, uint64_t value, mt_span_id span)
{
    struct mt_foreign *foreign = run->foreign;
    const uint64_t time_ns = enter(run);
    if (kind == MT_EVENT_SPAN_BEGIN)
        mt_foreign_span_begin(foreign, time_ns, span);
    else if (kind == MT_EVENT_SPAN_END)
        mt_foreign_span_end(foreign, time_ns, span);
    else if (kind == MT_EVENT_STEP_BEGIN)
        (void)mt_foreign_step_begin(foreign, time_ns);
    else if (kind == MT_EVENT_STEP_END)
        mt_foreign_step_end(foreign, time_ns);
    else
        mt_foreign_phase(foreign, time_ns, (mt_phase)value);
    leave(run);
}

void mt_live_run_mark(struct mt_live_run *run, mt_event_kind kind, uint64_t value, mt_span_id span)
{
    assert(kind >= MT_EVENT_SPAN_BEGIN && kind <= MT_EVENT_PHASE);
    if (!mt_live_run_is_traced(run))
        return;
    if (run->foreign != NULL)
        mark_note(run, kind, value, span);
    else if (run->alloc != NULL)
        mt_alloc_mark(run->alloc, kind, value, span);
}
