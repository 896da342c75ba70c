/* How was a run configured, and what did it measure? */
#include "base/memory.h"
#include "trace/query/query.h"

#include <math.h>
#include <string.h>

const char *mt_setting_find(const struct mt_setting_row *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].value;
    return "";
}

mt_status mt_trace_settings(struct mt_trace *trace, const struct mt_run *run, struct mt_setting_row **out_rows,
                            size_t *out_count)
{
    *out_rows = NULL;
    *out_count = 0;
    struct mt_statement *statement = NULL;
    mt_status status =
        mt_query_prepare(trace, run, "SELECT name, value FROM setting WHERE run = ?1 ORDER BY name", &statement);
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row) {
        *out_rows = mt_host_room(*out_rows, *out_count, sizeof **out_rows);
        (*out_rows)[(*out_count)++] = (struct mt_setting_row){
            .name = mt_query_text(trace, statement, 0),
            .value = mt_query_text(trace, statement, 1),
        };
    }
    mt_statement_finalize(statement);
    return status;
}

mt_status mt_trace_measurements(struct mt_trace *trace, const struct mt_run *run, const char *name,
                                struct mt_measurement_row **out_rows, size_t *out_count)
{
    *out_rows = NULL;
    *out_count = 0;
    struct mt_statement *statement = NULL;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT step, value FROM measurement WHERE run = ?1 AND name = ?2 ORDER BY step", &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_text(statement, 2, name);
    bool row = true;
    while ((status = mt_statement_step(statement, &row)) == MT_OK && row) {
        *out_rows = mt_host_room(*out_rows, *out_count, sizeof **out_rows);
        (*out_rows)[(*out_count)++] = (struct mt_measurement_row){
            .name = mt_query_keep(trace, name),
            .step = mt_statement_integer(statement, 0),
            .value = mt_statement_is_null(statement, 1) ? NAN : mt_statement_real(statement, 1),
        };
    }
    mt_statement_finalize(statement);
    return status;
}
