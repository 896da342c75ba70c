/* A setting of a run, as the trace stores it. */
#pragma once

struct mt_run_setting {
    const char *name, *value;
};
