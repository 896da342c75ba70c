/* How was each block used?
 *
 *   blocks:     a        b        c d e f g h …        by alloc_event
 *   block_use:  ▲ ······ ▲ ······ ▲ ▶ ▶ ▶ ▶ ▶ …        ▲ a look-up, ▶ the next row
 *
 * A window of a run's blocks is a few that were live before it and all that were made in it: the few are looked up, and
 * the rest is one scan. */
#include "trace/blocks.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <string.h>

/* A look-up costs as much as going on over about this many rows. */
enum { LOOK_UP_ROWS = 16 };

enum { ALLOCATION, READS, WRITES, FIRST_USE, LAST_USE, IDLE_FROM, IDLE_TO, COPIED_FROM, UNREAD };

/* A place in the table. Invariant: `there` means that the statement stands on a row, of `allocation`. */
struct use_cursor {
    struct mt_statement *statement;
    const struct mt_run *run;
    int64_t allocation;
    bool there;
};

static mt_status advance(struct use_cursor *cursor)
{
    mt_status status = mt_statement_step(cursor->statement, &cursor->there);
    if (status == MT_OK && cursor->there)
        cursor->allocation = mt_statement_integer(cursor->statement, ALLOCATION);
    return status;
}

/* To the first row from `allocation` on. */
static mt_status look_up(struct use_cursor *cursor, int64_t allocation)
{
    mt_statement_reset(cursor->statement);
    mt_statement_bind_integer(cursor->statement, 2, allocation);
    return advance(cursor);
}

/* To the first row from `allocation` on, which lies ahead. */
static mt_status move_to(struct use_cursor *cursor, int64_t allocation)
{
    mt_status status = MT_OK;
    if (cursor->there && allocation - cursor->allocation > LOOK_UP_ROWS)
        return look_up(cursor, allocation);
    while (status == MT_OK && cursor->there && cursor->allocation < allocation)
        status = advance(cursor);
    return status;
}

/* Whether the moments are in order, between the block's alloc and the end of what is known of it. */
static bool is_sound(const struct mt_use_row *use, const struct mt_run *run, const struct mt_block_row *block)
{
    int64_t end = block->free_event != 0 ? block->free_event : run->first_event + run->event_count;
    bool copied = use->copied_from == 0 || (use->copied_from >= run->first_event && use->copied_from < end);
    if (use->first == 0)
        return copied && use->reads == 0 && use->writes == 0 && use->last == 0 && use->idle_to == 0;
    if (use->first < block->alloc_event || use->last < use->first || use->last >= end)
        return false;
    return copied && (use->idle_from == 0
                          ? use->idle_to == 0
                          : use->first <= use->idle_from && use->idle_from < use->idle_to && use->idle_to <= use->last);
}

static mt_status read_use(const struct use_cursor *cursor, const struct mt_block_row *block, struct mt_use_row *out)
{
    const struct mt_statement *row = cursor->statement;
    *out = (struct mt_use_row){.known = true,
                               .reads = (uint32_t)mt_statement_integer(row, READS),
                               .writes = (uint32_t)mt_statement_integer(row, WRITES),
                               .first = mt_statement_integer(row, FIRST_USE),
                               .last = mt_statement_integer(row, LAST_USE),
                               .idle_from = mt_statement_integer(row, IDLE_FROM),
                               .idle_to = mt_statement_integer(row, IDLE_TO),
                               .copied_from = mt_statement_integer(row, COPIED_FROM),
                               .unread = mt_statement_integer(row, UNREAD) != 0};
    if (is_sound(out, cursor->run, block))
        return MT_OK;
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: the block of event %" PRId64 " was used when it was not there",
                   block->alloc_event);
}

static mt_status read_uses(struct use_cursor *cursor, const struct mt_block_row *blocks, size_t count,
                           struct mt_use_row *out)
{
    mt_status status = look_up(cursor, blocks[0].alloc_event);
    for (size_t i = 0; i < count && status == MT_OK && cursor->there; i++) {
        status = move_to(cursor, blocks[i].alloc_event);
        if (status == MT_OK && cursor->there && cursor->allocation == blocks[i].alloc_event)
            status = read_use(cursor, &blocks[i], &out[i]);
    }
    return status;
}

/* A trace of an older program that no newer one has written to since has no such table. */
static mt_status has_table(struct mt_trace *trace, bool *out_has)
{
    int64_t format;
    mt_status status = mt_database_integer(trace->database, "PRAGMA user_version", &format);
    *out_has = format > MT_TRACE_FORMAT_WITHOUT_USES;
    return status;
}

mt_status mt_trace_uses(struct mt_trace *trace, const struct mt_run *run, const struct mt_block_row *blocks,
                        size_t count, struct mt_use_row *out)
{
    bool has_uses;
    struct use_cursor cursor = {.run = run};
    mt_status status = has_table(trace, &has_uses);
    memset(out, 0, count * sizeof *out);
    if (status != MT_OK || !has_uses || count == 0)
        return status;
    status = mt_query_prepare(trace, run,
                              "SELECT allocation, reads, writes, first_use, last_use, idle_from, idle_to, copied_from,"
                              " unread FROM block_use WHERE ?1 = ?1 AND allocation >= ?2 AND allocation < ?3"
                              " ORDER BY allocation",
                              &cursor.statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(cursor.statement, 3, run->first_event + run->event_count);
    status = read_uses(&cursor, blocks, count, out);
    mt_statement_finalize(cursor.statement);
    return status;
}
