/* Does the gate close? A check of runs of which it is known what they do. */
#ifndef MT_CLI_CHECK_SELF_TEST_H
#define MT_CLI_CHECK_SELF_TEST_H

#include "cli/command.h"

/* Records a run that leaks and runs that do not, in a folder that is removed again, checks them against budgets that
 * they just keep and just miss, and prints what came of each. MT_FAILED if the leak was found and every budget closed
 * where it must: the check of a run that leaks fails, and that is what works. MT_OK if something was let through, or
 * stopped without a reason. MT_USAGE if the runs could not be recorded. Of the options, only json counts. */
mt_status mt_check_self_test(const struct mt_trace_options *options);

#endif
