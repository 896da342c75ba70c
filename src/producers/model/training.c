#include "producers/model/training.h"

#include "base/memory.h"
#include "base/random.h"
#include "producers/model/implementation.h"
#include "producers/model/ops.h"
#include "producers/model/token_source.h"
#include "producers/model/use.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run under way. */
struct training {
    struct mt_runtime rt;
    const struct mt_training_config *config;
    const struct mt_training_observer *observer;
    const struct mt_implementation *implementation;
    void *model; /* of the implementation */
    struct mt_token_source *tokens;
    uint64_t reserves_before_graph; /* the device's count when the last graph began */
    bool graph_repeats;             /* the last graph has ended and may be repeated */
};

/* Returns element `i` of data that was read back. */
static double element(const void *data, mt_dtype dtype, size_t i)
{
    return dtype == MT_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Returns the value of a scalar; NAN if nothing is computed. */
static double read_scalar(struct mt_runtime *rt, const struct mt_tensor *scalar)
{
    double room = 0; /* of either dtype, aligned to both */
    if (scalar == NULL || rt->status != MT_OK)
        return NAN;
    assert(scalar->dims == 0 && (scalar->dtype == MT_F32 || scalar->dtype == MT_F64));
    mt_use_read(rt, scalar);
    if (!mt_device_executes(rt->device))
        return NAN;
    mt_runtime_fail(rt, mt_device_read(rt->device, &room, scalar->address, mt_tensor_bytes(scalar), rt->stream));
    return element(&room, scalar->dtype, 0);
}

/* Returns the Euclidean norm of a contiguous tensor, read back piece by piece. */
static double read_norm(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    enum { PIECE = 1 << 18 };
    size_t size = mt_dtype_bytes(tensor->dtype), left = (size_t)mt_tensor_count(tensor);
    void *data = mt_host_alloc(PIECE * size);
    double sum = 0;
    assert(mt_tensor_is_contiguous(tensor));
    for (mt_addr at = tensor->address; left > 0 && rt->status == MT_OK;) {
        size_t count = left < PIECE ? left : PIECE;
        mt_runtime_fail(rt, mt_device_read(rt->device, data, at, count * size, rt->stream));
        for (size_t i = 0; i < count; i++)
            sum += element(data, tensor->dtype, i) * element(data, tensor->dtype, i);
        at += count * size;
        left -= count;
    }
    free(data);
    return sqrt(sum);
}

static void report_grad_norm(void *context, const char *parameter, const struct mt_tensor *grad)
{
    struct training *run = context;
    if (run->rt.status != MT_OK)
        return;
    mt_use_read(&run->rt, grad);
    if (mt_device_executes(run->rt.device))
        run->observer->grad_norm(run->observer->context, parameter, read_norm(&run->rt, grad));
}

/* Returns the watch of a step's backward. Only the first step reports gradients. */
static struct mt_gradient_watch watch_of_step(struct training *run, int64_t step)
{
    bool reports = step == 0 && run->observer != NULL && run->observer->grad_norm != NULL;
    return (struct mt_gradient_watch){.visit = reports ? report_grad_norm : NULL, .context = run};
}

/* Begins a graph of forward and backward, if possible. They repeat the work of an earlier step if the
 * allocator is in the same state as then, and gradients that backward releases have the same addresses: the
 * model requests the same blocks and gets them. The tokens are written before the graph, and the loss is read after
 * it. A step that reports gradients has no graph, since it reads them in between. */
static bool begin_graph(struct training *run, int64_t step)
{
    struct mt_runtime *rt = &run->rt;
    if (!run->config->cuda_graph || rt->status != MT_OK || watch_of_step(run, step).visit != NULL)
        return false;
    uint64_t places = run->implementation->gradient_places(run->model);
    uint64_t key = mt_splitmix64(mt_alloc_fingerprint(rt->alloc) ^ places);
    run->reserves_before_graph = rt->device->reserve_count;
    mt_runtime_fail(rt, mt_device_graph_begin(rt->device, key));
    return rt->status == MT_OK;
}

static mt_status end_or_drop_graph(void *context)
{
    const struct training *run = context;
    return run->graph_repeats ? mt_device_graph_end(run->rt.device) : mt_device_graph_drop(run->rt.device);
}

/* Ends a graph that has begun. If the work failed, the graph is dropped. It is also dropped if the work requested
 * memory from the device: that memory need not be mapped when the graph is repeated. */
static void end_graph(struct training *run, bool has_begun)
{
    run->graph_repeats = run->rt.status == MT_OK && run->rt.device->reserve_count == run->reserves_before_graph;
    if (has_begun)
        mt_runtime_settle(&run->rt, end_or_drop_graph, run);
}

/* True if a step ends with an update of the parameters. */
static bool updates(const struct mt_training_config *config)
{
    return config->mode == MT_MODE_FWD_BWD && config->optimizer != MT_OPTIMIZER_NONE;
}

/* Runs backward and update. Depending on zero_grad, releases the last step's gradients here; otherwise that was done
 * before. */
static void learn(struct training *run, int64_t step, bool in_graph)
{
    struct mt_runtime *rt = &run->rt;
    if (run->config->zero_grad == MT_ZERO_GRAD_BEFORE_BACKWARD)
        run->implementation->zero_grad(rt, run->model);
    mt_runtime_phase(rt, MT_PHASE_BACKWARD);
    run->implementation->backward(rt, run->model, step + 1, watch_of_step(run, step));
    end_graph(run, in_graph);
    if (!updates(run->config))
        return;
    mt_runtime_phase(rt, MT_PHASE_OPTIMIZER);
    run->implementation->update(rt, run->model, step + 1);
}

/* Runs one step. Returns its loss, NAN without one. */
static double run_step(struct training *run, int64_t step)
{
    struct mt_runtime *rt = &run->rt;
    struct mt_tensor *inputs = NULL, *targets = NULL;
    bool learns = run->config->mode == MT_MODE_FWD_BWD;
    mt_runtime_phase(rt, MT_PHASE_FORWARD);
    if (learns && run->config->zero_grad == MT_ZERO_GRAD_BEFORE_FORWARD)
        run->implementation->zero_grad(rt, run->model);
    mt_token_source_next(rt, run->tokens, step, &inputs, &targets);
    bool in_graph = begin_graph(run, step);
    run->implementation->forward(rt, run->model, inputs, learns ? targets : NULL);
    if (learns)
        learn(run, step, in_graph);
    else
        end_graph(run, in_graph);
    double value = read_scalar(rt, run->implementation->loss(run->model));
    MT_RELEASE(rt, inputs, targets);
    run->implementation->end_step(rt, run->model);
    return value;
}

static mt_phase last_phase(const struct mt_training_config *config)
{
    if (config->mode != MT_MODE_FWD_BWD)
        return MT_PHASE_FORWARD;
    return updates(config) ? MT_PHASE_OPTIMIZER : MT_PHASE_BACKWARD;
}

/* Reports the time of each phase of a step, up to the beginning of the next one. */
static void report_phases(struct training *run, int64_t step)
{
    const struct mt_training_observer *observer = run->observer;
    const mt_phase last = last_phase(run->config);
    if (observer->phase_time == NULL)
        return;
    for (mt_phase phase = MT_PHASE_FORWARD; phase <= last; phase++) {
        double ms = mt_runtime_elapsed_ms(&run->rt, (int)phase, phase == last ? MT_STEP_END_MARK : (int)phase + 1);
        if (run->rt.status == MT_OK)
            observer->phase_time(observer->context, step, phase, ms);
    }
}

static void report_step(struct training *run, int64_t step, int64_t total, double loss)
{
    const struct mt_training_observer *observer = run->observer;
    if (observer == NULL || run->rt.status != MT_OK)
        return;
    report_phases(run, step);
    if (observer->step_done != NULL)
        observer->step_done(observer->context, step, total, loss,
                            mt_runtime_elapsed_ms(&run->rt, MT_PHASE_FORWARD, MT_STEP_END_MARK));
}

static void take_kernel(void *context, const struct mt_kernel *kernel)
{
    mt_alloc_kernel(((struct training *)context)->rt.alloc, kernel);
}

static mt_status device_collect(void *context)
{
    return mt_device_collect(((struct training *)context)->rt.device, take_kernel, context);
}

/* Passes on the records of kernels if at least `least` are waiting, even after a failure: running out of memory does
 * not affect the device. */
static void collect_kernels(struct training *run, uint64_t least)
{
    if (mt_device_waiting_kernels(run->rt.device) >= least)
        mt_runtime_settle(&run->rt, device_collect, run);
}

/* Ends a step. A failed step has no end in the trace. */
static void end_step(struct training *run, int64_t step)
{
    struct mt_runtime *rt = &run->rt;
    assert(rt->scope_depth == 0 && rt->casts == NULL); /* a step leaves what it enters, even after a failure */
    mt_runtime_mark(rt, MT_STEP_END_MARK);
    mt_runtime_synchronize(rt);
    mt_device_tag_step(rt->device, MT_NO_STEP);
    if (rt->status == MT_OK)
        mt_alloc_mark(rt->alloc, MT_EVENT_STEP_END, (uint64_t)step, 0);
}

/* Records of kernels wait until the run ends, so that no step's time includes processing them. If more than this many
 * are waiting, they are processed before a step: they would need much memory, and more room than the ring has. */
enum { MOST_WAITING_KERNELS = 1 << 18 };

static void run_steps(struct training *run)
{
    struct mt_runtime *rt = &run->rt;
    int64_t total = run->config->warmup + run->config->steps;
    for (int64_t step = 0; step < total && rt->status == MT_OK; step++) {
        collect_kernels(run, MOST_WAITING_KERNELS);
        mt_alloc_mark(rt->alloc, MT_EVENT_STEP_BEGIN, (uint64_t)step, 0);
        mt_device_tag_step(rt->device, step);
        double loss = run_step(run, step);
        end_step(run, step);
        report_step(run, step, total, loss);
    }
}

static const struct mt_implementation *implementation_of(const struct mt_training_config *config)
{
    return config->implementation == MT_IMPLEMENTATION_FUSED ? &mt_fused_implementation : &mt_eager_implementation;
}

mt_status mt_model_device_open(const char *spelling, struct mt_device **out)
{
    MT_TRY(mt_device_open(spelling, out));
    if (strcmp(mt_device_kind(*out), "cpu") == 0)
        (*out)->kernels = &mtk_cpu;
    return MT_OK;
}

mt_status mt_training_run(struct mt_device *device, struct mt_alloc *alloc, const struct mt_training_config *config,
                          const struct mt_training_observer *observer)
{
    struct training run = {.config = config, .observer = observer, .implementation = implementation_of(config)};
    assert(device->kernels != NULL || strcmp(mt_device_kind(device), "cpu") != 0); /* of mt_model_device_open */
    MT_TRY(mt_training_config_check(config));
    if (config->autocast == MT_AUTOCAST_FP16 && mt_device_executes(device))
        return mt_fail(MT_USAGE, "%s computes, and no kernel knows fp16: autocast fp16 runs on sim; bf16 on any device",
                       device->name);
    MT_TRY(mt_token_source_open(config, &run.tokens));
    mt_runtime_open(&run.rt, device, alloc);
    run.rt.grad_enabled = config->mode != MT_MODE_INFER;
    run.rt.math = config->math;
    run.model = run.implementation->create(&run.rt, config);
    mt_runtime_synchronize(&run.rt); /* the first step begins with an idle device */
    run_steps(&run);
    collect_kernels(&run, 1);
    mt_device_graph_forget(device);
    run.implementation->destroy(&run.rt, run.model);
    mt_op_workspaces_release(&run.rt);
    mt_token_source_close(run.tokens);
    return run.rt.status;
}
