/* Private pools: the rules of streams, captures, and the functions to restore a pool's state.
 *
 *   freed during a capture, with users ──▶ waiting ──next request after the captures──▶ free */
#include "alloc/alloc.h"
#include "alloc/block.h"
#include "base/memory.h"

void mt_alloc_set_rules(struct mt_alloc *alloc, mt_stream stream, const struct mt_stream_rules *rules)
{
    mt_biased_lock_take(&alloc->lock);
    if (stream >= alloc->rule_count) {
        const uint32_t count = stream + 1u;
        alloc->rules = mt_host_resize(alloc->rules, count, sizeof *alloc->rules);
        for (uint32_t i = alloc->rule_count; i < count; i++)
            alloc->rules[i] = (struct mt_stream_rules){0};
        alloc->rule_count = count;
    }
    alloc->rules[stream] = *rules;
    mt_biased_lock_give(&alloc->lock);
}

void mt_alloc_capture_begin(struct mt_alloc *alloc)
{
    mt_biased_lock_take(&alloc->lock);
    alloc->captures++;
    mt_biased_lock_give(&alloc->lock);
}

void mt_alloc_capture_end(struct mt_alloc *alloc)
{
    mt_biased_lock_take(&alloc->lock);
    assert(alloc->captures > 0);
    alloc->captures--;
    mt_biased_lock_give(&alloc->lock);
}

/* ---- blocks ---- */

void mt_block_wait(struct mt_alloc *alloc, struct mt_block *block)
{
    assert(block->users != NULL && mt_block_is_out(block));
    block->is_waiting = true;
    block->link[0] = alloc->waiting;
    alloc->waiting = block;
}

void mt_blocks_end_waiting(struct mt_alloc *alloc)
{
    while (alloc->captures == 0 && alloc->waiting != NULL) {
        struct mt_block *block = alloc->waiting;
        alloc->waiting = block->link[0];
        block->is_waiting = false;
        mt_block_free(alloc, block);
    }
}

struct mt_block *mt_block_borrow(struct mt_alloc *alloc, mt_stream stream, uint64_t bytes, mt_label_id label)
{
    struct mt_block *block = NULL;
    for (uint32_t lender = 0; lender < alloc->rule_count && block == NULL; lender++)
        if (alloc->rules[lender].is_lent && alloc->rules[lender].lent_to == stream)
            block = alloc->policy->take(alloc, (mt_stream)lender, bytes, label);
    return block;
}

/* ---- the state of a pool ---- */

static struct mt_alloc_piece piece_of(const struct mt_block *block)
{
    const struct mt_segment *segment = block->segment;
    return (struct mt_alloc_piece){.segment_address = segment->address,
                                   .address = segment->address + block->offset,
                                   .bytes = block->bytes,
                                   .requested_bytes = block->is_free ? 0 : block->requested_bytes,
                                   .stream = segment->stream,
                                   .pool = segment->pool,
                                   .is_range = segment->is_range,
                                   .is_waiting = block->is_waiting};
}

void mt_alloc_visit(struct mt_alloc *alloc, void (*visit)(void *context, const struct mt_alloc_piece *piece),
                    void *context)
{
    mt_biased_lock_take(&alloc->lock);
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        for (const struct mt_block *block = segment->first; block != NULL; block = block->after) {
            const struct mt_alloc_piece piece = piece_of(block);
            if (!block->is_hole)
                visit(context, &piece);
        }
    mt_biased_lock_give(&alloc->lock);
}

static struct mt_block *find_free(const struct mt_alloc *alloc, mt_addr address, uint64_t bytes)
{
    for (const struct mt_segment *segment = alloc->oldest; segment != NULL; segment = segment->newer)
        for (struct mt_block *block = segment->first; block != NULL; block = block->after)
            if (block->is_free && segment->address + block->offset == address && block->bytes >= bytes)
                return block;
    return NULL;
}

mt_status mt_alloc_take_at(struct mt_alloc *alloc, const struct mt_alloc_request *request, mt_addr address,
                           struct mt_block **out)
{
    assert(request->bytes > 0 && request->bytes % MT_BLOCK_UNIT == 0);
    mt_status status = MT_OK;
    mt_biased_lock_take(&alloc->lock);
    struct mt_block *block = find_free(alloc, address, request->bytes);
    if (block != NULL) {
        const struct mt_block_part part = {.bytes = request->bytes};
        alloc->policy->remove(alloc, block);
        block = mt_block_cut(alloc, block, part, alloc->policy->insert);
        mt_block_hand_out(alloc, block, request);
    } else {
        status = mt_fail(MT_USAGE, "no free memory of that size begins at the address");
    }
    mt_biased_lock_give(&alloc->lock);
    *out = block;
    return status;
}
