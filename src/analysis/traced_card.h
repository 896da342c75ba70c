/* The card that a traced run was on. */
#pragma once

#include "device/device.h"
#include "trace/query/trace.h"

struct mt_traced_card {
    struct mt_card card;
    bool is_spelled; /* the name of the run's device tells the card and its memory */
    bool is_stored;  /* the run keeps the card's figures */
};

/* Finds the card by what the run stored, or else by the name of its device; a card that neither tells is the reference
 * card. Opens no file. Fails with MT_BAD_TRACE if what was stored is no card. */
mt_status mt_traced_card_find(struct mt_trace *trace, const struct mt_run *run, struct mt_traced_card *out);

/* Returns the card of a simulation on that one with so many bytes, which *memory then holds, for the plan of a run; NULL if the
 * spelling of a device tells it. */
const struct mt_card *mt_traced_card_with(const struct mt_traced_card *traced, uint64_t bytes, struct mt_card *memory);
