/* accelerate launch. It has some 150 options, a configuration file with their defaults, and variables for each; all
 * change between versions. So the installed accelerate reads them itself: python/memtrace/dry/accelerate_launch.py
 * returns the variables and the words that accelerate would start. */
#include "producers/program/launcher_readers.h"

#include "base/job_folder.h"
#include "base/memory.h"
#include "base/text.h"
#include "producers/program/launcher_options.h"
#include "producers/program/launcher_words.h"
#include "producers/program/package_module.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE "memtrace.dry.accelerate_launch"

enum { NUMBER_TEXT = 24 };

/* ---- the answer ---- */

/* Reads a file into a new text, with an additional NUL at its end. */
static mt_status read_whole(FILE *file, char **out, size_t *out_bytes)
{
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    rewind(file);
    *out = mt_host_alloc((size_t)(bytes > 0 ? bytes : 0) + 1);
    *out_bytes = fread(*out, 1, bytes > 0 ? (size_t)bytes : 0, file);
    return bytes >= 0 ? MT_OK : mt_fail(MT_FAILED, "can't read what accelerate printed: %s", strerror(errno));
}

/* Splits the answer into variables, which end with an empty text, and words. */
static mt_status split(size_t bytes, struct mt_launch *launch)
{
    const char *const end = launch->answer + bytes;
    char *text = launch->answer;
    size_t count = 0;
    for (; text < end && *text != '\0'; text += strlen(text) + 1) {
        const size_t name = strcspn(text, "=");
        mt_launch_add_variable(launch, text, name, text[name] != '\0' ? text + name + 1 : "");
    }
    for (text++; text < end; text += strlen(text) + 1)
        *MT_HOST_ADD(launch->answer_words, count) = text;
    if (count == 0)
        return mt_fail(MT_FAILED, "accelerate launch: the command that it would start is unknown");
    *MT_HOST_ADD(launch->answer_words, count) = NULL;
    return MT_OK;
}

/* Reads the words as a command line of torchrun, or one process. */
static mt_status take_words(struct mt_launch *launch)
{
    char *const *words = launch->answer_words;
    if (strcmp(words[0], "torchrun") == 0)
        return mt_torchrun_read(words + 1, launch);
    launch->is_one_process = true;
    launch->script = words;
    return MT_OK;
}

/* ---- its process ---- */

/* Fails with the last line of the output. */
static mt_status fail_as_printed(FILE *printed)
{
    char *text = NULL;
    size_t bytes;
    mt_status status = read_whole(printed, &text, &bytes);
    while (bytes > 0 && text[bytes - 1] == '\n')
        text[--bytes] = '\0';
    const char *line = strrchr(text, '\n');
    MT_THEN(status, mt_fail(MT_USAGE, "accelerate launch: %s", line != NULL ? line + 1 : text));
    free(text);
    return status;
}

/* Runs the module, which writes its answer into a file. */
static mt_status run_module(char *const *words, const struct mt_launch *launch, const char *answer, FILE *printed)
{
    char cards[NUMBER_TEXT], *python = mt_launch_find_python(launch);
    const char **all = NULL;
    size_t count = 0;
    int code = 0;
    snprintf(cards, sizeof cards, "%" PRId64, launch->cards);
    *MT_HOST_ADD(all, count) = answer;
    *MT_HOST_ADD(all, count) = cards;
    for (; *words != NULL; words++)
        *MT_HOST_ADD(all, count) = *words;
    *MT_HOST_ADD(all, count) = NULL;
    mt_status status = mt_package_module_run(python, MODULE, all, fileno(printed), &code);
    if (status == MT_OK && code != 0)
        status = fail_as_printed(printed);
    free(all);
    free(python);
    return status;
}

/* Runs the module, which answers into a file of the folder, and reads the file. */
static mt_status read_answer(char *const *words, const char *folder, FILE *printed, struct mt_launch *launch)
{
    struct mt_text path = {0};
    size_t bytes = 0;
    FILE *file = NULL;
    mt_text_add(&path, "%s/answer", folder);
    mt_status status = run_module(words, launch, path.data, printed);
    if (status == MT_OK && (file = fopen(path.data, "re")) == NULL)
        status = mt_fail(MT_FAILED, "can't read %s: %s", path.data, strerror(errno));
    MT_THEN(status, read_whole(file, &launch->answer, &bytes));
    MT_THEN(status, split(bytes, launch));
    if (file != NULL)
        fclose(file);
    mt_text_release(&path);
    return status;
}

mt_status mt_accelerate_read(char *const *words, struct mt_launch *launch)
{
    struct mt_job_folder folder = {0};
    FILE *printed = tmpfile();
    mt_status status = printed != NULL
                           ? mt_job_folder_make(&folder)
                           : mt_fail(MT_FAILED, "can't make a file for what accelerate prints: %s", strerror(errno));
    MT_THEN(status, read_answer(words, folder.path, printed, launch));
    MT_THEN(status, take_words(launch));
    mt_job_folder_remove(&folder);
    if (printed != NULL)
        fclose(printed);
    return status;
}
