/* Workspaces of cuDNN's products of channels by cuBLASLt, which chooses among its kernels by measures of its own:
 * engine 58 forward, engine 63 for the input's gradient, engine 62 for the weight's. The rules are what its plans took
 * most often, and the ranges hold nineteen plans in twenty, of 30,573 that cuDNN 9.19 made on an H200 for 1 x 1 filters
 * (a sample: tests/data/cudnn/products.txt). */
#pragma once

#include "operators/convolution.h"

#include <stdbool.h>
#include <stdint.h>

/* Writes an estimate and its range. False for filters of several pixels, and with padding or other strides than 1. */
bool mt_cudnn_product_bytes(const struct mt_convolution_question *question, int64_t *bytes,
                            struct mt_byte_range *range);
