#include "trace/store/record.h"

#include "trace/store/holder.h"
#include "trace/store/program_phase.h"
#include "trace/store/run_setting.h"

#include <assert.h>
#include <stddef.h>

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

/* Reads a number. A number outside [low, high] clears `whole`. */
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

/* A field of an item. A payload has the fields of its kind one after another: texts with their NUL, and others in 8
 * bytes. */
struct field {
    enum {
        FIELD_NONE,   /* the end of the list */
        FIELD_TEXT,   /* const char * */
        FIELD_ID,     /* uint32_t */
        FIELD_CHOICE, /* an enumeration, below `count` */
        FIELD_WORD    /* int64_t, uint64_t or double */
    } kind;
    size_t offset; /* in the item's struct */
    int count;     /* of FIELD_CHOICE */
};

/* The fields of each kind except labels, whose shapes have any number of dimensions. */
enum { KINDS = MT_RECORD_HOLDER + 1 - MT_RECORD_LABEL, MOST_FIELDS = 10 };
static const struct field fields_of_kind[KINDS][MOST_FIELDS] = {
    [MT_RECORD_SPAN - MT_RECORD_LABEL] = {{FIELD_ID, offsetof(struct mt_span, parent), 0},
                                          {FIELD_TEXT, offsetof(struct mt_span, name), 0},
                                          {FIELD_TEXT, offsetof(struct mt_span, path), 0}},
    [MT_RECORD_MEASUREMENT - MT_RECORD_LABEL] = {{FIELD_WORD, offsetof(struct mt_measurement, step), 0},
                                                 {FIELD_WORD, offsetof(struct mt_measurement, value), 0},
                                                 {FIELD_TEXT, offsetof(struct mt_measurement, name), 0}},
    [MT_RECORD_KERNEL_NAME - MT_RECORD_LABEL] = {{FIELD_TEXT, 0, 0}},
    [MT_RECORD_FRAME - MT_RECORD_LABEL] = {{FIELD_ID, offsetof(struct mt_frame, line), 0},
                                           {FIELD_TEXT, offsetof(struct mt_frame, function), 0},
                                           {FIELD_TEXT, offsetof(struct mt_frame, file), 0}},
    [MT_RECORD_STACK - MT_RECORD_LABEL] = {{FIELD_ID, offsetof(struct mt_stack, parent), 0},
                                           {FIELD_ID, offsetof(struct mt_stack, frame), 0}},
    [MT_RECORD_OUTSIDE - MT_RECORD_LABEL] = {{FIELD_CHOICE, offsetof(struct mt_outside, kind), MT_OUTSIDE_KIND_COUNT},
                                             {FIELD_WORD, offsetof(struct mt_outside, bytes), 0},
                                             {FIELD_WORD, offsetof(struct mt_outside, low_bytes), 0},
                                             {FIELD_WORD, offsetof(struct mt_outside, high_bytes), 0},
                                             {FIELD_TEXT, offsetof(struct mt_outside, name), 0}},
    [MT_RECORD_CAVEAT - MT_RECORD_LABEL] = {{FIELD_CHOICE, offsetof(struct mt_caveat, kind), MT_CAVEAT_KIND_COUNT},
                                            {FIELD_WORD, offsetof(struct mt_caveat, line), 0},
                                            {FIELD_WORD, offsetof(struct mt_caveat, count), 0},
                                            {FIELD_WORD, offsetof(struct mt_caveat, total), 0},
                                            {FIELD_WORD, offsetof(struct mt_caveat, bytes), 0},
                                            {FIELD_WORD, offsetof(struct mt_caveat, value), 0},
                                            {FIELD_TEXT, offsetof(struct mt_caveat, name), 0},
                                            {FIELD_TEXT, offsetof(struct mt_caveat, file), 0}},
    [MT_RECORD_ENDED_BY - MT_RECORD_LABEL] = {{FIELD_CHOICE, 0, MT_ENDED_BY_COUNT}},
    [MT_RECORD_SETTING - MT_RECORD_LABEL] = {{FIELD_TEXT, offsetof(struct mt_run_setting, name), 0},
                                             {FIELD_TEXT, offsetof(struct mt_run_setting, value), 0}},
    [MT_RECORD_PROGRAM_PHASE - MT_RECORD_LABEL] = {{FIELD_CHOICE, 0, MT_PROGRAM_PHASE_COUNT}},
    [MT_RECORD_HOLDER - MT_RECORD_LABEL] = {{FIELD_WORD, offsetof(struct mt_holder, address), 0},
                                            {FIELD_CHOICE, offsetof(struct mt_holder, kind), MT_HOLDER_KIND_COUNT},
                                            {FIELD_WORD, offsetof(struct mt_holder, line), 0},
                                            {FIELD_WORD, offsetof(struct mt_holder, held_bytes), 0},
                                            {FIELD_TEXT, offsetof(struct mt_holder, name), 0},
                                            {FIELD_TEXT, offsetof(struct mt_holder, owner), 0},
                                            {FIELD_TEXT, offsetof(struct mt_holder, file), 0},
                                            {FIELD_TEXT, offsetof(struct mt_holder, loop_file), 0},
                                            {FIELD_WORD, offsetof(struct mt_holder, loop_line), 0}},
};

static const struct field *fields_of(uint16_t kind)
{
    assert(kind > MT_RECORD_LABEL && kind <= MT_RECORD_HOLDER);
    assert(fields_of_kind[kind - MT_RECORD_LABEL][0].kind != FIELD_NONE);
    return fields_of_kind[kind - MT_RECORD_LABEL];
}

void mt_payload_set(struct mt_payload *payload, uint16_t kind, const void *item)
{
    payload->length = 0;
    for (const struct field *field = fields_of(kind); field->kind != FIELD_NONE; field++) {
        const char *at = (const char *)item + field->offset;
        if (field->kind == FIELD_TEXT)
            put_text(payload, *(const char *const *)at);
        else if (field->kind == FIELD_ID)
            put_integer(payload, *(const uint32_t *)at);
        else if (field->kind == FIELD_CHOICE)
            put_integer(payload, *(const int *)at);
        else
            put(payload, at, sizeof(int64_t));
    }
}

bool mt_payload_get(struct mt_payload *payload, uint16_t kind, void *out)
{
    for (const struct field *field = fields_of(kind); field->kind != FIELD_NONE; field++) {
        char *at = (char *)out + field->offset;
        if (field->kind == FIELD_TEXT)
            *(const char **)at = get_text(payload);
        else if (field->kind == FIELD_ID)
            *(uint32_t *)at = (uint32_t)get_integer(payload);
        else if (field->kind == FIELD_CHOICE)
            *(int *)at = get_small(payload, 0, field->count - 1);
        else
            get(payload, at, sizeof(int64_t));
    }
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
