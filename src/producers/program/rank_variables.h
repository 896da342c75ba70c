/* The variables that give a process its rank, as torchrun, DeepSpeed, Slurm, or Open MPI and MPICH set them.
 *
 * Threads: any, one at a time for an environment. */
#pragma once

#include "base/environment.h"
#include "producers/program/launcher_words.h"

/* Removes the variables of all launchers: memtrace itself may run as a rank of a job. */
void mt_rank_variables_clear(struct mt_environment *environment);

/* Sets the variables of a rank, of `ranks` ranks, `per_node` on each node. */
void mt_rank_variables_set(mt_rank_style style, int64_t rank, int64_t ranks, int64_t per_node,
                           struct mt_environment *environment);
