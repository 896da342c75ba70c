/* The metrics of runs that are being written: in a file, over HTTP, or both.
 *
 *   traces ──a look a second──▶ struct mt_watched ──▶ text ──▶ FILE, by rename
 *                                                         └──▶ GET /metrics on 127.0.0.1:PORT, looked up anew
 *
 * A thread of its own does it all, which reads the traces as any reader does: the runs do nothing for it. It has all signals
 * blocked. Runs are those that began after mt_metrics_start.
 *
 * Threads: one at a time for an object. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* Where metrics go. */
struct mt_metrics_options {
    const char *file; /* NULL: to no file */
    int64_t port;     /* 0: to no port */
};

enum { MT_MOST_PORT = 65535 };

struct mt_metrics;

/* The traces that are watched: the given one, or those of other ranks beside it, too ("train.db", "train-rank1.db"). */
typedef enum mt_metrics_traces { MT_METRICS_ONE, MT_METRICS_RANKS } mt_metrics_traces;

/* Begins. The caller has checked the file (mt_output_file_check). *out is NULL if neither place is asked for. Fails if the file can't be written or the port can't be had. */
mt_status mt_metrics_start(const struct mt_metrics_options *options, const char *trace, mt_metrics_traces traces,
                           struct mt_metrics **out);

/* Looks once more, writes the file and ends the thread. Returns the first failure since the start. NULL is allowed. */
mt_status mt_metrics_stop(struct mt_metrics *metrics);
