#include "trace/query/caveats.h"

#include "base/memory.h"
#include "trace/query/query.h"

#include <math.h>

/* Numbers that say nothing are NULL. In a file of others they may be anything below 0, too. */
static const char caveats_sql[] =
    "SELECT name, file, max(line, 0), max(ifnull(count, -1), -1), max(ifnull(total, -1), -1),"
    " max(ifnull(bytes, -1), -1), value FROM caveat WHERE run = ?1 AND kind = ?2"
    " ORDER BY bytes DESC, count DESC, name, file, line";

static struct mt_caveat read_caveat(struct mt_trace *trace, mt_caveat_kind kind, const struct mt_statement *row)
{
    return (struct mt_caveat){
        .kind = kind,
        .name = mt_query_text(trace, row, 0),
        .file = mt_query_text(trace, row, 1),
        .line = mt_statement_integer(row, 2),
        .count = mt_statement_integer(row, 3),
        .total = mt_statement_integer(row, 4),
        .bytes = mt_statement_integer(row, 5),
        .value = mt_statement_is_null(row, 6) ? NAN : mt_statement_real(row, 6),
    };
}

mt_status mt_trace_caveats(struct mt_trace *trace, const struct mt_run *run, struct mt_caveat **out_rows,
                           size_t *out_count)
{
    struct mt_caveat *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    for (int kind = 0; kind < MT_CAVEAT_KIND_COUNT; kind++)
        MT_EACH_ROW (row, status, trace->database, caveats_sql, MT_BIND_INTEGER(run->id),
                     MT_BIND_TEXT(mt_caveat_kind_name((mt_caveat_kind)kind)))
            *MT_HOST_ADD(rows, count) = read_caveat(trace, (mt_caveat_kind)kind, row);
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}
