/* The run that an import adds to a trace, and what all imports tell of it alike. */
#ifndef MT_TRACE_IMPORT_IMPORT_RUN_H
#define MT_TRACE_IMPORT_IMPORT_RUN_H

#include "trace/import/import.h"
#include "trace/store/recorder.h"

/* What is known of the run beside the plan. All borrowed. */
struct mt_import_source {
    const char *device; /* "PyTorch snapshot" */
    const char *name;   /* of the run, where the plan has none; NULL or "": none */
    const char *format; /* "pickle" */
    uint64_t capacity_bytes;
    const struct mt_run_setting *settings; /* that the file tells; "file" and "format" are not its to say */
    size_t setting_count;
};

/* Opens the trace and adds the run. As mt_recorder_open. */
mt_status mt_import_run_open(const struct mt_import_plan *plan, const struct mt_import_source *source,
                             struct mt_recorder **out);

/* Counts entries of one kind in the report. `what` is static. */
void mt_import_count(struct mt_import_report *report, const char *what, uint64_t count);

#endif
