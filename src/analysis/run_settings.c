#include "cli/output/settings.h"

#include "alloc/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

mt_status mt_settings_load(struct mt_trace *trace, const struct mt_run *run, struct mt_settings *out)
{
    return mt_trace_settings(trace, run, &out->rows, &out->count);
}

void mt_settings_release(struct mt_settings *settings)
{
    free(settings->rows);
    *settings = (struct mt_settings){0};
}

static bool is_listed(const char *name, const char *const names[])
{
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Every run of `memtrace run` says which version it was, and nothing else does. */
static bool is_of_memtrace_run(const struct mt_settings *settings)
{
    return mt_setting_find(settings->rows, settings->count, "memtrace")[0] != '\0';
}

/* What runs did before a setting was one. */
static const struct {
    const char *setting, *value;
} former[] = {{"attention", "custom"},          {"weight_cast", "region"}, {"checkpoint", "off"},
              {"optimizer_in_backward", "off"}, {"cuda_graph", "off"},     {"plan", "off"}};

const char *mt_settings_value(const struct mt_settings *settings, const char *name)
{
    const char *value = mt_setting_find(settings->rows, settings->count, name);
    if (value[0] != '\0' || !is_of_memtrace_run(settings))
        return value;
    for (size_t i = 0; i < sizeof former / sizeof former[0]; i++)
        if (strcmp(name, former[i].setting) == 0)
            return former[i].value;
    return value;
}

/* What counts for no more than some: all other settings could change anything. */
static bool is_in_scope(const char *name, mt_settings_scope scope)
{
    static const char *const watching[] = {"memtrace", "kernels", "recorded", "pid", "seed", "init", NULL};
    static const char *const of_steps[] = {"warmup", "cuda_graph", NULL};
    static const char *const of_memory[] = {"steps", "data", NULL};
    if (scope == MT_SETTINGS_ALL)
        return true;
    return !is_listed(name, watching) && !is_listed(name, scope == MT_SETTINGS_OF_MEMORY ? of_steps : of_memory);
}

/* An allocator's settings may be spelled in full or in short. */
static bool mean_the_same(const char *name, const char *a, const char *b)
{
    struct mt_text texts[2] = {{0}, {0}};
    if (strcmp(a, b) == 0 || strcmp(name, "alloc") != 0)
        return strcmp(a, b) == 0;
    mt_setting_add_value(name, a, &texts[0]);
    mt_setting_add_value(name, b, &texts[1]);
    bool is_equal = strcmp(mt_text_get(&texts[0]), mt_text_get(&texts[1])) == 0;
    mt_text_release(&texts[0]);
    mt_text_release(&texts[1]);
    return is_equal;
}

static void add_pair(struct mt_setting_pair *pairs, size_t *count, const struct mt_setting_pair *pair)
{
    if (*count < MT_MOST_SETTINGS)
        pairs[(*count)++] = *pair;
}

/* Settings of two runs while they are compared. */
struct comparison {
    const struct mt_settings *a, *b;
    mt_settings_scope scope;
    bool is_same_model; /* or one that nothing is said of */
    struct mt_settings_difference *out;
};

static void compare_setting(const struct comparison *comparison, const char *name)
{
    static const char *const dimensions[] = {"d_model", "d_ff", "layers", "heads", NULL};
    static const char *const origins[] = {"file", "format", "command", NULL}; /* nothing to know of a run without */
    const struct mt_setting_pair pair = {name, mt_settings_value(comparison->a, name),
                                         mt_settings_value(comparison->b, name)};
    struct mt_settings_difference *out = comparison->out;
    if (!is_in_scope(name, comparison->scope) || (!comparison->is_same_model && is_listed(name, dimensions)))
        return;
    if (pair.a[0] == '\0' || pair.b[0] == '\0') {
        if (!is_listed(name, origins))
            add_pair(out->unknown, &out->unknown_count, &pair);
    } else if (!mean_the_same(name, pair.a, pair.b)) {
        add_pair(out->different, &out->different_count, &pair);
    }
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct mt_setting_pair *)left)->name, ((const struct mt_setting_pair *)right)->name);
}

void mt_settings_compare(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                         struct mt_settings_difference *out)
{
    const struct comparison comparison = {
        a, b, scope, strcmp(mt_settings_value(a, "model"), mt_settings_value(b, "model")) == 0, out};
    out->different_count = out->unknown_count = 0;
    for (size_t i = 0; i < a->count; i++)
        compare_setting(&comparison, a->rows[i].name);
    for (size_t i = 0; i < b->count; i++) /* what b alone has */
        if (mt_setting_find(a->rows, a->count, b->rows[i].name)[0] == '\0')
            compare_setting(&comparison, b->rows[i].name);
    qsort(out->different, out->different_count, sizeof out->different[0], compare_names);
    qsort(out->unknown, out->unknown_count, sizeof out->unknown[0], compare_names);
}

static bool are_listed(const struct mt_setting_pair *pairs, size_t count, const char *const names[])
{
    for (size_t i = 0; i < count; i++)
        if (!is_listed(pairs[i].name, names))
            return false;
    return true;
}

bool mt_settings_agree(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                       const char *const but[])
{
    struct mt_settings_difference difference;
    mt_settings_compare(a, b, scope, &difference);
    return are_listed(difference.different, difference.different_count, but) &&
           are_listed(difference.unknown, difference.unknown_count, but);
}

void mt_setting_add_value(const char *name, const char *value, struct mt_text *out)
{
    struct mt_alloc_settings settings;
    if (strcmp(name, "alloc") == 0 && value[0] != '\0' && mt_alloc_settings_parse(value, &settings) == MT_OK)
        mt_alloc_settings_format_short(&settings, out);
    else
        mt_text_add(out, "%s", value);
}

void mt_setting_add_change(const struct mt_setting_pair *setting, const char *between, struct mt_text *out)
{
    mt_text_add(out, "%s%s", setting->name, between);
    mt_setting_add_value(setting->name, setting->a, out);
    mt_text_add(out, " → ");
    mt_setting_add_value(setting->name, setting->b, out);
}

void mt_settings_add_unknown(const struct mt_settings_difference *difference, const struct mt_run *a,
                             const struct mt_run *b, struct mt_text *out)
{
    enum { MOST_NAMED = 4 };
    size_t of_a = 0, named = 0;
    for (size_t i = 0; i < difference->unknown_count; i++)
        of_a += difference->unknown[i].a[0] == '\0';
    size_t of_b = difference->unknown_count - of_a, count = of_a >= of_b ? of_a : of_b;
    if (count == 0)
        return;
    mt_text_add(out, "run %" PRId64 " says nothing of ", of_a >= of_b ? a->id : b->id);
    for (size_t i = 0; i < difference->unknown_count && named < MOST_NAMED; i++) {
        const struct mt_setting_pair *pair = &difference->unknown[i];
        if ((of_a >= of_b ? pair->a : pair->b)[0] == '\0')
            mt_text_add(out, "%s%s", named++ > 0 ? ", " : "", pair->name);
    }
    if (count > named)
        mt_text_add(out, " and %zu more setting%s", count - named, count - named == 1 ? "" : "s");
}
