/* The metrics of runs that are being written: in a file, over HTTP, or both.
 *
 *   traces ──a look a second──▶ struct mt_watched ──▶ text ──▶ FILE, by rename
 *                                                         └──▶ GET /metrics on 127.0.0.1:PORT, looked up anew
 *
 * A separate thread does all this and reads the traces like any reader, so the runs are not involved. It has all
 * signals blocked. Only runs that began after mt_metrics_start are included.
 *
 * Threads: one at a time for an object. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* The places for metrics. */
struct mt_metrics_options {
    const char *file; /* NULL: to no file */
    int64_t port;     /* 0: to no port */
};

enum { MT_MOST_PORT = 65535 };

struct mt_metrics;

/* The watched traces: the given one, and optionally other ranks' traces in its folder ("train-rank1.db"). */
typedef enum mt_metrics_traces { MT_METRICS_ONE, MT_METRICS_RANKS } mt_metrics_traces;

/* Starts. The caller has checked the file (mt_output_file_check). *out is NULL if neither a file nor a port is set.
 * Fails if the file can't be written or the port is not available. */
mt_status mt_metrics_start(const struct mt_metrics_options *options, const char *trace, mt_metrics_traces traces,
                           struct mt_metrics **out);

/* Looks once more, writes the file and ends the thread. Returns the first failure since the start. NULL is allowed. */
mt_status mt_metrics_stop(struct mt_metrics *metrics);
