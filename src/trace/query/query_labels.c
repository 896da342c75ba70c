/* Queries about labels and categories: the rows of labels, and how much the blocks of each took.
 *
 * A trace may be anybody's, and arrays are indexed by its numbers. So every number is checked where it is read. */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Returns the first `length` bytes of a span, a star, and `rest`; kept. */
static const char *keep_starred(struct mt_trace *trace, const char *span, size_t length, const char *rest)
{
    size_t rest_length = strlen(rest);
    char *pattern = mt_host_alloc(length + 1 + rest_length + 1);
    memcpy(pattern, span, length);
    pattern[length] = '*';
    memcpy(pattern + length + 1, rest, rest_length + 1);
    const char *kept = mt_trace_keep(trace, pattern);
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

void mt_query_label(struct mt_trace *trace, const struct mt_statement *statement, int column, struct mt_top_row *out)
{
    const char **fields[] = {&out->category, &out->op, &out->phase, &out->role, &out->dtype, &out->shape, &out->span};
    for (int i = 0; i < (int)(sizeof fields / sizeof fields[0]); i++)
        *fields[i] = mt_query_text(trace, statement, column + i);
}

/* Rows under way; `count` is also the number of the next one. */
struct label_list {
    struct mt_label_row *rows;
    size_t count;
};

/* Adds the row of number 0, which no label has. */
static void add_no_label(struct mt_trace *trace, struct label_list *list)
{
    const char *empty = mt_trace_keep(trace, "");
    assert(list->count == 0);
    *MT_HOST_ADD(list->rows, list->count) =
        (struct mt_label_row){empty, empty, empty, empty, empty, empty, empty, empty, -1, empty};
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
    *MT_HOST_ADD(list->rows, list->count) = (struct mt_label_row){.category = said.category,
                                                                  .role = said.role,
                                                                  .op = said.op,
                                                                  .phase = said.phase,
                                                                  .dtype = said.dtype,
                                                                  .shape = said.shape,
                                                                  .span = said.span,
                                                                  .place = mt_query_place(trace, said.span),
                                                                  .layer = (int)layer,
                                                                  .role_source = mt_query_text(trace, row, 9)};
    return MT_OK;
}

mt_status mt_trace_labels(struct mt_trace *trace, const struct mt_run *run, struct mt_label_row **out_rows,
                          size_t *out_count)
{
    struct label_list list = {0};
    mt_status status = MT_OK;
    add_no_label(trace, &list);
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT label.id, label.layer, " MT_LABEL_COLUMNS
                 ", label.role_source FROM label LEFT JOIN span ON span.run = ?1 AND span.id = label.span WHERE "
                 "label.run = ?1 ORDER BY label.id",
                 MT_BIND_INTEGER(run->id))
        status = add_label(trace, row, &list);
    return mt_query_hand_over(status, list.rows, list.count, out_rows, out_count);
}

static mt_status add_allocation(const struct mt_statement *row, const struct mt_number_limits *limits,
                                struct mt_label_sum *sums)
{
    uint32_t label;
    uint64_t bytes;
    MT_TRY(mt_query_label_number(row, 0, limits, &label));
    MT_TRY(mt_query_natural(row, 1, &bytes));
    assert(label < limits->labels);
    sums[label].allocations++;
    sums[label].allocated_bytes += bytes;
    return MT_OK;
}

static mt_status add_allocations(struct mt_trace *trace, const struct mt_run *run,
                                 const struct mt_number_limits *limits, struct mt_label_sum *sums)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (
        row, status, trace->database,
        "SELECT label, block_bytes FROM event NOT INDEXED WHERE ?1 = ?1 AND id >= ?2 AND id < ?3 AND kind = ?4",
        MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)),
        MT_BIND_INTEGER(MT_EVENT_ALLOC))
        status = add_allocation(row, limits, sums);
    return status;
}

/* Adds the blocks that are live at the peak. `limits` were read before them, and a live run may have more labels since:
 * blocks of those are left out. */
static mt_status add_live(struct mt_trace *trace, const struct mt_run *run, const struct mt_number_limits *limits,
                          struct mt_label_sum *sums)
{
    uint64_t peak_bytes;
    int64_t peak_event;
    struct mt_block_row *blocks = NULL;
    size_t count = 0;
    mt_status status = mt_query_peak_event(trace, run, MT_MEASURE_ALLOCATED, &peak_bytes, &peak_event);
    if (status == MT_OK && peak_event != 0)
        status = mt_trace_live(trace, run, peak_event, &blocks, &count);
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].label >= limits->labels)
            continue;
        sums[blocks[i].label].live_blocks++;
        sums[blocks[i].label].live_bytes += blocks[i].block_bytes;
    }
    free(blocks);
    return status;
}

mt_status mt_trace_label_sums(struct mt_trace *trace, const struct mt_run *run, struct mt_label_sum **out_sums,
                              size_t *out_count)
{
    struct mt_number_limits limits;
    mt_status status = mt_query_number_limits(trace, run, &limits);
    struct mt_label_sum *sums = mt_host_alloc(limits.labels * sizeof *sums + 1);
    MT_THEN(status, add_allocations(trace, run, &limits, sums));
    MT_THEN(status, add_live(trace, run, &limits, sums));
    return mt_query_hand_over(status, sums, limits.labels, out_sums, out_count);
}

/* The cut is the phase that is asked for, or all. The pass up to the loss counts as forward. */
#define IN_CUT "FILTER (WHERE ?3 IS NULL OR phase = ?3)"
static const char categories_sql[] =
    "SELECT category, max(max_bytes) " IN_CUT ", ifnull(sum(CASE step WHEN ?2 THEN count END) " IN_CUT ", 0),"
    " sum(total_bytes) " IN_CUT ", max(max_bytes) FILTER (WHERE phase IN ('forward', 'loss'))"
    " FROM summary_category WHERE run = ?1 GROUP BY category HAVING count(*) " IN_CUT " > 0 ORDER BY 2 DESC, category";

mt_status mt_trace_categories(struct mt_trace *trace, const struct mt_run *run, const char *phase,
                              struct mt_category_row **out_rows, size_t *out_count)
{
    struct mt_category_row *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    /* Without a full step, the count is of a step that the table does not have. */
    MT_EACH_ROW (row, status, trace->database, categories_sql, MT_BIND_INTEGER(run->id),
                 MT_BIND_INTEGER(run->last_full_step >= 0 ? run->last_full_step : MT_ALL_STEPS), MT_BIND_TEXT(phase))
        *MT_HOST_ADD(rows, count) = (struct mt_category_row){.category = mt_query_text(trace, row, 0),
                                                             .max_bytes = (uint64_t)mt_statement_integer(row, 1),
                                                             .per_step = (uint64_t)mt_statement_integer(row, 2),
                                                             .total_bytes = (uint64_t)mt_statement_integer(row, 3),
                                                             .forward_bytes = (uint64_t)mt_statement_integer(row, 4)};
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}
