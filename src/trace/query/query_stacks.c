/* The call stacks of a run. */
#include "base/memory.h"
#include "trace/query/blocks.h"
#include "trace/query/lookup.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static mt_status add_stack(struct mt_trace *trace, const struct mt_statement *row, struct mt_stack_row **rows,
                           size_t *count)
{
    int64_t id = mt_statement_integer(row, 0), parent = mt_statement_integer(row, 1);
    uint64_t line;
    assert(*count > 0);
    if (id != (int64_t)*count || id > UINT32_MAX || parent < 0 || parent >= id)
        return mt_fail(MT_BAD_TRACE,
                       "the trace is damaged: stack %" PRId64 ", called from stack %" PRId64
                       ", comes where stack %zu is expected",
                       id, parent, *count);
    MT_TRY(mt_query_natural(row, 4, &line));
    *MT_HOST_ADD(*rows, *count) = (struct mt_stack_row){.parent = (uint32_t)parent,
                                                        .function = mt_query_text(trace, row, 2),
                                                        .file = mt_query_text(trace, row, 3),
                                                        .line = line};
    return MT_OK;
}

mt_status mt_trace_stacks(struct mt_trace *trace, const struct mt_run *run, struct mt_stack_row **out_rows,
                          size_t *out_count)
{
    mt_status status = MT_OK;
    struct mt_stack_row *rows = NULL;
    size_t count = 0;
    *MT_HOST_ADD(rows, count) =
        (struct mt_stack_row){.function = mt_trace_keep(trace, ""), .file = mt_trace_keep(trace, "")};
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT stack.id, parent, function, file, line FROM stack JOIN frame ON frame.run = stack.run"
                 " AND frame.id = stack.frame WHERE stack.run = ?1 ORDER BY stack.id",
                 MT_BIND_INTEGER(run->id))
        status = add_stack(trace, row, &rows, &count);
    return mt_query_hand_over(status, rows, count, out_rows, out_count);
}

mt_status mt_trace_event_stack(struct mt_trace *trace, const struct mt_run *run, int64_t event, uint32_t *out)
{
    mt_status status = MT_OK;
    *out = 0;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT ifnull(stack, 0) FROM event WHERE id = ?1 AND id >= ?2 AND id < ?3", MT_BIND_INTEGER(event),
                 MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)))
        *out = (uint32_t)mt_statement_integer(row, 0);
    return status;
}

mt_status mt_trace_callers_visit(struct mt_trace *trace, const struct mt_run *run, mt_caller_visit visit, void *context)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT id, stack FROM event NOT INDEXED WHERE id >= ?1 AND id < ?2 AND kind = ?3 AND stack > 0"
                 " ORDER BY id",
                 MT_BIND_INTEGER(run->first_event), MT_BIND_INTEGER(mt_query_end(run)), MT_BIND_INTEGER(MT_EVENT_ALLOC))
        visit(context, mt_statement_integer(row, 0), mt_statement_integer(row, 1));
    return status;
}

/* Blocks whose callers are read. Invariant: visited rows are of allocations before blocks[next + 1]. */
struct called_blocks {
    const struct mt_block_row *blocks;
    size_t next, count, stack_count;
    uint32_t *callers;
};

static void set_caller(void *context, int64_t alloc_event, int64_t stack)
{
    struct called_blocks *called = context;
    const struct mt_block_row *blocks = called->blocks;
    while (called->next < called->count && blocks[called->next].alloc_event < alloc_event)
        called->next++;
    bool is_listed = called->next < called->count && blocks[called->next].alloc_event == alloc_event;
    if (is_listed && stack < (int64_t)called->stack_count)
        called->callers[called->next] = (uint32_t)stack;
}

mt_status mt_trace_callers(struct mt_trace *trace, const struct mt_run *run, const struct mt_block_row *blocks,
                           size_t count, size_t stack_count, uint32_t *out)
{
    struct called_blocks called = {.blocks = blocks, .count = count, .stack_count = stack_count, .callers = out};
    return mt_trace_callers_visit(trace, run, set_caller, &called);
}

enum { GENERATED_LENGTH = 52 };

/* True for the name of a file that PyTorch's Inductor generates: "c" and 51 digits of a hash in base 32. */
static bool is_generated(const char *name)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    return name[0] == 'c' && strspn(name, digits) == GENERATED_LENGTH && strcmp(name + GENERATED_LENGTH, ".py") == 0;
}

bool mt_stack_file_is_own(const char *file)
{
    static const char *const others[] = {"site-packages", "dist-packages", "lib/python3", "\\Lib\\", "<frozen"};
    size_t length = strlen(file);
    bool is_own = length > 3 && strcmp(file + length - 3, ".py") == 0 && strncmp(file, "torch/", 6) != 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0] && is_own; i++)
        is_own = strstr(file, others[i]) == NULL;
    const char *slash = strrchr(file, '/');
    return is_own && !is_generated(slash != NULL ? slash + 1 : file);
}

const struct mt_stack_row *mt_stack_own(const struct mt_stack_row *stacks, size_t count, uint32_t stack)
{
    const struct mt_stack_row *found = NULL;
    for (uint32_t at = stack; at != 0 && at < count; at = stacks[at].parent) {
        if (mt_stack_file_is_own(stacks[at].file))
            return &stacks[at];
        if (found == NULL && stacks[at].line > 0)
            found = &stacks[at];
    }
    return found;
}

void mt_stack_line(const struct mt_stack_row *stacks, size_t count, uint32_t stack, struct mt_text *out)
{
    const struct mt_stack_row *found = mt_stack_own(stacks, count, stack);
    if (found == NULL)
        return;
    const char *slash = strrchr(found->file, found->file[0] != '\0' && strchr(found->file, '/') == NULL ? '\\' : '/');
    mt_text_add(out, "%s:%" PRIu64, slash != NULL ? slash + 1 : found->file, found->line);
}

void mt_stack_frames(const struct mt_stack_row *stacks, size_t count, uint32_t stack, struct mt_text *out)
{
    for (uint32_t at = stack; at != 0 && at < count; at = stacks[at].parent) {
        assert(stacks[at].parent < at);
        mt_text_add(out, "%s%s", at == stack ? "" : "; ", stacks[at].function);
        if (stacks[at].line > 0)
            mt_text_add(out, " %s:%" PRIu64, stacks[at].file, stacks[at].line);
    }
}

mt_status mt_trace_lines(struct mt_trace *trace, const struct mt_run *run, const int64_t *events, size_t count,
                         const char **lines)
{
    struct mt_stack_row *stacks = NULL;
    size_t stack_count = 0;
    mt_status status = count > 0 ? mt_trace_stacks(trace, run, &stacks, &stack_count) : MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_text line = {0};
        uint32_t stack = 0;
        if (events[i] != 0)
            status = mt_trace_event_stack(trace, run, events[i], &stack);
        mt_stack_line(stacks, stack_count, stack, &line);
        lines[i] = mt_trace_keep(trace, mt_text_get(&line));
        mt_text_release(&line);
    }
    free(stacks);
    return status;
}
