/* The entry into Python programs: a folder in PYTHONPATH with a sitecustomize.py. Python runs that file at its start,
 * in the program that `memtrace record` starts and in the interpreters that the program starts. */
#pragma once

#include "base/environment.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Puts the folder in front of PYTHONPATH. Fails with MT_NO_DEVICE if this build has no library for PyTorch, and with
 * MT_FAILED if the package's files are missing. */
mt_status mt_python_start(struct mt_environment *environment);

/* Returns the option of Python that prevents the folder's file from running, "-I", if the program is Python and has
 * one; otherwise NULL. The text is static. */
const char *mt_python_start_refused(char *const *words);

/* Returns the index of the script in the words of a Python program, "python3 -u train.py 8"; 0 if there is none, as
 * with -c and -m, or if the words are not understood. */
size_t mt_python_script(char *const *words);

/* True if the word names a Python interpreter: python, python3, /usr/bin/python3.11. */
bool mt_python_is(const char *word);
