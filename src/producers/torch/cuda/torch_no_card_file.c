/* The file of a simulated card, in the library for PyTorch: it is not read here, so that the library needs no JSON. */
#include "device/card.h"

mt_status mt_card_read(const char *path, struct mt_card *out)
{
    (void)out;
    return mt_fail(MT_USAGE, "%s: PyTorch programs run on known cards, not on a card from a file", path);
}
