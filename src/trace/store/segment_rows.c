#include "trace/store/segment_rows.h"

#include "base/memory.h"
#include "trace/store/summary_rows.h"

#include <assert.h>
#include <stdlib.h>

void mt_segment_rows_create(struct mt_segment_rows *segments)
{
    *segments = (struct mt_segment_rows){0};
    mt_number_map_create(&segments->by_number);
    mt_parts_create(&segments->parts);
}

void mt_segment_rows_release(struct mt_segment_rows *segments)
{
    mt_number_map_release(&segments->by_number);
    mt_parts_release(&segments->parts);
    free(segments->rows);
    free(segments->changed);
    *segments = (struct mt_segment_rows){0};
}

/* Lists a row as changed, once before it is stored. */
static void note_change(struct mt_segment_rows *segments, size_t index)
{
    if (segments->rows[index].changed)
        return;
    segments->rows[index].changed = true;
    *MT_HOST_ADD(segments->changed, segments->changed_count) = index;
}

/* Returns the row of the segment in which the event maps memory. Adds it if the event begins the segment. */
static size_t row_to_map(struct mt_segment_rows *segments, const struct mt_event *event, int64_t id)
{
    uint64_t index = segments->count;
    if (mt_number_map_get(&segments->by_number, event->segment, &index))
        return index;
    *MT_HOST_ADD(segments->rows, segments->count) = (struct mt_summary_segment){
        .id = event->segment, .address = event->segment_address, .stream = event->stream, .mapped_event = id};
    mt_number_map_put(&segments->by_number, event->segment, index);
    return index;
}

static struct mt_part part_of(const struct mt_event *event, int64_t id)
{
    return (struct mt_part){
        .segment = event->segment, .offset = event->offset, .bytes = event->block_bytes, .mapped_event = id};
}

uint64_t mt_segment_rows_map(struct mt_segment_rows *segments, const struct mt_event *event, int64_t id)
{
    size_t index = row_to_map(segments, event, id);
    assert(index < segments->count && segments->rows[index].unmapped_event == 0);
    struct mt_summary_segment *segment = &segments->rows[index];
    uint64_t end = event->offset + event->block_bytes;
    uint64_t bytes = mt_parts_map(&segments->parts, part_of(event, id));
    segment->bytes = end > segment->bytes ? end : segment->bytes;
    segment->mapped_bytes += bytes;
    note_change(segments, index);
    return bytes;
}

uint64_t mt_segment_rows_unmap(struct mt_segment_rows *segments, const struct mt_event *event, int64_t id)
{
    uint64_t index;
    if (!mt_number_map_get(&segments->by_number, event->segment, &index))
        return 0;
    struct mt_summary_segment *segment = &segments->rows[index];
    uint64_t bytes = mt_parts_unmap(&segments->parts, part_of(event, id), id);
    assert(bytes <= segment->mapped_bytes);
    segment->mapped_bytes -= bytes;
    if (segment->mapped_bytes > 0)
        return bytes;
    segment->unmapped_event = id;
    mt_number_map_take(&segments->by_number, event->segment, &index);
    note_change(segments, index);
    return bytes;
}

bool mt_segment_rows_find(const struct mt_segment_rows *segments, mt_addr address, uint32_t *out_segment,
                          uint64_t *out_offset)
{
    for (size_t i = 0; i < segments->count; i++) {
        const struct mt_summary_segment *segment = &segments->rows[i];
        if (segment->unmapped_event != 0 || address < segment->address || address - segment->address >= segment->bytes)
            continue;
        *out_segment = (uint32_t)segment->id;
        *out_offset = address - segment->address;
        return true;
    }
    return false;
}

void mt_segment_rows_forget_changes(struct mt_segment_rows *segments)
{
    for (size_t i = 0; i < segments->changed_count; i++)
        segments->rows[segments->changed[i]].changed = false;
    segments->changed_count = 0;
    segments->parts.row_count = 0;
}

mt_status mt_segment_rows_store(struct mt_segment_rows *segments, struct mt_database *database, int64_t run,
                                const char *prefix)
{
    assert(segments->changed_count <= segments->count);
    mt_status status = mt_summary_write_segment_rows(database, run, prefix, segments->rows, segments->changed,
                                                     segments->changed_count);
    MT_THEN(status, mt_summary_write_part_rows(database, run, prefix, segments->parts.rows, segments->parts.row_count));
    mt_segment_rows_forget_changes(segments);
    return status;
}
