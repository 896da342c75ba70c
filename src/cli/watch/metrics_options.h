/* The options for metrics of runs in progress, shared by the commands that make runs. */
#pragma once

#include "trace/export/metrics.h"

/* The two options for a command whose struct has `metrics`. */
#define MT_METRICS_OPTIONS(type)                                                                                       \
    MT_OPTION(TEXT, type, metrics.file, "--metrics", .value = "FILE", .takes = MT_TAKES_FILE,                          \
              .help = "write metrics for Prometheus's textfile collector there, each second (docs/metrics.md)"),       \
        MT_OPTION(INTEGER, type, metrics.port, "--metrics-port", .value = "PORT", .low = 1, .high = MT_MOST_PORT,      \
                  .help = "serve metrics at http://127.0.0.1:PORT/metrics while the run goes on")

/* Start and stop metrics, like mt_metrics_start and mt_metrics_stop. The first also checks the file, and the second
 * notes a failure. */
mt_status mt_metrics_begin(const struct mt_metrics_options *options, const char *trace, mt_metrics_traces traces,
                           struct mt_metrics **out);
void mt_metrics_end(struct mt_metrics *metrics);
