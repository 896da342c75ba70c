/* One CUDA card as a device. Memory is allocated with cudaMalloc, or mapped into ranges of addresses. Work of several
 * streams runs concurrently. Marks are events of stream 0.
 *
 * The driver's memory figures are read while the device is opened, before and after each part of CUDA starts, since the
 * driver does not distinguish the parts later:
 *
 *   used  0 ──context──▶ context_bytes ──cuBLAS──▶ + library_bytes ──reserve──▶ … */
#include "device/cuda/cuda_device.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "device/backend.h"
#include "device/cuda/cuda_graph.h"
#include "device/cuda/cuda_range.h"
#include "device/cuda/cuda_stream.h"
#include "device/cupti/cupti_watch.h"
#include "device/module.h"
#include "kernels/cuda/cuda_call.h"
#include "kernels/cuda/cuda_ops.h"

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- this process's part of a card's memory ---- */

/* NVML, opened for one card. All fields are NULL if it can't be used. */
struct process_memory {
    void *library; /* from dlopen */
    void *card;    /* its handle of the card */
    int (*list)(void *card, unsigned *count, void *processes);
    int (*shutdown)(void);
};

/* From the public interface of NVML, whose header is not in every toolkit. */
enum { NVML_SUCCESS = 0, MOST_PROCESSES = 256 };

struct nvml_process {
    unsigned process;
    unsigned long long used_bytes; /* all ones: unknown */
    unsigned gpu_instance, compute_instance;
};

/* Returns the library's function with this name, which the caller casts to its type, or NULL. */
static void (*find(void *library, const char *name))(void)
{
    void (*function)(void) = NULL;
    *(void **)&function = dlsym(library, name);
    return function;
}

/* Opens the library for the card at this PCI bus address ("0000:3B:00.0"). Never fails: without library, card or
 * permission, process_memory_bytes returns false. */
static void process_memory_open(struct process_memory *memory, const char *bus_address)
{
    *memory = (struct process_memory){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (memory->library == NULL)
        return;
    int (*init)(void) = (int (*)(void))find(memory->library, "nvmlInit_v2");
    int (*by_bus)(const char *, void **) =
        (int (*)(const char *, void **))find(memory->library, "nvmlDeviceGetHandleByPciBusId_v2");
    memory->list =
        (int (*)(void *, unsigned *, void *))find(memory->library, "nvmlDeviceGetComputeRunningProcesses_v3");
    memory->shutdown = (int (*)(void))find(memory->library, "nvmlShutdown");
    bool is_usable = init != NULL && by_bus != NULL && memory->list != NULL && memory->shutdown != NULL;
    if (is_usable && init() == NVML_SUCCESS) {
        if (by_bus(bus_address, &memory->card) == NVML_SUCCESS)
            return;
        memory->shutdown();
    }
    dlclose(memory->library);
    *memory = (struct process_memory){0};
}

static void process_memory_close(struct process_memory *memory)
{
    if (memory->library == NULL)
        return;
    memory->shutdown();
    dlclose(memory->library);
    *memory = (struct process_memory){0};
}

/* Sets the bytes that this process holds, including context and libraries. Returns false if the driver does not report
 * them. That is the case in a container with its own process ids, since the driver lists the host's. */
static bool process_memory_bytes(const struct process_memory *memory, uint64_t *out_bytes)
{
    struct nvml_process processes[MOST_PROCESSES];
    unsigned count = MOST_PROCESSES;
    if (memory->library == NULL || memory->list(memory->card, &count, processes) != NVML_SUCCESS)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (processes[i].process == (unsigned)getpid() && processes[i].used_bytes != ~0ull) {
            *out_bytes = processes[i].used_bytes;
            return true;
        }
    return false;
}

/* ---- the device ---- */

enum { BUS_ADDRESS_BYTES = 32, FIRST_SUPPORTED = 8 /* compute capability */ };

/* Invariant once open: stream 0 and every event of `marks` exist. */
struct cuda {
    struct mt_device device;
    struct mt_device_table table; /* of the device: without ranges if the card or its driver does not support them */
    int ordinal;
    struct mt_cuda_streams streams;
    struct mt_cuda_graphs graphs; /* of stream 0 */
    cudaEvent_t marks[MT_DEVICE_MARKS];
    struct mt_cuda_range range;
    struct process_memory process_memory;
    uint64_t context_bytes, library_bytes; /* as in struct mt_device_memory */
};

/* ---- the opener of this module ---- */

static struct mt_module_host host; /* set once, before any other call */

__attribute__((visibility("default"))) mt_module_attach_function mt_module_attach;

void mt_module_attach(const struct mt_module_host *opener)
{
    assert(opener->error_text != NULL && opener->find != NULL);
    host = *opener;
}

char *mt_error_text(void)
{
    return host.error_text();
}

/* ---- */

static struct cuda *cuda_of(struct mt_device *device)
{
    return (struct cuda *)device;
}

static void *pointer(mt_addr address)
{
    return (void *)(uintptr_t)address;
}

/* Makes the card current, since CUDA has a current card per thread, and any thread may call. */
static mt_status use_card(const struct cuda *cuda)
{
    return mtk_cuda_check(cudaSetDevice(cuda->ordinal), "cudaSetDevice");
}

/* ---- memory ---- */

static mt_status cuda_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    void *memory = NULL;
    MT_TRY(use_card(cuda_of(device)));
    mt_status status = mtk_cuda_check(cudaMalloc(&memory, bytes), "cudaMalloc");
    if (status != MT_OK)
        return mt_fail_context(status, "%s: %" PRIu64 " bytes", device->name, bytes);
    *out_address = (mt_addr)(uintptr_t)memory;
    return MT_OK;
}

/* Clears the error of a call in a cleanup. Otherwise, the runtime would return it as the error of the next launch. An
 * error of the card's work persists, and is found at the next wait. */
static void drop_error(cudaError_t error)
{
    if (error != cudaSuccess)
        (void)cudaGetLastError();
}

/* cudaFree waits for work that may still use the memory. A failure is not reported, since this may be the cleanup after
 * another failure, whose message the caller reads. */
static void cuda_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)bytes;
    if (cudaSetDevice(cuda_of(device)->ordinal) == cudaSuccess)
        drop_error(cudaFree(pointer(address)));
}

static mt_status cuda_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    MT_TRY(use_card(cuda_of(device)));
    return mt_cuda_range_open(&cuda_of(device)->range, bytes, out_address);
}

static void cuda_range_close(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    if (cudaSetDevice(cuda_of(device)->ordinal) == cudaSuccess)
        mt_cuda_range_close(&cuda_of(device)->range, address, bytes);
}

static mt_status cuda_range_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    MT_TRY(use_card(cuda_of(device)));
    return mt_cuda_range_map(&cuda_of(device)->range, address, bytes);
}

static void cuda_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    if (cudaSetDevice(cuda_of(device)->ordinal) != cudaSuccess)
        return;
    drop_error(cudaDeviceSynchronize());
    mt_cuda_range_unmap(&cuda_of(device)->range, address, bytes);
}

/* Copies in the order of the stream, and waits, so that the caller may reuse its memory, pageable or pinned. */
static mt_status copy(struct mt_device *device, void *to, const void *from, uint64_t bytes, enum cudaMemcpyKind kind,
                      mt_stream stream)
{
    cudaStream_t queue = mt_cuda_stream_queue(&cuda_of(device)->streams, stream)->stream;
    MT_TRY(mtk_cuda_check(cudaMemcpyAsync(to, from, bytes, kind, queue), kind == cudaMemcpyHostToDevice
                                                                             ? "cudaMemcpyAsync to the device"
                                                                             : "cudaMemcpyAsync to the host"));
    return mtk_cuda_check(cudaStreamSynchronize(queue), "cudaStreamSynchronize");
}

static mt_status cuda_write(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream)
{
    return copy(device, pointer(to), from, bytes, cudaMemcpyHostToDevice, stream);
}

static mt_status cuda_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream)
{
    return copy(device, to, pointer(from), bytes, cudaMemcpyDeviceToHost, stream);
}

/* ---- work and time ---- */

static mt_status cuda_synchronize(struct mt_device *device)
{
    return mt_cuda_streams_wait(&cuda_of(device)->streams);
}

static struct mtk_queue *cuda_queue(struct mt_device *device, mt_stream stream)
{
    return mt_cuda_stream_queue(&cuda_of(device)->streams, stream);
}

/* Makes the card current first, since the stream may have to be created. */
static void *cuda_stream_handle(struct mt_device *device, mt_stream stream)
{
    return use_card(cuda_of(device)) == MT_OK ? cuda_queue(device, stream)->stream : NULL;
}

static mt_status cuda_follow(struct mt_device *device, mt_stream later, mt_stream earlier)
{
    MT_TRY(use_card(cuda_of(device)));
    return mt_cuda_stream_follow(&cuda_of(device)->streams, later, earlier);
}

/* While a graph does the work, nothing else may be queued: the device then has no kernels. */
static mt_status cuda_graph_begin(struct mt_device *device, uint64_t key)
{
    struct cuda *cuda = cuda_of(device);
    mt_status status = mt_cuda_graph_begin(&cuda->graphs, key, cuda->streams.first.queue.stream);
    if (cuda->graphs.mode == MT_CUDA_GRAPH_REPLAYS)
        device->kernels = NULL;
    return status;
}

static mt_status cuda_graph_end(struct mt_device *device)
{
    struct cuda *cuda = cuda_of(device);
    device->kernels = &mtk_cuda;
    return mt_cuda_graph_end(&cuda->graphs, cuda->streams.first.queue.stream);
}

static mt_status cuda_graph_drop(struct mt_device *device)
{
    struct cuda *cuda = cuda_of(device);
    device->kernels = &mtk_cuda;
    return mt_cuda_graph_drop(&cuda->graphs, cuda->streams.first.queue.stream);
}

static void cuda_graph_forget(struct mt_device *device)
{
    mt_cuda_graphs_forget(&cuda_of(device)->graphs);
}

static mt_status cuda_mark(struct mt_device *device, int number)
{
    struct cuda *cuda = cuda_of(device);
    assert(number >= 0 && number < MT_DEVICE_MARKS);
    return mt_cuda_graph_mark(&cuda->graphs, cuda->marks[number], cuda->streams.first.queue.stream);
}

static mt_status cuda_elapsed_ms(struct mt_device *device, int from, int to, double *out_ms)
{
    struct cuda *cuda = cuda_of(device);
    float milliseconds = 0;
    mt_status status = mtk_cuda_check(cudaEventSynchronize(cuda->marks[to]), "cudaEventSynchronize");
    MT_THEN(status, mtk_cuda_check(cudaEventElapsedTime(&milliseconds, cuda->marks[from], cuda->marks[to]),
                                   "cudaEventElapsedTime"));
    *out_ms = (double)milliseconds;
    return status;
}

/* ---- the driver's figures ---- */

/* Reads the bytes that this process holds or, if the driver does not report them, all processes on the card. */
static mt_status used_bytes(struct cuda *cuda, uint64_t *out_bytes)
{
    size_t free_bytes, total_bytes;
    if (process_memory_bytes(&cuda->process_memory, out_bytes))
        return MT_OK;
    MT_TRY(mtk_cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
    *out_bytes = total_bytes - free_bytes;
    return MT_OK;
}

static mt_status cuda_memory(struct mt_device *device, struct mt_device_memory *out)
{
    struct cuda *cuda = cuda_of(device);
    size_t free_bytes = 0, total_bytes = 0;
    mt_status status = use_card(cuda);
    MT_THEN(status, mtk_cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
    *out = (struct mt_device_memory){.total_bytes = total_bytes,
                                     .free_bytes = free_bytes,
                                     .context_bytes = cuda->context_bytes,
                                     .library_bytes = cuda->library_bytes};
    return status == MT_OK ? used_bytes(cuda, &out->used_bytes) : status;
}

/* ---- kernels ---- */

static mt_status cuda_watch_kernels(struct mt_device *device, struct mt_kernel_watch **out)
{
    mt_cupti_watch_function watch;
    if (host.find("libmemtrace_cupti.so", MT_CUPTI_WATCH_NAME, (void **)&watch) != MT_OK)
        return mt_fail_context(MT_FAILED, "CUPTI can't be used");
    return watch(device, out);
}

/* ---- opening and closing ---- */

static void cuda_close(struct mt_device *device)
{
    struct cuda *cuda = cuda_of(device);
    if (cudaSetDevice(cuda->ordinal) == cudaSuccess) {
        for (int i = 0; i < MT_DEVICE_MARKS; i++)
            if (cuda->marks[i] != NULL)
                (void)cudaEventDestroy(cuda->marks[i]);
        mt_cuda_graphs_forget(&cuda->graphs);
        mt_cuda_streams_end(&cuda->streams);
    }
    process_memory_close(&cuda->process_memory);
    free(cuda);
}

static const struct mt_device_table cuda_table = {
    .kind = "cuda",
    .reserve = cuda_reserve,
    .release = cuda_release,
    .range_open = cuda_range_open,
    .range_close = cuda_range_close,
    .range_map = cuda_range_map,
    .range_unmap = cuda_range_unmap,
    .write = cuda_write,
    .read = cuda_read,
    .synchronize = cuda_synchronize,
    .queue = cuda_queue,
    .stream_handle = cuda_stream_handle,
    .follow = cuda_follow,
    .graph_begin = cuda_graph_begin,
    .graph_end = cuda_graph_end,
    .graph_drop = cuda_graph_drop,
    .graph_forget = cuda_graph_forget,
    .mark = cuda_mark,
    .elapsed_ms = cuda_elapsed_ms,
    .memory = cuda_memory,
    .watch_kernels = cuda_watch_kernels,
    .close = cuda_close,
};

/* Fails with MT_NO_DEVICE if there is no card with this number. */
static mt_status find_card(int ordinal)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver)
        return mt_fail(MT_NO_DEVICE,
                       "no GPU: there is no NVIDIA driver, or one older than this build needs (CUDA %d.%d); "
                       "`nvidia-smi` shows what there is",
                       CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (error != cudaSuccess || count == 0)
        return mt_fail(MT_NO_DEVICE, "no GPU: the driver reports no device: %s (%d); `nvidia-smi` shows what there is",
                       error != cudaSuccess ? cudaGetErrorString(error) : "it counts 0", (int)error);
    if (ordinal >= count)
        return mt_fail(MT_NO_DEVICE, "cuda:%d: the driver reports %d device%s, numbered from 0", ordinal, count,
                       count == 1 ? "" : "s");
    return MT_OK;
}

/* Sets the card's name, memory size and capabilities. */
static mt_status describe(struct cuda *cuda)
{
    struct cudaDeviceProp properties;
    char bus_address[BUS_ADDRESS_BYTES];
    MT_TRY(mtk_cuda_check(cudaGetDeviceProperties(&properties, cuda->ordinal), "cudaGetDeviceProperties"));
    MT_TRY(
        mtk_cuda_check(cudaDeviceGetPCIBusId(bus_address, sizeof bus_address, cuda->ordinal), "cudaDeviceGetPCIBusId"));
    if (properties.major < FIRST_SUPPORTED)
        return mt_fail(MT_NO_DEVICE, "%s is of compute capability %d.%d; the kernels are made for %d.0 and later",
                       properties.name, properties.major, properties.minor, FIRST_SUPPORTED);
    snprintf(cuda->device.name, sizeof cuda->device.name, "cuda:%d (%.48s)", cuda->ordinal, properties.name);
    cuda->device.capacity_bytes = properties.totalGlobalMem;
    struct mt_card *card = &cuda->device.card;
    *card = (struct mt_card){.name = "cuda",
                             .source = "the driver",
                             .memory_bytes = properties.totalGlobalMem,
                             .capability = 10 * properties.major + properties.minor,
                             .multiprocessors = properties.multiProcessorCount};
    snprintf(card->product, sizeof card->product, "%.47s", properties.name);
    mt_card_complete(card);
    card->threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
    card->l2_bytes = (uint64_t)properties.l2CacheSize;
    card->block_shared_bytes = properties.sharedMemPerBlockOptin;
    card->multiprocessor_shared_bytes = properties.sharedMemPerMultiprocessor;
    process_memory_open(&cuda->process_memory, bus_address);
    return MT_OK;
}

/* Makes the card current. This fails if other processes hold it or its memory, or its administrator must act. */
static mt_status claim_card(const struct cuda *cuda)
{
    mt_status status = use_card(cuda);
    if (status == MT_OK)
        return MT_OK;
    return mt_fail_context(status == MT_OUT_OF_MEMORY ? MT_OUT_OF_MEMORY : MT_NO_DEVICE,
                           "%s can't be used (`nvidia-smi` shows who holds it)", cuda->device.name);
}

/* Prepares ranges. A card without them gets a table without them, and uses only cudaMalloc. */
static void start_ranges(struct cuda *cuda)
{
    mt_cuda_range_start(&cuda->range, cuda->ordinal);
    if (cuda->range.is_ready)
        return;
    cuda->table.range_open = NULL;
    cuda->table.range_close = NULL;
    cuda->table.range_map = NULL;
    cuda->table.range_unmap = NULL;
}

/* Starts the context, stream 0 and the marks. CUDA loads each kernel when it is first launched. */
static mt_status start_context(struct cuda *cuda)
{
    MT_TRY(claim_card(cuda));
    MT_TRY(mt_cuda_streams_start(&cuda->streams, cuda->device.card.capability));
    for (int i = 0; i < MT_DEVICE_MARKS; i++)
        MT_TRY(mtk_cuda_check(cudaEventCreate(&cuda->marks[i]), "cudaEventCreate"));
    start_ranges(cuda);
    return used_bytes(cuda, &cuda->context_bytes);
}

static mt_status start_library(struct cuda *cuda)
{
    uint64_t used = 0;
    mt_status status = mt_cuda_library_start(&cuda->streams.first.queue, cuda->device.name);
    MT_THEN(status, used_bytes(cuda, &used));
    cuda->library_bytes = used > cuda->context_bytes ? used - cuda->context_bytes : 0;
    return status;
}

mt_status mt_cuda_open(int ordinal, struct mt_device **out)
{
    MT_TRY(find_card(ordinal));
    struct cuda *cuda = mt_host_alloc(sizeof *cuda);
    cuda->table = cuda_table;
    cuda->device = (struct mt_device){.table = &cuda->table, .kernels = &mtk_cuda};
    cuda->ordinal = ordinal;
    mt_status status = describe(cuda);
    MT_THEN(status, start_context(cuda));
    MT_THEN(status, start_library(cuda));
    if (status != MT_OK) {
        cuda_close(&cuda->device);
        return status;
    }
    assert(cuda->streams.first.queue.stream != NULL && cuda->marks[MT_DEVICE_MARKS - 1] != NULL);
    *out = &cuda->device;
    return MT_OK;
}
