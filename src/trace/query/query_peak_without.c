#include "trace/query/peak_without.h"

#include "base/memory.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

static mt_status find_label(struct mt_trace *trace, const struct mt_run *run, const char *category, bool *out_is_used)
{
    mt_status status = MT_OK;
    *out_is_used = false;
    MT_EACH_ROW (row, status, trace->database, "SELECT 1 FROM label WHERE run = ?1 AND category = ?2 LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_TEXT(category))
        *out_is_used = true;
    return status;
}

/* Returns the bytes of live blocks of other categories after an event. */
static uint64_t count_event(const struct mt_walk_event *event, const bool *is_left_out, uint64_t live_bytes)
{
    if (event->kind == MT_EVENT_ALLOC && !is_left_out[event->label])
        return live_bytes + event->block_bytes;
    if (event->kind == MT_EVENT_FREE && !is_left_out[event->label])
        return live_bytes - event->block_bytes;
    if (event->kind == MT_EVENT_RELABEL)
        return live_bytes + (is_left_out[event->old_label] ? event->block_bytes : 0) -
               (is_left_out[event->label] ? event->block_bytes : 0);
    return live_bytes;
}

static mt_status find_highest(struct mt_walk *walk, const char *category, uint64_t *out_bytes)
{
    struct mt_walk_event event;
    bool has_more = true;
    size_t count;
    uint64_t live_bytes = 0;
    const struct mt_label_row *labels = mt_walk_labels(walk, &count);
    bool *is_left_out = mt_host_alloc(count * sizeof *is_left_out);
    for (size_t i = 0; i < count; i++)
        is_left_out[i] = strcmp(labels[i].category, category) == 0;
    mt_status status = mt_walk_next(walk, &event, &has_more);
    while (status == MT_OK && has_more) {
        live_bytes = count_event(&event, is_left_out, live_bytes);
        *out_bytes = live_bytes > *out_bytes ? live_bytes : *out_bytes;
        status = mt_walk_next(walk, &event, &has_more);
    }
    free(is_left_out);
    return status;
}

mt_status mt_trace_peak_without(struct mt_trace *trace, const struct mt_run *run, const char *category,
                                bool *out_is_used, uint64_t *out_bytes)
{
    struct mt_walk *walk = NULL;
    *out_bytes = 0;
    MT_TRY(find_label(trace, run, category, out_is_used));
    if (!*out_is_used)
        return MT_OK;
    mt_status status = mt_walk_begin(trace, run, &walk);
    if (status == MT_OK)
        status = find_highest(walk, category, out_bytes);
    mt_walk_end(walk);
    return status;
}
