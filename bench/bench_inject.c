/* Costs per call of the library that `memtrace record` has loaded into programs. tests/fake_cupti.h stands in for
 * CUPTI, so the costs of CUPTI and of the driver are not included. Every call comes by the runtime with the driver's
 * inside, as most do, which is four callbacks. Each figure is the least of some repetitions.
 *
 * Usage: bench_inject */
#include "bench/report.h"

#ifdef MT_INJECT

#include "run/handover.h"
#include "tests/fake_cupti.h"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#define TRACE "bench_inject.db"
#define ANSWERS "bench_inject.txt"

enum { CALLS = 100000, PAIRS = 10000, REPEATS = 7, BYTES = 4096 };

static uint32_t numbers; /* of calls, given out */

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* One end of a call. */
static void reach(CUpti_ApiCallbackSite site, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *given)
{
    int result = 0;
    const CUpti_CallbackData data = {.callbackSite = site,
                                     .functionParams = given,
                                     .functionReturnValue = &result,
                                     .contextUid = 1,
                                     .correlationId = numbers};
    fake_cupti_call_back(domain, id, &data);
}

/* A call of the runtime and the driver's inside it, with their parameters. */
static void call(CUpti_CallbackId runtime, const void *outer, CUpti_CallbackId driver, const void *inner)
{
    numbers++;
    reach(CUPTI_API_ENTER, CUPTI_CB_DOMAIN_RUNTIME_API, runtime, outer);
    reach(CUPTI_API_ENTER, CUPTI_CB_DOMAIN_DRIVER_API, driver, inner);
    reach(CUPTI_API_EXIT, CUPTI_CB_DOMAIN_DRIVER_API, driver, inner);
    reach(CUPTI_API_EXIT, CUPTI_CB_DOMAIN_RUNTIME_API, runtime, outer);
}

static void launch(void)
{
    call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, NULL, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, NULL);
}

static void take_and_give(void)
{
    CUdeviceptr address = UINT64_C(1) << 40;
    void *pointer = (void *)(uintptr_t)address;
    const cudaMalloc_v3020_params outer = {&pointer, BYTES};
    const cuMemAlloc_v2_params inner = {&address, BYTES};
    const cudaFree_v3020_params outer_end = {pointer};
    const cuMemFree_v2_params inner_end = {address};
    call(CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &outer, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &inner);
    call(CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, &outer_end, CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, &inner_end);
}

/* Nanoseconds of one. */
static double least(void (*act)(void), int count)
{
    double least_ns = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        double begin_ns = now_ns();
        for (int k = 0; k < count; k++)
            act();
        least_ns = fmin(least_ns, (now_ns() - begin_ns) / count);
    }
    return least_ns;
}

/* A function of the library. NULL: there is no such library. */
static void *find(const char *name)
{
    void *library = dlopen(MT_INJECT, RTLD_NOW | RTLD_LOCAL);
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL)
        fprintf(stderr, "bench_inject: %s\n", dlerror());
    return function;
}

static void ask_for_recording(void)
{
    static struct mt_environment environment;
    const struct mt_record_request request = {
        .trace = TRACE, .answers = ANSWERS, .watches_kernels = true, .device = -1};
    FILE *answers = fopen(ANSWERS, "w");
    if (answers != NULL)
        fclose(answers);
    mt_environment_copy(&environment);
    mt_record_request_give(&request, &environment);
    environ = environment.entries;
    fake_cupti.now_ns = 1000000;
}

/* In turns with what the fake itself takes, before the library is there. */
static void measure(int (*begin)(void), int (*begin_nvtx)(void *))
{
    const CUpti_ResourceData context = {.context = NULL};
    double fake_launch = least(launch, CALLS), fake_pair = least(take_and_give, PAIRS);
    begin();
    fake_cupti_call_back(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &context);
    bench_report("record --kernels: the library's part of a launch, no ranges", "ns",
                 least(launch, CALLS) - fake_launch, NAN, "", 0);
    begin_nvtx(NULL);
    bench_report("record --kernels: the library's part of a launch, ranges", "ns", least(launch, CALLS) - fake_launch,
                 NAN, "", 0);
    bench_report("record: the library's part of a cudaMalloc and its cudaFree", "ns",
                 least(take_and_give, PAIRS) - fake_pair, NAN, "", 0);
}

static void remove_files(void)
{
    static const char *const files[] = {TRACE, TRACE "-wal", TRACE "-shm", TRACE "-ring", ANSWERS};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
}

int main(void)
{
    int (*begin)(void) = NULL, (*begin_nvtx)(void *) = NULL;
    *(void **)&begin = find("InitializeInjection");
    *(void **)&begin_nvtx = find("InitializeInjectionNvtx2");
    if (begin == NULL || begin_nvtx == NULL)
        return 1;
    atexit(remove_files); /* after the library has closed its trace, which it does first: it came later */
    ask_for_recording();
    measure(begin, begin_nvtx);
    return 0;
}

#else

int main(void)
{
    fprintf(stderr, "bench_inject: skipped: built without CUPTI\n");
    return 0;
}

#endif
