/* The plan that a run follows: where each of its blocks will lie, found by simulating its first steps. */
#ifndef MT_ANALYSIS_PLACEMENT_H
#define MT_ANALYSIS_PLACEMENT_H

#include "alloc/plan.h"
#include "analysis/session.h"

/* Simulates the run on a device that is never full, until two steps in a row make the same requests, and packs those:
 * what comes out is the same for every device. Takes well under a second for most runs, and about one for the largest;
 * reads no file of tokens. MT_USAGE if the steps do not repeat: then *out is NULL. The caller destroys it. */
mt_status mt_placement_find(const struct mt_run_plan *run, struct mt_plan **out);

/* Finds it, and has `alloc`, from which nothing was taken yet, follow it. MT_OUT_OF_MEMORY if the device of `alloc` has no
 * room: where it fails *out is NULL, and whoever asked may go on without a plan. *out outlives `alloc`; the caller
 * destroys it. */
mt_status mt_placement_follow(const struct mt_run_plan *run, struct mt_alloc *alloc, struct mt_plan **out);

#endif
