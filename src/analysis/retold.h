/* A run up to a request that was refused, told as if it had been met; for this folder only.
 *
 * The request is one more block, handed out by the event that refused it and never freed: so what looks for waste, cuts
 * and replays does not know that it was not met. And what its op needed has a use there: nothing may take it away. */
#ifndef MT_WHATIF_RETOLD_H
#define MT_WHATIF_RETOLD_H

#include "analysis/refusal.h"

/* Invariant: input borrows blocks and uses, the last of which is the request. */
struct mt_retold {
    struct mt_advice_input input;
    struct mt_block_row *blocks;
    struct mt_use_row *uses;
};

/* Release in any case. */
void mt_retold_create(const struct mt_advice_input *input, const struct mt_refusal *refusal, struct mt_retold *out);
void mt_retold_release(struct mt_retold *retold);

#endif
