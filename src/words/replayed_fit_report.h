/* The answer of `fit` about a run that can't be made again, for people and as JSON. */
#pragma once

#include "analysis/fit/replayed_fit.h"
#include "answer/table.h"

/* Prints the answer. */
void mt_replayed_fit_print(const struct mt_replayed_question *question, const struct mt_fit_device *device,
                           const struct mt_replayed_fit *fit, const struct mt_screen *screen);

/* Returns the answer as memtrace.fit_replay/1; the caller releases it. */
json_t *mt_replayed_fit_json(const struct mt_replayed_question *question, const struct mt_fit_device *device,
                             const struct mt_replayed_fit *fit);
