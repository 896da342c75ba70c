#include "cli/study/value_list.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What one value may be: a name out of choices, or a number. */
struct rule {
    const char *option;
    const char *const *choices; /* NULL: numbers */
    int64_t low, high;
};

static mt_status read_choice(const struct rule *rule, const char *text, int64_t *out)
{
    size_t count = 0;
    for (; rule->choices[count] != NULL; count++) {
        if (strcmp(rule->choices[count], text) != 0)
            continue;
        *out = (int64_t)count;
        return MT_OK;
    }
    mt_status status = mt_fail_unknown("value", text, rule->choices, count);
    return mt_fail_context(status, "%s", rule->option);
}

static mt_status add_value(const struct rule *rule, const char *text, struct mt_value_list *out)
{
    int64_t value = 0;
    if (out->count == MT_MOST_LIST_VALUES)
        return mt_fail(MT_USAGE, "%s: a list has %d values at most", rule->option, MT_MOST_LIST_VALUES);
    mt_status status = rule->choices != NULL ? read_choice(rule, text, &value)
                                             : mt_parse_integer(rule->option, text, rule->low, rule->high, &value);
    if (status != MT_OK)
        return status;
    for (size_t i = 0; i < out->count; i++)
        if (out->values[i] == value)
            return mt_fail(MT_USAGE, "%s: the list has %s twice", rule->option, text);
    out->values[out->count++] = value;
    return MT_OK;
}

static mt_status read_list(const struct rule *rule, const char *text, struct mt_value_list *out)
{
    char *copy = mt_host_strdup(text), *rest = copy;
    mt_status status = MT_OK;
    *out = (struct mt_value_list){0};
    while (rest != NULL && status == MT_OK)
        status = add_value(rule, strsep(&rest, ","), out);
    free(copy);
    return status;
}

mt_status mt_value_list_numbers(const char *option, const char *text, int64_t low, int64_t high,
                                struct mt_value_list *out)
{
    return read_list(&(struct rule){option, NULL, low, high}, text, out);
}

mt_status mt_value_list_choices(const char *option, const char *text, const char *const *choices,
                                struct mt_value_list *out)
{
    return read_list(&(struct rule){option, choices, 0, 0}, text, out);
}
