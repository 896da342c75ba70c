#include "trace/query/caveats.h"

#include "base/memory.h"
#include "trace/query/query.h"

#include <math.h>

/* The place of a kind among ours; 0: it is none of ours. */
#define WORD(name, text) " " text
#define PLACE_OF_KIND "instr('" MT_CAVEAT_KINDS(WORD) " ', ' ' || kind || ' ')"

/* The caveats in the order of their kinds. Older programs stored the sum over all unknown operators as two
 * measurements. */
static const char caveats_sql[] =
    "WITH every AS (SELECT kind, name, file, line, count, total, bytes, value FROM caveat WHERE run = ?1"
    " UNION ALL SELECT ?2, '(all operators)', '', 0, calls.value, NULL, results.value, NULL FROM measurement AS calls"
    " JOIN measurement AS results ON results.run = calls.run AND results.step = calls.step"
    " AND results.name = 'unknown:result_bytes' WHERE calls.run = ?1 AND calls.name = 'unknown:calls'"
    " AND calls.step = ?3 AND calls.value > 0 AND NOT EXISTS (SELECT 1 FROM caveat WHERE run = ?1 AND kind = ?2))"
    " SELECT kind, name, file, line, count, total, bytes, value FROM every WHERE " PLACE_OF_KIND " > 0"
    " ORDER BY " PLACE_OF_KIND ", bytes DESC, count DESC, name, file, line";

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
        .name = mt_query_text(trace, row, 1),
        .file = mt_query_text(trace, row, 2),
        .line = mt_statement_integer(row, 3) > 0 ? mt_statement_integer(row, 3) : 0,
        .count = natural(row, 4),
        .total = natural(row, 5),
        .bytes = natural(row, 6),
        .value = mt_statement_is_null(row, 7) ? NAN : mt_statement_real(row, 7),
    };
}

mt_status mt_trace_caveats(struct mt_trace *trace, const struct mt_run *run, struct mt_caveat **out_rows,
                           size_t *out_count)
{
    struct mt_caveat *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    mt_caveat_kind kind;
    MT_EACH_ROW (row, status, trace->database, caveats_sql, MT_BIND_INTEGER(run->id),
                 MT_BIND_TEXT(mt_caveat_kind_name(MT_CAVEAT_UNKNOWN)), MT_BIND_INTEGER(MT_NO_STEP))
        if (mt_caveat_kind_find(mt_query_text(trace, row, 0), &kind))
            *MT_HOST_ADD(rows, count) = read_caveat(trace, kind, row);
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}
