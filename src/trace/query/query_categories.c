/* What kinds of tensors were allocated, how large, how many? */
#include "base/memory.h"
#include "trace/query/query.h"

#include <stdlib.h>

/* Without a phase each category is counted where it belongs; a category that is not ours, and Workspace, anywhere. */
static const char categories_sql[] =
    "SELECT category, max(max_bytes), sum(CASE step WHEN ?2 THEN count ELSE 0 END), sum(total_bytes)"
    " FROM summary_category WHERE run = ?1 AND CASE"
    " WHEN ?3 IS NOT NULL THEN phase = ?3"
    " WHEN category IN ('Embed', 'Norm', 'Attn', 'AttnScores', 'AttnOut', 'Softmax', 'FFN', 'einsum', 'Block', 'Loss')"
    " THEN phase IN ('forward', 'loss')"
    " WHEN category = 'Gradient' THEN phase = 'backward'"
    " WHEN category IN ('Opt State', 'Optimizer') THEN phase IN ('backward', 'optimizer')"
    " WHEN category = 'Param' THEN phase = 'init'"
    " WHEN category = 'Data' THEN phase = 'forward'"
    " ELSE 1 END GROUP BY category ORDER BY 2 DESC, category";

mt_status mt_trace_categories(struct mt_trace *trace, const struct mt_run *run, const char *phase,
                              struct mt_category_row **out_rows, size_t *out_count)
{
    *out_rows = NULL;
    *out_count = 0;
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(trace, run, categories_sql, &statement);
    if (status != MT_OK)
        return status;
    /* A run without a full step has no count of one: -2 is no step of the table. */
    mt_statement_bind_integer(statement, 2, run->last_full_step >= 0 ? run->last_full_step : MT_ALL_STEPS);
    mt_statement_bind_text(statement, 3, phase);
    bool row = true;
    while ((status = mt_statement_step(statement, &row)) == MT_OK && row) {
        *out_rows = mt_host_room(*out_rows, *out_count, sizeof **out_rows);
        (*out_rows)[(*out_count)++] = (struct mt_category_row){
            .category = mt_query_text(trace, statement, 0),
            .max_bytes = (uint64_t)mt_statement_integer(statement, 1),
            .per_step = (uint64_t)mt_statement_integer(statement, 2),
            .total_bytes = (uint64_t)mt_statement_integer(statement, 3),
        };
    }
    mt_statement_finalize(statement);
    return status;
}
