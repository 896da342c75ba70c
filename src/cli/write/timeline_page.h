/* The page of `memtrace timeline`, for commands that have just added a run. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* Writes the page of a run, and notes its path. */
mt_status mt_timeline_page_write(const char *trace, int64_t run, const char *path);
