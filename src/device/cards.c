/* The known cards.
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
#include "device/card.h"

#include <assert.h>
#include <stddef.h>
#include <strings.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* clang-format off: the columns of a table */
/*    name         memory        capability, multiprocessors, bytes/s, fp32, tf32 matrix, bf16 matrix */
#define CARDS(X)                                                                                                       \
    X("h200", 143771 * MIB, 90, 132, 4.800e12, 67.0e12, 494.7e12, 989.4e12)                                            \
    X("h100", 80 * GIB, 90, 132, 3.350e12, 67.0e12, 494.7e12, 989.4e12)                                                \
    X("h100-pcie", 80 * GIB, 90, 114, 2.000e12, 51.2e12, 378.0e12, 756.0e12)                                           \
    X("a100-80gb", 80 * GIB, 80, 108, 2.039e12, 19.5e12, 156.0e12, 312.0e12)                                           \
    X("a100-40gb", 40 * GIB, 80, 108, 1.555e12, 19.5e12, 156.0e12, 312.0e12)                                           \
    X("l40s", 48 * GIB, 89, 142, 0.864e12, 91.6e12, 183.0e12, 362.1e12)                                                \
    X("l4", 24 * GIB, 89, 58, 0.300e12, 30.3e12, 60.0e12, 121.0e12)                                                    \
    X("rtx4090", 24 * GIB, 89, 128, 1.008e12, 82.6e12, 82.6e12, 165.2e12)                                              \
    X("rtx3090", 24 * GIB, 86, 82, 0.936e12, 35.6e12, 35.6e12, 71.0e12)                                                \
    X("a6000", 48 * GIB, 86, 84, 0.768e12, 38.7e12, 77.4e12, 154.8e12)                                                 \
    X("a10", 24 * GIB, 86, 72, 0.600e12, 31.2e12, 62.5e12, 125.0e12)                                                   \
    X("v100-32gb", 32 * GIB, 70, 80, 0.900e12, 15.7e12, 0, 0)                                                          \
    X("v100-16gb", 16 * GIB, 70, 80, 0.900e12, 15.7e12, 0, 0)                                                          \
    X("t4", 16 * GIB, 75, 40, 0.320e12, 8.1e12, 0, 0)
/* clang-format on */

/* What is listed of a card; the rest follows from the capability. */
static const struct mt_card listed[] = {
#define X(card, memory, compute, processors, bandwidth, fp32, tf32, bf16)                                              \
    {.name = card,                                                                                                     \
     .memory_bytes = memory,                                                                                           \
     .capability = compute,                                                                                            \
     .multiprocessors = processors,                                                                                    \
     .bytes_per_second = bandwidth,                                                                                    \
     .fp32_rate = fp32,                                                                                                \
     .tf32_matrix_rate = tf32,                                                                                         \
     .bf16_matrix_rate = bf16},
    CARDS(X)
#undef X
};

enum { CARD_COUNT = sizeof listed / sizeof listed[0] };

const char *const *mt_card_names(void)
{
    static const char *const names[] = {
#define X(card, ...) card,
        CARDS(X)
#undef X
            NULL};
    return names;
}

bool mt_card_find(const char *name, struct mt_card *out)
{
    for (size_t i = 0; i < CARD_COUNT; i++) {
        if (strcasecmp(name, listed[i].name) != 0)
            continue;
        *out = listed[i];
        mt_card_complete(out);
        return true;
    }
    return false;
}

struct mt_card mt_card_reference(void)
{
    struct mt_card card;
    bool is_known = mt_card_find(MT_REFERENCE_CARD, &card);
    assert(is_known);
    (void)is_known;
    return card;
}
