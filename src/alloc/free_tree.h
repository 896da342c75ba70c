/* A set of free blocks in the order of mt_block_compare: by bytes, then segment birth, then offset.
 *
 * It is a treap inside the blocks themselves: link[] are the children, priority is the heap order. Every operation takes
 * O(log n) steps on average and no memory. Priorities belong to the structures, so they are the same in every run that
 * makes the same requests. Seidel, Aragon, "Randomized search trees", Algorithmica 1996. */
#ifndef MT_ALLOC_FREE_TREE_H
#define MT_ALLOC_FREE_TREE_H

#include "alloc/block.h"

/* Invariants: an in-order walk ascends strictly; no child has a higher priority than its parent. */
struct mt_free_tree {
    struct mt_block *root; /* NULL: empty */
    uint64_t count;
};

/* Adds a block that is not in the tree, and removes one that is. */
void mt_free_tree_insert(struct mt_free_tree *tree, struct mt_block *block);
void mt_free_tree_remove(struct mt_free_tree *tree, struct mt_block *block);

/* Returns the first block of at least `bytes`, or NULL. */
struct mt_block *mt_free_tree_find(const struct mt_free_tree *tree, uint64_t bytes);

/* Returns the first block after `block`, which need not be in the tree, or NULL. */
struct mt_block *mt_free_tree_next(const struct mt_free_tree *tree, const struct mt_block *block);

/* True if a search for `block` finds it. */
bool mt_free_tree_holds(const struct mt_free_tree *tree, const struct mt_block *block);

/* Returns the last block, or NULL. */
struct mt_block *mt_free_tree_last(const struct mt_free_tree *tree);

#endif
