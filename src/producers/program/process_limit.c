#include "producers/program/process_limit.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

/* The host memory of a dry run: some 500 MB with transformers imported, and as much for tensors with data. */
#define PROCESS_BYTES ((uint64_t)1 << 30)

static int64_t count_processors(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
}

/* Returns the memory that processes can use without swapping; UINT64_MAX if unknown. */
static uint64_t free_of_machine(void)
{
    char line[128];
    uint64_t kib, found = UINT64_MAX;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && found == UINT64_MAX && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            found = kib << 10;
    if (file != NULL)
        fclose(file);
    return found;
}

/* Returns a number of the control group that this process sees as its own, as in a container; UINT64_MAX: none, or no
 * limit. */
static uint64_t read_group(const char *path)
{
    uint64_t value = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%" SCNu64, &value) != 1)
        value = UINT64_MAX;
    if (file != NULL)
        fclose(file);
    return value;
}

static uint64_t free_of_group(void)
{
    const uint64_t most = read_group("/sys/fs/cgroup/memory.max"), used = read_group("/sys/fs/cgroup/memory.current");
    if (most == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    return most > used ? most - used : 0;
}

int64_t mt_process_limit(void)
{
    const int64_t processors = count_processors();
    const uint64_t machine = free_of_machine(), group = free_of_group();
    const uint64_t fit = (machine < group ? machine : group) / PROCESS_BYTES;
    if (fit < (uint64_t)processors)
        return fit > 0 ? (int64_t)fit : 1;
    return processors;
}
