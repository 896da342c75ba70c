#include "kernels/cuda/product_choice.h"

#include "kernels/cuda/launch.cuh"

#include <cstdlib>
#include <cstring>
#include <cublasLt.h>

/* Products with fewer operations are not measured. cuBLAS lists the likeliest candidates first. */
constexpr double LEAST_OPERATIONS = 1 << 28;
constexpr int MOST_CANDIDATES = 12;

/* Each candidate is first timed for FEWEST_RUNS runs. Those that take at most CONTENDS times as long as the fastest
 * then run for TURN_MS each, in TURNS turns. A card at its power limit lowers its clocks within milliseconds, and more
 * for kernels that need more power: so the momentarily fastest kernel is not always the fastest in a step. */
constexpr float CONTENDS = 1.5f, TURN_MS = 2;
constexpr int TURNS = 3, FEWEST_RUNS = 2, MOST_RUNS = 256;

/* Times within AS_GOOD count as equal, and the likelier candidate is chosen. A candidate with another order of sums
 * must take less than the share WORTH_OTHER_BITS of the time. */
constexpr float AS_GOOD = 1.02f, WORTH_OTHER_BITS = 0.875f;

/* The alignment of cuBLAS's addresses, and the bytes for a digest at the end of the workspace. */
constexpr uint64_t ALIGNMENT = 256;

/* The key of a product: products are equal in kind if all these numbers are equal. */
enum { KEY_NUMBERS = 13 };
struct key {
    int64_t number[KEY_NUMBERS];
};

/* The kernel for one kind of product. Owns the descriptors that are not NULL. */
struct mtk_choice {
    struct key key;
    bool is_usable; /* cuBLAS has a kernel for it */
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    struct mtk_choice *next;
};

/* How a kernel was chosen. Both may exist for one kind of product: if it can't be measured now, the heuristic choice is
 * used. */
enum way { MEASURED, GUESSED };

static key key_of(const mtk_blas_product *p, way way)
{
    return {{p->m, p->n, p->k, p->a_leading, p->b_leading, p->c_leading, p->turn_a, p->turn_b, p->a_type, p->b_type,
             p->out_type, p->compute, way}};
}

static mtk_choice *find(mtk_choice *choices, const key &key)
{
    for (; choices != nullptr; choices = choices->next)
        if (memcmp(&choices->key, &key, sizeof key) == 0)
            break;
    return choices;
}

static void destroy(mtk_choice *choice)
{
    if (choice->a != nullptr)
        cublasLtMatrixLayoutDestroy(choice->a);
    if (choice->b != nullptr)
        cublasLtMatrixLayoutDestroy(choice->b);
    if (choice->c != nullptr)
        cublasLtMatrixLayoutDestroy(choice->c);
    if (choice->how != nullptr)
        cublasLtMatmulDescDestroy(choice->how);
    free(choice);
}

void mtk_choices_destroy(struct mtk_choice *choices)
{
    while (choices != nullptr) {
        mtk_choice *next = choices->next;
        destroy(choices);
        choices = next;
    }
}

static int64_t size_of(cudaDataType_t type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

/* ---- queries of cuBLAS ---- */

/* A cuBLAS handle is also a cublasLt handle. */
static cublasLtHandle_t library(const mtk_queue *queue)
{
    return reinterpret_cast<cublasLtHandle_t>(queue->blas);
}

static bool describe_matrix(cublasLtMatrixLayout_t *out, cudaDataType_t type, cublasOperation_t turn, int64_t rows,
                            int64_t columns, int64_t leading)
{
    bool as_it_is = turn == CUBLAS_OP_N;
    return cublasLtMatrixLayoutCreate(out, type, (uint64_t)(as_it_is ? rows : columns),
                                      (uint64_t)(as_it_is ? columns : rows), leading) == CUBLAS_STATUS_SUCCESS;
}

static bool describe(const mtk_blas_product *p, mtk_choice *out)
{
    return cublasLtMatmulDescCreate(&out->how, p->compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(out->how, CUBLASLT_MATMUL_DESC_TRANSA, &p->turn_a, sizeof p->turn_a) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(out->how, CUBLASLT_MATMUL_DESC_TRANSB, &p->turn_b, sizeof p->turn_b) ==
               CUBLAS_STATUS_SUCCESS &&
           describe_matrix(&out->a, p->a_type, p->turn_a, p->m, p->k, p->a_leading) &&
           describe_matrix(&out->b, p->b_type, p->turn_b, p->k, p->n, p->b_leading) &&
           describe_matrix(&out->c, p->out_type, CUBLAS_OP_N, p->m, p->n, p->c_leading);
}

/* Returns the bytes of a workspace for products, without the digest at its end. */
static uint64_t usable(uint64_t workspace_bytes)
{
    return workspace_bytes > ALIGNMENT ? workspace_bytes - ALIGNMENT : 0;
}

/* Lists at most `most` kernels that sum entirely in fp32. Returns their number. */
static int list_candidates(const mtk_queue *queue, const mtk_choice *choice, uint64_t workspace_bytes, int most,
                           cublasLtMatmulHeuristicResult_t *out)
{
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t wish = nullptr;
    int count = 0;
    if (cublasLtMatmulPreferenceCreate(&wish) != CUBLAS_STATUS_SUCCESS)
        return 0;
    bool is_set = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                                       sizeof workspace_bytes) == CUBLAS_STATUS_SUCCESS &&
                  cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
                                                       sizeof sums) == CUBLAS_STATUS_SUCCESS;
    if (!is_set || cublasLtMatmulAlgoGetHeuristic(library(queue), choice->how, choice->a, choice->b, choice->c,
                                                  choice->c, wish, most, out, &count) != CUBLAS_STATUS_SUCCESS)
        count = 0;
    cublasLtMatmulPreferenceDestroy(wish);
    return count;
}

/* ---- measuring ---- */

/* *sum += a digest of the words, which differs between sequences of words. A block reads blockDim.x adjacent words at a
 * time, a thread every gridDim.x * blockDim.x-th word. *sum is added to. */
__global__ void digest_kernel(const uint32_t *words, int64_t count, unsigned long long *sum)
{
    mtk_await_turn();
    unsigned long long mine = 0;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned long long mixed = words[i] + 0x9E3779B97F4A7C15ull * (unsigned long long)(i + 1);
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
        mine += mixed ^ (mixed >> 31);
    }
    atomicAdd(sum, mine);
}

/* One product, with the queue and the workspace for measuring it. */
struct trial {
    mtk_queue *queue;
    const mtk_choice *choice;
    const mtk_blas_product *product;
    void *workspace;
    uint64_t workspace_bytes; /* the last ALIGNMENT bytes hold the digest */
    cudaEvent_t begin, end;
};

/* Passes the addresses of the product's scales, if any, to cuBLAS. */
static bool set_scales(const mtk_choice *choice, const mtk_blas_product *p)
{
    return p->a_scale == nullptr ||
           (cublasLtMatmulDescSetAttribute(choice->how, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p->a_scale,
                                           sizeof p->a_scale) == CUBLAS_STATUS_SUCCESS &&
            cublasLtMatmulDescSetAttribute(choice->how, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &p->b_scale,
                                           sizeof p->b_scale) == CUBLAS_STATUS_SUCCESS);
}

static cublasStatus_t multiply(const trial &t, const cublasLtMatmulAlgo_t *algorithm)
{
    const mtk_blas_product *p = t.product;
    if (!set_scales(t.choice, p))
        return CUBLAS_STATUS_INVALID_VALUE;
    return cublasLtMatmul(library(t.queue), t.choice->how, &p->alpha, p->a, t.choice->a, p->b, t.choice->b, &p->beta,
                          p->c, t.choice->c, p->c, t.choice->c, algorithm, t.workspace, usable(t.workspace_bytes),
                          t.queue->stream);
}

/* Sets the digest of a candidate's result. Returns false if the candidate fails. */
static bool digest(const trial &t, const cublasLtMatmulAlgo_t *algorithm, unsigned long long *out)
{
    constexpr int BLOCKS = 528, THREADS = 256;
    char *sum = static_cast<char *>(t.workspace) + t.workspace_bytes - ALIGNMENT;
    const mtk_blas_product *p = t.product;
    int64_t words = p->m * p->n * size_of(p->out_type) / (int64_t)sizeof(uint32_t);
    return multiply(t, algorithm) == CUBLAS_STATUS_SUCCESS &&
           cudaMemsetAsync(sum, 0, sizeof *out, t.queue->stream) == cudaSuccess &&
           mtk_launch("digest", digest_kernel, BLOCKS, THREADS, t.queue, static_cast<const uint32_t *>(p->c), words,
                      reinterpret_cast<unsigned long long *>(sum)) == MT_OK &&
           cudaMemcpyAsync(out, sum, sizeof *out, cudaMemcpyDeviceToHost, t.queue->stream) == cudaSuccess &&
           cudaStreamSynchronize(t.queue->stream) == cudaSuccess;
}

/* Returns the time of one product, from `runs` consecutive ones; 0 if it can't be measured. */
static float time_of(const trial &t, const cublasLtMatmulAlgo_t *algorithm, int runs)
{
    float ms = 0;
    cudaEventRecord(t.begin, t.queue->stream);
    for (int i = 0; i < runs; i++)
        if (multiply(t, algorithm) != CUBLAS_STATUS_SUCCESS)
            return 0;
    cudaEventRecord(t.end, t.queue->stream);
    if (cudaEventSynchronize(t.end) != cudaSuccess || cudaEventElapsedTime(&ms, t.begin, t.end) != cudaSuccess)
        return 0;
    return ms / (float)runs;
}

/* The results for a candidate. With a time of 0 it can't be used or is too slow. */
struct finding {
    float ms;
    unsigned long long digest;
    bool is_alike; /* its result has the same bits as the usual order of sums */
};

/* True if a candidate does not split the sums. */
static bool is_whole(const cublasLtMatmulAlgo_t *algorithm)
{
    int32_t pieces = 0;
    size_t written = 0;
    return cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &pieces, sizeof pieces,
                                                &written) == CUBLAS_STATUS_SUCCESS &&
           pieces == 1;
}

/* Returns the likeliest candidate that is about as fast as the fastest, among candidates with or without the usual
 * bits; -1 if there is none. */
static int pick(const finding *findings, int count, bool is_alike)
{
    float best = 0;
    for (int i = 0; i < count; i++)
        if (findings[i].ms > 0 && findings[i].is_alike == is_alike && (best == 0 || findings[i].ms < best))
            best = findings[i].ms;
    for (int i = 0; i < count; i++)
        if (findings[i].ms > 0 && findings[i].is_alike == is_alike && findings[i].ms <= best * AS_GOOD)
            return i;
    return -1;
}

/* Finds the digest and a first time of each candidate. */
static void look(const trial &t, const cublasLtMatmulHeuristicResult_t *candidates, int count, finding *findings)
{
    int usual = -1; /* the first that does not split the sums, or the first */
    for (int i = 0; i < count; i++) {
        if (!digest(t, &candidates[i].algo, &findings[i].digest))
            continue;
        findings[i].ms = time_of(t, &candidates[i].algo, FEWEST_RUNS);
        if (usual < 0 || (is_whole(&candidates[i].algo) && !is_whole(&candidates[usual].algo)))
            usual = i;
    }
    for (int i = 0; i < count; i++)
        findings[i].is_alike = usual >= 0 && findings[i].digest == findings[usual].digest;
}

/* Runs a candidate for one turn. Returns the time of one run; 0 if it can't be measured. */
static float take_turn(const trial &t, const cublasLtMatmulAlgo_t *algorithm, float expected_ms)
{
    int runs = (int)(TURN_MS / expected_ms);
    return time_of(t, algorithm, runs < FEWEST_RUNS ? FEWEST_RUNS : runs > MOST_RUNS ? MOST_RUNS : runs);
}

/* Replaces the times by the sums of TURNS turns, and by 0 for candidates that are too slow. */
static void compare(const trial &t, const cublasLtMatmulHeuristicResult_t *candidates, int count, finding *findings)
{
    float best = 0, first_ms[MOST_CANDIDATES];
    for (int i = 0; i < count; i++) {
        first_ms[i] = findings[i].ms;
        findings[i].ms = 0;
        if (first_ms[i] > 0 && (best == 0 || first_ms[i] < best))
            best = first_ms[i];
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < count; i++)
            if (first_ms[i] > 0 && first_ms[i] <= best * CONTENDS)
                findings[i].ms += take_turn(t, &candidates[i].algo, first_ms[i]);
}

static int choose(const trial &t, const cublasLtMatmulHeuristicResult_t *candidates, int count)
{
    finding findings[MOST_CANDIDATES] = {};
    look(t, candidates, count, findings);
    compare(t, candidates, count, findings);
    int alike = pick(findings, count, true), other = pick(findings, count, false);
    if (alike >= 0 && other >= 0 && findings[other].ms < findings[alike].ms * WORTH_OTHER_BITS)
        return other;
    return alike;
}

/* Finds the kernel for a product, which it computes several times. Returns false if there is none. */
static bool measure(trial t, mtk_choice *choice)
{
    cublasLtMatmulHeuristicResult_t candidates[MOST_CANDIDATES];
    int count = set_scales(choice, t.product)
                    ? list_candidates(t.queue, choice, usable(t.workspace_bytes), MOST_CANDIDATES, candidates)
                    : 0;
    int chosen = -1;
    if (cudaEventCreate(&t.begin) == cudaSuccess && cudaEventCreate(&t.end) == cudaSuccess)
        chosen = choose(t, candidates, count);
    if (t.begin != nullptr)
        cudaEventDestroy(t.begin);
    if (t.end != nullptr)
        cudaEventDestroy(t.end);
    (void)cudaGetLastError(); /* clear a candidate's error, which would be returned by the next launch */
    if (chosen >= 0)
        choice->algorithm = candidates[chosen].algo;
    return chosen >= 0;
}

/* ---- */

/* True if a product is large enough for measuring, and its result is one contiguous, aligned range. */
static bool is_eligible(const mtk_blas_product *p, mt_addr workspace, uint64_t workspace_bytes)
{
    uintptr_t addresses = (uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c | (uintptr_t)workspace;
    return 2.0 * (double)p->m * (double)p->n * (double)p->k >= LEAST_OPERATIONS && p->c_leading == p->m &&
           p->m * p->n % 2 == 0 && addresses % ALIGNMENT == 0 && workspace_bytes > ALIGNMENT &&
           workspace_bytes % ALIGNMENT == 0;
}

static bool is_captured(const mtk_queue *queue)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(queue->stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

/* Adds a choice, which describes the product but has no kernel yet. It is usable if the description is valid. Returns
 * nullptr if there is no memory for it. */
static mtk_choice *add(mtk_queue *queue, const mtk_blas_product *product, way way)
{
    mtk_choice *choice = static_cast<mtk_choice *>(calloc(1, sizeof *choice));
    if (choice == nullptr)
        return nullptr;
    choice->key = key_of(product, way);
    choice->is_usable = describe(product, choice);
    choice->next = queue->choices;
    queue->choices = choice;
    return choice;
}

bool mtk_choice_multiply(struct mtk_queue *queue, const struct mtk_blas_product *product, mt_addr workspace,
                         uint64_t workspace_bytes)
{
    if (!is_eligible(product, workspace, workspace_bytes))
        return false;
    mtk_choice *choice = find(queue->choices, key_of(product, MEASURED));
    if (choice == nullptr && (product->beta != 0 || is_captured(queue)))
        return false;
    trial t = {queue, choice, product, mtk_device_pointer(workspace), workspace_bytes, nullptr, nullptr};
    if (choice == nullptr) {
        choice = add(queue, product, MEASURED);
        if (choice == nullptr)
            return false;
        t.choice = choice;
        choice->is_usable = choice->is_usable && measure(t, choice);
    }
    return choice->is_usable && multiply(t, &choice->algorithm) == CUBLAS_STATUS_SUCCESS;
}

/* Gets cuBLAS's heuristic choice. Returns false if there is none. */
static bool guess(const trial &t, mtk_choice *choice)
{
    cublasLtMatmulHeuristicResult_t first;
    if (!set_scales(choice, t.product) || list_candidates(t.queue, choice, usable(t.workspace_bytes), 1, &first) < 1)
        return false;
    choice->algorithm = first.algo;
    return true;
}

mt_status mtk_choice_guess(struct mtk_queue *queue, const struct mtk_blas_product *product, mt_addr workspace,
                           uint64_t workspace_bytes)
{
    mtk_choice *choice = find(queue->choices, key_of(product, GUESSED));
    trial t = {queue, choice, product, mtk_device_pointer(workspace), workspace_bytes, nullptr, nullptr};
    if (choice == nullptr) {
        choice = add(queue, product, GUESSED);
        if (choice == nullptr)
            return mt_fail(MT_FAILED, "cublasLt: there is no memory to describe a product");
        t.choice = choice;
        choice->is_usable = choice->is_usable && guess(t, choice);
    }
    if (!choice->is_usable)
        return mt_fail(MT_FAILED, "cublasLt has no kernel for it on this card");
    cublasStatus_t outcome = multiply(t, &choice->algorithm);
    return outcome == CUBLAS_STATUS_SUCCESS ? MT_OK : mtk_blas_fail(outcome, "cublasLtMatmul");
}
