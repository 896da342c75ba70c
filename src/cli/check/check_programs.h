/* Checks programs against the budgets of a TOML file, by a dry run of each. */
#pragma once

#include "base/status.h"

#include <stdbool.h>

struct mt_programs_check {
    const char *path;    /* of the budgets */
    const char *summary; /* a file to append Markdown to; NULL: none */
    bool annotates, json;
};

/* Prints whether each budget is met. Fails with MT_USAGE for a file with errors, with MT_NO_DEVICE for an unknown card,
 * and if a budget is not met, with the status of the first such budget (mt_card_need_answer). */
mt_status mt_programs_check_answer(const struct mt_programs_check *check);
