#include "trace/store/foreign.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "trace/store/foreign_memory.h"

#include <assert.h>
#include <stdlib.h>

/* A live block. */
struct block {
    struct mt_address_range range;
    uint64_t requested_bytes, stream_handle;
    struct mt_foreign_segment segment;
    mt_label_id label;
    mt_span_id span;
    uint64_t order; /* of its take, from 1 */
    mt_stream stream;
    bool owns_segment; /* the segment is unmapped with the block */
};

/* Invariant: every block is in memory of one segment, and no two overlap. */
struct mt_foreign {
    struct mt_foreign_events events;
    struct mt_foreign_memory *memory;
    struct mt_address_map blocks;
    struct mt_number_map streams; /* from the caller's numbers to ours */
    struct mt_foreign_counts counts;
    int64_t step, next_step; /* step MT_NO_STEP: outside of steps */
};

struct mt_foreign *mt_foreign_create(const struct mt_sink *sink)
{
    struct mt_foreign *foreign = mt_host_alloc(sizeof *foreign);
    foreign->events.sink = *sink;
    foreign->step = MT_NO_STEP;
    foreign->memory = mt_foreign_memory_create(&foreign->events);
    mt_address_map_create(&foreign->blocks, sizeof(struct block));
    mt_number_map_create(&foreign->streams);
    return foreign;
}

void mt_foreign_destroy(struct mt_foreign *foreign)
{
    if (foreign == NULL)
        return;
    mt_foreign_memory_destroy(foreign->memory);
    mt_address_map_release(&foreign->blocks);
    mt_number_map_release(&foreign->streams);
    free(foreign);
}

struct mt_foreign_counts mt_foreign_counts(const struct mt_foreign *foreign)
{
    return foreign->counts;
}

/* Sets the time to time_ns, unless that is earlier. */
static void move_clock(struct mt_foreign *foreign, uint64_t time_ns)
{
    if (time_ns < foreign->events.time_ns)
        foreign->counts.times_back++;
    else
        foreign->events.time_ns = time_ns;
}

/* False if the range is empty or has addresses beyond the end. */
static bool make_range(mt_addr address, uint64_t bytes, struct mt_address_range *out)
{
    if (bytes == 0 || address >= MT_FOREIGN_MOST_ADDRESS || bytes > MT_FOREIGN_MOST_ADDRESS - address)
        return false;
    *out = (struct mt_address_range){address, address + bytes};
    return true;
}

/* Makes the range, and counts it if it is refused. */
static bool accept_range(struct mt_foreign *foreign, mt_addr address, uint64_t bytes, struct mt_address_range *out)
{
    bool accepted = make_range(address, bytes, out);
    foreign->counts.refused += !accepted;
    return accepted;
}

void mt_foreign_number_stream(struct mt_foreign *foreign, uint64_t stream, mt_stream number)
{
    mt_number_map_put(&foreign->streams, stream, number);
}

/* Stream 0 has number 0, others are numbered from 1 in the order of first use. Further streams share the last
 * number. */
mt_stream mt_foreign_stream_number(struct mt_foreign *foreign, uint64_t handle)
{
    uint64_t number;
    if (handle == 0)
        return 0;
    if (mt_number_map_get(&foreign->streams, handle, &number))
        return (mt_stream)number;
    if (foreign->streams.count + 1 >= UINT16_MAX)
        return UINT16_MAX;
    number = foreign->streams.count + 1;
    mt_number_map_put(&foreign->streams, handle, number);
    return (mt_stream)number;
}

static void emit_block(struct mt_foreign *foreign, mt_event_kind kind, const struct block *block, mt_stack_id stack)
{
    assert(block->range.begin >= block->segment.address);
    assert(block->requested_bytes <= block->range.end - block->range.begin);
    mt_foreign_emit(&foreign->events, (struct mt_event){.kind = (uint16_t)kind,
                                                        .stream = block->stream,
                                                        .requested_bytes = block->requested_bytes,
                                                        .block_bytes = block->range.end - block->range.begin,
                                                        .offset = block->range.begin - block->segment.address,
                                                        .segment = block->segment.birth,
                                                        .label = block->label,
                                                        .span = block->span,
                                                        .stack = stack});
}

static struct block *find_block(const struct mt_foreign *foreign, mt_addr address)
{
    struct block *block = mt_address_map_find(&foreign->blocks, address, address + 1);
    return block != NULL && block->range.begin == address ? block : NULL;
}

static void end_block(struct mt_foreign *foreign, const struct block *found)
{
    const struct block block = *found;
    mt_address_map_remove(&foreign->blocks, block.range.begin);
    emit_block(foreign, MT_EVENT_FREE, &block, 0);
    if (block.owns_segment)
        mt_foreign_memory_unmap(foreign->memory, block.range);
}

/* Ends the blocks with an address in the range. Returns their number. */
static uint64_t end_blocks(struct mt_foreign *foreign, struct mt_address_range range)
{
    uint64_t ended = 0;
    for (const struct block *block; (block = mt_address_map_find(&foreign->blocks, range.begin, range.end)) != NULL;
         ended++)
        end_block(foreign, block);
    return ended;
}

bool mt_foreign_reserve(struct mt_foreign *foreign, mt_addr address, uint64_t bytes, uint64_t owner)
{
    struct mt_address_range range;
    return make_range(address, bytes, &range) && mt_foreign_memory_reserve(foreign->memory, range, owner);
}

void mt_foreign_map(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, uint64_t bytes, uint64_t stream)
{
    struct mt_address_range range;
    foreign->counts.maps++;
    move_clock(foreign, time_ns);
    if (!accept_range(foreign, address, bytes, &range))
        return;
    foreign->counts.lost_gives += end_blocks(foreign, range);
    foreign->counts.lost_unmaps += mt_foreign_memory_bytes(foreign->memory, range) > 0;
    mt_foreign_memory_unmap(foreign->memory, range);
    mt_foreign_memory_map(foreign->memory, range, mt_foreign_stream_number(foreign, stream));
}

void mt_foreign_unmap(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, uint64_t bytes)
{
    struct mt_address_range range;
    foreign->counts.unmaps++;
    move_clock(foreign, time_ns);
    if (!accept_range(foreign, address, bytes, &range))
        return;
    foreign->counts.unseen_unmaps += mt_foreign_memory_bytes(foreign->memory, range) < bytes;
    foreign->counts.unmapped_gives += end_blocks(foreign, range);
    mt_foreign_memory_unmap(foreign->memory, range);
}

/* Sets the block's segment. If no segment covers it, maps a separate one in place of existing memory. */
static void place_block(struct mt_foreign *foreign, struct block *block)
{
    if (mt_foreign_memory_covers(foreign->memory, block->range, &block->segment))
        return;
    if (mt_foreign_memory_bytes(foreign->memory, block->range) > 0) {
        foreign->counts.straddles++;
        mt_foreign_memory_unmap(foreign->memory, block->range);
    }
    foreign->counts.owned_segments++;
    block->owns_segment = true;
    block->segment = mt_foreign_memory_map_alone(foreign->memory, block->range, block->stream);
}

static uint64_t bytes_of(const struct mt_foreign_block *block)
{
    return block->block_bytes > block->requested_bytes ? block->block_bytes : block->requested_bytes;
}

void mt_foreign_take(struct mt_foreign *foreign, uint64_t time_ns, const struct mt_foreign_block *taken)
{
    struct block block = {.requested_bytes = taken->requested_bytes,
                          .stream_handle = taken->stream,
                          .label = taken->label,
                          .span = taken->span,
                          .order = ++foreign->counts.takes};
    assert(mt_label_number(taken->label) != 0);
    move_clock(foreign, time_ns);
    if (!accept_range(foreign, taken->address, bytes_of(taken), &block.range))
        return;
    block.stream = mt_foreign_stream_number(foreign, taken->stream);
    foreign->counts.lost_gives += end_blocks(foreign, block.range);
    place_block(foreign, &block);
    mt_address_map_add(&foreign->blocks, &block);
    emit_block(foreign, MT_EVENT_ALLOC, &block, taken->stack);
}

struct mt_foreign_bytes mt_foreign_give(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address)
{
    const struct block *block = find_block(foreign, address);
    struct mt_foreign_bytes bytes = {0};
    foreign->counts.gives++;
    move_clock(foreign, time_ns);
    if (block == NULL) {
        foreign->counts.unseen_gives++;
        return bytes;
    }
    bytes = (struct mt_foreign_bytes){block->requested_bytes, block->range.end - block->range.begin};
    end_block(foreign, block);
    return bytes;
}

static void relabel(struct mt_foreign *foreign, struct block *block, struct mt_block_label chosen)
{
    if (block->label == chosen.label && block->span == chosen.span)
        return;
    block->label = chosen.label;
    block->span = chosen.span;
    emit_block(foreign, MT_EVENT_RELABEL, block, 0);
}

bool mt_foreign_relabel(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, mt_label_id label,
                        mt_span_id span)
{
    struct block *block = find_block(foreign, address);
    assert(mt_label_number(label) != 0);
    move_clock(foreign, time_ns);
    if (block == NULL) {
        foreign->counts.unseen_relabels++;
        return false;
    }
    relabel(foreign, block, (struct mt_block_label){label, span});
    return true;
}

void mt_foreign_relabel_all(struct mt_foreign *foreign, uint64_t time_ns, mt_label_choice choose, void *context)
{
    mt_addr address = 0;
    struct block *block;
    move_clock(foreign, time_ns);
    while ((block = mt_address_map_find(&foreign->blocks, address, MT_FOREIGN_MOST_ADDRESS)) != NULL) {
        relabel(foreign, block, choose(context, (struct mt_block_label){block->label, block->span}, block->order));
        address = block->range.end;
    }
}

bool mt_foreign_find(const struct mt_foreign *foreign, mt_addr address, struct mt_foreign_block *out)
{
    const struct block *block = find_block(foreign, address);
    if (block == NULL)
        return false;
    *out = (struct mt_foreign_block){.address = address,
                                     .requested_bytes = block->requested_bytes,
                                     .block_bytes = block->range.end - block->range.begin,
                                     .stream = block->stream_handle,
                                     .label = block->label,
                                     .span = block->span};
    return true;
}

void mt_foreign_oom(struct mt_foreign *foreign, uint64_t time_ns, const struct mt_foreign_block *request)
{
    move_clock(foreign, time_ns);
    mt_foreign_emit(&foreign->events, (struct mt_event){.kind = MT_EVENT_OOM,
                                                        .stream = mt_foreign_stream_number(foreign, request->stream),
                                                        .requested_bytes = request->requested_bytes,
                                                        .label = request->label,
                                                        .span = request->span,
                                                        .stack = request->stack});
}

static void emit_span(struct mt_foreign *foreign, uint64_t time_ns, mt_event_kind kind, mt_span_id span)
{
    move_clock(foreign, time_ns);
    mt_foreign_emit(&foreign->events, (struct mt_event){.kind = (uint16_t)kind, .span = span});
}

void mt_foreign_span_begin(struct mt_foreign *foreign, uint64_t time_ns, mt_span_id span)
{
    emit_span(foreign, time_ns, MT_EVENT_SPAN_BEGIN, span);
}

void mt_foreign_span_end(struct mt_foreign *foreign, uint64_t time_ns, mt_span_id span)
{
    emit_span(foreign, time_ns, MT_EVENT_SPAN_END, span);
}

static void emit_value(struct mt_foreign *foreign, mt_event_kind kind, uint64_t value)
{
    mt_foreign_emit(&foreign->events, (struct mt_event){.kind = (uint16_t)kind, .value = value});
}

static void end_step(struct mt_foreign *foreign)
{
    assert(foreign->step >= 0 && foreign->step < foreign->next_step);
    emit_value(foreign, MT_EVENT_STEP_END, (uint64_t)foreign->step);
    foreign->step = MT_NO_STEP;
}

int64_t mt_foreign_step_begin(struct mt_foreign *foreign, uint64_t time_ns)
{
    move_clock(foreign, time_ns);
    if (foreign->step != MT_NO_STEP) {
        foreign->counts.unmatched_steps++;
        end_step(foreign);
    }
    foreign->step = foreign->next_step++;
    emit_value(foreign, MT_EVENT_STEP_BEGIN, (uint64_t)foreign->step);
    return foreign->step;
}

void mt_foreign_step_end(struct mt_foreign *foreign, uint64_t time_ns)
{
    move_clock(foreign, time_ns);
    if (foreign->step == MT_NO_STEP)
        foreign->counts.unmatched_steps++;
    else
        end_step(foreign);
}

int64_t mt_foreign_step(const struct mt_foreign *foreign)
{
    return foreign->step;
}

void mt_foreign_phase(struct mt_foreign *foreign, uint64_t time_ns, mt_phase phase)
{
    assert(phase < MT_PHASE_COUNT);
    move_clock(foreign, time_ns);
    emit_value(foreign, MT_EVENT_PHASE, phase);
}

void mt_foreign_kernel(struct mt_foreign *foreign, const struct mt_kernel *kernel)
{
    if (foreign->events.sink.kernel != NULL)
        foreign->events.sink.kernel(foreign->events.sink.context, kernel);
}
