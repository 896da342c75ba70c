#include "device/module.h"

#include "base/memory.h"
#include "base/status.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_NAME = 128 }; /* of a folder below and a file in it */

static void cut_at_last_slash(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
}

/* Writes the folder of the running program without its last slash, "" if the system does not tell it. */
static void find_program_folder(char *folder)
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = '\0';
    cut_at_last_slash(folder);
}

/* Writes the folder of the library or program that this code is part of, with links resolved. */
static void find_own_folder(char *folder)
{
    Dl_info info;
    folder[0] = '\0';
    if (dladdr((void *)find_own_folder, &info) == 0 || realpath(info.dli_fname, folder) == NULL)
        return;
    cut_at_last_slash(folder);
}

/* Writes the path of the file in the first of these places of the folder that has it. Returns false if none has. */
static bool find_file(const char *folder, const char *const *places, const char *file, char *path, size_t path_bytes)
{
    for (; folder[0] != '\0' && *places != NULL; places++) {
        snprintf(path, path_bytes, "%s%s/%s", folder, *places, file);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* Writes the path of the file in the first folder that holds it. */
static bool find_anywhere(const char *file, char path[PATH_MAX + LONGEST_NAME])
{
    static const char *const of_program[] = {"", "/..", "/../lib/memtrace", NULL};
    static const char *const of_library[] = {"", "/memtrace", "/../memtrace", NULL};
    char folder[PATH_MAX];
    find_program_folder(folder);
    if (find_file(folder, of_program, file, path, PATH_MAX + LONGEST_NAME))
        return true;
    find_own_folder(folder);
    return find_file(folder, of_library, file, path, PATH_MAX + LONGEST_NAME);
}

char *mt_module_find_file(const char *file)
{
    char path[PATH_MAX + LONGEST_NAME];
    return find_anywhere(file, path) ? mt_host_strdup(path) : NULL;
}

/* Opens the file in the first folder that holds it. If none does, the loader looks for it. */
static void *open_module(const char *file)
{
    char path[PATH_MAX + LONGEST_NAME];
    bool found = find_anywhere(file, path);
    return dlopen(found ? path : file, RTLD_NOW | RTLD_LOCAL);
}

static void attach(void *module)
{
    static const struct mt_module_host host = {.error_text = mt_error_text, .find = mt_module_find};
    mt_module_attach_function *attach_module = NULL;
    *(void **)&attach_module = dlsym(module, MT_MODULE_ATTACH_NAME);
    if (attach_module != NULL)
        attach_module(&host);
}

mt_status mt_module_find(const char *file, const char *symbol, void **out_function)
{
    assert(strlen(file) < LONGEST_NAME - sizeof "/../lib/memtrace");
    void *module = open_module(file);
    if (module == NULL)
        return mt_fail(MT_NO_DEVICE, "%s", dlerror());
    *out_function = dlsym(module, symbol);
    if (*out_function == NULL)
        return mt_fail(MT_NO_DEVICE, "%s is another build's: it has no %s", file, symbol);
    attach(module);
    return MT_OK;
}
