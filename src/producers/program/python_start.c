#include "producers/program/python_start.h"

#include "base/memory.h"
#include "base/text.h"
#include "device/module.h"
#include "producers/program/package_module.h"

#include <stdlib.h>
#include <string.h>

#define LIBRARY "libmemtrace_torch.so"

/* True if the package can find the library. */
static bool has_library(void)
{
    char *library = mt_module_find_file(LIBRARY);
    const char *given = secure_getenv("MEMTRACE_TORCH_LIBRARY");
    free(library);
    return library != NULL || (given != NULL && given[0] != '\0');
}

/* Puts a folder in front of PYTHONPATH. */
static void put_first(const char *folder, struct mt_environment *environment)
{
    const char *before = mt_environment_get(environment, "PYTHONPATH");
    struct mt_text value = {0};
    mt_text_add(&value, "%s", folder);
    if (before != NULL && before[0] != '\0')
        mt_text_add(&value, ":%s", before);
    mt_environment_set(environment, "PYTHONPATH", value.data);
    mt_text_release(&value);
}

mt_status mt_python_start(struct mt_environment *environment)
{
    char *folder;
    if (!has_library())
        return mt_fail(MT_NO_DEVICE, LIBRARY ", which PyTorch programs need, is missing: build the whole project");
    MT_TRY(mt_package_find(&folder));
    put_first(folder, environment);
    free(folder);
    return MT_OK;
}

bool mt_python_is(const char *word)
{
    const char *file = strrchr(word, '/');
    const char *name = file != NULL ? file + 1 : word;
    return strncmp(name, "python", 6) == 0 && strspn(name + 6, "0123456789.") == strlen(name + 6);
}

/* Options may be written together: -sI. The value of -c, -m, -W or -X is the rest of the word, or else the next
 * word. */
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

size_t mt_python_script(char *const *words)
{
    if (!mt_python_is(words[0]))
        return 0;
    for (size_t i = 1; words[i] != NULL; i++) {
        const char *word = words[i];
        if (word[0] != '-')
            return i;
        const size_t flags = 1 + strspn(word + 1, "bBdOPqsuvx");
        if (word[1] == '\0' || (word[flags] != '\0' && word[flags] != 'W' && word[flags] != 'X'))
            return 0;
        i += word[flags] != '\0' && word[flags + 1] == '\0' && words[i + 1] != NULL; /* the value is the next word */
    }
    return 0;
}
