/* A CUDA program to be recorded, as somebody may have written it: takes memory in each way that there is and fills it.
 *
 *   peer_record malloc     cudaMalloc, cudaMallocAsync
 *   peer_record managed    cudaMallocManaged
 *   peer_record virtual    ranges of addresses, to which physical memory is mapped
 *
 * Answers on stdin, as bench/peer.h says:
 *
 *   step COUNT    milliseconds of a step, in which memory is taken, filled and given back: the median
 *   empty         bytes in use by the driver's count, before the program takes any: asked first
 *   full          the same at the highest point of a step, where the program stays until it is asked for something else */
#include "tests/card_program.h"

#include <cuda_runtime_api.h>
#include <string.h>
#include <time.h>

enum { PIECES = 8, MOST_STEPS = 1000 };
static const size_t piece_bytes = (size_t)64 << 20;

/* The driver's functions for ranges of addresses. */
static struct {
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*allow)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUresult (*unmap)(CUdeviceptr, size_t);
} driver;

static CUdeviceptr range; /* of addresses, for one piece more than is kept */

static void find_driver(void)
{
    *(void **)&driver.reserve = find("cuMemAddressReserve");
    *(void **)&driver.map = find("cuMemMap");
    *(void **)&driver.allow = find("cuMemSetAccess");
    *(void **)&driver.unmap = find("cuMemUnmap");
}

static double used_bytes(void)
{
    size_t free = 0, total = 0;
    check(cudaDeviceSynchronize() == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess, "cudaMemGetInfo");
    return (double)(total - free);
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

/* Context and code, which are no memory of the program's. */
static void load(void)
{
    void *memory;
    check(cudaMalloc(&memory, piece_bytes) == cudaSuccess, "cudaMalloc");
    fill(memory);
    check(cudaDeviceSynchronize() == cudaSuccess && cudaFree(memory) == cudaSuccess, "cudaFree");
}

/* ---- malloc ---- */

static void *last_piece;

/* Pools keep what they have, as programs that are in a hurry set them. */
static void keep_pieces(void)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    void *pieces[2];
    check(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess &&
              cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess,
          "cudaMemPoolSetAttribute");
    check(cudaMalloc(&pieces[0], piece_bytes * PIECES) == cudaSuccess, "cudaMalloc");
    check(cudaMallocAsync(&pieces[1], piece_bytes * PIECES, 0) == cudaSuccess, "cudaMallocAsync");
    for (int i = 0; i < 2; i++)
        fill(pieces[i]);
}

static void rise_malloc(void)
{
    void *piece;
    for (int i = 0; i < PIECES; i++) {
        check(cudaMallocAsync(&piece, piece_bytes, 0) == cudaSuccess, "cudaMallocAsync");
        fill(piece);
        check(cudaFreeAsync(piece, 0) == cudaSuccess, "cudaFreeAsync");
    }
    check(cudaMalloc(&last_piece, piece_bytes) == cudaSuccess, "cudaMalloc");
    fill(last_piece);
}

static void free_last(void)
{
    check(cudaFree(last_piece) == cudaSuccess, "cudaFree");
}

/* ---- managed ---- */

/* Filled on the card, so that it is there. */
static void *take_managed(void)
{
    void *piece;
    check(cudaMallocManaged(&piece, piece_bytes, cudaMemAttachGlobal) == cudaSuccess, "cudaMallocManaged");
    fill(piece);
    return piece;
}

static void keep_managed(void)
{
    for (int i = 0; i < PIECES; i++)
        (void)take_managed();
}

static void rise_managed(void)
{
    last_piece = take_managed();
}

/* ---- virtual ---- */

static CUmemGenericAllocationHandle map_piece(CUdeviceptr where)
{
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    const CUmemAccessDesc access = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = make_memory(piece_bytes);
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
        release_memory(map_piece(range + (size_t)i * piece_bytes));
}

static CUmemGenericAllocationHandle last_handle;

static CUdeviceptr last_place(void)
{
    return range + PIECES * piece_bytes;
}

static void rise_virtual(void)
{
    last_handle = map_piece(last_place());
    for (int i = 0; i <= PIECES; i++)
        fill((void *)(range + (size_t)i * piece_bytes));
}

static void fall_virtual(void)
{
    check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
    check(driver.unmap(last_place(), piece_bytes) == CUDA_SUCCESS, "cuMemUnmap");
    release_memory(last_handle);
}

/* ---- answers ---- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* A way to take memory: what is kept for good, and a step's way up to its highest point and down again. */
struct way {
    void (*keep)(void), (*rise)(void), (*fall)(void);
};

static double median_step_ms(const struct way *way, int count)
{
    static double ms[MOST_STEPS];
    for (int i = 0; i < count; i++) {
        double began = now_ms();
        way->rise();
        way->fall();
        check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
        ms[i] = now_ms() - began;
    }
    qsort(ms, (size_t)count, sizeof ms[0], compare);
    return ms[count / 2];
}

/* The state of the program: nothing taken yet; between steps; at a step's highest point. */
enum state { EMPTY, BETWEEN, FULL };

static void go_between(const struct way *way, enum state *state)
{
    if (*state == EMPTY)
        way->keep();
    if (*state == FULL)
        way->fall();
    *state = BETWEEN;
}

static double answer(const struct way *way, const char *request, enum state *state)
{
    int steps = atoi(request + strcspn(request, " "));
    if (strcmp(request, "empty") == 0) {
        check(*state == EMPTY, "being empty again");
        return used_bytes();
    }
    go_between(way, state);
    if (strncmp(request, "step", 4) == 0 && steps > 0 && steps <= MOST_STEPS)
        return median_step_ms(way, steps);
    way->rise();
    *state = FULL;
    return used_bytes();
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        struct way way;
    } ways[] = {{"malloc", {keep_pieces, rise_malloc, free_last}},
                {"managed", {keep_managed, rise_managed, free_last}},
                {"virtual", {keep_mapped, rise_virtual, fall_virtual}}};
    const struct way *way = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && count > 1; i++)
        if (strcmp(arguments[1], ways[i].name) == 0)
            way = &ways[i].way;
    check(way != NULL, "a way to take memory");
    enum state state = EMPTY;
    char line[64];
    load();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        printf("%.17g\n", answer(way, line, &state));
        fflush(stdout);
    }
    return 0;
}
