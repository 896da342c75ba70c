#include "device/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_NAME = 128 }; /* of a place and a file in it */

/* The folder of the running program, without its last slash; "." if the system does not tell. */
static void find_program_folder(char *folder)
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    else
        strcpy(folder, ".");
}

/* From the first folder that holds the file; where none does, the loader looks. */
static void *open_module(const char *file)
{
    static const char *const places[] = {"", "/..", "/../lib/memtrace"};
    char folder[PATH_MAX], path[PATH_MAX + LONGEST_NAME];
    find_program_folder(folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s%s/%s", folder, places[i], file);
        if (access(path, F_OK) == 0)
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

mt_status mt_module_find(const char *file, const char *symbol, void **out_function)
{
    void *module = open_module(file);
    if (module == NULL)
        return mt_fail(MT_NO_DEVICE, "%s", dlerror());
    *out_function = dlsym(module, symbol);
    if (*out_function == NULL)
        return mt_fail(MT_NO_DEVICE, "%s is another build's: it has no %s", file, symbol);
    return MT_OK;
}
