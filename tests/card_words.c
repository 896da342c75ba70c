/* A small CUDA program, for tests of `memtrace record` on a card. It does what its arguments say, one after another,
 * and has no words that fake_cuda.c has not:
 *
 *   take N BYTES, give N      cudaMalloc and cudaFree; N, below 16, stands for what was taken
 *   pool N BYTES, unpool N    cudaMallocAsync and cudaFreeAsync
 *   managed N BYTES           cudaMallocManaged
 *   make N BYTES, drop N      cuMemCreate and cuMemRelease
 *   refuse BYTES              a cudaMalloc that fails
 *   push NAME, pop            ranges of NVTX
 *   launch nothing            the kernel of that name, to its end
 *   say WORDS, exit CODE, leave CODE (without exit's handlers), die SIGNAL
 *
 * What fails and should not is said on stderr, and ends it with 98. */
#include "card_program.h"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 16 };

static void *memory[SLOTS];
static CUmemGenericAllocationHandle handles[SLOTS];

static void refuse(const char *bytes)
{
    void *none;
    check(cudaMalloc(&none, strtoull(bytes, NULL, 10)) == cudaErrorMemoryAllocation, "being refused");
}

/* Loads the kernel, which the driver compiles for the installed card. */
static CUfunction load_kernel(const char *name)
{
    static const char assembly[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                                   ".visible .entry nothing()\n{\nret;\n}\n";
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*get)(CUfunction *, CUmodule, const char *);
    CUmodule module;
    CUfunction kernel;
    *(void **)&load = find("cuModuleLoadData");
    *(void **)&get = find("cuModuleGetFunction");
    check(load(&module, assembly) == CUDA_SUCCESS, "cuModuleLoadData");
    check(get(&kernel, module, name) == CUDA_SUCCESS, "cuModuleGetFunction");
    return kernel;
}

static void launch(const char *name)
{
    static CUfunction kernel;
    CUresult (*start)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                      void **, void **);
    *(void **)&start = find("cuLaunchKernel");
    if (kernel == NULL)
        kernel = load_kernel(name);
    check(start(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS, "cuLaunchKernel");
    check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
}

/* Does a command that takes or gives memory. Returns its number of words; 0 if it is another command. */
static int act_on_memory(const char *word, int slot, size_t bytes)
{
    if (strcmp(word, "take") == 0)
        return check(cudaMalloc(&memory[slot], bytes) == cudaSuccess, "cudaMalloc"), 3;
    if (strcmp(word, "give") == 0)
        return check(cudaFree(memory[slot]) == cudaSuccess, "cudaFree"), 2;
    if (strcmp(word, "pool") == 0)
        return check(cudaMallocAsync(&memory[slot], bytes, NULL) == cudaSuccess, "cudaMallocAsync"), 3;
    if (strcmp(word, "unpool") == 0)
        return check(cudaFreeAsync(memory[slot], NULL) == cudaSuccess, "cudaFreeAsync"), 2;
    if (strcmp(word, "managed") == 0)
        return check(cudaMallocManaged(&memory[slot], bytes, cudaMemAttachGlobal) == cudaSuccess, "cudaMallocManaged"),
               3;
    if (strcmp(word, "make") == 0)
        return handles[slot] = make_memory(bytes), 3;
    if (strcmp(word, "drop") == 0)
        return release_memory(handles[slot]), 2;
    return 0;
}

static int act(char **words)
{
    const char *first = words[1] != NULL ? words[1] : "0";
    size_t bytes = words[1] != NULL && words[2] != NULL ? strtoull(words[2], NULL, 10) : 0;
    int number = atoi(first), count = act_on_memory(words[0], number % SLOTS, bytes);
    if (count > 0)
        return count;
    if (strcmp(words[0], "refuse") == 0)
        return refuse(first), 2;
    if (strcmp(words[0], "push") == 0)
        return nvtxRangePushA(first), 2;
    if (strcmp(words[0], "pop") == 0)
        return nvtxRangePop(), 1;
    if (strcmp(words[0], "launch") == 0)
        return launch(first), 2;
    if (strcmp(words[0], "say") == 0)
        return printf("%s\n", first), fflush(stdout), 2;
    if (strcmp(words[0], "exit") == 0)
        exit(number);
    if (strcmp(words[0], "leave") == 0)
        _exit(number);
    if (strcmp(words[0], "die") == 0)
        return raise(number), 2;
    fprintf(stderr, "card_words: what is \"%s\"?\n", words[0]);
    exit(CARD_PROGRAM_FAILED);
}

int main(int count, char **arguments)
{
    check(cudaFree(NULL) == cudaSuccess, "making a context"); /* which the driver's functions need */
    for (int next = 1; next < count;)
        next += act(arguments + next);
    return 0;
}
