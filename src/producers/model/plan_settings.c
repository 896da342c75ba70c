#include "producers/model/plan_settings.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

static void add_setting(struct mt_plan_settings *settings, const char *name, const char *value)
{
    settings->rows[settings->count++] = (struct mt_run_setting){name, mt_host_strdup(value)};
}

struct mt_plan_settings mt_plan_settings_make(const struct mt_run_plan *plan, const struct mt_device *device)
{
    struct mt_run_plan run = *plan;
    run.device = device->name;
    run.watches_kernels = mt_device_watches_kernels(device);
    struct mt_plan_settings settings = {.rows = mt_host_alloc((MT_SETTING_COUNT + 2) * sizeof *settings.rows)};
    struct mt_text value = {0};
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        value.length = 0;
        mt_setting_format(setting, &run, &value);
        assert(value.length > 0);
        add_setting(&settings, mt_setting_table[setting].name, mt_text_get(&value));
    }
    add_setting(&settings, MT_SETTING_OF_VERSION, MT_VERSION);
    value.length = 0;
    if (mt_card_is_of_file(&device->card)) {
        mt_card_add_text(&device->card, &value);
        add_setting(&settings, MT_SETTING_OF_CARD, mt_text_get(&value));
    }
    mt_text_release(&value);
    return settings;
}

void mt_plan_settings_release(struct mt_plan_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++)
        free((char *)settings->rows[i].value);
    free(settings->rows);
    *settings = (struct mt_plan_settings){0};
}
