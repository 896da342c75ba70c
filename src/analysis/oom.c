/* Loads a run up to its last refused request, and sums up what was live then. */
#include "analysis/oom.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Finds the last refusal in the last `extent` events of the run; 0 if there is none. */
static mt_status find_refusal_in(const struct mt_question *question, int64_t extent, int64_t *out_event)
{
    const struct mt_run *run = question->run;
    int64_t last = run->first_event + run->event_count - 1;
    struct mt_mark_row *marks;
    size_t count;
    mt_status status = mt_trace_marks(question->trace, run, last - extent + 1, last, &marks, &count);
    *out_event = 0;
    for (size_t i = count; i-- > 0 && *out_event == 0;)
        if (marks[i].kind == MT_EVENT_OOM)
            *out_event = marks[i].event;
    free(marks);
    return status;
}

/* Finds the last refusal of the run; 0 if there is none. It is near the end, as a rule: so the end is read first. */
static mt_status find_refusal(const struct mt_question *question, int64_t *out_event)
{
    enum { FIRST_EXTENT = 1 << 16, GROWTH = 16 };
    const struct mt_run *run = question->run;
    mt_status status = MT_OK;
    *out_event = 0;
    for (int64_t extent = FIRST_EXTENT; status == MT_OK && *out_event == 0; extent *= GROWTH) {
        bool is_all = extent >= run->event_count;
        status = find_refusal_in(question, is_all ? run->event_count : extent, out_event);
        if (is_all)
            break;
    }
    return status;
}

static mt_status fail_without_refusal(const struct mt_run *run)
{
    if (mt_run_is(run, MT_RUN_OOM))
        return mt_fail(MT_USAGE, "run %" PRId64 " ran out of memory, but the event that says so is not in the trace",
                       run->id);
    return mt_fail(MT_USAGE, "run %" PRId64 " did not run out of memory (its state is %s)", run->id, run->state);
}

/* Returns the number of the step in which the window ends; MT_NO_STEP if it ends between steps. */
static int64_t step_at_end(const struct mt_advice_input *input)
{
    for (size_t i = input->mark_count; i-- > 0;) {
        if (input->marks[i].kind == MT_EVENT_STEP_BEGIN)
            return (int64_t)input->marks[i].value;
        if (input->marks[i].kind == MT_EVENT_STEP_END)
            break;
    }
    return MT_NO_STEP;
}

static int compare_kinds(const void *left, const void *right)
{
    const struct mt_oom_share *a = left, *b = right;
    int order = strcmp(a->category, b->category);
    return order != 0 ? order : strcmp(a->place, b->place);
}

static int compare_shares(const void *left, const void *right)
{
    const struct mt_oom_share *a = left, *b = right;
    int order = MT_COMPARE(b->allocated_bytes, a->allocated_bytes);
    return order != 0 ? order : compare_kinds(left, right);
}

/* Merges shares of one kind, drops those without blocks, and orders the rest. */
static void merge_shares(struct mt_oom_shares *shares)
{
    size_t count = 0;
    qsort(shares->items, shares->count, sizeof *shares->items, compare_kinds);
    for (size_t i = 0; i < shares->count; i++) {
        const struct mt_oom_share *share = &shares->items[i];
        struct mt_oom_share *last = count > 0 ? &shares->items[count - 1] : NULL;
        if (share->blocks == 0)
            continue;
        if (last == NULL || compare_kinds(last, share) != 0) {
            shares->items[count++] = *share;
            continue;
        }
        last->allocated_bytes += share->allocated_bytes;
        last->requested_bytes += share->requested_bytes;
        last->blocks += share->blocks;
    }
    shares->count = count;
    qsort(shares->items, shares->count, sizeof *shares->items, compare_shares);
}

/* Returns a share for each label: its blocks that are live at the window's end. */
static struct mt_oom_shares share_labels(const struct mt_advice_input *input)
{
    struct mt_oom_shares shares = {mt_host_alloc((input->label_count + 1) * sizeof *shares.items), input->label_count};
    for (size_t i = 0; i < input->label_count; i++)
        shares.items[i] = (struct mt_oom_share){.category = input->labels[i].category, .place = input->labels[i].place};
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        assert(block->label < input->label_count);
        if (block->free_event != 0)
            continue;
        shares.items[block->label].allocated_bytes += block->block_bytes;
        shares.items[block->label].requested_bytes += block->requested_bytes;
        shares.items[block->label].blocks++;
    }
    return shares;
}

static void find_shares(struct mt_oom *oom)
{
    oom->places = share_labels(&oom->material.input);
    oom->categories = share_labels(&oom->material.input);
    for (size_t i = 0; i < oom->categories.count; i++)
        oom->categories.items[i].place = "";
    merge_shares(&oom->places);
    merge_shares(&oom->categories);
}

mt_status mt_oom_load(const struct mt_question *question, struct mt_oom *out)
{
    enum { MOST_FINDINGS = 12 };
    *out = (struct mt_oom){0};
    mt_status status = find_refusal(question, &out->event);
    if (status == MT_OK && out->event == 0)
        return fail_without_refusal(question->run);
    if (status == MT_OK)
        status = mt_advice_material_load_until(question, out->event, &out->material);
    const struct mt_advice_input *input = &out->material.input;
    if (status == MT_OK)
        status = mt_refusal_create(input, &out->refusal);
    if (status == MT_OK)
        status = mt_replayed_changes_create(input, &out->refusal, MOST_FINDINGS, &out->replayed);
    if (status != MT_OK)
        return status;
    out->step = step_at_end(input);
    find_shares(out);
    return MT_OK;
}

void mt_oom_release(struct mt_oom *oom)
{
    mt_replayed_changes_release(&oom->replayed);
    mt_refusal_release(&oom->refusal);
    mt_advice_material_release(&oom->material);
    free(oom->categories.items);
    free(oom->places.items);
    *oom = (struct mt_oom){0};
}
