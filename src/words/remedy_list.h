/* Remedies in words: what takes memory, and what to write. */
#pragma once

#include "answer/table.h"
#include "base/text.h"

struct mt_remedy {
    struct mt_text what; /* a sentence: "The 15.37 GiB reserved fall to 7.81 GiB with checkpoint of model.layers.*." */
    struct mt_text how;  /* what to write; empty: the sentence says it, or it is not known */
    struct mt_text change; /* the name of the change, where a table lists it with its figures; empty: none does */
};

/* Remedies, the one to make first at the beginning. All zero: empty. */
struct mt_remedy_list {
    struct mt_remedy *items;
    size_t count;
};

/* Adds an empty remedy at the end, and returns it; valid until the next addition. */
struct mt_remedy *mt_remedy_list_add(struct mt_remedy_list *remedies);
void mt_remedy_list_release(struct mt_remedy_list *remedies);

/* Prints a remedy: what, and "→ how" on a line of its own. */
void mt_remedy_print(const struct mt_remedy *remedy, const struct mt_screen *screen);
