/* Real cards of a library that was built without CUDA's runtime: there are none. */
#include "producers/torch/torch_card.h"

mt_status mt_torch_device_open(int ordinal, struct mt_torch_card *card, struct mt_device **out)
{
    (void)card;
    *out = NULL;
    return mt_fail(MT_NO_DEVICE, "cuda:%d: memtrace was built without CUDA's runtime", ordinal);
}
