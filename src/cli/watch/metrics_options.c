#include "cli/watch/metrics_options.h"

#include "answer/output_file.h"
#include "cli/output/output.h"

#include <sys/stat.h>

/* Fails if the file is a pipe: it is replaced every second, and opening a pipe without a reader would block. */
static mt_status check_is_no_pipe(const char *file)
{
    struct stat about;
    if (stat(file, &about) == 0 && S_ISFIFO(about.st_mode))
        return mt_fail(MT_USAGE, "--metrics %s: this is a pipe; name a file, or use --metrics-port", file);
    return MT_OK;
}

mt_status mt_metrics_begin(const struct mt_metrics_options *options, const char *trace, mt_metrics_traces traces,
                           struct mt_metrics **out)
{
    *out = NULL;
    if (options->file != NULL) {
        MT_TRY(mt_output_file_check("--metrics", options->file, trace));
        MT_TRY(check_is_no_pipe(options->file));
    }
    return mt_metrics_start(options, trace, traces, out);
}

void mt_metrics_end(struct mt_metrics *metrics)
{
    if (mt_metrics_stop(metrics) != MT_OK)
        mt_note("%s", mt_last_error());
}
