/* Runs as metrics, in the text format of Prometheus (version 0.0.4): docs/metrics.md lists them.
 *
 * Threads: any. */
#pragma once

#include "base/text.h"
#include "trace/store/watch.h"

/* Appends the metrics of the runs, grouped by metric. Ignores NULL among the runs. */
void mt_prometheus_add(struct mt_text *out, const struct mt_watched *const *runs, size_t count);
