/* Parts of the program that are shared libraries of their own, opened when they are asked for, so that the program also
 * starts on a machine that lacks what they need. They see the program's own functions: errors that a module records with
 * mt_fail are the program's. */
#ifndef MT_DEVICE_MODULE_H
#define MT_DEVICE_MODULE_H

#include "base/status.h"

/* Finds the function `symbol` of the module `file` ("libmemtrace_cuda.so"), which lies beside the program, in the folder
 * above it (where a build has its tests), in ../lib/memtrace of an installation, or where the loader looks. An opened
 * module stays. MT_NO_DEVICE, with the loader's words, if there is none or something that it needs is missing. */
mt_status mt_module_find(const char *file, const char *symbol, void **out_function);

#endif
