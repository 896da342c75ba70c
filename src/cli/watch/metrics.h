/* The metrics of runs that are being written: in a file, over HTTP, or both.
 *
 *   traces ──a look a second──▶ struct mt_watched ──▶ text ──▶ FILE, by rename
 *                                                         └──▶ GET /metrics on 127.0.0.1:PORT, looked up anew
 *
 * A thread of its own does it all, which reads the traces as any reader does: the runs do nothing for it. It has all signals
 * blocked. Runs are those that began after mt_metrics_start.
 *
 * Threads: the main one. */
#ifndef MT_CLI_METRICS_H
#define MT_CLI_METRICS_H

#include "base/status.h"

#include <stdint.h>

/* Where metrics go, as options of a command. */
struct mt_metrics_options {
    const char *file; /* NULL: to no file */
    int64_t port;     /* 0: to no port */
};

enum { MT_MOST_PORT = 65535 };

/* The two options of a command whose struct has `metrics`. */
#define MT_METRICS_OPTIONS(type)                                                                                       \
    MT_OPTION(TEXT, type, metrics.file, "--metrics", .value = "FILE", .takes = MT_TAKES_FILE,                          \
              .help = "write metrics for Prometheus's textfile collector there, each second (docs/metrics.md)"),       \
        MT_OPTION(INTEGER, type, metrics.port, "--metrics-port", .value = "PORT", .low = 1, .high = MT_MOST_PORT,      \
                  .help = "serve metrics at http://127.0.0.1:PORT/metrics while the run goes on")

struct mt_metrics;

/* The traces that are watched: the given one, or those of other ranks beside it, too ("train.db", "train-rank1.db"). */
typedef enum mt_metrics_traces { MT_METRICS_ONE, MT_METRICS_RANKS } mt_metrics_traces;

/* Begins. *out is NULL if neither place is asked for. Fails if the file can't be written or the port can't be had. */
mt_status mt_metrics_start(const struct mt_metrics_options *options, const char *trace, mt_metrics_traces traces,
                           struct mt_metrics **out);

/* Looks once more, writes the file and ends the thread. Notes the first failure since the start. May be NULL. */
void mt_metrics_stop(struct mt_metrics *metrics);

#endif
