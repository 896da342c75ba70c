/* A summary's rows. Every write replaces what is there, so that storing twice is harmless. */
#include "trace/store/summary_parts.h"

#include "base/text.h"

#include <stdlib.h>

/* A prepared "INSERT OR REPLACE INTO <prefix><table> VALUES (?, …)" with the run in its first column. */
static mt_status prepare_rows(struct mt_database *database, const char *prefix, const char *table, int columns,
                              int64_t run, struct mt_statement **out)
{
    struct mt_text sql = {0};
    mt_text_add(&sql, "INSERT OR REPLACE INTO %s%s VALUES (?", prefix, table);
    for (int i = 1; i < columns; i++)
        mt_text_add(&sql, ", ?");
    mt_text_add(&sql, ")");
    mt_status status = mt_database_prepare(database, sql.data, out);
    mt_text_release(&sql);
    if (status == MT_OK)
        mt_statement_bind_integer(*out, 1, run);
    return status;
}

/* Event ids are never 0: 0 stands for an end that has not come. */
static void bind_event_or_null(struct mt_statement *statement, int index, int64_t event)
{
    if (event == 0)
        mt_statement_bind_null(statement, index);
    else
        mt_statement_bind_integer(statement, index, event);
}

static mt_status write_segment(struct mt_statement *statement, const struct mt_summary_segment *segment)
{
    mt_statement_bind_integer(statement, 2, segment->id);
    mt_statement_bind_integer(statement, 3, (int64_t)segment->address);
    mt_statement_bind_integer(statement, 4, (int64_t)segment->bytes);
    mt_statement_bind_integer(statement, 5, segment->stream);
    mt_statement_bind_integer(statement, 6, segment->mapped_event);
    bind_event_or_null(statement, 7, segment->unmapped_event);
    return mt_statement_run(statement);
}

static mt_status store_segments(struct mt_summary *summary, struct mt_database *database, int64_t run)
{
    struct mt_statement *statement;
    if (summary->changed_count == 0)
        return MT_OK;
    mt_status status = prepare_rows(database, "", "segment", 7, run, &statement);
    for (size_t i = 0; i < summary->changed_count && status == MT_OK; i++) {
        struct mt_summary_segment *segment = &summary->segments[summary->changed_segments[i]];
        status = write_segment(statement, segment);
        segment->changed = false;
    }
    summary->changed_count = 0;
    mt_statement_finalize(statement);
    return status;
}

/* A part may have several rows here, as it became by and by: the last one replaces the others. */
static mt_status store_parts(struct mt_parts *parts, struct mt_database *database, int64_t run)
{
    struct mt_statement *statement;
    if (parts->row_count == 0)
        return MT_OK;
    mt_status status = prepare_rows(database, "", "segment_part", 6, run, &statement);
    for (size_t i = 0; i < parts->row_count && status == MT_OK; i++) {
        const struct mt_part *part = &parts->rows[i];
        mt_statement_bind_integer(statement, 2, part->segment);
        mt_statement_bind_integer(statement, 3, (int64_t)part->offset);
        mt_statement_bind_integer(statement, 4, part->mapped_event);
        mt_statement_bind_integer(statement, 5, (int64_t)part->bytes);
        bind_event_or_null(statement, 6, part->unmapped_event);
        status = mt_statement_run(statement);
    }
    parts->row_count = 0;
    mt_statement_finalize(statement);
    return status;
}

static mt_status write_step(struct mt_statement *statement, const struct mt_summary_step *step)
{
    mt_statement_bind_integer(statement, 2, step->number);
    mt_statement_bind_integer(statement, 3, step->first_event);
    bind_event_or_null(statement, 4, step->last_event);
    mt_statement_bind_integer(statement, 5, (int64_t)step->begin_ns);
    if (step->last_event == 0)
        mt_statement_bind_null(statement, 6);
    else
        mt_statement_bind_integer(statement, 6, (int64_t)step->end_ns);
    return mt_statement_run(statement);
}

static mt_status store_steps(struct mt_summary *summary, struct mt_database *database, int64_t run)
{
    struct mt_statement *statement;
    if (summary->steps_stored == summary->step_count)
        return MT_OK;
    mt_status status = prepare_rows(database, "", "step", 6, run, &statement);
    for (size_t i = summary->steps_stored; i < summary->step_count && status == MT_OK; i++)
        status = write_step(statement, &summary->steps[i]);
    const struct mt_summary_step *last = &summary->steps[summary->step_count - 1];
    summary->steps_stored = summary->step_count - (last->last_event == 0);
    mt_statement_finalize(statement);
    return status;
}

static mt_status store_checkpoints(struct mt_summary *summary, struct mt_database *database, int64_t run)
{
    struct mt_statement *statement;
    if (summary->checkpoint_count == 0)
        return MT_OK;
    mt_status status = prepare_rows(database, "", "checkpoint", 3, run, &statement);
    for (size_t i = 0; i < summary->checkpoint_count; i++) {
        struct mt_summary_checkpoint *checkpoint = &summary->checkpoints[i];
        if (status == MT_OK) {
            mt_statement_bind_integer(statement, 2, checkpoint->event);
            mt_statement_bind_blob(statement, 3, checkpoint->live, checkpoint->live_bytes);
            status = mt_statement_run(statement);
        }
        free(checkpoint->live);
    }
    summary->checkpoint_count = 0;
    mt_statement_finalize(statement);
    return status;
}

/* The statements that a run's totals go through, and what its categories are called. */
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
        if (total->blocks == 0)
            continue;
        mt_statement_bind_text(statement, 4, mt_category_set_name(statements->categories, (mt_category)i));
        mt_statement_bind_integer(statement, 5, (int64_t)total->allocated_bytes);
        mt_statement_bind_integer(statement, 6, (int64_t)total->requested_bytes);
        mt_statement_bind_integer(statement, 7, (int64_t)total->blocks);
        status = mt_statement_run(statement);
    }
    return status;
}

static mt_status write_peak(const struct totals_statements *statements, int64_t step, mt_measure measure,
                            const struct mt_peak *peak)
{
    mt_statement_bind_integer(statements->peak, 2, step);
    mt_statement_bind_text(statements->peak, 3, mt_measure_name(measure));
    mt_statement_bind_integer(statements->peak, 4, (int64_t)peak->bytes);
    mt_statement_bind_integer(statements->peak, 5, peak->event);
    mt_status status = mt_statement_run(statements->peak);
    return status == MT_OK ? write_composition(statements, step, measure, &peak->at) : status;
}

static mt_status write_peaks(const struct totals_statements *statements, int64_t step, const struct mt_peaks *peaks)
{
    mt_status status = MT_OK;
    for (int i = 0; i < MT_MEASURE_COUNT && status == MT_OK; i++)
        status = write_peak(statements, step, (mt_measure)i, &peaks->measure[i]);
    return status;
}

static mt_status write_count(struct mt_statement *statement, mt_phase phase, const char *category,
                             const struct mt_summary_count *count)
{
    mt_statement_bind_text(statement, 3, mt_phase_name(phase));
    mt_statement_bind_text(statement, 4, category);
    mt_statement_bind_integer(statement, 5, (int64_t)count->count);
    mt_statement_bind_integer(statement, 6, (int64_t)count->total_bytes);
    mt_statement_bind_integer(statement, 7, (int64_t)count->max_bytes);
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
        if (row->count == 0)
            continue;
        mt_statement_bind_integer(statement, 2, (int64_t)row->requested_bytes);
        mt_statement_bind_integer(statement, 3, row->label);
        mt_statement_bind_integer(statement, 4, (int64_t)row->count);
        mt_statement_bind_integer(statement, 5, row->first_event);
        status = mt_statement_run(statement);
    }
    return status;
}

static mt_status write_scope(const struct totals_statements *statements, const struct mt_summary_scope *scope)
{
    mt_status status = write_peaks(statements, scope->step, &scope->peaks);
    return status == MT_OK ? write_counts(statements, scope) : status;
}

static mt_status write_totals(struct mt_summary *summary, const struct totals_statements *statements)
{
    /* What is live now is the composition of every peak that was not left since. */
    const unsigned all = (1u << MT_MEASURE_COUNT) - 1;
    mt_peaks_settle(&summary->run_peaks, &summary->totals, all);
    mt_peaks_settle(&summary->scopes[summary->scope_count - 1]->peaks, &summary->totals, all);
    mt_status status = write_peaks(statements, MT_STEP_WHOLE_RUN, &summary->run_peaks);
    for (size_t i = 0; i < summary->scope_count && status == MT_OK; i++)
        status = write_scope(statements, summary->scopes[i]);
    return status == MT_OK ? write_allocations(statements->allocation, &summary->allocations) : status;
}

/* To be finalized also after a failure. */
static mt_status prepare_totals(const struct mt_summary *summary, struct mt_database *database, const char *prefix,
                                int64_t run, struct totals_statements *out)
{
    *out = (struct totals_statements){.categories = &summary->categories};
    mt_status status = prepare_rows(database, prefix, "summary_peak", 5, run, &out->peak);
    if (status == MT_OK)
        status = prepare_rows(database, prefix, "summary_peak_category", 7, run, &out->peak_category);
    if (status == MT_OK)
        status = prepare_rows(database, prefix, "summary_category", 7, run, &out->category);
    if (status == MT_OK)
        status = prepare_rows(database, prefix, "summary_allocation", 5, run, &out->allocation);
    return status;
}

static void finalize_totals(const struct totals_statements *statements)
{
    mt_statement_finalize(statements->peak);
    mt_statement_finalize(statements->peak_category);
    mt_statement_finalize(statements->category);
    mt_statement_finalize(statements->allocation);
}

/* Steps that are over are stored and forgotten, so that a long run takes no more memory than a short one. */
static mt_status store_scopes(struct mt_summary *summary, struct mt_database *database, int64_t run)
{
    struct totals_statements statements;
    size_t over = summary->scope_count - 1;
    if (over == 0)
        return MT_OK;
    mt_status status = prepare_totals(summary, database, "", run, &statements);
    for (size_t i = 0; i < over; i++) {
        if (status == MT_OK)
            status = write_scope(&statements, summary->scopes[i]);
        free(summary->scopes[i]);
    }
    summary->scopes[0] = summary->scopes[over];
    summary->scope_count = 1;
    finalize_totals(&statements);
    return status;
}

mt_status mt_summary_store_progress(struct mt_summary *summary, struct mt_database *database, int64_t run)
{
    mt_status status = store_segments(summary, database, run);
    if (status == MT_OK)
        status = store_parts(&summary->parts, database, run);
    if (status == MT_OK)
        status = store_steps(summary, database, run);
    if (status == MT_OK)
        status = store_scopes(summary, database, run);
    if (status == MT_OK)
        status = store_checkpoints(summary, database, run);
    return status;
}

mt_status mt_summary_store_totals(struct mt_summary *summary, struct mt_database *database, int64_t run,
                                  const char *prefix)
{
    struct totals_statements statements;
    mt_status status = prepare_totals(summary, database, prefix, run, &statements);
    if (status == MT_OK)
        status = write_totals(summary, &statements);
    finalize_totals(&statements);
    return status;
}
