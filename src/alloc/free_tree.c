#include "alloc/free_tree.h"

enum { LEFT, RIGHT };

/* Parts `tree` at `block`: the blocks before it go to *left, the others to *right. */
static void part(struct mt_block *tree, const struct mt_block *block, struct mt_block **left, struct mt_block **right)
{
    while (tree != NULL) {
        if (mt_block_compare(tree, block) < 0) {
            *left = tree;
            left = &tree->link[RIGHT];
            tree = *left;
        } else {
            *right = tree;
            right = &tree->link[LEFT];
            tree = *right;
        }
    }
    *left = NULL;
    *right = NULL;
}

/* Returns the tree of both; every block of `left` comes before every block of `right`. */
static struct mt_block *join(struct mt_block *left, struct mt_block *right)
{
    struct mt_block *root;
    struct mt_block **place = &root;
    while (left != NULL && right != NULL) {
        if (left->priority >= right->priority) {
            *place = left;
            place = &left->link[RIGHT];
            left = *place;
        } else {
            *place = right;
            place = &right->link[LEFT];
            right = *place;
        }
    }
    *place = left != NULL ? left : right;
    return root;
}

void mt_free_tree_insert(struct mt_free_tree *tree, struct mt_block *block)
{
    struct mt_block **place = &tree->root;
    assert((tree->root == NULL) == (tree->count == 0));
    while (*place != NULL && (*place)->priority >= block->priority)
        place = &(*place)->link[mt_block_compare(*place, block) < 0 ? RIGHT : LEFT];
    part(*place, block, &block->link[LEFT], &block->link[RIGHT]);
    *place = block;
    for (int side = LEFT; side <= RIGHT; side++)
        assert(block->link[side] == NULL || block->link[side]->priority <= block->priority);
    tree->count++;
}

void mt_free_tree_remove(struct mt_free_tree *tree, struct mt_block *block)
{
    struct mt_block **place = &tree->root;
    assert(tree->count > 0);
    while (*place != block) {
        assert(*place != NULL); /* or the block is not in the tree */
        place = &(*place)->link[mt_block_compare(*place, block) < 0 ? RIGHT : LEFT];
    }
    *place = join(block->link[LEFT], block->link[RIGHT]);
    tree->count--;
    assert((tree->root == NULL) == (tree->count == 0));
}

struct mt_block *mt_free_tree_find(const struct mt_free_tree *tree, uint64_t bytes)
{
    struct mt_block *found = NULL;
    for (struct mt_block *block = tree->root; block != NULL;) {
        if (block->bytes >= bytes) {
            found = block;
            block = block->link[LEFT];
        } else {
            block = block->link[RIGHT];
        }
    }
    return found;
}

struct mt_block *mt_free_tree_next(const struct mt_free_tree *tree, const struct mt_block *block)
{
    struct mt_block *found = NULL;
    for (struct mt_block *candidate = tree->root; candidate != NULL;) {
        if (mt_block_compare(candidate, block) > 0) {
            found = candidate;
            candidate = candidate->link[LEFT];
        } else {
            candidate = candidate->link[RIGHT];
        }
    }
    return found;
}

bool mt_free_tree_holds(const struct mt_free_tree *tree, const struct mt_block *block)
{
    const struct mt_block *at = tree->root;
    while (at != NULL && at != block)
        at = at->link[mt_block_compare(at, block) < 0 ? RIGHT : LEFT];
    return at == block;
}

struct mt_block *mt_free_tree_last(const struct mt_free_tree *tree)
{
    struct mt_block *block = tree->root;
    while (block != NULL && block->link[RIGHT] != NULL)
        block = block->link[RIGHT];
    return block;
}
