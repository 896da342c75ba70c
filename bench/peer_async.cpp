/* cudaMallocAsync and cudaFreeAsync as a peer, in a pool that keeps what comes back. Answers on stdin, as peer.h says:
 *
 *   pair BYTES PAIRS            nanoseconds of a pair
 *   event FILE WARM_UP TIMES    nanoseconds of an event of the sequence in FILE
 *   reserved FILE               bytes that the pool reserves for that sequence */
#include "bench/alloc_loops.h"

#include <cinttypes>
#include <cstdlib>
#include <cuda_runtime_api.h>

namespace
{

void expect(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "peer_async: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

class Pool
{
  public:
    Pool()
    {
        uint64_t everything = UINT64_MAX;
        expect(cudaStreamCreate(&stream_), "cudaStreamCreate");
        expect(cudaDeviceGetDefaultMemPool(&pool_, 0), "cudaDeviceGetDefaultMemPool");
        expect(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &everything), "the release threshold");
    }

    void *take(uint64_t bytes)
    {
        void *block;
        expect(cudaMallocAsync(&block, bytes, stream_), "cudaMallocAsync");
        return block;
    }

    void give(void *block)
    {
        expect(cudaFreeAsync(block, stream_), "cudaFreeAsync");
    }

    /* Gives the card back what is cached, and forgets how much was reserved. */
    void empty()
    {
        uint64_t zero = 0;
        expect(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
        expect(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
        expect(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &zero), "cudaMemPoolSetAttribute");
    }

    uint64_t peak_reserved_bytes()
    {
        uint64_t bytes;
        expect(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &bytes), "cudaMemPoolGetAttribute");
        return bytes;
    }

  private:
    cudaStream_t stream_;
    cudaMemPool_t pool_;
};

double answer(Pool &pool, const char *question)
{
    char path[4096];
    uint64_t bytes;
    int warm_up, times;
    if (sscanf(question, "pair %" SCNu64 " %d", &bytes, &times) == 2)
        return bench::pair_ns(pool, bytes, times);
    if (sscanf(question, "event %4095s %d %d", path, &warm_up, &times) == 3) {
        double ns = bench::file_event_ns(pool, path, warm_up, times);
        pool.empty();
        return ns;
    }
    if (sscanf(question, "reserved %4095s", path) == 1) {
        pool.empty();
        bench::file_event_ns(pool, path, 0, 1);
        uint64_t reserved = pool.peak_reserved_bytes();
        pool.empty();
        return double(reserved);
    }
    return NAN;
}

} // namespace

int main()
{
    char question[8192];
    Pool pool;
    puts("ready");
    fflush(stdout);
    while (fgets(question, sizeof question, stdin) != nullptr) {
        printf("%.9g\n", answer(pool, question));
        fflush(stdout);
    }
    return 0;
}
