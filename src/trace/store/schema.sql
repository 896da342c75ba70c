-- The tables of a trace. docs/schema.md explains every column to readers who write their own SQL.
--
-- One file holds many runs. Only one process writes a file at a time, so the events of a run are contiguous:
-- run.first_event <= event.id < run.first_event + run.event_count, and no query of one run reads another's rows.
--
-- A table that a trace of an older program lacks is added when the trace is next opened for writing. Views are in
-- trace_format.c.
--
-- The tables from summary_peak on can be derived from the events. They are written when a run ends (or is recovered
-- after a crash), by the same code that a reader uses for a run that is still being written. Segments, steps,
-- checkpoints and the peaks and categories of steps that are over are written as they come.

CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY,          -- from 1, newest last
    name TEXT,                       -- as given by --name, or NULL
    state TEXT NOT NULL,             -- running, done, failed, oom, interrupted (its process died; recovered from the ring),
                                     -- damaged (and the ring, or later the file, had not all of it any more)
    started_at TEXT NOT NULL,        -- recording time, UTC, ISO 8601
    device TEXT NOT NULL,            -- "sim:h200"
    capacity_bytes INTEGER NOT NULL, -- of the device
    first_event INTEGER NOT NULL,    -- event.id of its first event
    event_count INTEGER NOT NULL,    -- rows stored so far
    ring_position INTEGER NOT NULL,  -- records of the ring that are stored
    lost_events INTEGER NOT NULL,    -- emitted after the writer had failed; 0 unless state is failed
    stall_count INTEGER NOT NULL,    -- how often the producer waited for the ring
    stall_ns INTEGER NOT NULL,       -- and for how long altogether
    complete_from_bytes INTEGER NOT NULL, -- summary_allocation has every allocation of at least this size; 0: every one
    missing_records INTEGER,         -- after the stored ones, that could not be read: of the ring, or of a salvaged trace
    rank INTEGER,                    -- of the process in its job, from 0; NULL: it is no rank
    local_rank INTEGER,              -- on its host
    world_size INTEGER,              -- processes of the job
    host TEXT,                       -- that recorded the run; NULL: it was imported
    job TEXT,                        -- the same for all ranks of a job; NULL: not known
    pid INTEGER,                     -- of the process that recorded it; NULL: it was imported
    ended_by TEXT                    -- program, settled, steps, time limit, signal, error, out of memory, growth, values,
                                     -- caught; NULL: not known
);

-- Settings of the run: "model" = "2.7B", "batch" = "4", "alloc" = "policy=tight", …
CREATE TABLE IF NOT EXISTS setting (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;

-- Measurements of the run: "loss", "step_ms", "phase_ms:<phase>" by step, "memory:<reading>", "grad_norm:<parameter>".
CREATE TABLE IF NOT EXISTS measurement (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    step INTEGER NOT NULL,
    value REAL,
    PRIMARY KEY (run, name, step)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS span (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1; 0 is the root and has no row
    parent INTEGER NOT NULL,
    name TEXT NOT NULL,              -- "w1"
    path TEXT NOT NULL,              -- "model.layers.7.ffn.w1"
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS label (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1, in the order in which they came up
    category TEXT NOT NULL,
    role TEXT NOT NULL,
    op TEXT NOT NULL,
    span INTEGER NOT NULL,
    phase TEXT NOT NULL,
    layer INTEGER,                   -- NULL outside of a layer
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,             -- "4,256,2560"; "" for a scalar
    role_source TEXT,                -- declared, observed, inferred; NULL: stored by an older program
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- Everything the allocator did, in order. Columns that a kind does not name are NULL.
CREATE TABLE IF NOT EXISTS event (
    id INTEGER PRIMARY KEY,
    time_ns INTEGER NOT NULL,        -- the device's clock, from the start of the run
    kind INTEGER NOT NULL,           -- event_kind.id
    stream INTEGER NOT NULL,
    label INTEGER,                   -- alloc, free, oom, relabel
    span INTEGER,                    -- span_begin, span_end; of alloc, oom and relabel only where it is not the label's
    requested_bytes INTEGER,         -- alloc, free, oom, relabel: as asked; of step and phase kinds, their number
    block_bytes INTEGER,             -- alloc, free, relabel: as handed out; segment kinds: what was taken or given back
    segment INTEGER,                 -- alloc and segment kinds: birth number, from 0
    offset INTEGER,                  -- alloc and segment kinds: in the segment
    allocation INTEGER,              -- free, relabel: event.id of the alloc of the block
    stack INTEGER                    -- alloc, oom: stack.id of the request; NULL: not recorded
);

-- The events of each transaction of the writer, with a checksum over their rows.
CREATE TABLE IF NOT EXISTS batch (
    run INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (run, first_event)
) WITHOUT ROWID;

-- The blocks whose label changed, with the event and the new label.
CREATE INDEX IF NOT EXISTS event_relabel ON event (allocation) WHERE kind = 10;

-- Call stacks of requests: a stack is its innermost frame and the stack of its caller, so that equal beginnings are stored
-- once.
CREATE TABLE IF NOT EXISTS frame (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1
    function TEXT NOT NULL,
    file TEXT NOT NULL,              -- "": not known
    line INTEGER NOT NULL,           -- 0: not known
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS stack (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1
    parent INTEGER NOT NULL,         -- stack.id of the caller; 0: nothing called the frame
    frame INTEGER NOT NULL,          -- frame.id
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- Memory outside of the allocator: what a holder has in all from that moment on, measured or, of a simulated card, estimated.
CREATE TABLE IF NOT EXISTS outside (
    run INTEGER NOT NULL,
    event INTEGER NOT NULL,          -- the last event before; run.first_event - 1: the run's beginning
    time_ns INTEGER NOT NULL,        -- of that event
    kind TEXT NOT NULL,              -- context, library, nccl, other
    name TEXT NOT NULL,              -- of the holder; "" for all of the kind
    bytes INTEGER NOT NULL,
    PRIMARY KEY (run, event, kind, name)
) WITHOUT ROWID;

-- Facts that make the figures of a run less than complete or less than certain. Numbers are NULL where they say nothing.
CREATE TABLE IF NOT EXISTS caveat (
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,              -- shortened, not_run, unknown, estimated, assumed, growth, weights, choice, other_card
    name TEXT NOT NULL,              -- what was cut, the call, the operator, how a value left its tensor
    file TEXT NOT NULL,              -- "": not known
    line INTEGER NOT NULL,           -- 0: not known
    count INTEGER,                   -- pieces done, calls, reads, variants that differ; of growth, the iteration that fills the card
    total INTEGER,                   -- pieces or variants that there are
    bytes INTEGER,                   -- of the operator's results; of growth, an iteration
    value REAL,                      -- that was assumed
    PRIMARY KEY (run, kind, name, file, line)
) WITHOUT ROWID;

-- Parts of the program: load, train, validate, generate, save; of serving engines also profile, capture, serve.
CREATE TABLE IF NOT EXISTS program_phase (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1
    name TEXT NOT NULL,
    first_event INTEGER NOT NULL,
    last_event INTEGER,              -- NULL: the run ended within it
    begin_ns INTEGER NOT NULL,       -- the clock of event.time_ns
    end_ns INTEGER,
    peak_bytes INTEGER,              -- the most that was allocated in it
    peak_event INTEGER,              -- the event that reached it first
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- Private memory pools, which share no segments with other allocations.
CREATE TABLE IF NOT EXISTS pool (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1; segment.pool
    kind TEXT NOT NULL,              -- graph: of CUDA graphs; user: a MemPool of the program
    name TEXT NOT NULL,
    first_event INTEGER NOT NULL,
    last_event INTEGER,              -- NULL: it was there when the run ended
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- Who keeps an allocation alive.
CREATE TABLE IF NOT EXISTS holder (
    run INTEGER NOT NULL,
    allocation INTEGER NOT NULL,     -- event.id of the alloc
    id INTEGER NOT NULL,             -- from 1, among the holders of the allocation
    kind TEXT NOT NULL,              -- variable, attribute, closure, cycle, graph, view
    name TEXT NOT NULL,
    owner TEXT NOT NULL,             -- the function, object or module that has it; "": not known
    file TEXT NOT NULL,              -- "": not known
    line INTEGER NOT NULL,           -- 0: not known
    held_bytes INTEGER NOT NULL,     -- that would be free without this holder
    loop_file TEXT,                  -- of the loop in which it grows; "": none
    loop_line INTEGER,               -- 0: none
    PRIMARY KEY (run, allocation, id)
) WITHOUT ROWID;

-- Changes of the program that would save memory, the best first.
CREATE TABLE IF NOT EXISTS finding (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1
    detector TEXT NOT NULL,          -- that found it
    subject TEXT NOT NULL,           -- the allocations or the setting that it is about
    change TEXT NOT NULL,
    cost TEXT NOT NULL,              -- in speed; "": none
    saved_bytes INTEGER,             -- at the peak; NULL: not known
    tried TEXT,                      -- replay, dry run; NULL: it was not tried
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- Kernels that ran on the GPU, if kernels were watched, by start.
CREATE TABLE IF NOT EXISTS kernel (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1
    start_ns INTEGER NOT NULL,       -- the clock of event.time_ns
    duration_ns INTEGER NOT NULL,
    name INTEGER NOT NULL,           -- kernel_name.id
    label INTEGER,                   -- label.id of the op that launched it; NULL: launched by nobody that is known
    step INTEGER,                    -- that launched it; NULL: none, as before the first
    stream INTEGER NOT NULL,         -- the driver's number
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS kernel_name (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,             -- from 1, in the order in which they came up
    name TEXT NOT NULL,              -- in full, with its template arguments
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- Uses of a block by the ops of the program, stored when it was freed. Moments: the event before the use.
CREATE TABLE IF NOT EXISTS block_use (
    allocation INTEGER PRIMARY KEY,  -- event.id of its alloc
    reads INTEGER NOT NULL,          -- times that an op read it
    writes INTEGER NOT NULL,         -- and wrote it
    first_use INTEGER,               -- event.id; NULL: never used
    last_use INTEGER,
    idle_from INTEGER,               -- the longest pause between two uses; NULL: none
    idle_to INTEGER,
    copied_from INTEGER,             -- event.id of the alloc of that of which it is a copy in another precision
    unread INTEGER NOT NULL          -- 1: what was written last was read by nobody
);

CREATE TABLE IF NOT EXISTS event_kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL);

-- Segments by birth number; an address is segment.address + event.offset. A segment may grow, shrink and have gaps: its
-- bytes reach to the end of the last part that ever had memory. Table segment_part has these parts.
CREATE TABLE IF NOT EXISTS segment (
    run INTEGER NOT NULL,
    id INTEGER NOT NULL,
    address INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    mapped_event INTEGER NOT NULL,   -- that began it
    unmapped_event INTEGER,          -- that ended it; NULL: still mapped when the run ended
    pool INTEGER,                    -- pool.id; NULL: the default pool
    card INTEGER,                    -- CUDA's number of the card; NULL: the run's one card
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- Parts of segments, each mapped by one event and unmapped by one, or never. Memory that is unmapped in pieces is a part
-- for each piece. Parts that had memory at the same time do not overlap; the sum of their bytes is the reserved memory.
CREATE TABLE IF NOT EXISTS segment_part (
    run INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    offset INTEGER NOT NULL,         -- in the segment
    mapped_event INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    unmapped_event INTEGER,          -- NULL: still mapped when the run ended
    PRIMARY KEY (run, segment, offset, mapped_event)
) WITHOUT ROWID;

-- Steps by number. Events of the step: first_event <= id <= last_event.
CREATE TABLE IF NOT EXISTS step (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    last_event INTEGER,              -- NULL: the run ended within it
    begin_ns INTEGER NOT NULL,
    end_ns INTEGER,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;

-- The live blocks at some events, so that the state at any event is one checkpoint and a few thousand rows away.
-- live: unsigned LEB128 numbers, ascending ids of live allocs as differences, the first from run.first_event.
CREATE TABLE IF NOT EXISTS checkpoint (
    run INTEGER NOT NULL,
    event INTEGER NOT NULL,          -- the state after this event
    live BLOB NOT NULL,
    PRIMARY KEY (run, event)
) WITHOUT ROWID;

-- Peaks of the whole run (step -2), of what precedes the first step (-1) and of each step. Events between two steps count
-- with the earlier one.
CREATE TABLE IF NOT EXISTS summary_peak (
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,           -- -2: the whole run
    measure TEXT NOT NULL,           -- allocated, requested, reserved
    bytes INTEGER NOT NULL,
    event INTEGER NOT NULL,          -- the event that reached it first
    PRIMARY KEY (run, step, measure)
) WITHOUT ROWID;

-- The live blocks there, by category. The sum of allocated_bytes (of measure requested: requested_bytes) is the peak; of
-- measure reserved, the rest up to it was cached.
CREATE TABLE IF NOT EXISTS summary_peak_category (
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    measure TEXT NOT NULL,
    category TEXT NOT NULL,
    allocated_bytes INTEGER NOT NULL,
    requested_bytes INTEGER NOT NULL,
    blocks INTEGER NOT NULL,
    PRIMARY KEY (run, step, measure, category)
) WITHOUT ROWID;

-- The same by role.
CREATE TABLE IF NOT EXISTS summary_peak_role (
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    measure TEXT NOT NULL,
    role TEXT NOT NULL,
    allocated_bytes INTEGER NOT NULL,
    requested_bytes INTEGER NOT NULL,
    blocks INTEGER NOT NULL,
    PRIMARY KEY (run, step, measure, role)
) WITHOUT ROWID;

-- Allocations by step (-1: before the first), phase and category.
CREATE TABLE IF NOT EXISTS summary_category (
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    phase TEXT NOT NULL,
    category TEXT NOT NULL,
    count INTEGER NOT NULL,
    total_bytes INTEGER NOT NULL,    -- requested
    max_bytes INTEGER NOT NULL,      -- requested
    PRIMARY KEY (run, step, phase, category)
) WITHOUT ROWID;

-- Allocations by label and size, complete for sizes from run.complete_from_bytes on.
CREATE TABLE IF NOT EXISTS summary_allocation (
    run INTEGER NOT NULL,
    requested_bytes INTEGER NOT NULL,
    label INTEGER NOT NULL,
    count INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    PRIMARY KEY (run, requested_bytes, label)
) WITHOUT ROWID;
