/* The kinds of changes except checkpoints, and the list of all kinds. */
#include "analysis/advise/program_changes.h"

#include "analysis/changed_run.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define X(kind, name, cost) {name, MT_COST_##cost},
const struct mt_change_kind_row mt_change_kinds[MT_CHANGE_KIND_COUNT] = {MT_CHANGE_KINDS(X)};
#undef X

/* True if `after` is at least a hundredth lower. */
static bool is_lower(uint64_t after, uint64_t before)
{
    enum { WORTHWHILE_PART = 100 };
    return after < before && before - after >= before / WORTHWHILE_PART;
}

/* True if a setting lowers the reserved peak by a twentieth, and at least a tenth of the reserved memory is not
 * allocated. */
static bool is_setting_told(const struct mt_replay_result *after, const struct mt_replay_result *before)
{
    enum { UNUSED_PART = 10, SAVED_PART = 20 };
    return before->reserved_bytes - before->allocated_bytes >= before->reserved_bytes / UNUSED_PART &&
           after->reserved_bytes < before->reserved_bytes &&
           before->reserved_bytes - after->reserved_bytes >= before->reserved_bytes / SAVED_PART;
}

/* True if a peak is higher than before, as of gradients that stay allocated for the other half of a batch. */
static bool is_higher(const struct mt_replay_result *after, const struct mt_replay_result *before)
{
    return after->requested_bytes > before->requested_bytes || after->allocated_bytes > before->allocated_bytes ||
           after->reserved_bytes > before->reserved_bytes;
}

/* True if the change is worth reporting: a run that ended out of memory now completes, or a peak is lower and none is
 * higher. */
static bool is_told(const struct mt_program_change *change, const struct mt_replay_result *before)
{
    const struct mt_replay_result *after = &change->replay;
    if (after->fits != before->fits)
        return after->fits;
    if (change->kind == MT_CHANGE_ALLOCATOR)
        return is_setting_told(after, before);
    return !is_higher(after, before) && (is_lower(after->reserved_bytes, before->reserved_bytes) ||
                                         is_lower(after->allocated_bytes, before->allocated_bytes));
}

mt_status mt_program_changes_add(struct mt_program_changes *changes, const struct mt_changed_run *changed,
                                 const struct mt_program_change *change)
{
    struct mt_program_change item = *change;
    item.bytes = changed->peak_bytes;
    item.blocks = changed->peak_blocks;
    MT_TRY(mt_changed_run_replay(changed, &item.alloc, &item.replay));
    if (!is_told(&item, &changes->as_it_was))
        return MT_OK;
    item.place = mt_host_strdup(item.place);
    *MT_HOST_ADD(changes->items, changes->count) = item;
    return MT_OK;
}

/* ---- settings of the allocator ---- */

/* Returns the settings with one of them changed to a value that may reserve less. */
static struct mt_alloc_settings vary(const struct mt_advice_input *input, int which)
{
    enum { MAX_SPLIT_BYTES = 128 << 20, DIVISIONS = 8 };
    static const double THRESHOLD = 0.8;
    struct mt_alloc_settings settings = input->settings;
    switch (which) {
    case 0:
        settings.expandable_segments = !settings.expandable_segments;
        break;
    case 1:
        settings.max_split_bytes = settings.max_split_bytes == UINT64_MAX ? MAX_SPLIT_BYTES : UINT64_MAX;
        break;
    case 2:
        settings.roundup_power2_divisions = settings.roundup_power2_divisions == 0 ? DIVISIONS : 0;
        break;
    default:
        settings.gc_threshold = settings.gc_threshold == 0 ? THRESHOLD : 0;
    }
    assert(mt_alloc_settings_are_sound(&settings));
    return settings;
}

/* Keeps the setting that reserves least, the first of equal ones. The list contains only settings. */
static void keep_best_setting(struct mt_program_changes *changes)
{
    size_t best = 0;
    for (size_t i = 1; i < changes->count; i++)
        if (changes->items[i].replay.reserved_bytes < changes->items[best].replay.reserved_bytes)
            best = i;
    for (size_t i = 0; i < changes->count; i++)
        if (i != best)
            free((char *)changes->items[i].place);
    if (changes->count > 0)
        changes->items[0] = changes->items[best];
    changes->count = changes->count > 0;
}

static mt_status add_settings(const struct mt_window *window, struct mt_program_changes *out)
{
    enum { VARIED = 4 }; /* the last depends on the capacity */
    struct mt_changed_run changed;
    mt_status status = MT_OK;
    if (window->input->settings.policy != MT_POLICY_TORCH)
        return MT_OK;
    mt_changed_run_create(window, &changed);
    int count = window->input->capacity_bytes < INT64_MAX ? VARIED : VARIED - 1;
    for (int i = 0; i < count && status == MT_OK; i++) {
        const struct mt_program_change change = {
            .kind = MT_CHANGE_ALLOCATOR, .place = "", .alloc = vary(window->input, i)};
        status = mt_program_changes_add(out, &changed, &change);
    }
    mt_changed_run_release(&changed);
    keep_best_setting(out);
    return status;
}

/* ---- gradients ---- */

static bool is_gradient(const struct mt_window *window, size_t index)
{
    return window->roles[window->input->blocks[index].label] == MT_ROLE_GRADIENT;
}

static bool has_gradients(const struct mt_window *window)
{
    for (size_t i = 0; i < window->input->block_count; i++)
        if (is_gradient(window, i))
            return true;
    return false;
}

static mt_status add_zero_grad(const struct mt_window *window, struct mt_program_changes *out)
{
    struct mt_changed_run changed;
    struct mt_program_change change = {.kind = MT_CHANGE_ZERO_GRAD, .place = "", .alloc = window->input->settings};
    mt_changed_run_create(window, &changed);
    struct mt_cut_list cuts = {0};
    for (size_t i = 0; i < window->input->block_count; i++)
        mt_cut_kept_gradient(window, i, &cuts);
    for (size_t i = 0; i < cuts.count; i++)
        mt_changed_run_cut(&changed, cuts.items[i].block, cuts.items[i].from, cuts.items[i].to);
    mt_status status = cuts.count > 0 ? mt_program_changes_add(out, &changed, &change) : MT_OK;
    mt_cut_list_release(&cuts);
    mt_changed_run_release(&changed);
    return status;
}

/* Returns the event at which another forward pass of the same step begins, by the marks from `at` on; 0 if there is
 * none. A pass needs a backward: the time after the optimizer also has the phase forward, which belongs to the next
 * step. */
static int64_t next_forward_in_step(const struct mt_advice_input *input, size_t at)
{
    int64_t forward = 0;
    for (; at < input->mark_count; at++) {
        const struct mt_mark_row *mark = &input->marks[at];
        if (mark->kind == MT_EVENT_STEP_END || mark->kind == MT_EVENT_STEP_BEGIN)
            return 0;
        if (mark->kind == MT_EVENT_PHASE && mark->value == MT_PHASE_FORWARD && forward == 0)
            forward = mark->event;
        if (mark->kind == MT_EVENT_PHASE && mark->value == MT_PHASE_BACKWARD && forward != 0)
            return forward;
    }
    return 0;
}

/* True if a gradient lives into another forward pass of the step that allocated it: that pass accumulates into it. */
static bool accumulates(const struct mt_window *window)
{
    const struct mt_advice_input *input = window->input;
    size_t mark = 0;
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        if (!is_gradient(window, i) || block->alloc_event < input->first_event)
            continue;
        while (mark < input->mark_count && input->marks[mark].event <= block->alloc_event)
            mark++;
        int64_t forward = next_forward_in_step(input, mark);
        if (forward != 0 && mt_block_is_live(block, forward))
            return true;
    }
    return false;
}

/* Ends each gradient when the next one is allocated, or at its own free if that is earlier. */
static mt_status add_in_backward(const struct mt_window *window, struct mt_program_changes *out)
{
    struct mt_changed_run changed;
    const struct mt_advice_input *input = window->input;
    struct mt_program_change change = {.kind = MT_CHANGE_IN_BACKWARD, .place = "", .alloc = input->settings};
    size_t last = SIZE_MAX;
    mt_changed_run_create(window, &changed);
    for (size_t i = 0; i < input->block_count; i++) {
        if (!is_gradient(window, i))
            continue;
        if (last != SIZE_MAX)
            mt_changed_run_cut(&changed, last, mt_position_after(input->blocks[i].alloc_event), MT_POSITION_NEVER);
        last = i;
    }
    mt_status status = mt_program_changes_add(out, &changed, &change);
    mt_changed_run_release(&changed);
    return status;
}

/* True if DDP has buckets of gradients. */
static bool has_buckets(const struct mt_window *window)
{
    const struct mt_advice_input *input = window->input;
    for (size_t i = 0; i < input->block_count; i++)
        if (is_gradient(window, i) && strcmp(input->labels[input->blocks[i].label].span, "buckets") == 0)
            return true;
    return false;
}

/* Returns why an optimizer can't update a parameter once its gradient is computed. */
static mt_change_gap gap_of_updates(const struct mt_window *window)
{
    if (has_buckets(window))
        return MT_GAP_BUCKETS;
    return accumulates(window) ? MT_GAP_ACCUMULATED : MT_GAP_NONE;
}

static mt_status add_gradients(const struct mt_window *window, struct mt_program_changes *out)
{
    mt_change_gap gap = has_gradients(window) ? MT_GAP_NONE : MT_GAP_NO_GRADIENTS;
    if (gap == MT_GAP_NONE && window->step_count == 0)
        gap = MT_GAP_NO_STEPS;
    out->gaps[MT_CHANGE_ZERO_GRAD] = gap;
    out->gaps[MT_CHANGE_IN_BACKWARD] = gap == MT_GAP_NONE ? gap_of_updates(window) : gap;
    if (gap == MT_GAP_NONE)
        MT_TRY(add_zero_grad(window, out));
    return out->gaps[MT_CHANGE_IN_BACKWARD] == MT_GAP_NONE ? add_in_backward(window, out) : MT_OK;
}

/* ---- the optimizer's state ---- */

static bool is_state(const struct mt_window *window, size_t index)
{
    return window->roles[window->input->blocks[index].label] == MT_ROLE_OPTIMIZER_STATE;
}

/* Returns the size of a state in 8 bits: one byte per element, and a float for each block of 256. Elements of a label
 * without a dtype are assumed to have 4 bytes, as in most optimizers. */
static uint64_t bytes_in_8_bits(const struct mt_label_row *label, uint64_t bytes)
{
    enum { LEAST_ELEMENTS = 4096, ELEMENTS_A_SCALE = 256, SCALE_BYTES = 4 };
    bool is_half = strcmp(label->dtype, "bf16") == 0 || strcmp(label->dtype, "fp16") == 0;
    uint64_t elements = bytes / (is_half ? 2 : 4);
    if (elements < LEAST_ELEMENTS)
        return bytes;
    return mt_smaller(bytes, elements + (elements + ELEMENTS_A_SCALE - 1) / ELEMENTS_A_SCALE * SCALE_BYTES);
}

/* A state of the run: its size, and its block's position. */
struct state {
    uint64_t bytes;
    size_t index;
};

static int compare_states(const void *left, const void *right)
{
    const struct state *a = left, *b = right;
    int order = MT_COMPARE(a->bytes, b->bytes);
    return order != 0 ? order : MT_COMPARE(a->index, b->index);
}

/* Shrinks the states to what the optimizer needs. Of two equal states, which are the moments of a parameter, momentum
 * keeps the first. */
static void shrink(const struct state *states, size_t count, mt_lean_optimizer optimizer,
                   struct mt_changed_run *changed)
{
    for (size_t i = 0, alike = 0; i < count; i++) {
        const struct mt_label_row *label = &changed->input.labels[changed->blocks[states[i].index].label];
        alike = i > 0 && states[i - 1].bytes == states[i].bytes ? alike + 1 : 0;
        if (optimizer == MT_OPTIMIZER_8BIT)
            mt_changed_run_resize(changed, states[i].index, bytes_in_8_bits(label, states[i].bytes));
        else if (optimizer != MT_OPTIMIZER_MOMENTUM || alike % 2 == 1)
            mt_changed_run_resize(changed, states[i].index, 0);
    }
}

/* True if the run has two states per parameter: state is then about twice as large as the parameters. */
static bool has_two_states(const struct mt_window *window)
{
    const struct mt_advice_input *input = window->input;
    uint64_t states = 0, parameters = 0;
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        if (mt_window_is_live(window, block, window->usage.peak_position)) {
            states += is_state(window, i) ? block->requested_bytes : 0;
            parameters += window->roles[block->label] == MT_ROLE_PARAMETER ? block->requested_bytes : 0;
        }
    }
    return parameters > 0 && states / 3 >= parameters / 2;
}

static mt_status add_optimizer(const struct mt_window *window, const struct state *states, size_t count,
                               mt_lean_optimizer optimizer, struct mt_program_changes *out)
{
    struct mt_changed_run changed;
    const struct mt_program_change change = {
        .kind = MT_CHANGE_LESS_STATE, .optimizer = optimizer, .place = "", .alloc = window->input->settings};
    mt_changed_run_create(window, &changed);
    shrink(states, count, optimizer, &changed);
    mt_status status = mt_program_changes_add(out, &changed, &change);
    mt_changed_run_release(&changed);
    return status;
}

static mt_status add_optimizers(const struct mt_window *window, struct mt_program_changes *out)
{
    struct state *states = mt_host_alloc((window->input->block_count + 1) * sizeof *states);
    size_t count = 0;
    for (size_t i = 0; i < window->input->block_count; i++)
        if (is_state(window, i))
            states[count++] = (struct state){window->input->blocks[i].requested_bytes, i};
    qsort(states, count, sizeof *states, compare_states);
    out->gaps[MT_CHANGE_LESS_STATE] = count > 0 ? MT_GAP_NONE : MT_GAP_NO_STATE;
    mt_status status = MT_OK;
    for (mt_lean_optimizer optimizer = 0; optimizer < MT_OPTIMIZER_COUNT && count > 0 && status == MT_OK; optimizer++)
        if (optimizer != MT_OPTIMIZER_MOMENTUM || has_two_states(window))
            status = add_optimizer(window, states, count, optimizer, out);
    free(states);
    return status;
}

/* ---- all kinds ---- */

mt_change_tier mt_change_tier_of(bool is_option, uint64_t saved_bytes, uint64_t most_bytes)
{
    enum { ENOUGH_PART = 2 };
    return is_option && saved_bytes >= most_bytes / ENOUGH_PART ? MT_TIER_OPTION : MT_TIER_SAVING;
}

static uint64_t saved_by(const struct mt_program_changes *changes, const struct mt_program_change *change)
{
    assert(change->replay.reserved_bytes <= changes->as_it_was.reserved_bytes || change->replay.fits);
    return change->replay.reserved_bytes < changes->as_it_was.reserved_bytes
               ? changes->as_it_was.reserved_bytes - change->replay.reserved_bytes
               : 0;
}

static mt_change_tier tier_of(const struct mt_program_changes *changes, const struct mt_program_change *change,
                              uint64_t most_bytes)
{
    static const mt_change_tier optimizers[MT_OPTIMIZER_COUNT] = {MT_TIER_SAVING, MT_TIER_TRANSFER, MT_TIER_ANOTHER,
                                                                  MT_TIER_ANOTHER};
    const mt_remedy_cost cost = mt_change_kinds[change->kind].cost;
    if (change->kind == MT_CHANGE_LESS_STATE)
        return optimizers[change->optimizer];
    return mt_change_tier_of(cost == MT_COST_LINE || cost == MT_COST_SETTING, saved_by(changes, change), most_bytes);
}

static void find_tiers(struct mt_program_changes *changes)
{
    uint64_t most_bytes = 0;
    for (size_t i = 0; i < changes->count; i++)
        most_bytes = mt_larger(most_bytes, saved_by(changes, &changes->items[i]));
    for (size_t i = 0; i < changes->count; i++)
        changes->items[i].tier = tier_of(changes, &changes->items[i], most_bytes);
}

static int compare_changes(const void *left, const void *right)
{
    const struct mt_program_change *a = left, *b = right;
    int order = MT_COMPARE(a->tier, b->tier);
    if (order == 0)
        order = MT_COMPARE(a->replay.reserved_bytes, b->replay.reserved_bytes);
    if (order == 0)
        order = MT_COMPARE(a->replay.allocated_bytes, b->replay.allocated_bytes);
    return order != 0 ? order : MT_COMPARE(a->kind, b->kind);
}

mt_status mt_program_changes_create(const struct mt_advice_input *input, struct mt_program_changes *out)
{
    struct mt_window window;
    *out = (struct mt_program_changes){0};
    mt_window_create(input, &window);
    mt_status status = mt_window_replay(&window, NULL, 0, &input->settings, &out->as_it_was);
    MT_THEN(status, add_settings(&window, out));
    MT_THEN(status, add_gradients(&window, out));
    MT_THEN(status, mt_program_changes_add_checkpoints(&window, out));
    MT_THEN(status, mt_program_changes_add_batches(&window, out->gaps[MT_CHANGE_ZERO_GRAD] == MT_GAP_NONE, out));
    MT_THEN(status, add_optimizers(&window, out));
    find_tiers(out);
    if (input->program.only_infers) /* changes of training do not apply, whatever the trace lacks */
        memset(out->gaps, 0, sizeof out->gaps);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_changes);
    mt_window_release(&window);
    return status;
}

void mt_program_changes_release(struct mt_program_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++)
        free((char *)changes->items[i].place);
    free(changes->items);
    *changes = (struct mt_program_changes){0};
}
