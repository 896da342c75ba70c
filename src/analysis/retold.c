/* What an op was about to read, no trace says. It is taken to be what was last used, or is kept, in its layer: more than it
 * reads, so that no relief is told that would take its operands away. */
#include "analysis/retold.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Where the request was made. Spans that begin with `length` characters of `span` lie in the same layer or, outside of
 * one, in the same span. */
struct scope {
    const char *span;
    size_t length;
    int64_t since; /* when it was entered, or its phase began */
};

static bool is_within(const struct scope *scope, const char *span)
{
    return strncmp(span, scope->span, scope->length) == 0 &&
           (span[scope->length] == '.' || span[scope->length] == '\0');
}

/* Whether the program was not in the scope before the mark, or in another phase of its step. */
static bool is_outside(const struct scope *scope, const struct mt_mark_row *mark)
{
    if (mark->kind == MT_EVENT_SPAN_BEGIN || mark->kind == MT_EVENT_SPAN_END)
        return !is_within(scope, mark->span);
    return mark->kind == MT_EVENT_PHASE || mark->kind == MT_EVENT_STEP_BEGIN;
}

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

/* Gradients and optimizer state belong to a layer, but are none of the operands of what it computes. */
static bool is_operand_of_layer(const struct scope *scope, const struct mt_label_row *label)
{
    return scope->length > 0 && is_within(scope, label->span) && strcmp(label->role, mt_role_name(MT_ROLE_GRAD)) != 0 &&
           strcmp(label->role, mt_role_name(MT_ROLE_OPT_STATE)) != 0;
}

static bool is_needed(const struct mt_advice_input *input, const struct scope *scope, size_t index)
{
    const struct mt_block_row *block = &input->blocks[index];
    const struct mt_use_row *use = &input->uses[index];
    if (block->free_event != 0 || !use->known)
        return false;
    return use->last > scope->since || block->alloc_event > scope->since ||
           is_operand_of_layer(scope, &input->labels[block->label]);
}

/* The use as it would be with one more by the op that asked. */
static struct mt_use_row used_at(struct mt_use_row use, int64_t alloc_event, int64_t event)
{
    if (use.reads + use.writes == 0)
        use.first = alloc_event;
    use.reads++;
    use.last = event;
    use.unread = false;
    return use;
}

void mt_retold_create(const struct mt_advice_input *input, const struct mt_refusal *refusal, struct mt_retold *out)
{
    size_t count = input->block_count;
    const struct scope scope = scope_of(input, refusal);
    *out = (struct mt_retold){.input = *input,
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
}

void mt_retold_release(struct mt_retold *retold)
{
    free(retold->blocks);
    free(retold->uses);
    *retold = (struct mt_retold){0};
}
