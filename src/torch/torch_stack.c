#include "torch/torch_stack.h"

#include "base/lock.h"
#include "base/memory.h"
#include "torch/memtrace_torch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Invariants: `caller` is set only while its thread is in torch.autograd.backward, so its frames are valid; depth 0: none
 * is. `package` is set before the first request. */
static struct stacks {
    atomic_bool is_wanted;
    char *package; /* the folder of memtrace's own files; NULL: none */
    struct mt_lock lock;
    struct mt_torch_stack caller;
} stacks;

int memtrace_torch_stacks(int minor)
{
    return mt_torch_frames_find(minor);
}

void memtrace_torch_stacks_begin(const char *package)
{
    free(stacks.package);
    stacks.package = mt_host_strdup(package);
    stacks.is_wanted = true;
}

void memtrace_torch_stacks_end(void)
{
    stacks.is_wanted = false;
}

const char *memtrace_torch_stack_text(void)
{
    static struct mt_text said;
    struct mt_torch_stack stack;
    mt_text_release(&said);
    mt_torch_frames_walk(&stack);
    for (uint32_t i = 0; i < stack.depth; i++) {
        struct mt_text function = {0}, file = {0};
        int line = mt_torch_frame_describe(&stack.frames[i], &function, &file);
        mt_text_add(&said, "%s\t%s\t%d\n", mt_text_get(&function), mt_text_get(&file), line);
        mt_text_release(&function);
        mt_text_release(&file);
    }
    return mt_text_get(&said);
}

/* ---- the stack of who called backward ---- */

void mt_torch_stack_keep(void)
{
    if (!stacks.is_wanted)
        return;
    mt_lock_take(&stacks.lock);
    mt_torch_frames_walk(&stacks.caller);
    mt_lock_give(&stacks.lock);
}

void mt_torch_stack_drop(void)
{
    mt_lock_take(&stacks.lock);
    stacks.caller.depth = 0;
    mt_lock_give(&stacks.lock);
}

/* ---- requests ---- */

const struct mt_torch_stack *mt_torch_stack_enter(struct mt_torch_stack *own)
{
    own->depth = 0;
    if (!atomic_load_explicit(&stacks.is_wanted, memory_order_relaxed))
        return own;
    mt_torch_frames_walk(own);
    if (own->depth > 0)
        return own;
    mt_lock_take(&stacks.lock);
    return &stacks.caller;
}

void mt_torch_stack_leave(const struct mt_torch_stack *stack, const struct mt_torch_stack *own)
{
    if (stack != own)
        mt_lock_give(&stacks.lock);
}

static bool is_of_memtrace(const char *file)
{
    return stacks.package != NULL && strncmp(file, stacks.package, strlen(stacks.package)) == 0;
}

mt_stack_id mt_torch_stack_store(const struct mt_torch_stack *stack, const struct mt_sink *sink)
{
    mt_stack_id id = 0;
    assert(stack->depth <= MT_TORCH_MOST_CALLS);
    for (uint32_t i = stack->depth; i > 0; i--) {
        struct mt_text function = {0}, file = {0};
        const int line = mt_torch_frame_describe(&stack->frames[i - 1], &function, &file);
        const struct mt_frame frame = {
            .function = mt_text_get(&function), .file = mt_text_get(&file), .line = line > 0 ? (uint32_t)line : 0};
        if (!is_of_memtrace(frame.file))
            id = mt_sink_stack(sink, id, &frame);
        mt_text_release(&function);
        mt_text_release(&file);
    }
    return id;
}

void mt_torch_stack_forget(void)
{
    memtrace_torch_stacks_end();
    stacks.caller.depth = 0;
}
