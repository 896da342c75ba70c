#include "producers/program/program_words.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_readable_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, R_OK) == 0;
}

/* Reads the first line of a script if it names an interpreter; "" otherwise. */
static void read_interpreter_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, size, file) == NULL || strncmp(line, "#!", 2) != 0)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
}

static bool ends_in_py(const char *path)
{
    const size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".py") == 0;
}

bool mt_program_names_file(const char *word)
{
    return strchr(word, '/') != NULL || ends_in_py(word);
}

/* A shell starts an executable file with an interpreter line by itself. */
bool mt_program_is_script(const char *path)
{
    char line[256];
    if (!is_readable_file(path))
        return false;
    read_interpreter_line(path, line, sizeof line);
    if (strchr(path, '/') != NULL && access(path, X_OK) == 0 && line[0] != '\0')
        return false;
    return ends_in_py(path) || (access(path, X_OK) != 0 && strstr(line, "python") != NULL);
}

char *mt_program_find_in(const char *folder, size_t length, const char *name)
{
    struct mt_text path = {0};
    mt_text_add(&path, "%.*s/%s", (int)length, folder, name);
    if (access(path.data, X_OK) == 0)
        return path.data;
    mt_text_release(&path);
    return NULL;
}

char *mt_program_find(const char *name)
{
    const char *folders = getenv("PATH");
    char *found = NULL;
    if (strchr(name, '/') != NULL)
        return mt_host_strdup(name);
    while (folders != NULL && found == NULL) {
        const size_t length = strcspn(folders, ":");
        found = mt_program_find_in(folders, length, name);
        folders = folders[length] == ':' ? folders + length + 1 : NULL;
    }
    return found;
}

/* Returns the interpreter for scripts, and how it was found. The caller frees it. */
static char *find_interpreter(const char **out_source)
{
    const char *environment = secure_getenv("VIRTUAL_ENV");
    const bool is_active = environment != NULL && environment[0] != '\0';
    char *found = NULL;
    *out_source = "VIRTUAL_ENV";
    if (is_active)
        found = mt_program_find_in(environment, strlen(environment), "bin/python");
    if (found != NULL)
        return found;
    *out_source = ".venv";
    found = mt_program_find_in(".venv", strlen(".venv"), "bin/python");
    if (found != NULL)
        return found;
    *out_source = is_active ? "PATH, since VIRTUAL_ENV has no bin/python" : "PATH";
    found = mt_program_find("python3");
    return found != NULL ? found : mt_host_strdup("python3");
}

void mt_program_words_find(char *const *given, const char *python, struct mt_program_words *out)
{
    size_t count = 1;
    *out = (struct mt_program_words){.words = given};
    if (python == NULL && !mt_program_is_script(given[0]))
        return;
    while (given[count] != NULL)
        count++;
    out->interpreter = python != NULL ? mt_host_strdup(python) : find_interpreter(&out->source);
    out->made = mt_host_alloc((count + 2) * sizeof *out->made);
    out->made[0] = out->interpreter;
    memcpy(out->made + 1, given, (count + 1) * sizeof *given);
    out->words = out->made;
}

void mt_program_words_release(struct mt_program_words *words)
{
    free(words->made);
    free(words->interpreter);
    *words = (struct mt_program_words){0};
}
