/* Tells a sink, in our own events, of memory that others took: a program that is recorded, or a file that is imported.
 *
 *   map, unmap ──▶ pieces of memory by address ─┐
 *   take, give ──▶ live blocks by address ──────┴─▶ segment_map, alloc, free, … ──▶ sink
 *
 * What reaches the sink obeys base/event.h whatever is told here: sequences from 0, births from 0, times that never go
 * back, blocks that lie in memory of one segment and do not overlap. What contradicts itself, since part of it was lost, is
 * mended by believing the later word, and counted (struct mt_foreign_counts):
 *
 *   a block or memory where a block is     the block ended, its free was lost
 *   memory where memory is                 the older ended, its unmap was lost
 *   a block where nobody mapped all        gets a segment of its own, unmapped with it
 *   a free, an unmap of what was not seen  nothing happens
 *
 * Memory is a segment of its own wherever it is mapped, but in a range that was reserved: there, all is one segment, which
 * grows and shrinks and ends with its last byte. So cudaMalloc and the segments of PyTorch are mapped as they are; an
 * expandable segment, or an address range of cuMemAddressReserve, is reserved first; an allocation of a program without
 * an allocator is only taken, and segment and block are one.
 *
 * Labels and spans are interned through the sink by the caller, before they are named here.
 *
 * Costs the logarithm of what is live a call, some 100 ns. Threads: one at a time, those of the sink's other callers
 * included. */
#ifndef MT_TRACE_FOREIGN_H
#define MT_TRACE_FOREIGN_H

#include "base/sink.h"

struct mt_foreign;

/* Addresses end here: what a signed column holds. */
#define MT_FOREIGN_MOST_ADDRESS ((mt_addr)INT64_MAX)

/* What somebody took. */
struct mt_foreign_block {
    mt_addr address;
    uint64_t requested_bytes;
    uint64_t block_bytes; /* with rounding and remainders; less than was requested counts as that */
    uint64_t stream;      /* any number that tells streams apart; 0 is the default one */
    mt_label_id label;    /* not 0 */
    mt_span_id span;      /* who asked; 0: the root */
};

/* What was told, and what of it did not fit the rest. Everything but the first group is 0 for a whole recording. */
struct mt_foreign_counts {
    uint64_t takes, gives, maps, unmaps; /* calls */

    uint64_t unseen_gives;    /* of no live block: it was taken before the recording, or given back twice */
    uint64_t lost_gives;      /* blocks that ended because others took or mapped their place */
    uint64_t unmapped_gives;  /* blocks that ended because their memory was unmapped under them */
    uint64_t lost_unmaps;     /* maps that found older memory in their place, which ended */
    uint64_t unseen_unmaps;   /* unmaps of what was, in part or all, no memory */
    uint64_t straddles;       /* blocks that lay in memory only in part, or in that of several segments */
    uint64_t owned_segments;  /* blocks that got a segment of their own; this is no error */
    uint64_t refused;         /* calls about 0 bytes, or beyond MT_FOREIGN_MOST_ADDRESS: nothing happened */
    uint64_t times_back;      /* calls with a time before the last one's, which counts instead */
    uint64_t unmatched_steps; /* steps that began within another, which ended there, or ended without having begun */
};

/* Borrows what the sink refers to, until it is destroyed. */
struct mt_foreign *mt_foreign_create(const struct mt_sink *sink);

/* Tells nothing more: what is live stays so, as after any run that ended. May be NULL. */
void mt_foreign_destroy(struct mt_foreign *foreign);

/* As of now. */
struct mt_foreign_counts mt_foreign_counts(const struct mt_foreign *foreign);

/* Memory that will be mapped in [address, address + bytes) is one segment. Ranges of one owner (any number) that touch
 * or overlap become one: so the pieces of a file may be told one by one, before the first is mapped. No event. Refused,
 * and false, if any of the range has memory, or is part of a range that has, or that another owner reserved. */
bool mt_foreign_reserve(struct mt_foreign *foreign, mt_addr address, uint64_t bytes, uint64_t owner);

/* Forgets the reserved ranges within [address, address + bytes); memory in them stays mapped. */
void mt_foreign_release(struct mt_foreign *foreign, mt_addr address, uint64_t bytes);

/* In the calls below, time_ns is ns since the run began. */

/* Memory came, or went, of any size that it was given in: what is unmapped may be part of what was mapped, or several.
 * What lies across the bounds of a reserved range is a segment of its own. */
void mt_foreign_map(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, uint64_t bytes, uint64_t stream);
void mt_foreign_unmap(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address, uint64_t bytes);

/* A block was taken, or the one that begins at the address given back. */
void mt_foreign_take(struct mt_foreign *foreign, uint64_t time_ns, const struct mt_foreign_block *block);
void mt_foreign_give(struct mt_foreign *foreign, uint64_t time_ns, mt_addr address);

/* The live block that begins at the address, as it was taken, its block_bytes at least what was requested. False:
 * none. */
bool mt_foreign_find(const struct mt_foreign *foreign, mt_addr address, struct mt_foreign_block *out);

/* Says what a stream's number is, which by itself is the next from 1; of all streams that are used later, or of none. */
void mt_foreign_number_stream(struct mt_foreign *foreign, uint64_t stream, mt_stream number);

/* A request was refused: its requested_bytes, stream, label and span. */
void mt_foreign_oom(struct mt_foreign *foreign, uint64_t time_ns, const struct mt_foreign_block *request);

void mt_foreign_span_begin(struct mt_foreign *foreign, uint64_t time_ns, mt_span_id span);
void mt_foreign_span_end(struct mt_foreign *foreign, uint64_t time_ns, mt_span_id span);

/* Steps are numbered from 0 as they begin; returns the number. */
int64_t mt_foreign_step_begin(struct mt_foreign *foreign, uint64_t time_ns);
void mt_foreign_step_end(struct mt_foreign *foreign, uint64_t time_ns);

/* The step that is going on; MT_NO_STEP: none. */
int64_t mt_foreign_step(const struct mt_foreign *foreign);

void mt_foreign_phase(struct mt_foreign *foreign, uint64_t time_ns, mt_phase phase);

/* A kernel that ran, some time after it did; its times are of the run, too. */
void mt_foreign_kernel(struct mt_foreign *foreign, const struct mt_kernel *kernel);

#endif
