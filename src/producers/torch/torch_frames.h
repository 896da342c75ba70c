/* The frames of Python's interpreter, read from its memory without its lock.
 *
 *   thread state ──▶ frame ──previous──▶ frame ──previous──▶ …     innermost first
 *                      ├─ code object: function, file, first line, instructions
 *                      └─ the instruction that runs
 *
 * PyTorch allocates under its own lock, mostly without Python's lock; waiting for Python's lock there could deadlock.
 * But while a thread runs our code, it changes none of its frames, and their code objects stay alive. So nothing is
 * locked, and no reference is counted.
 *
 * Offsets of fields are known for CPython 3.9 to 3.12; 3.13 and 3.14 export them (_Py_DebugOffsets).
 * As they are no interface, python/memtrace/recording/stacks.py compares a walk with Python's answers before the first
 * is used.
 *
 * Threads: any; each walks its own frames. */
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* Outer frames beyond this depth are left out. */
enum { MT_TORCH_MOST_CALLS = 1024 };

/* A frame. Valid while it runs or waits for a call that it made. */
struct mt_torch_frame {
    const char *code;    /* the code object */
    int32_t instruction; /* its offset in the code, in bytes */
};

/* A walk. Invariants: depth <= MT_TORCH_MOST_CALLS; frames[0 .. depth) are set, the innermost first; equal stacks have
 * an equal hash, also in a later walk. */
struct mt_torch_stack {
    uint64_t hash;
    uint32_t depth;
    bool has_caller; /* frames of another thread may be among them: torch_stack.h */
    struct mt_torch_frame frames[MT_TORCH_MOST_CALLS];
};

/* Finds Python 3.`minor` in this process. Fails with MT_NO_DEVICE if its layout is unknown. */
mt_status mt_torch_frames_find(int minor);

/* Walks the frames of the calling thread. Finds none if the thread runs no Python. Costs some 5 ns a frame. */
void mt_torch_frames_walk(struct mt_torch_stack *out);

/* Stores the innermost `most` frames of the calling thread, and returns how many there are. */
uint32_t mt_torch_frames_top(struct mt_torch_frame *out, uint32_t most);

/* Returns a frame's line. */
int mt_torch_frame_line(const struct mt_torch_frame *frame);

/* Appends the name of a frame's function and its file, and returns its line. Allocates no Python memory. */
int mt_torch_frame_describe(const struct mt_torch_frame *frame, struct mt_text *function, struct mt_text *file);
