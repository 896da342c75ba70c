#include "record/caller.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { MOST_FRAMES = 32 };

/* True if the library only stands between the caller and us. */
static bool is_between(const Dl_info *where, const char *name)
{
    static const char *const cuda[] = {"libcuda.so", "libcudart.so", "libcupti.so"};
    Dl_info own;
    for (size_t i = 0; i < sizeof cuda / sizeof cuda[0]; i++)
        if (strncmp(name, cuda[i], strlen(cuda[i])) == 0)
            return true;
    return dladdr((void *)mt_caller_library, &own) != 0 && own.dli_fbase == where->dli_fbase;
}

const char *mt_caller_library(void)
{
    void *frames[MOST_FRAMES];
    Dl_info where;
    const int count = backtrace(frames, MOST_FRAMES);
    for (int i = 0; i < count; i++) {
        if (dladdr(frames[i], &where) == 0 || where.dli_fname == NULL)
            continue;
        const char *slash = strrchr(where.dli_fname, '/'), *name = slash != NULL ? slash + 1 : where.dli_fname;
        if (!is_between(&where, name))
            return strstr(name, ".so") != NULL ? name : NULL;
    }
    return NULL;
}
