/* Modules: shared libraries that the program and the library open when they are needed. So both also start on a machine
 * that lacks the libraries that a module needs.
 *
 *   program or libmemtrace.so ──mt_module_attach(host)──▶ module, with a copy of src/base of its own
 *                             ◀─────error_text, find────  its errors are the opener's, and it finds other modules
 *
 * A module without mt_module_attach uses the functions of the program, which has to export them. */
#pragma once

#include "base/status.h"

/* The functions of its opener that a module uses. */
struct mt_module_host {
    char *(*error_text)(void);                                                    /* as mt_error_text */
    mt_status (*find)(const char *file, const char *symbol, void **out_function); /* as mt_module_find */
};
#define MT_MODULE_ATTACH_NAME "mt_module_attach"
typedef void mt_module_attach_function(const struct mt_module_host *host);

/* Opens the module `file` ("libmemtrace_cuda.so"), attaches it, and finds its function `symbol`. Looks beside
 * the program or library that this code is part of, and in ../lib/memtrace of a program, memtrace/ and ../memtrace of a library, and
 * nowhere else: not where the program lies that uses the library, and not where the loader looks. The module stays open. If two parts of a process attach it, the last one gets its errors. Fails with MT_NO_DEVICE and the
 * loader's message if the module or a library that it needs is missing. */
mt_status mt_module_find(const char *file, const char *symbol, void **out_function);

/* Finds a file of the installation or build in the same folders. Returns a new text with its path; NULL if none has it. */
char *mt_module_find_file(const char *file);
