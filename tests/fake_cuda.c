/* A CUDA program without CUDA, for tests of `memtrace record`: plays the driver, CUPTI and the program. It loads the
 * library in CUDA_INJECTION64_PATH, as the driver does, and executes its arguments, one after another:
 *
 *   take N BYTES, give N      cudaMalloc and cudaFree; N stands for an address
 *   pool N BYTES, unpool N    cudaMallocAsync and cudaFreeAsync, by the runtime alone
 *   streams                   cudaMallocAsync in the default stream, by its two names, in the per-thread stream, by
 *                             its two names, and in another thread's
 *   managed N BYTES           cudaMallocManaged
 *   make H BYTES, drop H      cuMemCreate and cuMemRelease
 *   static N BYTES            memory that only a record reports
 *   refuse BYTES              a cudaMalloc that fails
 *   push NAME, pop            ranges of NVTX
 *   push-in D NAME, pop-in D  ranges of a domain, by any number
 *   names                     a block in a range of each kind of name: ASCII, wide, an attribute of either kind, a
 *                             registered string, an unknown one, and none
 *   launch NAME               a kernel
 *   lose COUNT                records that CUPTI drops
 *   storm COUNT               this many threads that take, give, launch and push at once, while another makes CUPTI
 *                             deliver kernels; prints their number
 *   toil COUNT                this many threads that do the same until the process ends
 *   haunt                     a thread that is in ranges when it ends, and enters another while it does
 *   hears                     prints whether CUPTI has callbacks for launches
 *   uses                      prints whether CUPTI is in use
 *   fork                      a child that exits at once
 *   linger MS                 a child that exits after this time
 *   await SIGNAL              blocks the signal, sends it to its own process, and waits for it
 *   say WORDS, sleep MS, exit CODE, leave CODE (without exit's handlers), die SIGNAL, count-interrupts MS
 *
 * If these variables are set, CUPTI has the version FAKE_CUPTI_VERSION, is in use by FAKE_CUPTI_USER, and refuses
 * FAKE_CUPTI_REFUSES, callbacks or kernels; FAKE_NVTX_FIRST: a library of the program uses NVTX before the driver;
 * FAKE_TITLE: the program overwrites its environment with a title, before it creates a context. FAKE_DRIVER names
 * fake_driver.c's library: the driver has functions for queries. FAKE_TORCH: the program has a library that watches
 * PyTorch and prints what is reported to it. */
#include "fake_cupti.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint32_t given_out;         /* numbers of calls */
static _Thread_local uint32_t call_number; /* of this thread's current call */

static void begin_call(void)
{
    call_number = ++given_out;
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
                                     .correlationId = call_number};
    fake_cupti_call_back(domain, id, &data);
}

static void call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *given, int result)
{
    call_at(CUPTI_API_ENTER, domain, id, given, result);
    call_at(CUPTI_API_EXIT, domain, id, given, result);
}

static void record_memory(CUpti_ActivityMemoryKind kind, uint64_t address, uint64_t bytes)
{
    const CUpti_ActivityMemory4 record = {.kind = CUPTI_ACTIVITY_KIND_MEMORY2,
                                          .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
                                          .memoryKind = kind,
                                          .correlationId = call_number,
                                          .address = address,
                                          .bytes = bytes,
                                          .name = "table"};
    fake_cupti_remember(fake_cupti.records_memory, &record, sizeof record);
}

/* The runtime calls the driver, like the real one, and an activity record reports the same. */
static void take(uint64_t address, uint64_t bytes, int result)
{
    void *pointer = NULL;
    CUdeviceptr place = address;
    const cudaMalloc_v3020_params outer = {&pointer, bytes};
    const cuMemAlloc_v2_params inner = {&place, bytes};
    begin_call();
    call_at(CUPTI_API_ENTER, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &outer, result);
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &inner, result);
    memcpy(&pointer, &address, sizeof pointer);
    call_at(CUPTI_API_EXIT, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &outer, result);
    if (result == 0)
        record_memory(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, address, bytes);
}

static void take_in_stream(CUpti_CallbackId function, uint64_t address, uint64_t bytes, cudaStream_t stream)
{
    void *pointer = NULL;
    const cudaMallocAsync_v11020_params given = {&pointer, bytes, stream};
    begin_call();
    memcpy(&pointer, &address, sizeof pointer);
    call(CUPTI_CB_DOMAIN_RUNTIME_API, function, &given, 0);
}

static void take_from_pool(uint64_t address, uint64_t bytes)
{
    take_in_stream(CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020, address, bytes, NULL);
}

static void *take_in_stream_of_thread(void *address)
{
    take_in_stream(CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020, (uint64_t)(uintptr_t)address, 512,
                   cudaStreamPerThread);
    return NULL;
}

static void take_in_default_streams(void)
{
    pthread_t other;
    take_in_stream(CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020, 1 << 20, 512, NULL);
    take_in_stream(CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020, 2 << 20, 512, cudaStreamLegacy);
    take_in_stream(CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_ptsz_v11020, 3 << 20, 512, NULL);
    take_in_stream_of_thread((void *)(uintptr_t)(4 << 20));
    pthread_create(&other, NULL, take_in_stream_of_thread, (void *)(uintptr_t)(5 << 20));
    pthread_join(other, NULL);
}

static void give_to_pool(uint64_t address)
{
    void *pointer;
    memcpy(&pointer, &address, sizeof pointer);
    const cudaFreeAsync_v11020_params given = {pointer, NULL};
    begin_call();
    call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_v11020, &given, 0);
}

static void take_managed(uint64_t address, uint64_t bytes)
{
    void *pointer;
    const cudaMallocManaged_v6000_params given = {&pointer, bytes, CU_MEM_ATTACH_GLOBAL};
    memcpy(&pointer, &address, sizeof pointer);
    begin_call();
    call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMallocManaged_v6000, &given, 0);
}

static void give(uint64_t address)
{
    const cuMemFree_v2_params given = {address};
    begin_call();
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, &given, 0);
}

static void make(uint64_t number, uint64_t bytes)
{
    CUmemGenericAllocationHandle handle = number;
    const CUmemAllocationProp kind = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    const cuMemCreate_params given = {&handle, bytes, &kind, 0};
    begin_call();
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemCreate, &given, 0);
}

static void drop(uint64_t number)
{
    const cuMemRelease_params given = {number};
    begin_call();
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemRelease, &given, 0);
}

static void launch(const char *name)
{
    begin_call();
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, NULL, 0);
    fake_cupti_ran(call_number, name, fake_cupti.now_ns + call_number * 100,
                   fake_cupti.now_ns + call_number * 100 + 50);
}

/* Returns the function of the library that a variable names; NULL if there is none. */
static void *find_injected(const char *variable, const char *function)
{
    const char *path = getenv(variable);
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = library != NULL ? dlsym(library, function) : NULL;
    if (path != NULL && found == NULL)
        fprintf(stderr, "%s is not to be had of %s: %s\n", function, path, dlerror());
    return found;
}

/* Loads NVTX's injection, as NVTX does at its first use. CUPTI receives ranges only if the library allows it: here
 * the program has CUPTI's functions, so the library does not find that function in CUPTI. */
static bool is_nvtx_heard(void)
{
    static bool is_done, is_heard;
    int (*begin)(void *) = NULL;
    if (is_done)
        return is_heard;
    is_done = true;
    *(void **)&begin = find_injected("NVTX_INJECTION64_PATH", "InitializeInjectionNvtx2");
    is_heard = begin != NULL;
    if (is_heard)
        begin(NULL);
    return is_heard;
}

static void range(CUpti_CallbackId id, const void *given)
{
    const CUpti_NvtxData data = {.functionParams = given};
    if (is_nvtx_heard())
        fake_cupti_call_back(CUPTI_CB_DOMAIN_NVTX, id, &data);
}

static void push(const char *name)
{
    range(CUPTI_CBID_NVTX_nvtxRangePushA, &(nvtxRangePushA_params){name});
}

static void push_in(const char *domain, const char *name)
{
    const nvtxEventAttributes_t attributes = {.messageType = NVTX_MESSAGE_TYPE_ASCII, .message.ascii = name};
    const nvtxDomainRangePushEx_params given = {(nvtxDomainHandle_t)(uintptr_t)atoi(domain), {&attributes}};
    range(CUPTI_CBID_NVTX_nvtxDomainRangePushEx, &given);
}

static void take_named(CUpti_CallbackId id, const void *given)
{
    static uint64_t taken;
    range(id, given);
    take(++taken << 20, 512, 0);
    range(CUPTI_CBID_NVTX_nvtxRangePop, NULL);
}

static nvtxStringHandle_t register_string(const char *text)
{
    nvtxStringHandle_t handle = (nvtxStringHandle_t)(uintptr_t)4711;
    const nvtxDomainRegisterStringA_params given = {.string = text};
    const CUpti_NvtxData data = {.functionParams = &given, .functionReturnValue = &handle};
    if (is_nvtx_heard())
        fake_cupti_call_back(CUPTI_CB_DOMAIN_NVTX, CUPTI_CBID_NVTX_nvtxDomainRegisterStringA, &data);
    return handle;
}

static void take_with_each_kind_of_name(void)
{
    const nvtxEventAttributes_t attributes[] = {
        {.messageType = NVTX_MESSAGE_TYPE_ASCII, .message.ascii = "attribute"},
        {.messageType = NVTX_MESSAGE_TYPE_UNICODE, .message.unicode = L"wide attribute"},
        {.messageType = NVTX_MESSAGE_TYPE_REGISTERED, .message.registered = register_string("registered")},
        {.messageType = NVTX_MESSAGE_TYPE_REGISTERED, .message.registered = (nvtxStringHandle_t)(uintptr_t)4712},
        {.messageType = NVTX_MESSAGE_UNKNOWN}};
    take_named(CUPTI_CBID_NVTX_nvtxRangePushA, &(nvtxRangePushA_params){"plain"});
    take_named(CUPTI_CBID_NVTX_nvtxRangePushW, &(nvtxRangePushW_params){L"wide \u00e9"});
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        take_named(CUPTI_CBID_NVTX_nvtxRangePushEx, &(nvtxRangePushEx_params){&attributes[i]});
}

static void pop_in(const char *domain)
{
    const nvtxDomainRangePop_params given = {(nvtxDomainHandle_t)(uintptr_t)atoi(domain)};
    range(CUPTI_CBID_NVTX_nvtxDomainRangePop, &given);
}

static void set_cupti_up(void)
{
    const char *version = getenv("FAKE_CUPTI_VERSION"), *refused = getenv("FAKE_CUPTI_REFUSES");
    if (version != NULL)
        fake_cupti.version = (uint32_t)atoi(version);
    fake_cupti.user = getenv("FAKE_CUPTI_USER");
    fake_cupti.refuses_callbacks = refused != NULL && strcmp(refused, "callbacks") == 0;
    fake_cupti.refuses_kernels = refused != NULL && strcmp(refused, "kernels") == 0;
    fake_cupti.now_ns = 1000000;
}

/* Overwrites the environment, like programs that show a title. */
static void show_title(void)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        char *before = *variable;
        *variable = strdup(before);
        memset(before, 'x', strlen(before));
    }
}

static void *make_context(void *unused)
{
    const CUpti_ResourceData context = {.context = (CUcontext)&fake_cupti};
    fake_cupti_call_back(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &context);
    return unused;
}

/* Creates a context in another thread, and waits for it for some seconds, since it may be waiting for this one. */
void fake_cuda_make_context(void);
void fake_cuda_make_context(void)
{
    struct timespec most;
    pthread_t thread;
    clock_gettime(CLOCK_REALTIME, &most);
    most.tv_sec += 5;
    pthread_create(&thread, NULL, make_context, NULL);
    if (pthread_timedjoin_np(thread, NULL, &most) == 0)
        return;
    fprintf(stderr, "the driver and who asks it wait for each other\n");
    _exit(98);
}

static void initialize(void)
{
    int (*begin)(void) = NULL;
    set_cupti_up();
    if (getenv("FAKE_DRIVER") != NULL && dlopen(getenv("FAKE_DRIVER"), RTLD_NOW) == NULL)
        fprintf(stderr, "%s\n", dlerror());
    if (getenv("FAKE_NVTX_FIRST") != NULL)
        is_nvtx_heard();
    *(void **)&begin = find_injected("CUDA_INJECTION64_PATH", "InitializeInjection");
    if (begin != NULL)
        begin();
    if (getenv("FAKE_TITLE") != NULL)
        show_title();
    make_context(NULL);
}

/* ---- the library that watches PyTorch ---- */

int memtrace_torch_is_watching(void);
int memtrace_torch_is_watching(void)
{
    return getenv("FAKE_TORCH") != NULL;
}

void memtrace_torch_outside_take(int device, uint64_t address, uint64_t bytes, const char *holder);
void memtrace_torch_outside_take(int device, uint64_t address, uint64_t bytes, const char *holder)
{
    printf("%s took %" PRIu64 " at %" PRIx64 " of %d\n", holder, bytes, address, device);
}

void memtrace_torch_outside_give(uint64_t address);
void memtrace_torch_outside_give(uint64_t address)
{
    printf("%" PRIx64 " is given back\n", address);
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

static void say_what_is_heard(void)
{
    bool heard = fake_cupti.hears[CUPTI_CB_DOMAIN_DRIVER_API][CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel];
    printf(heard ? "launches are heard\n" : "launches are not heard\n");
}

static void say_whether_cupti_is_used(void)
{
    bool used = fake_cupti.is_subscribed || fake_cupti.records_memory || fake_cupti.records_kernels;
    printf("CUPTI is %s\n", used ? "in use" : "free");
}

/* Waits for the signal. A thread that does not block the signal, such as one of the recording, would get it instead. */
static void await_signal(int number)
{
    const struct timespec most = {.tv_sec = 5};
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, number);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    kill(getpid(), number);
    printf("%s\n", sigtimedwait(&awaited, NULL, &most) == number ? "it came" : "it did not come");
}

enum { ROUNDS = 1000, MOST_THREADS = 8 };

static void do_everything(uint64_t address)
{
    push("storm");
    take_from_pool(address, 512);
    begin_call();
    call(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, NULL, 0);
    give_to_pool(address);
    range(CUPTI_CBID_NVTX_nvtxRangePop, NULL);
}

static void *act_in_storm(void *address)
{
    for (int i = 0; i < ROUNDS; i++)
        do_everything((uint64_t)(uintptr_t)address);
    return NULL;
}

static void *toil_on(void *address)
{
    while (address != NULL)
        do_everything((uint64_t)(uintptr_t)address);
    return NULL;
}

static void toil(int count)
{
    pthread_t thread;
    is_nvtx_heard();
    for (int i = 0; i < count; i++)
        pthread_create(&thread, NULL, toil_on, (void *)(uintptr_t)((uint64_t)(i + 1) << 32));
}

/* Delivers kernels until *is_over. Returns their number. */
static void *hand_kernels_over(void *is_over)
{
    CUpti_ActivityKernel10 kernels[FAKE_RECORDS_A_BUFFER] = {0};
    uintptr_t count = 0;
    do {
        for (int i = 0; i < FAKE_RECORDS_A_BUFFER; i++, count++)
            kernels[i] = (CUpti_ActivityKernel10){.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                  .start = fake_cupti.now_ns + count * 10,
                                                  .end = fake_cupti.now_ns + count * 10 + 5,
                                                  .correlationId = given_out,
                                                  .name = "storm"};
        fake_cupti_hand_over(kernels, sizeof kernels);
    } while (!*(_Atomic bool *)is_over);
    return (void *)count;
}

static void storm(int count)
{
    pthread_t threads[MOST_THREADS], other;
    _Atomic bool is_over = false;
    void *kernels;
    is_nvtx_heard();
    pthread_create(&other, NULL, hand_kernels_over, &is_over);
    for (int i = 0; i < count && i < MOST_THREADS; i++)
        pthread_create(&threads[i], NULL, act_in_storm, (void *)(uintptr_t)((uint64_t)(i + 1) << 32));
    for (int i = 0; i < count && i < MOST_THREADS; i++)
        pthread_join(threads[i], NULL);
    is_over = true;
    pthread_join(other, &kernels);
    printf("%lld\n", (long long)(uintptr_t)kernels);
}

static pthread_key_t haunting;

/* Runs at the end of a thread, possibly after other libraries' keys. */
static void haunt_once_more(void *rounds)
{
    push("ghost");
    if ((uintptr_t)rounds > 1)
        pthread_setspecific(haunting, (void *)((uintptr_t)rounds - 1));
}

static void *live_in_ranges(void *rounds)
{
    push("left");
    push("behind");
    pthread_setspecific(haunting, rounds);
    return NULL;
}

static void haunt(void)
{
    pthread_t thread;
    pthread_key_create(&haunting, haunt_once_more);
    pthread_create(&thread, NULL, live_in_ranges, (void *)(uintptr_t)2);
    pthread_join(thread, NULL);
}

static void fork_child(void)
{
    pid_t child = fork();
    if (child == 0)
        exit(0);
    waitpid(child, NULL, 0);
}

/* Forks a child that exits later. Continues once it runs. */
static void leave_child(int ms)
{
    int ends[2];
    char word = 0;
    if (pipe(ends) != 0)
        exit(99);
    bool is_child = fork() == 0;
    ssize_t moved = is_child ? write(ends[1], &word, 1) : read(ends[0], &word, 1);
    if (moved != 1)
        exit(99);
    if (!is_child)
        return;
    usleep((useconds_t)ms * 1000);
    exit(0);
}

/* Executes a command that takes or gives memory. Returns its number of words; 0 if it is another command. */
static int act_on_memory(const char *word, const char *first, uint64_t bytes)
{
    if (strcmp(word, "take") == 0)
        return take(address_of(first), bytes, 0), 3;
    if (strcmp(word, "give") == 0)
        return give(address_of(first)), 2;
    if (strcmp(word, "pool") == 0)
        return take_from_pool(address_of(first), bytes), 3;
    if (strcmp(word, "unpool") == 0)
        return give_to_pool(address_of(first)), 2;
    if (strcmp(word, "streams") == 0)
        return take_in_default_streams(), 1;
    if (strcmp(word, "managed") == 0)
        return take_managed(address_of(first), bytes), 3;
    if (strcmp(word, "make") == 0)
        return make((uint64_t)atoi(first), bytes), 3;
    if (strcmp(word, "drop") == 0)
        return drop((uint64_t)atoi(first)), 2;
    if (strcmp(word, "static") == 0)
        return begin_call(), record_memory(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, address_of(first), bytes), 3;
    if (strcmp(word, "refuse") == 0)
        return take(0, strtoull(first, NULL, 10), CUDA_ERROR_OUT_OF_MEMORY), 2;
    return 0;
}

/* Does the same for ranges. */
static int act_on_ranges(char **words)
{
    const char *word = words[0], *first = words[1];
    if (strcmp(word, "push") == 0)
        return push(first), 2;
    if (strcmp(word, "pop") == 0)
        return range(CUPTI_CBID_NVTX_nvtxRangePop, NULL), 1;
    if (strcmp(word, "push-in") == 0)
        return push_in(first, words[2]), 3;
    if (strcmp(word, "pop-in") == 0)
        return pop_in(first), 2;
    if (strcmp(word, "names") == 0)
        return take_with_each_kind_of_name(), 1;
    return 0;
}

/* Executes any command. Returns its number of words. */
static int act(char **words)
{
    const char *word = words[0], *first = words[1] != NULL ? words[1] : "0";
    uint64_t bytes = words[1] != NULL && words[2] != NULL ? strtoull(words[2], NULL, 10) : 0;
    int count = act_on_memory(word, first, bytes);
    if (count == 0)
        count = act_on_ranges(words);
    if (count > 0)
        return count;
    if (strcmp(word, "launch") == 0)
        return launch(first), 2;
    if (strcmp(word, "lose") == 0)
        return fake_cupti.dropped += (size_t)atoi(first), 2;
    if (strcmp(word, "storm") == 0)
        return storm(atoi(first)), 2;
    if (strcmp(word, "toil") == 0)
        return toil(atoi(first)), 2;
    if (strcmp(word, "haunt") == 0)
        return haunt(), 1;
    if (strcmp(word, "hears") == 0)
        return say_what_is_heard(), 1;
    if (strcmp(word, "uses") == 0)
        return say_whether_cupti_is_used(), 1;
    if (strcmp(word, "await") == 0)
        return await_signal(atoi(first)), 2;
    if (strcmp(word, "fork") == 0)
        return fork_child(), 1;
    if (strcmp(word, "linger") == 0)
        return leave_child(atoi(first)), 2;
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
