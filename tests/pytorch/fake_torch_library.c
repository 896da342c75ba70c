/* The library for PyTorch with fake cards, as a shared library. */
#include "fake_card.h"
