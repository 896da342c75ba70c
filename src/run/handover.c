#include "run/handover.h"

#include "base/flat_json.h"
#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kind_words[] = {
    [MT_RECORD_RUN] = "run",         [MT_RECORD_LOST] = "lost",   [MT_RECORD_NOTE] = "note",
    [MT_RECORD_HISTORY] = "history", [MT_RECORD_BEGAN] = "began", [MT_RECORD_CHANGE] = "change"};
enum { KINDS = sizeof kind_words / sizeof kind_words[0] };

/* Only python/memtrace reads them. */
static const char *const torch_words[] = {[MT_RECORD_TORCH_NOT] = "no",
                                          [MT_RECORD_TORCH_OWN] = "own",
                                          [MT_RECORD_TORCH_OURS] = "ours",
                                          [MT_RECORD_TORCH_DRY] = "dry"};

/* Copies the settings from the environment. */
static struct mt_text settings_in(const struct mt_environment *environment)
{
    const char *given = mt_environment_get(environment, MT_SETTINGS_VARIABLE);
    struct mt_text settings = {0};
    mt_text_add(&settings, "%s", given != NULL ? given : "");
    return settings;
}

/* Puts the settings into the environment, and releases them. */
static void store(struct mt_text *settings, struct mt_environment *environment)
{
    mt_environment_set(environment, MT_SETTINGS_VARIABLE, mt_text_get(settings));
    mt_text_release(settings);
}

void mt_record_request_give(const struct mt_record_request *request, struct mt_environment *environment)
{
    struct mt_text settings = {0};
    assert(request->trace != NULL && request->trace[0] == '/' && request->answers != NULL);
    mt_flat_json_add_text(&settings, "torch", torch_words[request->torch]);
    mt_flat_json_add_text(&settings, "trace", request->trace);
    mt_flat_json_add_text(&settings, "answers", request->answers);
    mt_flat_json_add_text(&settings, "name", request->name);
    mt_flat_json_add_text(&settings, "step", request->step);
    mt_flat_json_add_number(&settings, "kernels", request->watches_kernels);
    mt_flat_json_add_number(&settings, "stacks", !request->leaves_stacks);
    mt_flat_json_add_number(&settings, "holders", request->finds_holders);
    mt_flat_json_add_number(&settings, "device", request->device);
    store(&settings, environment);
}

void mt_dry_request_give(const struct mt_dry_request *request, struct mt_environment *environment)
{
    struct mt_text settings = settings_in(environment);
    assert(request->device != NULL && request->cards > 0 && request->steps >= MT_ALL_DRY_STEPS);
    mt_environment_set(environment, "MEMTRACE_DRY_DEVICE", request->device);
    mt_flat_json_add_number(&settings, "cards", (double)request->cards);
    mt_flat_json_add_number(&settings, "steps", (double)request->steps);
    if (request->deadline_s > 0)
        mt_flat_json_add_number(&settings, "deadline", request->deadline_s);
    mt_flat_json_add_text(&settings, "assumed", request->assumed);
    mt_flat_json_add_number(&settings, "masks", request->masks);
    mt_flat_json_add_text(&settings, "weights", request->weights);
    mt_flat_json_add_number(&settings, "eager", request->is_eager);
    mt_flat_json_add_text(&settings, "inductor_cache", request->inductor_cache);
    mt_flat_json_add_text(&settings, "changes", request->changes);
    mt_flat_json_add_text(&settings, "files", request->files);
    store(&settings, environment);
}

void mt_mail_folder_give(const char *folder, struct mt_environment *environment)
{
    struct mt_text settings = settings_in(environment);
    mt_flat_json_add_text(&settings, "mail", folder);
    store(&settings, environment);
}

void mt_server_give(int socket, struct mt_environment *environment)
{
    struct mt_text settings = settings_in(environment);
    mt_flat_json_add_number(&settings, "server", socket);
    store(&settings, environment);
}

bool mt_record_request_take(struct mt_record_request *out)
{
    const char *settings = secure_getenv(MT_SETTINGS_VARIABLE);
    *out = (struct mt_record_request){0};
    if (settings == NULL)
        return false;
    char *kernels = mt_flat_json_find(settings, "kernels"), *device = mt_flat_json_find(settings, "device");
    *out = (struct mt_record_request){.trace = mt_flat_json_find(settings, "trace"),
                                      .answers = mt_flat_json_find(settings, "answers"),
                                      .name = mt_flat_json_find(settings, "name"),
                                      .command = mt_flat_json_find(settings, "command"),
                                      .step = mt_flat_json_find(settings, "step"),
                                      .watches_kernels = kernels != NULL && strcmp(kernels, "1") == 0,
                                      .device = device != NULL ? atoi(device) : MT_EVERY_DEVICE};
    free(kernels);
    free(device);
    if (out->trace != NULL && out->answers != NULL)
        return true;
    mt_record_request_release(out);
    return false;
}

void mt_record_request_release(struct mt_record_request *request)
{
    const char *texts[] = {request->trace, request->answers, request->name, request->command, request->step};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free((char *)(uintptr_t)texts[i]);
    *request = (struct mt_record_request){0};
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

/* Opens the file at `path` for appending, or returns -1. The command that made its folder may have ended and removed
 * it, and another user may have created a folder, a link or a file with the same name. */
static int open_answers(const char *path)
{
    const char *name = strrchr(path, '/');
    struct stat about;
    char *folder = name != NULL ? strndup(path, (size_t)(name - path)) : NULL;
    const int place = folder != NULL ? open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    free(folder);
    if (place < 0)
        return -1;
    const bool is_own =
        fstat(place, &about) == 0 && about.st_uid == geteuid() && (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    const int file = is_own ? openat(place, name + 1, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW) : -1;
    close(place);
    return file;
}

/* A single write of less than a page to the end of a file is atomic. */
void mt_record_answer_give(const char *path, const struct mt_record_answer *answer)
{
    struct mt_text line = {0};
    assert((unsigned)answer->kind < KINDS && answer->text != NULL && answer->pid > 0 && answer->number >= 0);
    int file = open_answers(path);
    if (file < 0)
        return;
    mt_text_add(&line, "%s\t%" PRId64 "\t%" PRId64 "\t", kind_words[answer->kind], answer->pid, answer->number);
    add_escaped(&line, answer->text);
    mt_text_add(&line, "\n");
    ssize_t written = write(file, line.data, line.length);
    (void)written; /* there is no one to report a failure to */
    close(file);
    mt_text_release(&line);
}

/* Finds the kind with this name. False if there is none. */
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
