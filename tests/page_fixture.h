/* Pages of one trace, written into memory and read back by page_reader.h. The setup of a test takes the path of a new
 * trace and a seed. */
#pragma once

#include "page/page.h"
#include "page_reader.h"
#include "recorder_fixture.h"
#include "seed.h"
#include "trace_edit.h"

#include <inttypes.h>

static char path[FIXTURE_PATH_BYTES];
static struct mt_trace *trace;
static uint64_t seed;

static inline int set_up(void **state)
{
    (void)state;
    fixture_path(path);
    trace = NULL;
    seed = take_seed();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    mt_trace_close(trace);
    fixture_remove(path);
    return 0;
}

static inline const struct mt_run *open_run(const char *which)
{
    const struct mt_run *run;
    if (trace == NULL && mt_trace_open(path, &trace) != MT_OK)
        fail_msg("%s", mt_last_error());
    if (mt_trace_find_run(trace, which, &run) != MT_OK)
        fail_msg("%s", mt_last_error());
    return run;
}

/* A page that grows in memory. */
struct written {
    char *text;
    size_t length, room;
};

static inline void grow(void *context, const void *data, size_t bytes)
{
    struct written *written = context;
    while (written->length + bytes >= written->room)
        written->text = realloc(written->text, written->room = written->room * 2 + (1 << 16));
    memcpy(written->text + written->length, data, bytes);
    written->length += bytes;
    written->text[written->length] = '\0';
}

static inline mt_status write_plan(const struct mt_page_plan *plan, struct written *written)
{
    *written = (struct written){0};
    const struct mt_page_output output = {.context = written, .write = grow};
    return mt_page_write(plan, &output);
}

static inline struct page page_of(const struct mt_page_plan *plan)
{
    struct written written;
    struct page page;
    if (write_plan(plan, &written) != MT_OK)
        fail_msg("%s", mt_last_error());
    page_read(written.text, written.length, &page);
    return page;
}

static inline struct mt_page_plan plan_of(const struct mt_run *run)
{
    return (struct mt_page_plan){.program = "memtrace test", .sources = {{trace, run, path}}, .source_count = 1};
}

static inline struct page page_of_run(const char *which)
{
    const struct mt_page_plan plan = plan_of(open_run(which));
    return page_of(&plan);
}
