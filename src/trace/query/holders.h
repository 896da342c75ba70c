/* The holders of a run's allocations, and the phases of its program. As trace.h says of ownership, failures and
 * threads. */
#pragma once

#include "trace/query/trace.h"
#include "trace/store/holder.h"
#include "trace/store/program_phase.h"

/* A holder, and the allocations of it that were stored: the largest ones. */
struct mt_holder_row {
    const char *kind, *name, *owner, *file; /* as struct mt_holder */
    int64_t line;                           /* 0: not known */
    uint64_t held_bytes;                    /* that would be free without it */
    const char *loop_file;                  /* of the loop in which it grows; "": it was found otherwise */
    int64_t loop_line;                      /* 0: the same */
    int64_t event;                          /* event.id of the first of the allocations */
    uint64_t first_bytes;                   /* that it requested */
    const char *op, *phase; /* the op of the first, and the program phase of the last, "" if it is not known */
    const char *role;       /* of the first, the last that it had; "": not known */
    bool is_in_module;      /* a module's forward allocated the first */
    bool is_freed;          /* the first is not live at the end of the last full step */
    const char *taken_at;   /* the line of the program that asked for it: "val.py:13"; "": not recorded */
};

/* Reads the holders, those that keep most first. */
mt_status mt_trace_holders(struct mt_trace *trace, const struct mt_run *run, struct mt_holder_row **out_rows,
                           size_t *out_count);

/* Sets out[i] to that one of `holders`, all of the run, which has the block that events[i] allocated; NULL: its holder
 * is not known. Of several, the last that was found. */
mt_status mt_trace_holders_of(struct mt_trace *trace, const struct mt_run *run, const struct mt_holder_row *holders,
                              size_t holder_count, const int64_t *events, size_t count,
                              const struct mt_holder_row **out);

/* What a checkpoint holds on the card at one moment. */
struct mt_loaded_row {
    uint64_t bytes, blocks; /* allocated */
    const char *taken_at;   /* the line of the program that loaded the largest block: "train.py:7" */
};

/* Reads the blocks that are live after `event`, that PyTorch or safetensors allocated while they read a file, and that
 * never become parameters, buffers or optimizer state. Zero if call stacks were not recorded. */
mt_status mt_trace_loaded(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_loaded_row *out);

/* A phase of the program over all times that it was entered. */
struct mt_program_phase_row {
    const char *name;
    uint64_t count;   /* of times */
    uint64_t bytes;   /* the most that was allocated in it */
    int64_t event;    /* that reached it first */
    int64_t step;     /* of that event; -1: before the first */
    uint64_t time_ns; /* the same, on the device's clock */
};

/* Reads the phases, in the order in which they were first entered. None if the program was not followed. */
mt_status mt_trace_program_phases(struct mt_trace *trace, const struct mt_run *run,
                                  struct mt_program_phase_row **out_rows, size_t *out_count);

/* One time that the program entered a phase, which lasts until it enters the next. */
struct mt_phase_entry_row {
    int64_t event; /* the first in it */
    const char *name;
};

/* Reads the times that the program entered a phase, in order. None if the program was not followed. */
mt_status mt_trace_phase_entries(struct mt_trace *trace, const struct mt_run *run, struct mt_phase_entry_row **out_rows,
                                 size_t *out_count);
