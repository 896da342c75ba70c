/* A CUDA program whose allocations become a trace. cudaMalloc and cudaFree are replaced by two functions that note each
 * call. The other lines of the program do not change.
 *
 *   cc replace_malloc.c -o replace_malloc -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart \
 *       $(pkg-config --cflags --libs memtrace)
 *   ./replace_malloc && memtrace top --at peak --trace replace_malloc.db */
#include <cuda_runtime_api.h>
#include <memtrace.h>
#include <stdio.h>

static memtrace_run *run;

/* Labels a block with the line that asks for it, the least that a label can have. */
static cudaError_t noted_malloc(void **out, size_t bytes, const char *file, int line)
{
    char op[64];
    snprintf(op, sizeof op, "%s:%d", file, line);
    memtrace_label label = {.size = sizeof label, .category = "Buffer", .op = op};
    cudaError_t error = cudaMalloc(out, bytes);
    if (error == cudaSuccess)
        memtrace_note_take(run, (uintptr_t)*out, bytes, 0, &label);
    else if (error == cudaErrorMemoryAllocation)
        memtrace_note_refusal(run, bytes, 0, &label);
    return error;
}

/* Notes the end of a block before cudaFree, since another thread may get the address right after. */
static cudaError_t noted_free(void *pointer)
{
    if (pointer != NULL)
        memtrace_note_give(run, (uintptr_t)pointer);
    return cudaFree(pointer);
}

#define cudaMalloc(out, bytes) noted_malloc((void **)(out), (bytes), "replace_malloc.c", __LINE__)
#define cudaFree(pointer) noted_free(pointer)

/* From here on, this is an ordinary program. */
static cudaError_t work(void)
{
    enum { COUNT = 1 << 20 };
    float *input = NULL, *output = NULL;
    cudaError_t error = cudaMalloc(&input, COUNT * sizeof *input);
    if (error == cudaSuccess)
        error = cudaMalloc(&output, 4 * COUNT * sizeof *output);
    if (error == cudaSuccess)
        error = cudaMemset(output, 0, 4 * COUNT * sizeof *output);
    cudaFree(output);
    cudaFree(input);
    return error;
}

int main(void)
{
    memtrace_run_options options = {
        .size = sizeof options, .trace = "replace_malloc.db", .noted_device = "cuda by cudaMalloc"};
    if (memtrace_run_open(&options, &run) != MEMTRACE_OK) {
        fprintf(stderr, "%s\n", memtrace_last_error());
        return 1;
    }
    cudaError_t error = work();
    if (error != cudaSuccess)
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
    memtrace_status status = memtrace_run_close(run, error == cudaSuccess ? MEMTRACE_RUN_DONE : MEMTRACE_RUN_FAILED);
    return error != cudaSuccess || status != MEMTRACE_OK;
}
