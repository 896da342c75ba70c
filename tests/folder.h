/* A folder of a test's own: what it writes is gone with it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Makes a folder that begins with `name` and enters it; the state of the test. */
static inline void *enter_folder(const char *name)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s.XXXXXX", name);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    return strdup(folder);
}

/* Programs that a test has stopped may still write into it, so it is removed again. */
static inline int leave_folder(void **state)
{
    char *folder = *state, command[256];
    assert_int_equal(chdir(".."), 0);
    snprintf(command, sizeof command, "rm -rf %s 2>/dev/null || { sleep 2; rm -rf %s; }", folder, folder);
    assert_int_equal(system(command), 0);
    free(folder);
    return 0;
}

/* Words of a shell script that set `variable` to a text in MEMTRACE_SETTINGS (run/handover.h). */
#define READ_SETTING(variable, name)                                                                                   \
    variable "=$(echo \"$MEMTRACE_SETTINGS\" | sed \"s/.*\\\"" name "\\\": \\\"//;s/\\\".*//\"); "
