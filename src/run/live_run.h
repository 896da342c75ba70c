/* A run in progress: a trace, and the memory whose events it stores.
 *
 *   device ──▶ allocator ──▶ blocks, by address ─┐
 *                                                ├─▶ locked sink ──▶ recorder ──▶ trace
 *   notes of other memory ──▶ foreign memory ────┘
 *
 * A run has an allocator, notes, both or neither: imports emit their own events. The trace may end before the run,
 * since programs free their last tensors after everything else.
 *
 * This is the only place that opens a recorder. */
#pragma once

#include "alloc/alloc.h"
#include "device/card_outside.h"
#include "trace/store/foreign.h"
#include "trace/store/recorder.h"

struct mt_live_run;
struct mt_estimate_range;

/* Which threads call. */
typedef enum mt_live_access {
    MT_LIVE_ONE_THREAD, /* one thread at a time: the sink is the recorder's own, with its entries for kernels and uses */
    MT_LIVE_ANY_THREAD  /* any: calls of the sink take a lock */
} mt_live_access;

/* Borrowed for the call, except for the device, which must outlive the run. */
struct mt_live_settings {
    const char *trace;                     /* NULL: nothing is stored */
    struct mt_run_info info;               /* `device` and `capacity_bytes` are set from the device, if there is one */
    struct mt_device *device;              /* NULL: the run has no allocator */
    const struct mt_alloc_settings *alloc; /* of the allocator */
    bool has_notes;
    mt_live_access access;
    /* The recorder of consecutive runs in one trace; *kept is NULL before the first. The caller closes it. NULL: the
     * run has its own recorder. */
    struct mt_recorder **kept;
};

/* Opens a run. Fails as mt_recorder_open and mt_recorder_begin; then *out is NULL. No other thread may use the run
 * meanwhile. */
mt_status mt_live_run_open(const struct mt_live_settings *settings, struct mt_live_run **out);

/* Ends the trace, but not the run, which other threads may still use. Fails as mt_recorder_close. A second call does
 * nothing. With MT_LIVE_ONE_THREAD, the sink can't be used afterwards. */
mt_status mt_live_run_end_trace(struct mt_live_run *run, mt_run_state state);

/* Destroys the allocator, ends the trace if it has not ended, and frees the run, also after a failure. Live blocks are
 * live at the end of the trace. Fails as mt_recorder_close. `run` may be NULL. No other thread may use the run
 * meanwhile. */
mt_status mt_live_run_close(struct mt_live_run *run, mt_run_state state);

/* Returns the state of a run whose program ended with this status. */
mt_run_state mt_live_run_state(mt_status status);

/* In a forked child, leaves the trace to the parent, like mt_recorder_disown. */
void mt_live_run_disown(struct mt_live_run *run);

/* Returns the sink; if the run has notes and an allocator, the sink of the notes. Borrowed until the run is closed. */
const struct mt_sink *mt_live_run_sink(struct mt_live_run *run);

/* Returns the labels and spans, with the sink's numbers; borrowed until the trace ends. */
const struct mt_interner *mt_live_run_interner(const struct mt_live_run *run);

/* Return the allocator and its device; NULL if the run has none. */
struct mt_alloc *mt_live_run_alloc(const struct mt_live_run *run);
struct mt_device *mt_live_run_device(const struct mt_live_run *run);

/* Returns the run's number in the trace; 0 if nothing is stored. */
int64_t mt_live_run_number(const struct mt_live_run *run);

/* True while events are stored. */
bool mt_live_run_is_traced(const struct mt_live_run *run);

/* Returns the ns since the run was opened. */
uint64_t mt_live_run_now_ns(const struct mt_live_run *run);

/* Store a measurement, a caveat, a setting, the beginning of a program phase, a holder, the reason why the run ended,
 * and memory outside the allocator, like the functions of the recorder and the sink. Do nothing if the trace has
 * ended. */
void mt_live_run_measure(struct mt_live_run *run, const char *name, int64_t step, double value);
void mt_live_run_caveat(struct mt_live_run *run, const struct mt_caveat *caveat);
void mt_live_run_set(struct mt_live_run *run, const char *name, const char *value);
void mt_live_run_program_phase(struct mt_live_run *run, mt_program_phase phase);
void mt_live_run_holder(struct mt_live_run *run, const struct mt_holder *holder);
void mt_live_run_ended_by(struct mt_live_run *run, mt_ended_by reason);
void mt_live_run_outside(struct mt_live_run *run, const struct mt_outside *outside);

/* Adds memory of a part outside the allocator on a simulated card. For NCCL, `ranks` is the size of the communicator;
 * the first communicator counts once. False if the amount is unknown for the card. Any thread. */
bool mt_live_run_hold(struct mt_live_run *run, mt_outside_part part, int ranks);

/* Returns the process's memory on its card outside the allocator: the sum of the parts that were added, at least the
 * context; 0 if the card's context is unknown. */
uint64_t mt_live_run_held_bytes(struct mt_live_run *run);

/* If the trace is open, emits the begin or end of a span or step, or a phase: from the notes, if the run has any, which
 * then number the steps; otherwise from the allocator, with `value`. */
void mt_live_run_mark(struct mt_live_run *run, mt_event_kind kind, uint64_t value, mt_span_id span);

/* ---- blocks of the allocator, by address; any thread ---- */

/* Allocates a block. Fails as mt_alloc_serve. */
mt_status mt_live_run_take(struct mt_live_run *run, const struct mt_alloc_request *request, mt_addr *out);

/* Allocates a block that begins at an address. Fails as mt_alloc_take_at. */
mt_status mt_live_run_take_at(struct mt_live_run *run, const struct mt_alloc_request *request, mt_addr address);

/* The following return false if no block of the allocator begins at the address. */

/* Frees the block. */
bool mt_live_run_give(struct mt_live_run *run, mt_addr address);

/* Says that the next block that the calling thread takes is scratch memory whose bytes are an estimate, or that it
 * takes none if `bytes` is 0. The measurements "bounds:live_less", "bounds:live_more", "bounds:reserved_less" and
 * "bounds:reserved_more" of the run are then by how much its peaks may be lower and higher. */
void mt_live_run_estimate(struct mt_live_run *run, uint64_t bytes, const struct mt_estimate_range *range);

/* Frees the allocator's cached memory. */
void mt_live_run_release_cached(struct mt_live_run *run);

/* Sets *out_bytes to the requested bytes of the block. */
bool mt_live_run_find(struct mt_live_run *run, mt_addr address, uint64_t *out_bytes);

/* Sets *out to the number of the block's stream. */
bool mt_live_run_stream(struct mt_live_run *run, mt_addr address, mt_stream *out);

/* Notes that an operator read or wrote the block. From the first note on, the uses of each block are stored when it is
 * freed or the trace ends. */
typedef enum mt_live_access_kind { MT_LIVE_READ, MT_LIVE_WRITE } mt_live_access_kind;
bool mt_live_run_use(struct mt_live_run *run, mt_addr address, mt_live_access_kind kind);

/* Stops tracking uses, and discards those of live blocks: a kernel may have used any of them. */
void mt_live_run_lose_uses(struct mt_live_run *run);

/* Adds the stream to the block's users, like mt_alloc_use_on. */
bool mt_live_run_use_on(struct mt_live_run *run, mt_addr address, mt_stream stream);

/* Sets *out to the label of the block. */
bool mt_live_run_label(struct mt_live_run *run, mt_addr address, mt_label_id *out);

/* Gives the block another label, like mt_alloc_relabel. */
bool mt_live_run_relabel(struct mt_live_run *run, mt_addr address, mt_label_id label, mt_span_id span);

/* Gives each live block, of the run's allocator or noted, the label that `choose` returns. `choose` calls no function of
 * the run. */
void mt_live_run_relabel_all(struct mt_live_run *run, mt_label_choice choose, void *context);

/* ---- notes of other memory, in a run with notes; any thread. Like the functions of foreign.h, at the current time
 * ---- */

void mt_live_note_take(struct mt_live_run *run, const struct mt_foreign_block *block);
void mt_live_note_give(struct mt_live_run *run, mt_addr address);
bool mt_live_note_relabel(struct mt_live_run *run, mt_addr address, mt_label_id label, mt_span_id span);
void mt_live_note_refusal(struct mt_live_run *run, const struct mt_foreign_block *request);
void mt_live_note_map(struct mt_live_run *run, mt_addr address, uint64_t bytes, uint64_t stream);

/* Returns the number in the trace for a stream of the notes, which may be any number. */
mt_stream mt_live_note_stream(struct mt_live_run *run, uint64_t stream);
void mt_live_note_unmap(struct mt_live_run *run, mt_addr address, uint64_t bytes);

/* Maps memory into a range of addresses that PyTorch reserved (expandable segments). The range becomes one growing
 * segment. */
void mt_live_note_growth(struct mt_live_run *run, mt_addr address, uint64_t bytes, uint64_t stream);

/* Returns the current step; MT_NO_STEP outside steps. */
int64_t mt_live_note_step(struct mt_live_run *run);

struct mt_foreign_counts mt_live_note_counts(struct mt_live_run *run);

/* The sums of the notes. */
struct mt_live_sums {
    uint64_t requested_bytes, allocated_bytes, reserved_bytes;
};
struct mt_live_sums mt_live_note_sums(struct mt_live_run *run);
