#include "producers/program/launcher_words.h"

#include "base/memory.h"
#include "producers/program/launcher_readers.h"
#include "producers/program/program_words.h"
#include "producers/program/python_start.h"

#include <stdlib.h>
#include <string.h>

/* ---- the launchers ---- */

struct launcher {
    const char *name;    /* in messages */
    const char *program; /* NULL: it is only a module */
    const char *module;  /* NULL: it is only a program */
    const char *command; /* the required next word; NULL: none */
    mt_status (*read)(char *const *words, struct mt_launch *launch);
};

static const struct launcher launchers[] = {
    {"torchrun", "torchrun", "torch.distributed.run", NULL, mt_torchrun_read},
    {"torch.distributed.launch", NULL, "torch.distributed.launch", NULL, mt_torch_launch_read},
    {"accelerate launch", "accelerate", "accelerate.commands.accelerate_cli", "launch", mt_accelerate_read},
    {"accelerate launch", "accelerate-launch", "accelerate.commands.launch", NULL, mt_accelerate_read},
    {"deepspeed", "deepspeed", "deepspeed.launcher.runner", NULL, mt_deepspeed_read},
    {"srun", "srun", NULL, NULL, mt_srun_read},
    {"mpirun", "mpirun", NULL, NULL, mt_mpirun_read},
    {"mpiexec", "mpiexec", NULL, NULL, mt_mpirun_read},
    {"mpiexec.hydra", "mpiexec.hydra", NULL, NULL, mt_mpirun_read},
    {"orterun", "orterun", NULL, NULL, mt_mpirun_read},
};

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Returns the words of `python -u -m MODULE` from MODULE on; NULL for other words. */
static char *const *module_words(char *const *words)
{
    if (!mt_python_is(words[0]))
        return NULL;
    for (words++; *words != NULL && (*words)[0] == '-' && strspn(*words + 1, "bBdOqsuv") == strlen(*words + 1); words++)
        ;
    return *words != NULL && strcmp(*words, "-m") == 0 && words[1] != NULL ? words + 1 : NULL;
}

/* Returns the launcher that the words start, and its own words in *out_rest; NULL for another program. */
static const struct launcher *find_launcher(char *const *words, char *const **out_rest)
{
    char *const *module = module_words(words);
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const struct launcher *launcher = &launchers[i];
        const char *wanted = module != NULL ? launcher->module : launcher->program;
        char *const *found = module != NULL ? module : words;
        if (wanted == NULL || strcmp(module != NULL ? *found : file_name(*found), wanted) != 0)
            continue;
        *out_rest = found + 1;
        if (launcher->command == NULL)
            return launcher;
        if (**out_rest != NULL && strcmp(**out_rest, launcher->command) == 0) {
            ++*out_rest;
            return launcher;
        }
    }
    return NULL;
}

bool mt_launcher_is(char *const *words)
{
    char *const *rest;
    return find_launcher(words, &rest) != NULL;
}

bool mt_launch_is_python(char *const *words)
{
    return mt_program_is_script(words[0]) || mt_python_is(words[0]) || mt_launcher_is(words);
}

/* ---- reading ---- */

/* Fails for a script that is several programs, or another launcher. */
static mt_status check_script(const struct mt_launch *launch)
{
    char *const *rest;
    if (*launch->script == NULL)
        return mt_fail(MT_USAGE, "%s: which script?", launch->name);
    if (!launch->is_plain)
        return MT_OK;
    const struct launcher *inner = find_launcher(launch->script, &rest);
    if (inner != NULL)
        return mt_fail(MT_USAGE, "%s starts %s, a launcher itself: run %s alone, with all nodes in its own options",
                       launch->name, inner->name, inner->name);
    for (char *const *word = launch->script; *word != NULL; word++)
        if (strcmp(*word, ":") == 0)
            return mt_fail(MT_USAGE, "%s starts several programs, separated by \":\": run one of them", launch->name);
    return MT_OK;
}

mt_status mt_launch_read(char *const *words, int64_t cards, struct mt_launch *out)
{
    char *const *rest;
    const struct launcher *launcher = find_launcher(words, &rest);
    *out = (struct mt_launch){.words = words, .script = words, .is_plain = true, .cards = cards};
    if (launcher == NULL)
        return MT_OK;
    out->name = launcher->name;
    MT_TRY(launcher->read(rest, out));
    return check_script(out);
}

void mt_launch_release(struct mt_launch *launch)
{
    for (size_t i = 0; i < launch->variable_count; i++)
        free(launch->variables[i]);
    free(launch->variables);
    free(launch->answer_words);
    free(launch->answer);
    *launch = (struct mt_launch){0};
}

/* ---- the launcher's Python ---- */

/* Returns the path of python3 in the folder of a launcher, which is given by its path or found in PATH; NULL if there
 * is none. The caller frees it. */
static char *find_python_beside(const char *launcher)
{
    const char *slash = strrchr(launcher, '/'), *folder = getenv("PATH");
    if (slash != NULL)
        return mt_program_find_in(launcher, (size_t)(slash - launcher), "python3");
    while (folder != NULL && *folder != '\0') {
        const size_t length = strcspn(folder, ":");
        char *in_folder = mt_program_find_in(folder, length, launcher);
        free(in_folder);
        if (in_folder != NULL)
            return mt_program_find_in(folder, length, "python3");
        folder += length + (folder[length] == ':');
    }
    return NULL;
}

char *mt_launch_find_python(const struct mt_launch *launch)
{
    if (mt_python_is(launch->words[0]))
        return mt_host_strdup(launch->words[0]);
    char *found = find_python_beside(launch->words[0]);
    return found != NULL ? found : mt_host_strdup("python3");
}
