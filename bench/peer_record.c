/* A CUDA program to be recorded, as somebody may have written it: takes memory in each way that there is and fills it.
 *
 *   peer_record malloc     cudaMalloc, cudaMallocAsync, cudaMallocManaged
 *   peer_record virtual    ranges of addresses, to which physical memory is mapped
 *
 * Answers on stdin, as bench/peer.h says:
 *
 *   step COUNT    milliseconds of a step, in which memory is taken, filled and given back: the median
 *   memory        bytes that the driver gave since the program began, by the driver's own count */
#include "bench/report.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECES = 8, MOST_STEPS = 1000 };
static const size_t piece_bytes = (size_t)64 << 20;

/* The driver's functions for virtual memory. */
static struct {
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*allow)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*release)(CUmemGenericAllocationHandle);
} driver;

static CUdeviceptr range;    /* of addresses, for one piece more than is kept */
static size_t free_at_first; /* before anything was taken */

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "peer_record: %s failed\n", what);
    exit(1);
}

static void *find(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *function = NULL;
    if (library != NULL)
        function = dlsym(library, name);
    check(function != NULL, name);
    return function;
}

static void find_driver(void)
{
    *(void **)&driver.reserve = find("cuMemAddressReserve");
    *(void **)&driver.create = find("cuMemCreate");
    *(void **)&driver.map = find("cuMemMap");
    *(void **)&driver.allow = find("cuMemSetAccess");
    *(void **)&driver.unmap = find("cuMemUnmap");
    *(void **)&driver.release = find("cuMemRelease");
}

static size_t free_bytes(void)
{
    size_t free = 0, total = 0;
    check(cudaDeviceSynchronize() == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess, "cudaMemGetInfo");
    return free;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void fill(void *memory)
{
    for (int i = 0; i < 4; i++)
        check(cudaMemsetAsync(memory, i, piece_bytes, 0) == cudaSuccess, "cudaMemsetAsync");
}

/* ---- malloc ---- */

static void *pieces[3];

/* Pools keep what they have, as programs that are in a hurry set them. */
static void keep_pieces(void)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    check(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess &&
              cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess,
          "cudaMemPoolSetAttribute");
    check(cudaMalloc(&pieces[0], piece_bytes * PIECES) == cudaSuccess, "cudaMalloc");
    check(cudaMallocAsync(&pieces[1], piece_bytes * PIECES, 0) == cudaSuccess, "cudaMallocAsync");
    check(cudaMallocManaged(&pieces[2], piece_bytes, cudaMemAttachGlobal) == cudaSuccess, "cudaMallocManaged");
    for (int i = 0; i < 3; i++)
        fill(pieces[i]);
}

static void step_malloc(void)
{
    void *first, *second;
    for (int i = 0; i < PIECES; i++) {
        check(cudaMallocAsync(&second, piece_bytes, 0) == cudaSuccess, "cudaMallocAsync");
        fill(second);
        check(cudaFreeAsync(second, 0) == cudaSuccess, "cudaFreeAsync");
    }
    check(cudaMalloc(&first, piece_bytes) == cudaSuccess, "cudaMalloc");
    fill(first);
    check(cudaFree(first) == cudaSuccess, "cudaFree");
}

/* ---- virtual ---- */

static CUmemGenericAllocationHandle map_piece(CUdeviceptr where)
{
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    const CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    const CUmemAccessDesc access = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    check(driver.create(&handle, piece_bytes, &kind, 0) == CUDA_SUCCESS, "cuMemCreate");
    check(driver.map(where, piece_bytes, 0, handle, 0) == CUDA_SUCCESS, "cuMemMap");
    check(driver.allow(where, piece_bytes, &access, 1) == CUDA_SUCCESS, "cuMemSetAccess");
    return handle;
}

/* Handles are released at once: what is mapped stays. */
static void keep_mapped(void)
{
    find_driver();
    check(driver.reserve(&range, piece_bytes * (PIECES + 1), 0, 0, 0) == CUDA_SUCCESS, "cuMemAddressReserve");
    for (int i = 0; i < PIECES; i++)
        check(driver.release(map_piece(range + (size_t)i * piece_bytes)) == CUDA_SUCCESS, "cuMemRelease");
}

static void step_virtual(void)
{
    CUdeviceptr last = range + PIECES * piece_bytes;
    CUmemGenericAllocationHandle handle = map_piece(last);
    for (int i = 0; i < PIECES; i++)
        fill((void *)(range + (size_t)i * piece_bytes));
    fill((void *)last);
    check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    check(driver.unmap(last, piece_bytes) == CUDA_SUCCESS, "cuMemUnmap");
    check(driver.release(handle) == CUDA_SUCCESS, "cuMemRelease");
}

/* ---- answers ---- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_step_ms(void (*step)(void), int count)
{
    static double ms[MOST_STEPS];
    for (int i = 0; i < count; i++) {
        double began = now_ms();
        step();
        check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
        ms[i] = now_ms() - began;
    }
    qsort(ms, (size_t)count, sizeof ms[0], compare);
    return ms[count / 2];
}

int main(int count, char **arguments)
{
    bool maps = count > 1 && strcmp(arguments[1], "virtual") == 0;
    char line[64];
    check(cudaFree(NULL) == cudaSuccess, "cudaFree"); /* makes the context */
    free_at_first = free_bytes();
    maps ? keep_mapped() : keep_pieces();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        int steps = atoi(line + strcspn(line, " "));
        if (strncmp(line, "step", 4) == 0 && steps > 0 && steps <= MOST_STEPS)
            printf("%.9g\n", median_step_ms(maps ? step_virtual : step_malloc, steps));
        else
            printf("%.17g\n", (double)(free_at_first - free_bytes()));
        fflush(stdout);
    }
    return 0;
}
