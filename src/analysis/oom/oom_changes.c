/* The changes with which a replay of the refused request succeeds. */
#include "analysis/lifetimes.h"
#include "analysis/oom/oom.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The run up to the refusal, as if the request had succeeded: it is one more block, allocated by the event that refused
 * it and never freed. So detectors, cuts and replays need not know about the refusal. The trace does not show which
 * blocks the op of the request was about to read. Blocks that its layer last used or keeps are assumed to be read. This
 * includes more than the op reads, so that no change removes its operands.
 * Invariant: input borrows blocks and uses, whose last element is the request. Do not copy or move: `window` borrows
 * input. */
struct extended {
    struct mt_advice_input input;
    struct mt_window window;
    struct mt_block_row *blocks;
    struct mt_use_row *uses;
};

/* The layer of the request or, outside layers, its span. Spans that begin with `length` characters of `span` are
 * inside. */
struct scope {
    const char *span;
    size_t length;
    int64_t since; /* the event at which the program entered it, or its phase began */
};

static bool is_within(const struct scope *scope, const char *span)
{
    return strncmp(span, scope->span, scope->length) == 0 &&
           (span[scope->length] == '.' || span[scope->length] == '\0');
}

/* True if the program was outside the scope, or in another phase of its step, before the mark. */
static bool is_outside(const struct scope *scope, const struct mt_mark_row *mark)
{
    if (mark->kind == MT_EVENT_SPAN_BEGIN || mark->kind == MT_EVENT_SPAN_END)
        return !is_within(scope, mark->span);
    return mark->kind == MT_EVENT_PHASE || mark->kind == MT_EVENT_STEP_BEGIN;
}

/* Returns the event at which the program entered the scope. */
static int64_t entry_of(const struct mt_advice_input *input, const struct scope *scope)
{
    for (size_t i = input->mark_count; i-- > 0;)
        if (is_outside(scope, &input->marks[i]))
            return input->marks[i].event;
    return input->first_event;
}

static struct scope scope_of(const struct mt_advice_input *input, const struct mt_refusal *refusal)
{
    const struct mt_label_row *label = &input->labels[refusal->mark.label];
    struct scope scope = {.span = label->span, .length = strlen(label->span)};
    const char *star = strchr(label->place, '*');
    if (star != NULL && strcmp(label->place, label->span) != 0) {
        size_t number = (size_t)(star - label->place);
        scope.length = number + strspn(label->span + number, "0123456789");
    }
    scope.since = entry_of(input, &scope);
    return scope;
}

/* True if blocks with the label may be operands in the layer, unlike its gradients and optimizer state. */
static bool is_operand_of_layer(const struct scope *scope, const struct mt_label_row *label)
{
    return scope->length > 0 && is_within(scope, label->span) &&
           strcmp(label->role, mt_role_name(MT_ROLE_GRADIENT)) != 0 &&
           strcmp(label->role, mt_role_name(MT_ROLE_OPTIMIZER_STATE)) != 0;
}

/* True if the block may be an operand of the request's op: its layer was the last to use it, or keeps it. */
static bool is_needed(const struct mt_advice_input *input, const struct scope *scope, size_t index)
{
    const struct mt_block_row *block = &input->blocks[index];
    const struct mt_use_row *use = &input->uses[index];
    if (block->free_event != 0 || !use->known)
        return false;
    return use->last > scope->since || block->alloc_event > scope->since ||
           is_operand_of_layer(scope, &input->labels[block->label]);
}

/* Returns the use extended by one more use, by the op of the request. */
static struct mt_use_row used_at(struct mt_use_row use, int64_t alloc_event, int64_t event)
{
    if (use.reads + use.writes == 0)
        use.first = alloc_event;
    use.reads++;
    use.last = event;
    use.unread = false;
    return use;
}

/* Release in any case. */
static void extended_create(const struct mt_advice_input *input, const struct mt_refusal *refusal, struct extended *out)
{
    assert(input->last_event == refusal->mark.event && refusal->mark.label < input->label_count);
    size_t count = input->block_count;
    const struct scope scope = scope_of(input, refusal);
    *out = (struct extended){.input = *input,
                             .blocks = mt_host_resize(NULL, count + 1, sizeof *out->blocks),
                             .uses = mt_host_resize(NULL, count + 1, sizeof *out->uses)};
    for (size_t i = 0; i < count; i++) {
        out->blocks[i] = input->blocks[i];
        out->uses[i] = is_needed(input, &scope, i)
                           ? used_at(input->uses[i], input->blocks[i].alloc_event, refusal->mark.event)
                           : input->uses[i];
    }
    out->blocks[count] = (struct mt_block_row){.alloc_event = refusal->mark.event,
                                               .alloc_ns = refusal->mark.time_ns,
                                               .requested_bytes = refusal->mark.value,
                                               .block_bytes = refusal->need.block_bytes,
                                               .label = refusal->mark.label,
                                               .stream = refusal->mark.stream};
    out->uses[count] = (struct mt_use_row){0};
    out->input.blocks = out->blocks;
    out->input.uses = out->uses;
    out->input.block_count = count + 1;
    mt_window_create(&out->input, &out->window);
}

static void extended_release(struct extended *extended)
{
    mt_window_release(&extended->window);
    free(extended->blocks);
    free(extended->uses);
    *extended = (struct extended){0};
}

/* Replays the unchanged run with these settings. */
static mt_status replay(const struct extended *extended, const struct mt_alloc_settings *settings,
                        struct mt_replay_result *out)
{
    return mt_window_replay(&extended->window, NULL, 0, settings, out);
}

/* Finds a capacity with which the replay also ends at the request. */
static mt_status reproduce(struct extended *extended, const struct mt_refusal *refusal, struct mt_replayed_changes *out)
{
    struct mt_replay_result *result = &out->as_it_was;
    mt_status status = replay(extended, &extended->input.settings, result);
    if (status == MT_OK && result->fits) {
        extended->input.capacity_bytes = refusal->reserved_bytes + refusal->given_back_bytes;
        status = replay(extended, &extended->input.settings, result);
    }
    out->capacity_bytes = extended->input.capacity_bytes;
    out->is_reproduced = status == MT_OK && !result->fits && result->unmet == extended->input.block_count - 1;
    return status;
}

static void add(struct mt_replayed_changes *changes, const struct mt_replayed_change *change)
{
    assert(change->replay.fits);
    *MT_HOST_ADD(changes->items, changes->count) = *change;
}

static mt_status try_policy(const struct extended *extended, struct mt_replayed_changes *out)
{
    const struct mt_alloc_settings settings = mt_advice_alternative(&extended->input);
    struct mt_replayed_change change = {.kind = MT_REPLAYED_POLICY, .alloc = settings};
    if (extended->input.program.kind == MT_PROGRAM_WATCHED)
        return MT_OK;
    mt_status status = replay(extended, &settings, &change.replay);
    if (status == MT_OK && change.replay.fits)
        add(out, &change);
    return status;
}

/* True if the list has a change with the finding's hint. */
static bool has_hint(const struct mt_replayed_changes *changes, const struct mt_finding *finding)
{
    for (size_t i = 0; i < changes->count; i++) {
        const struct mt_replayed_change *other = &changes->items[i];
        if (other->kind == MT_REPLAYED_PATTERN && mt_finding_hint(&other->finding) == mt_finding_hint(finding))
            return true;
    }
    return false;
}

/* Adds the findings with which the request succeeds. They are ordered by saving, largest first. The finding of
 * fragmentation is left out: it is the other policy, which was tried. */
static void add_findings(const struct extended *extended, const struct mt_advice *advice,
                         struct mt_replayed_changes *out)
{
    const struct mt_alloc_settings alloc = extended->input.settings;
    for (size_t i = 0; i < advice->count; i++) {
        const struct mt_finding *finding = &advice->findings[i];
        bool is_met = finding->replay.fits && !mt_finding_is_of_reserved(finding);
        const struct mt_replayed_change change = {
            .kind = MT_REPLAYED_PATTERN, .finding = *finding, .alloc = alloc, .replay = finding->replay};
        if (is_met && !has_hint(out, finding))
            add(out, &change);
    }
    const struct mt_replayed_change used_only = {
        .kind = MT_REPLAYED_USED_ONLY, .alloc = alloc, .replay = advice->used_only};
    if (advice->knows_uses && advice->used_only.fits)
        add(out, &used_only);
}

static mt_status try_patterns(const struct extended *extended, size_t limit, struct mt_replayed_changes *out)
{
    struct mt_advice advice;
    mt_status status = mt_advice_create(&extended->input, MT_ADVICE_WORTHWHILE, limit, &advice);
    if (status == MT_OK)
        add_findings(extended, &advice, out);
    mt_advice_release(&advice);
    return status;
}

/* Adds changes of the program with which the request succeeds. Clearing gradients earlier is left out, since it is a
 * pattern, and so are expandable segments, which were tried. */
static mt_status try_program(const struct extended *extended, struct mt_replayed_changes *out)
{
    const struct mt_alloc_settings tried = mt_advice_alternative(&extended->input);
    mt_program_kind kind = extended->input.program.kind;
    struct mt_program_changes changes = {0};
    if (kind != MT_PROGRAM_PYTORCH && kind != MT_PROGRAM_LIBRARY)
        return MT_OK;
    mt_status status = mt_program_changes_create(&extended->input, &changes);
    for (size_t i = 0; i < changes.count && status == MT_OK; i++) {
        const struct mt_program_change *item = &changes.items[i];
        struct mt_replayed_change change = {
            .kind = MT_REPLAYED_PROGRAM, .program = *item, .alloc = item->alloc, .replay = item->replay};
        bool is_tried =
            item->kind == MT_CHANGE_ZERO_GRAD ||
            (item->kind == MT_CHANGE_ALLOCATOR && item->alloc.expandable_segments == tried.expandable_segments);
        if (!item->replay.fits || is_tried)
            continue;
        change.program.place = mt_host_strdup(item->place);
        add(out, &change);
    }
    mt_program_changes_release(&changes);
    return status;
}

/* Returns the cost by which changes are ordered. */
static mt_remedy_cost cost_of(const struct mt_replayed_change *change)
{
    switch (change->kind) {
    case MT_REPLAYED_PROGRAM:
        return mt_change_kinds[change->program.kind].cost;
    case MT_REPLAYED_PATTERN:
        return mt_finding_cost(&change->finding);
    case MT_REPLAYED_POLICY:
        return MT_COST_SETTING;
    case MT_REPLAYED_USED_ONLY:
        break;
    }
    return MT_COST_EVERYTHING;
}

static int compare_changes(const void *left, const void *right)
{
    const struct mt_replayed_change *a = left, *b = right;
    int order = MT_COMPARE(cost_of(a), cost_of(b));
    if (order == 0)
        order = MT_COMPARE(b->finding.saved_bytes, a->finding.saved_bytes);
    return order != 0 ? order : MT_COMPARE(a->replay.reserved_bytes, b->replay.reserved_bytes);
}

mt_status mt_replayed_changes_create(const struct mt_advice_input *input, const struct mt_refusal *refusal,
                                     size_t limit, struct mt_replayed_changes *out)
{
    *out = (struct mt_replayed_changes){0};
    struct extended extended;
    extended_create(input, refusal, &extended);
    mt_status status = reproduce(&extended, refusal, out);
    if (status == MT_OK && out->is_reproduced)
        status = try_policy(&extended, out);
    if (status == MT_OK && out->is_reproduced)
        status = try_patterns(&extended, limit, out);
    if (status == MT_OK && out->is_reproduced)
        status = try_program(&extended, out);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_changes);
    extended_release(&extended);
    return status;
}

void mt_replayed_changes_release(struct mt_replayed_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++)
        free((char *)changes->items[i].program.place);
    free(changes->items);
    *changes = (struct mt_replayed_changes){0};
}
