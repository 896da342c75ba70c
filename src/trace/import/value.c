#include "trace/import/value.h"

#include <string.h>

static const struct mt_value none;

const char *mt_value_kind_name(mt_value_kind kind)
{
    static const char *const names[] = {
        [MT_VALUE_NONE] = "none",        [MT_VALUE_BOOL] = "bool", [MT_VALUE_INTEGER] = "integer",
        [MT_VALUE_REAL] = "real number", [MT_VALUE_TEXT] = "text", [MT_VALUE_BYTES] = "bytes",
        [MT_VALUE_LIST] = "list",        [MT_VALUE_DICT] = "dict"};
    return names[kind];
}

uint32_t mt_value_count(const struct mt_value *value)
{
    if (value->kind == MT_VALUE_LIST)
        return value->items->count;
    return value->kind == MT_VALUE_DICT ? value->items->count / 2 : 0;
}

const struct mt_value *mt_value_at(const struct mt_value *list, uint32_t index)
{
    if (list->kind != MT_VALUE_LIST || index >= list->items->count)
        return &none;
    return &list->items->values[index];
}

static bool is_key(const struct mt_value *value, const struct mt_value_key *key)
{
    return value->kind == MT_VALUE_TEXT && value->length == key->length &&
           memcmp(value->text, key->name, key->length) == 0;
}

const struct mt_value *mt_value_get(const struct mt_value *dict, struct mt_value_key *key)
{
    if (dict->kind != MT_VALUE_DICT)
        return &none;
    const struct mt_items *items = dict->items;
    if (key->hint < items->count && is_key(&items->values[key->hint], key))
        return &items->values[key->hint + 1];
    for (uint32_t i = 0; i < items->count && i < 2 * MT_VALUE_MOST_KEYS; i += 2)
        if (is_key(&items->values[i], key)) {
            key->hint = i;
            return &items->values[i + 1];
        }
    return &none;
}

bool mt_value_is(const struct mt_value *value, const char *text)
{
    return value->kind == MT_VALUE_TEXT && strcmp(value->text, text) == 0;
}

const char *mt_value_text(const struct mt_value *value)
{
    if (value->kind != MT_VALUE_TEXT)
        return "";
    return value->length <= MT_VALUE_MOST_TEXT_BYTES ? value->text : "(a text that is too long)";
}

bool mt_value_integer(const struct mt_value *value, int64_t *out)
{
    if (value->kind != MT_VALUE_INTEGER)
        return false;
    *out = value->integer;
    return true;
}
