#include "producers/model/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Fields of every enumeration are read and written as int. */
_Static_assert(sizeof(mt_mode) == sizeof(int) && sizeof(mt_zero_grad) == sizeof(int) &&
                   sizeof(mt_attention_kind) == sizeof(int) && sizeof(mtk_math) == sizeof(int),
               "an enumeration is as wide as int");

static const struct mt_setting_entry *entry_of(mt_setting setting)
{
    assert(setting < MT_SETTING_COUNT);
    return &mt_setting_table[setting];
}

mt_setting mt_setting_find_name(const char *name)
{
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++)
        if (strcmp(mt_setting_table[setting].name, name) == 0)
            return setting;
    return MT_SETTING_COUNT;
}

size_t mt_settings_in_order(mt_setting_order order, mt_setting out[MT_SETTING_COUNT])
{
    size_t count = 0;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        int rank = mt_setting_table[setting].rank[order];
        if (rank == 0)
            continue;
        size_t place = count++;
        for (; place > 0 && mt_setting_table[out[place - 1]].rank[order] > rank; place--)
            out[place] = out[place - 1];
        out[place] = setting;
    }
    return count;
}

/* Returns the field as a number, which it must be. */
static int64_t get(const struct mt_setting_entry *entry, const struct mt_run_plan *plan)
{
    const void *field = (const char *)plan + entry->offset;
    switch (entry->kind) {
    case MT_SETTING_IS_INTEGER:
        return *(const int64_t *)field;
    case MT_SETTING_IS_CHOICE:
        return *(const int *)field;
    case MT_SETTING_IS_SWITCH:
        return *(const bool *)field;
    case MT_SETTING_IS_TEXT:
        break;
    }
    assert(!"a text is no number");
    return 0;
}

static void set(const struct mt_setting_entry *entry, int64_t value, struct mt_run_plan *plan)
{
    void *field = (char *)plan + entry->offset;
    switch (entry->kind) {
    case MT_SETTING_IS_INTEGER:
        *(int64_t *)field = value;
        return;
    case MT_SETTING_IS_CHOICE:
        *(int *)field = (int)value;
        return;
    case MT_SETTING_IS_SWITCH:
        *(bool *)field = value != 0;
        return;
    case MT_SETTING_IS_TEXT:
        break;
    }
    assert(!"a text is no number");
}

/* Reads a number or a word of a choice. */
static mt_status parse_value(const struct mt_setting_entry *entry, const char *text, int64_t *out)
{
    if (entry->kind == MT_SETTING_IS_INTEGER)
        return mt_parse_integer(entry->name, text, 0, INT64_MAX, out);
    size_t count = 0;
    for (; entry->choices[count] != NULL; count++) {
        if (strcmp(entry->choices[count], text) == 0) {
            *out = (int64_t)count;
            return MT_OK;
        }
    }
    mt_fail_unknown("value", text, entry->choices, count);
    return mt_fail_context(MT_USAGE, "%s", entry->name);
}

mt_status mt_setting_parse(mt_setting setting, const char *text, struct mt_run_plan *plan)
{
    const struct mt_setting_entry *entry = entry_of(setting);
    int64_t value = 0;
    if (entry->parse != NULL)
        return entry->parse(text, plan);
    if (entry->kind == MT_SETTING_IS_TEXT) {
        *(const char **)((char *)plan + entry->offset) = text;
        return MT_OK;
    }
    mt_status status = parse_value(entry, text, &value);
    if (status == MT_OK)
        set(entry, value, plan);
    return status;
}

void mt_setting_format(mt_setting setting, const struct mt_run_plan *plan, struct mt_text *out)
{
    const struct mt_setting_entry *entry = entry_of(setting);
    if (entry->format != NULL)
        entry->format(plan, out);
    else if (entry->kind == MT_SETTING_IS_TEXT)
        mt_text_add(out, "%s", *(const char *const *)((const char *)plan + entry->offset));
    else if (entry->kind == MT_SETTING_IS_INTEGER)
        mt_text_add(out, "%" PRId64, get(entry, plan));
    else
        mt_text_add(out, "%s", entry->choices[get(entry, plan)]);
}

void mt_setting_format_short(mt_setting setting, const struct mt_run_plan *plan, struct mt_text *out)
{
    const struct mt_setting_entry *entry = entry_of(setting);
    if (entry->format_short != NULL)
        entry->format_short(plan, out);
    else
        mt_setting_format(setting, plan, out);
}

bool mt_setting_is_usual(mt_setting setting, const struct mt_run_plan *plan)
{
    const struct mt_run_plan usual = mt_run_plan_usual();
    struct mt_text texts[2] = {{0}, {0}};
    mt_setting_format(setting, plan, &texts[0]);
    mt_setting_format(setting, &usual, &texts[1]);
    bool is_equal = strcmp(mt_text_get(&texts[0]), mt_text_get(&texts[1])) == 0;
    mt_text_release(&texts[0]);
    mt_text_release(&texts[1]);
    return is_equal;
}

bool mt_setting_is_told(mt_setting setting, const struct mt_run_plan *plan)
{
    const struct mt_setting_entry *entry = entry_of(setting);
    return entry->is_told != NULL ? entry->is_told(plan) : !mt_setting_is_usual(setting, plan);
}

const char *mt_precision_words(const struct mt_training_config *config)
{
    if (config->autocast == MT_AUTOCAST_OFF)
        return mt_matmul_names[config->math];
    if (config->math == MTK_MATH_FP8)
        return "fp8 and bf16 autocast";
    return config->autocast == MT_AUTOCAST_FP16 ? "fp16 autocast" : "bf16 autocast";
}

int64_t mt_setting_size(mt_setting setting, const struct mt_run_plan *plan)
{
    assert(entry_of(setting)->change.is_cut);
    return get(entry_of(setting), plan);
}

void mt_setting_set_size(mt_setting setting, int64_t size, struct mt_run_plan *plan)
{
    assert(entry_of(setting)->change.is_cut && size > 0);
    set(entry_of(setting), size, plan);
}

/* Returns the value that a change without an `apply` function sets. */
static int64_t changed_value(const struct mt_setting_entry *entry, const struct mt_run_plan *plan)
{
    int64_t parts = entry->change.most_parts;
    assert(parts == 0 || entry->change.is_cut);
    return parts > 0 ? (get(entry, plan) + parts - 1) / parts : entry->change.value;
}

bool mt_setting_can_change(mt_setting setting, const struct mt_run_plan *plan)
{
    const struct mt_setting_entry *entry = entry_of(setting);
    assert(entry->rank[MT_ORDER_OF_CHANGES] != 0);
    return entry->change.is_one != NULL ? entry->change.is_one(plan) : get(entry, plan) != changed_value(entry, plan);
}

void mt_setting_change(mt_setting setting, struct mt_run_plan *plan)
{
    const struct mt_setting_entry *entry = entry_of(setting);
    assert(entry->rank[MT_ORDER_OF_CHANGES] != 0);
    if (entry->change.apply != NULL)
        entry->change.apply(plan);
    else
        set(entry, changed_value(entry, plan), plan);
}

struct mt_run_plan mt_run_plan_usual(void)
{
    return (struct mt_run_plan){.config = mt_training_config_default(),
                                .alloc = mt_alloc_settings_of(MT_POLICY_TIGHT),
                                .device = MT_DEVICE_AUTO};
}

/* Fails with MT_USAGE if the requested graph could never be launched, or its kernels could not be distinguished. */
static mt_status check_graph(const struct mt_run_plan *plan)
{
    const struct mt_training_config *config = &plan->config;
    if (!config->cuda_graph)
        return MT_OK;
    if (plan->watches_kernels)
        return mt_fail(MT_USAGE, "kernels that a graph launches belong to no op: watch kernels with cuda-graph off");
    if (config->mode == MT_MODE_FWD_BWD && config->zero_grad != MT_ZERO_GRAD_BEFORE_FORWARD && !plan->follows_plan)
        return mt_fail(MT_USAGE, "gradients that live into the next step change their place, and a graph repeats "
                                 "addresses: cuda-graph on needs zero-grad before-forward or plan on");
    if (config->keep_output)
        return mt_fail(MT_USAGE, "an output that lives into the next step changes its place, and a graph repeats "
                                 "addresses: cuda-graph on needs keep-output off");
    return MT_OK;
}

/* Sets the given values, in the order of the table: a model before sizes that replace its own. */
static mt_status set_given(struct mt_run_plan *plan, const char *const given[])
{
    mt_status status = MT_OK;
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT && status == MT_OK; setting++) {
        if (given[setting] == NULL)
            continue;
        status = mt_setting_parse(setting, given[setting], plan);
        if (mt_setting_table[setting].is_size)
            strcpy(plan->config.model.name, "custom");
    }
    return status;
}

mt_status mt_run_plan_set(struct mt_run_plan *plan, const char *const given[MT_SETTING_COUNT])
{
    MT_TRY(set_given(plan, given));
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++)
        if (given[setting] == NULL && mt_setting_table[setting].settle != NULL)
            mt_setting_table[setting].settle(plan);
    MT_TRY(check_graph(plan));
    return mt_training_config_check(&plan->config);
}
