/* Which segments grew or shrank? */
#include "base/memory.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <stdlib.h>

/* A segment that was mapped and unmapped as a whole is one part, at its beginning. */
static const char growing[] = "SELECT segment FROM segment_part WHERE run = ?1"
                              " GROUP BY segment HAVING count(*) > 1 OR max(offset) > 0 ORDER BY segment";

mt_status mt_trace_growing_segments(struct mt_trace *trace, const struct mt_run *run, uint32_t **out_numbers,
                                    size_t *out_count)
{
    struct mt_statement *statement;
    uint32_t *numbers = NULL;
    size_t count = 0;
    *out_numbers = NULL;
    *out_count = 0;
    mt_status status = mt_query_prepare(trace, run, growing, &statement);
    if (status != MT_OK)
        return status;
    bool row = true;
    while ((status = mt_statement_step(statement, &row)) == MT_OK && row) {
        numbers = mt_host_room(numbers, count, sizeof *numbers);
        numbers[count++] = (uint32_t)mt_statement_integer(statement, 0);
    }
    mt_statement_finalize(statement);
    if (status != MT_OK) {
        free(numbers);
        return status;
    }
    *out_numbers = numbers;
    *out_count = count;
    return MT_OK;
}
