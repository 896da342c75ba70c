/* What the helper process (helper/cudnn_helper.c) and whoever asks it send each other, over a socket that keeps
 * messages apart. Both are of one build, so structs are sent as they lie in memory.
 *
 *   helper   struct mt_cudnn_greeting       once
 *   asker    struct mt_convolution_question
 *   helper   struct mt_cudnn_plans           as often as asked */
#pragma once

#include "operators/cudnn_plan.h"

#include <stdint.h>

enum { MT_CUDNN_SOCKET = 0 }; /* the helper's file descriptor */

struct mt_cudnn_greeting {
    int64_t version; /* of cuDNN: 91900 is 9.19.0; 0: the helper can't answer, and ends */
    char error[248]; /* why not, in words */
};
