/* The structure of an account, shared by the files that implement account.h. Each touches its own part and the common
 * one:
 *
 *   account_blocks.c        blocks by address, pools, contexts; creates and destroys the account
 *   account_unaddressed.c   blocks without an address of the program's: physical memory, activity records
 *   account_ranges.c        ranges, steps, and kernels by their launch */
#pragma once

#include "base/number_map.h"
#include "producers/cuda/account.h"
#include "trace/store/address_map.h"
#include "trace/store/foreign.h"

#include <stdatomic.h>
#include <stddef.h>

/* Blocks by address. Invariant: `owners` has every live block that was taken at an address of the program's or known
 * from an activity record. */
struct mt_account_blocks {
    struct mt_number_map owners; /* from address to context, and above 32 bits the pool's index + 1 */
    struct mt_number_map ended;  /* contexts, whose activity records may still arrive */
    struct mt_account_pool *pools;
    uint32_t pool_count;
};

/* Blocks at addresses of our own. Invariants: next_address never falls; calls[n % their number] is the last expected
 * call n; a piece is in the free list exactly while it has no handles and no mappings. */
struct mt_account_unaddressed {
    mt_addr next_address;
    struct mt_number_map handles; /* of physical memory, to the index of the piece */
    struct mt_physical_piece *pieces;
    size_t piece_count, first_free; /* first_free: the index of a free piece + 1; 0: none */
    struct mt_address_map mappings;
    struct mt_number_map recorded; /* from the address in an activity record to the block's own */
    uint32_t *calls;
};

/* Ranges and steps as events, and kernels by their launch. */
struct mt_account_ranges {
    char *step_prefix;                               /* NULL: there are no steps */
    const struct mt_account_thread *emitting_thread; /* the thread whose ranges are emitted; NULL: none yet */
    char **names;                                    /* by span: the last part of its path; NULL: not interned here */
    size_t name_count;
    _Atomic int64_t step;       /* the current one; MT_NO_STEP: none */
    struct mt_launch *launches; /* number n is at n % their number */
    struct mt_kernel_log *kernels;
};

struct mt_account {
    struct mt_foreign *foreign;
    struct mt_sink sink;
    int device; /* as in the settings */
    mt_category categories[MT_MEMORY_KIND_COUNT];
    struct mt_account_counts counts;
    struct mt_account_blocks blocks;
    struct mt_account_unaddressed unaddressed;
    struct mt_account_ranges ranges;
};

/* Create and release a part. A part begins as zeros. */
void mt_account_unaddressed_create(struct mt_account_unaddressed *unaddressed);
void mt_account_unaddressed_release(struct mt_account_unaddressed *unaddressed);
void mt_account_ranges_create(struct mt_account_ranges *ranges, const struct mt_account_settings *settings);
void mt_account_ranges_release(struct mt_account_ranges *ranges);

/* Returns the span of the thread's innermost range; 0 for no thread. */
static inline mt_span_id mt_account_span(const struct mt_account_thread *thread)
{
    return thread != NULL && thread->depth > 0 ? thread->ranges[thread->depth - 1].span : 0;
}

/* Returns the label of memory or kernels of a category, asked for by `op` in a span. */
mt_label_id mt_account_label(const struct mt_account *account, mt_category category, const char *op, mt_span_id span);

/* True if memory of the device is counted. */
bool mt_account_counts_device(const struct mt_account *account, int device);

/* Returns the call as a block at `address`. */
struct mt_foreign_block mt_account_describe(const struct mt_account *account, const struct mt_account_thread *thread,
                                            const struct mt_memory_call *call, mt_addr address);
