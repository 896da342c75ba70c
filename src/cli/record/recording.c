#include "cli/record/recording.h"

#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "run/handover.h"
#include "trace/store/trace_file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fails unless the path is that of a trace, an empty file or a new file, and can be written. */
static mt_status check_file(const char *path)
{
    struct stat file;
    bool can;
    if (stat(path, &file) == 0) {
        if (file.st_size > 0 && !mt_trace_file_is_database(path))
            return mt_fail(MT_BAD_TRACE, "%s is not a trace", path);
        can = mt_trace_file_is_writable(path);
    } else {
        char *folder = mt_host_strdup(path);
        *strrchr(folder, '/') = '\0';
        can = access(folder[0] != '\0' ? folder : "/", W_OK | X_OK) == 0;
        free(folder);
    }
    return can ? MT_OK : mt_fail(MT_FAILED, "%s can't be written", path);
}

/* Finds the absolute path of the trace. Fails if it can't be written, before the program runs for hours. */
static mt_status find_trace(const char *trace, struct mt_recording *recording)
{
    char folder[PATH_MAX];
    struct mt_text path = {0};
    MT_TRY(mt_trace_file_check_writing(trace));
    if (trace[0] != '/' && getcwd(folder, sizeof folder) == NULL)
        return mt_fail(MT_FAILED, "can't find out the current folder: %s", strerror(errno));
    if (trace[0] != '/')
        mt_text_add(&path, "%s/", folder);
    mt_text_add(&path, "%s", trace);
    recording->path = path.data;
    assert(path.data[0] == '/');
    return check_file(path.data);
}

static mt_status make_answers(struct mt_recording *recording)
{
    const char *folder = secure_getenv("TMPDIR");
    snprintf(recording->answers, sizeof recording->answers, "%s/memtrace-record.XXXXXX",
             folder != NULL && folder[0] == '/' ? folder : "/tmp");
    int file = mkstemp(recording->answers);
    if (file < 0) {
        mt_status status = mt_fail(MT_FAILED, "can't make %s: %s", recording->answers, strerror(errno));
        recording->answers[0] = '\0';
        return status;
    }
    mt_status status = mt_record_answers_reserve(file, recording->answers);
    close(file);
    return status;
}

mt_status mt_recording_begin(const char *trace, struct mt_recording *out)
{
    *out = (struct mt_recording){.trace = trace};
    mt_status status = find_trace(trace, out);
    if (status == MT_OK)
        status = make_answers(out);
    if (status != MT_OK)
        mt_recording_end(out);
    return status;
}

void mt_recording_end(struct mt_recording *recording)
{
    if (recording->answers[0] != '\0')
        unlink(recording->answers);
    free(recording->path);
    *recording = (struct mt_recording){0};
}

char *mt_recording_shorten(const struct mt_recording *recording, const char *path)
{
    struct mt_text text = {0};
    const char *file = strrchr(recording->trace, '/');
    const size_t folder = file != NULL ? (size_t)(file + 1 - recording->trace) : 0;
    const size_t before = (size_t)(strrchr(recording->path, '/') + 1 - recording->path);
    if (strncmp(path, recording->path, before) == 0)
        mt_text_add(&text, "%.*s%s", (int)folder, recording->trace, path + before);
    else
        mt_text_add(&text, "%s", path);
    return text.data;
}

static mt_status describe_peak(struct mt_trace *trace, int64_t number, struct mt_text *out)
{
    const struct mt_run *run;
    uint64_t peak_bytes;
    char bytes[MT_BYTES_TEXT];
    MT_TRY(mt_trace_find_numbered(trace, number, &run));
    MT_TRY(mt_trace_peak_bytes(trace, run, MT_MEASURE_ALLOCATED, &peak_bytes));
    mt_text_add(out, "peak %s", mt_format_bytes(peak_bytes, bytes));
    if (!mt_run_is(run, MT_RUN_DONE))
        mt_text_add(out, " (%s)", run->state);
    return MT_OK;
}

void mt_recording_tell_run(const struct mt_recording *recording, const struct mt_record_answer *answer)
{
    struct mt_text peak = {0}, option = {0};
    struct mt_trace *trace = NULL;
    char *name = mt_recording_shorten(recording, answer->text);
    mt_status status = mt_trace_open(answer->text, &trace);
    if (status == MT_OK)
        status = describe_peak(trace, answer->number, &peak);
    mt_trace_close(trace);
    mt_text_add_trace_option(&option, name);
    if (status == MT_OK)
        mt_note("run %" PRId64 " of %s: %s; see memtrace peak --run %" PRId64 "%s", answer->number, name, peak.data,
                answer->number, mt_text_get(&option));
    else
        mt_note("run %" PRId64 " of %s: %s", answer->number, name, mt_last_error());
    mt_text_release(&peak);
    mt_text_release(&option);
    free(name);
}

void mt_recording_add_note(const struct mt_record_answer *answer, struct mt_text *out)
{
    if (answer->kind == MT_RECORD_LOST)
        mt_text_add(out, "%" PRId64 " %s are missing", answer->number, answer->text);
    else
        mt_text_add(out, "%s", answer->text);
}

void mt_recording_tell_note(const struct mt_record_answer *answer)
{
    struct mt_text words = {0};
    mt_recording_add_note(answer, &words);
    mt_note("process %" PRId64 ": %s", answer->pid, mt_text_get(&words));
    mt_text_release(&words);
}
