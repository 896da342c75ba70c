/* Readers of launchers' command lines: each reads the words that follow the launcher into a struct mt_launch. They fail
 * with MT_USAGE for options that are not understood.
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"
#include "producers/program/launch.h"

mt_status mt_torchrun_read(char *const *words, struct mt_launch *launch);
mt_status mt_torch_launch_read(char *const *words, struct mt_launch *launch);
mt_status mt_deepspeed_read(char *const *words, struct mt_launch *launch);
mt_status mt_srun_read(char *const *words, struct mt_launch *launch);
mt_status mt_mpirun_read(char *const *words, struct mt_launch *launch);

/* Makes accelerate read its own options. Fails with MT_FAILED if it can't be started. */
mt_status mt_accelerate_read(char *const *words, struct mt_launch *launch);
