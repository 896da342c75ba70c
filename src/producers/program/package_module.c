#include "producers/program/package_module.h"

#include "base/memory.h"
#include "base/text.h"
#include "device/module.h"

#include <stdlib.h>
#include <string.h>

#define START "sitecustomize.py"
#define RUN_MODULE "/_module.py"

/* Finds the folder: in an installation, a build, or a wheel, where the program is in a folder below the package. */
static char *find_folder(void)
{
    char *path = mt_module_find_file("python/memtrace/start/" START);
    if (path == NULL)
        path = mt_module_find_file("../start/" START);
    if (path != NULL)
        *strrchr(path, '/') = '\0';
    return path;
}

mt_status mt_package_find(char **out)
{
    *out = find_folder();
    return *out != NULL ? MT_OK : mt_fail(MT_FAILED, "the Python package was not found with the program");
}

/* Keeps only absolute folders in PYTHONPATH. Others, and empty entries, refer to the current folder. */
static void keep_absolute_folders(struct mt_environment *environment)
{
    const char *rest = mt_environment_get(environment, "PYTHONPATH");
    struct mt_text kept = {0};
    while (rest != NULL && *rest != '\0') {
        const size_t length = strcspn(rest, ":");
        if (*rest == '/')
            mt_text_add(&kept, "%s%.*s", kept.length > 0 ? ":" : "", (int)length, rest);
        rest += length + (rest[length] == ':');
    }
    mt_environment_set(environment, "PYTHONPATH", mt_text_get(&kept));
    mt_text_release(&kept);
}

/* Makes the environment of the module, and of the programs that it starts. */
static void make_environment(struct mt_environment *out)
{
    mt_environment_copy(out);
    keep_absolute_folders(out);
    mt_environment_set(out, "PYTHONSAFEPATH", "1");
}

mt_status mt_package_module_run(const char *python, const char *module, const char *const *words, int output,
                                int *out_code)
{
    char *folder;
    struct mt_text start = {0};
    struct mt_environment environment;
    const char **all = NULL;
    size_t count = 0;
    MT_TRY(mt_package_find(&folder));
    *strrchr(folder, '/') = '\0';
    mt_text_add(&start, "%s" RUN_MODULE, folder);
    free(folder);
    const char *const begin[] = {python, mt_text_get(&start), module};
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++)
        *MT_HOST_ADD(all, count) = begin[i];
    for (; *words != NULL; words++)
        *MT_HOST_ADD(all, count) = *words;
    *MT_HOST_ADD(all, count) = NULL;
    make_environment(&environment);
    mt_status status = mt_child_program_run((char *const *)all, &environment, output, out_code);
    mt_environment_release(&environment);
    free(all);
    mt_text_release(&start);
    return status;
}
