/* What an account is made of, for the files that keep it: account.c has blocks by address, contexts and records,
 * account_physical.c physical memory, and account_ranges.c what threads were in when they asked and launched. Each
 * touches its own part and the common one. */
#ifndef MT_RECORD_ACCOUNT_PARTS_H
#define MT_RECORD_ACCOUNT_PARTS_H

#include "base/number_map.h"
#include "record/account.h"
#include "trace/store/address_map.h"
#include "trace/store/foreign.h"

#include <stdatomic.h>
#include <stddef.h>

/* Blocks, by address. Invariants: owners has every live block that was taken with an address of the program's, or that
 * a record told; calls[n % their number] is the last expected call n. */
struct mt_account_blocks {
    struct mt_number_map owners; /* address to context, and above 32 bits the pool's index + 1 */
    struct mt_account_pool *pools;
    uint32_t pool_count;
    struct mt_number_map recorded; /* address that a record told, to the block's own */
    struct mt_number_map ended;    /* contexts, of which records may still come */
    mt_addr next_own_address;
    uint32_t *calls;
};

/* Physical memory, and where it is mapped. */
struct mt_account_physical {
    struct mt_number_map handles; /* to the index of the piece */
    struct mt_physical_piece *pieces;
    size_t piece_count, first_free; /* as next_free of a piece */
    struct mt_address_map mappings;
};

/* Ranges and steps as events, and kernels by their launch. */
struct mt_account_ranges {
    char *step_prefix;                      /* NULL: there are no steps */
    const struct mt_account_thread *teller; /* whose ranges are events; NULL: nobody's yet */
    char **names;                           /* by span: the last part of its path; NULL: the account did not make it */
    size_t name_count;
    _Atomic int64_t step;       /* that is going on */
    struct mt_launch *launches; /* of number n at n % their number */
    struct mt_kernel_log *kernels;
};

struct mt_account {
    struct mt_foreign *foreign;
    struct mt_sink sink;
    int device; /* as the settings say */
    mt_category categories[MT_MEMORY_KIND_COUNT];
    struct mt_account_counts counts;
    struct mt_account_blocks blocks;
    struct mt_account_physical physical;
    struct mt_account_ranges ranges;
};

/* Parts begin as zeros. */
void mt_account_physical_create(struct mt_account_physical *physical);
void mt_account_physical_release(struct mt_account_physical *physical);
void mt_account_ranges_create(struct mt_account_ranges *ranges, const struct mt_account_settings *settings);
void mt_account_ranges_release(struct mt_account_ranges *ranges);

/* The span of what the thread does now; 0 for no thread. */
static inline mt_span_id mt_account_span(const struct mt_account_thread *thread)
{
    return thread != NULL && thread->depth > 0 ? thread->ranges[thread->depth - 1].span : 0;
}

mt_label_id mt_account_label(const struct mt_account *account, mt_category category, const char *op, mt_span_id span);

/* Takes a block for a call that gave no address, or one that is another's by now: at an address of our own, which it
 * returns. 0 if the call's device is not counted, and if there is none left. */
mt_addr mt_account_take_own(struct mt_account *account, const struct mt_account_thread *thread,
                            const struct mt_memory_call *call);

#endif
