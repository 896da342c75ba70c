/* The query about the largest blocks. */
#include "base/memory.h"
#include "base/order.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Rows, added by falling size. Those that are alike are merged once all of their size are there: comparing each with
 * each takes seconds for 100,000 different ones.
 * Invariant of merged rows: rows[size_begin..count) have the size that was added last; no two of the others are
 * alike. */
struct ranking {
    struct mt_top_row *rows;
    size_t count, size_begin;
};

/* Orders rows of one size so that those that are alike are together. Texts are kept, so equal ones have equal
 * pointers. */
static int compare_texts(const void *left, const void *right)
{
    const struct mt_top_row *a = left, *b = right;
    const char *const of_a[] = {a->op, a->span, a->category, a->phase, a->role, a->dtype, a->shape};
    const char *const of_b[] = {b->op, b->span, b->category, b->phase, b->role, b->dtype, b->shape};
    int order = 0;
    for (size_t i = 0; i < sizeof of_a / sizeof of_a[0] && order == 0; i++)
        order = MT_COMPARE((uintptr_t)of_a[i], (uintptr_t)of_b[i]);
    return order;
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

static int compare_totals(const void *left, const void *right)
{
    const struct mt_top_row *a = left, *b = right;
    int order = MT_COMPARE(b->total_bytes, a->total_bytes);
    return order != 0 ? order : compare_rows(left, right);
}

static void ranking_sort(struct ranking *ranking, mt_top_order order)
{
    if (ranking->count > 1)
        qsort(ranking->rows, ranking->count, sizeof *ranking->rows,
              order == MT_TOP_BY_TOTAL ? compare_totals : compare_rows);
}

static void ranking_append(struct ranking *ranking, const struct mt_top_row *row)
{
    *MT_HOST_ADD(ranking->rows, ranking->count) = *row;
}

static void add_alike(struct mt_top_row *row, const struct mt_top_row *other)
{
    row->count += other->count;
    row->total_bytes += other->total_bytes;
    row->event = other->event < row->event ? other->event : row->event;
}

/* Merges the rows of the last size. The next row is of another one. */
static void ranking_end_size(struct ranking *ranking)
{
    const size_t added = ranking->count - ranking->size_begin;
    size_t merged = 0;
    if (added < 2) {
        ranking->size_begin = ranking->count;
        return;
    }
    struct mt_top_row *rows = ranking->rows + ranking->size_begin;
    qsort(rows, added, sizeof *rows, compare_texts);
    for (size_t i = 0; i < added; i++) {
        if (merged > 0 && compare_texts(&rows[merged - 1], &rows[i]) == 0)
            add_alike(&rows[merged - 1], &rows[i]);
        else
            rows[merged++] = rows[i];
    }
    ranking->count = ranking->size_begin += merged;
}

static void ranking_add(struct mt_trace *trace, struct ranking *ranking, const struct mt_top_row *row)
{
    struct mt_top_row placed = *row;
    placed.span = mt_query_place(trace, row->span);
    ranking_append(ranking, &placed);
}

static void ranking_finish(struct ranking *ranking, mt_top_order order, size_t limit)
{
    ranking_sort(ranking, order);
    ranking->count = ranking->count < limit ? ranking->count : limit;
}

/* True if the path is the pattern to the letter, as where [ is part of its name, or one that the pattern describes. */
static bool matches(const char *pattern, const char *path)
{
    return strcmp(pattern, path) == 0 || fnmatch(pattern, path, 0) == 0;
}

/* True if the pattern matches the path of the span, or of one around it. */
static bool is_in_module(const char *span, const char *pattern)
{
    char *path = mt_host_strdup(span);
    bool is_in = matches(pattern, path);
    for (char *dot = strrchr(path, '.'); dot != NULL && !is_in; dot = strrchr(path, '.')) {
        *dot = '\0';
        is_in = matches(pattern, path);
    }
    free(path);
    return is_in;
}

static bool is_chosen(const struct mt_top_choice *choice, const struct mt_top_row *row)
{
    return (choice->category == NULL || strcmp(row->category, choice->category) == 0) &&
           (choice->role == NULL || strcmp(row->role, choice->role) == 0) &&
           (choice->module == NULL || is_in_module(row->span, choice->module));
}

/* Visits the rows of the summary that are chosen, by falling size. */
static mt_status visit_summary(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                               const struct mt_top_visitor *visitor)
{
    struct mt_statement *statement;
    bool goes_on = true;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT requested_bytes, count, first_event, " MT_LABEL_COLUMNS " FROM summary_allocation" MT_LABEL_JOIN(
            "summary_allocation.label") "WHERE summary_allocation.run = ?1 ORDER BY requested_bytes DESC",
        &statement);
    while (goes_on && mt_statement_next(statement, &status)) {
        struct mt_top_row found = {.bytes = (uint64_t)mt_statement_integer(statement, 0),
                                   .count = (uint64_t)mt_statement_integer(statement, 1),
                                   .event = mt_statement_integer(statement, 2)};
        found.total_bytes = found.bytes * found.count;
        mt_query_label(trace, statement, 3, &found);
        if (is_chosen(choice, &found))
            goes_on = visitor->visit(visitor->context, &found);
    }
    mt_statement_finalize(statement);
    return status;
}

/* The largest allocations: all that are larger than `bytes`, and the first `equal` of that size. */
struct cutoff {
    uint64_t bytes;
    uint64_t larger, equal; /* number of them */
    int64_t first_event;    /* of all of them */
    uint64_t limit;
};

static bool add_to_cutoff(void *context, const struct mt_top_row *row)
{
    struct cutoff *cutoff = context;
    if (row->bytes != cutoff->bytes && cutoff->larger + cutoff->equal >= cutoff->limit)
        return false;
    if (row->bytes != cutoff->bytes) {
        cutoff->bytes = row->bytes;
        cutoff->larger += cutoff->equal;
        cutoff->equal = 0;
    }
    cutoff->equal += row->count;
    cutoff->first_event = row->event < cutoff->first_event ? row->event : cutoff->first_event;
    return true;
}

/* Finds the `limit` largest allocations. */
static mt_status find_cutoff(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                             size_t limit, struct cutoff *out)
{
    *out = (struct cutoff){.first_event = INT64_MAX, .limit = limit};
    mt_status status = visit_summary(trace, run, choice, &(struct mt_top_visitor){out, add_to_cutoff});
    if (out->larger + out->equal > limit)
        out->equal = limit - out->larger;
    assert(out->larger + out->equal <= limit);
    return status;
}

/* Ranks the allocations of a cutoff: reads events in their order until all are found. */
static mt_status rank_events(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                             struct cutoff wanted, struct ranking *ranking)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT requested_bytes, event.id, " MT_LABEL_COLUMNS " FROM event NOT INDEXED" MT_EVENT_LABEL_JOIN
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
        found.total_bytes = found.bytes;
        found.event = mt_statement_integer(statement, 1);
        mt_query_label(trace, statement, 2, &found);
        if (!is_chosen(choice, &found))
            continue;
        --*left;
        ranking_append(ranking, &found);
    }
    mt_statement_finalize(statement);
    return status;
}

static mt_status rank_each(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                           size_t limit, struct ranking *ranking)
{
    struct cutoff wanted;
    MT_TRY(find_cutoff(trace, run, choice, limit, &wanted));
    return rank_events(trace, run, choice, wanted, ranking);
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
            MT_THEN(status, mt_fail(MT_BAD_TRACE, "a checkpoint names an event that is not there"));
            break;
        }
        struct mt_top_row block = {.bytes = (uint64_t)mt_statement_integer(statement, 0), .count = 1, .event = ids[i]};
        block.total_bytes = block.bytes;
        mt_query_label(trace, statement, 1, &block);
        ranking_append(out, &block);
        mt_statement_reset(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

/* Visits the blocks live at the peak that are chosen, by falling size. */
static mt_status visit_peak(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                            const struct mt_top_visitor *visitor)
{
    uint64_t peak_bytes;
    int64_t peak_event, *ids = NULL;
    size_t id_count = 0;
    struct ranking blocks = {0};
    mt_status status = mt_query_peak_event(trace, run, MT_MEASURE_ALLOCATED, &peak_bytes, &peak_event);
    if (status == MT_OK && peak_event != 0)
        status = mt_query_live(trace, run, peak_event, &ids, &id_count);
    MT_THEN(status, read_blocks(trace, run, peak_event, ids, id_count, &blocks));
    ranking_sort(&blocks, MT_TOP_BY_SINGLE);
    bool goes_on = status == MT_OK;
    for (size_t i = 0; i < blocks.count && goes_on; i++)
        if (is_chosen(choice, &blocks.rows[i]))
            goes_on = visitor->visit(visitor->context, &blocks.rows[i]);
    free(blocks.rows);
    free(ids);
    return status;
}

mt_status mt_query_top_visit(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                             const struct mt_top_visitor *visitor)
{
    return (choice->moment == MT_TOP_AT_PEAK ? visit_peak : visit_summary)(trace, run, choice, visitor);
}

/* A ranking under way. */
struct rank {
    struct mt_trace *trace;
    const struct mt_top_choice *choice;
    size_t limit;
    struct ranking ranking;
};

/* Takes a row. False if none of those that follow, which are no larger, can belong to the largest. */
static bool take_row(void *context, const struct mt_top_row *row)
{
    struct rank *rank = context;
    struct ranking *ranking = &rank->ranking;
    const bool is_merged = rank->choice->grouping != MT_TOP_EACH;
    if (ranking->count > 0 && ranking->rows[ranking->count - 1].bytes != row->bytes) {
        if (is_merged)
            ranking_end_size(ranking);
        if (rank->choice->order == MT_TOP_BY_SINGLE && ranking->count >= rank->limit)
            return false;
    }
    if (is_merged)
        ranking_add(rank->trace, ranking, row);
    else
        ranking_append(ranking, row);
    return true;
}

static mt_status add_steps(struct mt_trace *trace, const struct mt_run *run, struct ranking *ranking)
{
    for (size_t i = 0; i < ranking->count; i++)
        MT_TRY(mt_trace_step_of(trace, run, ranking->rows[i].event, &ranking->rows[i].step));
    return MT_OK;
}

/* Adds the call stacks that asked for blocks, and their private pools. */
static mt_status add_stacks(struct mt_trace *trace, const struct mt_run *run, struct ranking *ranking)
{
    struct mt_stack_row *stacks = NULL;
    struct mt_statement *statement = NULL;
    size_t count = 0;
    mt_status status = mt_trace_stacks(trace, run, &stacks, &count);
    MT_THEN(status,
            mt_query_prepare(trace, run,
                             "SELECT alloc.stack, (SELECT value FROM setting WHERE run = ?1"
                             " AND name = 'stream ' || alloc.stream) FROM event NOT INDEXED JOIN event AS alloc "
                             "NOT INDEXED ON alloc.id ="
                             " ifnull(event.allocation, event.id) WHERE event.id = ?2",
                             &statement));
    for (size_t i = 0; i < ranking->count && status == MT_OK; i++) {
        struct mt_text line = {0}, frames = {0};
        MT_QUERY_BIND(statement, ranking->rows[i].event);
        bool found = mt_statement_next(statement, &status);
        uint32_t stack = found ? (uint32_t)mt_statement_integer(statement, 0) : 0;
        mt_stack_line(stacks, count, stack, &line);
        mt_stack_frames(stacks, count, stack, &frames);
        ranking->rows[i].line = mt_trace_keep(trace, mt_text_get(&line));
        ranking->rows[i].frames = mt_trace_keep(trace, mt_text_get(&frames));
        ranking->rows[i].pool = found ? mt_query_text(trace, statement, 1) : "";
        mt_text_release(&line);
        mt_text_release(&frames);
        mt_statement_reset(statement);
    }
    mt_statement_finalize(statement);
    free(stacks);
    return status;
}

mt_status mt_trace_top(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                       size_t limit, struct mt_top_row **out_rows, size_t *out_count, bool *out_complete)
{
    struct rank rank = {.trace = trace, .choice = choice, .limit = limit};
    struct ranking *ranking = &rank.ranking;
    bool is_whole_run = choice->moment == MT_TOP_WHOLE_RUN;
    mt_status status = is_whole_run && choice->grouping == MT_TOP_EACH
                           ? rank_each(trace, run, choice, limit, ranking)
                           : mt_query_top_visit(trace, run, choice, &(struct mt_top_visitor){&rank, take_row});
    if (choice->grouping != MT_TOP_EACH)
        ranking_end_size(ranking);
    ranking_finish(ranking, choice->order, limit);
    MT_THEN(status, add_steps(trace, run, ranking));
    if (status == MT_OK && choice->grouping == MT_TOP_EACH)
        status = add_stacks(trace, run, ranking);
    assert(ranking->count <= limit);
    bool is_by_size = choice->order == MT_TOP_BY_SINGLE || choice->grouping == MT_TOP_EACH;
    bool has_largest = is_by_size && ranking->count == limit;
    *out_complete = !is_whole_run || has_largest || run->complete_from_bytes == 0;
    return mt_query_hand_over(status, ranking->rows, ranking->count, out_rows, out_count);
}
