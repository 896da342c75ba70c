/* memtrace's Python package, which is installed with this program or library: its folder, and its modules as commands.
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"
#include "producers/program/child_program.h"

/* Finds the folder memtrace/start of the package. The caller frees *out. Fails with MT_FAILED if it is missing. */
mt_status mt_package_find(char **out);

/* Runs a module of the package with an interpreter, "python3", and `words`, which end with NULL. It prints to the file
 * `output` or, for MT_OWN_OUTPUT, where this process does. Python imports nothing from the current folder, since its
 * files may be untrusted. *out_code is the exit code. Fails if the package or the interpreter is missing. */
mt_status mt_package_module_run(const char *python, const char *module, const char *const *words, int output,
                                int *out_code);
