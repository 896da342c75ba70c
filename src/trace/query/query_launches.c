/* Which kernels ran, one by one? */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <stdlib.h>

static mt_status read_launch(struct mt_trace *trace, const struct mt_statement *row,
                             const struct mt_number_limits *limits, struct mt_launch_row *out)
{
    mt_status status = mt_query_natural(row, 0, &out->start_ns);
    if (status == MT_OK)
        status = mt_query_natural(row, 1, &out->duration_ns);
    if (status == MT_OK)
        status = mt_query_label_number(row, 3, limits, &out->label);
    out->name = mt_query_text(trace, row, 2);
    out->stream = (uint32_t)mt_statement_integer(row, 4);
    return status;
}

mt_status mt_trace_launches_visit(struct mt_trace *trace, const struct mt_run *run, mt_launch_visit visit,
                                  void *context)
{
    struct mt_number_limits limits;
    struct mt_statement *statement;
    mt_status status = mt_query_number_limits(trace, run, &limits);
    if (status == MT_OK)
        status = mt_query_prepare(trace, run,
                                  "SELECT start_ns, duration_ns, kernel_name.name, label, stream FROM kernel"
                                  " LEFT JOIN kernel_name ON kernel_name.run = ?1 AND kernel_name.id = kernel.name"
                                  " WHERE kernel.run = ?1 ORDER BY start_ns, kernel.id",
                                  &statement);
    if (status != MT_OK)
        return status;
    bool row = true;
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row) {
        struct mt_launch_row launch;
        status = read_launch(trace, statement, &limits, &launch);
        if (status == MT_OK)
            status = visit(context, &launch);
    }
    mt_statement_finalize(statement);
    return status;
}

struct launch_list {
    struct mt_launch_row *rows;
    size_t count;
};

static mt_status add_launch(void *context, const struct mt_launch_row *launch)
{
    struct launch_list *list = context;
    list->rows = mt_host_room(list->rows, list->count, sizeof *list->rows);
    list->rows[list->count++] = *launch;
    return MT_OK;
}

mt_status mt_trace_launches(struct mt_trace *trace, const struct mt_run *run, struct mt_launch_row **out_rows,
                            size_t *out_count)
{
    struct launch_list list = {0};
    mt_status status = mt_trace_launches_visit(trace, run, add_launch, &list);
    if (status != MT_OK) {
        free(list.rows);
        list = (struct launch_list){0};
    }
    *out_rows = list.rows;
    *out_count = list.count;
    return status;
}
