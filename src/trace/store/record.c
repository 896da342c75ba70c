#include "trace/store/record.h"

#include <assert.h>

enum { RECORD_BYTES = sizeof(union mt_record) };

_Static_assert(MT_RECORD_MOST_BYTES / RECORD_BYTES + 2 < MT_RING_FEWEST_RECORDS, "every record fits every ring");

static void put(struct mt_payload *payload, const void *data, size_t bytes)
{
    assert(bytes <= sizeof payload->data - payload->length);
    memcpy(payload->data + payload->length, data, bytes);
    payload->length += bytes;
}

static void put_integer(struct mt_payload *payload, int64_t value)
{
    put(payload, &value, sizeof value);
}

static void put_text(struct mt_payload *payload, const char *text)
{
    size_t bytes = strnlen(text, MT_RECORD_TEXT_BYTES - 1);
    put(payload, text, bytes);
    put(payload, "", 1);
}

static void get(struct mt_payload *payload, void *data, size_t bytes)
{
    assert(payload->read <= payload->length && payload->length <= sizeof payload->data);
    memset(data, 0, bytes);
    if (payload->length - payload->read < bytes) {
        payload->whole = false;
        return;
    }
    memcpy(data, payload->data + payload->read, bytes);
    payload->read += bytes;
}

static int64_t get_integer(struct mt_payload *payload)
{
    int64_t value;
    get(payload, &value, sizeof value);
    return value;
}

/* Reads a number. One that is not in [low, high] clears `whole`. */
static int get_small(struct mt_payload *payload, int low, int high)
{
    int64_t value = get_integer(payload);
    if (value >= low && value <= high)
        return (int)value;
    payload->whole = false;
    return low;
}

static const char *get_text(struct mt_payload *payload)
{
    const char *text = (const char *)payload->data + payload->read;
    size_t bytes = strnlen(text, payload->length - payload->read);
    if (bytes == payload->length - payload->read) {
        payload->whole = false;
        return "";
    }
    payload->read += bytes + 1;
    return text;
}

void mt_payload_set_label(struct mt_payload *payload, const struct mt_label *label, const char *category)
{
    assert(label->dims >= 0 && label->dims <= MT_LABEL_MAX_DIMS);
    payload->length = 0;
    put_integer(payload, label->role);
    put_integer(payload, label->role_source);
    put_integer(payload, label->phase);
    put_integer(payload, label->dtype);
    put_integer(payload, label->span);
    put_integer(payload, label->layer);
    put_integer(payload, label->dims);
    for (int i = 0; i < label->dims; i++)
        put_integer(payload, label->shape[i]);
    put_text(payload, category);
    put_text(payload, label->op);
}

bool mt_payload_get_label(struct mt_payload *payload, struct mt_label *out, const char **out_category)
{
    *out = (struct mt_label){0};
    out->role = (mt_role)get_small(payload, 0, MT_ROLE_COUNT - 1);
    out->role_source = (mt_role_source)get_small(payload, 0, MT_ROLE_SOURCE_COUNT - 1);
    out->phase = (mt_phase)get_small(payload, 0, MT_PHASE_COUNT - 1);
    out->dtype = (mt_dtype)get_small(payload, 0, MT_DTYPE_COUNT - 1);
    out->span = (mt_span_id)get_integer(payload);
    out->layer = get_small(payload, INT32_MIN, INT32_MAX);
    out->dims = get_small(payload, 0, MT_LABEL_MAX_DIMS);
    for (int i = 0; i < out->dims; i++)
        out->shape[i] = get_integer(payload);
    *out_category = get_text(payload);
    out->op = get_text(payload);
    return payload->whole;
}

void mt_payload_set_span(struct mt_payload *payload, const struct mt_span *span)
{
    payload->length = 0;
    put_integer(payload, span->parent);
    put_text(payload, span->name);
    put_text(payload, span->path);
}

bool mt_payload_get_span(struct mt_payload *payload, struct mt_span *out)
{
    out->parent = (mt_span_id)get_integer(payload);
    out->name = get_text(payload);
    out->path = get_text(payload);
    return payload->whole;
}

void mt_payload_set_measurement(struct mt_payload *payload, const struct mt_measurement *measurement)
{
    payload->length = 0;
    put_integer(payload, measurement->step);
    put(payload, &measurement->value, sizeof measurement->value);
    put_text(payload, measurement->name);
}

bool mt_payload_get_measurement(struct mt_payload *payload, struct mt_measurement *out)
{
    out->step = get_integer(payload);
    get(payload, &out->value, sizeof out->value);
    out->name = get_text(payload);
    return payload->whole;
}

void mt_payload_set_name(struct mt_payload *payload, const char *name)
{
    payload->length = 0;
    put_text(payload, name);
}

bool mt_payload_get_name(struct mt_payload *payload, const char **out)
{
    *out = get_text(payload);
    return payload->whole;
}

void mt_payload_set_frame(struct mt_payload *payload, const struct mt_frame *frame)
{
    payload->length = 0;
    put_integer(payload, frame->line);
    put_text(payload, frame->function);
    put_text(payload, frame->file);
}

bool mt_payload_get_frame(struct mt_payload *payload, struct mt_frame *out)
{
    out->line = (uint32_t)get_integer(payload);
    out->function = get_text(payload);
    out->file = get_text(payload);
    return payload->whole;
}

void mt_payload_set_stack(struct mt_payload *payload, const struct mt_stack *stack)
{
    payload->length = 0;
    put_integer(payload, stack->parent);
    put_integer(payload, stack->frame);
}

bool mt_payload_get_stack(struct mt_payload *payload, struct mt_stack *out)
{
    out->parent = (mt_stack_id)get_integer(payload);
    out->frame = (mt_frame_id)get_integer(payload);
    return payload->whole;
}

void mt_payload_set_outside(struct mt_payload *payload, const struct mt_outside *outside)
{
    payload->length = 0;
    put_integer(payload, outside->kind);
    put_integer(payload, (int64_t)outside->bytes);
    put_integer(payload, (int64_t)outside->low_bytes);
    put_integer(payload, (int64_t)outside->high_bytes);
    put_text(payload, outside->name);
}

bool mt_payload_get_outside(struct mt_payload *payload, struct mt_outside *out)
{
    out->kind = (mt_outside_kind)get_small(payload, 0, MT_OUTSIDE_KIND_COUNT - 1);
    out->bytes = (uint64_t)get_integer(payload);
    out->low_bytes = (uint64_t)get_integer(payload);
    out->high_bytes = (uint64_t)get_integer(payload);
    out->name = get_text(payload);
    return payload->whole;
}

void mt_payload_set_caveat(struct mt_payload *payload, const struct mt_caveat *caveat)
{
    payload->length = 0;
    put_integer(payload, caveat->kind);
    put_integer(payload, caveat->line);
    put_integer(payload, caveat->count);
    put_integer(payload, caveat->total);
    put_integer(payload, caveat->bytes);
    put(payload, &caveat->value, sizeof caveat->value);
    put_text(payload, caveat->name);
    put_text(payload, caveat->file);
}

bool mt_payload_get_caveat(struct mt_payload *payload, struct mt_caveat *out)
{
    out->kind = (mt_caveat_kind)get_small(payload, 0, MT_CAVEAT_KIND_COUNT - 1);
    out->line = get_integer(payload);
    out->count = get_integer(payload);
    out->total = get_integer(payload);
    out->bytes = get_integer(payload);
    get(payload, &out->value, sizeof out->value);
    out->name = get_text(payload);
    out->file = get_text(payload);
    return payload->whole;
}

void mt_payload_set_ended_by(struct mt_payload *payload, mt_ended_by reason)
{
    payload->length = 0;
    put_integer(payload, reason);
}

bool mt_payload_get_ended_by(struct mt_payload *payload, mt_ended_by *out)
{
    *out = (mt_ended_by)get_small(payload, 0, MT_ENDED_BY_COUNT - 1);
    return payload->whole;
}

void mt_payload_write(const struct mt_payload *payload, uint16_t kind, uint32_t id, struct mt_ring *ring)
{
    assert(kind >= MT_RECORD_LABEL && mt_payload_records(payload->length) <= mt_ring_capacity(ring));
    union mt_record *head = mt_ring_record(ring, ring->head);
    *head = (union mt_record){.head = {.length = payload->length, .id = id, .kind = kind}};
    uint64_t position = ring->head;
    uint32_t sum = mt_sum_at(head, position);
    for (size_t at = 0; at < payload->length; at += RECORD_BYTES) {
        union mt_record record = {.bytes = {0}};
        size_t left = payload->length - at;
        memcpy(record.bytes, payload->data + at, left < RECORD_BYTES ? left : RECORD_BYTES);
        sum = mt_sum_on(sum, &record);
        *mt_ring_record(ring, ++position) = record;
    }
    head->head.checksum = sum;
}

bool mt_payload_read(struct mt_payload *payload, const struct mt_ring *ring, uint64_t position, uint64_t end)
{
    const union mt_record *head = mt_ring_record(ring, position);
    uint64_t bytes = head->head.length;
    uint32_t sum = mt_sum_at(head, position);
    assert(position < end);
    if (bytes > sizeof payload->data || mt_payload_records(bytes) > end - position)
        return false;
    payload->length = (size_t)bytes;
    payload->read = 0;
    payload->whole = true;
    for (size_t at = 0; at < bytes; at += RECORD_BYTES) {
        const union mt_record *record = mt_ring_record(ring, ++position);
        size_t left = bytes - at;
        memcpy(payload->data + at, record->bytes, left < RECORD_BYTES ? left : RECORD_BYTES);
        sum = mt_sum_on(sum, record);
    }
    return head->head.checksum == sum;
}
