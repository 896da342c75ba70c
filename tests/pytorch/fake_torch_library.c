/* The library for PyTorch over cards without a card, as a library of its own. */
#include "fake_card.h"
