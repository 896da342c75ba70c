#include "trace/store/event_batch.h"

#include <sqlite3.h>

/* The columns of table event after id, which SQLite counts up by itself. */
enum column { TIME, KIND, STREAM, LABEL, SPAN, REQUESTED, BLOCK, SEGMENT, OFFSET, ALLOCATION };

#define ALWAYS (1u << TIME | 1u << KIND | 1u << STREAM)

/* Which columns a kind fills; the others are NULL, which takes no room in the file. */
static const unsigned columns_of_kind[MT_EVENT_KIND_COUNT] = {
    [MT_EVENT_SEGMENT_MAP] = ALWAYS | 1u << BLOCK | 1u << SEGMENT | 1u << OFFSET,
    [MT_EVENT_SEGMENT_UNMAP] = ALWAYS | 1u << BLOCK | 1u << SEGMENT | 1u << OFFSET,
    [MT_EVENT_ALLOC] = ALWAYS | 1u << LABEL | 1u << SPAN | 1u << REQUESTED | 1u << BLOCK | 1u << SEGMENT | 1u << OFFSET,
    [MT_EVENT_FREE] = ALWAYS | 1u << LABEL | 1u << REQUESTED | 1u << BLOCK | 1u << ALLOCATION,
    [MT_EVENT_OOM] = ALWAYS | 1u << LABEL | 1u << SPAN | 1u << REQUESTED,
    [MT_EVENT_SPAN_BEGIN] = ALWAYS | 1u << SPAN,
    [MT_EVENT_SPAN_END] = ALWAYS | 1u << SPAN,
    [MT_EVENT_STEP_BEGIN] = ALWAYS | 1u << REQUESTED,
    [MT_EVENT_STEP_END] = ALWAYS | 1u << REQUESTED,
    [MT_EVENT_PHASE] = ALWAYS | 1u << REQUESTED,
};

/* What a program asked for in vain may be any number, and a column holds half of them: at most this, which is one of whole
 * pages, so that what a segment for it would take is a number, too. */
static const uint64_t MOST_BYTES = (UINT64_C(1) << 63) - (2 << 20);

static void result_bytes(sqlite3_context *context, uint64_t bytes)
{
    sqlite3_result_int64(context, (int64_t)(bytes < MOST_BYTES ? bytes : MOST_BYTES));
}

static void result_id(sqlite3_context *context, int64_t id)
{
    if (id != 0)
        sqlite3_result_int64(context, id);
}

static int give_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
    const struct mt_event_batch_row *row = mt_batch_row(cursor);
    const struct mt_event *event = row->event;
    if ((columns_of_kind[event->kind] & 1u << column) == 0)
        return SQLITE_OK;
    switch ((enum column)column) {
    case TIME:
        sqlite3_result_int64(context, (int64_t)event->time_ns);
        break;
    case KIND:
        sqlite3_result_int(context, event->kind);
        break;
    case STREAM:
        sqlite3_result_int(context, event->stream);
        break;
    case LABEL:
        result_id(context, mt_label_number(event->label));
        break;
    case SPAN:
        result_id(context, row->span);
        break;
    case REQUESTED:
        result_bytes(context, event->requested_bytes);
        break;
    case BLOCK:
        sqlite3_result_int64(context, (int64_t)event->block_bytes);
        break;
    case SEGMENT:
        sqlite3_result_int64(context, event->segment);
        break;
    case OFFSET:
        sqlite3_result_int64(context, (int64_t)event->offset);
        break;
    case ALLOCATION:
        result_id(context, row->allocation);
        break;
    }
    return SQLITE_OK;
}

/* All columns in the table's order, so that SQLite need not move them; an id of NULL is the next one. */
const struct mt_batch_table mt_event_batch = {
    .name = "mt_event_batch",
    .columns = "time_ns, kind, stream, label, span, requested_bytes, block_bytes, segment, offset, allocation",
    .insert = "INSERT INTO event SELECT NULL, * FROM mt_event_batch",
    .row_bytes = sizeof(struct mt_event_batch_row),
    .capacity = 1024,
    .column = give_column,
};
