/* Sizes of attention, and what all copies of flash-attention have in common. */
#pragma once

#include "operators/operator_plan.h"

/* B: batch, H: heads, S: rows of queries, D: head size, K: rows of keys; key_heads: heads of keys and values. */
struct mt_attention_sizes {
    int64_t B, H, S, D, K, key_heads, item_bytes;
};

/* Returns into how many parts flash-attention's kernel splits the keys, so that few queries fill the card. */
int64_t mt_flash_splits(const struct mt_card *card, const struct mt_attention_sizes *s);

/* Returns the head size for which flash-attention allocates. */
int64_t mt_flash_head(int64_t D);
