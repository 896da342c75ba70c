/* Reads a pprof profile strictly by its description, for tests of its writers.
 * https://github.com/google/pprof/blob/main/proto/profile.proto */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROFILE_VALUES = 4, PROFILE_MOST_FRAMES = 64, PROFILE_MOST_LABELS = 8 };

/* The rest of a message. */
struct wire {
    const unsigned char *at, *end;
};

/* A field of a message: a number, or bytes. */
struct wire_field {
    int number, type;
    uint64_t integer;
    struct wire bytes;
};

struct profile_sample {
    uint64_t locations[PROFILE_MOST_FRAMES], values[PROFILE_VALUES];
    uint64_t label_keys[PROFILE_MOST_LABELS], label_texts[PROFILE_MOST_LABELS];
    size_t depth, value_count, label_count;
};

/* An entry with an id: a location and the function of its line, or a function and its name. */
struct profile_entry {
    uint64_t id, refers_to;
};

/* A profile as read; its numbers are not looked up yet. */
struct profile {
    struct profile_sample *samples;
    struct profile_entry *locations, *functions;
    char **strings;
    uint64_t types[PROFILE_VALUES], units[PROFILE_VALUES], default_type, mapping_id;
    uint64_t time_ns; /* since 1970 */
    size_t sample_count, location_count, function_count, string_count, type_count;
};

static inline uint64_t wire_varint(struct wire *wire)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        assert_true(wire->at < wire->end);
        unsigned char byte = *wire->at++;
        assert_true(shift < 63 || byte <= 1);
        value |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
    fail_msg("a varint does not end");
    return 0;
}

/* Reads the next field; false at the end. */
static inline bool wire_next(struct wire *wire, struct wire_field *out)
{
    if (wire->at == wire->end)
        return false;
    uint64_t key = wire_varint(wire), length;
    *out = (struct wire_field){.number = (int)(key >> 3), .type = (int)(key & 7)};
    assert_true(out->type == 0 || out->type == 2);
    if (out->type == 0) {
        out->integer = wire_varint(wire);
        return true;
    }
    length = wire_varint(wire);
    assert_true(length <= (uint64_t)(wire->end - wire->at));
    out->bytes = (struct wire){wire->at, wire->at + length};
    wire->at += length;
    return true;
}

/* Returns the field with a number in a message of numbers; 0 if it is absent. */
static inline uint64_t wire_find(struct wire message, int number)
{
    struct wire_field field;
    uint64_t found = 0;
    while (wire_next(&message, &field))
        if (field.number == number)
            found = field.integer;
    return found;
}

/* Appends the numbers of a packed field. */
static inline size_t wire_packed(struct wire numbers, uint64_t *out, size_t most)
{
    size_t count = 0;
    while (numbers.at < numbers.end) {
        assert_true(count < most);
        out[count++] = wire_varint(&numbers);
    }
    return count;
}

static inline void *profile_room(void *rows, size_t count, size_t bytes)
{
    void *grown = (count & (count - 1)) == 0 ? realloc(rows, (count == 0 ? 1 : count * 2) * bytes) : rows;
    assert_non_null(grown);
    return grown;
}

static inline void profile_add_sample(struct profile *profile, struct wire message)
{
    struct profile_sample sample = {0};
    struct wire_field field;
    while (wire_next(&message, &field)) {
        if (field.number == 1)
            sample.depth = wire_packed(field.bytes, sample.locations, PROFILE_MOST_FRAMES);
        if (field.number == 2)
            sample.value_count = wire_packed(field.bytes, sample.values, PROFILE_VALUES);
        if (field.number != 3)
            continue;
        assert_true(sample.label_count < PROFILE_MOST_LABELS);
        sample.label_keys[sample.label_count] = wire_find(field.bytes, 1);
        sample.label_texts[sample.label_count++] = wire_find(field.bytes, 2);
    }
    profile->samples = profile_room(profile->samples, profile->sample_count, sizeof sample);
    profile->samples[profile->sample_count++] = sample;
}

static inline void profile_add_location(struct profile *profile, struct wire message)
{
    struct profile_entry entry = {.id = wire_find(message, 1)};
    struct wire_field field;
    assert_int_equal(wire_find(message, 2), profile->mapping_id);
    for (struct wire rest = message; wire_next(&rest, &field);)
        if (field.number == 4)
            entry.refers_to = wire_find(field.bytes, 1);
    profile->locations = profile_room(profile->locations, profile->location_count, sizeof entry);
    profile->locations[profile->location_count++] = entry;
}

static inline void profile_add_function(struct profile *profile, struct wire message)
{
    struct profile_entry entry = {wire_find(message, 1), wire_find(message, 2)};
    profile->functions = profile_room(profile->functions, profile->function_count, sizeof entry);
    profile->functions[profile->function_count++] = entry;
}

static inline void profile_add_string(struct profile *profile, struct wire text)
{
    size_t length = (size_t)(text.end - text.at);
    profile->strings = profile_room(profile->strings, profile->string_count, sizeof *profile->strings);
    profile->strings[profile->string_count++] = strndup((const char *)text.at, length);
    assert_null(memchr(text.at, '\0', length));
}

static inline void profile_add(struct profile *profile, const struct wire_field *field)
{
    switch (field->number) {
    case 1:
        assert_true(profile->type_count < PROFILE_VALUES);
        profile->types[profile->type_count] = wire_find(field->bytes, 1);
        profile->units[profile->type_count++] = wire_find(field->bytes, 2);
        break;
    case 2:
        profile_add_sample(profile, field->bytes);
        break;
    case 3:
        profile->mapping_id = wire_find(field->bytes, 1);
        assert_int_equal(wire_find(field->bytes, 7), 1); /* has_functions */
        break;
    case 4:
        profile_add_location(profile, field->bytes);
        break;
    case 5:
        profile_add_function(profile, field->bytes);
        break;
    case 6:
        profile_add_string(profile, field->bytes);
        break;
    case 9:
        profile->time_ns = field->integer;
        break;
    case 14:
        profile->default_type = field->integer;
        break;
    }
}

static inline struct profile profile_read(const char *data, size_t bytes)
{
    struct profile profile = {0};
    struct wire wire = {(const unsigned char *)data, (const unsigned char *)data + bytes};
    struct wire_field field;
    while (wire_next(&wire, &field))
        profile_add(&profile, &field);
    return profile;
}

static inline void profile_release(struct profile *profile)
{
    for (size_t i = 0; i < profile->string_count; i++)
        free(profile->strings[i]);
    free(profile->strings);
    free(profile->samples);
    free(profile->locations);
    free(profile->functions);
}

static inline const char *profile_string(const struct profile *profile, uint64_t number)
{
    assert_true(number < profile->string_count);
    return profile->strings[number];
}

/* Returns the only entry with an id. */
static inline uint64_t profile_find(const struct profile_entry *entries, size_t count, uint64_t id)
{
    size_t found = count;
    assert_int_not_equal(id, 0);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].id != id)
            continue;
        assert_int_equal(found, count);
        found = i;
    }
    assert_true(found < count);
    return entries[found].refers_to;
}

/* Returns the name of a sample's frame, 0 being the innermost. */
static inline const char *profile_frame(const struct profile *profile, const struct profile_sample *sample,
                                        size_t frame)
{
    uint64_t function = profile_find(profile->locations, profile->location_count, sample->locations[frame]);
    return profile_string(profile, profile_find(profile->functions, profile->function_count, function));
}

/* Returns the text of a sample's label, or NULL if the sample has no label with that key. */
static inline const char *profile_label(const struct profile *profile, const struct profile_sample *sample,
                                        const char *key)
{
    for (size_t i = 0; i < sample->label_count; i++)
        if (strcmp(profile_string(profile, sample->label_keys[i]), key) == 0)
            return profile_string(profile, sample->label_texts[i]);
    return NULL;
}
