/* Modules: shared libraries that are opened when needed. So memtrace and the library also start on a machine without
 * the libraries that a module needs.
 *
 *   program or libmemtrace.so ──mt_module_attach(host)──▶ module, with its own copy of src/base
 *                             ◀─────error_text, find────  its errors are the opener's, and it finds other modules
 *
 * A module without mt_module_attach uses functions of the program, which must export them. */
#pragma once

#include "base/status.h"

/* The functions of its opener that a module uses. */
struct mt_module_host {
    char *(*error_text)(void);                                                    /* like mt_error_text */
    mt_status (*find)(const char *file, const char *symbol, void **out_function); /* like mt_module_find */
};
#define MT_MODULE_ATTACH_NAME "mt_module_attach"
typedef void mt_module_attach_function(const struct mt_module_host *host);

/* Opens the module `file` ("libmemtrace_cuda.so"), attaches it, and finds its function `symbol`. Searches only in the
 * folder of the program or library that contains this code, and in ../lib/memtrace for a program, memtrace/ and
 * ../memtrace for a library. Does not search the folder of another program that uses the library, or the loader's
 * paths. The module stays open. If two parts of a process attach it, the last one gets its errors. Fails with
 * MT_NO_DEVICE and the loader's message if the module or a library that it needs is missing. */
mt_status mt_module_find(const char *file, const char *symbol, void **out_function);

/* Finds a file of the installation or build in the same folders. Returns its path, which the caller frees; NULL if
 * there is none. */
char *mt_module_find_file(const char *file);
