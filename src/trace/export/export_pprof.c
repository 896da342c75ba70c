/* A run's memory as a profile for pprof: one sample for each label, with the blocks of the whole run (alloc_objects,
 * alloc_space) and the blocks live at the peak of allocated bytes (inuse_objects, inuse_space, the default). Samples
 * have the labels category, role, phase and dtype.
 *
 * A profile is a message of Protocol Buffers. It needs varints, bytes, and messages inside messages:
 * https://protobuf.dev/programming-guides/encoding/ https://github.com/google/pprof/blob/main/proto/profile.proto */
#include "base/interner.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/export/export_stacks.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A message under construction. All zero: empty. Invariant: length <= capacity. */
struct proto {
    unsigned char *data;
    size_t length, capacity;
};

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, VARINT_MOST_BYTES = 10 };

static void proto_release(struct proto *message)
{
    free(message->data);
    *message = (struct proto){0};
}

/* Empties the message and keeps its memory. */
static void proto_clear(struct proto *message)
{
    message->length = 0;
}

static void make_room(struct proto *message, size_t bytes)
{
    if (message->capacity - message->length >= bytes)
        return;
    message->capacity = message->capacity * 2 + bytes;
    message->data = mt_host_resize(message->data, message->capacity, 1);
}

static size_t put_varint(unsigned char *at, uint64_t value)
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        at[length++] = (unsigned char)(value | 0x80);
    at[length++] = (unsigned char)value;
    return length;
}

static void add_varint(struct proto *message, uint64_t value)
{
    make_room(message, VARINT_MOST_BYTES);
    message->length += put_varint(message->data + message->length, value);
}

static void add_key(struct proto *message, int field, int wire)
{
    assert(field > 0);
    add_varint(message, (uint64_t)field << 3 | (uint64_t)wire);
}

/* Adds a field. Readers treat an absent field as 0, so 0 is omitted. */
static void proto_add_integer(struct proto *message, int field, uint64_t value)
{
    if (value == 0)
        return;
    add_key(message, field, WIRE_VARINT);
    add_varint(message, value);
}

/* Adds a field, even if it is empty. */
static void proto_add_bytes(struct proto *message, int field, const void *data, size_t bytes)
{
    add_key(message, field, WIRE_BYTES);
    add_varint(message, bytes);
    if (bytes == 0)
        return;
    make_room(message, bytes);
    memcpy(message->data + message->length, data, bytes);
    message->length += bytes;
}

static void proto_add_text(struct proto *message, int field, const char *text)
{
    proto_add_bytes(message, field, text, strlen(text));
}

static void proto_add_message(struct proto *message, int field, const struct proto *part)
{
    proto_add_bytes(message, field, part->data, part->length);
}

/* Adds a repeated field of numbers, packed. */
static void proto_add_integers(struct proto *message, int field, const uint64_t *values, size_t count)
{
    unsigned char ignored[VARINT_MOST_BYTES];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += put_varint(ignored, values[i]);
    add_key(message, field, WIRE_BYTES);
    add_varint(message, bytes);
    for (size_t i = 0; i < count; i++)
        add_varint(message, values[i]);
}

/* Fields of the messages in profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,
    VALUE_TYPE_TYPE = 1,
    VALUE_TYPE_UNIT = 2,
    SAMPLE_LOCATION_ID = 1,
    SAMPLE_VALUE = 2,
    SAMPLE_LABEL = 3,
    LABEL_KEY = 1,
    LABEL_STR = 2,
    MAPPING_ID = 1,
    MAPPING_FILENAME = 5,
    MAPPING_HAS_FUNCTIONS = 7,
    LOCATION_ID = 1,
    LOCATION_MAPPING_ID = 2,
    LOCATION_LINE = 4,
    LINE_FUNCTION_ID = 1,
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_SYSTEM_NAME = 3
};

enum { THE_MAPPING = 1 };

/* A profile under construction. String 0 of its table is ""; the others are the names of `strings`, by their numbers. A
 * frame is a location and a function, both with the number of its name. Invariant: is_frame has an entry for each of
 * the string_count strings. */
struct profile {
    struct proto *out;
    struct proto part, inner; /* messages inside of it, one at a time */
    struct mt_name_set *strings;
    bool *is_frame;
    uint64_t string_count;
};

/* Returns the number of a string, as UTF-8, in the table. */
static uint64_t string_number(struct profile *profile, const char *text)
{
    struct mt_text repaired = {0};
    bool is_new;
    mt_utf8_add_repaired(&repaired, text);
    if (repaired.length == 0)
        return 0;
    uint32_t number = mt_name_set_number(profile->strings, repaired.data, &is_new);
    mt_text_release(&repaired);
    if (is_new) {
        profile->string_count = number + 1;
        profile->is_frame = mt_host_resize(profile->is_frame, profile->string_count, sizeof *profile->is_frame);
        profile->is_frame[number] = false;
    }
    return number;
}

static void add_value_type(struct profile *profile, int field, const char *type, const char *unit)
{
    proto_clear(&profile->part);
    proto_add_integer(&profile->part, VALUE_TYPE_TYPE, string_number(profile, type));
    proto_add_integer(&profile->part, VALUE_TYPE_UNIT, string_number(profile, unit));
    proto_add_message(profile->out, field, &profile->part);
}

static void add_types(struct profile *profile)
{
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
    add_value_type(profile, PROFILE_PERIOD_TYPE, "space", "bytes");
    proto_add_integer(profile->out, PROFILE_PERIOD, 1);
    proto_add_integer(profile->out, PROFILE_DEFAULT_SAMPLE_TYPE, string_number(profile, "inuse_space"));
}

/* Adds the only mapping, which declares that locations have names. */
static void add_mapping(struct profile *profile, const char *title)
{
    proto_clear(&profile->part);
    proto_add_integer(&profile->part, MAPPING_ID, THE_MAPPING);
    proto_add_integer(&profile->part, MAPPING_FILENAME, string_number(profile, title));
    proto_add_integer(&profile->part, MAPPING_HAS_FUNCTIONS, 1);
    proto_add_message(profile->out, PROFILE_MAPPING, &profile->part);
}

/* Adds the frames, the innermost first. */
static void add_locations(struct profile *profile, const struct mt_label_row *label, mt_stack_layers layers)
{
    struct mt_label_stack stack;
    uint64_t ids[MT_MOST_FRAMES];
    mt_label_stack_create(&stack, label, layers);
    for (size_t i = 0; i < stack.depth; i++) {
        uint64_t id = string_number(profile, stack.frames[stack.depth - 1 - i]);
        profile->is_frame[id] = true;
        ids[i] = id;
    }
    proto_add_integers(&profile->part, SAMPLE_LOCATION_ID, ids, stack.depth);
    mt_label_stack_release(&stack);
}

static void add_label(struct profile *profile, const char *key, const char *text)
{
    if (text[0] == '\0')
        return;
    proto_clear(&profile->inner);
    proto_add_integer(&profile->inner, LABEL_KEY, string_number(profile, key));
    proto_add_integer(&profile->inner, LABEL_STR, string_number(profile, text));
    proto_add_message(&profile->part, SAMPLE_LABEL, &profile->inner);
}

static void add_sample(struct profile *profile, const struct mt_label_row *label, const struct mt_label_sum *sum,
                       mt_stack_layers layers)
{
    uint64_t values[] = {sum->allocations, sum->allocated_bytes, sum->live_blocks, sum->live_bytes};
    proto_clear(&profile->part);
    add_locations(profile, label, layers);
    proto_add_integers(&profile->part, SAMPLE_VALUE, values, sizeof values / sizeof values[0]);
    add_label(profile, "category", label->category);
    add_label(profile, "role", label->role);
    add_label(profile, "phase", label->phase);
    add_label(profile, "dtype", label->dtype);
    proto_add_message(profile->out, PROFILE_SAMPLE, &profile->part);
}

static void add_frame(struct profile *profile, uint64_t id)
{
    assert(id > 0 && id < profile->string_count);
    proto_clear(&profile->inner);
    proto_add_integer(&profile->inner, LINE_FUNCTION_ID, id);
    proto_clear(&profile->part);
    proto_add_integer(&profile->part, LOCATION_ID, id);
    proto_add_integer(&profile->part, LOCATION_MAPPING_ID, THE_MAPPING);
    proto_add_message(&profile->part, LOCATION_LINE, &profile->inner);
    proto_add_message(profile->out, PROFILE_LOCATION, &profile->part);
    proto_clear(&profile->part);
    proto_add_integer(&profile->part, FUNCTION_ID, id);
    proto_add_integer(&profile->part, FUNCTION_NAME, id);
    proto_add_integer(&profile->part, FUNCTION_SYSTEM_NAME, id);
    proto_add_message(profile->out, PROFILE_FUNCTION, &profile->part);
}

static void add_frames_and_strings(struct profile *profile)
{
    for (uint64_t i = 1; i < profile->string_count; i++)
        if (profile->is_frame[i])
            add_frame(profile, i);
    proto_add_text(profile->out, PROFILE_STRING_TABLE, "");
    for (uint64_t i = 1; i < profile->string_count; i++)
        proto_add_text(profile->out, PROFILE_STRING_TABLE, mt_name_set_name(profile->strings, (uint32_t)i));
}

static void write_profile(const char *title, const struct mt_label_sums *sums, mt_stack_layers layers,
                          struct proto *out)
{
    struct profile profile = {.out = out, .strings = mt_name_set_create()};
    add_types(&profile);
    add_mapping(&profile, title);
    for (size_t i = 0; i < sums->count; i++)
        if (sums->sums[i].allocations > 0)
            add_sample(&profile, &sums->labels[i], &sums->sums[i], layers);
    add_frames_and_strings(&profile);
    mt_name_set_destroy(profile.strings);
    proto_release(&profile.part);
    proto_release(&profile.inner);
    free(profile.is_frame);
}

mt_status mt_export_pprof(const struct mt_export_request *request, struct mt_output_file *file)
{
    const struct mt_export_run *from = &request->from;
    struct mt_label_sums sums;
    MT_TRY(mt_label_sums_read(from, &sums));
    struct mt_text title = {0};
    struct proto profile = {0};
    const char *name = from->run->name;
    mt_text_add(&title, "memtrace run %" PRId64 "%s%s", from->run->id, name != NULL ? ": " : "",
                name != NULL ? name : "");
    write_profile(mt_text_get(&title), &sums, request->layers, &profile);
    proto_add_integer(&profile, PROFILE_TIME_NANOS, mt_run_start_us(from->run) * 1000);
    mt_output_file_write(file, profile.data, profile.length);
    proto_release(&profile);
    mt_text_release(&title);
    mt_label_sums_release(&sums);
    return mt_output_file_go_on(file);
}
