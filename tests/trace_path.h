/* A trace of each test's own: its path, in a folder that is made before the test and removed after it. */
#pragma once

#include "recorder_fixture.h"

static char path[FIXTURE_PATH_BYTES];

static inline int set_up(void **state)
{
    (void)state;
    fixture_path(path);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    fixture_remove(path);
    return 0;
}
