/* Blocks: CUDA C++ programming guide, technical specifications. Clocks: cudaDeviceProp of the H200, the A100, the T4,
 * the RTX 3090, the RTX 4090, the B200 and the RTX 5090, one card for each compute capability. */
#include "device/card_properties.h"

#include <inttypes.h>
#include <stddef.h>

enum { KIB = 1024 };

static const struct generation {
    int capability, blocks; /* that a multiprocessor may have */
    int clock_mhz, memory_clock_mhz;
} generations[] = {
    {75, 16, 1590, 5001}, {80, 32, 1410, 1593},  {86, 16, 1695, 9751},   {89, 24, 2520, 10501},
    {90, 32, 1980, 3201}, {100, 32, 1965, 3996}, {120, 24, 2407, 14001},
};

static const struct generation *find_generation(int capability)
{
    for (size_t i = 0; i < sizeof generations / sizeof generations[0]; i++)
        if (generations[i].capability == capability)
            return &generations[i];
    return NULL;
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
                "\"maxSharedMemoryPerBlockOptin\":%" PRIu64 ",\"reservedSharedMemoryPerBlock\":%d,",
                card->multiprocessors, 48 * KIB, card->block_shared_bytes, KIB);
    mt_text_add(out,
                "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,"
                "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,"
                "\"memClockRateKHz\":%d,\"l2CacheSize\":%" PRIu64 ",",
                generation->blocks, card->threads_per_multiprocessor, generation->clock_mhz * KHZ,
                generation->memory_clock_mhz * KHZ, card->l2_bytes);
    mt_text_add(
        out,
        "\"deviceName\":\"%s\",\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"totalGlobalMem\":%" PRIu64 "}",
        card->product, card->capability * SERIALIZED, card->memory_bytes);
    return true;
}
