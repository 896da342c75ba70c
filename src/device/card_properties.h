/* A card's properties as cuDNN wants them of a card that is not there. */
#pragma once

#include "device/card.h"

/* Adds the properties as a JSON object, with the keys of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. Those that memtrace has no
 * figures of are as on a card of the same compute capability: of 153 convolutions that were asked under cuDNN 9.19 as on an H200
 * and an A100, clocks, cache and multiprocessors changed the choice of one. False, and nothing is added, if no card of that
 * capability is known. */
bool mt_card_add_properties(const struct mt_card *card, struct mt_text *out);
