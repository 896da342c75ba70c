/* Records a program while it runs: CUDA's calls by a library that the driver loads into its processes, PyTorch's
 * allocator by memtrace's Python package.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/program_outcome.h"

#include <stdbool.h>

/* How a program is recorded. Its texts are borrowed. */
struct mt_recorded_program {
    char *const *words; /* the program and its arguments, ending with NULL */
    const char *python; /* the interpreter of a script; NULL: the user's (program_words.h) */
    const char *trace;  /* that its runs are added to */
    const char *name;   /* of the runs; NULL: none */
    const char *step;   /* prefix of the names of NVTX ranges that are steps; NULL: no range is */
    bool watches_kernels;
    bool leaves_torch;   /* PyTorch's allocator is not watched */
    bool leaves_stacks;  /* PyTorch's call stacks and operators are not recorded */
    bool finds_holders;  /* holders of allocations are searched */
    bool uses_our_alloc; /* instead of PyTorch's allocator */
    int device;          /* the GPU whose memory is counted; MT_EVERY_DEVICE: all */
};

/* Receives events while a program is recorded. */
struct mt_recorded_observer {
    void *context;
    /* Receives a sentence about something that is not recorded. */
    void (*note)(void *context, const char *text);
    /* Called before the program starts, with the trace's absolute path, if the trace can be written. May be NULL. */
    void (*begins)(void *context, const char *trace);
};

/* Runs the program, even if it can't be recorded; then out->path is NULL. Fails if it can't be started; then
 * out->code is set as by mt_child_start. Release *out in any case. */
mt_status mt_recorded_program_run(const struct mt_recorded_program *program, int output,
                                  const struct mt_recorded_observer *observer, struct mt_program_outcome *out);
