/* The settings that a run of a plan stores in its trace. */
#pragma once

#include "producers/model/settings.h"
#include "trace/store/recorder.h"

/* The setting with the version of memtrace. Every run of `memtrace run` has it, and no other run. */
#define MT_SETTING_OF_VERSION "memtrace"

/* The setting with the figures of a card from a file, since the file may later be gone or on another computer. */
#define MT_SETTING_OF_CARD "card"

/* Every setting of the table, then the version and, for a card from a file, the card. The values are owned. */
struct mt_plan_settings {
    struct mt_run_setting *rows;
    size_t count;
};

/* Makes the settings that a run of this plan on this device stores. The caller releases them. */
struct mt_plan_settings mt_plan_settings_make(const struct mt_run_plan *plan, const struct mt_device *device);
void mt_plan_settings_release(struct mt_plan_settings *settings);
