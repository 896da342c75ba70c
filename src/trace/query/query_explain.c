/* A query about one block: what its role rests on. */
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>

/* Reads the step and the phase that went on at an event, and its time. */
static mt_status read_moment(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_moment *out)
{
    mt_status status = MT_OK;
    *out = (struct mt_moment){.step = -1, .phase = mt_phase_name(MT_PHASE_INIT)};
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT time_ns, ifnull((SELECT max(number) FROM step WHERE run = ?1 AND first_event <= ?2), -1),"
                 " (SELECT requested_bytes FROM event NOT INDEXED WHERE id >= ?3 AND id <= ?2 AND kind = ?4 ORDER BY "
                 "id DESC LIMIT 1)"
                 " FROM event NOT INDEXED WHERE id = ?2",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(event), MT_BIND_INTEGER(run->first_event),
                 MT_BIND_INTEGER(MT_EVENT_PHASE)) {
        int64_t phase = mt_statement_integer(row, 2);
        out->time_ns = (uint64_t)mt_statement_integer(row, 0);
        out->step = mt_statement_integer(row, 1);
        out->phase = phase >= 0 && phase < MT_PHASE_COUNT ? mt_phase_name((mt_phase)phase) : "";
    }
    return status;
}

static mt_status read_block(struct mt_trace *trace, const struct mt_run *run, int64_t event,
                            struct mt_explained_row *out)
{
    mt_status status = MT_OK;
    bool is_found = false;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT alloc.requested_bytes, ifnull(label.role, ''), ifnull(label.role_source, ''),"
                 " ifnull(label.category, ''), ifnull(label.op, ''), ifnull(label.phase, ''), ifnull(span.path, '')"
                 " FROM " MT_ALLOC_AND_LABELLING_EVENT("?4") MT_EVENT_LABEL_JOIN
                 "WHERE alloc.id = ?2 AND alloc.kind = ?3",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(event), MT_BIND_INTEGER(MT_EVENT_ALLOC),
                 MT_BIND_INTEGER(mt_query_end(run))) {
        is_found = true;
        out->bytes = (uint64_t)mt_statement_integer(row, 0);
        out->role = mt_query_text(trace, row, 1);
        out->found = mt_query_text(trace, row, 2);
        out->category = mt_query_text(trace, row, 3);
        out->op = mt_query_text(trace, row, 4);
        out->phase = mt_query_text(trace, row, 5);
        out->span = mt_query_text(trace, row, 6);
    }
    if (status == MT_OK && !is_found)
        return mt_fail(MT_USAGE,
                       "run %" PRId64 " has no allocation with the id %" PRId64 ": memtrace events lists them", run->id,
                       out->id);
    return status;
}

/* Counts the blocks of its size, and those of its role among them, that were taken before the first step. */
static mt_status count_alike(struct mt_trace *trace, const struct mt_run *run, struct mt_explained_row *out)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT count(*), count(*) FILTER (WHERE label.role = ?4) FROM event NOT INDEXED" MT_EVENT_LABEL_JOIN
                 "WHERE event.id >= ?2 AND event.id < ifnull((SELECT min(first_event) FROM step WHERE run = ?1), ?3)"
                 " AND kind = ?6 AND requested_bytes = ?5",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)),
                 MT_BIND_TEXT(out->role), MT_BIND_INTEGER((int64_t)out->bytes), MT_BIND_INTEGER(MT_EVENT_ALLOC)) {
        out->alike = mt_statement_integer(row, 0);
        out->alike_of_role = mt_statement_integer(row, 1);
    }
    return status;
}

mt_status mt_trace_explain(struct mt_trace *trace, const struct mt_run *run, int64_t id, struct mt_explained_row *out)
{
    assert(id >= 0);
    mt_status status = MT_OK;
    int64_t event = run->first_event + id, freed = 0;
    *out = (struct mt_explained_row){.id = id, .freed = {.step = -1, .phase = ""}};
    MT_TRY(read_block(trace, run, event, out));
    MT_TRY(read_moment(trace, run, event, &out->taken));
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT id FROM event NOT INDEXED WHERE id > ?1 AND id < ?2 AND kind = ?3 AND allocation = ?1 ORDER "
                 "BY id LIMIT 1",
                 MT_BIND_INTEGER(event), MT_BIND_INTEGER(mt_query_end(run)), MT_BIND_INTEGER(MT_EVENT_FREE))
        freed = mt_statement_integer(row, 0);
    MT_TRY(status);
    out->is_freed = freed != 0;
    if (out->is_freed)
        MT_TRY(read_moment(trace, run, freed, &out->freed));
    return count_alike(trace, run, out);
}
