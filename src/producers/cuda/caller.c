#include "producers/cuda/caller.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

enum { MOST_FRAMES = 32 };

/* A walk from the innermost frame outwards. */
struct walk {
    const char *library; /* NULL: not found yet, or the program itself called */
    int frames;          /* that were looked at */
};

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

/* Looks at a frame; ends the walk at the caller. Code that no file holds is passed over. */
static _Unwind_Reason_Code look(struct _Unwind_Context *frame, void *context)
{
    struct walk *walk = context;
    Dl_info where;
    if (++walk->frames > MOST_FRAMES)
        return _URC_END_OF_STACK;
    if (dladdr((void *)(uintptr_t)_Unwind_GetIP(frame), &where) == 0 || where.dli_fname == NULL)
        return _URC_NO_REASON;
    const char *slash = strrchr(where.dli_fname, '/'), *name = slash != NULL ? slash + 1 : where.dli_fname;
    if (is_between(&where, name))
        return _URC_NO_REASON;
    walk->library = strstr(name, ".so") != NULL ? name : NULL;
    return _URC_END_OF_STACK;
}

const char *mt_caller_library(void)
{
    struct walk walk = {0};
    _Unwind_Backtrace(look, &walk);
    return walk.library;
}
