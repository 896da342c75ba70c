/* What if: the changes that answers about a run checked, each with its peaks and its course, in JSON for the page.
 *
 *   advise ─┐                          of a run that ended out of memory: that of oom
 *   oom  ───┴──▶ changes in words, peaks, curves ──▶ JSON ──▶ the page
 *
 * Of a program that can't be made again, changes are replayed; of a run of memtrace run, some are simulated, which has
 * no curve, since another program has other events. */
#pragma once

#include "analysis/run_question.h"
#include "base/status.h"

#include <jansson.h>

/* Makes the answer as docs/page.md has it; the caller releases it. Takes as long as memtrace oom or memtrace advise,
 * which it asks. *out is NULL if the run has no events. Fails as these do. */
mt_status mt_what_if_json(const struct mt_question *question, json_t **out);
