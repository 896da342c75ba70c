/* Primitives of Hopper (compute capability 9.0) for the kernels of attention and of the gate: barriers in shared
 * memory, tensor copies by the copy engine, and products of a warpgroup. Compiled only for sm_90a.
 *
 * A tile in shared memory consists of chunks of 64 columns of bf16, so that a row of a chunk has 128 bytes:
 *
 *   chunk 0: row 0 | row 1 | …      chunk 1: row 0 | row 1 | …
 *
 * The 16-byte pieces of a row are permuted by the row's number modulo 8 (128-byte swizzle), as the copy engine writes
 * and the matrix units read them. A chunk is aligned to 1024 bytes. Sources: PTX ISA 8.7, chapters "Asynchronous
 * Warpgroup Level Matrix Instructions" and "Tensors". */
#pragma once

#include "kernels/cuda/fragments.cuh"

#include <cuda.h>

constexpr int MTK_CHUNK = 64;             /* columns */
constexpr uint32_t MTK_CHUNK_ROW = 128;   /* bytes */
constexpr int MTK_WARPGROUP = 128;        /* threads */
constexpr int MTK_GROUP_ROWS = 64;        /* rows of the left operand of one product */
constexpr uint32_t MTK_TILE_ALIGN = 1024; /* bytes */

/* ---- Barriers. A barrier counts arrivals and bytes; its phase, 0 or 1, flips when all of both have arrived. */

__device__ __forceinline__ void mtk_barrier_create(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mtk_shared_address(barrier)), "r"(arrivals));
}

/* Makes new barriers visible to the copy engine. The block must synchronize afterwards. */
__device__ __forceinline__ void mtk_barriers_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mtk_barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mtk_shared_address(barrier)) : "memory");
}

/* Arrives, and makes the phase wait for this many more bytes. */
__device__ __forceinline__ void mtk_barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mtk_shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/* Returns when the phase has ended. */
__device__ __forceinline__ void mtk_barrier_wait(uint64_t *barrier, uint32_t phase)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra ended;\n"
                 "bra again;\n"
                 "ended:\n"
                 "}\n" ::"r"(mtk_shared_address(barrier)),
                 "r"(phase)
                 : "memory");
}

/* Waits at the named barrier until this many threads have arrived; `pass` arrives without waiting. */
__device__ __forceinline__ void mtk_named_wait(int name, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

__device__ __forceinline__ void mtk_named_pass(int name, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* The n-th use of a ring of STAGES tiles, and the phase of its stage's barriers. */
template <int STAGES> struct mtk_use {
    int n;

    __device__ __forceinline__ int stage() const
    {
        return n % STAGES;
    }

    __device__ __forceinline__ uint32_t phase() const
    {
        return (uint32_t)(n / STAGES) & 1;
    }
};

/* ---- Clusters: blocks that are resident together and access each other's shared memory. */

/* Returns the number of this block in its cluster. */
__device__ __forceinline__ uint32_t mtk_cluster_rank()
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Waits until all threads of the cluster have arrived. */
__device__ __forceinline__ void mtk_cluster_wait()
{
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/* Arrives at the barrier at this address in a block of the cluster. Does not make the thread's writes visible, since a
 * release would need a fence of the whole card. */
__device__ __forceinline__ void mtk_barrier_arrive_in(uint32_t block, uint64_t *barrier)
{
    asm volatile(
        "{\n.reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];\n}\n" ::"r"(mtk_shared_address(barrier)),
        "r"(block)
        : "memory");
}

/* Release registers of this warpgroup's threads, or request more. COUNT is a multiple of 8. */
template <int COUNT> __device__ __forceinline__ void mtk_registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> __device__ __forceinline__ void mtk_registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* True in one thread of the warp, always the same. All threads of the warp must call it. The compiler knows that one
 * remains, so it passes operands to the copy engine without a loop over the threads. */
__device__ __forceinline__ bool mtk_is_elected()
{
    uint32_t elected;
    asm volatile("{\n.reg .pred elected;\n"
                 "elect.sync _|elected, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, elected;\n}\n"
                 : "=r"(elected));
    return elected != 0;
}

/* ---- Copies by the copy engine */

/* A head's rows of a tensor (B,H,T,D), for the copy engine. */
using mtk_tensor_map = CUtensorMap;

/* Describes heads (B,H,T,D) of bf16 for the copy engine, for copies of `rows` rows and one chunk of columns; a matrix
 * is one head. Heads of fp32, with at most 256 columns, are copied with all columns and without a swizzle. */
mt_status mtk_hopper_map(mtk_tensor_map *map, const struct mtk_view *heads, int rows);

/* Starts to copy rows from `row` on of a head, one chunk of columns, as many rows as the map's box has. Elements
 * outside the tensor become 0. The barrier counts the bytes of the whole box. */
__device__ __forceinline__ void mtk_tensor_copy(uint32_t to, const mtk_tensor_map *map, uint64_t *barrier, int column,
                                                int row, int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
                 "%5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(mtk_shared_address(barrier)), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

/* The same for a matrix, to the same address in each block of the cluster whose bit is set in `blocks`; the barrier at
 * this address in each block counts. */
__device__ __forceinline__ void mtk_tensor_copy_to(uint16_t blocks, uint32_t to, const mtk_tensor_map *map,
                                                   uint64_t *barrier, int column, int row)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5, %5}], [%2], %6;" ::"r"(to),
                 "l"(map), "r"(mtk_shared_address(barrier)), "r"(column), "r"(row), "r"(0), "h"(blocks)
                 : "memory");
}

/* Starts to write rows from `row` on of a matrix, in the layout of mtk_tensor_copy. Elements outside the matrix are not
 * written. */
__device__ __forceinline__ void mtk_tensor_write(const mtk_tensor_map *map, uint32_t from, int column, int row)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(column), "r"(row), "r"(0)
                 : "memory");
}

/* Start to write floats to the card's memory, or to add them. */
__device__ __forceinline__ void mtk_floats_write(float *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void mtk_floats_add(float *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void mtk_writes_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Returns when all but PENDING of the thread's write groups have read shared memory. */
template <int PENDING = 0> __device__ __forceinline__ void mtk_writes_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* Returns when the thread's writes are complete. */
__device__ __forceinline__ void mtk_writes_wait()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Makes the thread's writes to shared memory visible to the copy engine and the matrix units. */
__device__ __forceinline__ void mtk_shared_publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Orders the thread's reads of the card's memory before the copy engine's accesses on its behalf. */
__device__ __forceinline__ void mtk_global_publish()
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* ---- Products of a warpgroup: 64 rows of the left operand, N columns, 16 along the summed dimension.
 *
 * A thread has rows 16 w + g and 16 w + g + 8 of the result, with w its warp and g = lane / 4, and of every 8 columns
 * the two at lane % 4 * 2:  sum[4 n + e] is row g + e / 2 * 8, column 8 n + lane % 4 * 2 + e % 2. */

/* Describes an operand in chunks. ROWS: the rows per chunk. */
template <int ROWS> __device__ __forceinline__ uint64_t mtk_operand(uint32_t address)
{
    constexpr uint64_t SWIZZLE_128 = (uint64_t)1 << 62, EIGHT_ROWS = (uint64_t)(8 * MTK_CHUNK_ROW / 16) << 32;
    constexpr uint64_t CHUNK = (uint64_t)(ROWS * MTK_CHUNK_ROW / 16) << 16;
    return SWIZZLE_128 | EIGHT_ROWS | CHUNK | ((address & 0x3FFFF) / 16);
}

/* Orders the registers of results before the next product, so that the compiler does not move their uses across. */
template <int COUNT> __device__ __forceinline__ void mtk_results_fence(float (&sum)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(sum[i])::"memory");
}

__device__ __forceinline__ void mtk_products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void mtk_products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Returns when at most PENDING groups of products are in flight. */
template <int PENDING> __device__ __forceinline__ void mtk_products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

#define MTK_F4(x, i) "+f"(x[i]), "+f"(x[(i) + 1]), "+f"(x[(i) + 2]), "+f"(x[(i) + 3])
#define MTK_F16(x, i) MTK_F4(x, i), MTK_F4(x, (i) + 4), MTK_F4(x, (i) + 8), MTK_F4(x, (i) + 12)
#define MTK_F32(x, i) MTK_F16(x, i), MTK_F16(x, (i) + 16)
#define MTK_N_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MTK_N_16 MTK_N_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MTK_N_32 MTK_N_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MTK_N_40 MTK_N_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MTK_N_128                                                                                                      \
    MTK_N_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "  \
             "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "      \
             "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "  \
             "%120, %121, %122, %123, %124, %125, %126, %127"
#define MTK_N_64                                                                                                       \
    MTK_N_40 ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "  \
             "%60, %61, %62, %63"

/* One instruction. A and B from shared memory, or A from registers; OPERANDS are the numbers of a, b and `adds`. */
#define MTK_WGMMA_SHARED(N, RESULTS, A, B, ADDS, TURN_A, TURN_B, ...)                                                  \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " ADDS ", 0;\n"                                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" RESULTS "}, " A ", " B                   \
                 ", adds, 1, 1, " TURN_A ", " TURN_B ";\n}\n"                                                          \
                 : __VA_ARGS__                                                                                         \
                 : "l"(a), "l"(b), "r"(adds), "n"(LEFT_TURNED), "n"(RIGHT_TURNED))

#define MTK_WGMMA_LEFT(N, RESULTS, A, B, ADDS, TURN_B, ...)                                                            \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " ADDS ", 0;\n"                                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" RESULTS "}, {" A "}, " B                 \
                 ", adds, 1, 1, " TURN_B ";\n}\n"                                                                      \
                 : __VA_ARGS__                                                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "n"(RIGHT_TURNED))

/* Starts sum = a b + sum, or sum = a b unless `adds`. A transposed operand has the summed dimension in its rows. */
template <int LEFT_TURNED, int RIGHT_TURNED, int COUNT>
__device__ __forceinline__ void mtk_product(float (&sum)[COUNT], uint64_t a, uint64_t b, int adds)
{
    static_assert(COUNT == 8 || COUNT == 16 || COUNT == 32 || COUNT == 40 || COUNT == 64 || COUNT == 128,
                  "there is an instruction");
    if constexpr (COUNT == 8)
        MTK_WGMMA_SHARED(16, MTK_N_8, "%8", "%9", "%10", "%11", "%12", MTK_F4(sum, 0), MTK_F4(sum, 4));
    if constexpr (COUNT == 16)
        MTK_WGMMA_SHARED(32, MTK_N_16, "%16", "%17", "%18", "%19", "%20", MTK_F16(sum, 0));
    if constexpr (COUNT == 32)
        MTK_WGMMA_SHARED(64, MTK_N_32, "%32", "%33", "%34", "%35", "%36", MTK_F32(sum, 0));
    if constexpr (COUNT == 40)
        MTK_WGMMA_SHARED(80, MTK_N_40, "%40", "%41", "%42", "%43", "%44", MTK_F32(sum, 0), MTK_F4(sum, 32),
                         MTK_F4(sum, 36));
    if constexpr (COUNT == 64)
        MTK_WGMMA_SHARED(128, MTK_N_64, "%64", "%65", "%66", "%67", "%68", MTK_F32(sum, 0), MTK_F32(sum, 32));
    if constexpr (COUNT == 128)
        MTK_WGMMA_SHARED(256, MTK_N_128, "%128", "%129", "%130", "%131", "%132", MTK_F32(sum, 0), MTK_F32(sum, 32),
                         MTK_F32(sum, 64), MTK_F32(sum, 96));
}

/* The same with the left operand in registers: a[0] and a[2] are columns of row g, a[1] and a[3] of row g + 8. */
template <int RIGHT_TURNED, int COUNT>
__device__ __forceinline__ void mtk_product(float (&sum)[COUNT], const uint32_t (&a)[4], uint64_t b, int adds)
{
    static_assert(COUNT == 32 || COUNT == 40 || COUNT == 64, "there is an instruction");
    if constexpr (COUNT == 32)
        MTK_WGMMA_LEFT(64, MTK_N_32, "%32, %33, %34, %35", "%36", "%37", "%38", MTK_F32(sum, 0));
    if constexpr (COUNT == 40)
        MTK_WGMMA_LEFT(80, MTK_N_40, "%40, %41, %42, %43", "%44", "%45", "%46", MTK_F32(sum, 0), MTK_F4(sum, 32),
                       MTK_F4(sum, 36));
    if constexpr (COUNT == 64)
        MTK_WGMMA_LEFT(128, MTK_N_64, "%64, %65, %66, %67", "%68", "%69", "%70", MTK_F32(sum, 0), MTK_F32(sum, 32));
}

/* Stores four 8 x 8 pieces of bf16; 8 lanes give the addresses of each piece's rows. */
__device__ __forceinline__ void mtk_pieces_store(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}

/* Loads four such pieces. */
__device__ __forceinline__ void mtk_pieces_load(uint32_t address, uint32_t (&piece)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                 : "r"(address)
                 : "memory");
}

/* Returns the address of a 16-byte piece of a row in a chunk at `chunk`. */
__device__ __forceinline__ uint32_t mtk_piece_address(uint32_t chunk, int row, int piece)
{
    return chunk + (uint32_t)row * MTK_CHUNK_ROW + (uint32_t)((piece ^ (row & 7)) * 16);
}
