/* Cards: facts about a model of GPU. The simulated device has a card's capacity and estimates times from its rates;
 * operators that allocate memory allocate as much as on that card.
 *
 * Every device has a card: sim the one in its name, a GPU its own, cpu the reference card, so that a run on the host
 * allocates the same memory as on that card. */
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { MT_CARD_NAME = 48 };

/* The card of `sim` without a name, on which the reference was measured. */
#define MT_REFERENCE_CARD "h200"

/* Rates are in operations per second, without sparsity, with accumulation in fp32. A rate of the matrix units is 0 if
 * they do not support the dtype.
 * Invariant: others_bytes + context_bytes < memory_bytes. */
struct mt_card {
    char name[MT_CARD_NAME];    /* as in sim:NAME: "h200" */
    char product[MT_CARD_NAME]; /* as the driver names it: "NVIDIA H200" */
    const char *source;         /* of memory_bytes; static */
    uint64_t memory_bytes;      /* total, as the driver reports it */
    uint64_t context_bytes;     /* the part that a process holds outside its allocator: CUDA's context and libraries */
    uint64_t others_bytes;      /* the part that other processes hold; 0 for a known card */
    int capability;             /* CUDA compute capability, times ten: 90 is 9.0 */
    int multiprocessors;
    int threads_per_multiprocessor; /* that may be resident at once */
    uint64_t l2_bytes;              /* the cache that all multiprocessors share */
    uint64_t block_shared_bytes;    /* the most shared memory of a block that opts in */
    uint64_t multiprocessor_shared_bytes;
    uint64_t matmul_workspace_bytes; /* that PyTorch gives to cuBLAS, for each thread that computes products */
    uint32_t launch_ns;              /* the least time from a kernel's begin to the next one's */
    uint32_t eager_launch_ns;        /* that PyTorch takes on the host to launch a kernel */
    double bytes_per_second;
    double fp64_rate, fp32_rate; /* without matrix units */
    double tf32_matrix_rate, bf16_matrix_rate, fp16_matrix_rate, fp8_matrix_rate;
};

/* Returns the memory without the part that other processes hold. */
static inline uint64_t mt_card_free_bytes(const struct mt_card *card)
{
    return card->memory_bytes - card->others_bytes;
}

/* Returns the bytes available to a process's allocator. */
static inline uint64_t mt_card_usable_bytes(const struct mt_card *card)
{
    return mt_card_free_bytes(card) - card->context_bytes;
}

/* The first compute capability, times ten, whose matrix units support fp8: Ada, before Hopper. */
enum { MT_LEAST_FP8_CAPABILITY = 89 };

static inline bool mt_card_takes_fp8(const struct mt_card *card)
{
    return card->capability >= MT_LEAST_FP8_CAPABILITY;
}

/* Sets the shared memory that cards of a compute capability have (CUDA C++ programming guide, technical
 * specifications). Since 8.0, CUDA keeps 1 KiB of it for each block. */
static inline void mt_card_complete_shared(struct mt_card *card)
{
    enum { KIB = 1024, PASCAL_BLOCK_KIB = 48 };
    const int capability = card->capability, major = capability / 10;
    const bool is_small = capability == 86 || capability == 89 || major == 12;
    const int before_8 = capability / 5 == 14 ? 96 : 64, since_8 = is_small ? 100 : major == 8 ? 164 : 228;
    const int kib = major < 8 ? before_8 : since_8;
    card->multiprocessor_shared_bytes = (uint64_t)kib * KIB;
    card->block_shared_bytes = (uint64_t)(major < 7 ? PASCAL_BLOCK_KIB : major < 8 ? kib : kib - 1) * KIB;
}

/* Sets what is the same for all cards, the times of a launch, and what follows from the compute capability. The times
 * were measured on hosts with an H200: launches of empty kernels, and a training step of a small model (docs/cards.md).
 * The rest are the threads of a multiprocessor (CUDA C++ programming guide, technical specifications), and PyTorch's
 * default of CUBLAS_WORKSPACE_CONFIG (aten/src/ATen/cuda/CublasHandlePool.cpp; on Blackwell since pull request 175344,
 * before that as on Ampere). Inline, since modules have no other part of the table. */
static inline void mt_card_complete(struct mt_card *card)
{
    card->launch_ns = 4170;
    card->eager_launch_ns = 11300;
    const int capability = card->capability, major = capability / 10;
    const bool is_small = capability == 86 || capability == 87 || capability == 89 || major == 12;
    card->threads_per_multiprocessor = capability == 75 ? 1024 : is_small ? 1536 : 2048;
    const bool is_large = major == 9 || major == 10 || major == 12;
    mt_card_complete_shared(card);
    card->matmul_workspace_bytes = is_large ? 8 * 4096 * 1024 : 2 * 4096 * 1024 + 8 * 16 * 1024;
}

/* Finds the known card with this name, ignoring case. False if there is none. */
bool mt_card_find(const char *name, struct mt_card *out);

/* Finds the known card whose product name is in the text, such as the name of a device in a trace: "cuda:0 (NVIDIA
 * L4)". False if there is none. */
bool mt_card_find_product(const char *text, struct mt_card *out);

/* Returns the reference card. */
struct mt_card mt_card_reference(void);

/* Reads a card from a user's file (card_file.c); its name is the path. Fails with MT_NO_DEVICE if there is no such
 * file, and with MT_USAGE if it is not a valid card; the message names the field. */
mt_status mt_card_read(const char *path, struct mt_card *out);

/* True if the card was read from a file. */
bool mt_card_is_of_file(const struct mt_card *card);

/* Adds the name and the figures of a card in the format of such a file. The second function parses it. Fails with
 * MT_USAGE if it is not a valid card. */
void mt_card_add_text(const struct mt_card *card, struct mt_text *out);
mt_status mt_card_parse(const char *text, struct mt_card *out);

/* Fails with MT_NO_DEVICE; the message has the most similar name and the command that lists the known cards. */
mt_status mt_card_fail_unknown(const char *name);

/* Returns the names of all known cards, ending with NULL. Static. */
const char *const *mt_card_names(void);
