#include "trace/query/caveats.h"

#include "base/memory.h"
#include "trace/query/query.h"

#include <math.h>

/* The caveats of a kind. Older programs stored the sum over all unknown operators as two measurements. */
static const char caveats_sql[] =
    "WITH every AS (SELECT kind, name, file, line, count, total, bytes, value FROM caveat WHERE run = ?1 AND kind = ?2"
    " UNION ALL SELECT ?2, '(all operators)', '', 0, calls.value, NULL, results.value, NULL FROM measurement AS calls"
    " JOIN measurement AS results ON results.run = calls.run AND results.step = calls.step"
    " AND results.name = 'unknown:result_bytes' WHERE calls.run = ?1 AND calls.step = ?4 AND calls.value > 0"
    " AND calls.name = 'unknown:calls' AND ?2 = ?3"
    " AND NOT EXISTS (SELECT 1 FROM caveat WHERE run = ?1 AND kind = ?3))"
    " SELECT name, file, line, count, total, bytes, value FROM every ORDER BY bytes DESC, count DESC, name, file, line";

/* Returns a number, or -1 where it says nothing. In a file of others it may be below 0, too. */
static int64_t natural(const struct mt_statement *row, int column)
{
    return mt_statement_is_null(row, column) || mt_statement_integer(row, column) < 0
               ? -1
               : mt_statement_integer(row, column);
}

static struct mt_caveat read_caveat(struct mt_trace *trace, mt_caveat_kind kind, const struct mt_statement *row)
{
    return (struct mt_caveat){
        .kind = kind,
        .name = mt_query_text(trace, row, 0),
        .file = mt_query_text(trace, row, 1),
        .line = mt_statement_integer(row, 2) > 0 ? mt_statement_integer(row, 2) : 0,
        .count = natural(row, 3),
        .total = natural(row, 4),
        .bytes = natural(row, 5),
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
                     MT_BIND_TEXT(mt_caveat_kind_name((mt_caveat_kind)kind)),
                     MT_BIND_TEXT(mt_caveat_kind_name(MT_CAVEAT_UNKNOWN)), MT_BIND_INTEGER(MT_NO_STEP))
            *MT_HOST_ADD(rows, count) = read_caveat(trace, (mt_caveat_kind)kind, row);
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}
