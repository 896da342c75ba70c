/* Lists of cuts; for this folder only. */
#ifndef MT_WHATIF_CUTS_H
#define MT_WHATIF_CUTS_H

#include "analysis/scene.h"

/* Zero-initialized is empty. */
struct mt_cut_list {
    struct mt_cut *items;
    size_t count;
};

/* Adds from <= position < to of block `index`, as far as that is in its lifetime; nothing if no event is in it. */
void mt_cut_list_add(struct mt_cut_list *list, const struct mt_scene *scene, size_t index, int64_t from, int64_t to);
void mt_cut_list_release(struct mt_cut_list *list);

/* Orders the cuts of one block from `first` on, and makes one of those that touch. */
void mt_cut_list_join(struct mt_cut_list *list, size_t first);

/* The blocks as lifetimes with the cuts, which are ordered by block and then by position, taken out; the caller's,
 * free(). What remains of blocks with cuts comes last, in the order in which these end: so if many end at one position
 * then, they do so in the order in which they did. */
struct mt_lifetime *mt_lifetimes_with_cuts(const struct mt_scene *scene, const struct mt_cut *cuts, size_t cut_count,
                                           size_t *out_count);

#endif
