/* Convolutions of a dry run: cuDNN's own answers where there is a libcudnn, and counts of those that are estimates.
 * Threads: any. */
#pragma once

#include "operators/convolution.h"

/* Returns the source of answers, for rules of operators. */
const struct mt_convolution_source *mt_torch_convolutions(void);

/* Do what memtrace_torch_took, memtrace_torch_tried and memtrace_torch_keep_cache say. */
void mt_torch_convolutions_took(int plan);
void mt_torch_convolutions_tried(void);
void mt_torch_convolutions_keep_cache(bool keeps_cache);

/* Do what memtrace_torch_cudnn and memtrace_torch_estimate say. */
void mt_torch_convolutions_ask(const char *program, const char *library, const char *folder);
const char *mt_torch_convolutions_estimate(int place, uint64_t *out_calls);
