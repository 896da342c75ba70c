/* The engines that cuDNN leaves out of its list, and why: cuDNN says so in its log, through cudnnSetCallback. One
 * thread. */
#pragma once

#include "operators/cudnn/helper/cudnn_backend.h"
#include "operators/cudnn_plan.h"

/* Has the log come here. The environment variable CUDNN_LOGLEVEL_DBG must be 3 before cuDNN is loaded. */
void cudnn_reasons_follow(const struct cudnn_backend *backend);

/* Begins to write the engines after the first `kept` ones, in their order, as far as there is room. NULL: ends. */
void cudnn_reasons_write(struct mt_cudnn_plans *plans, int64_t kept);
