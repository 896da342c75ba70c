#include "record/process_run.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace/query/trace.h"
#include "trace/store/recorder.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_COMMAND_BYTES = 4096 };

struct mt_process_run {
    char *answers;
    bool watches_kernels;
    struct mt_recorder *recorder; /* NULL once closed */
    struct mt_account *account;
    uint64_t begin_ns;
};

static void answer(const char *path, mt_record_answer_kind kind, int64_t number, const char *text)
{
    const struct mt_record_answer given = {.kind = kind, .pid = getpid(), .number = number, .text = text};
    mt_record_answer_give(path, &given);
}

void mt_process_note(const struct mt_record_request *request, const char *consequence)
{
    struct mt_text words = {0};
    mt_text_add(&words, "%s; %s", mt_last_error(), consequence);
    answer(request->answers, MT_RECORD_NOTE, 0, words.data);
    mt_text_release(&words);
}

/* Appends the command line of the process, its arguments separated by spaces. */
static void read_command(struct mt_text *out)
{
    char command[MOST_COMMAND_BYTES];
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t length = file != NULL ? fread(command, 1, sizeof command - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; i < length; i++)
        mt_text_add(out, "%c", command[i] != '\0' ? command[i] : i + 1 < length ? ' ' : '\0');
}

static mt_status open_at(const struct mt_record_request *request, const char *path, const struct mt_process_card *card,
                         const char *command, struct mt_recorder **out)
{
    char pid[24];
    snprintf(pid, sizeof pid, "%" PRId64, (int64_t)getpid());
    const struct mt_run_setting settings[] = {
        {"command", command}, {"pid", pid}, {"recorded", request->watches_kernels ? "memory, kernels" : "memory"}};
    const struct mt_run_info info = {.name = request->name,
                                     .device = card->name,
                                     .capacity_bytes = card->capacity_bytes,
                                     .settings = settings,
                                     .setting_count = sizeof settings / sizeof settings[0]};
    return mt_recorder_open(path, &info, out);
}

/* Opens the trace at TRACE. If that fails, since another process may be writing it, opens TRACE-PID. Appends the path
 * that was opened to *out_path. If both fail, the error is the first one's. */
static mt_status open_anywhere(const struct mt_record_request *request, const struct mt_process_card *card,
                               struct mt_text *out_path, struct mt_recorder **out)
{
    struct mt_text command = {0};
    read_command(&command);
    mt_text_add(out_path, "%s", request->trace);
    mt_status status = open_at(request, out_path->data, card, mt_text_get(&command), out);
    if (status == MT_NOT_WRITTEN) {
        struct mt_error error = mt_error_save(status);
        mt_text_add(out_path, "-%" PRId64, (int64_t)getpid());
        status = open_at(request, out_path->data, card, mt_text_get(&command), out);
        error.status = status; /* of the second attempt, with the words of the first */
        (void)mt_error_restore(&error, MT_OK);
    }
    mt_text_release(&command);
    return status;
}

static struct mt_process_run *begin(const struct mt_record_request *request, struct mt_recorder *recorder,
                                    char *(*spell)(const char *name))
{
    struct mt_process_run *run = mt_host_alloc(sizeof *run);
    assert(recorder != NULL);
    const struct mt_account_settings settings = {.step = request->step, .device = request->device, .spell = spell};
    run->answers = mt_host_strdup(request->answers);
    run->watches_kernels = request->watches_kernels;
    run->recorder = recorder;
    run->begin_ns = mt_clock_ns();
    run->account = mt_account_create(mt_recorder_sink(recorder), &settings);
    return run;
}

mt_status mt_process_run_open(const struct mt_record_request *request, const struct mt_process_card *card,
                              char *(*spell)(const char *name), struct mt_process_run **out)
{
    struct mt_text path = {0};
    struct mt_recorder *recorder;
    mt_status status = open_anywhere(request, card, &path, &recorder);
    if (status == MT_OK) {
        *out = begin(request, recorder, spell);
        answer(request->answers, MT_RECORD_RUN, mt_recorder_run(recorder), path.data);
    } else {
        mt_process_note(request, "this process is not recorded");
    }
    mt_text_release(&path);
    return status;
}

struct mt_account *mt_process_run_account(struct mt_process_run *run)
{
    return run->account;
}

uint64_t mt_process_run_now_ns(const struct mt_process_run *run)
{
    return mt_clock_since_ns(run->begin_ns);
}

static void answer_lost(const struct mt_process_run *run, uint64_t count, const char *what)
{
    if (count > 0)
        answer(run->answers, MT_RECORD_LOST, (int64_t)count, what);
}

static mt_run_state end_state(const struct mt_account_counts *counts, int exit_code)
{
    if (exit_code == 0)
        return MT_RUN_DONE;
    return counts->refused > 0 ? MT_RUN_OOM : MT_RUN_FAILED;
}

mt_status mt_process_run_close(struct mt_process_run *run, int exit_code, uint64_t lost_records)
{
    const struct mt_account_counts counts = mt_account_counts(run->account);
    assert(run->recorder != NULL);
    answer_lost(run, lost_records, "records of CUPTI");
    answer_lost(run, counts.doubtful, "allocations that CUPTI records and no call tells of");
    if (run->watches_kernels)
        mt_recorder_measure(run->recorder, MT_LOST_KERNELS, -1, (double)lost_records);
    mt_recorder_measure(run->recorder, "records:told", -1, (double)counts.matched_records);
    mt_recorder_measure(run->recorder, "records:filled_in", -1, (double)counts.filled_records);
    mt_status status = mt_recorder_close(run->recorder, end_state(&counts, exit_code));
    run->recorder = NULL;
    if (status != MT_OK)
        answer(run->answers, MT_RECORD_NOTE, 0, mt_last_error());
    return status;
}

void mt_process_run_disown(struct mt_process_run *run)
{
    assert(run->recorder != NULL);
    mt_recorder_disown(run->recorder);
}
