#include "model/parameter.h"

#include "base/random.h"
#include "model/ops.h"

#include <math.h>

void mt_parameter_draw(struct mt_runtime *rt, const struct mt_training_config *config, mt_parameter_kind kind,
                       uint64_t number, struct mt_tensor *values)
{
    bool is_reference = config->init == MT_INIT_REFERENCE;
    double center = 0, spread = 1;
    if (values == NULL)
        return;
    if (kind == MT_PARAMETER_NORM) {
        center = 1;
        spread = is_reference ? 0.1 : 0;
    }
    if (kind == MT_PARAMETER_LINEAR)
        spread = sqrt(3.0 / (double)values->shape[values->dims - 1]);
    uint64_t generator = is_reference ? number : mt_splitmix64(config->seed) % (1 << 20) + number;
    mt_op_random(rt, values, generator, center, spread);
}
