/* Shared memory and blocks: CUDA C++ programming guide, technical specifications. Clocks and caches: cudaDeviceProp of the H200,
 * the A100, the T4, the RTX 3090, the RTX 4090, the B200 and the RTX 5090, one card for each compute capability. */
#include "device/card_properties.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { KIB = 1024 };

static const struct generation {
    int capability, shared_kib, blocks; /* shared_kib: that a block may have; blocks: that a multiprocessor may have */
    int clock_mhz, memory_clock_mhz, cache_kib;
} generations[] = {
    {75, 64, 16, 1590, 5001, 4096},    {80, 163, 32, 1410, 1593, 40960}, {86, 99, 16, 1695, 9751, 6144},
    {89, 99, 24, 2520, 10501, 73728},  {90, 227, 32, 1980, 3201, 61440}, {100, 227, 32, 1965, 3996, 129024},
    {120, 99, 24, 2407, 14001, 98304},
};

static const struct generation *find_generation(int capability)
{
    for (size_t i = 0; i < sizeof generations / sizeof generations[0]; i++)
        if (generations[i].capability == capability)
            return &generations[i];
    return NULL;
}

/* Caches of cards that differ from the card of their generation: NVIDIA's architecture papers of the A30 and H100, of GA102, Ada and
 * RTX Blackwell (tables of GeForce and RTX PRO cards), and data sheets. None of these cards was measured. */
static const struct cache {
    const char *card;
    int mib;
} caches[] = {
    {"h100", 50},    {"h100-nvl", 50}, {"h100-pcie", 50}, {"gh200", 50},       {"a30", 24},     {"a4000", 4},
    {"l40s", 96},    {"l40", 96},      {"l4", 48},        {"rtx6000-ada", 96}, {"rtx4080", 64}, {"rtx4070", 36},
    {"rtx4060", 24}, {"rtx3080", 5},   {"rtx3070", 4},    {"rtx3060", 3},      {"rtx5080", 64}, {"rtx-pro-6000", 128},
};

static int cache_kib_of(const struct mt_card *card, const struct generation *generation)
{
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++)
        if (strcmp(caches[i].card, card->name) == 0)
            return caches[i].mib * KIB;
    return generation->cache_kib;
}

bool mt_card_add_properties(const struct mt_card *card, struct mt_text *out)
{
    enum { KHZ = 1000, SERIALIZED = 10 }; /* capability 9.0 is 900 there, 90 here */
    const struct generation *generation = find_generation(card->capability);
    if (generation == NULL)
        return false;
    mt_text_add(out,
                "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
                "\"multiProcessorCount\":%d,\"warpSize\":32,\"maxSharedMemoryPerBlock\":%d,"
                "\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":%d,",
                card->multiprocessors, 48 * KIB, generation->shared_kib * KIB, KIB);
    mt_text_add(out,
                "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,"
                "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,"
                "\"memClockRateKHz\":%d,\"l2CacheSize\":%d,",
                generation->blocks, card->threads_per_multiprocessor, generation->clock_mhz * KHZ,
                generation->memory_clock_mhz * KHZ, cache_kib_of(card, generation) * KIB);
    mt_text_add(
        out,
        "\"deviceName\":\"%s\",\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"totalGlobalMem\":%" PRIu64 "}",
        card->product, card->capability * SERIALIZED, card->memory_bytes);
    return true;
}
