#include "alloc/request_log.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/order.h"

#include <stdlib.h>

/* A block's begin or end. Blocks are told apart by their addresses, which one live block has at a time. */
struct turn {
    mt_addr address;
    uint64_t order;   /* among all turns: when */
    uint64_t request; /* number of the request that took it; of an end, how many had been made */
    bool is_end;
};

/* Invariants: a request begins in exactly one turn; whole_* count what was there at the end of the last whole step. */
struct mt_request_log {
    struct mt_alloc_settings settings;
    struct mt_interner *interner;
    struct mt_plan_request *requests;
    struct turn *turns;
    size_t request_count, turn_count;
    size_t whole_requests, whole_turns;
    int64_t step; /* that began last */
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
    free(log->turns);
    free(log);
}

static void add_turn(struct mt_request_log *log, const struct mt_event *event, uint64_t request)
{
    log->turns = mt_host_room(log->turns, log->turn_count, sizeof *log->turns);
    log->turns[log->turn_count] = (struct turn){.address = event->address,
                                                .order = log->turn_count,
                                                .request = request,
                                                .is_end = event->kind == MT_EVENT_FREE};
    log->turn_count++;
}

static void add_request(struct mt_request_log *log, const struct mt_event *event)
{
    struct mt_alloc_need need = {.block_bytes = event->requested_bytes};
    mt_alloc_need(&log->settings, event->requested_bytes, &need);
    log->requests = mt_host_room(log->requests, log->request_count, sizeof *log->requests);
    log->requests[log->request_count] = (struct mt_plan_request){.bytes = need.block_bytes, .step = log->step};
    add_turn(log, event, log->request_count++);
}

static void log_event(void *context, const struct mt_event *event)
{
    struct mt_request_log *log = context;
    if (event->kind == MT_EVENT_STEP_BEGIN) {
        log->step = (int64_t)event->value;
    } else if (event->kind == MT_EVENT_STEP_END) {
        log->whole_requests = log->request_count;
        log->whole_turns = log->turn_count;
    } else if (event->stream == MT_PLAN_STREAM && event->kind == MT_EVENT_ALLOC) {
        add_request(log, event);
    } else if (event->stream == MT_PLAN_STREAM && event->kind == MT_EVENT_FREE) {
        add_turn(log, event, log->request_count);
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

static int compare_turns(const void *left, const void *right)
{
    const struct turn *a = left, *b = right;
    int order = MT_COMPARE(a->address, b->address);
    return order != 0 ? order : MT_COMPARE(a->order, b->order);
}

/* At one address begins and ends alternate, so a begin's end is what follows it there. */
static void find_ends(const struct turn *turns, size_t count, struct mt_plan_request *requests)
{
    for (size_t i = 0; i < count; i++) {
        if (turns[i].is_end)
            continue;
        bool ends = i + 1 < count && turns[i + 1].address == turns[i].address;
        requests[turns[i].request].freed = ends ? turns[i + 1].request : MT_PLAN_KEPT;
    }
}

const struct mt_plan_request *mt_request_log_requests(struct mt_request_log *log, size_t *out_count)
{
    struct turn *sorted = mt_host_alloc((log->whole_turns + 1) * sizeof *sorted);
    for (size_t i = 0; i < log->whole_turns; i++)
        sorted[i] = log->turns[i];
    qsort(sorted, log->whole_turns, sizeof *sorted, compare_turns);
    find_ends(sorted, log->whole_turns, log->requests);
    free(sorted);
    *out_count = log->whole_requests;
    return log->requests;
}
