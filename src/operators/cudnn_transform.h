/* Workspaces of cuDNN's convolutions by Fourier transforms, which it plans with a card alone: engine 3 forward, engine
 * 50 for the input's gradient, engine 18 for the weight's. Found from plans of cuDNN 9.19 on an H200 in fp32 and fp16:
 * of 215 with a stride of 1 (tests/data/cudnn/transforms.txt) 203 are equal, of strides of 2 in fp32 few, and most
 * differ by less than a quarter. */
#pragma once

#include "operators/convolution.h"

#include <stdbool.h>
#include <stdint.h>

/* Writes the bytes. False if there is no such plan: for groups, other types than fp32 and fp16, dilated filters,
 * planes of more than 256 rows or columns, or other strides than 1, and 2 for the input's gradient in
 * fp32. */
bool mt_cudnn_transform_bytes(const struct mt_convolution_question *question, int64_t *bytes);
