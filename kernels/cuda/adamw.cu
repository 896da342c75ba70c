/* One step of AdamW over a list of parameters. An element of fp32 takes 28 bytes, read or written once, and 2 for the
 * cast.
 *
 * The list is a parameter of the launch. Parameters of the model are cut into chunks of CHUNK elements, numbered from 0
 * over all of them. A block takes one chunk, and finds its parameter by the number of the first chunk. A thread takes
 * four neighbours at a time if the tensors are aligned to that. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

constexpr int THREADS = 256, VEC = 4, ROUNDS = 4, CHUNK = THREADS * VEC * ROUNDS;

/* The most items of a launch, whose parameters are limited to 4 KiB. */
constexpr int MOST_ITEMS = 70;

struct item {
    char *value, *mean, *square, *cast;
    const char *grad;
    int64_t count;
    uint32_t first_chunk;
    bool in_fours;
};

struct update_call {
    struct item items[MOST_ITEMS];
    int count;
};

/* The rates of an update in the type that is computed in. Shares are 1 - beta. */
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

/* Updates V neighbours of a parameter from element `first` on. */
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
    for (int e = 0; e < V; e++) {
        mean[e] += r.mean_share * (grad[e] - mean[e]);
        square[e] += r.square_share * (grad[e] * grad[e] - square[e]);
        value[e] = r.keep * value[e] - r.step_size * mean[e] / (root(square[e]) + r.epsilon);
    }
    mtk_write<T, V>(p.value + at, dtype, mtk_encode<T, V>(value, dtype));
    mtk_write<T, V>(p.mean + at, dtype, mtk_encode<T, V>(mean, dtype));
    mtk_write<T, V>(p.square + at, dtype, mtk_encode<T, V>(square, dtype));
    if (p.cast != nullptr)
        mtk_write<T, V>(p.cast + first * mtk_size_of(MT_BF16), MT_BF16, mtk_encode<T, V>(value, MT_BF16));
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

/* mean += (1 - beta1) (grad - mean), square += (1 - beta2) (grad² - square), value = keep * value - step_size * mean /
 * (sqrt(square) + epsilon), cast = value. A block takes one chunk of one parameter, a thread ROUNDS times VEC
 * neighbours of it. Every element of value, mean, square and, if there is one, cast is written. */
template <typename T>
__global__ void __launch_bounds__(THREADS) adamw_kernel(const __grid_constant__ update_call call, rates<T> r)
{
    mtk_await_turn();
    const item &p = call.items[item_of(call, blockIdx.x)];
    int64_t begin = (int64_t)(blockIdx.x - p.first_chunk) * CHUNK;
    int64_t end = begin + CHUNK < p.count ? begin + CHUNK : p.count;
    if (p.in_fours) {
#pragma unroll
        for (int round = 0; round < ROUNDS; round++) {
            int64_t first = begin + (round * THREADS + (int64_t)threadIdx.x) * VEC;
            if (first < end)
                update<T, VEC>(p, r, first);
        }
        return;
    }
    for (int64_t first = begin + threadIdx.x; first < end; first += THREADS)
        update<T, 1>(p, r, first);
}

static bool is_aligned(mt_addr address, size_t size)
{
    return address % (VEC * size) == 0;
}

static item item_from(const struct mtk_adamw_item *from, size_t size, uint32_t first_chunk)
{
    bool in_fours = from->count % VEC == 0 && is_aligned(from->value, size) && is_aligned(from->grad, size) &&
                    is_aligned(from->mean, size) && is_aligned(from->square, size) &&
                    is_aligned(from->cast, (size_t)mtk_size_of(MT_BF16));
    return {mtk_device_pointer(from->value),
            mtk_device_pointer(from->mean),
            mtk_device_pointer(from->square),
            from->cast != 0 ? mtk_device_pointer(from->cast) : nullptr,
            mtk_device_pointer(from->grad),
            from->count,
            first_chunk,
            in_fours};
}

template <typename T> static rates<T> rates_of(const struct mtk_adamw *how)
{
    return {(T)(1 - how->beta1), (T)(1 - how->beta2), (T)how->epsilon, (T)how->step_size, (T)how->keep};
}

/* Queues as many of the items as one launch takes, and sets *taken to their number. */
static mt_status launch_some(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items, int *taken,
                             struct mtk_queue *queue)
{
    update_call call = {};
    int64_t chunks = 0;
    size_t size = how->dtype == MT_F64 ? sizeof(double) : sizeof(float);
    for (*taken = 0; *taken < count && call.count < MOST_ITEMS; ++*taken) {
        const struct mtk_adamw_item *from = &items[*taken];
        int64_t more = mtk_ceiling(from->count, CHUNK);
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
    if (how->dtype == MT_F64)
        return mtk_launch("adamw", adamw_kernel<double>, (unsigned)chunks, THREADS, queue, call, rates_of<double>(how));
    return mtk_launch("adamw", adamw_kernel<float>, (unsigned)chunks, THREADS, queue, call, rates_of<float>(how));
}

mt_status mtk_cuda_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                         struct mtk_queue *queue)
{
    for (int done = 0; done < count;) {
        int taken = 0;
        mt_status status = launch_some(how, count - done, items + done, &taken, queue);
        if (status != MT_OK)
            return status;
        done += taken;
    }
    return MT_OK;
}
