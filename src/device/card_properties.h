/* A card's properties in the form that cuDNN needs for an absent card. */
#pragma once

#include "device/card.h"

/* Adds the properties as a JSON object, with the keys of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. Properties that
 * memtrace does not know have the values of a card with the same compute capability: of 153 convolutions tested with
 * cuDNN 9.19 as on an H200 and an A100, clocks, cache and multiprocessors changed the choice for one. Adds nothing and
 * returns false if no card with that capability is known. */
bool mt_card_add_properties(const struct mt_card *card, struct mt_text *out);
