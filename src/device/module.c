#include "device/module.h"

#include "base/memory.h"
#include "base/status.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_NAME = 128 }; /* of a folder below, plus a file in it */

/* Writes the folder of the library or program that contains this code, with links resolved and without a trailing
 * slash; "" if it is unknown. Returns whether it is the program. */
static bool find_own_folder(char *folder)
{
    Dl_info info;
    struct link_map *own = NULL;
    const bool is_known = dladdr1((void *)find_own_folder, &info, (void **)&own, RTLD_DL_LINKMAP) != 0;
    const bool is_program = is_known && own->l_name[0] == '\0'; /* its name can be set to anything */
    if (!is_known || realpath(is_program ? "/proc/self/exe" : own->l_name, folder) == NULL)
        folder[0] = '\0';
    else
        *strrchr(folder, '/') = '\0';
    return is_program;
}

/* Writes the path of the file in the first folder that has it. */
static bool find_anywhere(const char *file, char path[PATH_MAX + LONGEST_NAME])
{
    static const char *const of_program[] = {"", "/../lib/memtrace", NULL};
    static const char *const of_library[] = {"", "/memtrace", "/../memtrace", NULL};
    char folder[PATH_MAX];
    const char *const *place = find_own_folder(folder) ? of_program : of_library;
    for (; folder[0] != '\0' && *place != NULL; place++) {
        snprintf(path, PATH_MAX + LONGEST_NAME, "%s%s/%s", folder, *place, file);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

char *mt_module_find_file(const char *file)
{
    char path[PATH_MAX + LONGEST_NAME];
    return find_anywhere(file, path) ? mt_host_strdup(path) : NULL;
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
    char path[PATH_MAX + LONGEST_NAME];
    if (!find_anywhere(file, path))
        return mt_fail(MT_NO_DEVICE, "%s is not installed", file);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return mt_fail(MT_NO_DEVICE, "%s", dlerror());
    *out_function = dlsym(module, symbol);
    if (*out_function == NULL)
        return mt_fail(MT_NO_DEVICE, "%s is another build's: it has no %s", file, symbol);
    attach(module);
    return MT_OK;
}
