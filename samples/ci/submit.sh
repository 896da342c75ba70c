#!/bin/sh
# Usage: submit.sh CARD PROGRAM [ARGS]
#
# Submits a program to Slurm if it fits the card, with the GPUs that it needs. Nothing is queued if it does not fit (exit code 1),
# can't be run dry (8), or if something that could take memory is unknown (9).
set -eu
card=$1
shift
gpus=$(memtrace fit --strict --as slurm --device "sim:$card" -- "$@")
# shellcheck disable=SC2086 # options, one a word
sbatch $gpus --wrap "exec $(printf "'%s' " "$@")"
