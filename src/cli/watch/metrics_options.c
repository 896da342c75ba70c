#include "cli/watch/metrics_options.h"

#include "answer/output_file.h"
#include "cli/output/output.h"

mt_status mt_metrics_begin(const struct mt_metrics_options *options, const char *trace, mt_metrics_traces traces,
                           struct mt_metrics **out)
{
    *out = NULL;
    if (options->file != NULL)
        MT_TRY(mt_output_file_check("--metrics", options->file, trace));
    return mt_metrics_start(options, trace, traces, out);
}

void mt_metrics_end(struct mt_metrics *metrics)
{
    if (mt_metrics_stop(metrics) != MT_OK)
        mt_note("%s", mt_last_error());
}
