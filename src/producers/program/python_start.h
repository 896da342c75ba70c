/* The way into Python programs: a folder in PYTHONPATH, whose sitecustomize.py Python runs at its start, in the program that
 * `memtrace record` starts and in the interpreters that it starts. */
#pragma once

#include "base/environment.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Puts the folder in front of PYTHONPATH. MT_NO_DEVICE if this build has no library for PyTorch, and MT_FAILED if the
 * package's files are not there. */
mt_status mt_python_start(struct mt_environment *environment);

/* Returns the option of Python that keeps the folder's file from being run, "-I", if the program is Python and has one;
 * otherwise NULL. The text is static. */
const char *mt_python_start_refused(char *const *words);

/* Returns the place of the script in the words of a Python program, "python3 -u train.py 8"; 0: the words have none, as with
 * -c and -m, or they are not understood. */
size_t mt_python_script(char *const *words);

/* True if the word is a name of Python's program: python, python3, /usr/bin/python3.11. */
bool mt_python_is(const char *word);
