/* The file of a simulated card, in the library for PyTorch: it is not read here, so that the library needs no JSON. */
#include "device/card.h"

mt_status mt_card_read(const char *path, struct mt_card *out)
{
    (void)out;
    return mt_fail(MT_USAGE, "%s: a program of PyTorch runs on one of the known cards, not on that of a file", path);
}
