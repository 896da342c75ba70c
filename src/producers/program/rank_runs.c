#include "producers/program/rank_runs.h"

#include "base/job_folder.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/handover.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 5, STUCK_TICKS = 400, ENDED_BY_SIGNAL = 128 };

/* ---- the folder ---- */

/* Makes an empty file, "rank.3"; number < 0: "stuck". */
static mt_status leave_word(const struct mt_rank_runs *runs, const char *word, int64_t number)
{
    struct mt_text path = {0};
    mt_text_add(&path, "%s/%s", runs->mail, word);
    if (number >= 0)
        mt_text_add(&path, ".%" PRId64, number);
    const int file = open(path.data, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    mt_status status = file >= 0 ? MT_OK : mt_fail(MT_FAILED, "can't write %s: %s", path.data, strerror(errno));
    if (file >= 0)
        close(file);
    mt_text_release(&path);
    return status;
}

mt_status mt_rank_runs_begin(struct mt_rank_runs *runs, const char *folder)
{
    assert(runs->limit > 0 && runs->count == 0);
    mt_status status = mt_job_folder_make_inner(folder, "mail", &runs->mail);
    if (status == MT_OK)
        mt_mail_folder_give(runs->mail, runs->environment);
    return status;
}

void mt_rank_runs_end(struct mt_rank_runs *runs)
{
    free(runs->mail);
    free(runs->runs);
    *runs = (struct mt_rank_runs){0};
}

int64_t mt_rank_runs_add(struct mt_rank_runs *runs, int64_t rank)
{
    assert(rank >= 0 && rank < runs->program->ranks);
    for (int64_t i = 0; i < runs->count; i++)
        if (runs->runs[i].rank == rank)
            return i;
    *MT_HOST_ADD(runs->runs, runs->count) = (struct mt_rank_run){.rank = rank};
    return runs->count - 1;
}

/* Returns the number in a file's name, "waits.3" for "waits"; -1 for another file. */
static int64_t number_of(const char *name, const char *word)
{
    const size_t length = strlen(word);
    return strncmp(name, word, length) == 0 && name[length] == '.' ? strtoll(name + length + 1, NULL, 10) : -1;
}

/* Adds the ranks that are wanted, and counts the waiting ranks. */
static mt_status read_folder(struct mt_rank_runs *runs, int64_t *out_waiting)
{
    DIR *folder = opendir(runs->mail);
    const struct dirent *file;
    *out_waiting = 0;
    if (folder == NULL)
        return mt_fail(MT_FAILED, "can't read %s: %s", runs->mail, strerror(errno));
    while ((file = readdir(folder)) != NULL) {
        const int64_t wanted = number_of(file->d_name, "wanted");
        *out_waiting += number_of(file->d_name, "waits") >= 0;
        if (wanted >= 0 && wanted < runs->program->ranks)
            mt_rank_runs_add(runs, wanted);
    }
    closedir(folder);
    return MT_OK;
}

/* ---- running ---- */

struct mt_rank_run *mt_rank_runs_find(const struct mt_rank_runs *runs, pid_t pid)
{
    for (int64_t i = 0; i < runs->started; i++)
        if (runs->runs[i].pid == pid)
            return &runs->runs[i];
    return NULL;
}

static mt_status start_next(struct mt_rank_runs *runs, struct mt_children *children)
{
    struct mt_rank_run *next = &runs->runs[runs->started++];
    mt_rank_program_enter(runs->program, next->rank, runs->environment);
    MT_TRY(leave_word(runs, "rank", next->rank));
    struct mt_python_server *server = runs->count > 1 ? runs->server : NULL; /* it is slower for a single rank */
    return mt_python_server_start(server, children, runs->program->words, runs->environment, runs->output, &next->pid,
                                  &next->code);
}

/* The state of running: the number of waiting ranks, for how many ticks all have been waiting, and whether others
 * begin. */
struct course {
    int64_t waiting, idle;
    bool is_on;
};

static bool can_start(const struct mt_rank_runs *runs, const struct mt_children *children, const struct course *course)
{
    const int64_t limit = runs->first_has_ended ? runs->limit : 1;
    return course->is_on && runs->started < runs->count && children->count - course->waiting < limit;
}

/* Waits a tick. If a rank has ended, stores its code and decides whether further ranks begin. */
static void wait_for_rank(struct mt_rank_runs *runs, struct mt_children *children, struct course *course,
                          bool (*goes_on)(void *context, const struct mt_rank_run *run), void *context)
{
    int code;
    const pid_t ended = mt_child_wait(children, TICK_MS, &code);
    course->is_on = course->is_on && children->ending == 0;
    if (ended == 0)
        return;
    struct mt_rank_run *run = mt_rank_runs_find(runs, ended);
    assert(run != NULL);
    run->code = code;
    runs->first_has_ended = runs->first_has_ended || run == &runs->runs[0];
    (void)leave_word(runs, "gone", run->rank);
    course->is_on = course->is_on && code < ENDED_BY_SIGNAL && goes_on(context, run);
}

/* Counts waiting ranks. If all have been waiting for long, releases them. */
static void look_for_waiting(struct mt_rank_runs *runs, const struct mt_children *children, struct course *course)
{
    if (read_folder(runs, &course->waiting) != MT_OK)
        course->waiting = 0;
    course->idle = course->waiting > 0 && course->waiting == children->count ? course->idle + 1 : 0;
    if (course->idle == STUCK_TICKS)
        (void)leave_word(runs, "stuck", -1);
}

mt_status mt_rank_runs_run(struct mt_rank_runs *runs, struct mt_children *children,
                           bool (*goes_on)(void *context, const struct mt_rank_run *run), void *context)
{
    struct course course = {.is_on = true};
    mt_status status = MT_OK;
    for (int64_t i = runs->started; status == MT_OK && i < runs->count; i++)
        status = leave_word(runs, "rank", runs->runs[i].rank);
    course.is_on = status == MT_OK;
    while (children->count > 0 || can_start(runs, children, &course)) {
        if (can_start(runs, children, &course)) {
            status = start_next(runs, children);
            course.is_on = status == MT_OK;
            continue;
        }
        wait_for_rank(runs, children, &course, goes_on, context);
        look_for_waiting(runs, children, &course);
    }
    return status;
}
