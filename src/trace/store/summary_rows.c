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

mt_status mt_summary_write_segment_rows(struct mt_database *database, int64_t run,
                                        const struct mt_summary_segment *segments, const size_t *indices, size_t count)
{
    struct mt_statement *statement;
    if (count == 0)
        return MT_OK;
    mt_status status = prepare_rows(database, "", "segment",
                                    "run, id, address, bytes, stream, mapped_event, unmapped_event", run, &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        const struct mt_summary_segment *row = &segments[indices[i]];
        const int64_t values[] = {row->id, (int64_t)row->address, (int64_t)row->bytes, row->stream, row->mapped_event};
        mt_statement_bind_integers(statement, 2, values, 5);
        mt_statement_bind_optional(statement, 7, row->unmapped_event, 0);
        status = mt_statement_run(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

mt_status mt_summary_write_part_rows(struct mt_database *database, int64_t run, const struct mt_part *parts,
                                     size_t count)
{
    struct mt_statement *statement;
    if (count == 0)
        return MT_OK;
    mt_status status = prepare_rows(database, "", "segment_part",
                                    "run, segment, offset, mapped_event, bytes, unmapped_event", run, &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        const struct mt_part *row = &parts[i];
        const int64_t values[] = {row->segment, (int64_t)row->offset, row->mapped_event, (int64_t)row->bytes};
        mt_statement_bind_integers(statement, 2, values, 4);
        mt_statement_bind_optional(statement, 6, row->unmapped_event, 0);
        status = mt_statement_run(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

static mt_status write_step(struct mt_statement *statement, const struct mt_summary_step *row)
{
    const int64_t values[] = {row->number, row->first_event, (int64_t)row->begin_ns};
    mt_statement_bind_integers(statement, 2, values, 3);
    mt_statement_bind_optional(statement, 5, row->last_event, 0);
    if (row->last_event == 0)
        mt_statement_bind_null(statement, 6);
    else
        mt_statement_bind_integer(statement, 6, (int64_t)row->end_ns);
    return mt_statement_run(statement);
}

mt_status mt_summary_write_step_rows(struct mt_database *database, int64_t run, const struct mt_summary_step *steps,
                                     size_t count)
{
    struct mt_statement *statement;
    if (count == 0)
        return MT_OK;
    mt_status status =
        prepare_rows(database, "", "step", "run, number, first_event, begin_ns, last_event, end_ns", run, &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = write_step(statement, &steps[i]);
    mt_statement_finalize(statement);
    return status;
}

mt_status mt_summary_write_checkpoint_rows(struct mt_database *database, int64_t run,
                                           const struct mt_summary_checkpoint *checkpoints, size_t count)
{
    struct mt_statement *statement;
    if (count == 0)
        return MT_OK;
    mt_status status = prepare_rows(database, "", "checkpoint", "run, event, live", run, &statement);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        assert(i == 0 || checkpoints[i - 1].event < checkpoints[i].event);
        mt_statement_bind_integer(statement, 2, checkpoints[i].event);
        mt_statement_bind_blob(statement, 3, checkpoints[i].live, checkpoints[i].live_bytes);
        status = mt_statement_run(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

/* The statements that write totals, and the names of the run's categories. */
struct totals_statements {
    const struct mt_category_set *categories;
    struct mt_statement *peak, *peak_category, *category, *allocation;
};

static mt_status write_composition(const struct totals_statements *statements, int64_t step, mt_measure measure,
                                   const struct mt_composition *composition)
{
    struct mt_statement *statement = statements->peak_category;
    mt_status status = MT_OK;
    mt_statement_bind_integer(statement, 2, step);
    mt_statement_bind_text(statement, 3, mt_measure_name(measure));
    for (int i = 0; i < MT_MOST_CATEGORIES && status == MT_OK; i++) {
        const struct mt_category_total *total = &composition->category[i];
        const int64_t values[] = {(int64_t)total->allocated_bytes, (int64_t)total->requested_bytes,
                                  (int64_t)total->blocks};
        if (total->blocks == 0)
            continue;
        mt_statement_bind_text(statement, 4, mt_category_set_name(statements->categories, (mt_category)i));
        mt_statement_bind_integers(statement, 5, values, 3);
        status = mt_statement_run(statement);
    }
    return status;
}

static mt_status write_peaks(const struct totals_statements *statements, int64_t step, const struct mt_peaks *peaks)
{
    mt_status status = MT_OK;
    assert(peaks->stale == 0);
    for (int i = 0; i < MT_MEASURE_COUNT && status == MT_OK; i++) {
        const struct mt_peak *peak = &peaks->measure[i];
        mt_statement_bind_integer(statements->peak, 2, step);
        mt_statement_bind_text(statements->peak, 3, mt_measure_name((mt_measure)i));
        mt_statement_bind_integer(statements->peak, 4, (int64_t)peak->bytes);
        mt_statement_bind_integer(statements->peak, 5, peak->event);
        status = mt_statement_run(statements->peak);
        if (status == MT_OK)
            status = write_composition(statements, step, (mt_measure)i, &peak->at);
    }
    return status;
}

static mt_status write_count(struct mt_statement *statement, mt_phase phase, const char *category,
                             const struct mt_summary_count *row)
{
    const int64_t values[] = {(int64_t)row->count, (int64_t)row->total_bytes, (int64_t)row->max_bytes};
    mt_statement_bind_text(statement, 3, mt_phase_name(phase));
    mt_statement_bind_text(statement, 4, category);
    mt_statement_bind_integers(statement, 5, values, 3);
    return mt_statement_run(statement);
}

static mt_status write_counts(const struct totals_statements *statements, const struct mt_summary_scope *scope)
{
    struct mt_statement *statement = statements->category;
    mt_status status = MT_OK;
    mt_statement_bind_integer(statement, 2, scope->step);
    for (int i = 0; i < (int)MT_PHASE_COUNT * (int)MT_MOST_CATEGORIES && status == MT_OK; i++) {
        int phase = i / MT_MOST_CATEGORIES, category = i % MT_MOST_CATEGORIES;
        const struct mt_summary_count *count = &scope->counts[phase][category];
        if (count->count != 0)
            status = write_count(statement, (mt_phase)phase,
                                 mt_category_set_name(statements->categories, (mt_category)category), count);
    }
    return status;
}

static mt_status write_allocations(struct mt_statement *statement, const struct mt_allocations *allocations)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i <= allocations->mask && status == MT_OK; i++) {
        const struct mt_allocation_row *row = &allocations->rows[i];
        const int64_t values[] = {(int64_t)row->requested_bytes, row->label, (int64_t)row->count, row->first_event};
        if (row->count == 0)
            continue;
        assert(row->requested_bytes >= allocations->complete_from_bytes);
        mt_statement_bind_integers(statement, 2, values, 4);
        status = mt_statement_run(statement);
    }
    return status;
}

static mt_status write_totals(const struct totals_statements *statements, const struct mt_summary_totals *totals)
{
    mt_status status = MT_OK;
    if (totals->run_peaks != NULL)
        status = write_peaks(statements, MT_STEP_WHOLE_RUN, totals->run_peaks);
    for (size_t i = 0; i < totals->scope_count && status == MT_OK; i++) {
        status = write_peaks(statements, totals->scopes[i]->step, &totals->scopes[i]->peaks);
        if (status == MT_OK)
            status = write_counts(statements, totals->scopes[i]);
    }
    if (status == MT_OK && totals->allocations != NULL)
        status = write_allocations(statements->allocation, totals->allocations);
    return status;
}

/* Prepares all of them. The caller finalizes them, also after a failure. */
static mt_status prepare_totals(struct mt_database *database, const char *prefix, int64_t run,
                                struct totals_statements *out)
{
    MT_TRY(prepare_rows(database, prefix, "summary_peak", "run, step, measure, bytes, event", run, &out->peak));
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
    if (status == MT_OK)
        status = write_totals(&statements, totals);
    mt_statement_finalize(statements.peak);
    mt_statement_finalize(statements.peak_category);
    mt_statement_finalize(statements.category);
    mt_statement_finalize(statements.allocation);
    return status;
}
