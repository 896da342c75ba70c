/* The call stacks of a run. */
#include "base/memory.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>

static mt_status add_stack(struct mt_trace *trace, const struct mt_statement *row, struct mt_stack_row **rows,
                           size_t *count)
{
    int64_t id = mt_statement_integer(row, 0), parent = mt_statement_integer(row, 1);
    uint64_t line;
    assert(*count > 0);
    if (id != (int64_t)*count || id > UINT32_MAX || parent < 0 || parent >= id)
        return mt_fail(MT_BAD_TRACE,
                       "the trace is damaged: stack %" PRId64 ", called from stack %" PRId64
                       ", comes where stack %zu is expected",
                       id, parent, *count);
    MT_TRY(mt_query_natural(row, 4, &line));
    *MT_HOST_ADD(*rows, *count) = (struct mt_stack_row){.parent = (uint32_t)parent,
                                                        .function = mt_query_text(trace, row, 2),
                                                        .file = mt_query_text(trace, row, 3),
                                                        .line = line};
    return MT_OK;
}

mt_status mt_trace_stacks(struct mt_trace *trace, const struct mt_run *run, struct mt_stack_row **out_rows,
                          size_t *out_count)
{
    mt_status status = MT_OK;
    struct mt_stack_row *rows = NULL;
    size_t count = 0;
    *MT_HOST_ADD(rows, count) =
        (struct mt_stack_row){.function = mt_trace_keep(trace, ""), .file = mt_trace_keep(trace, "")};
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT stack.id, parent, function, file, line FROM stack JOIN frame ON frame.run = stack.run"
                 " AND frame.id = stack.frame WHERE stack.run = ?1 ORDER BY stack.id",
                 MT_BIND_INTEGER(run->id))
        status = add_stack(trace, row, &rows, &count);
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}
