#include "device/cuda/process_memory.h"

#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

/* From the published interface of the management library (NVML), whose header is not part of every toolkit. */
enum { NVML_SUCCESS = 0, MOST_PROCESSES = 256 };

struct nvml_process {
    unsigned process;
    unsigned long long used_bytes; /* all ones: unknown */
    unsigned gpu_instance, compute_instance;
};

/* Returns the library's function of that name, which the caller casts to its type, or NULL. */
static void (*find(void *library, const char *name))(void)
{
    void (*function)(void) = NULL;
    *(void **)&function = dlsym(library, name);
    return function;
}

void mt_process_memory_open(struct mt_process_memory *memory, const char *bus_address)
{
    *memory = (struct mt_process_memory){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
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
    *memory = (struct mt_process_memory){0};
}

void mt_process_memory_close(struct mt_process_memory *memory)
{
    if (memory->library == NULL)
        return;
    memory->shutdown();
    dlclose(memory->library);
    *memory = (struct mt_process_memory){0};
}

bool mt_process_memory_bytes(const struct mt_process_memory *memory, uint64_t *out_bytes)
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
