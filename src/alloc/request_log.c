#include "alloc/request_log.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>

/* The begin or end of a block's lifetime. Two live blocks never have the same place, so the place identifies a
 * block. */
struct border {
    uint64_t offset;
    uint64_t order;   /* its position among all borders */
    uint64_t request; /* for a begin, the number of the request; for an end, the number of requests before it */
    uint32_t segment;
    bool is_end;
};

/* Invariants: each request has exactly one begin; whole_requests and whole_borders are the counts at the end of the
 * last complete step. */
struct mt_request_log {
    struct mt_alloc_settings settings;
    struct mt_interner *interner;
    struct mt_plan_request *requests;
    struct border *borders;
    size_t request_count, border_count;
    size_t whole_requests, whole_borders;
    int64_t step; /* the last one that began; MT_NO_STEP: none */
};

struct mt_request_log *mt_request_log_create(const struct mt_alloc_settings *settings)
{
    struct mt_request_log *log = mt_host_alloc(sizeof *log);
    log->settings = *settings;
    log->interner = mt_interner_create();
    log->step = MT_NO_STEP;
    return log;
}

void mt_request_log_destroy(struct mt_request_log *log)
{
    if (log == NULL)
        return;
    mt_interner_destroy(log->interner);
    free(log->requests);
    free(log->borders);
    free(log);
}

static void add_border(struct mt_request_log *log, const struct mt_event *event, uint64_t request)
{
    log->borders = mt_host_room(log->borders, log->border_count, sizeof *log->borders);
    log->borders[log->border_count] = (struct border){.offset = event->offset,
                                                      .order = log->border_count,
                                                      .request = request,
                                                      .segment = event->segment,
                                                      .is_end = event->kind == MT_EVENT_FREE};
    log->border_count++;
}

static void add_request(struct mt_request_log *log, const struct mt_event *event)
{
    struct mt_alloc_need need = {.block_bytes = event->requested_bytes};
    mt_alloc_need(&log->settings, event->requested_bytes, &need);
    log->requests = mt_host_room(log->requests, log->request_count, sizeof *log->requests);
    log->requests[log->request_count] = (struct mt_plan_request){.bytes = need.block_bytes, .step = log->step};
    add_border(log, event, log->request_count++);
}

static void log_event(void *context, const struct mt_event *event)
{
    struct mt_request_log *log = context;
    if (event->kind == MT_EVENT_STEP_BEGIN) {
        log->step = (int64_t)event->value;
    } else if (event->kind == MT_EVENT_STEP_END) {
        log->whole_requests = log->request_count;
        log->whole_borders = log->border_count;
    } else if (event->stream == MT_PLAN_STREAM && event->kind == MT_EVENT_ALLOC) {
        add_request(log, event);
    } else if (event->stream == MT_PLAN_STREAM && event->kind == MT_EVENT_FREE) {
        add_border(log, event, log->request_count);
    }
}

static mt_label_id log_label(void *context, const struct mt_label *label)
{
    return mt_interner_label(((struct mt_request_log *)context)->interner, label, NULL);
}

static mt_span_id log_span(void *context, mt_span_id parent, const char *name)
{
    return mt_interner_span(((struct mt_request_log *)context)->interner, parent, name, NULL);
}

struct mt_sink mt_request_log_sink(struct mt_request_log *log)
{
    return (struct mt_sink){.context = log, .emit = log_event, .intern_label = log_label, .intern_span = log_span};
}

static int compare_borders(const void *left, const void *right)
{
    const struct border *a = left, *b = right;
    int order = MT_COMPARE(a->segment, b->segment);
    if (order == 0)
        order = MT_COMPARE(a->offset, b->offset);
    return order != 0 ? order : MT_COMPARE(a->order, b->order);
}

/* Sets `freed` of each request. At one place begins and ends alternate, so a begin is followed by its end. */
static void find_ends(const struct border *borders, size_t count, struct mt_plan_request *requests)
{
    for (size_t i = 0; i < count; i++) {
        if (borders[i].is_end)
            continue;
        bool ends =
            i + 1 < count && borders[i + 1].segment == borders[i].segment && borders[i + 1].offset == borders[i].offset;
        assert(!ends || borders[i + 1].is_end);
        requests[borders[i].request].freed = ends ? borders[i + 1].request : MT_PLAN_KEPT;
    }
}

const struct mt_plan_request *mt_request_log_requests(struct mt_request_log *log, size_t *out_count)
{
    assert(log->whole_borders <= log->border_count && log->whole_requests <= log->request_count);
    struct border *sorted = mt_host_alloc((log->whole_borders + 1) * sizeof *sorted);
    for (size_t i = 0; i < log->whole_borders; i++)
        sorted[i] = log->borders[i];
    qsort(sorted, log->whole_borders, sizeof *sorted, compare_borders);
    find_ends(sorted, log->whole_borders, log->requests);
    free(sorted);
    *out_count = log->whole_requests;
    return log->requests;
}
