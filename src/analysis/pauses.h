/* When a block that lives through several steps is not used; for this folder only.
 *
 * Of each block only the longest pause is known. But training does the same in every step: where two steps are alike, of
 * as many events, those of segments aside, what was idle in a part of the one was idle in that part of the other.
 *
 *   step    ├───── 1 ─────┤├──── 2 ────┤├──── 3 ────┤
 *   used               ▪            ▪            ▪         the pause that is known is the one from step 1 to 2
 *   idle                 ╞══════════╡ ├┈┈┈┈┈┈┈┈┈┈┤         what of it is in 2 comes again in 3
 */
#ifndef MT_WHATIF_PAUSES_H
#define MT_WHATIF_PAUSES_H

#include "analysis/cuts.h"

/* Adds the longest pause of a block, if it has one, and where it comes again; and, where memory ran out before what was
 * there could be used again, the time since its last use. */
void mt_pauses_cut(const struct mt_scene *scene, size_t index, struct mt_cut_list *out);

#endif
