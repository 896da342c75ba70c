#include "page/page_beside.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Fewer events are read in the time that another opening takes. */
enum { WORTH_A_THREAD = 1 << 16 };

struct mt_page_reading {
    pthread_t thread;
    const char *path;
    const struct mt_run *run;
    struct mt_page_beside rows;
    mt_status status;
};

static mt_status read_rows(struct mt_trace *trace, const struct mt_run *run, struct mt_page_beside *out)
{
    int64_t first = run->first_event, last = first + run->event_count - 1;
    mt_status status = mt_trace_times(trace, run, first, last, &out->times);
    if (status == MT_OK)
        status = mt_trace_marks(trace, run, first, last, &out->marks, &out->mark_count);
    if (status == MT_OK)
        status = mt_trace_launches(trace, run, &out->kernels, &out->kernel_count);
    return status;
}

/* Whether the trace has the very run, and not another file its name: all that is read of it is there since. */
static bool has_run(const struct mt_trace *trace, const struct mt_run *run)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    for (size_t i = 0; i < count; i++)
        if (runs[i].id == run->id)
            return runs[i].first_event == run->first_event && runs[i].event_count >= run->event_count &&
                   strcmp(runs[i].started_at, run->started_at) == 0;
    return false;
}

static void *read_beside(void *context)
{
    struct mt_page_reading *reading = context;
    reading->status = mt_trace_open(reading->path, &reading->rows.trace);
    if (reading->status == MT_OK && !has_run(reading->rows.trace, reading->run))
        reading->status = MT_BAD_TRACE;
    if (reading->status == MT_OK)
        reading->status = read_rows(reading->rows.trace, reading->run, &reading->rows);
    return NULL;
}

struct mt_page_reading *mt_page_reading_begin(const char *path, const struct mt_run *run)
{
    if (run->event_count < WORTH_A_THREAD)
        return NULL;
    struct mt_page_reading *reading = mt_host_alloc(sizeof *reading);
    *reading = (struct mt_page_reading){.path = path, .run = run};
    if (pthread_create(&reading->thread, NULL, read_beside, reading) == 0)
        return reading;
    free(reading);
    return NULL;
}

/* Waits until all is read that can be. Whether that is all there is. */
static bool wait_for(struct mt_page_reading *reading)
{
    return reading != NULL && pthread_join(reading->thread, NULL) == 0 && reading->status == MT_OK;
}

static void drop(struct mt_page_reading *reading)
{
    if (reading != NULL)
        mt_page_beside_release(&reading->rows);
    free(reading);
}

mt_status mt_page_reading_end(struct mt_page_reading *reading, struct mt_trace *trace, const struct mt_run *run,
                              struct mt_page_beside *out)
{
    *out = (struct mt_page_beside){.trace = NULL};
    if (!wait_for(reading)) {
        drop(reading);
        return read_rows(trace, run, out);
    }
    *out = reading->rows;
    free(reading);
    return MT_OK;
}

void mt_page_reading_abandon(struct mt_page_reading *reading)
{
    wait_for(reading);
    drop(reading);
}

void mt_page_beside_release(struct mt_page_beside *beside)
{
    mt_trace_close(beside->trace);
    free(beside->times);
    free(beside->marks);
    free(beside->kernels);
}
