/* What was live after an event? The checkpoint before it, and the few thousand events since. */
#include "base/memory.h"
#include "trace/query/query.h"

#include <stdlib.h>

/* Ids in ascending order, but for `ended`, which is sorted when it is complete. */
struct ids {
    int64_t *data;
    size_t count;
};

static void ids_add(struct ids *ids, int64_t id)
{
    ids->data = mt_host_room(ids->data, ids->count, sizeof *ids->data);
    ids->data[ids->count++] = id;
}

static int compare_ids(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Reads one unsigned LEB128 number; false if the bytes end within it or it does not fit. */
static bool read_number(const unsigned char **bytes, const unsigned char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; *bytes < end && shift < 63; shift += 7) {
        unsigned char byte = *(*bytes)++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0)
            return true;
    }
    return false;
}

/* checkpoint.live: differences of ascending ids, the first from run.first_event. */
static mt_status decode(const void *blob, size_t blob_bytes, int64_t first_event, struct ids *live)
{
    const unsigned char *bytes = blob, *end = bytes + blob_bytes;
    uint64_t id = (uint64_t)first_event, difference;
    while (bytes < end) {
        if (!read_number(&bytes, end, &difference))
            return mt_fail(MT_BAD_TRACE, "a checkpoint is damaged");
        id += difference;
        ids_add(live, (int64_t)id);
    }
    return MT_OK;
}

/* Sets *event to the event of the last checkpoint up to it, or to just before the run. */
static mt_status read_checkpoint(struct mt_trace *trace, const struct mt_run *run, int64_t *event, struct ids *live)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run, "SELECT event, live FROM checkpoint WHERE run = ?1 AND event <= ?2 ORDER BY event DESC LIMIT 1",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, *event);
    *event = run->first_event - 1;
    bool row;
    status = mt_statement_step(statement, &row);
    if (status == MT_OK && row) {
        size_t bytes;
        const void *blob = mt_statement_blob(statement, 1, &bytes);
        *event = mt_statement_integer(statement, 0);
        status = decode(blob, bytes, run->first_event, live);
    }
    mt_statement_finalize(statement);
    return status;
}

static mt_status replay(struct mt_trace *trace, const struct mt_run *run, int64_t after, int64_t last, struct ids *live,
                        struct ids *ended)
{
    struct mt_statement *statement;
    mt_status status = mt_query_prepare(
        trace, run,
        "SELECT id, allocation, kind = ?4 FROM event WHERE ?1 = ?1 AND id > ?2 AND id <= ?3 AND kind IN (?4, ?5)"
        " ORDER BY id",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_integer(statement, 2, after);
    mt_statement_bind_integer(statement, 3, last);
    mt_statement_bind_integer(statement, 4, MT_EVENT_ALLOC);
    mt_statement_bind_integer(statement, 5, MT_EVENT_FREE);
    bool row = true;
    while ((status = mt_statement_step(statement, &row)) == MT_OK && row) {
        bool is_alloc = mt_statement_integer(statement, 2) != 0;
        ids_add(is_alloc ? live : ended, mt_statement_integer(statement, is_alloc ? 0 : 1));
    }
    mt_statement_finalize(statement);
    return status;
}

/* Takes the ended ones out of the live ones. */
static void subtract(struct ids *live, struct ids *ended)
{
    if (ended->count == 0)
        return;
    qsort(ended->data, ended->count, sizeof *ended->data, compare_ids);
    size_t kept = 0, next = 0;
    for (size_t i = 0; i < live->count; i++) {
        while (next < ended->count && ended->data[next] < live->data[i])
            next++;
        if (next == ended->count || ended->data[next] != live->data[i])
            live->data[kept++] = live->data[i];
    }
    live->count = kept;
}

mt_status mt_query_live(struct mt_trace *trace, const struct mt_run *run, int64_t event, int64_t **out_ids,
                        size_t *out_count)
{
    struct ids live = {0}, ended = {0};
    int64_t checkpoint = event;
    mt_status status = read_checkpoint(trace, run, &checkpoint, &live);
    if (status == MT_OK)
        status = replay(trace, run, checkpoint, event, &live, &ended);
    if (status == MT_OK)
        subtract(&live, &ended);
    else
        free(live.data);
    free(ended.data);
    *out_ids = status == MT_OK ? live.data : NULL;
    *out_count = status == MT_OK ? live.count : 0;
    return status;
}
