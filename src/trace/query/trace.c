#include "trace/query/trace.h"

#include "base/memory.h"
#include "trace/query/query.h"
#include "trace/store/store.h"

#include <stdlib.h>

const char *mt_query_keep(struct mt_trace *trace, const char *text)
{
    mt_span_id id = mt_interner_span(trace->texts, 0, text != NULL ? text : "", NULL);
    return mt_interner_find_span(trace->texts, id)->name;
}

const char *mt_query_text(struct mt_trace *trace, const struct mt_statement *statement, int column)
{
    return mt_query_keep(trace, mt_statement_text(statement, column));
}

mt_status mt_query_prepare(struct mt_trace *trace, const struct mt_run *run, const char *sql, struct mt_statement **out)
{
    mt_status status = mt_database_prepare(trace->database, sql, out);
    if (status == MT_OK)
        mt_statement_bind_integer(*out, 1, run->id);
    return status;
}

void mt_query_label(struct mt_trace *trace, const struct mt_statement *statement, int column, struct mt_top_row *out)
{
    const char **fields[] = {&out->category, &out->op, &out->phase, &out->role, &out->dtype, &out->shape, &out->span};
    for (int i = 0; i < (int)(sizeof fields / sizeof fields[0]); i++)
        *fields[i] = mt_query_text(trace, statement, column + i);
}

mt_status mt_trace_open(const char *path, struct mt_trace **out)
{
    *out = NULL;
    struct mt_trace *trace = mt_host_alloc(sizeof *trace);
    trace->texts = mt_interner_create();
    mt_status status = mt_store_open_reading(path, &trace->database);
    if (status == MT_OK)
        status = mt_query_load_runs(trace);
    if (status != MT_OK) {
        mt_trace_close(trace);
        return status;
    }
    *out = trace;
    return MT_OK;
}

void mt_trace_close(struct mt_trace *trace)
{
    if (trace == NULL)
        return;
    mt_database_close(trace->database);
    mt_interner_destroy(trace->texts);
    free(trace->runs);
    free(trace);
}
