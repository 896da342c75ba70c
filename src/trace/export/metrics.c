#include "trace/export/metrics.h"

#include "answer/output_file.h"
#include "base/clock.h"
#include "base/memory.h"
#include "trace/export/metrics_port.h"
#include "trace/export/prometheus.h"
#include "trace/store/watch.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LOOK_MS = 1000, NS_PER_MS = 1000000, RECENT_LOOKS = 60 };

/* A watched trace. Any program may read the file at any time, so its recent peaks are the peaks of this minute and
 * the last. */
struct watched_trace {
    char *path;
    struct mt_watch *watch;
    const struct mt_watched *run;                /* as of the last look; NULL: none yet */
    uint64_t minute_peak[MT_MEASURE_COUNT];      /* recent peak, for the file */
    uint64_t last_minute_peak[MT_MEASURE_COUNT]; /* the same for the minute before */
};

/* Invariant: while the thread runs, only it uses the members, except `stop`. */
struct mt_metrics {
    struct mt_metrics_options options; /* the file's name is owned */
    char *folder, *stem, *ending;      /* of the given trace: "runs", "train", ".db" */
    mt_metrics_traces kind;
    struct watched_trace *traces; /* an array for MT_HOST_ADD */
    size_t trace_count;
    int64_t looks;
    struct mt_metrics_port *port;
    int stop; /* an eventfd */
    pthread_t thread;
    struct mt_error failure; /* the first */
};

/* ---- the traces ---- */

static void watch_trace(struct mt_metrics *metrics, const char *file)
{
    struct mt_text path = {0};
    mt_text_add(&path, "%s/%s", metrics->folder, file);
    for (size_t i = 0; i < metrics->trace_count; i++)
        if (strcmp(metrics->traces[i].path, path.data) == 0) {
            mt_text_release(&path);
            return;
        }
    const int64_t after = metrics->looks == 0 ? mt_watch_newest_run(path.data) : 0;
    *MT_HOST_ADD(metrics->traces, metrics->trace_count) =
        (struct watched_trace){.path = path.data, .watch = mt_watch_create(path.data, after)};
}

/* True if the file is to be watched. */
static bool is_of_job(const struct mt_metrics *metrics, const char *file)
{
    static const char rank[] = "-rank";
    const size_t stem = strlen(metrics->stem);
    if (strncmp(file, metrics->stem, stem) != 0)
        return false;
    const char *rest = file + stem;
    if (metrics->kind == MT_METRICS_RANKS && strncmp(rest, rank, strlen(rank)) == 0)
        rest += strlen(rank) + strspn(rest + strlen(rank), "0123456789");
    return strcmp(rest, metrics->ending) == 0;
}

static void find_traces(struct mt_metrics *metrics)
{
    DIR *folder = opendir(metrics->folder);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (is_of_job(metrics, entry->d_name))
            watch_trace(metrics, entry->d_name);
    if (folder != NULL)
        closedir(folder);
}

static void keep_failure(struct mt_metrics *metrics, mt_status status)
{
    if (status != MT_OK && metrics->failure.status == MT_OK)
        metrics->failure = mt_error_save(status);
}

/* Looks at all traces. A trace that can't be read now, since it is being created, may be readable a second later. */
static void look(struct mt_metrics *metrics)
{
    find_traces(metrics);
    metrics->looks++;
    for (size_t i = 0; i < metrics->trace_count; i++) {
        struct watched_trace *trace = &metrics->traces[i];
        const struct mt_watched *run;
        if (mt_watch_look(trace->watch, &run) != MT_OK || run == NULL)
            continue;
        trace->run = run;
        for (int j = 0; j < MT_MEASURE_COUNT; j++)
            if (run->recent_peak[j] > trace->minute_peak[j])
                trace->minute_peak[j] = run->recent_peak[j];
    }
}

/* ---- the text ---- */

/* Adds the metrics of all runs. */
static void add_runs(struct mt_metrics *metrics, const struct mt_watched *copies, struct mt_text *out)
{
    const struct mt_watched **runs = mt_host_resize(NULL, metrics->trace_count + 1, sizeof *runs);
    for (size_t i = 0; i < metrics->trace_count; i++)
        runs[i] = metrics->traces[i].run == NULL ? NULL : copies != NULL ? &copies[i] : metrics->traces[i].run;
    mt_prometheus_add(out, runs, metrics->trace_count);
    free(runs);
}

/* Appends the page of the port, and restarts its recent peaks. */
static void add_page(void *context, struct mt_text *out)
{
    struct mt_metrics *metrics = context;
    look(metrics);
    add_runs(metrics, NULL, out);
    for (size_t i = 0; i < metrics->trace_count; i++)
        if (metrics->traces[i].run != NULL)
            mt_watch_begin_recent(metrics->traces[i].watch);
}

/* Begins a new minute of the file's recent peaks. */
static void begin_minute(struct mt_metrics *metrics)
{
    for (size_t i = 0; i < metrics->trace_count; i++) {
        struct watched_trace *trace = &metrics->traces[i];
        memcpy(trace->last_minute_peak, trace->minute_peak, sizeof trace->last_minute_peak);
        memset(trace->minute_peak, 0, sizeof trace->minute_peak);
        if (metrics->options.port == 0)
            mt_watch_begin_recent(trace->watch);
    }
}

static mt_status write_file(struct mt_metrics *metrics)
{
    struct mt_text text = {0};
    struct mt_watched *copies = mt_host_resize(NULL, metrics->trace_count + 1, sizeof *copies);
    for (size_t i = 0; i < metrics->trace_count; i++) {
        const struct watched_trace *trace = &metrics->traces[i];
        if (trace->run == NULL)
            continue;
        copies[i] = *trace->run;
        for (int j = 0; j < MT_MEASURE_COUNT; j++)
            copies[i].recent_peak[j] =
                trace->minute_peak[j] > trace->last_minute_peak[j] ? trace->minute_peak[j] : trace->last_minute_peak[j];
    }
    add_runs(metrics, copies, &text);
    mt_status status = mt_output_file_put(metrics->options.file, MT_OUTPUT_BY_NAME, text.data);
    mt_text_release(&text);
    free(copies);
    return status;
}

static void tick(struct mt_metrics *metrics)
{
    look(metrics);
    if (metrics->options.file == NULL)
        return;
    keep_failure(metrics, write_file(metrics));
    if (metrics->looks % RECENT_LOOKS == 0)
        begin_minute(metrics);
}

/* ---- the thread ---- */

/* Serves the port until the next look or the end. Returns false at the end. */
static bool serve(struct mt_metrics *metrics, uint64_t next_ns)
{
    const uint64_t now_ns = mt_clock_ns();
    const int wait_ms = next_ns > now_ns ? (int)((next_ns - now_ns) / NS_PER_MS) + 1 : 0;
    return mt_metrics_port_serve(metrics->port, metrics->stop, wait_ms, add_page, metrics);
}

static void *run_thread(void *argument)
{
    struct mt_metrics *metrics = argument;
    uint64_t next_ns = mt_clock_ns();
    bool goes_on = true;
    while (goes_on) {
        if (mt_clock_ns() >= next_ns) {
            tick(metrics);
            next_ns = mt_clock_ns() + (uint64_t)LOOK_MS * NS_PER_MS;
        }
        goes_on = serve(metrics, next_ns);
    }
    tick(metrics);
    return NULL;
}

/* Starts the thread with all signals blocked, so that other threads of the process handle them. */
static mt_status start_thread(struct mt_metrics *metrics)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&metrics->thread, NULL, run_thread, metrics);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? MT_OK : mt_fail(MT_FAILED, "can't start a thread: %s", strerror(error));
}

/* Splits the trace's path. */
static void name_traces(struct mt_metrics *metrics, const char *trace)
{
    const char *slash = strrchr(trace, '/'), *file = slash != NULL ? slash + 1 : trace;
    const char *ending = strrchr(file, '.');
    metrics->folder = slash == NULL ? mt_host_strdup(".") : strndup(trace, (size_t)(slash - trace) + (slash == trace));
    metrics->stem = ending != NULL ? strndup(file, (size_t)(ending - file)) : mt_host_strdup(file);
    metrics->ending = mt_host_strdup(ending != NULL ? ending : "");
}

static mt_status prepare(struct mt_metrics *metrics, const char *trace)
{
    const struct mt_metrics_options *options = &metrics->options;
    name_traces(metrics, trace);
    find_traces(metrics);
    if (options->file != NULL)
        MT_TRY(write_file(metrics));
    MT_TRY(mt_metrics_port_open(options->port, &metrics->port));
    metrics->stop = eventfd(0, EFD_CLOEXEC);
    return metrics->stop >= 0 ? MT_OK : mt_fail(MT_FAILED, "can't watch the run: %s", strerror(errno));
}

static void destroy(struct mt_metrics *metrics)
{
    for (size_t i = 0; i < metrics->trace_count; i++) {
        mt_watch_destroy(metrics->traces[i].watch);
        free(metrics->traces[i].path);
    }
    free(metrics->traces);
    free((char *)metrics->options.file);
    free(metrics->folder);
    free(metrics->stem);
    free(metrics->ending);
    mt_metrics_port_close(metrics->port);
    if (metrics->stop >= 0)
        close(metrics->stop);
    free(metrics);
}

mt_status mt_metrics_start(const struct mt_metrics_options *options, const char *trace, mt_metrics_traces traces,
                           struct mt_metrics **out)
{
    *out = NULL;
    if (options->file == NULL && options->port == 0)
        return MT_OK;
    struct mt_metrics *metrics = mt_host_alloc(sizeof *metrics);
    *metrics = (struct mt_metrics){.kind = traces, .stop = -1};
    metrics->options = (struct mt_metrics_options){.file = options->file != NULL ? mt_host_strdup(options->file) : NULL,
                                                   .port = options->port};
    mt_status status = prepare(metrics, trace);
    MT_THEN(status, start_thread(metrics));
    if (status == MT_OK)
        *out = metrics;
    else
        destroy(metrics);
    return status;
}

mt_status mt_metrics_stop(struct mt_metrics *metrics)
{
    if (metrics == NULL)
        return MT_OK;
    (void)eventfd_write(metrics->stop, 1);
    pthread_join(metrics->thread, NULL);
    mt_status status = mt_error_restore(&metrics->failure, MT_OK);
    destroy(metrics);
    return status;
}
