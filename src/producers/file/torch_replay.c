/* Blocks and segments are identified by their addresses. No two have the same address at one time. */
#include "producers/file/torch_replay.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "trace/store/address_map.h"
#include "trace/store/parts.h"

#include <assert.h>
#include <stdlib.h>

/* A live block, or a segment. */
struct placed {
    struct mt_address_range range;
};

/* Invariants: block_bytes[i] is the size of the block of event i, 0 if unknown; `live` has the live blocks,
 * and `segments` the segments that were not mapped in parts. */
struct replay {
    const struct mt_torch_snapshot *snapshot;
    const struct mt_torch_labeler *labeler;
    struct mt_foreign *foreign;
    struct mt_torch_tally *tally;
    uint64_t *block_bytes;
    struct mt_address_map live, segments;
    bool has_requests;              /* of frees */
    struct mt_number_map uncounted; /* events that complete a free requested before the recording */
};

/* The state before an event. `blocks` maps an address to the number of its block in the snapshot, or to FREED plus the
 * number of the event that frees it, plus REQUESTED if a later event requests that free. `memory` consists of parts of
 * one segment, by the event that mapped them, or by ENDED plus their number for memory that is mapped at the end. */
struct past {
    struct mt_number_map blocks;
    struct mt_parts memory;
};
#define FREED (UINT64_C(1) << 62)
#define REQUESTED (UINT64_C(1) << 61)
#define ENDED (INT64_C(1) << 62)

static struct mt_part memory_of(uint64_t address, uint64_t bytes, int64_t by)
{
    return (struct mt_part){.offset = address, .bytes = bytes, .mapped_event = by};
}

static void begin_past(const struct mt_torch_snapshot *snapshot, struct past *past)
{
    mt_number_map_create(&past->blocks);
    mt_parts_create(&past->memory);
    for (size_t i = 0; i < snapshot->block_count; i++)
        mt_number_map_put(&past->blocks, snapshot->blocks[i].address, i);
    for (size_t i = 0; i < snapshot->segment_count; i++)
        mt_parts_map(&past->memory,
                     memory_of(snapshot->segments[i].address, snapshot->segments[i].bytes, ENDED + (int64_t)i));
    past->memory.row_count = 0; /* only rows of the last unmap are wanted */
}

/* Moves the state back to before event `i`. An allocation whose block is live at the end gets its size from there. */
static void step_back(struct replay *replay, struct past *past, size_t i)
{
    assert(i < replay->snapshot->event_count);
    const struct mt_torch_event *event = &replay->snapshot->events[i];
    uint64_t what;
    switch (event->action) {
    case MT_TORCH_ALLOC:
        if (mt_number_map_take(&past->blocks, event->address, &what) && what < FREED)
            replay->block_bytes[i] = replay->snapshot->blocks[what & ~REQUESTED].bytes;
        break;
    case MT_TORCH_FREE_REQUESTED:
        if (mt_number_map_get(&past->blocks, event->address, &what))
            mt_number_map_put(&past->blocks, event->address, what | REQUESTED);
        break;
    case MT_TORCH_FREE_COMPLETED:
        mt_number_map_put(&past->blocks, event->address, FREED + i);
        break;
    case MT_TORCH_SEGMENT_ALLOC:
    case MT_TORCH_SEGMENT_MAP:
        mt_parts_unmap(&past->memory, memory_of(event->address, event->bytes, 0), 1);
        break;
    case MT_TORCH_SEGMENT_FREE:
    case MT_TORCH_SEGMENT_UNMAP:
        mt_parts_map(&past->memory, memory_of(event->address, event->bytes, (int64_t)i + 1));
        break;
    default:
        break;
    }
    past->memory.row_count = 0;
}

static mt_stack_id stack_of(const struct replay *replay, const struct mt_torch_request *request)
{
    const struct mt_torch_labeler *labeler = replay->labeler;
    return labeler->stack != NULL ? labeler->stack(labeler->context, request) : 0;
}

static void take(struct replay *replay, uint64_t time_ns, uint64_t stream, const struct mt_torch_request *request,
                 struct mt_address_range range)
{
    assert(range.end >= range.begin);
    struct mt_foreign_block block = {.address = range.begin,
                                     .requested_bytes = request->requested_bytes,
                                     .block_bytes = range.end - range.begin,
                                     .stream = stream};
    replay->labeler->label(replay->labeler->context, request, &block.label, &block.span);
    block.stack = stack_of(replay, request);
    for (struct placed *other; (other = mt_address_map_find(&replay->live, range.begin, range.end)) != NULL;)
        mt_address_map_remove(&replay->live, other->range.begin);
    mt_address_map_add(&replay->live, &(struct placed){range});
    mt_foreign_take(replay->foreign, time_ns, &block);
}

static void map(struct replay *replay, uint64_t time_ns, uint64_t stream, struct mt_address_range range, bool is_part)
{
    assert(range.end >= range.begin);
    if (range.end > range.begin && !is_part) {
        for (struct placed *other; (other = mt_address_map_find(&replay->segments, range.begin, range.end)) != NULL;)
            mt_address_map_remove(&replay->segments, other->range.begin);
        mt_address_map_add(&replay->segments, &(struct placed){range});
    }
    mt_foreign_map(replay->foreign, time_ns, range.begin, range.end - range.begin, stream);
}

/* Maps the memory from before the first event, by address. */
static void map_memory_before(struct replay *replay, struct past *past)
{
    const struct mt_torch_snapshot *snapshot = replay->snapshot;
    mt_parts_unmap(&past->memory, memory_of(0, UINT64_MAX, 0), 1); /* lists all of it */
    for (size_t i = 0; i < past->memory.row_count; i++) {
        const struct mt_part *part = &past->memory.rows[i];
        bool stayed = part->mapped_event >= ENDED;
        size_t number = (size_t)(stayed ? part->mapped_event - ENDED : part->mapped_event - 1);
        bool is_part = stayed ? snapshot->segments[number].is_expandable
                              : snapshot->events[number].action == MT_TORCH_SEGMENT_UNMAP;
        uint64_t stream = stayed ? snapshot->segments[number].stream : snapshot->events[number].stream;
        map(replay, 0, stream, (struct mt_address_range){part->offset, part->offset + part->bytes}, is_part);
        replay->tally->before.segments++;
        replay->tally->before.reserved_bytes += part->bytes;
    }
}

/* Allocates a block that was live before the first event: a block of the snapshot, or one that an event frees. */
static void take_block_before(struct replay *replay, uint64_t what)
{
    const struct mt_torch_snapshot *snapshot = replay->snapshot;
    const struct mt_torch_event *event = what >= FREED ? &snapshot->events[what - FREED] : NULL;
    const struct mt_torch_block *block = event == NULL ? &snapshot->blocks[what] : NULL;
    static const struct mt_value nobody;
    uint64_t address = event != NULL ? event->address : block->address;
    const struct mt_torch_request request = {.address = address,
                                             .requested_bytes = event != NULL ? event->bytes : block->requested_bytes,
                                             .frames = event != NULL ? &nobody : block->frames};
    uint64_t bytes = event != NULL ? event->block_bytes : block->bytes;
    if (bytes == 0)
        bytes = mt_torch_settings_round(&snapshot->settings, request.requested_bytes);
    replay->tally->before.blocks++;
    replay->tally->before.requested_bytes += request.requested_bytes;
    replay->tally->before.freed += event != NULL;
    uint64_t stream = event != NULL ? event->stream : block->stream;
    take(replay, 0, stream, &request, (struct mt_address_range){address, address + bytes});
}

/* True if the file has requests of frees, or has no frees to show the opposite. A profiler's trace has only frees. */
static bool has_requests(const struct mt_torch_snapshot *snapshot)
{
    bool has_alloc = false;
    for (size_t i = 0; i < snapshot->event_count; i++) {
        has_alloc |= snapshot->events[i].action == MT_TORCH_ALLOC;
        if (snapshot->events[i].action == MT_TORCH_FREE_REQUESTED)
            return true;
    }
    return !has_alloc;
}

/* False for a block whose free was requested before the recording and completed in it, since PyTorch no longer counts
 * it. */
static bool is_counted(const struct replay *replay, uint64_t what)
{
    return what < FREED || (what & REQUESTED) != 0 || !replay->has_requests;
}

/* Allocates these blocks by address, since their order is unknown. */
static void take_blocks_before(struct replay *replay, const struct past *past)
{
    uint64_t *addresses = mt_host_alloc((past->blocks.count + 1) * sizeof *addresses);
    size_t count = 0;
    for (size_t i = 0; i <= past->blocks.mask; i++)
        if (past->blocks.pairs[i].key != MT_NUMBER_MAP_NO_KEY)
            addresses[count++] = past->blocks.pairs[i].key;
    qsort(addresses, count, sizeof *addresses, mt_compare_uint64);
    for (size_t i = 0; i < count; i++) {
        uint64_t what = 0;
        mt_number_map_get(&past->blocks, addresses[i], &what);
        if (is_counted(replay, what))
            take_block_before(replay, what & ~REQUESTED);
        else
            mt_number_map_put(&replay->uncounted, what & ~FREED, 0);
    }
    free(addresses);
}

/* Returns the owner of a range of addresses: its segment, which only our own exports name, or else its stream. */
static uint64_t owner_of(const struct mt_torch_event *event)
{
    int64_t segment;
    bool is_named = event->event != NULL && mt_value_integer(mt_value_find(event->event, "segment"), &segment);
    return is_named ? (uint64_t)segment : event->stream;
}

/* Reserves the ranges of addresses that are mapped in parts. Each is one segment, which must be known before it is
 * mapped. Events come first, and segments at the end do not repeat their ranges. */
static void reserve_ranges(const struct replay *replay)
{
    const struct mt_torch_snapshot *snapshot = replay->snapshot;
    for (size_t i = 0; i < snapshot->event_count; i++) {
        const struct mt_torch_event *event = &snapshot->events[i];
        if (event->action == MT_TORCH_SEGMENT_MAP || event->action == MT_TORCH_SEGMENT_UNMAP)
            mt_foreign_reserve(replay->foreign, event->address, event->bytes, owner_of(event));
    }
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct mt_torch_segment *segment = &snapshot->segments[i];
        if (segment->is_expandable)
            mt_foreign_reserve(replay->foreign, segment->address, segment->bytes, segment->stream);
    }
}

static void replay_beginning(struct replay *replay)
{
    struct past past;
    begin_past(replay->snapshot, &past);
    for (size_t i = replay->snapshot->state_event; i-- > 0;)
        step_back(replay, &past, i);
    reserve_ranges(replay);
    map_memory_before(replay, &past);
    take_blocks_before(replay, &past);
    mt_number_map_release(&past.blocks);
    mt_parts_release(&past.memory);
}

/* Returns the size of an allocation's block, unless the file has it. A block begins at the start of a free piece, and
 * free neighbours are always coalesced. So the piece reached to the next block, or to the end of the segment. */
static uint64_t find_block_bytes(const struct replay *replay, size_t i)
{
    const struct mt_torch_event *event = &replay->snapshot->events[i];
    const struct mt_torch_settings *settings = &replay->snapshot->settings;
    uint64_t rounded = mt_torch_settings_round(settings, event->bytes);
    if (event->block_bytes > 0 && event->block_bytes >= event->bytes)
        return event->block_bytes;
    if (replay->block_bytes[i] >= rounded)
        return replay->block_bytes[i];
    const struct placed *segment = mt_address_map_find(&replay->segments, event->address, event->address + 1);
    if (segment == NULL)
        return rounded;
    const struct placed *next = mt_address_map_find(&replay->live, event->address, segment->range.end);
    uint64_t end = next != NULL ? next->range.begin : segment->range.end;
    if (end < event->address + rounded)
        return rounded;
    uint64_t rest = end - event->address - rounded;
    return mt_torch_settings_split(settings, rounded, rest) ? rounded : rounded + rest;
}

static void replay_alloc(struct replay *replay, size_t i, uint64_t time_ns)
{
    const struct mt_torch_event *event = &replay->snapshot->events[i];
    const struct mt_torch_request request = {event->address, event->bytes, event->frames, event};
    uint64_t end = event->address + find_block_bytes(replay, i);
    replay->tally->ends_refused = false;
    take(replay, time_ns, event->stream, &request, (struct mt_address_range){event->address, end});
}

static void replay_oom(struct replay *replay, const struct mt_torch_event *event, uint64_t time_ns)
{
    const struct mt_torch_request request = {.requested_bytes = event->bytes, .frames = event->frames, .event = event};
    struct mt_foreign_block block = {.requested_bytes = event->bytes, .stream = event->stream};
    replay->labeler->label(replay->labeler->context, &request, &block.label, &block.span);
    block.stack = stack_of(replay, &request);
    mt_foreign_oom(replay->foreign, time_ns, &block);
    replay->tally->ends_refused = true;
    replay->tally->refusal = (struct mt_torch_refusal){.is_known = event->address <= MT_IMPORT_MOST_BYTES,
                                                       .free_bytes = event->address,
                                                       .step = mt_foreign_step(replay->foreign)};
}

static void remove_at(struct mt_address_map *map, uint64_t address)
{
    const struct placed *found = mt_address_map_find(map, address, address + 1);
    if (found != NULL && found->range.begin == address)
        mt_address_map_remove(map, address);
}

static void replay_event(struct replay *replay, size_t i, uint64_t time_ns)
{
    assert(replay->snapshot->events[i].action < MT_TORCH_ACTION_COUNT);
    const struct mt_torch_event *event = &replay->snapshot->events[i];
    const struct mt_address_range range = {event->address, event->address + event->bytes};
    uint64_t ignored;
    replay->tally->events[event->action] += !event->is_derived;
    if (replay->labeler->moment != NULL)
        replay->labeler->moment(replay->labeler->context, event, time_ns);
    switch (event->action) {
    case MT_TORCH_ALLOC:
        replay_alloc(replay, i, time_ns);
        break;
    case MT_TORCH_FREE_COMPLETED:
        remove_at(&replay->live, event->address);
        if (!mt_number_map_get(&replay->uncounted, i, &ignored))
            mt_foreign_give(replay->foreign, time_ns, event->address);
        break;
    case MT_TORCH_SEGMENT_ALLOC:
    case MT_TORCH_SEGMENT_MAP:
        map(replay, time_ns, event->stream, range, event->action == MT_TORCH_SEGMENT_MAP);
        break;
    case MT_TORCH_SEGMENT_FREE:
    case MT_TORCH_SEGMENT_UNMAP:
        remove_at(&replay->segments, event->address);
        mt_foreign_unmap(replay->foreign, time_ns, event->address, event->bytes);
        break;
    case MT_TORCH_OOM:
        replay_oom(replay, event, time_ns);
        break;
    default:
        break;
    }
}

/* Returns the time of an event. mt_foreign keeps the time from going back if a clock was set back. */
static uint64_t time_of(const struct replay *replay, size_t i)
{
    int64_t us;
    if (__builtin_sub_overflow(replay->snapshot->events[i].time_us, replay->labeler->start_us, &us) || us < 0)
        return 0;
    return us < INT64_MAX / 1000 ? (uint64_t)us * 1000 : INT64_MAX;
}

void mt_torch_replay(const struct mt_torch_snapshot *snapshot, const struct mt_torch_labeler *labeler,
                     struct mt_foreign *foreign, struct mt_torch_tally *out)
{
    assert(labeler->label != NULL && mt_foreign_counts(foreign).takes == 0);
    *out = (struct mt_torch_tally){0};
    struct replay replay = {.snapshot = snapshot, .labeler = labeler, .foreign = foreign, .tally = out};
    replay.has_requests = has_requests(snapshot);
    replay.block_bytes = mt_host_alloc((snapshot->event_count + 1) * sizeof *replay.block_bytes);
    mt_address_map_create(&replay.live, sizeof(struct placed));
    mt_address_map_create(&replay.segments, sizeof(struct placed));
    mt_number_map_create(&replay.uncounted);
    replay_beginning(&replay);
    for (size_t i = 0; i < snapshot->event_count; i++)
        replay_event(&replay, i, time_of(&replay, i));
    assert(out->before.freed <= out->before.blocks);
    mt_address_map_release(&replay.live);
    mt_address_map_release(&replay.segments);
    mt_number_map_release(&replay.uncounted);
    free(replay.block_bytes);
}
