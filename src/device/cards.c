/* The known cards.
 *
 * Memory: the total that the driver reports to programs (cudaMemGetInfo, PyTorch's "total capacity"), which is less
 * than nvidia-smi and the data sheet say. It is rounded down; if drivers differ, it is the smallest value found. Each
 * card has the source of its figure. Context: memory of a process outside PyTorch's allocator: the context, kernels,
 * cuBLAS. It grows with the multiprocessors; if no value was found, it is 4 MiB for each, or 4.5 MiB on data center
 * Hopper and Blackwell.
 *
 * L2: cudaDeviceProp of the H200, H20 (github.com/RightNow-AI/AutoMegaKernel/pull/3), B200
 * (github.com/pytorch/ao/pull/4002), A100, T4, RTX 3090, RTX 4090, RTX 5090; of others NVIDIA's architecture papers and
 * data sheets. The H100 NVL and the GH200 have all 12 memory controllers of GH100, and so its 60 MiB
 * (chipsandcheese.com/p/nvidias-h100-funny-l2-and-tons-of-bandwidth).
 *
 * Rates and bytes per second: NVIDIA's data sheets (H200, H100, H100 NVL, GH200, HGX B200, A100, A30, A10, A10G, L40S,
 * L40, L4, RTX A6000, RTX A5000, RTX A4000, RTX 6000 Ada, RTX 5000 Ada, V100, P100, T4), the H100 PCIe product brief,
 * and the architecture papers of Turing, GA102, Ada and RTX Blackwell (appendices; tables of GeForce and RTX PRO
 * cards); H20 and A800: the figures that their resellers print. RTX 3060 and RTX 4060, which no paper lists: the RTX
 * 3070 and the RTX 4070 scaled by multiprocessors and boost clock (1.777 and 2.46 GHz). Without the doubling for sparse
 * matrices; matrix rates with accumulation in fp32. */
#include "device/card.h"

#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define TERA 1e12

/* clang-format off: the columns of a table */
/*  name, the driver's name, capability, multiprocessors, KiB of L2, MiB, MiB of context, TB/s,
 *      TFLOP/s of fp64, fp32, and of matrices of tf32, bf16, fp16, fp8; source of the memory */
#define CARDS(X)                                                                                                       \
    X("h200", "NVIDIA H200", 90, 132, 61440, 143156, 600, 4.8, 34, 67, 494.7, 989.4, 989.4, 1978.9,                    \
      "PyTorch's device properties (143156MB); context and libraries measured")                                        \
    X("h100", "NVIDIA H100 80GB HBM3", 90, 132, 51200, 81008, 600, 3.35, 34, 67, 494.7, 989.4, 989.4, 1978.9,          \
      "github.com/vllm-project/vllm/issues/27508; context of the H200, with as many multiprocessors")                  \
    X("h100-nvl", "NVIDIA H100 NVL", 90, 132, 61440, 95232, 676, 3.938, 30, 60, 417.5, 835.5, 835.5, 1670.5,           \
      "github.com/ali-vilab/VACE/issues/56")                                                                           \
    X("h100-pcie", "NVIDIA H100 PCIe", 90, 114, 51200, 81008, 520, 2, 25.6, 51.2, 378, 756, 756, 1513,                 \
      "PyTorch's device properties (81008MB)")                                                                         \
    X("h20", "NVIDIA H20", 90, 78, 61440, 97285, 355, 4, 1, 44, 74, 148, 148, 296,                                     \
      "PyTorch's device properties (97285MB); github.com/modelscope/DiffSynth-Studio/issues/1238 (95.00 GiB)")         \
    X("gh200", "NVIDIA GH200 480GB", 90, 132, 61440, 97285, 600, 4, 34, 67, 494.7, 989.4, 989.4, 1978.9,               \
      "not found: as the H20, which has as much by nvidia-smi")                                                        \
    X("b200", "NVIDIA B200", 100, 148, 129536, 182631, 670, 7.7, 37, 75, 1125, 2250, 2250, 4500,                       \
      "PyTorch's device properties (182631MB)")                                                                        \
    X("a100-80gb", "NVIDIA A100-SXM4-80GB", 80, 108, 40960, 81152, 409, 2.039, 9.7, 19.5, 156, 312, 312, 0,            \
      "github.com/HiDream-ai/VAREdit/issues/6")                                                                        \
    X("a100-40gb", "NVIDIA A100-SXM4-40GB", 80, 108, 40960, 40339, 501, 1.555, 9.7, 19.5, 156, 312, 312, 0,            \
      "CUDA's deviceQuery, github.com/bottlerocket-os/bottlerocket/pull/3873; context: "                               \
      "github.com/TianheWu/CoSeR/issues/10")                                                                           \
    X("a800", "NVIDIA A800-SXM4-80GB", 80, 108, 40960, 81233, 522, 2.039, 9.7, 19.5, 156, 312, 312, 0,                 \
      "github.com/hahnyuan/PB-LLM/issues/3")                                                                           \
    X("a30", "NVIDIA A30", 80, 56, 24576, 24064, 224, 0.933, 5.2, 10.3, 82, 165, 165, 0,                               \
      "github.com/LHRLAB/ChatKBQA/issues/2")                                                                           \
    X("a10", "NVIDIA A10", 86, 72, 6144, 22517, 224, 0.6, 0.49, 31.2, 62.5, 125, 125, 0,                               \
      "github.com/zai-org/CogVLM/issues/236")                                                                          \
    X("a10g", "NVIDIA A10G", 86, 80, 6144, 22587, 320, 0.6, 0.55, 35, 35, 70, 70, 0,                                   \
      "PyTorch's device properties (22587MB); 22723 with older drivers")                                               \
    X("a6000", "NVIDIA RTX A6000", 86, 84, 6144, 48676, 336, 0.768, 0.6, 38.7, 77.4, 154.8, 154.8, 0,                  \
      "PyTorch's device properties (48676MB), without ECC")                                                            \
    X("a5000", "NVIDIA RTX A5000", 86, 64, 6144, 24114, 256, 0.768, 0.43, 27.8, 55.6, 111.1, 111.1, 0,                 \
      "PyTorch's device properties (24114MB), without ECC")                                                            \
    X("a4000", "NVIDIA RTX A4000", 86, 48, 4096, 15984, 192, 0.448, 0.3, 19.2, 38.3, 76.7, 76.7, 0,                    \
      "github.com/DengKaiCQ/VGGT-Long/issues/6 (15.61 GiB); 15.74 with older drivers")                                 \
    X("l40s", "NVIDIA L40S", 89, 142, 98304, 45486, 420, 0.864, 1.43, 91.6, 183, 362.1, 362.1, 733,                    \
      "github.com/stepfun-ai/Step-Video-T2V/issues/8")                                                                 \
    X("l40", "NVIDIA L40", 89, 142, 98304, 45465, 507, 0.864, 1.41, 90.5, 90.5, 181.1, 181.1, 362.1,                   \
      "github.com/NVlabs/Eagle/issues/68")                                                                             \
    X("l4", "NVIDIA L4", 89, 58, 49152, 22558, 236, 0.3, 0.47, 30.3, 60, 121, 121, 242.5,                              \
      "github.com/ArcInstitute/evo2/issues/190")                                                                       \
    X("rtx-pro-6000", "NVIDIA RTX PRO 6000", 120, 188, 131072, 97249, 752, 1.792, 1.97, 126, 251.9, 503.8, 503.8,      \
      1007.6, "github.com/antirez/ds4/issues/431")                                                                     \
    X("rtx6000-ada", "NVIDIA RTX 6000 Ada Generation", 89, 142, 98304, 45496, 430, 0.96, 1.42, 91.1, 182.1, 364.2,     \
      364.2, 728.5, "github.com/DINGYANB/MTVCrafter/issues/21, with ECC; without, 3 GiB more")                         \
    X("rtx5000-ada", "NVIDIA RTX 5000 Ada Generation", 89, 100, 73728, 31777, 400, 0.576, 1.02, 65.3, 130.6, 261.1,    \
      261.1, 522.1, "not found: nvidia-smi's 32760 MiB less 3 %")                                                      \
    X("rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 98304, 32112, 619, 1.792, 1.64, 104.8, 104.8, 209.5, 209.5, 419, \
      "github.com/TrajectoryCrafter/TrajectoryCrafter/issues/20")                                                      \
    X("rtx5080", "NVIDIA GeForce RTX 5080", 120, 84, 65536, 15813, 336, 0.96, 0.88, 56.3, 56.3, 112.6, 112.6, 225.1,   \
      "not found: nvidia-smi's 16303 MiB less 3 %")                                                                    \
    X("rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 73728, 24084, 520, 1.008, 1.29, 82.6, 82.6, 165.2, 165.2, 330.3,  \
      "github.com/pytorch/torchchat/issues/1341; context: github.com/huggingface/lora-fast/issues/1")                  \
    X("rtx4080", "NVIDIA GeForce RTX 4080", 89, 76, 65536, 16049, 304, 0.717, 0.76, 48.7, 48.7, 97.5, 97.5, 194.9,     \
      "PyTorch's device properties (16049MB)")                                                                         \
    X("rtx4070", "NVIDIA GeForce RTX 4070", 89, 46, 36864, 11874, 184, 0.504, 0.46, 29.1, 29.1, 58.3, 58.3, 116.6,     \
      "CUDA's device properties (11874MB); 11994 with older drivers")                                                  \
    X("rtx4060", "NVIDIA GeForce RTX 4060", 89, 24, 24576, 7807, 96, 0.272, 0.24, 15.1, 15.1, 30.2, 30.2, 60.5,        \
      "PyTorch's device properties (7807MB)")                                                                          \
    X("rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, 6144, 24258, 328, 0.936, 0.56, 35.6, 35.6, 71, 71, 0,              \
      "github.com/ucwxb/GraphAvatar/issues/4")                                                                         \
    X("rtx3080", "NVIDIA GeForce RTX 3080", 86, 68, 5120, 10004, 272, 0.76, 0.47, 29.8, 29.8, 59.5, 59.5, 0,           \
      "github.com/zai-org/CogVideo/issues/34 (9.78 GiB)")                                                              \
    X("rtx3070", "NVIDIA GeForce RTX 3070", 86, 46, 4096, 7753, 184, 0.448, 0.32, 20.3, 20.3, 40.6, 40.6, 0,           \
      "PyTorch's device properties (7753MB); older driver: github.com/akshitac8/OW-DETR/issues/46 (7.78 GiB)")         \
    X("rtx3060", "NVIDIA GeForce RTX 3060", 86, 28, 3072, 11910, 112, 0.36, 0.2, 12.7, 12.7, 25.5, 25.5, 0,            \
      "PyTorch's device properties (11910MB); older driver: github.com/smy20011/dreambooth-gui/issues/78")             \
    X("rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", 75, 68, 5632, 11008, 272, 0.616, 0.42, 13.4, 0, 0, 53.8, 0,           \
      "github.com/ispc-lab/TMA/issues/5 (10.76 GiB)")                                                                  \
    X("v100-32gb", "Tesla V100-SXM2-32GB", 70, 80, 6144, 32501, 320, 0.9, 7.8, 15.7, 0, 0, 125, 0,                     \
      "github.com/hiyouga/LlamaFactory/issues/182 (31.75 GiB)")                                                        \
    X("v100-16gb", "Tesla V100-SXM2-16GB", 70, 80, 6144, 16130, 320, 0.9, 7.8, 15.7, 0, 0, 125, 0,                     \
      "PyTorch's device properties (16130MB)")                                                                         \
    X("t4", "Tesla T4", 75, 40, 4096, 14909, 138, 0.32, 0.25, 8.1, 0, 0, 65, 0,                                        \
      "github.com/Zheng-Chong/CatVTON/issues/133 (14.56 GiB; 14.75 with older drivers)")                               \
    X("p100", "Tesla P100-PCIE-16GB", 60, 56, 4096, 16269, 224, 0.732, 4.7, 9.3, 0, 0, 0, 0,                           \
      "PyTorch's device properties (16269MB); 16280 with older drivers")
/* clang-format on */

static const struct mt_card listed[] = {
#define X(card, driver, compute, processors, l2, memory, context, bandwidth, fp64, fp32, tf32, bf16, fp16, fp8, from)  \
    {.name = card,                                                                                                     \
     .product = driver,                                                                                                \
     .source = from,                                                                                                   \
     .memory_bytes = memory * MIB,                                                                                     \
     .context_bytes = context * MIB,                                                                                   \
     .capability = compute,                                                                                            \
     .multiprocessors = processors,                                                                                    \
     .l2_bytes = l2 * KIB,                                                                                             \
     .bytes_per_second = bandwidth * TERA,                                                                             \
     .fp64_rate = fp64 * TERA,                                                                                         \
     .fp32_rate = fp32 * TERA,                                                                                         \
     .tf32_matrix_rate = tf32 * TERA,                                                                                  \
     .bf16_matrix_rate = bf16 * TERA,                                                                                  \
     .fp16_matrix_rate = fp16 * TERA,                                                                                  \
     .fp8_matrix_rate = fp8 * TERA},
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

static struct mt_card whole(const struct mt_card *card)
{
    struct mt_card out = *card;
    mt_card_complete(&out);
    return out;
}

bool mt_card_find(const char *name, struct mt_card *out)
{
    for (size_t i = 0; i < CARD_COUNT; i++) {
        if (strcasecmp(name, listed[i].name) != 0)
            continue;
        *out = whole(&listed[i]);
        return true;
    }
    return false;
}

/* Other product names of a card: the PCIe A100 has the same memory. */
static const struct product {
    const char *product, *card;
} other_products[] = {
    {"NVIDIA A100-PCIE-40GB", "a100-40gb"},
    {"NVIDIA A100 80GB PCIe", "a100-80gb"},
};

enum { OTHER_PRODUCTS = sizeof other_products / sizeof other_products[0] };

/* True if the text contains the product as whole words: "NVIDIA L40S" does not contain "NVIDIA L40". */
static bool has_product(const char *text, const char *product)
{
    const char *at = strstr(text, product);
    return at != NULL && !isalnum((unsigned char)at[strlen(product)]);
}

/* Finds the longest product name in the text. */
bool mt_card_find_product(const char *text, struct mt_card *out)
{
    for (size_t i = 0; i < OTHER_PRODUCTS; i++)
        if (has_product(text, other_products[i].product))
            return mt_card_find(other_products[i].card, out);
    const struct mt_card *found = NULL;
    for (size_t i = 0; i < CARD_COUNT; i++)
        if (has_product(text, listed[i].product) &&
            (found == NULL || strlen(listed[i].product) > strlen(found->product)))
            found = &listed[i];
    if (found != NULL)
        *out = whole(found);
    return found != NULL;
}

mt_status mt_card_fail_unknown(const char *name)
{
    (void)mt_fail_unknown("card", name, mt_card_names(), CARD_COUNT);
    return mt_fail(MT_NO_DEVICE, "%s; memtrace cards lists them", mt_last_error());
}

struct mt_card mt_card_reference(void)
{
    struct mt_card card;
    bool is_known = mt_card_find(MT_REFERENCE_CARD, &card);
    assert(is_known);
    (void)is_known;
    return card;
}
