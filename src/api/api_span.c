/* The place of a caller: the spans of its thread, by name or by number; phases, steps and measurements of the run. */
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
    mt_live_run_mark(run->live, MT_EVENT_SPAN_END, 0, thread->places[--thread->depth].span);
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

/* Returns the number that a name is, or ends with after a dot; otherwise `outer`, the layer around it. */
static int layer_of(const char *name, int outer)
{
    const char *dot = strrchr(name, '.');
    const char *last = dot != NULL ? dot + 1 : name;
    size_t digits = strspn(last, "0123456789");
    return digits > 0 && digits <= MOST_LAYER_DIGITS && last[digits] == '\0' ? atoi(last) : outer;
}

static void begin_span(struct memtrace_run *run, struct mt_api_thread *thread, struct mt_api_place place)
{
    assert(place.span != 0 && thread->run == run);
    *MT_HOST_ADD(thread->places, thread->depth) = place;
    mt_live_run_mark(run->live, MT_EVENT_SPAN_BEGIN, 0, place.span);
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
    begin_span(run, thread,
               (struct mt_api_place){sink->intern_span(sink->context, outer.span, name), layer_of(name, outer.layer)});
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

/* ---- spans by number ---- */

enum { NOT_NUMBERED = -2 };

/* Stores the layer of a span that got a number. The caller holds the lock. */
static void put_layer(struct memtrace_run *run, mt_span_id span, int layer)
{
    while (run->layer_count <= span)
        *MT_HOST_ADD(run->layers, run->layer_count) = NOT_NUMBERED;
    run->layers[span] = layer;
}

bool mt_api_find_span(struct memtrace_run *run, uint32_t number, struct mt_api_place *out)
{
    mt_lock_take(&run->layers_lock);
    const bool is_known = number < run->layer_count && run->layers[number] != NOT_NUMBERED;
    if (is_known)
        *out = (struct mt_api_place){number, run->layers[number]};
    mt_lock_give(&run->layers_lock);
    return is_known;
}

struct mt_api_place mt_api_place_now(const struct memtrace_run *run)
{
    return *innermost(pthread_getspecific(run->thread_key));
}

uint32_t memtrace_span(memtrace_run *run, const char *path)
{
    const struct mt_sink *sink = mt_api_sink(run);
    struct mt_api_place place = root;
    if (path == NULL || path[0] == '\0')
        return 0;
    char *parts = mt_host_strdup(path), *rest = parts;
    for (const char *name; (name = strsep(&rest, ".")) != NULL;)
        if (name[0] != '\0')
            place =
                (struct mt_api_place){sink->intern_span(sink->context, place.span, name), layer_of(name, place.layer)};
    free(parts);
    if (place.span == 0)
        return 0;
    mt_lock_take(&run->layers_lock);
    put_layer(run, place.span, place.layer);
    mt_lock_give(&run->layers_lock);
    return place.span;
}

mt_status mt_api_fail_span(uint32_t number)
{
    return mt_fail(MT_USAGE, "%u is no span of this run; memtrace_span returns their numbers", number);
}

memtrace_status memtrace_span_enter(memtrace_run *run, uint32_t span)
{
    struct mt_api_place place;
    if (!mt_api_find_span(run, span, &place))
        return mt_api_status(mt_api_fail_span(span));
    begin_span(run, enter_thread(run), place);
    return MEMTRACE_OK;
}

/* ---- phases, steps, measurements ---- */

static_assert((int)MEMTRACE_BEFORE_STEPS == MT_NO_STEP, "the numbers are the same");
static_assert((int)MEMTRACE_INIT == (int)MT_PHASE_INIT && (int)MEMTRACE_FORWARD == (int)MT_PHASE_FORWARD &&
                  (int)MEMTRACE_LOSS == (int)MT_PHASE_LOSS && (int)MEMTRACE_BACKWARD == (int)MT_PHASE_BACKWARD &&
                  (int)MEMTRACE_OPTIMIZER == (int)MT_PHASE_OPTIMIZER,
              "the numbers are the same");

memtrace_status memtrace_phase_begin(memtrace_run *run, memtrace_phase phase)
{
    if ((size_t)phase >= MT_PHASE_COUNT)
        return mt_api_status(mt_fail(MT_USAGE, "phase %d; there are 0 to %d", (int)phase, MT_PHASE_COUNT - 1));
    atomic_store(&run->phase, (int)phase);
    mt_live_run_mark(run->live, MT_EVENT_PHASE, phase, 0);
    return MEMTRACE_OK;
}

memtrace_phase memtrace_phase_now(const memtrace_run *run)
{
    return (memtrace_phase)atomic_load_explicit(&run->phase, memory_order_relaxed);
}

void memtrace_step_begin(memtrace_run *run)
{
    mt_live_run_mark(run->live, MT_EVENT_STEP_BEGIN, 0, 0);
}

void memtrace_step_end(memtrace_run *run)
{
    mt_live_run_mark(run->live, MT_EVENT_STEP_END, 0, 0);
}

int64_t memtrace_step_now(memtrace_run *run)
{
    return mt_live_note_step(run->live);
}

memtrace_status memtrace_measure(memtrace_run *run, const char *name, double value)
{
    MT_API_TRY(check_name("measurement", name));
    mt_live_run_measure(run->live, name, mt_live_note_step(run->live), value);
    return MEMTRACE_OK;
}
