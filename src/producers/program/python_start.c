#include "producers/program/python_start.h"

#include "base/memory.h"
#include "base/text.h"
#include "device/module.h"
#include "producers/program/child_program.h"

#include <stdlib.h>
#include <string.h>

#define LIBRARY "libmemtrace_torch.so"
#define START "sitecustomize.py"
#define RUN_MODULE "/_module.py"

/* Finds the folder: of an installation or a build, and of a wheel, where the program is a folder below the package. */
static char *find_folder(void)
{
    char *path = mt_module_find_file("python/memtrace/start/" START);
    if (path == NULL)
        path = mt_module_find_file("../start/" START);
    if (path != NULL)
        *strrchr(path, '/') = '\0';
    return path;
}

/* True if the package can find the library. */
static bool has_library(void)
{
    char *library = mt_module_find_file(LIBRARY);
    const char *given = secure_getenv("MEMTRACE_TORCH_LIBRARY");
    free(library);
    return library != NULL || (given != NULL && given[0] != '\0');
}

/* Puts a folder in front of PYTHONPATH, for the programs that are started. */
static void put_first(const char *folder)
{
    const char *before = secure_getenv("PYTHONPATH");
    struct mt_text value = {0};
    mt_text_add(&value, "%s", folder);
    if (before != NULL && before[0] != '\0')
        mt_text_add(&value, ":%s", before);
    setenv("PYTHONPATH", value.data, 1);
    mt_text_release(&value);
}

/* Finds the folder; the caller frees it. */
static mt_status find_package(char **out)
{
    *out = find_folder();
    return *out != NULL ? MT_OK : mt_fail(MT_FAILED, "the Python package is not beside the program");
}

mt_status mt_python_start(void)
{
    char *folder;
    if (!has_library())
        return mt_fail(MT_NO_DEVICE, "memtrace was built without CUDA's runtime, and so without " LIBRARY);
    MT_TRY(find_package(&folder));
    put_first(folder);
    free(folder);
    return MT_OK;
}

/* Cuts the last `count` parts of a path off. */
static void cut(char *path, int count)
{
    for (; count > 0 && strrchr(path, '/') != NULL; count--)
        *strrchr(path, '/') = '\0';
}

/* Leaves only absolute folders in PYTHONPATH. The others, also the empty ones, are places in the current folder. */
static void keep_absolute_folders(void)
{
    const char *rest = secure_getenv("PYTHONPATH");
    struct mt_text kept = {0};
    while (rest != NULL && *rest != '\0') {
        const size_t length = strcspn(rest, ":");
        if (*rest == '/')
            mt_text_add(&kept, "%s%.*s", kept.length > 0 ? ":" : "", (int)length, rest);
        rest += length + (rest[length] == ':');
    }
    setenv("PYTHONPATH", mt_text_get(&kept), 1);
    mt_text_release(&kept);
}

mt_status mt_python_module_run(const char *module, const char *const *words, int *out_code)
{
    char *folder;
    struct mt_text start = {0};
    const char **all = NULL;
    size_t count = 0;
    MT_TRY(find_package(&folder));
    cut(folder, 1); /* start */
    mt_text_add(&start, "%s" RUN_MODULE, folder);
    free(folder);
    keep_absolute_folders();
    setenv("PYTHONSAFEPATH", "1", 1); /* also for what it starts */
    const char *const begin[] = {"python3", mt_text_get(&start), module};
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++)
        *MT_HOST_ADD(all, count) = begin[i];
    for (; *words != NULL; words++)
        *MT_HOST_ADD(all, count) = *words;
    *MT_HOST_ADD(all, count) = NULL;
    mt_status status = mt_child_program_run((char *const *)all, out_code);
    free(all);
    mt_text_release(&start);
    return status;
}

bool mt_python_is(const char *word)
{
    const char *file = strrchr(word, '/');
    const char *name = file != NULL ? file + 1 : word;
    return strncmp(name, "python", 6) == 0 && strspn(name + 6, "0123456789.") == strlen(name + 6);
}

/* Options may be written together: -sI. Those of -c, -m, -W and -X end a word, or take the next one. */
const char *mt_python_start_refused(char *const *words)
{
    if (!mt_python_is(words[0]))
        return NULL;
    for (words++; *words != NULL && (*words)[0] == '-' && (*words)[1] != '-'; words++)
        for (const char *letter = *words + 1; *letter != '\0'; letter++) {
            if (*letter == 'I' || *letter == 'S' || *letter == 'E')
                return *letter == 'I' ? "-I" : *letter == 'S' ? "-S" : "-E";
            if (*letter == 'c' || *letter == 'm')
                return NULL;
            if (*letter == 'W' || *letter == 'X') {
                words += letter[1] == '\0' && words[1] != NULL;
                break;
            }
        }
    return NULL;
}
