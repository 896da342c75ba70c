#include "producers/file/torch_callers.h"

#include "base/memory.h"
#include "base/order.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

void mt_torch_callers_create(struct mt_torch_callers *callers, const struct mt_rules *rules)
{
    *callers = (struct mt_torch_callers){
        .rules = rules, .frames = mt_call_frames_create(), .matches = mt_rules_match_frames(rules)};
    mt_number_map_create(&callers->numbers);
    mt_number_map_create(&callers->hashes);
}

void mt_torch_callers_release(struct mt_torch_callers *callers)
{
    for (size_t i = 0; i < callers->count; i++) {
        mt_call_stack_release(&callers->callers[i].stack);
        mt_rule_choice_release(&callers->callers[i].choice);
    }
    free(callers->callers);
    mt_number_map_release(&callers->numbers);
    mt_number_map_release(&callers->hashes);
    mt_frame_matches_destroy(callers->matches);
    mt_call_frames_destroy(callers->frames);
}

/* Returns a hash of a list's frames, equal for equal lists. Pickles share frames, but not their lists. */
static uint64_t hash_frames(const struct mt_value *frames)
{
    uint64_t hash = mt_value_count(frames);
    for (uint32_t i = 0; i < mt_value_count(frames); i++)
        hash = (hash ^ (uint64_t)(uintptr_t)mt_value_at(frames, i)->items) * UINT64_C(0x9E3779B97F4A7C15);
    return hash;
}

static bool is_same(const struct mt_value *frames, const struct mt_value *others)
{
    if (mt_value_count(frames) != mt_value_count(others))
        return false;
    for (uint32_t i = 0; i < mt_value_count(frames); i++) {
        const struct mt_value *frame = mt_value_at(frames, i), *other = mt_value_at(others, i);
        bool is_frame = frame->kind == MT_VALUE_DICT || frame->kind == MT_VALUE_TEXT;
        if (!is_frame || frame->kind != other->kind || frame->items != other->items)
            return false;
    }
    return true;
}

static uint64_t add_caller(struct mt_torch_callers *callers, const struct mt_value *frames)
{
    callers->callers = mt_host_room(callers->callers, callers->count, sizeof *callers->callers);
    struct mt_torch_caller *caller = &callers->callers[callers->count];
    *caller = (struct mt_torch_caller){.frames = frames};
    mt_call_stack_read(frames, callers->frames, &caller->stack);
    mt_rules_choose(callers->rules, callers->matches, &caller->stack, &caller->choice);
    caller->op = mt_call_stack_op(&caller->stack, mt_call_frames_names(callers->frames));
    return callers->count++;
}

struct mt_torch_caller *mt_torch_callers_find(struct mt_torch_callers *callers, const struct mt_value *frames)
{
    static const struct mt_value nobody;
    const struct mt_value *list = frames->kind == MT_VALUE_LIST ? frames : &nobody;
    uint64_t key = list->kind == MT_VALUE_LIST ? (uint64_t)(uintptr_t)list->items : 0, number;
    if (mt_number_map_get(&callers->numbers, key, &number))
        return &callers->callers[number];
    uint64_t hash = hash_frames(list);
    if (!mt_number_map_get(&callers->hashes, hash, &number) || !is_same(callers->callers[number].frames, list)) {
        number = add_caller(callers, list);
        mt_number_map_put(&callers->hashes, hash, number);
    }
    mt_number_map_put(&callers->numbers, key, number);
    return &callers->callers[number];
}

mt_stack_id mt_torch_callers_store(struct mt_torch_callers *callers, struct mt_torch_caller *caller,
                                   const struct mt_sink *sink)
{
    if (!caller->has_stored)
        caller->stored = mt_torch_callers_store_within(callers, caller, 0, sink);
    caller->has_stored = true;
    return caller->stored;
}

mt_stack_id mt_torch_callers_store_within(struct mt_torch_callers *callers, const struct mt_torch_caller *caller,
                                          mt_stack_id outer, const struct mt_sink *sink)
{
    const struct mt_call_stack *stack = &caller->stack;
    if (sink->intern_frame == NULL || sink->intern_stack == NULL)
        return 0;
    uint32_t depth = stack->frame_count < MT_TORCH_MOST_FRAMES ? stack->frame_count : MT_TORCH_MOST_FRAMES;
    for (uint32_t i = depth; i > 0; i--)
        outer = sink->intern_stack(sink->context, outer,
                                   mt_frame_matches_number(callers->matches, stack->frames[i - 1], sink));
    return outer;
}

const char *mt_torch_metadata(const struct mt_torch_event *event)
{
    struct mt_value_key key = MT_VALUE_KEY("user_metadata");
    if (event->is_workspace)
        return MT_TORCH_WORKSPACE_METADATA;
    return mt_value_text(mt_value_get(event->event, &key));
}

const struct mt_value *mt_torch_forward_frames(const struct mt_torch_event *event)
{
    struct mt_value_key key = MT_VALUE_KEY("forward_frames");
    return mt_value_get(event->event, &key);
}

struct mt_rule_subject mt_torch_subject(const struct mt_torch_request *request, const struct mt_torch_annotations *open)
{
    return (struct mt_rule_subject){.bytes = request->requested_bytes,
                                    .metadata = request->event != NULL ? mt_torch_metadata(request->event) : "",
                                    .annotations = open->names,
                                    .annotation_count = open->count,
                                    .life = MT_ROLE_OTHER,
                                    .was_before = request->event == NULL};
}

/* Describes a caller as conditions of a rule: its innermost Python frame, its operator and its node. The caller frees
 * it. */
static char *describe(const struct mt_torch_caller *caller)
{
    struct mt_text text = {0};
    for (uint32_t i = 0; i < caller->stack.frame_count && text.length == 0; i++)
        if (caller->stack.frames[i]->is_python)
            mt_text_add(&text, "function=%s file=%s line=%" PRId64, caller->stack.frames[i]->name,
                        caller->stack.frames[i]->file, caller->stack.frames[i]->line);
    if (caller->stack.operation[0] != '\0')
        mt_text_add(&text, "%soperator=%s", text.length > 0 ? " " : "", caller->stack.operation);
    if (caller->stack.node[0] != '\0')
        mt_text_add(&text, "%snode=%s", text.length > 0 ? " " : "", caller->stack.node);
    if (text.length == 0)
        mt_text_add(&text, "%s", caller->stack.frame_count == 0 ? "no frames were recorded" : "frames of C++ only");
    return text.data;
}

static int compare_uncovered(const void *left, const void *right)
{
    const struct mt_torch_caller *a = *(const struct mt_torch_caller *const *)left,
                                 *b = *(const struct mt_torch_caller *const *)right;
    int order = MT_COMPARE(b->other_bytes, a->other_bytes);
    return order != 0 ? order : MT_COMPARE(a, b);
}

void mt_torch_callers_report(const struct mt_torch_callers *callers, struct mt_import_report *out)
{
    const struct mt_torch_caller **found = mt_host_alloc((callers->count + 1) * sizeof *found);
    size_t count = 0;
    for (size_t i = 0; i < callers->count; i++)
        if (callers->callers[i].other_blocks > 0)
            found[count++] = &callers->callers[i];
    qsort(found, count, sizeof *found, compare_uncovered);
    assert(count <= callers->count);
    out->uncovered_count = count < MT_IMPORT_MOST_UNCOVERED ? count : MT_IMPORT_MOST_UNCOVERED;
    for (size_t i = 0; i < out->uncovered_count; i++)
        out->uncovered[i] =
            (struct mt_import_uncovered){describe(found[i]), found[i]->other_bytes, found[i]->other_blocks};
    free(found);
}
