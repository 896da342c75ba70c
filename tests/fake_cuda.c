/* A CUDA program without CUDA, for tests of `memtrace record`: plays the driver, CUPTI and the program. It loads the library
 * that CUDA_INJECTION64_PATH names, as the driver does, and does what its arguments say, one after another:
 *
 *   take N BYTES, give N      cudaMalloc and cudaFree; N stands for an address
 *   pool N BYTES              cudaMallocAsync, by the runtime alone
 *   make H BYTES, drop H      cuMemCreate and cuMemRelease
 *   static N BYTES            memory that only a record tells of
 *   refuse BYTES              a cudaMalloc that fails
 *   push NAME, pop            ranges of NVTX
 *   launch NAME               a kernel
 *   lose COUNT                records that CUPTI drops
 *   fork                      a child that exits at once
 *   say WORDS, sleep MS, exit CODE, leave CODE (without exit's handlers), die SIGNAL, count-interrupts MS
 *
 * CUPTI is of the version FAKE_CUPTI_VERSION, and in use by FAKE_CUPTI_USER, where these are set. */
#include <cupti.h>
#include <dlfcn.h>
#include <generated_nvtx_meta.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RECORDS = 64, RECORD_BYTES = sizeof(CUpti_ActivityKernel10) };

static struct {
    CUpti_CallbackFunc callback;
    void *context;
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    char records[MOST_RECORDS][RECORD_BYTES];
    size_t record_count, dropped;
    uint32_t calls; /* numbers that were given out */
} cupti;

CUptiResult cuptiGetVersion(uint32_t *version)
{
    const char *other = getenv("FAKE_CUPTI_VERSION");
    *version = other != NULL ? (uint32_t)atoi(other) : CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    (void)result;
    *text = "as the test says";
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *context,
                              CUpti_SubscriberParams *params)
{
    const char *user = getenv("FAKE_CUPTI_USER");
    if (user != NULL) {
        strncpy(params->oldSubscriberName, user, params->oldSubscriberSize);
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    *subscriber = (CUpti_SubscriberHandle)&cupti;
    cupti.callback = callback;
    cupti.context = context;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                CUpti_CallbackId function)
{
    (void)enable;
    (void)subscriber;
    (void)domain;
    (void)function;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
    (void)attribute;
    (void)bytes;
    (void)value;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    cupti.request = request;
    cupti.complete = complete;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    (void)kind;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushPeriod(uint32_t time)
{
    (void)time;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
    uint8_t *next = *record == NULL ? buffer : (uint8_t *)*record + RECORD_BYTES;
    if (next + RECORD_BYTES > buffer + valid_bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    *dropped = cupti.dropped;
    cupti.dropped = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
    uint8_t *buffer = NULL;
    size_t bytes = 0, most = 0, valid = cupti.record_count * RECORD_BYTES;
    (void)flags;
    cupti.request(&buffer, &bytes, &most);
    memcpy(buffer, cupti.records, valid);
    cupti.record_count = 0;
    cupti.complete(NULL, 0, buffer, bytes, valid);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    *timestamp = 1000000;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *device)
{
    (void)context;
    *device = 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
    (void)context;
    *id = 1;
    return CUPTI_SUCCESS;
}

/* ---- the driver ---- */

static uint64_t address_of(const char *number)
{
    return ((uint64_t)atoi(number) + 1) << 32;
}

static void call_at(CUpti_ApiCallbackSite site, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *given,
                    int result)
{
    const CUpti_CallbackData data = {.callbackSite = site,
                                     .functionParams = given,
                                     .functionReturnValue = &result,
                                     .contextUid = 1,
                                     .correlationId = cupti.calls};
    if (cupti.callback != NULL)
        cupti.callback(cupti.context, domain, id, &data);
}

static void call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *given, int result)
{
    call_at(CUPTI_API_ENTER, domain, id, given, result);
    call_at(CUPTI_API_EXIT, domain, id, given, result);
}

static void remember(const void *record, size_t bytes)
{
    if (cupti.record_count < MOST_RECORDS)
        memcpy(cupti.records[cupti.record_count++], record, bytes);
}

static void record_memory(CUpti_ActivityMemoryKind kind, uint64_t address, uint64_t bytes)
{
    const CUpti_ActivityMemory4 record = {.kind = CUPTI_ACTIVITY_KIND_MEMORY2,
                                          .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
                                          .memoryKind = kind,
                                          .correlationId = cupti.calls,
                                          .address = address,
                                          .bytes = bytes,
                                          .name = "table"};
    remember(&record, sizeof record);
}

/* The runtime calls the driver, as it does, and a record says it all again. */
static void take(uint64_t address, uint64_t bytes, int result)
{
    void *pointer = NULL;
    CUdeviceptr place = address;
    const cudaMalloc_v3020_params outer = {&pointer, bytes};
    const cuMemAlloc_v2_params inner = {&place, bytes};
    cupti.calls++;
    call_at(CUPTI_API_ENTER, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &outer, result);
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &inner, result);
    memcpy(&pointer, &address, sizeof pointer);
    call_at(CUPTI_API_EXIT, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &outer, result);
    if (result == 0)
        record_memory(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, address, bytes);
}

static void take_from_pool(uint64_t address, uint64_t bytes)
{
    void *pointer = NULL;
    const cudaMallocAsync_v11020_params given = {&pointer, bytes, NULL};
    cupti.calls++;
    memcpy(&pointer, &address, sizeof pointer);
    call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020, &given, 0);
}

static void give(uint64_t address)
{
    const cuMemFree_v2_params given = {address};
    cupti.calls++;
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, &given, 0);
}

static void make(uint64_t number, uint64_t bytes)
{
    CUmemGenericAllocationHandle handle = number;
    const CUmemAllocationProp kind = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    const cuMemCreate_params given = {&handle, bytes, &kind, 0};
    cupti.calls++;
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemCreate, &given, 0);
}

static void drop(uint64_t number)
{
    const cuMemRelease_params given = {number};
    cupti.calls++;
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemRelease, &given, 0);
}

static void launch(const char *name)
{
    cupti.calls++;
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, NULL, 0);
    const CUpti_ActivityKernel10 record = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           .start = 1000000 + cupti.calls * 100,
                                           .end = 1000050 + cupti.calls * 100,
                                           .correlationId = cupti.calls,
                                           .streamId = 7,
                                           .name = name};
    remember(&record, sizeof record);
}

static void range(CUpti_CallbackId id, const void *given)
{
    const CUpti_NvtxData data = {.functionParams = given};
    if (cupti.callback != NULL)
        cupti.callback(cupti.context, CUPTI_CB_DOMAIN_NVTX, id, &data);
}

static void initialize(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    int (*begin)(void) = NULL;
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library != NULL)
        *(void **)&begin = dlsym(library, "InitializeInjection");
    if (path != NULL && begin == NULL)
        fprintf(stderr, "the driver can't load %s: %s\n", path, dlerror());
    if (begin != NULL)
        begin();
    const CUpti_ResourceData context = {.context = (CUcontext)&cupti};
    if (cupti.callback != NULL)
        cupti.callback(cupti.context, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &context);
}

/* ---- the program ---- */

static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    (void)number;
    interrupts++;
}

static void count_interrupts(int ms)
{
    signal(SIGINT, on_interrupt);
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < ms; i++)
        usleep(1000);
    printf("%d interrupts\n", (int)interrupts);
}

static void fork_child(void)
{
    pid_t child = fork();
    if (child == 0)
        exit(0);
    waitpid(child, NULL, 0);
}

/* Does what the words say; how many it was. */
static int act(char **words)
{
    const char *word = words[0], *first = words[1] != NULL ? words[1] : "0";
    uint64_t bytes = words[1] != NULL && words[2] != NULL ? strtoull(words[2], NULL, 10) : 0;
    if (strcmp(word, "take") == 0)
        return take(address_of(first), bytes, 0), 3;
    if (strcmp(word, "pool") == 0)
        return take_from_pool(address_of(first), bytes), 3;
    if (strcmp(word, "make") == 0)
        return make((uint64_t)atoi(first), bytes), 3;
    if (strcmp(word, "static") == 0)
        return cupti.calls++, record_memory(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, address_of(first), bytes), 3;
    if (strcmp(word, "refuse") == 0)
        return take(0, strtoull(first, NULL, 10), CUDA_ERROR_OUT_OF_MEMORY), 2;
    if (strcmp(word, "give") == 0)
        return give(address_of(first)), 2;
    if (strcmp(word, "drop") == 0)
        return drop((uint64_t)atoi(first)), 2;
    if (strcmp(word, "push") == 0)
        return range(CUPTI_CBID_NVTX_nvtxRangePushA, &(nvtxRangePushA_params){first}), 2;
    if (strcmp(word, "pop") == 0)
        return range(CUPTI_CBID_NVTX_nvtxRangePop, NULL), 1;
    if (strcmp(word, "launch") == 0)
        return launch(first), 2;
    if (strcmp(word, "lose") == 0)
        return cupti.dropped += (size_t)atoi(first), 2;
    if (strcmp(word, "fork") == 0)
        return fork_child(), 1;
    if (strcmp(word, "say") == 0)
        return printf("%s\n", first), fflush(stdout), 2;
    if (strcmp(word, "sleep") == 0)
        return usleep((useconds_t)atoi(first) * 1000), 2;
    if (strcmp(word, "count-interrupts") == 0)
        return count_interrupts(atoi(first)), 2;
    if (strcmp(word, "exit") == 0)
        exit(atoi(first));
    if (strcmp(word, "leave") == 0)
        _exit(atoi(first));
    if (strcmp(word, "die") == 0)
        return raise(atoi(first)), 2;
    fprintf(stderr, "fake_cuda: what is \"%s\"?\n", word);
    exit(99);
}

int main(int count, char **arguments)
{
    initialize();
    for (int next = 1; next < count;)
        next += act(arguments + next);
    return 0;
}
