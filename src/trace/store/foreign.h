/* Converts another program's memory operations to our events, for a sink. The program is recorded, or its file
 * imported.
 *
 *   map, unmap ──▶ pieces of memory by address ─┐
 *   take, give ──▶ live blocks by address ──────┴─▶ segment_map, alloc, free, … ──▶ sink
 *
 * The events obey base/event.h for any calls: sequences from 0, births from 0, times that never go back, blocks that
 * are in memory of one segment and do not overlap. If calls contradict each other, since some were lost, the later one
 * counts, and the contradiction is counted (struct mt_foreign_counts):
 *
 *   a block or memory where a block is     the block ended, its free was lost
 *   memory where memory is                 the older memory ended, its unmap was lost
 *   a block where not all is mapped        gets a separate segment, which is unmapped with it
 *   a free or unmap of an unknown one      nothing happens
 *
 * Mapped memory is a separate segment, except in a reserved range: there it is one segment, which grows and shrinks and
 * ends with its last byte. So cudaMalloc and PyTorch's segments are only mapped; an expandable segment, or an address
 * range of cuMemAddressReserve, is reserved first; an allocation of a program without an allocator is only taken, and
 * becomes a segment with one block.
 *
 * The caller interns labels and spans through the sink before it uses them here.
 *
 * A call costs the logarithm of the number of live blocks, some 100 ns. Threads: one at a time, including the sink's
 * other callers. */
#pragma once

#include "base/sink.h"

struct mt_foreign;

/* The end of addresses, since columns are signed. */
#define MT_FOREIGN_MOST_ADDRESS ((mt_addr)INT64_MAX)

/* A block that the program allocated. */
struct mt_foreign_block {
    mt_addr address;
    uint64_t requested_bytes;
    uint64_t block_bytes; /* with rounding and remainders; at least requested_bytes is used */
    uint64_t stream;      /* any number, different for each stream; 0: the default stream */
    mt_label_id label;    /* not 0 */
    mt_span_id span;      /* of the request; 0: the root */
    mt_stack_id stack;    /* of the request; 0: not known */
};

/* The number of calls, and of calls that contradict others. All but the first group are 0 for a complete recording. */
struct mt_foreign_counts {
    uint64_t takes, gives, maps, unmaps; /* calls */

    uint64_t unseen_gives;    /* of no live block: allocated before the recording, or freed twice */
    uint64_t lost_gives;      /* blocks that ended because their place was taken or mapped again */
    uint64_t unmapped_gives;  /* blocks that ended because their memory was unmapped */
    uint64_t lost_unmaps;     /* maps that found older memory in their place, which ended */
    uint64_t unseen_unmaps;   /* unmaps of a range that was not all memory */
    uint64_t straddles;       /* blocks that were only partly in memory, or in memory of several segments */
    uint64_t owned_segments;  /* blocks that got a separate segment; this is no error */
    uint64_t refused;         /* calls about 0 bytes, or beyond MT_FOREIGN_MOST_ADDRESS: nothing happened */
    uint64_t times_back;      /* calls with a time before the last one's, which was used instead */
    uint64_t unseen_relabels; /* of no live block */
    uint64_t unmatched_steps; /* steps that began inside another, which ended there, or ended without a beginning */
};

/* Copies the sink; borrows its context until destroy. */
struct mt_foreign *mt_foreign_create(const struct mt_sink *sink);

/* Emits nothing: live blocks stay live, as after any run that ended. May be NULL. */
void mt_foreign_destroy(struct mt_foreign *foreign);

/* Returns the counts so far. */
struct mt_foreign_counts mt_foreign_counts(const struct mt_foreign *foreign);

/* Reserves [address, address + bytes): memory that is mapped there later is one segment. Ranges of one owner (any
 * number) that touch or overlap become one, so the pieces in a file may be reserved one by one before the first is
 * mapped. Emits nothing. False if the range has memory, or overlaps a reserved range that has memory or another
 * owner. */
bool mt_foreign_reserve(struct mt_foreign *foreign, mt_addr address, uint64_t bytes, uint64_t owner);

/* In the functions below, time_ns is the time since the run began. */

/* Map and unmap memory. An unmapped range may be part of a mapped one, or several. Memory that crosses
 * the bounds of a reserved range is a separate segment. */
void mt_foreign_map(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, uint64_t bytes, uint64_t stream);
void mt_foreign_unmap(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, uint64_t bytes);

/* Begin a block, and end the block that begins at the address. The second returns its bytes; 0 if there is none. */
void mt_foreign_take(struct mt_foreign *foreign, uint64_t time_ns, const struct mt_foreign_block *block);
struct mt_foreign_bytes {
    uint64_t requested, block;
};
struct mt_foreign_bytes mt_foreign_give(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address);

/* Gives the live block that begins at the address another label, as when its purpose becomes known. False: there is
 * none. If the label is the same, nothing is emitted. */
bool mt_foreign_relabel(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, mt_label_id label,
                        mt_span_id span);

/* Gives each live block the label that `choose` returns, as mt_foreign_relabel. */
void mt_foreign_relabel_all(struct mt_foreign *foreign, uint64_t time_ns, mt_label_choice choose, void *context);

/* Finds the live block that begins at the address; its block_bytes are at least requested_bytes. False: there is
 * none. */
bool mt_foreign_find(const struct mt_foreign *foreign, mt_addr address, struct mt_foreign_block *out);

/* Sets the number of a stream. By default streams are numbered from 1 in the order of first use. Either set the numbers
 * of all streams, or of none. */
void mt_foreign_number_stream(struct mt_foreign *foreign, uint64_t stream, mt_stream number);

/* Returns the number of a stream. A new stream gets the next number. */
mt_stream mt_foreign_stream_number(struct mt_foreign *foreign, uint64_t stream);

/* Emits a refused request. Only its requested_bytes, stream, label, span and stack are used. */
void mt_foreign_oom(struct mt_foreign *foreign, uint64_t time_ns, const struct mt_foreign_block *request);

void mt_foreign_span_begin(struct mt_foreign *foreign, uint64_t time_ns, mt_span_id span);
void mt_foreign_span_end(struct mt_foreign *foreign, uint64_t time_ns, mt_span_id span);

/* Begins a step. Returns its number; steps are numbered from 0. */
int64_t mt_foreign_step_begin(struct mt_foreign *foreign, uint64_t time_ns);
void mt_foreign_step_end(struct mt_foreign *foreign, uint64_t time_ns);

/* Returns the current step, MT_NO_STEP if there is none. */
int64_t mt_foreign_step(const struct mt_foreign *foreign);

void mt_foreign_phase(struct mt_foreign *foreign, uint64_t time_ns, mt_phase phase);

/* Passes on a kernel that ran earlier; its times are since the run began. */
void mt_foreign_kernel(struct mt_foreign *foreign, const struct mt_kernel *kernel);
