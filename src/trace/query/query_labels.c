/* What do the numbers of labels stand for? And which numbers may a row name?
 *
 * A trace may be anybody's: arrays are indexed by what it says, so every number is checked where it is read. */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The first `length` bytes of a span, a star, and the rest of the span; kept. */
static const char *keep_starred(struct mt_trace *trace, const char *span, size_t length, const char *rest)
{
    size_t rest_length = strlen(rest);
    char *pattern = mt_host_alloc(length + 1 + rest_length + 1);
    memcpy(pattern, span, length);
    pattern[length] = '*';
    memcpy(pattern + length + 1, rest, rest_length + 1);
    const char *kept = mt_query_keep(trace, pattern);
    free(pattern);
    return kept;
}

const char *mt_query_place(struct mt_trace *trace, const char *span)
{
    for (const char *part = span; *part != '\0';) {
        size_t length = strcspn(part, ".");
        if (length > 0 && strspn(part, "0123456789") == length)
            return keep_starred(trace, span, (size_t)(part - span), part + length);
        part += length + (part[length] == '.');
    }
    return span;
}

mt_status mt_query_natural(const struct mt_statement *row, int column, uint64_t *out)
{
    int64_t value = mt_statement_integer(row, column);
    if (value < 0)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: a row's %s is %" PRId64,
                       mt_statement_column_name(row, column), value);
    *out = (uint64_t)value;
    return MT_OK;
}

mt_status mt_query_row_natural(const struct mt_row *row, int column, uint64_t *out)
{
    int64_t value = mt_row_integer(row, column);
    if (value < 0)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " has a size, a place or a time below 0",
                       mt_row_integer(row, 0));
    *out = (uint64_t)value;
    return MT_OK;
}

mt_status mt_query_label_number(const struct mt_statement *row, int column, const struct mt_number_limits *limits,
                                uint32_t *out)
{
    int64_t number = mt_statement_integer(row, column);
    if (number < 0 || number >= limits->labels)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: an event has label %" PRId64 ", of %" PRIu32, number,
                       limits->labels);
    *out = (uint32_t)number;
    return MT_OK;
}

/* The column's name is what it numbers. */
static mt_status read_limit(const struct mt_statement *row, int column, int64_t most, uint32_t *out)
{
    int64_t limit = mt_statement_integer(row, column);
    if (limit < 0 || limit > most)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: its last %s would be number %" PRId64,
                       mt_statement_column_name(row, column), limit - 1);
    *out = (uint32_t)limit;
    return MT_OK;
}

mt_status mt_query_number_limits(struct mt_trace *trace, const struct mt_run *run, struct mt_number_limits *out)
{
    *out = (struct mt_number_limits){0};
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run,
                                        "SELECT ifnull((SELECT max(id) FROM label WHERE run = ?1), 0) + 1 AS label,"
                                        " ifnull((SELECT max(id) FROM segment WHERE run = ?1), -1) + 1 AS segment",
                                        &statement);
    if (status != MT_OK)
        return status;
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK)
        status = read_limit(statement, 0, 1 << MT_LABEL_NUMBER_BITS, &out->labels);
    if (status == MT_OK)
        status = read_limit(statement, 1, UINT32_MAX, &out->segments);
    mt_statement_finalize(statement);
    return status;
}

/* Rows under way; `count` is also the number of the next one. */
struct label_list {
    struct mt_label_row *rows;
    size_t count;
};

static void add_nothing(struct mt_trace *trace, struct label_list *list)
{
    const char *empty = mt_query_keep(trace, "");
    list->rows = mt_host_room(list->rows, 0, sizeof *list->rows);
    list->rows[list->count++] = (struct mt_label_row){empty, empty, empty, empty, empty, empty, empty, empty, -1};
}

static mt_status add_label(struct mt_trace *trace, const struct mt_statement *row, struct label_list *list)
{
    int64_t number = mt_statement_integer(row, 0);
    int64_t layer = mt_statement_is_null(row, 1) ? -1 : mt_statement_integer(row, 1);
    if (number != (int64_t)list->count)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: label %" PRId64 " follows label %zu", number,
                       list->count - 1);
    if (layer < -1 || layer > INT_MAX)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: label %" PRId64 " is of layer %" PRId64, number, layer);
    struct mt_top_row said;
    mt_query_label(trace, row, 2, &said);
    list->rows = mt_host_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count++] = (struct mt_label_row){.category = said.category,
                                                      .role = said.role,
                                                      .op = said.op,
                                                      .phase = said.phase,
                                                      .dtype = said.dtype,
                                                      .shape = said.shape,
                                                      .span = said.span,
                                                      .place = mt_query_place(trace, said.span),
                                                      .layer = (int)layer};
    return MT_OK;
}

mt_status mt_trace_labels(struct mt_trace *trace, const struct mt_run *run, struct mt_label_row **out_rows,
                          size_t *out_count)
{
    *out_rows = NULL;
    *out_count = 0;
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT label.id, label.layer, " MT_LABEL_COLUMNS
        " FROM label LEFT JOIN span ON span.run = ?1 AND span.id = label.span WHERE label.run = ?1 ORDER BY label.id",
        &statement);
    if (status != MT_OK)
        return status;
    struct label_list list = {0};
    add_nothing(trace, &list);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        status = add_label(trace, statement, &list);
    mt_statement_finalize(statement);
    if (status != MT_OK) {
        free(list.rows);
        return status;
    }
    *out_rows = list.rows;
    *out_count = list.count;
    return MT_OK;
}
