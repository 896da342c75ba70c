/* The loss: mean over positions of ln sum e^(logits - max) - (logits - max)[target]. */
#include "model/functions.h"
#include "model/transformer.h"

struct mt_tensor *mt_cross_entropy(struct mt_runtime *rt, struct mt_tensor *logits, struct mt_tensor *targets)
{
    struct mt_scope outer = mt_scope_enter(rt, "loss", MT_CATEGORY_LOSS, "cross_entropy");
    struct mt_tensor *maximum = mt_max_last(rt, MT_ROLE_SAVED, "max", logits);
    struct mt_tensor *shifted = mt_subtract(rt, MT_ROLE_SAVED, "sub", logits, maximum);
    mt_tensor_release(rt, maximum);
    struct mt_tensor *log_sum = mt_logsumexp(rt, MT_ROLE_SAVED, "logsumexp", shifted);
    struct mt_tensor *chosen = mt_gather(rt, MT_ROLE_TEMPORARY, "gather", shifted, targets);
    struct mt_tensor *each = mt_subtract(rt, MT_ROLE_TEMPORARY, "nll", log_sum, chosen);
    struct mt_tensor *loss = mt_mean_all(rt, MT_ROLE_TEMPORARY, "mean", each);
    MT_RELEASE(rt, each, chosen, log_sum, shifted);
    mt_scope_leave(rt, outer);
    return loss;
}
