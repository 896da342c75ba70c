/* Labels of callers, and their context: the spans of a thread, the phases and steps of the run. */
#include "api/run_parts.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LAYER_DIGITS = 9 };

static const struct mt_api_place root = {.span = 0, .layer = -1};

static void end_innermost(struct memtrace_run *run, struct mt_api_thread *thread)
{
    assert(thread->depth > 0 && thread->run == run);
    mt_span_id span = thread->places[--thread->depth].span;
    MT_API_NOTE(run, mt_foreign_span_end(run->notes, mt_api_now_ns(run), span));
}

/* Ends the spans of a thread that ends. Does nothing in a child of fork, since the run is its parent's. */
static void leave_thread(void *context)
{
    struct mt_api_thread *thread = context;
    struct memtrace_run *run = thread->run;
    if (getpid() != run->process)
        return;
    assert(!thread->is_idle);
    while (thread->depth > 0)
        end_innermost(run, thread);
    mt_lock_take(&run->threads_lock);
    thread->is_idle = true;
    mt_lock_give(&run->threads_lock);
}

mt_status mt_api_threads_create(struct memtrace_run *run)
{
    if (pthread_key_create(&run->thread_key, leave_thread) == 0)
        return MT_OK;
    return mt_fail(MT_FAILED, "the process has no thread-specific key left: "
                              "it opened too many runs, or libraries took all keys");
}

void mt_api_threads_release(struct memtrace_run *run)
{
    pthread_key_delete(run->thread_key);
    while (run->threads != NULL) {
        struct mt_api_thread *thread = run->threads;
        run->threads = thread->next;
        free(thread->places);
        free(thread);
    }
}

static struct mt_api_thread *add_thread(struct memtrace_run *run)
{
    struct mt_api_thread *thread = mt_host_alloc(sizeof *thread);
    thread->run = run;
    thread->next = run->threads;
    return run->threads = thread;
}

/* Returns the calling thread's part of the run. Reuses that of a thread that has ended, or adds one. */
static struct mt_api_thread *enter_thread(struct memtrace_run *run)
{
    struct mt_api_thread *thread = pthread_getspecific(run->thread_key);
    if (thread != NULL)
        return thread;
    mt_lock_take(&run->threads_lock);
    for (thread = run->threads; thread != NULL && !thread->is_idle;)
        thread = thread->next;
    if (thread == NULL)
        thread = add_thread(run);
    assert(thread->depth == 0);
    thread->is_idle = false;
    mt_lock_give(&run->threads_lock);
    pthread_setspecific(run->thread_key, thread);
    return thread;
}

static const struct mt_api_place *innermost(const struct mt_api_thread *thread)
{
    return thread != NULL && thread->depth > 0 ? &thread->places[thread->depth - 1] : &root;
}

static const struct mt_api_place *place_of(const struct memtrace_run *run)
{
    return innermost(pthread_getspecific(run->thread_key));
}

/* Returns the number that a name is, or ends with after a dot; otherwise `outer`, the layer around it. */
static int layer_of(const char *name, int outer)
{
    const char *dot = strrchr(name, '.');
    const char *last = dot != NULL ? dot + 1 : name;
    size_t digits = strspn(last, "0123456789");
    return digits > 0 && digits <= MOST_LAYER_DIGITS && last[digits] == '\0' ? atoi(last) : outer;
}

static void push(struct mt_api_thread *thread, struct mt_api_place place)
{
    *MT_HOST_ADD(thread->places, thread->depth) = place;
}

static mt_status check_name(const char *what, const char *name)
{
    return name != NULL && name[0] != '\0' ? MT_OK : mt_fail(MT_USAGE, "the name of a %s is empty", what);
}

memtrace_status memtrace_span_begin(memtrace_run *run, const char *name)
{
    MT_API_TRY(check_name("span", name));
    struct mt_api_thread *thread = enter_thread(run);
    struct mt_api_place outer = *innermost(thread);
    const struct mt_sink *sink = mt_api_sink(run);
    struct mt_api_place place = {sink->intern_span(sink->context, outer.span, name), layer_of(name, outer.layer)};
    assert(place.span != 0);
    push(thread, place);
    MT_API_NOTE(run, mt_foreign_span_begin(run->notes, mt_api_now_ns(run), place.span));
    return MEMTRACE_OK;
}

memtrace_status memtrace_span_end(memtrace_run *run)
{
    struct mt_api_thread *thread = enter_thread(run);
    if (thread->depth == 0)
        return mt_api_status(mt_fail(MT_USAGE, "a span ends that this thread did not begin"));
    end_innermost(run, thread);
    return MEMTRACE_OK;
}

/* Convert a role and a dtype. False for a number that is none: callers may pass any. */
static bool find_role(memtrace_role role, mt_role *out)
{
    static const mt_role roles[] = {[MEMTRACE_TEMPORARY] = MT_ROLE_TEMPORARY,
                                    [MEMTRACE_PARAMETER] = MT_ROLE_PARAMETER,
                                    [MEMTRACE_GRADIENT] = MT_ROLE_GRADIENT,
                                    [MEMTRACE_OPTIMIZER_STATE] = MT_ROLE_OPTIMIZER_STATE,
                                    [MEMTRACE_ACTIVATION] = MT_ROLE_ACTIVATION,
                                    [MEMTRACE_WEIGHT_CAST] = MT_ROLE_WEIGHT_CAST,
                                    [MEMTRACE_WORKSPACE] = MT_ROLE_WORKSPACE,
                                    [MEMTRACE_INPUT] = MT_ROLE_INPUT,
                                    [MEMTRACE_OTHER] = MT_ROLE_OTHER};
    if ((size_t)role >= sizeof roles / sizeof roles[0])
        return false;
    *out = roles[role];
    return true;
}

static bool find_dtype(memtrace_dtype dtype, mt_dtype *out)
{
    static const mt_dtype dtypes[] = {
        [MEMTRACE_NO_DTYPE] = MT_NONE, [MEMTRACE_F32] = MT_F32,   [MEMTRACE_BF16] = MT_BF16, [MEMTRACE_F64] = MT_F64,
        [MEMTRACE_I64] = MT_I64,       [MEMTRACE_BOOL] = MT_BOOL, [MEMTRACE_U8] = MT_U8};
    if ((size_t)dtype >= sizeof dtypes / sizeof dtypes[0])
        return false;
    *out = dtypes[dtype];
    return true;
}

static mt_status copy_shape(const memtrace_label *label, struct mt_label *out)
{
    if (label->dims < 0 || label->dims > MEMTRACE_MOST_DIMS)
        return mt_fail(MT_USAGE, "a label has %d dims; 0 to %d can be said", label->dims, MEMTRACE_MOST_DIMS);
    out->dims = label->dims;
    for (int i = 0; i < label->dims; i++) {
        if (label->shape[i] < 0)
            return mt_fail(MT_USAGE, "shape[%d] of a label is %lld", i, (long long)label->shape[i]);
        out->shape[i] = label->shape[i];
    }
    return MT_OK;
}

/* Converts the fields of a label. Its span, layer and phase are not the caller's. */
static mt_status convert(const struct mt_sink *sink, const memtrace_label *given, struct mt_label *out)
{
    memtrace_label label;
    MT_TRY(mt_api_copy_in("memtrace_label", given, &label, sizeof label));
    if (!find_role(label.role, &out->role))
        return mt_fail(MT_USAGE, "a label has role %d; there are 0 to %d", (int)label.role, MEMTRACE_OTHER);
    if (!find_dtype(label.dtype, &out->dtype))
        return mt_fail(MT_USAGE, "a label has dtype %d; there are 0 to %d", (int)label.dtype, MEMTRACE_U8);
    if (label.category != NULL)
        out->category = mt_sink_category(sink, label.category);
    if (label.op != NULL)
        out->op = label.op;
    return copy_shape(&label, out);
}

mt_status mt_api_label(struct memtrace_run *run, const memtrace_label *label, mt_label_id *out_label,
                       mt_span_id *out_span)
{
    const struct mt_sink *sink = mt_api_sink(run);
    const struct mt_api_place *place = place_of(run);
    struct mt_label whole = {.category = MT_CATEGORY_OTHER,
                             .role = MT_ROLE_OTHER,
                             .phase = (mt_phase)atomic_load_explicit(&run->phase, memory_order_relaxed),
                             .op = "",
                             .span = place->span,
                             .layer = place->layer};
    MT_TRY(label != NULL ? convert(sink, label, &whole) : MT_OK);
    assert((unsigned)whole.phase < MT_PHASE_COUNT);
    *out_label = sink->intern_label(sink->context, &whole);
    *out_span = place->span;
    assert(*out_label != 0);
    return MT_OK;
}

static_assert((int)MEMTRACE_INIT == (int)MT_PHASE_INIT && (int)MEMTRACE_FORWARD == (int)MT_PHASE_FORWARD &&
                  (int)MEMTRACE_LOSS == (int)MT_PHASE_LOSS && (int)MEMTRACE_BACKWARD == (int)MT_PHASE_BACKWARD &&
                  (int)MEMTRACE_OPTIMIZER == (int)MT_PHASE_OPTIMIZER,
              "the numbers are the same");

memtrace_status memtrace_phase_begin(memtrace_run *run, memtrace_phase phase)
{
    if ((size_t)phase >= MT_PHASE_COUNT)
        return mt_api_status(mt_fail(MT_USAGE, "phase %d; there are 0 to %d", (int)phase, MT_PHASE_COUNT - 1));
    atomic_store(&run->phase, (int)phase);
    MT_API_NOTE(run, mt_foreign_phase(run->notes, mt_api_now_ns(run), (mt_phase)phase));
    return MEMTRACE_OK;
}

void memtrace_step_begin(memtrace_run *run)
{
    MT_API_NOTE(run, mt_foreign_step_begin(run->notes, mt_api_now_ns(run)));
}

void memtrace_step_end(memtrace_run *run)
{
    MT_API_NOTE(run, mt_foreign_step_end(run->notes, mt_api_now_ns(run)));
}

memtrace_status memtrace_measure(memtrace_run *run, const char *name, double value)
{
    MT_API_TRY(check_name("measurement", name));
    mt_lock_take(&run->notes_lock);
    mt_lock_take(&run->joint.lock);
    mt_recorder_measure(run->recorder, name, mt_foreign_step(run->notes), value);
    mt_lock_give(&run->joint.lock);
    mt_lock_give(&run->notes_lock);
    return MEMTRACE_OK;
}
