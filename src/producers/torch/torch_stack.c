#include "producers/torch/torch_stack.h"

#include "base/lock.h"
#include "base/memory.h"
#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_backward.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

/* Invariants: has_caller == (calls > 0) under the lock; it is true only while caller_thread is in
 * torch.autograd.backward, so the frames of `caller` are valid. `package` is set once, before is_wanted, and never
 * freed: requests read it without the lock. */
static struct stacks {
    atomic_bool is_wanted, has_caller;
    char *_Atomic package; /* the folder of memtrace's own files; NULL: none */
    struct mt_lock lock;
    void *caller_thread;
    uint32_t calls; /* of backward, within each other, by caller_thread */
    struct mt_torch_stack caller;
} stacks = {.lock = MT_LOCK(MT_RANK_CALLER)};

int memtrace_torch_stacks(int minor)
{
    return mt_torch_frames_find(minor);
}

void memtrace_torch_stacks_begin(const char *package)
{
    mt_lock_take(&stacks.lock);
    if (stacks.package == NULL)
        stacks.package = mt_host_strdup(package);
    mt_lock_give(&stacks.lock);
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

/* A backward within another, as of a checkpoint, changes nothing: it is called by a node of the outer one. */
void mt_torch_stack_keep(void)
{
    if (!stacks.is_wanted)
        return;
    mt_lock_take(&stacks.lock);
    if (stacks.calls == 0) {
        mt_torch_frames_walk(&stacks.caller);
        stacks.caller_thread = __builtin_thread_pointer();
    }
    stacks.calls += stacks.caller_thread == __builtin_thread_pointer();
    stacks.has_caller = true;
    mt_lock_give(&stacks.lock);
}

void mt_torch_stack_drop(void)
{
    mt_lock_take(&stacks.lock);
    if (stacks.calls > 0 && stacks.caller_thread == __builtin_thread_pointer())
        stacks.calls--;
    stacks.has_caller = stacks.calls > 0;
    mt_lock_give(&stacks.lock);
}

/* ---- requests ---- */

/* Adds the caller's frames, as far as there is room. The lock is held. */
static void add_caller(struct mt_torch_stack *stack)
{
    const struct mt_torch_stack *caller = &stacks.caller;
    const uint32_t room = MT_TORCH_MOST_CALLS - stack->depth, count = caller->depth < room ? caller->depth : room;
    if (stacks.calls == 0 || stacks.caller_thread == __builtin_thread_pointer())
        return;
    memcpy(stack->frames + stack->depth, caller->frames, count * sizeof *caller->frames);
    stack->depth += count;
    stack->hash = stack->hash * 0x9e3779b97f4a7c15u ^ caller->hash;
}

void mt_torch_stack_enter(struct mt_torch_stack *out)
{
    out->depth = 0;
    out->has_caller = false;
    if (!atomic_load_explicit(&stacks.is_wanted, memory_order_relaxed))
        return;
    mt_torch_frames_walk(out);
    if (!atomic_load_explicit(&stacks.has_caller, memory_order_relaxed) ||
        (out->depth > 0 && !mt_torch_backward_is_running()))
        return;
    mt_lock_take(&stacks.lock);
    out->has_caller = true;
    add_caller(out);
}

void mt_torch_stack_leave(const struct mt_torch_stack *stack)
{
    if (stack->has_caller)
        mt_lock_give(&stacks.lock);
}

static bool is_of_memtrace(const char *file)
{
    const char *package = stacks.package;
    return package != NULL && strncmp(file, package, strlen(package)) == 0;
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
    stacks.calls = 0;
    stacks.has_caller = false;
}
