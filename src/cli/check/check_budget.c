#include "cli/check/check_budget.h"

#include "base/text.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char *mt_bound_kind_name(mt_bound_kind kind)
{
    static const char *const names[MT_BOUND_COUNT] = {[MT_BOUND_LIVE] = "category",
                                                      [MT_BOUND_LARGEST] = "largest",
                                                      [MT_BOUND_ROLE] = "role",
                                                      [MT_BOUND_MODULE] = "module",
                                                      [MT_BOUND_PHASE] = "phase"};
    assert(kind < MT_BOUND_COUNT);
    return names[kind];
}

static size_t trimmed_length(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == ' ')
        length--;
    return length;
}

mt_status mt_budget_add_bound(struct mt_budget *budget, mt_bound_kind kind, const char *text)
{
    const char *option = mt_bound_kind_name(kind), *sign = strstr(text, "<="), *name = text + strspn(text, " ");
    size_t length = sign > name ? trimmed_length(name, (size_t)(sign - name)) : 0;
    if (length == 0)
        return mt_fail(MT_USAGE, "--%s \"%s\": write NAME<=SIZE in quotes, as in --%s \"AttnScores<=40MiB\"", option,
                       text, option);
    uint64_t bytes;
    mt_status status = mt_parse_size(sign + 2 + strspn(sign + 2, " "), &bytes);
    if (status != MT_OK)
        return mt_fail_context(status, "--%s \"%s\"", option, text);
    struct mt_text category = {0};
    mt_text_add(&category, "%.*s", (int)length, name);
    mt_budget_set_bound(budget, kind, category.data, bytes);
    mt_text_release(&category);
    return MT_OK;
}

/* Parses a size: a number of bytes, or a text with a unit. */
static mt_status read_bytes(const char *key, const json_t *value, uint64_t *out)
{
    char number[MT_BYTES_TEXT];
    bool is_number = json_is_integer(value) && json_integer_value(value) >= 0;
    if (!is_number && !json_is_string(value))
        return mt_fail(MT_USAGE, "\"%s\" must be a size: \"40MiB\", or a whole number of bytes", key);
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    mt_status status = mt_parse_size(is_number ? number : json_string_value(value), out);
    return status == MT_OK ? status : mt_fail_context(status, "\"%s\"", key);
}

static mt_status read_bounds(struct mt_budget *budget, const char *key, const json_t *value)
{
    mt_bound_kind kind = 0;
    const char *category;
    json_t *size;
    while (strcmp(key, mt_bound_kind_name(kind)) != 0)
        kind++;
    if (!json_is_object(value))
        return mt_fail(MT_USAGE, "\"%s\" must be an object: {\"AttnScores\": \"40MiB\"}", key);
    json_object_foreach((json_t *)value, category, size)
    {
        uint64_t bytes;
        mt_status status = read_bytes(category, size, &bytes);
        if (status != MT_OK)
            return mt_fail_context(status, "\"%s\"", key);
        mt_budget_set_bound(budget, kind, category, bytes);
    }
    return MT_OK;
}

static mt_status read_no_leaks(struct mt_budget *budget, const char *key, const json_t *value)
{
    if (!json_is_boolean(value))
        return mt_fail(MT_USAGE, "\"%s\" must be true or false", key);
    budget->no_leaks = json_is_true(value);
    return MT_OK;
}

static mt_status read_against(struct mt_budget *budget, const char *key, const json_t *value)
{
    if (json_is_integer(value)) {
        char number[MT_BYTES_TEXT];
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        mt_budget_set_against(budget, number);
        return MT_OK;
    }
    if (!json_is_string(value))
        return mt_fail(MT_USAGE, "\"%s\" must be a run: its number, its name, or \"FILE:RUN\"", key);
    mt_budget_set_against(budget, json_string_value(value));
    return MT_OK;
}

static mt_status read_tolerance(struct mt_budget *budget, const char *key, const json_t *value)
{
    if (json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) <= MT_MOST_PERCENT) {
        budget->tolerance_percent = json_number_value(value);
        return MT_OK;
    }
    if (!json_is_string(value))
        return mt_fail(MT_USAGE, "\"%s\" must be a percentage: \"1%%\", or a number from 0 to %d", key,
                       MT_MOST_PERCENT);
    mt_status status = mt_parse_percent(json_string_value(value), &budget->tolerance_percent);
    return status == MT_OK ? status : mt_fail_context(status, "\"%s\"", key);
}

static mt_status read_floor(struct mt_budget *budget, const char *key, const json_t *value)
{
    return read_bytes(key, value, &budget->floor_bytes);
}

/* Returns the measure that a key such as "max-allocated" bounds. */
static mt_measure measure_of_key(const char *key)
{
    mt_measure measure = 0;
    while (strcmp(mt_measure_name(measure), key + strlen("max-")) != 0)
        measure++;
    assert(measure < MT_MEASURE_COUNT);
    return measure;
}

static mt_status read_most(struct mt_budget *budget, const char *key, const json_t *value)
{
    return read_bytes(key, value, &budget->most_bytes[measure_of_key(key)]);
}

/* The keys of a budget file. */
static const char *const key_names[] = {"max-allocated", "max-requested", "max-reserved", "category",
                                        "largest",       "role",          "module",       "phase",
                                        "no-leaks",      "against",       "tolerance",    "floor"};
enum { KEY_COUNT = sizeof key_names / sizeof key_names[0] };
static mt_status (*const key_readers[KEY_COUNT])(struct mt_budget *, const char *key, const json_t *) = {
    read_most,   read_most,   read_most,     read_bounds,  read_bounds,    read_bounds,
    read_bounds, read_bounds, read_no_leaks, read_against, read_tolerance, read_floor};

static mt_status read_key(struct mt_budget *budget, const char *name, const json_t *value)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(key_names[i], name) == 0)
            return key_readers[i](budget, name, value);
    return mt_fail_unknown("key", name, key_names, KEY_COUNT);
}

static mt_status read_keys(struct mt_budget *budget, const json_t *object)
{
    if (!json_is_object(object))
        return mt_fail(MT_USAGE, "a budget is an object: {\"max-allocated\": \"52GiB\"}");
    mt_status status = MT_OK;
    for (void *at = json_object_iter((json_t *)object); at != NULL && status == MT_OK;
         at = json_object_iter_next((json_t *)object, at))
        status = read_key(budget, json_object_iter_key(at), json_object_iter_value(at));
    return status;
}

mt_status mt_budget_read(const char *path, struct mt_budget *budget)
{
    json_error_t error;
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL && error.line < 0)
        return mt_fail(MT_USAGE, "the budget can't be read: %s", error.text);
    if (object == NULL)
        return mt_fail(MT_USAGE, "the budget %s is no JSON: line %d: %s", path, error.line, error.text);
    mt_status status = read_keys(budget, object);
    json_decref(object);
    return status == MT_OK ? status : mt_fail_context(status, "the budget %s", path);
}

mt_status mt_budget_check(const struct mt_budget *budget)
{
    if (!mt_budget_demands(budget))
        return mt_fail(MT_USAGE,
                       "nothing to check: say what the run must keep to, as in memtrace check --max-allocated"
                       " 52GiB --no-leaks (memtrace help check lists all there is), or put programs and their limits"
                       " into memtrace.toml");
    if ((budget->tolerance_percent >= 0 || budget->floor_bytes > 0) && budget->against == NULL)
        return mt_fail(MT_USAGE, "a tolerance or floor is how much more than another run is allowed: name that run, as"
                                 " in --against baseline --tolerance 1%%");
    return MT_OK;
}
