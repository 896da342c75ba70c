#include "run/handover.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "MEMTRACE_RECORD_"

static const char *const kind_words[] = {
    [MT_RECORD_RUN] = "run",         [MT_RECORD_LOST] = "lost",   [MT_RECORD_NOTE] = "note",
    [MT_RECORD_HISTORY] = "history", [MT_RECORD_BEGAN] = "began", [MT_RECORD_CHANGE] = "change"};
enum { KINDS = sizeof kind_words / sizeof kind_words[0] };

/* For python/memtrace, which alone reads them, and STACKS. */
static const char *const torch_words[] = {[MT_RECORD_TORCH_NOT] = "no",
                                          [MT_RECORD_TORCH_OWN] = "own",
                                          [MT_RECORD_TORCH_OURS] = "ours",
                                          [MT_RECORD_TORCH_DRY] = "dry"};

void mt_dry_request_give(const struct mt_dry_request *request, struct mt_environment *environment)
{
    char deadline[32];
    assert(request->device != NULL && request->cards > 0 && request->steps >= MT_ALL_DRY_STEPS);
    snprintf(deadline, sizeof deadline, "%.3f", request->deadline_s);
    mt_environment_set(environment, "MEMTRACE_DRY_DEVICE", request->device);
    mt_environment_set_number(environment, "MEMTRACE_DRY_CARDS", request->cards);
    mt_environment_set_number(environment, "MEMTRACE_DRY_STEPS", request->steps);
    mt_environment_set(environment, "MEMTRACE_DRY_DEADLINE", request->deadline_s > 0 ? deadline : NULL);
    mt_environment_set(environment, "MEMTRACE_DRY_ASSUMED", request->assumed);
    mt_environment_set(environment, "MEMTRACE_DRY_CHANGES", request->changes);
    mt_environment_set(environment, "MEMTRACE_DRY_FILES", request->files);
}

void mt_record_request_give(const struct mt_record_request *request, struct mt_environment *environment)
{
    assert(request->trace != NULL && request->trace[0] == '/' && request->answers != NULL);
    mt_environment_set(environment, VARIABLE "TRACE", request->trace);
    mt_environment_set(environment, VARIABLE "ANSWERS", request->answers);
    mt_environment_set(environment, VARIABLE "NAME", request->name);
    mt_environment_set(environment, VARIABLE "STEP", request->step);
    mt_environment_set(environment, VARIABLE "KERNELS", request->watches_kernels ? "1" : "0");
    mt_environment_set(environment, VARIABLE "STACKS", request->leaves_stacks ? "0" : "1");
    mt_environment_set(environment, VARIABLE "TORCH", torch_words[request->torch]);
    mt_environment_set_number(environment, VARIABLE "DEVICE", request->device);
}

bool mt_record_request_take(struct mt_record_request *out)
{
    const char *kernels = secure_getenv(VARIABLE "KERNELS"), *device = secure_getenv(VARIABLE "DEVICE");
    *out = (struct mt_record_request){.trace = secure_getenv(VARIABLE "TRACE"),
                                      .answers = secure_getenv(VARIABLE "ANSWERS"),
                                      .name = secure_getenv(VARIABLE "NAME"),
                                      .step = secure_getenv(VARIABLE "STEP"),
                                      .watches_kernels = kernels != NULL && strcmp(kernels, "1") == 0,
                                      .device = device != NULL ? atoi(device) : -1};
    return out->trace != NULL && out->answers != NULL;
}

static char *copy(const char *text)
{
    return text != NULL ? mt_host_strdup(text) : NULL;
}

void mt_record_request_copy(const struct mt_record_request *request, struct mt_record_request *out)
{
    *out = *request;
    out->trace = copy(request->trace);
    out->answers = copy(request->answers);
    out->name = copy(request->name);
    out->step = copy(request->step);
}

void mt_record_request_release(struct mt_record_request *copied)
{
    const char *texts[] = {copied->trace, copied->answers, copied->name, copied->step};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free((char *)(uintptr_t)texts[i]);
    *copied = (struct mt_record_request){0};
}

static void add_escaped(struct mt_text *out, const char *text)
{
    for (size_t plain; text[0] != '\0'; text += plain) {
        plain = strcspn(text, "\n\\");
        mt_text_add(out, "%.*s", (int)plain, text);
        if (text[plain] != '\0')
            mt_text_add(out, text[plain++] == '\n' ? "\\n" : "\\\\");
    }
}

/* In place, since the text becomes shorter. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        bool is_escaped = text[0] == '\\' && text[1] != '\0';
        text += is_escaped;
        *to++ = is_escaped && *text == 'n' ? '\n' : *text;
    }
    *to = '\0';
}

/* A single write of less than a page to the end of a file is atomic. */
void mt_record_answer_give(const char *path, const struct mt_record_answer *answer)
{
    struct mt_text line = {0};
    assert((unsigned)answer->kind < KINDS && answer->text != NULL && answer->pid > 0 && answer->number >= 0);
    int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return;
    mt_text_add(&line, "%s\t%" PRId64 "\t%" PRId64 "\t", kind_words[answer->kind], answer->pid, answer->number);
    add_escaped(&line, answer->text);
    mt_text_add(&line, "\n");
    ssize_t written = write(file, line.data, line.length);
    (void)written; /* there is nobody to report it to */
    close(file);
    mt_text_release(&line);
}

/* True, and *out set, if `word` is one of the kinds. */
static bool find_kind(const char *word, mt_record_answer_kind *out)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (strcmp(word, kind_words[kind]) == 0) {
            *out = (mt_record_answer_kind)kind;
            return true;
        }
    return false;
}

static bool read_line(char *line, struct mt_record_answer *out)
{
    char *kind = strsep(&line, "\t"), *pid = strsep(&line, "\t"), *number = strsep(&line, "\t");
    if (pid == NULL || number == NULL || line == NULL || !find_kind(kind, &out->kind))
        return false;
    unescape(line);
    out->text = line;
    return mt_parse_integer("pid", pid, 0, INT64_MAX, &out->pid) == MT_OK &&
           mt_parse_integer("number", number, 0, INT64_MAX, &out->number) == MT_OK;
}

mt_status mt_record_answers_reserve(int file, const char *path)
{
    enum { ANSWER_BYTES = 64 << 10 }; /* enough for hundreds of processes */
    if (fallocate(file, FALLOC_FL_KEEP_SIZE, 0, ANSWER_BYTES) == 0 || errno != ENOSPC)
        return MT_OK;
    return mt_fail(MT_FAILED, "%s: %s", path, strerror(errno));
}

mt_status mt_record_answers_read(const char *path, void (*take)(void *context, const struct mt_record_answer *answer),
                                 void *context)
{
    struct mt_record_answer answer;
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return mt_fail(MT_FAILED, "%s: %s", path, strerror(errno));
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0;) {
        line[strcspn(line, "\n")] = '\0';
        if (read_line(line, &answer))
            take(context, &answer);
    }
    mt_status status = ferror(file) ? mt_fail(MT_FAILED, "%s: %s", path, strerror(errno)) : MT_OK;
    free(line);
    fclose(file);
    return status;
}
