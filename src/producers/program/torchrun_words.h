/* The command line of torchrun, also as `python3 -m torch.distributed.run` or its older name `launch`.
 *
 * Threads: any. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { MT_MOST_RANKS = 1 << 20 };

/* The options of torchrun that matter for a dry run. Of another program, the script is the program, and is_plain is true. */
struct mt_torchrun {
    int64_t nodes, per_node; /* 0: not given */
    bool is_module;          /* -m: the script is a module */
    bool is_plain;           /* the script is started without Python */
    char *const *script;     /* and its arguments; in the words that were read */
};

/* True if the words start torchrun. */
bool mt_torchrun_is(char *const *words);

/* Reads the words of a program. MT_USAGE for options of torchrun that can't be understood. Borrows the words. */
mt_status mt_torchrun_read(char *const *words, struct mt_torchrun *out);
