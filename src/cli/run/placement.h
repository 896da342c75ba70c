/* The plan that a run follows: where each of its blocks will lie, found by simulating its first steps. */
#ifndef MT_CLI_PLACEMENT_H
#define MT_CLI_PLACEMENT_H

#include "alloc/plan.h"
#include "cli/run/run_session.h"

/* Simulates the run on a device that is never full, until two steps in a row make the same requests, and packs those.
 * Takes well under a second for most, and about one for the largest. No file of tokens is read. MT_USAGE if the steps do
 * not repeat; whoever asked may go on without a plan. The caller destroys *out, which is NULL where there is none. */
mt_status mt_placement_plan(const struct mt_run_plan *run, struct mt_plan **out);

#endif
