/* Temporary memory of CUB's device-wide functions, as CUDA 13.0 has them on Hopper. Counts are of elements, results are
 * bytes. The sizes of tiles were found by calls of many lengths on an H200. */
#pragma once

#include "device/card.h"

#include <stdint.h>

/* Sorts pairs by `digits` digits of 8 bits. Elements of a few blocks need none but 1 byte. With value_bytes 0, sorts
 * keys. */
int64_t mt_cub_sort_bytes(int64_t elements, int64_t key_bytes, int64_t value_bytes, int64_t digits);

/* Sums up from the first element. */
int64_t mt_cub_scan_bytes(int64_t elements, int64_t item_bytes);

/* Sums up whole numbers of 8 bytes, in larger tiles than mt_cub_scan_bytes. */
int64_t mt_cub_long_scan_bytes(int64_t elements);

/* Copies elements that are flagged, or that differ from the one before. */
int64_t mt_cub_select_bytes(int64_t elements);

/* Counts runs of equal elements. */
int64_t mt_cub_run_length_bytes(int64_t elements);

/* Adds up all elements as numbers of 4 bytes. */
int64_t mt_cub_sum_bytes(const struct mt_card *card, int64_t elements);
