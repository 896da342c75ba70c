/* A run in the format of RMM's logging adaptor: CSV with a row for each allocation, free and refusal. */
#include "trace/export/export.h"
#include "trace/query/walk.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINE_BYTES = 256 };

/* A trace does not know the program's threads. */
enum { THE_THREAD = 1 };

static const char *action_of(mt_event_kind kind)
{
    switch (kind) {
    case MT_EVENT_ALLOC:
        return "allocate";
    case MT_EVENT_FREE:
        return "free";
    case MT_EVENT_OOM:
        return "allocate failure";
    default:
        return NULL;
    }
}

/* A log has times of day; here they begin at the start of the run. */
static void write_row(struct mt_output_file *file, const struct mt_walk_event *event, const char *action)
{
    char line[LINE_BYTES];
    uint64_t us = event->time_ns / 1000, seconds = us / 1000000;
    int length = snprintf(line, sizeof line,
                          "%d,%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%06" PRIu64 ",%s,0x%" PRIx64 ",%" PRIu64
                          ",%" PRIu16 "\n",
                          THE_THREAD, seconds / 3600, seconds / 60 % 60, seconds % 60, us % 1000000, action,
                          event->address, event->value, event->stream);
    mt_output_file_write(file, line, (size_t)length);
}

mt_status mt_export_rmm(const struct mt_export_request *request, struct mt_output_file *file)
{
    struct mt_walk *walk;
    struct mt_walk_event event;
    bool more = true;
    mt_status status = mt_walk_begin(request->from.trace, request->from.run, &walk);
    if (status != MT_OK)
        return status;
    mt_output_file_print(file, "Thread,Time,Action,Pointer,Size,Stream\n");
    while (status == MT_OK && (status = mt_walk_next(walk, &event, &more)) == MT_OK && more) {
        const char *action = action_of(event.kind);
        if (action != NULL)
            write_row(file, &event, action);
        status = mt_output_file_go_on(file);
    }
    mt_walk_end(walk);
    return status;
}
