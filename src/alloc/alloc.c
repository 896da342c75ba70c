/* The functions of alloc.h: the lock, allocating and freeing blocks, counters and events.
 *
 * The policy makes every decision; segment.c and range.c change the segments. Events are emitted in the order of the
 * changes, each after its change. */
#include "alloc/alloc.h"

#include "alloc/block.h"
#include "alloc/follow.h"
#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

uint64_t mt_alloc_events(const struct mt_alloc *alloc)
{
    return atomic_load_explicit(&alloc->next_sequence, memory_order_relaxed);
}

static uint64_t next_sequence(struct mt_alloc *alloc)
{
    uint64_t sequence = mt_alloc_events(alloc);
    atomic_store_explicit(&alloc->next_sequence, sequence + 1, memory_order_relaxed);
    return sequence;
}

void mt_alloc_emit(struct mt_alloc *alloc, struct mt_event *event)
{
    assert(event->kind < MT_EVENT_KIND_COUNT);
    event->sequence = next_sequence(alloc);
    if (alloc->sink.emit == NULL)
        return;
    uint64_t now = mt_device_now_ns(alloc->device);
    if (now > alloc->last_ns)
        alloc->last_ns = now;
    assert(alloc->last_ns >= alloc->start_ns);
    event->time_ns = alloc->last_ns - alloc->start_ns;
    alloc->sink.emit(alloc->sink.context, event);
}

static const struct mt_policy_table *policy_of(const struct mt_alloc_settings *settings)
{
    return settings->policy == MT_POLICY_TORCH ? &mt_policy_torch : &mt_policy_tight;
}

bool mt_alloc_need(const struct mt_alloc_settings *settings, uint64_t requested_bytes, struct mt_alloc_need *out)
{
    const struct mt_policy_table *policy = policy_of(settings);
    struct mt_alloc_need need = {.small_limit_bytes = policy->small_limit_bytes};
    if (!policy->round(settings, requested_bytes, &need.block_bytes) ||
        !policy->least_segment(settings, need.block_bytes, &need.segment_bytes))
        return false;
    assert(requested_bytes <= need.block_bytes && need.block_bytes <= need.segment_bytes);
    *out = need;
    return true;
}

mt_status mt_alloc_create(struct mt_device *device, const struct mt_sink *sink,
                          const struct mt_alloc_settings *settings, struct mt_alloc **out)
{
    assert(mt_alloc_settings_are_sound(settings));
    struct mt_alloc *alloc = mt_host_alloc(sizeof *alloc);
    mt_lock_create(&alloc->lock.lock, MT_RANK_ALLOC);
    alloc->policy = policy_of(settings);
    alloc->index = alloc->policy->create();
    alloc->device = device;
    alloc->sink = *sink;
    alloc->settings = *settings;
    alloc->places = mt_address_space_create();
    alloc->start_ns = alloc->last_ns = mt_device_now_ns(device);
    *out = alloc;
    return MT_OK;
}

/* Makes a segment idle, even if it has live blocks. */
static void abandon_blocks(struct mt_alloc *alloc, struct mt_segment *segment)
{
    for (struct mt_block *block = segment->first; block != NULL; block = block->after) {
        if (block->is_free || block->is_hole)
            continue;
        mt_block_remove_users(alloc, block);
        block->is_free = true;
        block = alloc->policy->give(alloc, block);
    }
}

void mt_alloc_destroy(struct mt_alloc *alloc)
{
    if (alloc == NULL)
        return;
    assert(mt_alloc_check(alloc) == MT_OK);
    alloc->rule_count = alloc->captures = 0;
    mt_blocks_end_waiting(alloc);
    mt_segments_release(alloc, UINT64_MAX);
    alloc->sink.emit = NULL; /* the remaining segments have live blocks, which are live at the end of the trace */
    for (struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        abandon_blocks(alloc, segment);
    mt_segments_release(alloc, UINT64_MAX);
    assert(alloc->oldest == NULL && alloc->stats.segments == 0 && alloc->stats.reserved_bytes == 0);
    alloc->policy->destroy(alloc->index);
    mt_follower_destroy(alloc->follower);
    mt_address_space_release(&alloc->places);
    mt_block_store_destroy(&alloc->store);
    free(alloc->rules);
    free(alloc);
}

/* ---- counters and events ---- */

static void count_out(struct mt_alloc_count *count, const struct mt_block *block)
{
    count->requested_bytes += block->requested_bytes;
    count->allocated_bytes += block->bytes;
    count->blocks++;
    count->total_allocs++;
    if (count->requested_bytes > count->peak_requested_bytes)
        count->peak_requested_bytes = count->requested_bytes;
    if (count->allocated_bytes > count->peak_allocated_bytes)
        count->peak_allocated_bytes = count->allocated_bytes;
    assert(mt_alloc_count_is_sound(count));
}

static void count_back(struct mt_alloc_count *count, const struct mt_block *block)
{
    assert(count->requested_bytes >= block->requested_bytes && count->allocated_bytes >= block->bytes);
    assert(count->blocks > 0);
    count->requested_bytes -= block->requested_bytes;
    count->allocated_bytes -= block->bytes;
    count->blocks--;
    assert(mt_alloc_count_is_sound(count));
}

/* Emits the event. The block is volatile for the reason explained at mt_record_of_event, and each field of the event
 * has a value since it would be cleared first otherwise. */
static __attribute__((noinline)) uint64_t emit_wanted(struct mt_alloc *alloc, mt_event_kind kind,
                                                      const volatile struct mt_block *block, mt_stack_id stack)
{
    const struct mt_segment *segment = block->segment;
    assert(block->requested_bytes <= block->bytes && block->offset + block->bytes <= segment->bytes);
    struct mt_event event = {.sequence = 0,
                             .time_ns = 0,
                             .requested_bytes = block->requested_bytes,
                             .block_bytes = block->bytes,
                             .offset = block->offset,
                             .segment = segment->birth,
                             .label = block->label,
                             .span = block->span,
                             .stack = stack,
                             .kind = (uint16_t)kind,
                             .stream = segment->stream,
                             .checksum = 0};
    mt_alloc_emit(alloc, &event);
    return event.sequence;
}

/* Emits an alloc or free event of a block; returns its sequence. */
static inline uint64_t emit_block(struct mt_alloc *alloc, mt_event_kind kind, const struct mt_block *block,
                                  mt_stack_id stack)
{
    return alloc->sink.emit == NULL ? next_sequence(alloc) : emit_wanted(alloc, kind, block, stack);
}

/* ---- allocating ---- */

/* Returns a block for a request, cut to size and not in the index; NULL if there is none. */
static struct mt_block *obtain(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label)
{
    struct mt_block *block = alloc->policy->take(alloc, stream, bytes, label);
    if (block != NULL)
        return block;
    alloc->failure = MT_OUT_OF_MEMORY; /* if the request is too large to ask the device */
    return alloc->policy->grow(alloc, stream, bytes, label);
}

/* The same, following a plan if there is one. The plan is given up before a request is refused. */
static struct mt_block *serve(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label)
{
    assert(mt_biased_lock_is_held(&alloc->lock));
    struct mt_block *block = alloc->follower != NULL ? mt_follow_take(alloc, stream, bytes) : NULL;
    if (block == NULL)
        block = obtain(alloc, stream, bytes, label);
    if (block == NULL && mt_follow_give_up(alloc))
        block = obtain(alloc, stream, bytes, label);
    if (block == NULL && alloc->rule_count > 0)
        block = mt_block_borrow(alloc, stream, bytes, label);
    assert(block == NULL || (block->bytes >= bytes && mt_block_is_sound(block)));
    assert(block == NULL || block->users == NULL);
    return block;
}

/* Fails with the requested and the available bytes. */
static mt_status fail_out_of_memory(const struct mt_alloc *alloc, const struct mt_alloc_refusal *refusal)
{
    const struct mt_alloc_stats *stats = &alloc->stats;
    char asked[MT_BYTES_TEXT], live[MT_BYTES_TEXT], cached[MT_BYTES_TEXT], reserved[MT_BYTES_TEXT],
        capacity[MT_BYTES_TEXT];
    return mt_fail(
        MT_OUT_OF_MEMORY,
        "out of device memory on %s: asked for %s (%" PRIu64 " bytes) of %s; %s are live and %s cached, in %s "
        "reserved of a capacity of %s",
        alloc->device->name, mt_format_bytes(refusal->requested_bytes, asked), refusal->requested_bytes,
        mt_sink_category_name(&alloc->sink, mt_label_category(refusal->label)),
        mt_format_bytes(stats->all.allocated_bytes, live),
        mt_format_bytes(stats->reserved_bytes - stats->all.allocated_bytes, cached),
        mt_format_bytes(stats->reserved_bytes, reserved), mt_format_bytes(alloc->device->capacity_bytes, capacity));
}

/* Fails with the device's own message, if the device failed for another reason than out of memory. */
static mt_status fail_device(const struct mt_alloc *alloc, const struct mt_alloc_refusal *refusal)
{
    char asked[MT_BYTES_TEXT];
    return mt_fail_context(alloc->failure, "%s of %s", mt_format_bytes(refusal->requested_bytes, asked),
                           mt_sink_category_name(&alloc->sink, mt_label_category(refusal->label)));
}

/* Releases the cache and emits the oom event, if the device is out of memory. reserved_before is from before the
 * request, since the policy may have released memory in the meantime. */
static __attribute__((cold, noinline)) mt_status refuse(struct mt_alloc *alloc, const struct mt_alloc_request *request,
                                                        uint64_t reserved_before)
{
    struct mt_alloc_refusal refusal = {
        .requested_bytes = request->bytes, .label = request->label, .span = request->span};
    if (alloc->failure != MT_OUT_OF_MEMORY)
        return fail_device(alloc, &refusal);
    if (alloc->captures == 0)
        mt_segments_release(alloc, UINT64_MAX);
    assert(reserved_before >= alloc->stats.reserved_bytes);
    refusal.released_bytes = reserved_before - alloc->stats.reserved_bytes;
    for (int c = 0; c < MT_MOST_CATEGORIES; c++)
        refusal.live_bytes[c] = alloc->stats.category[c].allocated_bytes;
    alloc->stats.ooms++;
    alloc->stats.last_refusal = refusal;
    struct mt_event event = {.kind = MT_EVENT_OOM,
                             .stream = request->stream,
                             .requested_bytes = request->bytes,
                             .label = request->label,
                             .span = request->span,
                             .stack = request->stack};
    mt_alloc_emit(alloc, &event);
    return fail_out_of_memory(alloc, &refusal);
}

void mt_block_hand_out(struct mt_alloc *alloc, struct mt_block *block, const struct mt_alloc_request *request)
{
    assert(request->bytes > 0 && request->bytes <= block->bytes && !block->is_hole);
    block->is_free = false;
    block->requested_bytes = request->bytes;
    block->label = request->label;
    block->span = request->span;
    count_out(&alloc->stats.all, block);
    count_out(&alloc->stats.category[mt_label_category(request->label)], block);
    block->sequence = emit_block(alloc, MT_EVENT_ALLOC, block, request->stack);
    mt_pool_count_out(alloc, block);
    assert(mt_alloc_is_sound(alloc));
}

mt_status mt_alloc_serve(struct mt_alloc *alloc, const struct mt_alloc_request *request, struct mt_block **out)
{
    *out = NULL;
    if (request->bytes == 0)
        return mt_fail(MT_USAGE, "a block of 0 bytes was requested");
    assert(mt_label_category(request->label) < MT_MOST_CATEGORIES);
    mt_biased_lock_take(&alloc->lock);
    if (alloc->waiting != NULL)
        mt_blocks_end_waiting(alloc);
    uint64_t rounded, reserved_before = alloc->stats.reserved_bytes;
    struct mt_block *block = NULL;
    if (alloc->policy->round(&alloc->settings, request->bytes, &rounded))
        block = serve(alloc, request->stream, rounded, request->label);
    else
        alloc->failure = MT_OUT_OF_MEMORY; /* the size overflows, so no device has enough memory */
    mt_status status = MT_OK;
    if (block != NULL)
        mt_block_hand_out(alloc, block, request);
    else
        status = refuse(alloc, request, reserved_before);
    mt_biased_lock_give(&alloc->lock);
    *out = block;
    return status;
}

mt_status mt_alloc_take(struct mt_alloc *alloc, uint64_t bytes, mt_stream stream, mt_label_id label, mt_span_id span,
                        struct mt_block **out)
{
    const struct mt_alloc_request request = {.bytes = bytes, .stream = stream, .label = label, .span = span};
    return mt_alloc_serve(alloc, &request, out);
}

void mt_block_free(struct mt_alloc *alloc, struct mt_block *block)
{
    mt_pool_count_free(alloc, block);
    if (block->users != NULL)
        mt_block_wait_for_users(alloc, block);
    block->is_free = true;
    alloc->policy->give(alloc, block);
    assert(mt_alloc_is_sound(alloc));
}

void mt_alloc_give(struct mt_alloc *alloc, struct mt_block *block)
{
    if (block == NULL)
        return;
    mt_biased_lock_take(&alloc->lock);
    assert(mt_block_is_out(block) && mt_block_is_sound(block));
    count_back(&alloc->stats.all, block);
    count_back(&alloc->stats.category[mt_label_category(block->label)], block);
    mt_pool_count_back(alloc, block);
    emit_block(alloc, MT_EVENT_FREE, block, 0);
    if (alloc->captures > 0 && block->users != NULL)
        mt_block_wait(alloc, block);
    else
        mt_block_free(alloc, block);
    mt_biased_lock_give(&alloc->lock);
}

void mt_alloc_relabel(struct mt_alloc *alloc, struct mt_block *block, mt_label_id label, mt_span_id span)
{
    assert(mt_label_category(label) < MT_MOST_CATEGORIES);
    mt_biased_lock_take(&alloc->lock);
    assert(mt_block_is_out(block));
    if (block->label != label || block->span != span) {
        count_back(&alloc->stats.category[mt_label_category(block->label)], block);
        block->label = label;
        block->span = span;
        count_out(&alloc->stats.category[mt_label_category(label)], block);
        emit_block(alloc, MT_EVENT_RELABEL, block, 0);
    }
    assert(mt_alloc_is_sound(alloc));
    mt_biased_lock_give(&alloc->lock);
}

mt_addr mt_block_address(const struct mt_block *block)
{
    assert(mt_block_is_out(block));
    return block->segment->address + block->offset;
}

uint64_t mt_block_requested_bytes(const struct mt_block *block)
{
    assert(mt_block_is_out(block));
    return block->requested_bytes;
}

mt_stream mt_block_stream(const struct mt_block *block)
{
    assert(mt_block_is_out(block));
    return block->segment->stream;
}

uint64_t mt_block_sequence(const struct mt_block *block)
{
    assert(mt_block_is_out(block));
    return block->sequence;
}

mt_label_id mt_block_label(const struct mt_block *block)
{
    assert(mt_block_is_out(block));
    return block->label;
}

mt_span_id mt_block_span(const struct mt_block *block)
{
    assert(mt_block_is_out(block));
    return block->span;
}

void mt_alloc_release_cached(struct mt_alloc *alloc)
{
    mt_biased_lock_take(&alloc->lock);
    mt_blocks_end_waiting(alloc);
    mt_segments_release(alloc, UINT64_MAX);
    mt_biased_lock_give(&alloc->lock);
}

/* ---- the sink, in the order of events ---- */

mt_label_id mt_alloc_intern_label(struct mt_alloc *alloc, const struct mt_label *label)
{
    mt_biased_lock_take(&alloc->lock);
    assert(alloc->sink.intern_label != NULL);
    mt_label_id id = alloc->sink.intern_label(alloc->sink.context, label);
    assert(mt_label_category(id) < MT_MOST_CATEGORIES);
    mt_biased_lock_give(&alloc->lock);
    return id;
}

mt_span_id mt_alloc_intern_span(struct mt_alloc *alloc, mt_span_id parent, const char *name)
{
    mt_biased_lock_take(&alloc->lock);
    assert(alloc->sink.intern_span != NULL);
    mt_span_id id = alloc->sink.intern_span(alloc->sink.context, parent, name);
    mt_biased_lock_give(&alloc->lock);
    return id;
}

mt_category mt_alloc_intern_category(struct mt_alloc *alloc, const char *name)
{
    mt_biased_lock_take(&alloc->lock);
    mt_category category = mt_sink_category(&alloc->sink, name);
    mt_biased_lock_give(&alloc->lock);
    return category;
}

void mt_alloc_mark(struct mt_alloc *alloc, mt_event_kind kind, uint64_t value, mt_span_id span)
{
    assert(kind >= MT_EVENT_SPAN_BEGIN && kind < MT_EVENT_KIND_COUNT);
    struct mt_event event = {.kind = (uint16_t)kind, .value = value, .span = span};
    mt_biased_lock_take(&alloc->lock);
    if (kind == MT_EVENT_STEP_BEGIN)
        mt_follow_step(alloc, value);
    mt_alloc_emit(alloc, &event);
    mt_biased_lock_give(&alloc->lock);
}

/* Converts a time of the device to the events' clock, which begins at 0. */
static uint64_t since_start(const struct mt_alloc *alloc, uint64_t device_ns)
{
    return device_ns > alloc->start_ns ? device_ns - alloc->start_ns : 0;
}

void mt_alloc_kernel(struct mt_alloc *alloc, const struct mt_kernel *kernel)
{
    if (alloc->sink.kernel == NULL)
        return;
    struct mt_kernel stored = *kernel;
    stored.start_ns = since_start(alloc, kernel->start_ns);
    stored.end_ns = since_start(alloc, kernel->end_ns);
    mt_biased_lock_take(&alloc->lock);
    alloc->sink.kernel(alloc->sink.context, &stored);
    mt_biased_lock_give(&alloc->lock);
}

void mt_alloc_use(struct mt_alloc *alloc, const struct mt_use *use)
{
    if (alloc->sink.use == NULL)
        return;
    mt_biased_lock_take(&alloc->lock);
    alloc->sink.use(alloc->sink.context, use);
    mt_biased_lock_give(&alloc->lock);
}
