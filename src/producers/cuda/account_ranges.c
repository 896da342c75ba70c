/* Ranges of NVTX, by thread: they become the spans of memory that is requested inside them, and some are steps.
 * Kernels, each with the range and the step of its launch.
 *
 *   enter, leave ──▶ ranges of the thread ──▶ span of a block, label of a launch
 *                                        └──▶ span and step events, from one thread
 *   launch ──▶ label and step by number ──┐
 *   ran, some time after it ──────────────┴──▶ kernel
 *
 * Relies on the caller for one thread at a time, except for launches and for kernels that ran. Those come at any time
 * and wait for no lock: a launch is two words of a ring, which the kernel finds by the number that both have. */
#include "base/memory.h"
#include "producers/cuda/account_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCH_SLOTS = 1 << 20 }; /* a power of two */

/* A launch. The first word, with the number in its upper half, is written last. */
struct mt_launch {
    _Atomic uint64_t number_and_label;
    _Atomic int64_t step;
};

void mt_account_ranges_create(struct mt_account_ranges *ranges, const struct mt_account_settings *settings)
{
    ranges->step_prefix = settings->step != NULL ? mt_host_strdup(settings->step) : NULL;
    ranges->launches = mt_host_alloc(LAUNCH_SLOTS * sizeof *ranges->launches);
    ranges->step = MT_NO_STEP;
    ranges->kernels = mt_kernel_log_create(settings->spell);
}

void mt_account_ranges_release(struct mt_account_ranges *ranges)
{
    mt_kernel_log_destroy(ranges->kernels);
    for (size_t span = 0; span < ranges->name_count; span++)
        free(ranges->names[span]);
    free(ranges->names);
    free(ranges->launches);
    free(ranges->step_prefix);
}

/* ---- ranges ---- */

static bool is_step(const struct mt_account_ranges *ranges, const char *name)
{
    return ranges->step_prefix != NULL && strncmp(name, ranges->step_prefix, strlen(ranges->step_prefix)) == 0;
}

/* True if the thread's ranges are emitted: it is the first one with ranges. */
static bool is_emitted(struct mt_account_ranges *ranges, const struct mt_account_thread *thread)
{
    if (ranges->emitting_thread == NULL)
        ranges->emitting_thread = thread;
    return ranges->emitting_thread == thread;
}

/* Keeps the name of a span, since a sink does not return names. */
static void keep_name(struct mt_account_ranges *ranges, mt_span_id span, const char *name)
{
    while (ranges->name_count <= span) {
        *MT_HOST_ADD(ranges->names, ranges->name_count) = NULL;
    }
    if (ranges->names[span] == NULL)
        ranges->names[span] = mt_host_strdup(name);
}

static mt_span_id intern_span(struct mt_account *account, mt_span_id parent, const char *name)
{
    mt_span_id span = account->sink.intern_span(account->sink.context, parent, name);
    assert(span != 0);
    keep_name(&account->ranges, span, name);
    return span;
}

static void push(struct mt_account_thread *thread, struct mt_account_range range)
{
    *MT_HOST_ADD(thread->ranges, thread->depth) = range;
}

/* Steps are not part of the path, so that a place in the program is the same span in every step. */
void mt_account_enter(struct mt_account *account, struct mt_account_thread *thread, uint64_t domain, uint64_t time_ns,
                      const char *name)
{
    struct mt_account_ranges *ranges = &account->ranges;
    struct mt_account_range range = {.domain = domain,
                                     .span = mt_account_span(thread),
                                     .is_reported = is_emitted(ranges, thread),
                                     .is_step = is_step(ranges, name)};
    if (!range.is_step)
        range.span = intern_span(account, range.span, name[0] != '\0' ? name : "?");
    push(thread, range);
    if (!range.is_reported)
        return;
    if (range.is_step)
        ranges->step = mt_foreign_step_begin(account->foreign, time_ns);
    else
        mt_foreign_span_begin(account->foreign, time_ns, range.span);
}

static void end_step(struct mt_account *account, uint64_t time_ns)
{
    mt_foreign_step_end(account->foreign, time_ns);
    account->ranges.step = MT_NO_STEP;
}

/* Emits the end of the span of ranges[first] and of those inside it. */
static void end_spans(struct mt_account *account, const struct mt_account_thread *thread, uint32_t first,
                      uint64_t time_ns)
{
    for (uint32_t i = thread->depth; i-- > first;)
        if (thread->ranges[i].is_reported && !thread->ranges[i].is_step)
            mt_foreign_span_end(account->foreign, time_ns, thread->ranges[i].span);
}

/* Begins the spans from ranges[first] on again: the span around them has ended. */
static void go_on(struct mt_account *account, struct mt_account_thread *thread, uint32_t first, uint64_t time_ns)
{
    for (uint32_t i = first; i < thread->depth; i++) {
        struct mt_account_range *range = &thread->ranges[i];
        mt_span_id parent = i > 0 ? thread->ranges[i - 1].span : 0;
        assert(range->is_step ||
               (range->span < account->ranges.name_count && account->ranges.names[range->span] != NULL));
        range->span = range->is_step ? parent : intern_span(account, parent, account->ranges.names[range->span]);
        if (range->is_reported && !range->is_step)
            mt_foreign_span_begin(account->foreign, time_ns, range->span);
    }
}

static void leave(struct mt_account *account, struct mt_account_thread *thread, uint32_t index, uint64_t time_ns)
{
    assert(index < thread->depth);
    const struct mt_account_range range = thread->ranges[index];
    if (range.is_step && range.is_reported)
        end_step(account, time_ns);
    if (!range.is_step)
        end_spans(account, thread, index, time_ns);
    thread->depth--;
    memmove(thread->ranges + index, thread->ranges + index + 1, (thread->depth - index) * sizeof range);
    if (!range.is_step)
        go_on(account, thread, index, time_ns);
}

void mt_account_leave(struct mt_account *account, struct mt_account_thread *thread, uint64_t domain, uint64_t time_ns)
{
    uint32_t above = thread->depth; /* the index of the innermost range of the domain + 1 */
    while (above > 0 && thread->ranges[above - 1].domain != domain)
        above--;
    if (above > 0)
        leave(account, thread, above - 1, time_ns);
}

void mt_account_forget_thread(struct mt_account *account, struct mt_account_thread *thread, uint64_t time_ns)
{
    while (thread->depth > 0)
        leave(account, thread, thread->depth - 1, time_ns);
    assert(thread->depth == 0);
    if (account->ranges.emitting_thread == thread)
        account->ranges.emitting_thread = NULL;
    free(thread->ranges);
    *thread = (struct mt_account_thread){0};
}

/* ---- kernels ---- */

static mt_label_id label_launch(const struct mt_account *account, mt_span_id span)
{
    return mt_account_label(account, MT_CATEGORY_OTHER, "kernel", span);
}

mt_label_id mt_account_launch_label(struct mt_account *account, struct mt_account_thread *thread)
{
    thread->launch_span = mt_account_span(thread);
    thread->launch_label = label_launch(account, thread->launch_span);
    return thread->launch_label;
}

void mt_account_launch(struct mt_account *account, uint32_t number, mt_label_id label)
{
    struct mt_launch *launch = &account->ranges.launches[number % LAUNCH_SLOTS];
    atomic_store_explicit(&launch->step, atomic_load_explicit(&account->ranges.step, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&launch->number_and_label, (uint64_t)number << 32 | label, memory_order_release);
}

void mt_account_ran(struct mt_account *account, const struct mt_kernel_run *run)
{
    struct mt_launch *launch = &account->ranges.launches[run->launch % LAUNCH_SLOTS];
    uint64_t known = atomic_load_explicit(&launch->number_and_label, memory_order_acquire);
    if (run->launch != 0 && known >> 32 == run->launch) {
        const struct mt_kernel_launch known_launch = {.step = atomic_load_explicit(&launch->step, memory_order_relaxed),
                                                      .label = (mt_label_id)known,
                                                      .number = run->launch};
        mt_kernel_log_launch(account->ranges.kernels, &known_launch);
    }
    mt_kernel_log_ran(account->ranges.kernels, run);
}

void mt_account_take_kernels(struct mt_account *account, int64_t shift_ns,
                             void (*take)(void *context, const struct mt_kernel *kernel), void *context)
{
    mt_kernel_log_take(account->ranges.kernels, shift_ns, take, context);
}

void mt_account_kernel(struct mt_account *account, const struct mt_kernel *kernel)
{
    struct mt_kernel emitted = *kernel;
    assert(emitted.step >= MT_NO_STEP);
    if (emitted.label == 0)
        emitted.label = label_launch(account, 0);
    mt_foreign_kernel(account->foreign, &emitted);
}
