/* memtrace's Python package, which is installed with this program or library: its folder, and its modules as commands.
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"

/* Finds the folder memtrace/start of the package. The caller frees *out. MT_FAILED if it is not there. */
mt_status mt_package_find(char **out);

/* Runs a module of the package with python3 and `words`, which end with NULL. Python imports nothing from the current
 * folder, since its files may be a stranger's. *out_code is its exit code. Fails if the package or python3 is not there. */
mt_status mt_package_module_run(const char *module, const char *const *words, int *out_code);
