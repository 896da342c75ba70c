#include "cli/record/record_report.h"

#include "base/memory.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "record/handover.h"
#include "trace/query/trace.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    const char *trace, *path; /* as the user wrote it, and where it is */
    int runs, notes;
};

/* "memtrace peak --run 3 --trace a.db", without what is so anyway. */
static void add_question(struct mt_text *out, const char *trace, int64_t run)
{
    mt_text_add(out, "memtrace peak --run %" PRId64, run);
    if (strcmp(trace, MT_DEFAULT_TRACE) == 0)
        return;
    mt_text_add(out, " --trace ");
    mt_text_add_shell_word(out, trace);
}

/* The trace as the user would write it. The caller's. */
static char *shorten(const struct report *report, const char *path)
{
    struct mt_text text = {0};
    size_t length = strlen(report->path);
    if (strncmp(path, report->path, length) == 0)
        mt_text_add(&text, "%s%s", report->trace, path + length);
    else
        mt_text_add(&text, "%s", path);
    return text.data;
}

static mt_status describe_peak(struct mt_trace *trace, int64_t number, struct mt_text *out)
{
    const struct mt_run *run;
    struct mt_peak_row peak = {0};
    char which[24], bytes[MT_BYTES_TEXT];
    snprintf(which, sizeof which, "%" PRId64, number);
    mt_status status = mt_trace_find_run(trace, which, &run);
    if (status == MT_OK)
        status = mt_trace_peak(trace, run, MT_MEASURE_ALLOCATED, &peak);
    if (status == MT_OK) {
        mt_text_add(out, "peak %s", mt_format_bytes(peak.bytes, bytes));
        if (!mt_run_is(run, MT_RUN_DONE))
            mt_text_add(out, " (%s)", run->state);
    }
    mt_peak_row_release(&peak);
    return status;
}

/* Opening the trace stores what a process that was killed has left in the ring. */
static void tell_run(const struct report *report, const struct mt_record_answer *answer)
{
    struct mt_text peak = {0}, question = {0};
    struct mt_trace *trace = NULL;
    char *name = shorten(report, answer->text);
    mt_status status = mt_trace_open(answer->text, &trace);
    if (status == MT_OK)
        status = describe_peak(trace, answer->number, &peak);
    mt_trace_close(trace);
    add_question(&question, name, answer->number);
    if (status == MT_OK)
        mt_note("run %" PRId64 " of %s: %s; see %s", answer->number, name, peak.data, question.data);
    else
        mt_note("run %" PRId64 " of %s: %s", answer->number, name, mt_last_error());
    mt_text_release(&peak);
    mt_text_release(&question);
    free(name);
}

static void tell_answer(void *context, const struct mt_record_answer *answer)
{
    struct report *report = context;
    if (answer->kind == MT_RECORD_RUN) {
        report->runs++;
        tell_run(report, answer);
        return;
    }
    report->notes++;
    if (answer->kind == MT_RECORD_LOST)
        mt_note("process %" PRId64 ": %" PRId64 " %s are missing", answer->pid, answer->number, answer->text);
    else
        mt_note("process %" PRId64 ": %s", answer->pid, answer->text);
}

static void tell_nothing(void)
{
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == NULL)
        mt_note("there is no CUDA driver here, so there was nothing to record");
    else
        mt_note("the program did not use CUDA, so there was nothing to record");
}

void mt_record_report(const char *answers, const char *trace, const char *path)
{
    struct report report = {.trace = trace, .path = path};
    if (mt_record_answers_read(answers, tell_answer, &report) != MT_OK)
        mt_note("%s", mt_last_error());
    else if (report.runs == 0 && report.notes == 0)
        tell_nothing();
}
