/* The query about the largest blocks. */
#include "base/memory.h"
#include "base/order.h"
#include "trace/query/query.h"

#include <assert.h>
#include <stdlib.h>

/* Rows, added by falling size and merged if they are alike.
 * Invariant of merged rows: rows[size_begin..count) are those of the size that was added last, no two of them alike. */
struct ranking {
    struct mt_top_row *rows;
    size_t count, size_begin;
};

/* Texts are kept, so equal ones have equal pointers. */
static bool are_alike(const struct mt_top_row *a, const struct mt_top_row *b)
{
    return a->op == b->op && a->span == b->span && a->category == b->category && a->phase == b->phase &&
           a->role == b->role && a->dtype == b->dtype && a->shape == b->shape;
}

/* By falling size, then falling count, then first event. */
static int compare_rows(const void *left, const void *right)
{
    const struct mt_top_row *a = left, *b = right;
    int order = MT_COMPARE(b->bytes, a->bytes);
    if (order == 0)
        order = MT_COMPARE(b->count, a->count);
    return order != 0 ? order : MT_COMPARE(a->event, b->event);
}

static void ranking_sort(struct ranking *ranking)
{
    if (ranking->count > 1)
        qsort(ranking->rows, ranking->count, sizeof *ranking->rows, compare_rows);
}

static void ranking_append(struct ranking *ranking, const struct mt_top_row *row)
{
    *MT_HOST_ADD(ranking->rows, ranking->count) = *row;
}

static void ranking_merge(struct mt_trace *trace, struct ranking *ranking, const struct mt_top_row *row)
{
    struct mt_top_row merged = *row;
    merged.span = mt_query_place(trace, row->span);
    if (ranking->count > 0 && ranking->rows[ranking->count - 1].bytes != row->bytes)
        ranking->size_begin = ranking->count;
    assert(ranking->size_begin <= ranking->count);
    for (size_t i = ranking->size_begin; i < ranking->count; i++) {
        struct mt_top_row *other = &ranking->rows[i];
        if (!are_alike(other, &merged))
            continue;
        other->count += merged.count;
        other->event = merged.event < other->event ? merged.event : other->event;
        return;
    }
    ranking_append(ranking, &merged);
}

static void ranking_finish(struct ranking *ranking, size_t limit)
{
    ranking_sort(ranking);
    ranking->count = ranking->count < limit ? ranking->count : limit;
}

/* Ranks merged rows of the whole run: reads the summary by falling size, as far as needed. */
static mt_status rank_summary(struct mt_trace *trace, const struct mt_run *run, size_t limit, struct ranking *ranking)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT requested_bytes, count, first_event, " MT_LABEL_COLUMNS " FROM summary_allocation" MT_LABEL_JOIN(
            "summary_allocation.label") "WHERE summary_allocation.run = ?1 ORDER BY requested_bytes DESC",
        &statement);
    while (mt_statement_next(statement, &status)) {
        struct mt_top_row found = {.bytes = (uint64_t)mt_statement_integer(statement, 0),
                                   .count = (uint64_t)mt_statement_integer(statement, 1),
                                   .event = mt_statement_integer(statement, 2)};
        if (ranking->count > 0 && ranking->count >= limit && ranking->rows[ranking->count - 1].bytes != found.bytes)
            break;
        mt_query_label(trace, statement, 3, &found);
        ranking_merge(trace, ranking, &found);
    }
    mt_statement_finalize(statement);
    return status;
}

/* The largest allocations: all that are larger than `bytes`, and the first `equal` of that size. */
struct cutoff {
    uint64_t bytes;
    uint64_t larger, equal; /* number of them */
    int64_t first_event;    /* of all of them */
};

/* Finds the `limit` largest allocations. */
static mt_status find_cutoff(struct mt_trace *trace, const struct mt_run *run, size_t limit, struct cutoff *out)
{
    *out = (struct cutoff){.first_event = INT64_MAX};
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run,
                                        "SELECT requested_bytes, count, first_event FROM summary_allocation"
                                        " WHERE run = ?1 ORDER BY requested_bytes DESC",
                                        &statement);
    while (mt_statement_next(statement, &status)) {
        uint64_t bytes = (uint64_t)mt_statement_integer(statement, 0);
        if (bytes != out->bytes && out->larger + out->equal >= limit)
            break;
        if (bytes != out->bytes)
            *out = (struct cutoff){bytes, out->larger + out->equal, 0, out->first_event};
        out->equal += (uint64_t)mt_statement_integer(statement, 1);
        int64_t first = mt_statement_integer(statement, 2);
        out->first_event = first < out->first_event ? first : out->first_event;
    }
    mt_statement_finalize(statement);
    if (out->larger + out->equal > limit)
        out->equal = limit - out->larger;
    assert(out->larger + out->equal <= limit);
    return status;
}

/* Ranks the allocations of a cutoff: reads events in their order until all are found. */
static mt_status rank_events(struct mt_trace *trace, const struct mt_run *run, struct cutoff wanted,
                             struct ranking *ranking)
{
    struct mt_statement *statement;
    mt_status status =
        mt_query_prepare(trace, run,
                         "SELECT requested_bytes, event.id, " MT_LABEL_COLUMNS " FROM event" MT_EVENT_LABEL_JOIN
                         "WHERE event.id >= ?2 AND event.id < ?3 AND kind IN (?4, ?6) AND requested_bytes >= ?5"
                         " ORDER BY event.id",
                         &statement);
    MT_QUERY_BIND(statement, wanted.first_event, mt_query_end(run), MT_EVENT_ALLOC, (int64_t)wanted.bytes,
                  MT_EVENT_RELABEL);
    while (wanted.larger + wanted.equal > 0 && mt_statement_next(statement, &status)) {
        struct mt_top_row found = {.bytes = (uint64_t)mt_statement_integer(statement, 0), .count = 1};
        uint64_t *left = found.bytes == wanted.bytes ? &wanted.equal : &wanted.larger;
        if (*left == 0)
            continue;
        --*left;
        found.event = mt_statement_integer(statement, 1);
        mt_query_label(trace, statement, 2, &found);
        ranking_append(ranking, &found);
    }
    mt_statement_finalize(statement);
    return status;
}

static mt_status rank_each(struct mt_trace *trace, const struct mt_run *run, size_t limit, struct ranking *ranking)
{
    struct cutoff wanted;
    MT_TRY(find_cutoff(trace, run, limit, &wanted));
    return rank_events(trace, run, wanted, ranking);
}

/* Reads the rows of alloc events, in the order of the ids, with the labels of their blocks after `moment`. */
static mt_status read_blocks(struct mt_trace *trace, const struct mt_run *run, int64_t moment, const int64_t *ids,
                             size_t count, struct ranking *out)
{
    struct mt_statement *statement;
    mt_status status =
        mt_query_prepare(trace, run,
                         "SELECT event.requested_bytes, " MT_LABEL_COLUMNS " FROM" MT_ALLOC_AND_LABELLING_EVENT("?3")
                             MT_EVENT_LABEL_JOIN "WHERE alloc.id = ?2",
                         &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        MT_QUERY_BIND(statement, ids[i], moment);
        if (!mt_statement_next(statement, &status)) {
            if (status == MT_OK)
                status = mt_fail(MT_BAD_TRACE, "a checkpoint names an event that is not there");
            break;
        }
        struct mt_top_row block = {.bytes = (uint64_t)mt_statement_integer(statement, 0), .count = 1, .event = ids[i]};
        mt_query_label(trace, statement, 1, &block);
        ranking_append(out, &block);
        mt_statement_reset(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

static mt_status rank_peak(struct mt_trace *trace, const struct mt_run *run, mt_top_grouping grouping,
                           struct ranking *ranking)
{
    uint64_t peak_bytes;
    int64_t peak_event, *ids = NULL;
    size_t id_count = 0;
    struct ranking blocks = {0};
    mt_status status = mt_query_peak_event(trace, run, MT_MEASURE_ALLOCATED, &peak_bytes, &peak_event);
    if (status == MT_OK && peak_event != 0)
        status = mt_query_live(trace, run, peak_event, &ids, &id_count);
    if (status == MT_OK)
        status = read_blocks(trace, run, peak_event, ids, id_count, &blocks);
    ranking_sort(&blocks);
    for (size_t i = 0; i < blocks.count && status == MT_OK; i++) {
        if (grouping == MT_TOP_EACH)
            ranking_append(ranking, &blocks.rows[i]);
        else
            ranking_merge(trace, ranking, &blocks.rows[i]);
    }
    free(blocks.rows);
    free(ids);
    return status;
}

static mt_status add_steps(struct mt_trace *trace, const struct mt_run *run, struct ranking *ranking)
{
    for (size_t i = 0; i < ranking->count; i++)
        MT_TRY(mt_trace_step_of(trace, run, ranking->rows[i].event, &ranking->rows[i].step));
    return MT_OK;
}

mt_status mt_trace_top(struct mt_trace *trace, const struct mt_run *run, mt_top_grouping grouping, mt_top_moment moment,
                       size_t limit, struct mt_top_row **out_rows, size_t *out_count, bool *out_complete)
{
    struct ranking ranking = {0};
    mt_status status = MT_OK;
    if (moment == MT_TOP_AT_PEAK)
        status = rank_peak(trace, run, grouping, &ranking);
    else if (grouping == MT_TOP_EACH)
        status = rank_each(trace, run, limit, &ranking);
    else
        status = rank_summary(trace, run, limit, &ranking);
    ranking_finish(&ranking, limit);
    if (status == MT_OK)
        status = add_steps(trace, run, &ranking);
    assert(ranking.count <= limit);
    *out_complete = moment == MT_TOP_AT_PEAK || ranking.count == limit || run->complete_from_bytes == 0;
    return mt_query_hand_over(status, ranking.rows, ranking.count, out_rows, out_count);
}
