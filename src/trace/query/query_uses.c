/* The query about the uses of blocks.
 *
 *   blocks:     a        b        c d e f g h …        by alloc_event
 *   block_use:  ▶        ▶        ▶ ▶ ▶ ▶ ▶ ▶ …        a stretch is one scan
 *
 * The blocks of a window of events are a few that were live before it and all that began in it: each of the few is a
 * stretch of its own, and the rest is one. */
#include "trace/query/blocks.h"
#include "trace/query/query.h"
#include "trace/store/trace_format.h"

#include <assert.h>
#include <inttypes.h>

/* The most events between two blocks of a stretch: a new scan costs as much as to read the rows of about so many. */
enum { STRETCH_GAP = 64 };

#define USE_COLUMNS "allocation, reads, writes, first_use, last_use, idle_from, idle_to, copied_from, unread"
enum { ALLOCATION, READS, WRITES, FIRST_USE, LAST_USE, IDLE_FROM, IDLE_TO, COPIED_FROM, UNREAD };

/* Blocks with few rows between them: blocks[at..end). Invariant: visited rows are of allocations before blocks[at +
 * 1]. */
struct use_stretch {
    const struct mt_run *run;
    const struct mt_block_row *blocks; /* all blocks */
    struct mt_use_row *uses;           /* one a block */
    size_t at, end;
};

/* True if the moments are in order, and between the block's alloc and `end`. */
static bool is_sound(const struct mt_use_row *use, const struct mt_run *run, int64_t alloc_event, int64_t end)
{
    bool copied = use->copied_from == 0 || (use->copied_from >= run->first_event && use->copied_from < end);
    if (use->first == 0)
        return copied && use->reads == 0 && use->writes == 0 && use->last == 0 && use->idle_to == 0;
    if (use->first < alloc_event || use->last < use->first || use->last >= end)
        return false;
    return copied && (use->idle_from == 0
                          ? use->idle_to == 0
                          : use->first <= use->idle_from && use->idle_from < use->idle_to && use->idle_to <= use->last);
}

mt_status mt_use_check(const struct mt_use_row *use, const struct mt_run *run, int64_t alloc_event, int64_t free_event)
{
    if (is_sound(use, run, alloc_event, free_event != 0 ? free_event : mt_query_end(run)))
        return MT_OK;
    return mt_fail(MT_BAD_TRACE, "the trace is damaged: the block of event %" PRId64 " was used when it was not there",
                   alloc_event);
}

static struct mt_use_row read_use(const struct mt_row *row)
{
    return (struct mt_use_row){.known = true,
                               .reads = (uint32_t)mt_row_integer(row, READS),
                               .writes = (uint32_t)mt_row_integer(row, WRITES),
                               .first = mt_row_integer(row, FIRST_USE),
                               .last = mt_row_integer(row, LAST_USE),
                               .idle_from = mt_row_integer(row, IDLE_FROM),
                               .idle_to = mt_row_integer(row, IDLE_TO),
                               .copied_from = mt_row_integer(row, COPIED_FROM),
                               .unread = mt_row_integer(row, UNREAD) != 0};
}

static mt_status visit_use(void *context, const struct mt_row *row)
{
    struct use_stretch *stretch = context;
    int64_t allocation = mt_row_integer(row, ALLOCATION);
    while (stretch->at < stretch->end && stretch->blocks[stretch->at].alloc_event < allocation)
        stretch->at++;
    assert(stretch->at <= stretch->end);
    if (stretch->at == stretch->end || stretch->blocks[stretch->at].alloc_event != allocation)
        return MT_OK;
    const struct mt_block_row *block = &stretch->blocks[stretch->at];
    stretch->uses[stretch->at] = read_use(row);
    return mt_use_check(&stretch->uses[stretch->at], stretch->run, block->alloc_event, block->free_event);
}

/* Returns the number of the block after the stretch that begins at block `begin`. */
static size_t stretch_end(const struct mt_block_row *blocks, size_t count, size_t begin)
{
    size_t end = begin + 1;
    while (end < count && blocks[end].alloc_event - blocks[end - 1].alloc_event <= STRETCH_GAP)
        end++;
    return end;
}

static mt_status read_stretches(struct mt_statement *statement, const struct mt_row_visitor *visitor, size_t count,
                                struct use_stretch *stretch)
{
    mt_status status = MT_OK;
    for (size_t begin = 0; begin < count && status == MT_OK; begin = stretch->end) {
        stretch->at = begin;
        stretch->end = stretch_end(stretch->blocks, count, begin);
        assert(begin < stretch->end && stretch->end <= count);
        MT_QUERY_BIND(statement, stretch->blocks[begin].alloc_event, stretch->blocks[stretch->end - 1].alloc_event);
        status = mt_statement_run(statement);
        status = mt_status_keep(status, visitor->status);
    }
    return status;
}

/* Prepares the scan of the allocations from ?2 to ?3. The table's own order is that of its allocations. */
static mt_status prepare(struct mt_trace *trace, const struct mt_run *run, struct mt_statement **out)
{
    return mt_query_prepare(trace, run,
                            "SELECT uses(" USE_COLUMNS ") FROM block_use NOT INDEXED"
                            " WHERE ?1 = ?1 AND allocation >= ?2 AND allocation <= ?3",
                            out);
}

/* Reads the uses of all blocks. */
static mt_status read_uses(struct mt_trace *trace, size_t count, struct use_stretch *stretch)
{
    struct mt_statement *statement;
    struct mt_row_visitor visitor = {.name = "uses", .visit = visit_use, .context = stretch};
    MT_TRY(mt_row_visitor_add(trace->database, &visitor));
    mt_status status = prepare(trace, stretch->run, &statement);
    if (status == MT_OK) {
        status = read_stretches(statement, &visitor, count, stretch);
        mt_statement_finalize(statement);
    }
    mt_row_visitor_remove(trace->database, &visitor);
    return status;
}

/* *out_has is false for a trace of an older program that no newer one has written to since. */
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
    struct use_stretch stretch = {.run = run, .blocks = blocks, .uses = out};
    mt_status status = has_table(trace, &has_uses);
    return status == MT_OK && has_uses ? read_uses(trace, count, &stretch) : status;
}

/* ---- all uses of a run ---- */

struct use_scan {
    mt_use_visit visit;
    void *context;
};

static mt_status scan_use(void *context, const struct mt_row *row)
{
    const struct use_scan *scan = context;
    struct mt_use_row use = read_use(row);
    return scan->visit(scan->context, mt_row_integer(row, ALLOCATION), &use);
}

static mt_status scan_uses(struct mt_trace *trace, const struct mt_run *run, struct use_scan *scan)
{
    struct mt_statement *statement;
    struct mt_row_visitor visitor = {.name = "uses", .visit = scan_use, .context = scan};
    MT_TRY(mt_row_visitor_add(trace->database, &visitor));
    mt_status status = prepare(trace, run, &statement);
    MT_QUERY_BIND(statement, run->first_event, mt_query_end(run) - 1);
    MT_THEN(status, mt_statement_run(statement));
    mt_statement_finalize(statement);
    mt_row_visitor_remove(trace->database, &visitor);
    return mt_status_keep(status, visitor.status);
}

mt_status mt_trace_uses_visit(struct mt_trace *trace, const struct mt_run *run, mt_use_visit visit, void *context)
{
    bool has_uses;
    struct use_scan scan = {.visit = visit, .context = context};
    mt_status status = has_table(trace, &has_uses);
    return status == MT_OK && has_uses ? scan_uses(trace, run, &scan) : status;
}
