/* The place of the calling thread: its spans, by name or number; and phases, steps and measurements of the run. */
#include "api/run_parts.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_place root = {.span = 0, .layer = -1};

static void end_span(void *context, mt_span_id span)
{
    mt_live_run_mark(((struct memtrace_run *)context)->live, MT_EVENT_SPAN_END, 0, span);
}

mt_status mt_api_spans_create(struct memtrace_run *run)
{
    return mt_thread_spans_create(end_span, run, &run->spans);
}

struct mt_place mt_api_place_now(const struct memtrace_run *run)
{
    const struct mt_place *place = mt_thread_spans_now(run->spans);
    return place != NULL ? *place : root;
}

static void begin_span(struct memtrace_run *run, const struct mt_place *place)
{
    assert(place->span != 0);
    (void)mt_thread_spans_begin(run->spans, place);
    mt_live_run_mark(run->live, MT_EVENT_SPAN_BEGIN, 0, place->span);
}

/* Returns the span `name` inside of another. */
static struct mt_place inner_span(struct memtrace_run *run, struct mt_place outer, const char *name)
{
    const struct mt_sink *sink = mt_api_sink(run);
    return (struct mt_place){.span = sink->intern_span(sink->context, outer.span, name),
                             .layer = mt_span_layer(name, outer.layer)};
}

static mt_status check_name(const char *what, const char *name)
{
    return name != NULL && name[0] != '\0' ? MT_OK : mt_fail(MT_USAGE, "the name of a %s is empty", what);
}

memtrace_status memtrace_span_begin(memtrace_run *run, const char *name)
{
    MT_API_TRY(check_name("span", name));
    const struct mt_place place = inner_span(run, mt_api_place_now(run), name);
    begin_span(run, &place);
    return MEMTRACE_OK;
}

memtrace_status memtrace_span_end(memtrace_run *run)
{
    const uint32_t depth = mt_thread_spans_depth(run->spans);
    if (depth == 0)
        return mt_api_status(mt_fail(MT_USAGE, "a span ends that this thread did not begin"));
    mt_thread_spans_end(run->spans, depth - 1);
    return MEMTRACE_OK;
}

/* ---- spans by number ---- */

enum { NOT_NUMBERED = -2 };

/* Stores the layer of a numbered span. The caller holds the lock. */
static void put_layer(struct memtrace_run *run, mt_span_id span, int layer)
{
    while (run->layer_count <= span)
        *MT_HOST_ADD(run->layers, run->layer_count) = NOT_NUMBERED;
    run->layers[span] = layer;
}

bool mt_api_find_span(struct memtrace_run *run, uint32_t number, struct mt_place *out)
{
    mt_lock_take(&run->layers_lock);
    const bool is_known = number < run->layer_count && run->layers[number] != NOT_NUMBERED;
    if (is_known)
        *out = (struct mt_place){.span = number, .layer = run->layers[number]};
    mt_lock_give(&run->layers_lock);
    return is_known;
}

uint32_t memtrace_span(memtrace_run *run, const char *path)
{
    struct mt_place place = root;
    if (path == NULL || path[0] == '\0')
        return 0;
    char *parts = mt_host_strdup(path), *rest = parts;
    for (const char *name; (name = strsep(&rest, ".")) != NULL;)
        if (name[0] != '\0')
            place = inner_span(run, place, name);
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
    struct mt_place place;
    if (!mt_api_find_span(run, span, &place))
        return mt_api_status(mt_api_fail_span(span));
    begin_span(run, &place);
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
