#include "page/page_ranks.h"

#include "answer/row.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mt_status read_rank(const struct mt_rank *rank, mt_curve_axis axis, struct mt_page_rank *out)
{
    struct mt_trace *trace;
    const struct mt_run *run;
    MT_TRY(mt_trace_open(rank->file, &trace));
    mt_status status = mt_trace_find_numbered(trace, rank->run, &run);
    if (status == MT_OK) {
        out->event_count = run->event_count;
        status = mt_trace_curve(trace, run, axis, &out->curve);
    }
    mt_trace_close(trace);
    return status;
}

/* Adds the run to the whole ones, unless that would be too much. */
static void choose(struct mt_page_rank *rank, int64_t *events)
{
    if (rank->is_whole || rank->event_count > MT_PAGE_RANK_EVENTS - *events)
        return;
    rank->is_whole = true;
    *events += rank->event_count;
}

static void choose_whole(const struct mt_page_job *page, struct mt_page_rank *ranks)
{
    const struct mt_rank_job *job = page->job;
    int64_t events = 0;
    for (size_t i = 0; i < job->count; i++)
        if (job->ranks[i].of->rank == page->shown) {
            ranks[i].is_whole = true;
            events = ranks[i].event_count;
        }
    for (size_t i = 0; i < job->group_count; i++)
        choose(&ranks[job->groups[i].ranks[0] - job->ranks], &events);
    for (size_t i = 0; i < job->count; i++)
        choose(&ranks[i], &events);
}

mt_status mt_page_ranks_read(const struct mt_page_job *job, struct mt_page_rank **out)
{
    mt_status status = MT_OK;
    *out = mt_host_alloc(job->job->count * sizeof **out);
    memset(*out, 0, job->job->count * sizeof **out);
    for (size_t i = 0; i < job->job->count && status == MT_OK; i++)
        status = read_rank(job->job->ranks[i].of, job->axis, &(*out)[i]);
    if (status == MT_OK)
        choose_whole(job, *out);
    return status;
}

/* Returns the category that makes most of the difference to the median rank; null if there is none. */
static json_t *describe_excess(const struct mt_job_rank *rank)
{
    if (rank->excess_count == 0)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "category", mt_json_text(rank->excesses[0].category));
    json_object_set_new(object, "bytes", json_integer(rank->excesses[0].bytes));
    return object;
}

static json_t *describe_curve(const struct mt_curve *curve)
{
    json_t *list = json_array();
    for (size_t i = 0; i < curve->count; i++)
        json_array_append_new(list, json_integer(curve->bytes[i]));
    return list;
}

/* Returns the name of the rank's run, for --run: "rank3" in a folder, "7" in a trace. */
static json_t *describe_name(const struct mt_rank *rank, const char *place)
{
    char name[MT_PAGE_SET_NAME];
    if (strcmp(rank->file, place) == 0)
        snprintf(name, sizeof name, "%" PRId64, rank->run);
    else
        snprintf(name, sizeof name, "rank%" PRId64, rank->rank);
    return json_string(name);
}

static json_t *describe_rank(const struct mt_job_rank *rank, const struct mt_page_rank *page, const char *place)
{
    const struct mt_rank *of = rank->of;
    json_t *object = json_object();
    json_object_set_new(object, "rank", json_integer(of->rank));
    json_object_set_new(object, "run", describe_name(of, place));
    json_object_set_new(object, "alike", json_integer(rank->alike));
    json_object_set_new(object, "host", mt_json_text(of->host));
    json_object_set_new(object, "state", mt_json_text(of->state));
    json_object_set_new(object, "peak_bytes", json_integer(of->peak_bytes[MT_MEASURE_ALLOCATED]));
    json_object_set_new(object, "step", json_integer(of->step));
    json_object_set_new(object, "phase", mt_json_text(of->phase));
    json_object_set_new(object, "span", mt_json_text(of->span));
    json_object_set_new(object, "above_median_bytes", json_integer(rank->above_median_bytes));
    json_object_set_new(object, "excess", describe_excess(rank));
    json_object_set_new(object, "is_whole", json_boolean(page->is_whole));
    json_object_set_new(object, "length", json_integer(page->curve.end));
    json_object_set_new(object, "bin", json_integer(page->curve.bin));
    json_object_set_new(object, "bytes", describe_curve(&page->curve));
    return object;
}

static json_t *describe(const struct mt_page_job *page, const struct mt_page_rank *ranks)
{
    const struct mt_rank_job *job = page->job;
    json_t *object = json_object(), *list = json_array(), *missing = json_array();
    for (size_t i = 0; i < job->count; i++)
        json_array_append_new(list, describe_rank(&job->ranks[i], &ranks[i], page->place));
    for (size_t i = 0; i < job->missing_count; i++)
        json_array_append_new(missing, json_integer(job->missing[i]));
    json_object_set_new(object, "job", mt_json_text(job->job));
    json_object_set_new(object, "place", mt_json_text(page->place));
    json_object_set_new(object, "shown", json_integer(page->shown));
    json_object_set_new(object, "axis", json_string(page->axis == MT_CURVE_BY_EVENT ? "event" : "time"));
    json_object_set_new(object, "missing", missing);
    json_object_set_new(object, "ranks", list);
    return object;
}

mt_status mt_page_ranks_write(const struct mt_page_output *out, const struct mt_page_job *job,
                              const struct mt_page_rank *ranks)
{
    struct mt_page_output set = *out;
    json_t *description = describe(job, ranks);
    char *text = json_dumps(description, JSON_COMPACT);
    json_decref(description);
    snprintf(set.set, sizeof set.set, "ranks-");
    mt_status status = mt_page_chunk_write(&set, 0, text, strlen(text));
    free(text);
    return status;
}
