/* Parts of the program, and of the library, that are shared libraries of their own, opened when they are asked for, so
 * that what opens them also starts on a machine that lacks what they need.
 *
 *   program or libmemtrace.so ──mt_module_attach(host)──▶ module, with a copy of src/base of its own
 *                             ◀──────────error_text───── so that an error that it records is its opener's
 *
 * A module that has no mt_module_attach uses the program's own functions, and takes a program that exports them. */
#ifndef MT_DEVICE_MODULE_H
#define MT_DEVICE_MODULE_H

#include "base/status.h"

/* What a module takes from who opens it. */
struct mt_module_host {
    char *(*error_text)(void); /* as mt_error_text */
};
#define MT_MODULE_ATTACH_NAME "mt_module_attach"
typedef void mt_module_attach_function(const struct mt_module_host *host);

/* Finds the function `symbol` of the module `file` ("libmemtrace_cuda.so") and attaches the module. It lies beside the
 * program, in the folder above it (where a build has its tests), in ../lib/memtrace of an installation; or beside the
 * library that this code is part of, in memtrace/ there, or in ../memtrace; or where the loader looks. An opened module
 * stays; if two parts of a process attach it, errors are told to the last one. MT_NO_DEVICE, with the loader's words, if there is none or something that it needs is missing. */
mt_status mt_module_find(const char *file, const char *symbol, void **out_function);

#endif
