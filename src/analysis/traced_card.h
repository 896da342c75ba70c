/* The card of a traced run. */
#pragma once

#include "device/device.h"
#include "trace/query/trace.h"

struct mt_traced_card {
    struct mt_card card;
    bool is_spelled; /* the name of the run's device identifies the card and its memory */
    bool is_stored;  /* the run stores the card's figures */
};

/* Finds the card from the run's stored figures, or else from the name of its device, or else returns the reference
 * card. Opens no file. Fails with MT_BAD_TRACE if the stored figures are not a card. */
mt_status mt_traced_card_find(struct mt_trace *trace, const struct mt_run *run, struct mt_traced_card *out);

/* Returns the card for a simulation with this many bytes on the traced card, stored in *memory; NULL if the device's
 * spelling already identifies it. */
const struct mt_card *mt_traced_card_with(const struct mt_traced_card *traced, uint64_t bytes, struct mt_card *memory);
