#include "trace/export/pprof.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>

/* Fields of the messages in profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
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

/* A profile under way. String 0 of its table is ""; the others are the names of `strings`, by their numbers. A frame is
 * a location and a function, and both have the number of its name.
 * Invariant: is_frame has an entry for each of the string_count strings. */
struct profile {
    struct mt_proto *out;
    struct mt_proto part, inner; /* messages inside it, one at a time */
    struct mt_name_set *strings;
    bool *is_frame;
    uint64_t string_count;
};

/* The number of a string in the table, which is of UTF-8. */
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
    mt_proto_clear(&profile->part);
    mt_proto_add_integer(&profile->part, VALUE_TYPE_TYPE, string_number(profile, type));
    mt_proto_add_integer(&profile->part, VALUE_TYPE_UNIT, string_number(profile, unit));
    mt_proto_add_message(profile->out, field, &profile->part);
}

static void add_types(struct profile *profile)
{
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
    add_value_type(profile, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
    add_value_type(profile, PROFILE_PERIOD_TYPE, "space", "bytes");
    mt_proto_add_integer(profile->out, PROFILE_PERIOD, 1);
    mt_proto_add_integer(profile->out, PROFILE_DEFAULT_SAMPLE_TYPE, string_number(profile, "inuse_space"));
}

/* Says that locations have their names already. */
static void add_mapping(struct profile *profile, const char *title)
{
    mt_proto_clear(&profile->part);
    mt_proto_add_integer(&profile->part, MAPPING_ID, THE_MAPPING);
    mt_proto_add_integer(&profile->part, MAPPING_FILENAME, string_number(profile, title));
    mt_proto_add_integer(&profile->part, MAPPING_HAS_FUNCTIONS, 1);
    mt_proto_add_message(profile->out, PROFILE_MAPPING, &profile->part);
}

/* The innermost frame comes first. */
static void add_locations(struct profile *profile, const struct mt_label_row *label, mt_stack_layers layers)
{
    struct mt_stack stack;
    uint64_t ids[MT_MOST_FRAMES];
    mt_stack_create(&stack, label, layers);
    for (size_t i = 0; i < stack.depth; i++) {
        uint64_t id = string_number(profile, stack.frames[stack.depth - 1 - i]);
        profile->is_frame[id] = true;
        ids[i] = id;
    }
    mt_proto_add_integers(&profile->part, SAMPLE_LOCATION_ID, ids, stack.depth);
    mt_stack_release(&stack);
}

static void add_label(struct profile *profile, const char *key, const char *text)
{
    if (text[0] == '\0')
        return;
    mt_proto_clear(&profile->inner);
    mt_proto_add_integer(&profile->inner, LABEL_KEY, string_number(profile, key));
    mt_proto_add_integer(&profile->inner, LABEL_STR, string_number(profile, text));
    mt_proto_add_message(&profile->part, SAMPLE_LABEL, &profile->inner);
}

static void add_sample(struct profile *profile, const struct mt_label_row *label, const struct mt_label_sum *sum,
                       mt_stack_layers layers)
{
    uint64_t values[] = {sum->allocations, sum->allocated_bytes, sum->live_blocks, sum->live_bytes};
    mt_proto_clear(&profile->part);
    add_locations(profile, label, layers);
    mt_proto_add_integers(&profile->part, SAMPLE_VALUE, values, sizeof values / sizeof values[0]);
    add_label(profile, "category", label->category);
    add_label(profile, "role", label->role);
    add_label(profile, "phase", label->phase);
    add_label(profile, "dtype", label->dtype);
    mt_proto_add_message(profile->out, PROFILE_SAMPLE, &profile->part);
}

static void add_frame(struct profile *profile, uint64_t id)
{
    mt_proto_clear(&profile->inner);
    mt_proto_add_integer(&profile->inner, LINE_FUNCTION_ID, id);
    mt_proto_clear(&profile->part);
    mt_proto_add_integer(&profile->part, LOCATION_ID, id);
    mt_proto_add_integer(&profile->part, LOCATION_MAPPING_ID, THE_MAPPING);
    mt_proto_add_message(&profile->part, LOCATION_LINE, &profile->inner);
    mt_proto_add_message(profile->out, PROFILE_LOCATION, &profile->part);
    mt_proto_clear(&profile->part);
    mt_proto_add_integer(&profile->part, FUNCTION_ID, id);
    mt_proto_add_integer(&profile->part, FUNCTION_NAME, id);
    mt_proto_add_integer(&profile->part, FUNCTION_SYSTEM_NAME, id);
    mt_proto_add_message(profile->out, PROFILE_FUNCTION, &profile->part);
}

static void add_frames_and_strings(struct profile *profile)
{
    for (uint64_t i = 1; i < profile->string_count; i++)
        if (profile->is_frame[i])
            add_frame(profile, i);
    mt_proto_add_text(profile->out, PROFILE_STRING_TABLE, "");
    for (uint64_t i = 1; i < profile->string_count; i++)
        mt_proto_add_text(profile->out, PROFILE_STRING_TABLE, mt_name_set_name(profile->strings, (uint32_t)i));
}

void mt_pprof_write(const struct mt_pprof *pprof, struct mt_proto *out)
{
    struct profile profile = {.out = out, .strings = mt_name_set_create()};
    add_types(&profile);
    add_mapping(&profile, pprof->title);
    for (size_t i = 0; i < pprof->count; i++)
        if (pprof->sums[i].allocations > 0)
            add_sample(&profile, &pprof->labels[i], &pprof->sums[i], pprof->layers);
    add_frames_and_strings(&profile);
    mt_name_set_destroy(profile.strings);
    mt_proto_release(&profile.part);
    mt_proto_release(&profile.inner);
    free(profile.is_frame);
}
