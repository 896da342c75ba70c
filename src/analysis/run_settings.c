#include "analysis/run_settings.h"

#include "analysis/traced_card.h"
#include "base/memory.h"
#include "producers/model/plan_settings.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

mt_status mt_settings_load(struct mt_trace *trace, const struct mt_run *run, struct mt_settings *out)
{
    *out = (struct mt_settings){0};
    return mt_trace_settings(trace, run, &out->rows, &out->count);
}

struct mt_settings mt_settings_of_plan(const struct mt_run_plan *plan, const struct mt_device *device)
{
    struct mt_plan_settings stored = mt_plan_settings_make(plan, device);
    struct mt_settings settings = {
        .rows = mt_host_alloc(stored.count * sizeof *settings.rows), .count = stored.count, .owns_values = true};
    for (size_t i = 0; i < stored.count; i++)
        settings.rows[i] = (struct mt_setting_row){stored.rows[i].name, mt_host_strdup(stored.rows[i].value)};
    mt_plan_settings_release(&stored);
    return settings;
}

void mt_settings_release(struct mt_settings *settings)
{
    for (size_t i = 0; settings->owns_values && i < settings->count; i++)
        free((char *)settings->rows[i].value);
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

/* Returns the table's row with this name; NULL for a setting of another program. */
static const struct mt_setting_entry *find_entry(const char *name)
{
    mt_setting setting = mt_setting_find_name(name);
    return setting != MT_SETTING_COUNT ? &mt_setting_table[setting] : NULL;
}

const char *mt_settings_value(const struct mt_settings *settings, const char *name)
{
    const char *value = mt_setting_find(settings->rows, settings->count, name);
    const struct mt_setting_entry *entry = find_entry(name);
    bool has_former = value[0] == '\0' && entry != NULL && entry->former != NULL;
    return has_former && mt_setting_find(settings->rows, settings->count, MT_SETTING_OF_VERSION)[0] != '\0'
               ? entry->former
               : value;
}

static mt_program_kind kind_of(const struct mt_settings *settings)
{
    if (mt_settings_value(settings, MT_SETTING_OF_VERSION)[0] != '\0')
        return MT_PROGRAM_MODEL;
    if (mt_settings_value(settings, "alloc")[0] == '\0')
        return MT_PROGRAM_WATCHED;
    const bool is_pytorch =
        mt_settings_value(settings, "recorded")[0] != '\0' || mt_settings_value(settings, "format")[0] != '\0';
    return is_pytorch ? MT_PROGRAM_PYTORCH : MT_PROGRAM_LIBRARY;
}

struct mt_program mt_program_of_settings(const struct mt_settings *settings)
{
    struct mt_alloc_settings alloc;
    struct mt_program program = {.kind = kind_of(settings)};
    program.grows_segments = program.kind != MT_PROGRAM_WATCHED &&
                             mt_alloc_settings_parse(mt_settings_value(settings, "alloc"), &alloc) == MT_OK &&
                             (alloc.policy == MT_POLICY_TIGHT || alloc.expandable_segments);
    program.is_dry = strcmp(mt_settings_value(settings, "recorded"), "dry") == 0;
    program.grows_segments |= strcmp(mt_settings_value(settings, "expandable_segments"), "on") == 0;
    return program;
}

/* A setting of another program could change anything, unless it only identifies a run. */
static bool is_in_scope(const char *name, mt_settings_scope scope)
{
    static const char *const identities[] = {MT_SETTING_OF_VERSION, "recorded", "pid", NULL};
    const struct mt_setting_entry *entry = find_entry(name);
    if (scope == MT_SETTINGS_ALL)
        return true;
    if (entry == NULL)
        return !is_listed(name, identities);
    mt_setting_effect own = scope == MT_SETTINGS_OF_MEMORY ? MT_EFFECT_OF_MEMORY : MT_EFFECT_OF_STEPS;
    return entry->effect == MT_EFFECT_ALL || entry->effect == own;
}

/* A value may be in long or short form. */
static bool mean_the_same(const char *name, const char *a, const char *b)
{
    struct mt_text texts[2] = {{0}, {0}};
    if (strcmp(a, b) == 0)
        return true;
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

/* The settings of two runs while they are compared. */
struct comparison {
    const struct mt_settings *a, *b;
    mt_settings_scope scope;
    bool is_same_model; /* or no run has a model */
    struct mt_settings_difference *out;
};

static void compare_setting(const struct comparison *comparison, const char *name)
{
    static const char *const origins[] = {"file",    "format",           "command", "arguments",
                                          "program", MT_SETTING_OF_CARD, NULL}; /* empty in a run that lacks them */
    const struct mt_setting_pair pair = {name, mt_settings_value(comparison->a, name),
                                         mt_settings_value(comparison->b, name)};
    const struct mt_setting_entry *entry = find_entry(name);
    struct mt_settings_difference *out = comparison->out;
    if (!is_in_scope(name, comparison->scope) || (!comparison->is_same_model && entry != NULL && entry->goes_by_model))
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
    for (size_t i = 0; i < b->count; i++) /* those that only b has */
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
    const struct mt_setting_entry *entry = find_entry(name);
    struct mt_run_plan plan = mt_run_plan_usual();
    if (entry != NULL && entry->format_short != NULL && value[0] != '\0' && entry->parse(value, &plan) == MT_OK)
        entry->format_short(&plan, out);
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
    mt_text_add(out, "run %" PRId64 " does not store ", of_a >= of_b ? a->id : b->id);
    for (size_t i = 0; i < difference->unknown_count && named < MOST_NAMED; i++) {
        const struct mt_setting_pair *pair = &difference->unknown[i];
        if ((of_a >= of_b ? pair->a : pair->b)[0] == '\0')
            mt_text_add(out, "%s%s", named++ > 0 ? ", " : "", pair->name);
    }
    if (count > named)
        mt_text_add(out, " and %zu more setting%s", count - named, count - named == 1 ? "" : "s");
}

/* Finds the setting's value. Fails with MT_USAGE if the run has none. */
static mt_status find_value(const struct mt_settings *settings, mt_setting setting, const char **out)
{
    const char *name = mt_setting_table[setting].name;
    *out = mt_settings_value(settings, name);
    if ((*out)[0] != '\0')
        return MT_OK;
    return mt_fail(MT_USAGE, "it has no setting \"%s\", which every run of memtrace run has", name);
}

/* Finds the values of a plan: all except the model's name, whose sizes are also settings. Older runs do not store
 * whether kernels were watched. */
static mt_status find_values(const struct mt_settings *settings, const char *out[MT_SETTING_COUNT])
{
    mt_status status = MT_OK;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT && status == MT_OK; setting++)
        if (setting != MT_SETTING_MODEL && setting != MT_SETTING_KERNELS)
            status = find_value(settings, setting, &out[setting]);
    if (strcmp(mt_settings_value(settings, mt_setting_table[MT_SETTING_KERNELS].name), "on") == 0)
        out[MT_SETTING_KERNELS] = "on";
    return status;
}

/* Sets the model's name from the run; its sizes may differ from the current sizes of that name. */
static mt_status name_model(const char *name, struct mt_model_config *model)
{
    if (strlen(name) >= sizeof model->name)
        return mt_fail(MT_USAGE, "its model's name is too long: %s", name);
    strcpy(model->name, name);
    return MT_OK;
}

mt_status mt_run_plan_of_run(struct mt_trace *trace, const struct mt_run *run, struct mt_run_plan *out)
{
    struct mt_settings settings;
    const char *values[MT_SETTING_COUNT] = {NULL}, *model;
    *out = mt_run_plan_usual();
    mt_status status = mt_settings_load(trace, run, &settings);
    MT_THEN(status, find_values(&settings, values));
    MT_THEN(status, mt_run_plan_set(out, values));
    MT_THEN(status, find_value(&settings, MT_SETTING_MODEL, &model));
    MT_THEN(status, name_model(model, &out->config.model));
    mt_settings_release(&settings);
    return status == MT_USAGE ? mt_fail_context(status, "run %" PRId64 " can't be repeated from its settings", run->id)
                              : status;
}
