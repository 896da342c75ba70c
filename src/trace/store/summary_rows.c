#include "trace/store/summary_rows.h"

#include "base/text.h"

#include <assert.h>

/* Prepares the writing of rows to <prefix><table>, and binds the first of the columns to the run. */
static mt_status prepare_rows(struct mt_database *database, const char *prefix, const char *table, const char *columns,
                              int64_t run, struct mt_statement **out)
{
    struct mt_text name = {0};
    mt_text_add(&name, "%s%s", prefix, table);
    mt_status status = mt_database_prepare_insert(database, name.data, columns, out);
    mt_text_release(&name);
    mt_statement_bind_integer(*out, 1, run);
    return status;
}

/* Writes `count` rows to <prefix><table>: `write` writes row number i of `rows`. */
static mt_status write_rows(struct mt_database *database, int64_t run, const char *prefix, const char *table,
                            const char *columns, const void *rows, size_t count,
                            mt_status (*write)(struct mt_statement *statement, const void *rows, size_t i))
{
    struct mt_statement *statement;
    if (count == 0)
        return MT_OK;
    mt_status status = prepare_rows(database, prefix, table, columns, run, &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = write(statement, rows, i);
    mt_statement_finalize(statement);
    return status;
}

/* The segments with these indices. */
struct segment_choice {
    const struct mt_summary_segment *segments;
    const size_t *indices;
};

static mt_status write_segment(struct mt_statement *statement, const void *rows, size_t i)
{
    const struct segment_choice *choice = rows;
    const struct mt_summary_segment *row = &choice->segments[choice->indices[i]];
    return MT_RUN_WITH(statement, 2, MT_BIND_INTEGER(row->id), MT_BIND_INTEGER(row->address),
                       MT_BIND_INTEGER(row->bytes), MT_BIND_INTEGER(row->stream), MT_BIND_INTEGER(row->mapped_event),
                       MT_BIND_INTEGER_UNLESS(0, row->unmapped_event));
}

mt_status mt_summary_write_segment_rows(struct mt_database *database, int64_t run, const char *prefix,
                                        const struct mt_summary_segment *segments, const size_t *indices, size_t count)
{
    return write_rows(database, run, prefix, "segment", "run, id, address, bytes, stream, mapped_event, unmapped_event",
                      &(struct segment_choice){segments, indices}, count, write_segment);
}

static mt_status write_part(struct mt_statement *statement, const void *rows, size_t i)
{
    const struct mt_part *row = (const struct mt_part *)rows + i;
    return MT_RUN_WITH(statement, 2, MT_BIND_INTEGER(row->segment), MT_BIND_INTEGER(row->offset),
                       MT_BIND_INTEGER(row->mapped_event), MT_BIND_INTEGER(row->bytes),
                       MT_BIND_INTEGER_UNLESS(0, row->unmapped_event));
}

mt_status mt_summary_write_part_rows(struct mt_database *database, int64_t run, const char *prefix,
                                     const struct mt_part *parts, size_t count)
{
    return write_rows(database, run, prefix, "segment_part",
                      "run, segment, offset, mapped_event, bytes, unmapped_event", parts, count, write_part);
}

static mt_status write_step(struct mt_statement *statement, const void *rows, size_t i)
{
    const struct mt_summary_step *row = (const struct mt_summary_step *)rows + i;
    return MT_RUN_WITH(statement, 2, MT_BIND_INTEGER(row->number), MT_BIND_INTEGER(row->first_event),
                       MT_BIND_INTEGER(row->begin_ns), MT_BIND_INTEGER_UNLESS(0, row->last_event),
                       row->last_event != 0 ? MT_BIND_INTEGER(row->end_ns) : MT_BIND_NULL);
}

mt_status mt_summary_write_step_rows(struct mt_database *database, int64_t run, const char *prefix,
                                     const struct mt_summary_step *steps, size_t count)
{
    return write_rows(database, run, prefix, "step", "run, number, first_event, begin_ns, last_event, end_ns", steps,
                      count, write_step);
}

static mt_status write_checkpoint(struct mt_statement *statement, const void *rows, size_t i)
{
    const struct mt_summary_checkpoint *checkpoints = rows;
    assert(i == 0 || checkpoints[i - 1].event < checkpoints[i].event);
    return MT_RUN_WITH(statement, 2, MT_BIND_INTEGER(checkpoints[i].event),
                       MT_BIND_BLOB(checkpoints[i].live, checkpoints[i].live_bytes));
}

mt_status mt_summary_write_checkpoint_rows(struct mt_database *database, int64_t run, const char *prefix,
                                           const struct mt_summary_checkpoint *checkpoints, size_t count)
{
    return write_rows(database, run, prefix, "checkpoint", "run, event, live", checkpoints, count, write_checkpoint);
}

/* The statements that write totals, and the names of the run's categories. */
struct totals_statements {
    const struct mt_category_set *categories;
    struct mt_statement *peak, *peak_role, *peak_category, *category, *allocation;
};

static mt_status write_share(struct mt_statement *statement, int64_t step, const char *measure, const char *name,
                             const struct mt_live_total *total)
{
    return MT_RUN_WITH(statement, 2, MT_BIND_INTEGER(step), MT_BIND_TEXT(measure), MT_BIND_TEXT(name),
                       MT_BIND_INTEGER(total->allocated_bytes), MT_BIND_INTEGER(total->requested_bytes),
                       MT_BIND_INTEGER(total->blocks));
}

static mt_status write_composition(const struct totals_statements *statements, int64_t step, const char *measure,
                                   const struct mt_composition *composition)
{
    for (int i = 0; i < MT_MOST_CATEGORIES; i++)
        if (composition->category[i].blocks > 0)
            MT_TRY(write_share(statements->peak_category, step, measure,
                               mt_category_set_name(statements->categories, (mt_category)i),
                               &composition->category[i]));
    for (int i = 0; i < MT_ROLE_COUNT; i++)
        if (composition->role[i].blocks > 0)
            MT_TRY(write_share(statements->peak_role, step, measure, mt_role_name((mt_role)i), &composition->role[i]));
    return MT_OK;
}

static mt_status write_peaks(const struct totals_statements *statements, int64_t step, const struct mt_peaks *peaks)
{
    assert(peaks->stale == 0);
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        const struct mt_peak *peak = &peaks->measure[i];
        const char *measure = mt_measure_name((mt_measure)i);
        MT_TRY(MT_RUN_WITH(statements->peak, 2, MT_BIND_INTEGER(step), MT_BIND_TEXT(measure),
                           MT_BIND_INTEGER(peak->bytes), MT_BIND_INTEGER(peak->event)));
        MT_TRY(write_composition(statements, step, measure, &peak->at));
    }
    return MT_OK;
}

static mt_status write_counts(const struct totals_statements *statements, const struct mt_summary_scope *scope)
{
    for (int i = 0; i < (int)MT_PHASE_COUNT * (int)MT_MOST_CATEGORIES; i++) {
        int phase = i / MT_MOST_CATEGORIES, category = i % MT_MOST_CATEGORIES;
        const struct mt_summary_count *row = &scope->counts[phase][category];
        if (row->count > 0)
            MT_TRY(MT_RUN_WITH(
                statements->category, 2, MT_BIND_INTEGER(scope->step), MT_BIND_TEXT(mt_phase_name((mt_phase)phase)),
                MT_BIND_TEXT(mt_category_set_name(statements->categories, (mt_category)category)),
                MT_BIND_INTEGER(row->count), MT_BIND_INTEGER(row->total_bytes), MT_BIND_INTEGER(row->max_bytes)));
    }
    return MT_OK;
}

static mt_status write_allocations(struct mt_statement *statement, const struct mt_allocations *allocations)
{
    for (size_t i = 0; i <= allocations->mask; i++) {
        const struct mt_allocation_row *row = &allocations->rows[i];
        assert(row->count == 0 || row->requested_bytes >= allocations->complete_from_bytes);
        if (row->count > 0)
            MT_TRY(MT_RUN_WITH(statement, 2, MT_BIND_INTEGER(row->requested_bytes), MT_BIND_INTEGER(row->label),
                               MT_BIND_INTEGER(row->count), MT_BIND_INTEGER(row->first_event)));
    }
    return MT_OK;
}

static mt_status write_totals(const struct totals_statements *statements, const struct mt_summary_totals *totals)
{
    if (totals->run_peaks != NULL)
        MT_TRY(write_peaks(statements, MT_STEP_WHOLE_RUN, totals->run_peaks));
    for (size_t i = 0; i < totals->scope_count; i++) {
        MT_TRY(write_peaks(statements, totals->scopes[i]->step, &totals->scopes[i]->peaks));
        MT_TRY(write_counts(statements, totals->scopes[i]));
    }
    return totals->allocations != NULL ? write_allocations(statements->allocation, totals->allocations) : MT_OK;
}

/* Prepares these statements. The caller finalizes them, also after a failure. */
static mt_status prepare_totals(struct mt_database *database, const char *prefix, int64_t run,
                                struct totals_statements *out)
{
    MT_TRY(prepare_rows(database, prefix, "summary_peak", "run, step, measure, bytes, event", run, &out->peak));
    MT_TRY(prepare_rows(database, prefix, "summary_peak_role",
                        "run, step, measure, role, allocated_bytes, requested_bytes, blocks", run, &out->peak_role));
    MT_TRY(prepare_rows(database, prefix, "summary_peak_category",
                        "run, step, measure, category, allocated_bytes, requested_bytes, blocks", run,
                        &out->peak_category));
    MT_TRY(prepare_rows(database, prefix, "summary_category",
                        "run, step, phase, category, count, total_bytes, max_bytes", run, &out->category));
    return prepare_rows(database, prefix, "summary_allocation", "run, requested_bytes, label, count, first_event", run,
                        &out->allocation);
}

mt_status mt_summary_write_total_rows(struct mt_database *database, int64_t run, const char *prefix,
                                      const struct mt_summary_totals *totals)
{
    struct totals_statements statements = {.categories = totals->categories};
    mt_status status = prepare_totals(database, prefix, run, &statements);
    MT_THEN(status, write_totals(&statements, totals));
    mt_statement_finalize(statements.peak);
    mt_statement_finalize(statements.peak_role);
    mt_statement_finalize(statements.peak_category);
    mt_statement_finalize(statements.category);
    mt_statement_finalize(statements.allocation);
    return status;
}
