/* Queries that sum blocks by a word of their labels, and the peaks of phases. */
#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "trace/query/blocks.h"
#include "trace/query/groups.h"
#include "trace/query/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define X(name, text) text,
const char *const mt_group_key_names[] = {MT_GROUP_KEYS(X) NULL};
#undef X

/* Groups under way. Invariant: by_name maps the address of shares[i].name, a kept text, to i. */
struct groups {
    struct mt_peak_share *shares;
    size_t count;
    struct mt_number_map by_name;
};

static struct mt_peak_share *find_or_add(struct groups *groups, const char *name)
{
    uint64_t index = groups->count, address = (uint64_t)(uintptr_t)name;
    if (mt_number_map_get(&groups->by_name, address, &index))
        return &groups->shares[index];
    mt_number_map_put(&groups->by_name, address, index);
    struct mt_peak_share *share = MT_HOST_ADD(groups->shares, groups->count);
    *share = (struct mt_peak_share){.name = name};
    return share;
}

static mt_status add_block(const struct mt_statement *row, const char *name, struct groups *groups)
{
    uint64_t requested, allocated;
    MT_TRY(mt_query_natural(row, 0, &requested));
    MT_TRY(mt_query_natural(row, 1, &allocated));
    struct mt_peak_share *share = find_or_add(groups, name);
    share->requested_bytes += requested;
    share->allocated_bytes += allocated;
    share->blocks++;
    return MT_OK;
}

/* Adds the blocks of these alloc events, with the labels that they have after `moment`. */
static mt_status add_blocks(struct mt_trace *trace, const struct mt_run *run, int64_t moment, const int64_t *ids,
                            size_t count, mt_group_key key, struct groups *groups)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT event.requested_bytes, event.block_bytes, CASE ?3 WHEN 'role' THEN label.role WHEN 'category' THEN "
        "label.category"
        " WHEN 'module' THEN span.path WHEN 'op' THEN label.op WHEN 'phase' THEN label.phase ELSE label.dtype END"
        " FROM" MT_ALLOC_AND_LABELLING_EVENT("?4") MT_EVENT_LABEL_JOIN "WHERE alloc.id = ?2",
        &statement);
    mt_statement_bind_text(statement, 3, mt_group_key_names[key]);
    mt_statement_bind_integer(statement, 4, moment);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        mt_statement_bind_integer(statement, 2, ids[i]);
        if (mt_statement_next(statement, &status)) {
            const char *name = mt_query_text(trace, statement, 2);
            status = add_block(statement, key == MT_GROUP_MODULE ? mt_query_place(trace, name) : name, groups);
        }
        mt_statement_reset(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

static int compare_allocated(const void *left, const void *right)
{
    const struct mt_peak_share *a = left, *b = right;
    int order = MT_COMPARE(b->allocated_bytes, a->allocated_bytes);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static int compare_requested(const void *left, const void *right)
{
    const struct mt_peak_share *a = left, *b = right;
    int order = MT_COMPARE(b->requested_bytes, a->requested_bytes);
    return order != 0 ? order : strcmp(a->name, b->name);
}

/* Replaces the shares of a peak by those of the key, summed over the blocks that were live. */
static mt_status sum_shares(struct mt_trace *trace, const struct mt_run *run, mt_measure measure, mt_group_key key,
                            struct mt_peak_row *peak)
{
    struct groups groups = {0};
    int64_t *ids = NULL;
    size_t count = 0;
    mt_number_map_create(&groups.by_name);
    mt_status status = mt_query_live(trace, run, peak->event, &ids, &count);
    MT_THEN(status, add_blocks(trace, run, peak->event, ids, count, key, &groups));
    if (groups.count > 1)
        qsort(groups.shares, groups.count, sizeof *groups.shares,
              measure == MT_MEASURE_REQUESTED ? compare_requested : compare_allocated);
    mt_number_map_release(&groups.by_name);
    free(ids);
    free(peak->shares);
    peak->shares = groups.shares;
    peak->share_count = groups.count;
    return status;
}

/* Replaces the shares of a peak, which are by category, by those of the key. Those by role are stored. */
static mt_status replace_shares(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                                mt_group_key key, struct mt_peak_row *peak)
{
    if (key == MT_GROUP_ROLE)
        MT_TRY(mt_query_peak_roles(trace, run, step, measure, peak));
    if (key != MT_GROUP_ROLE || peak->share_count == 0)
        MT_TRY(sum_shares(trace, run, measure, key, peak));
    return mt_query_check_peak(trace, run, measure, peak);
}

mt_status mt_trace_peak_by(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                           mt_group_key key, struct mt_peak_row *out)
{
    *out = (struct mt_peak_row){0};
    assert(key < MT_GROUP_KEY_COUNT);
    MT_TRY(mt_database_begin_reading(trace->database));
    mt_status status = mt_trace_step_peak(trace, run, step, measure, out);
    if (status == MT_OK && out->event != 0 && key != MT_GROUP_CATEGORY)
        status = replace_shares(trace, run, step, measure, key, out);
    mt_database_end_reading(trace->database);
    return status;
}

/* Groups of a ranking under way. Invariant: by_name maps the address of rows[i].name, a kept text, to i. */
struct top_groups {
    struct mt_trace *trace;
    mt_group_key key;
    struct mt_top_group *rows;
    size_t count;
    struct mt_number_map by_name;
};

/* Returns the word of a row that the key means, kept. */
static const char *word_of(struct mt_trace *trace, const struct mt_top_row *row, mt_group_key key)
{
    const char *const words[] = {
        [MT_GROUP_ROLE] = row->role, [MT_GROUP_CATEGORY] = row->category, [MT_GROUP_MODULE] = row->span,
        [MT_GROUP_OP] = row->op,     [MT_GROUP_PHASE] = row->phase,       [MT_GROUP_DTYPE] = row->dtype};
    return key == MT_GROUP_MODULE ? mt_query_place(trace, row->span) : words[key];
}

static bool add_to_group(void *context, const struct mt_top_row *row)
{
    struct top_groups *groups = context;
    const char *name = word_of(groups->trace, row, groups->key);
    uint64_t index = groups->count;
    if (!mt_number_map_get(&groups->by_name, (uint64_t)(uintptr_t)name, &index)) {
        mt_number_map_put(&groups->by_name, (uint64_t)(uintptr_t)name, index);
        *MT_HOST_ADD(groups->rows, groups->count) = (struct mt_top_group){.name = name};
    }
    struct mt_top_group *group = &groups->rows[index];
    group->count += row->count;
    group->total_bytes += row->total_bytes;
    group->max_bytes = mt_larger(group->max_bytes, row->bytes);
    return true;
}

static int compare_singles(const void *left, const void *right)
{
    const struct mt_top_group *a = left, *b = right;
    int order = MT_COMPARE(b->max_bytes, a->max_bytes);
    if (order == 0)
        order = MT_COMPARE(b->total_bytes, a->total_bytes);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static int compare_totals(const void *left, const void *right)
{
    const struct mt_top_group *a = left, *b = right;
    int order = MT_COMPARE(b->total_bytes, a->total_bytes);
    return order != 0 ? order : compare_singles(left, right);
}

mt_status mt_trace_top_groups(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                              mt_group_key key, struct mt_top_group **out_rows, size_t *out_count, bool *out_complete)
{
    struct top_groups groups = {.trace = trace, .key = key};
    mt_number_map_create(&groups.by_name);
    mt_status status = mt_query_top_visit(trace, run, choice, &(struct mt_top_visitor){&groups, add_to_group});
    mt_number_map_release(&groups.by_name);
    if (groups.count > 1)
        qsort(groups.rows, groups.count, sizeof *groups.rows,
              choice->order == MT_TOP_BY_TOTAL ? compare_totals : compare_singles);
    *out_complete = choice->moment == MT_TOP_AT_PEAK || run->complete_from_bytes == 0;
    return mt_query_hand_over(status, groups.rows, groups.count, out_rows, out_count);
}

/* Finds the step that went highest, and how high; MT_STEP_BEFORE if there is none. */
static mt_status find_highest_step(struct mt_trace *trace, const struct mt_run *run, int64_t *out_step,
                                   uint64_t *out_bytes)
{
    mt_status status = MT_OK;
    *out_step = MT_STEP_BEFORE;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT step, bytes FROM summary_peak WHERE run = ?1 AND step >= 0 AND measure = ?2"
                 " ORDER BY bytes DESC, step LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_TEXT(mt_measure_name(MT_MEASURE_ALLOCATED))) {
        *out_step = mt_statement_integer(row, 0);
        *out_bytes = (uint64_t)mt_statement_integer(row, 1);
    }
    return status;
}

/* The walk through a step. Invariants: now <= most; of[i].bytes <= most. */
struct phase_walk {
    uint64_t now, most; /* allocated bytes; the peak of the step */
    int64_t step;
    mt_phase phase; /* that is under way; MT_PHASE_COUNT: none was told of yet */
    struct mt_phase_peak of[MT_PHASE_COUNT];
    bool is_told[MT_PHASE_COUNT];
};

static mt_status fail_walk(int64_t event)
{
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: event %" PRId64 " contradicts the peak of its step", event);
}

enum { EVENT, KIND, BYTES, VALUE, TIME };

/* Takes an event: changes what is allocated, or the phase. */
static mt_status take_event(const struct mt_statement *row, struct phase_walk *walk)
{
    int64_t event = mt_statement_integer(row, EVENT), kind = mt_statement_integer(row, KIND);
    uint64_t bytes = (uint64_t)mt_statement_integer(row, BYTES), phase = (uint64_t)mt_statement_integer(row, VALUE);
    if (kind == MT_EVENT_ALLOC ? bytes > walk->most - walk->now : kind == MT_EVENT_FREE && bytes > walk->now)
        return fail_walk(event);
    if (kind == MT_EVENT_ALLOC)
        walk->now += bytes;
    else if (kind == MT_EVENT_FREE)
        walk->now -= bytes;
    else if (kind == MT_EVENT_PHASE)
        walk->phase = phase < MT_PHASE_COUNT ? (mt_phase)phase : MT_PHASE_COUNT;
    if (walk->phase == MT_PHASE_COUNT)
        return MT_OK;
    struct mt_phase_peak *peak = &walk->of[walk->phase];
    if (walk->is_told[walk->phase] && walk->now <= peak->bytes)
        return MT_OK;
    *peak = (struct mt_phase_peak){mt_phase_name(walk->phase), walk->now, event, walk->step, 0};
    walk->is_told[walk->phase] = true;
    return mt_query_natural(row, TIME, &peak->time_ns);
}

/* Sums what was live when the step began. */
static mt_status sum_live(struct mt_trace *trace, const struct mt_run *run, int64_t first, struct phase_walk *walk)
{
    struct mt_block_row *blocks = NULL;
    size_t count = 0;
    mt_status status = mt_trace_live(trace, run, first - 1, &blocks, &count);
    for (size_t i = 0; i < count; i++)
        walk->now += blocks[i].block_bytes;
    free(blocks);
    return status == MT_OK && walk->now > walk->most ? fail_walk(first) : status;
}

/* Finds the phase that is under way when the step begins. That of the beginning, init, is none of a step. */
static mt_status find_phase(struct mt_trace *trace, const struct mt_run *run, int64_t first, struct phase_walk *walk)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT requested_bytes FROM event NOT INDEXED WHERE id >= ?1 AND id < ?2 AND kind = ?3"
                 " ORDER BY id DESC LIMIT 1",
                 MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(first), MT_BIND_INTEGER(MT_EVENT_PHASE)) {
        uint64_t phase = (uint64_t)mt_statement_integer(row, 0);
        walk->phase = phase < MT_PHASE_COUNT && phase != MT_PHASE_INIT ? (mt_phase)phase : MT_PHASE_COUNT;
    }
    return status;
}

/* Finds the events that the step's peak is of: from its first to the last before the next step. */
static mt_status find_range(struct mt_trace *trace, const struct mt_run *run, int64_t step, int64_t *out_first,
                            int64_t *out_last)
{
    mt_status status = MT_OK;
    MT_TRY(mt_trace_step_events(trace, run, step, out_first, out_last));
    *out_last = mt_query_end(run) - 1;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT first_event FROM step WHERE run = ?1 AND number > ?2 ORDER BY number LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(step))
        *out_last = mt_statement_integer(row, 0) - 1;
    return status;
}

static mt_status walk_step(struct mt_trace *trace, const struct mt_run *run, struct phase_walk *walk)
{
    int64_t first, last;
    mt_status status = MT_OK;
    MT_TRY(find_range(trace, run, walk->step, &first, &last));
    MT_TRY(sum_live(trace, run, first, walk));
    MT_TRY(find_phase(trace, run, first, walk));
    /* A free without an allocation is of a block that was not live. */
    MT_EACH_ROW (
        row, status, trace->database,
        "SELECT id, kind, block_bytes, requested_bytes, time_ns FROM event NOT INDEXED"
        " WHERE id >= ?1 AND id <= ?2 AND (kind IN (?3, ?5, ?6) OR kind = ?4 AND allocation IS NOT NULL) ORDER BY id",
        MT_BIND_INTEGER(first), MT_BIND_INTEGER(last), MT_BIND_INTEGER(MT_EVENT_ALLOC), MT_BIND_INTEGER(MT_EVENT_FREE),
        MT_BIND_INTEGER(MT_EVENT_PHASE), MT_BIND_INTEGER(MT_EVENT_STEP_BEGIN))
        status = take_event(row, walk);
    return status;
}

/* Enters what precedes the first step as init, which a step does not have. */
static mt_status read_init(struct mt_trace *trace, const struct mt_run *run, struct phase_walk *walk)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_step_peak(trace, run, MT_STEP_BEFORE, MT_MEASURE_ALLOCATED, &peak);
    if (status == MT_OK && peak.event != 0) {
        walk->of[MT_PHASE_INIT] =
            (struct mt_phase_peak){mt_phase_name(MT_PHASE_INIT), peak.bytes, peak.event, MT_STEP_BEFORE, peak.time_ns};
        walk->is_told[MT_PHASE_INIT] = true;
    }
    mt_peak_row_release(&peak);
    return status;
}

/* Reads the walk through the highest step. False in *out_told if that told of no phase. */
static mt_status read_phases(struct mt_trace *trace, const struct mt_run *run, struct phase_walk *walk, bool *out_told)
{
    *out_told = false;
    MT_TRY(find_highest_step(trace, run, &walk->step, &walk->most));
    if (walk->step == MT_STEP_BEFORE)
        return MT_OK;
    MT_TRY(walk_step(trace, run, walk));
    for (int phase = 0; phase < MT_PHASE_COUNT; phase++)
        *out_told = *out_told || walk->is_told[phase];
    return *out_told ? read_init(trace, run, walk) : MT_OK;
}

mt_status mt_trace_phase_peaks(struct mt_trace *trace, const struct mt_run *run, struct mt_phase_peak **out_rows,
                               size_t *out_count)
{
    struct phase_walk walk = {.phase = MT_PHASE_COUNT};
    struct mt_phase_peak *rows = NULL;
    size_t count = 0;
    bool is_told = false;
    mt_status status = mt_database_begin_reading(trace->database);
    if (status == MT_OK) {
        status = read_phases(trace, run, &walk, &is_told);
        mt_database_end_reading(trace->database);
    }
    for (int phase = 0; phase < MT_PHASE_COUNT && is_told; phase++)
        if (walk.is_told[phase])
            *MT_HOST_ADD(rows, count) = walk.of[phase];
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}
