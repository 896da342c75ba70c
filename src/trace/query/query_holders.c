/* The queries about holders, checkpoints and program phases. */
#include "trace/query/holders.h"

#include "base/memory.h"
#include "base/order.h"
#include "base/text.h"
#include "trace/query/blocks.h"
#include "trace/query/lookup.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

/* Sets where the program asked for the first allocation of each holder. */
static mt_status find_lines(struct mt_trace *trace, const struct mt_run *run, struct mt_holder_row *rows, size_t count)
{
    int64_t *events = mt_host_alloc((count + 1) * sizeof *events);
    const char **lines = mt_host_alloc((count + 1) * sizeof *lines);
    for (size_t i = 0; i < count; i++)
        events[i] = rows[i].event;
    mt_status status = mt_trace_lines(trace, run, events, count, lines);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        rows[i].taken_at = lines[i];
    free(events);
    free(lines);
    return status;
}

static int compare_allocation(const void *event, const void *block)
{
    return MT_COMPARE(*(const int64_t *)event, ((const struct mt_block_row *)block)->alloc_event);
}

/* Sets whether the first allocation of each holder was freed before the end of the last full step. */
static mt_status find_freed(struct mt_trace *trace, const struct mt_run *run, struct mt_holder_row *rows, size_t count)
{
    struct mt_block_row *blocks = NULL;
    size_t block_count = 0;
    int64_t first, last;
    if (count == 0 || run->last_full_step < 0)
        return MT_OK;
    MT_TRY(mt_trace_step_events(trace, run, run->last_full_step, &first, &last));
    mt_status status = mt_trace_live(trace, run, last, &blocks, &block_count);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        rows[i].is_freed = bsearch(&rows[i].event, blocks, block_count, sizeof *blocks, compare_allocation) == NULL;
    free(blocks);
    return status;
}

mt_status mt_trace_holders(struct mt_trace *trace, const struct mt_run *run, struct mt_holder_row **out_rows,
                           size_t *out_count)
{
    struct mt_holder_row *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    MT_EACH_ROW (
        row, status, trace->database,
        "WITH merged AS (SELECT kind, name, owner, file, line, loop_file, loop_line, max(held_bytes) AS held,"
        " min(allocation) AS first, max(allocation) AS last"
        " FROM holder WHERE run = ?1 GROUP BY kind, name, owner, file, line, loop_file, loop_line)"
        " SELECT kind, name, owner, file, line, held, first, ifnull((SELECT op FROM event NOT INDEXED JOIN label"
        " ON label.run = ?1 AND label.id = event.label WHERE event.id = first), ''), ifnull((SELECT name FROM"
        " program_phase AS phase WHERE phase.run = ?1 AND phase.first_event <= last ORDER BY phase.id DESC"
        " LIMIT 1), ''), loop_file, loop_line, (SELECT requested_bytes FROM event NOT INDEXED WHERE id = first),"
        " ifnull((SELECT role FROM event JOIN label ON label.run = ?1 AND label.id = event.label"
        " WHERE likely(event.kind = 10) AND event.allocation = first ORDER BY event.id DESC LIMIT 1),"
        " ifnull((SELECT role FROM event NOT INDEXED JOIN label ON label.run = ?1 AND label.id = event.label"
        " WHERE event.id = first), '')), ifnull((SELECT label.span FROM event NOT INDEXED JOIN label"
        " ON label.run = ?1 AND label.id = event.label WHERE event.id = first), 0)"
        " FROM merged ORDER BY held DESC, first",
        MT_BIND_INTEGER(run->id))
        *MT_HOST_ADD(rows, count) = (struct mt_holder_row){
            .kind = mt_query_text(trace, row, 0),
            .name = mt_query_text(trace, row, 1),
            .owner = mt_query_text(trace, row, 2),
            .file = mt_query_text(trace, row, 3),
            .line = mt_statement_integer(row, 4) > 0 ? mt_statement_integer(row, 4) : 0,
            .held_bytes = mt_statement_integer(row, 5) > 0 ? (uint64_t)mt_statement_integer(row, 5) : 0,
            .event = mt_statement_integer(row, 6),
            .op = mt_query_text(trace, row, 7),
            .phase = mt_query_text(trace, row, 8),
            .taken_at = "",
            .loop_file = mt_query_text(trace, row, 9),
            .loop_line = mt_statement_integer(row, 10),
            .first_bytes = mt_statement_integer(row, 11) > 0 ? (uint64_t)mt_statement_integer(row, 11) : 0,
            .role = mt_query_text(trace, row, 12),
            .is_in_module = mt_statement_integer(row, 13) > 0,
        };
    MT_THEN(status, find_lines(trace, run, rows, count));
    MT_THEN(status, find_freed(trace, run, rows, count));
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}

/* Returns the holder of that name and place; NULL: none. */
static const struct mt_holder_row *find_holder(const struct mt_holder_row *holders, size_t count, const char *name,
                                               const char *owner, const char *file, int64_t line)
{
    for (size_t i = 0; i < count; i++)
        if (holders[i].line == line && strcmp(holders[i].name, name) == 0 && strcmp(holders[i].owner, owner) == 0 &&
            strcmp(holders[i].file, file) == 0)
            return &holders[i];
    return NULL;
}

mt_status mt_trace_holders_of(struct mt_trace *trace, const struct mt_run *run, const struct mt_holder_row *holders,
                              size_t holder_count, const int64_t *events, size_t count,
                              const struct mt_holder_row **out)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        out[i] = NULL;
        MT_EACH_ROW (row, status, trace->database,
                     "SELECT name, owner, file, line FROM holder WHERE run = ?1 AND allocation = ?2 ORDER BY id",
                     MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(events[i]))
            out[i] = find_holder(holders, holder_count, mt_query_text(trace, row, 0), mt_query_text(trace, row, 1),
                                 mt_query_text(trace, row, 2), mt_statement_integer(row, 3));
    }
    return status;
}

/* ---- checkpoints ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Returns for each stack whether one of its frames reads a checkpoint. The caller frees it. */
static bool *find_readers(const struct mt_stack_row *stacks, size_t count)
{
    bool *reads = mt_host_alloc((count + 1) * sizeof *reads);
    for (size_t i = 1; i < count; i++)
        reads[i] = reads[stacks[i].parent] || ends_with(stacks[i].file, "torch/serialization.py") ||
                   ends_with(stacks[i].file, "safetensors/torch.py");
    return reads;
}

/* True if a block gets a role later for which the program needs it. Searches the index of relabels (query.h). */
static mt_status is_adopted(struct mt_trace *trace, const struct mt_run *run, int64_t allocation, bool *out)
{
    mt_status status = MT_OK;
    *out = false;
    MT_EACH_ROW (
        row, status, trace->database,
        "SELECT label.role IN ('parameter', 'buffer', 'optimizer state') FROM event JOIN label ON label.run = ?1"
        " AND label.id = event.label WHERE likely(event.kind = 10) AND event.allocation = ?2"
        " ORDER BY event.id DESC LIMIT 1",
        MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(allocation))
        *out = mt_statement_integer(row, 0) != 0;
    return status;
}

/* Adds up the blocks whose stacks read a checkpoint. */
static mt_status add_loaded(struct mt_trace *trace, const struct mt_run *run, const struct mt_block_row *blocks,
                            const uint32_t *callers, size_t count, const bool *reads, struct mt_loaded_row *out,
                            uint32_t *out_stack)
{
    mt_status status = MT_OK;
    uint64_t largest = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        bool adopted = false;
        if (!reads[callers[i]])
            continue;
        status = is_adopted(trace, run, blocks[i].alloc_event, &adopted);
        if (adopted)
            continue;
        out->bytes += blocks[i].block_bytes;
        out->blocks++;
        if (blocks[i].block_bytes > largest)
            *out_stack = callers[i];
        largest = blocks[i].block_bytes > largest ? blocks[i].block_bytes : largest;
    }
    return status;
}

mt_status mt_trace_loaded(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_loaded_row *out)
{
    struct mt_stack_row *stacks = NULL;
    struct mt_block_row *blocks = NULL;
    struct mt_text line = {0};
    size_t stack_count = 0, count = 0;
    uint32_t stack = 0;
    *out = (struct mt_loaded_row){.taken_at = ""};
    mt_status status = mt_trace_stacks(trace, run, &stacks, &stack_count);
    MT_THEN(status, mt_trace_live(trace, run, event, &blocks, &count));
    uint32_t *callers = mt_host_alloc((count + 1) * sizeof *callers);
    bool *reads = find_readers(stacks, stack_count);
    MT_THEN(status, mt_trace_callers(trace, run, blocks, count, stack_count, callers));
    MT_THEN(status, add_loaded(trace, run, blocks, callers, count, reads, out, &stack));
    if (status == MT_OK)
        mt_stack_line(stacks, stack_count, stack, &line);
    out->taken_at = mt_trace_keep(trace, mt_text_get(&line));
    mt_text_release(&line);
    free(reads);
    free(callers);
    free(blocks);
    free(stacks);
    return status;
}

/* ---- phases ---- */

/* Sets the steps and times of the peaks. */
static mt_status find_moments(struct mt_trace *trace, const struct mt_run *run, struct mt_program_phase_row *rows,
                              size_t count)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_trace_step_of(trace, run, rows[i].event, &rows[i].step);
        MT_EACH_ROW (row, status, trace->database, "SELECT time_ns FROM event NOT INDEXED WHERE id = ?",
                     MT_BIND_INTEGER(rows[i].event))
            rows[i].time_ns = (uint64_t)mt_statement_integer(row, 0);
    }
    return status;
}

mt_status mt_trace_program_phases(struct mt_trace *trace, const struct mt_run *run,
                                  struct mt_program_phase_row **out_rows, size_t *out_count)
{
    struct mt_program_phase_row *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT name, count(*), max(peak_bytes), peak_event FROM program_phase AS phase WHERE run = ?1"
                 " GROUP BY name ORDER BY (SELECT min(id) FROM program_phase WHERE run = ?1 AND name = phase.name)",
                 MT_BIND_INTEGER(run->id))
        *MT_HOST_ADD(rows, count) = (struct mt_program_phase_row){
            .name = mt_query_text(trace, row, 0),
            .count = (uint64_t)mt_statement_integer(row, 1),
            .bytes = mt_statement_integer(row, 2) > 0 ? (uint64_t)mt_statement_integer(row, 2) : 0,
            .event = mt_statement_integer(row, 3),
        };
    MT_THEN(status, find_moments(trace, run, rows, count));
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}

mt_status mt_trace_phase_entries(struct mt_trace *trace, const struct mt_run *run, struct mt_phase_entry_row **out_rows,
                                 size_t *out_count)
{
    struct mt_phase_entry_row *rows = NULL;
    size_t count = 0;
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT first_event, name FROM program_phase WHERE run = ?1 AND first_event >= ?2 AND first_event < ?3"
                 " ORDER BY first_event",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)))
        *MT_HOST_ADD(rows, count) = (struct mt_phase_entry_row){
            .event = mt_statement_integer(row, 0),
            .name = mt_query_text(trace, row, 1),
        };
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}
