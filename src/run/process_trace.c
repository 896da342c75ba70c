#include "run/process_trace.h"

#include "base/memory.h"
#include "run/shown_words.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_COMMAND_BYTES = 4096, NUMBER_TEXT = 32, MOST_SETTINGS = 5 };

/* ---- answers ---- */

void mt_process_answer(const struct mt_record_request *request, mt_record_answer_kind kind, int64_t number,
                       const char *text)
{
    const struct mt_record_answer given = {.kind = kind, .pid = getpid(), .number = number, .text = text};
    if (request->answers != NULL)
        mt_record_answer_give(request->answers, &given);
}

void mt_process_note(const struct mt_record_request *request, const char *consequence)
{
    struct mt_text words = {0};
    mt_text_add(&words, "%s; %s", mt_last_error(), consequence);
    mt_process_answer(request, MT_RECORD_NOTE, 0, words.data);
    mt_text_release(&words);
}

/* ---- the process ---- */

/* Appends the command line of the process, its arguments separated by spaces, without secrets. */
static void read_command(const struct mt_record_request *request, struct mt_text *out)
{
    char command[MOST_COMMAND_BYTES];
    if (request->command != NULL) {
        mt_shown_words_add(request->command, strlen(request->command), '\n', out);
        return;
    }
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t length = file != NULL ? fread(command, 1, sizeof command - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    mt_shown_words_add(command, length, '\0', out);
}

/* Returns the number in an environment variable; -1 if there is none. */
static int64_t number_in(const char *variable)
{
    enum { MOST_PROCESSES = 1 << 24 };
    const char *text = secure_getenv(variable);
    char *end = NULL;
    int64_t number = text != NULL ? strtoll(text, &end, 10) : -1;
    return text != NULL && end != text && *end == '\0' && number >= 0 && number < MOST_PROCESSES ? number : -1;
}

/* The variables in which launchers pass a process its rank: torchrun, Slurm, Open MPI, and MPICH and its
 * derivatives. */
struct launcher {
    const char *rank, *local_rank, *world_size, *job;
};
static const struct launcher launchers[] = {
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_ess_base_jobid"},
    {"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "PMI_ID"},
};

bool mt_process_rank_read(struct mt_run_rank *out, const char **out_job)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        *out = (struct mt_run_rank){number_in(launchers[i].rank), number_in(launchers[i].local_rank),
                                    number_in(launchers[i].world_size)};
        if (out->local_rank >= out->world_size)
            out->local_rank = -1;
        *out_job = secure_getenv(launchers[i].job);
        if (out->rank >= 0 && out->rank < out->world_size)
            return true;
    }
    *out_job = NULL;
    return false;
}

/* Returns an item of a list of numbers, "2,3"; -1 if it does not exist or is not a number. */
static int64_t item_of(const char *list, int index)
{
    for (; index > 0 && list != NULL; index--)
        list = (list = strchr(list, ',')) != NULL ? list + 1 : NULL;
    char *end = NULL;
    const int64_t number = list != NULL ? strtoll(list, &end, 10) : -1;
    return list != NULL && end != list && (*end == ',' || *end == '\0') && number < INT_MAX ? number : -1;
}

int mt_process_card_number(int ordinal)
{
    const int64_t number = item_of(secure_getenv("CUDA_VISIBLE_DEVICES"), ordinal);
    return number >= 0 ? (int)number : ordinal;
}

/* ---- the trace ---- */

void mt_process_trace_name(struct mt_text *out, const char *path, const char *addition)
{
    const char *file = strrchr(path, '/');
    const char *ending = strrchr(file != NULL ? file : path, '.');
    size_t length = ending != NULL ? (size_t)(ending - path) : strlen(path);
    mt_text_add(out, "%.*s%s%s", (int)length, path, addition, path + length);
}

static void name_trace(struct mt_text *out, const struct mt_record_request *request, const struct mt_process_card *card)
{
    struct mt_text addition = {0};
    struct mt_run_rank rank;
    const char *job;
    if (mt_process_rank_read(&rank, &job) && rank.rank > 0)
        mt_text_add(&addition, "-rank%" PRId64, rank.rank);
    if (card->addition != NULL)
        mt_text_add(&addition, "%s", card->addition);
    mt_process_trace_name(out, request->trace, mt_text_get(&addition));
    mt_text_release(&addition);
}

static mt_status open_at(const struct mt_record_request *request, const char *path, const struct mt_process_card *card,
                         const char *recorded, mt_live_access access, struct mt_live_run **out)
{
    char pid[NUMBER_TEXT];
    struct mt_text command = {0};
    struct mt_run_rank rank;
    const char *job;
    const bool is_rank = mt_process_rank_read(&rank, &job);
    snprintf(pid, sizeof pid, "%" PRId64, (int64_t)getpid());
    read_command(request, &command);
    struct mt_run_setting settings[MOST_SETTINGS] = {
        {"command", mt_text_get(&command)}, {"pid", pid}, {"recorded", recorded}};
    size_t count = 3;
    if (card->number != NULL)
        settings[count++] = (struct mt_run_setting){MT_CARD_NUMBER_SETTING, card->number};
    if (card->alloc != NULL)
        settings[count++] = (struct mt_run_setting){"alloc", card->alloc};
    const struct mt_live_settings live = {.trace = path,
                                          .info = {.name = request->name,
                                                   .device = card->name,
                                                   .rank = is_rank ? &rank : NULL,
                                                   .job = job,
                                                   .capacity_bytes = card->capacity_bytes,
                                                   .settings = settings,
                                                   .setting_count = count},
                                          .has_notes = access == MT_LIVE_ANY_THREAD,
                                          .access = access};
    mt_host_keep_reserve(MT_HOST_RESERVE_BYTES);
    mt_status status = mt_live_run_open(&live, out);
    mt_text_release(&command);
    return status;
}

/* Opens the trace or, if that fails since another process may be writing it, TRACE-PID. Appends the path of the open
 * trace to *out_path. If both fail, the error is the first one's. */
static mt_status open_anywhere(const struct mt_record_request *request, const struct mt_process_card *card,
                               const char *recorded, mt_live_access access, struct mt_text *out_path,
                               struct mt_live_run **out)
{
    name_trace(out_path, request, card);
    mt_status status = open_at(request, out_path->data, card, recorded, access, out);
    if (status == MT_NOT_WRITTEN) {
        struct mt_error error = mt_error_save(status);
        mt_text_add(out_path, "-%" PRId64, (int64_t)getpid());
        status = open_at(request, out_path->data, card, recorded, access, out);
        error.status = status; /* of the second attempt, with the text of the first */
        (void)mt_error_restore(&error, MT_OK);
    }
    return status;
}

mt_status mt_process_trace_open(const struct mt_record_request *request, const struct mt_process_card *card,
                                const char *recorded, mt_live_access access, struct mt_live_run **out)
{
    struct mt_text path = {0};
    assert(request->trace != NULL && card->name != NULL);
    mt_status status = open_anywhere(request, card, recorded, access, &path, out);
    if (status == MT_OK)
        mt_process_answer(request, MT_RECORD_RUN, mt_live_run_number(*out), path.data);
    else
        mt_process_note(request, "this process is not recorded");
    mt_text_release(&path);
    return status;
}
