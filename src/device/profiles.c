/* Cards by name. The simulated device takes its capacity and its times from them.
 *
 * Memory: for the H200 the total that its driver reports; for the others the figure of the data sheet, with GB read as
 * GiB, as memory chips have it (a driver keeps some hundred MiB of it for itself).
 * Rates: dense, without the doubling that data sheets print for sparse matrices; matrix rates accumulate in fp32.
 *
 * Sources, all NVIDIA:
 *   h200        H200 Tensor Core GPU data sheet (SXM)
 *   h100        H100 Tensor Core GPU data sheet (SXM); h100-pcie: H100 PCIe GPU product brief and architecture paper
 *   a100-…      A100 Tensor Core GPU data sheet (SXM)
 *   l40s, l4    L40S data sheet; L4 data sheet
 *   rtx4090     Ada GPU architecture paper, appendix A
 *   rtx3090     Ampere GA102 GPU architecture paper, appendix A
 *   a6000, a10  RTX A6000 data sheet and GA102 paper; A10 data sheet
 *   v100-…      V100 data sheet (SXM2); neither tf32 nor bf16 units
 *   t4          T4 data sheet; neither tf32 nor bf16 units */
#include "device/backend.h"
#include "device/device.h"

#include <strings.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* clang-format off: the columns of a table */
/*    name         memory        bytes/s   fp32     tf32 matrix  bf16 matrix */
#define CARDS(X)                                                                                                       \
    X("h200", 143771 * MIB, 4.800e12, 67.0e12, 494.7e12, 989.4e12)                                                     \
    X("h100", 80 * GIB, 3.350e12, 67.0e12, 494.7e12, 989.4e12)                                                         \
    X("h100-pcie", 80 * GIB, 2.000e12, 51.2e12, 378.0e12, 756.0e12)                                                    \
    X("a100-80gb", 80 * GIB, 2.039e12, 19.5e12, 156.0e12, 312.0e12)                                                    \
    X("a100-40gb", 40 * GIB, 1.555e12, 19.5e12, 156.0e12, 312.0e12)                                                    \
    X("l40s", 48 * GIB, 0.864e12, 91.6e12, 183.0e12, 362.1e12)                                                         \
    X("l4", 24 * GIB, 0.300e12, 30.3e12, 60.0e12, 121.0e12)                                                            \
    X("rtx4090", 24 * GIB, 1.008e12, 82.6e12, 82.6e12, 165.2e12)                                                       \
    X("rtx3090", 24 * GIB, 0.936e12, 35.6e12, 35.6e12, 71.0e12)                                                        \
    X("a6000", 48 * GIB, 0.768e12, 38.7e12, 77.4e12, 154.8e12)                                                         \
    X("a10", 24 * GIB, 0.600e12, 31.2e12, 62.5e12, 125.0e12)                                                           \
    X("v100-32gb", 32 * GIB, 0.900e12, 15.7e12, 0, 0)                                                                  \
    X("v100-16gb", 16 * GIB, 0.900e12, 15.7e12, 0, 0)                                                                  \
    X("t4", 16 * GIB, 0.320e12, 8.1e12, 0, 0)
/* clang-format on */

static const struct mt_profile profiles[] = {
#define X(card, memory, bandwidth, fp32, tf32, bf16)                                                                   \
    {.name = card,                                                                                                     \
     .memory_bytes = memory,                                                                                           \
     .bytes_per_second = bandwidth,                                                                                    \
     .fp32_rate = fp32,                                                                                                \
     .tf32_matrix_rate = tf32,                                                                                         \
     .bf16_matrix_rate = bf16},
    CARDS(X)
#undef X
};

enum { PROFILES = sizeof profiles / sizeof profiles[0] };

const char *const *mt_device_cards(void)
{
    static const char *const names[] = {
#define X(card, ...) card,
        CARDS(X)
#undef X
            NULL};
    return names;
}

size_t mt_profile_count(void)
{
    return PROFILES;
}

const struct mt_profile *mt_profile_find(const char *name)
{
    for (size_t i = 0; i < PROFILES; i++)
        if (strcasecmp(name, profiles[i].name) == 0)
            return &profiles[i];
    return NULL;
}
