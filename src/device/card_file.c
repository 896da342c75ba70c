/* A user's card: a JSON object with the fields of struct mt_card, as printed by `cards`. Missing fields have the value
 * of the known card in its field "like", or of the reference card. */
#include "device/card.h"

#include "base/text.h"
#include "device/backend.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FROM_FILE[] = "a file"; /* the source of its figures */

typedef enum number_kind { KIND_INT, KIND_U32, KIND_U64, KIND_DOUBLE } number_kind;

/* A numeric field and its valid range. */
struct number_field {
    const char *key;
    number_kind kind;
    size_t offset;
    double least, most;
};

#define NUMBER(kind, member, least, most)                                                                              \
    {                                                                                                                  \
#member, kind, offsetof(struct mt_card, member), least, most                                                   \
    }
#define RATE(member, least) NUMBER(KIND_DOUBLE, member, least, 1e18)

static const struct number_field numbers[] = {
    NUMBER(KIND_U64, memory_bytes, 1 << 20, 1e15),
    NUMBER(KIND_U64, context_bytes, 0, 1e12),
    NUMBER(KIND_U64, others_bytes, 0, 1e15),
    NUMBER(KIND_INT, capability, 10, 999),
    NUMBER(KIND_INT, multiprocessors, 1, 65536),
    NUMBER(KIND_INT, threads_per_multiprocessor, 512, 65536),
    NUMBER(KIND_U64, l2_bytes, 1024, 1e12),
    NUMBER(KIND_U64, block_shared_bytes, 1024, 1e9),
    NUMBER(KIND_U64, multiprocessor_shared_bytes, 1024, 1e9),
    NUMBER(KIND_U64, matmul_workspace_bytes, 1, 1e12),
    NUMBER(KIND_U32, launch_ns, 0, 1e9),
    NUMBER(KIND_U32, eager_launch_ns, 0, 1e9),
    RATE(bytes_per_second, 1e6),
    RATE(fp64_rate, 0),
    RATE(fp32_rate, 1e6),
    RATE(tf32_matrix_rate, 0),
    RATE(bf16_matrix_rate, 0),
    RATE(fp16_matrix_rate, 0),
    RATE(fp8_matrix_rate, 0),
};

enum { NUMBER_COUNT = sizeof numbers / sizeof numbers[0] };

/* Text fields. A card from a file is named after the file, and its source says that it is a file. */
static const char *const texts[] = {"like", "name", "product", "source", "schema"};

enum { TEXT_COUNT = sizeof texts / sizeof texts[0] };

static void store(const struct number_field *field, double number, struct mt_card *card)
{
    char *at = (char *)card + field->offset;
    switch (field->kind) {
    case KIND_INT:
        *(int *)at = (int)number;
        return;
    case KIND_U32:
        *(uint32_t *)at = (uint32_t)number;
        return;
    case KIND_U64:
        *(uint64_t *)at = (uint64_t)number;
        return;
    case KIND_DOUBLE:
        *(double *)at = number;
        return;
    }
}

/* Returns a field's number. Whole numbers are below 10^15, so a double represents them exactly. */
static double load(const struct number_field *field, const struct mt_card *card)
{
    const char *at = (const char *)card + field->offset;
    switch (field->kind) {
    case KIND_INT:
        return *(const int *)at;
    case KIND_U32:
        return *(const uint32_t *)at;
    case KIND_U64:
        return (double)*(const uint64_t *)at;
    case KIND_DOUBLE:
        return *(const double *)at;
    }
    return 0;
}

static mt_status read_number(const char *path, const json_t *object, const struct number_field *field,
                             struct mt_card *card)
{
    const json_t *value = json_object_get(object, field->key);
    if (value == NULL)
        return MT_OK;
    if (!json_is_number(value))
        return mt_fail(MT_USAGE, "%s: \"%s\" is not a number", path, field->key);
    double number = json_number_value(value);
    if (number < field->least || number > field->most)
        return mt_fail(MT_USAGE, "%s: \"%s\" is %g; it is %g to %g", path, field->key, number, field->least,
                       field->most);
    if (field->kind != KIND_DOUBLE && number != floor(number))
        return mt_fail(MT_USAGE, "%s: \"%s\" is %g; it is a whole number", path, field->key, number);
    store(field, number, card);
    return MT_OK;
}

static mt_status check_keys(const char *path, json_t *object)
{
    const char *known[TEXT_COUNT + NUMBER_COUNT], *key;
    json_t *value;
    size_t count = 0;
    for (size_t i = 0; i < TEXT_COUNT; i++)
        known[count++] = texts[i];
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        known[count++] = numbers[i].key;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(known[i], key) != 0)
            i++;
        if (i == count)
            return mt_fail_context(mt_fail_unknown("field", key, known, count), "%s", path);
        if (i < TEXT_COUNT && !json_is_string(value))
            return mt_fail(MT_USAGE, "%s: \"%s\" is no text", path, key);
    }
    return MT_OK;
}

/* Finds the card named in "like". */
static mt_status read_like(const char *path, const json_t *object, struct mt_card *out)
{
    const char *like = json_string_value(json_object_get(object, "like"));
    if (mt_card_find(like != NULL ? like : MT_REFERENCE_CARD, out))
        return MT_OK;
    return mt_fail_context(mt_card_fail_unknown(like), "%s: \"like\"", path);
}

static mt_status read_card(const char *path, json_t *object, struct mt_card *out)
{
    const char *product = json_string_value(json_object_get(object, "product"));
    MT_TRY(check_keys(path, object));
    MT_TRY(read_like(path, object, out));
    if (product != NULL)
        snprintf(out->product, sizeof out->product, "%s", product);
    out->source = FROM_FILE;
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        MT_TRY(read_number(path, object, &numbers[i], out));
        if (numbers[i].offset == offsetof(struct mt_card, capability) && json_object_get(object, "capability") != NULL)
            mt_card_complete(out); /* fields that derive from it are read later */
    }
    if (out->context_bytes >= out->memory_bytes)
        return mt_fail(MT_USAGE, "%s: \"context_bytes\" is no less than \"memory_bytes\"", path);
    if (out->others_bytes >= out->memory_bytes - out->context_bytes)
        return mt_fail(MT_USAGE, "%s: \"others_bytes\" leaves nothing of \"memory_bytes\"", path);
    return MT_OK;
}

/* Takes ownership of the object; NULL: the text is not JSON, as `error` says. */
static mt_status take_card(const char *name, json_t *object, const json_error_t *error, struct mt_card *out)
{
    if (object == NULL)
        return mt_fail(MT_USAGE, "%s: line %d: %s", name, error->line, error->text);
    mt_status status =
        json_is_object(object) ? read_card(name, object, out) : mt_fail(MT_USAGE, "%s: a card is a JSON object", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    json_decref(object);
    return status;
}

mt_status mt_card_read(const char *path, struct mt_card *out)
{
    json_error_t error;
    if (strlen(path) >= sizeof out->name)
        return mt_fail(MT_USAGE, "%s: the path of a card's file has %zu characters at most", path,
                       sizeof out->name - 1);
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL && error.line < 0)
        return mt_fail(MT_NO_DEVICE, "%s", error.text);
    return take_card(path, object, &error, out);
}

mt_status mt_card_parse(const char *text, struct mt_card *out)
{
    json_error_t error;
    char name[MT_CARD_NAME];
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    const char *stored = json_string_value(json_object_get(object, "name"));
    snprintf(name, sizeof name, "%s", stored != NULL ? stored : "the card");
    return take_card(name, object, &error, out);
}

bool mt_card_is_of_file(const struct mt_card *card)
{
    return card->source != NULL && strcmp(card->source, FROM_FILE) == 0;
}

void mt_card_add_text(const struct mt_card *card, struct mt_text *out)
{
    json_t *object = json_pack("{s:s, s:s}", "name", card->name, "product", card->product);
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        double number = load(&numbers[i], card);
        json_object_set_new(object, numbers[i].key,
                            numbers[i].kind == KIND_DOUBLE ? json_real(number) : json_integer((json_int_t)number));
    }
    char *text = json_dumps(object, JSON_COMPACT);
    mt_text_add(out, "%s", text);
    free(text);
    json_decref(object);
}
