/* The plans that PyTorch's call of a convolution may take, on a card that is described as cuDNN wants it. One
 * thread. */
#pragma once

#include "operators/cudnn/helper/cudnn_backend.h"
#include "operators/cudnn_plan.h"

/* Makes the card of its properties, as cuDNN writes them in JSON. NULL if cuDNN does not accept them. */
cudnn_descriptor cudnn_card(struct cudnn_backend *backend, const char *properties);

/* Finds the plans: the first, or all if the question wants them. out->count is 0 if there is none. */
void cudnn_choose(struct cudnn_backend *backend, cudnn_descriptor card, const struct mt_convolution_question *question,
                  struct mt_cudnn_plans *out);
