#include "producers/file/call_stack.h"

#include "base/memory.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void read_frame(const struct mt_call_frame *frame, struct mt_call_stack *out)
{
    out->has_python |= frame->is_python;
    out->is_recomputed |= frame->is_checkpoint;
    out->is_input_sum |= frame->is_input_sum;
    out->is_engine |= frame->is_engine;
    if (frame->operation[0] != '\0')
        out->operation = frame->operation;
    if (out->node[0] == '\0')
        out->node = frame->node;
    if (out->recorded_number != 0)
        return;
    out->recorded = frame->recorded;
    out->recorded_number = frame->recorded_number;
}

void mt_call_stack_read(const struct mt_value *list, struct mt_call_frames *frames, struct mt_call_stack *out)
{
    uint32_t count = list->kind == MT_VALUE_LIST ? mt_value_count(list) : 0;
    *out = (struct mt_call_stack){.operation = "", .node = "", .recorded = ""};
    out->frames = mt_host_alloc((count + 1) * sizeof *out->frames);
    bool is_printed = mt_value_at(list, 0)->kind == MT_VALUE_TEXT; /* the innermost frame last */
    for (; out->frame_count < count; out->frame_count++) {
        uint32_t place = is_printed ? count - 1 - out->frame_count : out->frame_count;
        out->frames[out->frame_count] = mt_call_frames_read(frames, mt_value_at(list, place));
        read_frame(out->frames[out->frame_count], out);
    }
    assert((out->recorded_number == 0) == (out->recorded[0] == '\0'));
}

void mt_call_stack_release(struct mt_call_stack *stack)
{
    free(stack->frames);
}

bool mt_call_stack_is_forward(const struct mt_call_stack *stack)
{
    return stack->recorded_number != 0 && (!stack->is_engine || stack->is_recomputed);
}

bool mt_call_stack_is_backward(const struct mt_call_stack *stack)
{
    return stack->is_engine && !stack->is_recomputed;
}

bool mt_call_stack_is_between(const struct mt_call_stack *stack)
{
    return mt_call_stack_is_backward(stack) && stack->node[0] == '\0';
}

/* Returns the length of the name before its overload, which follows an underscore and begins with a capital or is
 * "out". */
static size_t length_without_overload(const char *name)
{
    for (size_t i = 1; name[i] != '\0'; i++)
        if (name[i] == '_' && (isupper((unsigned char)name[i + 1]) || strcmp(name + i, "_out") == 0))
            return i;
    return strlen(name);
}

const char *mt_call_stack_op(const struct mt_call_stack *stack, struct mt_name_set *names)
{
    const char *name = stack->recorded[0] != '\0' ? stack->recorded : stack->operation, *kept;
    if (name[0] == '\0')
        return "";
    mt_call_frame_keep(names, name, length_without_overload(name), &kept);
    return kept;
}

/* Skips underscores, which comparisons of operator names ignore. */
static const char *skip_underscores(const char *name)
{
    return name + strspn(name, "_");
}

bool mt_node_undoes(const char *node, const char *operation)
{
    const char *end = strstr(node, "Backward");
    if (end == NULL || end == node)
        return false;
    const char *at = skip_underscores(operation);
    for (; node < end; node++, at = *at != '\0' ? at + 1 : at) {
        at = skip_underscores(at);
        if (tolower((unsigned char)*node) != tolower((unsigned char)*at))
            return false;
    }
    return *at == '\0' || *at == '_';
}
