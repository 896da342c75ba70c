/* The command lines of launchers, which start one process for each rank of a program.
 *
 *   torchrun --nnodes 4 --nproc-per-node 8 train.py     srun -n 16 --ntasks-per-node 8 python train.py
 *   accelerate launch --num_processes 8 train.py        mpirun -np 8 --map-by ppr:4:node python train.py
 *   deepspeed --num_gpus 8 train.py
 *
 * Launchers are recognized by the names of their programs, also with a path, and by the names of their Python modules.
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"
#include "producers/program/launch.h"

/* True if the words start a launcher. */
bool mt_launcher_is(char *const *words);

/* True if the words start a program that must be Python: a script, an interpreter, a launcher. */
bool mt_launch_is_python(char *const *words);

/* Reads the words of a program. `cards` is the number of cards of a node, 0 if unknown. Fails with MT_USAGE for options
 * that are not understood, and with MT_FAILED if accelerate, which reads its own options, can't be started. Release
 * *out in any case. */
mt_status mt_launch_read(char *const *words, int64_t cards, struct mt_launch *out);
void mt_launch_release(struct mt_launch *launch);

/* Returns the Python that the launcher runs under. The caller frees it. */
char *mt_launch_find_python(const struct mt_launch *launch);
