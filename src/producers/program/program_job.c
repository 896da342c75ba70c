#include "producers/program/program_job.h"

#include "base/memory.h"
#include "base/text.h"
#include "run/handover.h"
#include "trace/store/trace_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fails unless the path leads to a trace, an empty file or a new file, and can be written. */
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
static mt_status find_trace(const char *trace, struct mt_program_job *job)
{
    char folder[PATH_MAX];
    struct mt_text path = {0};
    MT_TRY(mt_trace_file_check_writing(trace));
    if (trace[0] != '/' && getcwd(folder, sizeof folder) == NULL)
        return mt_fail(MT_FAILED, "can't find out the current folder: %s", strerror(errno));
    if (trace[0] != '/')
        mt_text_add(&path, "%s/", folder);
    mt_text_add(&path, "%s", trace);
    job->path = path.data;
    assert(path.data[0] == '/');
    return check_file(path.data);
}

static mt_status make_answers(struct mt_program_job *job)
{
    MT_TRY(mt_job_folder_make(&job->folder));
    snprintf(job->answers, sizeof job->answers, "%s/answers", job->folder.path);
    const int file = open(job->answers, O_CREAT | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0)
        return mt_fail(MT_FAILED, "can't make %s: %s", job->answers, strerror(errno));
    mt_status status = mt_record_answers_reserve(file, job->answers);
    close(file);
    return status;
}

mt_status mt_program_job_begin(const char *trace, struct mt_program_job *out)
{
    *out = (struct mt_program_job){0};
    mt_status status = find_trace(trace, out);
    MT_THEN(status, make_answers(out));
    if (status != MT_OK)
        mt_program_job_end(out);
    return status;
}

void mt_program_job_end(struct mt_program_job *job)
{
    mt_job_folder_remove(&job->folder);
    free(job->path);
    *job = (struct mt_program_job){0};
}
