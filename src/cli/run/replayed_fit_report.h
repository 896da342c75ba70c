/* The answer of `fit` about a run that can't be made again, for people and as JSON. */
#ifndef MT_CLI_REPLAYED_FIT_REPORT_H
#define MT_CLI_REPLAYED_FIT_REPORT_H

#include "analysis/fit/replayed_fit.h"
#include "answer/row.h"

/* Prints the answer, or prints it as memtrace.fit_replay/1. */
void mt_replayed_fit_print(const struct mt_replayed_question *question, const struct mt_fit_device *device,
                           const struct mt_replayed_fit *fit);
void mt_replayed_fit_print_json(const struct mt_replayed_question *question, const struct mt_fit_device *device,
                                const struct mt_replayed_fit *fit);

#endif
