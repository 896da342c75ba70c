/* One step of AdamW over a list of parameters. An fp32 element needs 28 bytes of reads and writes, and 2 for the cast;
 * with moments in bf16 20, in 8 bits 16 plus its share of the scales.
 *
 * The list is a parameter of the launch; each form of moments has its own. Parameters are divided into chunks, numbered
 * from 0 over all of them. A block processes one chunk, and finds its parameter by the number of the first chunk. A
 * thread processes four neighbours if the tensors are aligned accordingly: short blocks in memory order use the memory
 * better than a few persistent blocks. With 8-bit moments a warp processes 256 neighbours per round:
 *
 *   chunk of 8-bit moments  | 256 elements of warp 0 | … of warp 23 | … of warp 0 | … | of warp 23 |   each with scales
 */
#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/moments.h"

constexpr int VEC = 4;
constexpr int FULL_THREADS = 1024, BF16_THREADS = 512, CODE_THREADS = 768, CODE_ROUNDS = 3;
constexpr int CODE_ROUND = CODE_THREADS / MTK_WARP * MTK_MOMENTS_BLOCK; /* elements per round */

/* Returns the elements of a chunk. */
__host__ __device__ constexpr int chunk_of(mtk_moments form)
{
    return form == MTK_MOMENTS_FULL   ? FULL_THREADS * VEC
           : form == MTK_MOMENTS_BF16 ? BF16_THREADS * VEC
                                      : CODE_ROUND * CODE_ROUNDS;
}

/* Limit of items per launch, since its parameters are limited to 4 KiB. */
constexpr int MOST_ITEMS = 55;

struct item {
    char *value, *mean, *square, *cast, *scales;
    const char *grad;
    int64_t count;
    uint64_t generator;
    uint32_t first_chunk;
    bool in_fours;
};

struct update_call {
    struct item items[MOST_ITEMS];
    int count;
};

/* The rates of an update, in the type of the computation. Shares are 1 - beta. */
template <typename T> struct rates {
    T mean_share, square_share, epsilon, step_size, keep;
};
static_assert(sizeof(update_call) + sizeof(rates<double>) <= 4096, "a launch takes 4 KiB of parameters everywhere");

__device__ __forceinline__ float root(float x)
{
    return sqrtf(x);
}

__device__ __forceinline__ double root(double x)
{
    return sqrt(x);
}

/* Returns a * b + c, rounded once. */
__device__ __forceinline__ float fused(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

__device__ __forceinline__ double fused(double a, double b, double c)
{
    return __fma_rn(a, b, c);
}

/* Updates an element and its moments. Explicit fused operations, not the compiler's choice, so that a parameter gets
 * the same bits in every kernel: alone it may be updated by another kernel than among others. */
template <typename T> __device__ __forceinline__ void step(const rates<T> &r, T grad, T *value, T *mean, T *square)
{
    *mean = fused(r.mean_share, grad - *mean, *mean);
    *square = fused(r.square_share, fused(grad, grad, -*square), *square);
    *value = fused(r.keep, *value, -(r.step_size * *mean / (root(*square) + r.epsilon)));
}

/* Writes V neighbours of the value and, if present, of the cast. */
template <typename T, int V>
__device__ __forceinline__ void write_value(const item &p, int64_t first, int dtype, const T *value)
{
    mtk_write<T, V>(p.value + first * (int64_t)sizeof(T), dtype, mtk_encode<T, V>(value, dtype));
    if (p.cast != nullptr)
        mtk_write<T, V>(p.cast + first * mtk_size_of(MT_BF16), MT_BF16, mtk_encode<T, V>(value, MT_BF16));
}

/* Updates V neighbours of a parameter from element `first` on, with moments of the parameter's dtype. */
template <typename T, int V> __device__ __forceinline__ void update(const item &p, const rates<T> &r, int64_t first)
{
    constexpr int dtype = sizeof(T) == 8 ? MT_F64 : MT_F32;
    int64_t at = first * (int64_t)sizeof(T);
    mtk_words<T, V> raw_value = mtk_read<T, V>(p.value + at, dtype), raw_grad = mtk_read<T, V>(p.grad + at, dtype);
    mtk_words<T, V> raw_mean = mtk_read<T, V>(p.mean + at, dtype), raw_square = mtk_read<T, V>(p.square + at, dtype);
    T value[V], grad[V], mean[V], square[V];
    mtk_decode<T, V>(raw_value, dtype, value);
    mtk_decode<T, V>(raw_grad, dtype, grad);
    mtk_decode<T, V>(raw_mean, dtype, mean);
    mtk_decode<T, V>(raw_square, dtype, square);
#pragma unroll
    for (int e = 0; e < V; e++)
        step(r, grad[e], &value[e], &mean[e], &square[e]);
    write_value<T, V>(p, first, dtype, value);
    mtk_write<T, V>(p.mean + at, dtype, mtk_encode<T, V>(mean, dtype));
    mtk_write<T, V>(p.square + at, dtype, mtk_encode<T, V>(square, dtype));
}

/* Updates V neighbours with moments in bf16, which are rounded stochastically. */
template <int V> __device__ __forceinline__ void update_bf16(const item &p, const rates<float> &r, int64_t first)
{
    int64_t at = first * (int64_t)sizeof(float), narrow_at = first * mtk_size_of(MT_BF16);
    mtk_words<float, V> raw_value = mtk_read<float, V>(p.value + at, MT_F32);
    mtk_words<float, V> raw_grad = mtk_read<float, V>(p.grad + at, MT_F32);
    mtk_words<float, V> raw_mean = mtk_read<float, V>(p.mean + narrow_at, MT_BF16);
    mtk_words<float, V> raw_square = mtk_read<float, V>(p.square + narrow_at, MT_BF16);
    mtk_words<float, V> out_mean = {}, out_square = {};
    float value[V], grad[V], mean[V], square[V];
    uint64_t pairs[(V + 1) / 2];
    mtk_decode<float, V>(raw_value, MT_F32, value);
    mtk_decode<float, V>(raw_grad, MT_F32, grad);
    mtk_decode<float, V>(raw_mean, MT_BF16, mean);
    mtk_decode<float, V>(raw_square, MT_BF16, square);
#pragma unroll
    for (int i = 0; i < (V + 1) / 2; i++)
        pairs[i] = mtk_moment_bits(p.generator, first / 2 + i);
#pragma unroll
    for (int e = 0; e < V; e++) {
        uint32_t random = (uint32_t)(pairs[e / 2] >> 32 * (V == 1 ? first % 2 : e % 2));
        step(r, grad[e], &value[e], &mean[e], &square[e]);
        out_mean.word[e / 2] |= (uint32_t)mtk_bf16_at_random(__float_as_uint(mean[e]), random) << 16 * (e % 2);
        out_square.word[e / 2] |= (uint32_t)mtk_bf16_at_random(__float_as_uint(square[e]), random >> 16)
                                  << 16 * (e % 2);
    }
    write_value<float, V>(p, first, MT_F32, value);
    mtk_write<float, V>(p.mean + narrow_at, MT_BF16, out_mean);
    mtk_write<float, V>(p.square + narrow_at, MT_BF16, out_square);
}

/* The tables of both moments. */
struct alignas(16) code_tables {
    struct mtk_codes mean, square;
};

__device__ const code_tables CODES = {mtk_codes_of(MTK_MEAN_CELLS), mtk_codes_of(MTK_SQUARE_CELLS)};

/* A lane's elements in a block of moments: groups of V neighbours, alternating with the other lanes' groups. */
constexpr int LANE_ELEMENTS = MTK_MOMENTS_BLOCK / MTK_WARP;

template <int V> struct lane_block {
    float value[LANE_ELEMENTS], grad[LANE_ELEMENTS];
    uint32_t mean[LANE_ELEMENTS / V], square[LANE_ELEMENTS / V]; /* V codes each, the first in the lowest byte */
    float mean_scale, square_scale;
};

/* Returns the first element of the lane's group number `group` of a block that begins at `first`. */
template <int V> __device__ __forceinline__ int64_t group_at(int64_t first, int group)
{
    return first + (group * MTK_WARP + (int)threadIdx.x % MTK_WARP) * V;
}

/* Returns the scales of the mean and of the square, aligned to one float. */
__device__ __forceinline__ float *scales_at(const item &p, int64_t first)
{
    return reinterpret_cast<float *>(p.scales) + 2 * (first / MTK_MOMENTS_BLOCK);
}

/* Reads the block of moments from element `first` on, which ends at `end` unless it is WHOLE. Elements beyond it are 0,
 * also after a step. */
template <int V, bool WHOLE>
__device__ __forceinline__ lane_block<V> read_block(const item &p, int64_t first, int64_t end)
{
    lane_block<V> b = {};
#pragma unroll
    for (int group = 0; group < LANE_ELEMENTS / V; group++) {
        int64_t at = group_at<V>(first, group), bytes = at * (int64_t)sizeof(float);
        if (!WHOLE && at >= end)
            continue;
        mtk_decode<float, V>(mtk_read<float, V>(p.value + bytes, MT_F32), MT_F32, &b.value[group * V]);
        mtk_decode<float, V>(mtk_read<float, V>(p.grad + bytes, MT_F32), MT_F32, &b.grad[group * V]);
        mtk_read_bytes<V>(p.mean + at, &b.mean[group]);
        mtk_read_bytes<V>(p.square + at, &b.square[group]);
    }
    const float *scales = scales_at(p, first);
    b.mean_scale = scales[0], b.square_scale = scales[1];
    return b;
}

/* Prefetches a whole block of moments and its scales into the L2 cache. A lane requests one cache line. */
__device__ __forceinline__ void fetch_block(const item &p, int64_t first)
{
    constexpr int LINE = 128, WIDE = MTK_MOMENTS_BLOCK * (int)sizeof(float) / LINE, NARROW = MTK_MOMENTS_BLOCK / LINE;
    constexpr int GRAD = WIDE, MEAN = GRAD + WIDE, SQUARE = MEAN + NARROW, SCALES = SQUARE + NARROW;
    int lane = (int)threadIdx.x % MTK_WARP;
    int64_t bytes = first * (int64_t)sizeof(float);
    const char *line = lane < GRAD     ? p.value + bytes + lane * LINE
                       : lane < MEAN   ? p.grad + bytes + (lane - GRAD) * LINE
                       : lane < SQUARE ? p.mean + first + (lane - MEAN) * LINE
                       : lane < SCALES ? p.square + first + (lane - SQUARE) * LINE
                                       : reinterpret_cast<const char *>(scales_at(p, first));
    if (lane <= SCALES)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

/* Returns the warp's largest number to all lanes. Numbers are not negative, so their bits have the order of the
 * numbers. */
__device__ __forceinline__ float warp_largest(float number)
{
    return __uint_as_float(__reduce_max_sync(0xFFFFFFFFu, __float_as_uint(number)));
}

/* Returns the codes of V neighbours, the first in the lowest byte. */
template <int V>
__device__ __forceinline__ uint32_t codes_of(const struct mtk_codes &codes, const float *number, float factor)
{
    uint32_t word = 0;
#pragma unroll
    for (unsigned e = 0; e < V; e++) {
        unsigned bytes = (0x3210 & ~(0xFu << 4 * e)) | 5u << 4 * e; /* byte 1 of the bits becomes byte e of the word */
        word = __byte_perm(word, mtk_code_bits(&codes, number[e] * factor), bytes);
    }
    return word;
}

/* Updates the block of moments from element `first` on, as one warp, and writes it. */
template <int V, bool WHOLE>
__device__ __forceinline__ void update_block(const item &p, const rates<float> &r, const code_tables &codes,
                                             int64_t first, int64_t end, lane_block<V> &b)
{
    float mean[LANE_ELEMENTS], square[LANE_ELEMENTS], largest_mean = 0, largest_square = 0;
#pragma unroll
    for (int i = 0; i < LANE_ELEMENTS; i++) {
        mean[i] = codes.mean.number[b.mean[i / V] >> 8 * (i % V) & 0xFF] * b.mean_scale;
        square[i] = codes.square.number[b.square[i / V] >> 8 * (i % V) & 0xFF] * b.square_scale;
        step(r, b.grad[i], &b.value[i], &mean[i], &square[i]);
        largest_mean = fmaxf(largest_mean, fabsf(mean[i]));
        largest_square = fmaxf(largest_square, fabsf(square[i]));
    }
#pragma unroll
    for (int group = 0; group < LANE_ELEMENTS / V; group++)
        if (WHOLE || group_at<V>(first, group) < end)
            write_value<float, V>(p, group_at<V>(first, group), MT_F32, &b.value[group * V]);
    largest_mean = warp_largest(largest_mean);
    largest_square = warp_largest(largest_square);
    float mean_factor = mtk_code_factor(largest_mean), square_factor = mtk_code_factor(largest_square);
#pragma unroll
    for (int group = 0; group < LANE_ELEMENTS / V; group++) {
        int64_t at = group_at<V>(first, group);
        uint32_t means = codes_of<V>(codes.mean, &mean[group * V], mean_factor);
        uint32_t squares = codes_of<V>(codes.square, &square[group * V], square_factor);
        if (!WHOLE && at >= end)
            continue;
        mtk_write_bytes<V>(p.mean + at, &means);
        mtk_write_bytes<V>(p.square + at, &squares);
    }
    if (threadIdx.x % MTK_WARP == 0) {
        float *scales = scales_at(p, first);
        scales[0] = largest_mean;
        scales[1] = largest_square;
    }
}

/* Returns the index of the last item that begins at this chunk or before. */
__device__ __forceinline__ int item_of(const update_call &call, uint32_t chunk)
{
    int low = 0, high = call.count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (call.items[middle].first_chunk <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Returns the element after the block's chunk, and sets *begin to its first. */
__device__ __forceinline__ int64_t chunk_end(const item &p, mtk_moments form, int64_t *begin)
{
    *begin = (int64_t)(blockIdx.x - p.first_chunk) * chunk_of(form);
    return *begin + chunk_of(form) < p.count ? *begin + chunk_of(form) : p.count;
}

/* mean += (1 - beta1) (grad - mean), square += (1 - beta2) (grad² - square), value = keep * value - step_size * mean /
 * (sqrt(square) + epsilon), cast = value. A block processes one chunk of one parameter, a thread VEC neighbours. Every
 * element of value, mean, square and, if present, cast is written. */
template <typename T>
__global__ void __launch_bounds__(FULL_THREADS) adamw_kernel(const __grid_constant__ update_call call, rates<T> r)
{
    mtk_await_turn();
    const item &p = call.items[item_of(call, blockIdx.x)];
    int64_t begin = 0, end = chunk_end(p, MTK_MOMENTS_FULL, &begin);
    if (p.in_fours) {
        if (begin + (int64_t)threadIdx.x * VEC < end)
            update<T, VEC>(p, r, begin + (int64_t)threadIdx.x * VEC);
        return;
    }
    for (int64_t first = begin + threadIdx.x; first < end; first += FULL_THREADS)
        update<T, 1>(p, r, first);
}

/* The same with moments in bf16. */
__global__ void __launch_bounds__(BF16_THREADS)
    adamw_bf16_kernel(const __grid_constant__ update_call call, rates<float> r)
{
    mtk_await_turn();
    const item &p = call.items[item_of(call, blockIdx.x)];
    int64_t begin = 0, end = chunk_end(p, MTK_MOMENTS_BF16, &begin);
    if (p.in_fours) {
        if (begin + (int64_t)threadIdx.x * VEC < end)
            update_bf16<VEC>(p, r, begin + (int64_t)threadIdx.x * VEC);
        return;
    }
    for (int64_t first = begin + threadIdx.x; first < end; first += BF16_THREADS)
        update_bf16<1>(p, r, first);
}

/* The same with moments in 8 bits; their scales are also written. A warp processes one block with common scales at a
 * time, and prefetches the next one while it computes. */
__global__ void __launch_bounds__(CODE_THREADS)
    adamw_8bit_kernel(const __grid_constant__ update_call call, rates<float> r)
{
    __shared__ code_tables codes;
    static_assert(sizeof codes / sizeof(uint4) <= CODE_THREADS, "a thread copies once");
    if (threadIdx.x < sizeof codes / sizeof(uint4))
        reinterpret_cast<uint4 *>(&codes)[threadIdx.x] = reinterpret_cast<const uint4 *>(&CODES)[threadIdx.x];
    mtk_await_turn();
    __syncthreads();
    const item &p = call.items[item_of(call, blockIdx.x)];
    int64_t begin = 0, end = chunk_end(p, MTK_MOMENTS_8BIT, &begin);
    int64_t first = begin + (int64_t)(threadIdx.x / MTK_WARP) * MTK_MOMENTS_BLOCK;
    for (; p.in_fours && first + MTK_MOMENTS_BLOCK <= end; first += CODE_ROUND) {
        lane_block<VEC> block = read_block<VEC, true>(p, first, end);
        if (first + CODE_ROUND + MTK_MOMENTS_BLOCK <= end)
            fetch_block(p, first + CODE_ROUND);
        update_block<VEC, true>(p, r, codes, first, end, block);
    }
    for (; first < end; first += CODE_ROUND) {
        lane_block<1> block = read_block<1, false>(p, first, end);
        update_block<1, false>(p, r, codes, first, end, block);
    }
}

static bool is_aligned(mt_addr address, size_t size)
{
    return address % (VEC * size) == 0;
}

/* Returns the bytes of an element of a moment. */
static size_t moment_size(const struct mtk_adamw_item *from, size_t size)
{
    return from->moments == MTK_MOMENTS_FULL ? size : from->moments == MTK_MOMENTS_BF16 ? 2 : 1;
}

static item item_from(const struct mtk_adamw_item *from, size_t size, uint32_t first_chunk)
{
    size_t of_moment = moment_size(from, size);
    bool in_fours = from->count % VEC == 0 && is_aligned(from->value, size) && is_aligned(from->grad, size) &&
                    is_aligned(from->mean, of_moment) && is_aligned(from->square, of_moment) &&
                    is_aligned(from->cast, (size_t)mtk_size_of(MT_BF16));
    return {mtk_device_pointer(from->value),
            mtk_device_pointer(from->mean),
            mtk_device_pointer(from->square),
            from->cast != 0 ? mtk_device_pointer(from->cast) : nullptr,
            from->scales != 0 ? mtk_device_pointer(from->scales) : nullptr,
            mtk_device_pointer(from->grad),
            from->count,
            from->generator,
            first_chunk,
            in_fours};
}

template <typename T> static rates<T> rates_of(const struct mtk_adamw *how)
{
    return {(T)(1 - how->beta1), (T)(1 - how->beta2), (T)how->epsilon, (T)how->step_size, (T)how->keep};
}

/* Queues the update of the first items with this form of moments, as many as fit in one launch, and sets *taken to the
 * number of items that are done. */
static mt_status launch_some(const struct mtk_adamw *how, mtk_moments form, int count,
                             const struct mtk_adamw_item *items, int *taken, struct mtk_queue *queue)
{
    update_call call = {};
    int64_t chunks = 0;
    size_t size = how->dtype == MT_F64 ? sizeof(double) : sizeof(float);
    for (*taken = 0; *taken < count && call.count < MOST_ITEMS; ++*taken) {
        const struct mtk_adamw_item *from = &items[*taken];
        int64_t more = from->moments == form ? mtk_ceiling(from->count, chunk_of(form)) : 0;
        if (chunks + more > MTK_MOST_UNITS)
            break;
        if (more > 0)
            call.items[call.count++] = item_from(from, size, (uint32_t)chunks);
        chunks += more;
    }
    if (*taken == 0)
        return mt_fail(MT_FAILED, "adamw: a parameter of %lld elements is larger than a launch numbers",
                       (long long)items[0].count);
    if (call.count == 0)
        return MT_OK;
    unsigned blocks = (unsigned)chunks;
    if (form == MTK_MOMENTS_8BIT)
        return mtk_launch("adamw", adamw_8bit_kernel, blocks, CODE_THREADS, queue, call, rates_of<float>(how));
    if (form == MTK_MOMENTS_BF16)
        return mtk_launch("adamw", adamw_bf16_kernel, blocks, BF16_THREADS, queue, call, rates_of<float>(how));
    if (how->dtype == MT_F64)
        return mtk_launch("adamw", adamw_kernel<double>, blocks, FULL_THREADS, queue, call, rates_of<double>(how));
    return mtk_launch("adamw", adamw_kernel<float>, blocks, FULL_THREADS, queue, call, rates_of<float>(how));
}

mt_status mtk_cuda_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                         struct mtk_queue *queue)
{
    for (mtk_moments form : {MTK_MOMENTS_FULL, MTK_MOMENTS_BF16, MTK_MOMENTS_8BIT})
        for (int done = 0, taken = 0; done < count; done += taken) {
            mt_status status = launch_some(how, form, count - done, items + done, &taken, queue);
            if (status != MT_OK)
                return status;
        }
    return MT_OK;
}
