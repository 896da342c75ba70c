/* Budgets of programs in a TOML file: which programs run on which card, and how much of its memory they may need. */
#pragma once

#include "base/text.h"

#define MT_PROGRAM_BUDGETS "memtrace.toml"

/* A budget. Owns its texts. Invariants: words ends with NULL; `--and` separates programs that share the card. */
struct mt_program_budget {
    char *name, *device; /* device: "sim:h100" */
    char **words;        /* an array for MT_HOST_ADD */
    size_t word_count;
    uint64_t limit_bytes; /* for each GPU; 0: the card's memory */
    bool has_program, has_limit, is_strict, has_strict;
};

struct mt_program_budgets {
    struct mt_program_budget *items; /* an array for MT_HOST_ADD */
    size_t count;
};

/* Reads a file. Fails with MT_USAGE if it can't be read, has no budget, or has an error; the text names the line.
 * Release *out in any case. */
mt_status mt_program_budgets_read(const char *path, struct mt_program_budgets *out);
void mt_program_budgets_release(struct mt_program_budgets *budgets);
