#include "model/training.h"

#include "base/memory.h"
#include "base/random.h"
#include "model/implementation.h"
#include "model/ops.h"
#include "model/token_source.h"
#include "model/use.h"

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
    bool graph_repeats;             /* it has ended, and as one that may be repeated */
};

/* One element of what was read back. */
static double element(const void *data, mt_dtype dtype, size_t i)
{
    return dtype == MT_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* The value of a scalar; NAN where nothing is computed. */
static double read_scalar(struct mt_runtime *rt, const struct mt_tensor *scalar)
{
    double room = 0; /* of either dtype, aligned to both */
    if (scalar == NULL || rt->status != MT_OK)
        return NAN;
    mt_use_read(rt, scalar);
    if (!mt_device_executes(rt->device))
        return NAN;
    mt_runtime_fail(rt, mt_device_read(rt->device, &room, scalar->address, mt_tensor_bytes(scalar), rt->stream));
    return element(&room, scalar->dtype, 0);
}

/* The Euclidean norm of a contiguous tensor, read back piece by piece. */
static double read_norm(struct mt_runtime *rt, const struct mt_tensor *tensor)
{
    enum { PIECE = 1 << 18 };
    size_t size = mt_dtype_bytes(tensor->dtype), left = (size_t)mt_tensor_count(tensor);
    void *data = mt_host_alloc(PIECE * size);
    double sum = 0;
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

/* Gradients are reported of the first step alone. */
static struct mt_gradient_watch watch_of_step(struct training *run, int64_t step)
{
    bool reports = step == 0 && run->observer != NULL && run->observer->grad_norm != NULL;
    return (struct mt_gradient_watch){.visit = reports ? report_grad_norm : NULL, .context = run};
}

/* Forward and backward of a step are the same work as in an earlier one if the allocator is as it was then, and
 * gradients that go on the way lie where they lay: the model asks for the same blocks and gets them. The tokens are
 * there already, and the loss is read afterwards; in a step whose gradients are reported, they are read between. */
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

/* What failed on its way is not to be done, and what asked the device for memory (which gives none back but to be
 * asked again) is not to be repeated: what was mapped then need not be when the work begins. */
static void end_graph(struct training *run, bool has_begun)
{
    run->graph_repeats = run->rt.status == MT_OK && run->rt.device->reserve_count == run->reserves_before_graph;
    if (has_begun)
        mt_runtime_settle(&run->rt, end_or_drop_graph, run);
}

/* Backward and update; gradients of the last step go first or went before forward, as configured. */
static void learn(struct training *run, int64_t step, bool in_graph)
{
    struct mt_runtime *rt = &run->rt;
    if (run->config->zero_grad == MT_ZERO_GRAD_BEFORE_BACKWARD)
        run->implementation->zero_grad(rt, run->model);
    mt_runtime_phase(rt, MT_PHASE_BACKWARD);
    run->implementation->backward(rt, run->model, step + 1, watch_of_step(run, step));
    end_graph(run, in_graph);
    mt_runtime_phase(rt, MT_PHASE_OPTIMIZER);
    run->implementation->update(rt, run->model, step + 1);
}

/* One step; returns its loss, NAN without one. */
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

/* The device's mark at the end of a step; the marks of its phases are numbered as they are. */
enum { STEP_END_MARK = MT_PHASE_COUNT };

static double elapsed_ms(struct mt_runtime *rt, int from, int to)
{
    double ms = 0;
    mt_runtime_fail(rt, mt_device_elapsed_ms(rt->device, from, to, &ms));
    return ms;
}

/* Tells how long each phase of a step took: up to the next one's begin. */
static void report_phases(struct training *run, int64_t step)
{
    const struct mt_training_observer *observer = run->observer;
    mt_phase last = run->config->mode == MT_MODE_FWD_BWD ? MT_PHASE_OPTIMIZER : MT_PHASE_FORWARD;
    if (observer->phase_time == NULL)
        return;
    for (mt_phase phase = MT_PHASE_FORWARD; phase <= last; phase++) {
        int end = phase == last ? STEP_END_MARK : (int)phase + 1;
        double ms = elapsed_ms(&run->rt, (int)phase, end);
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
                            elapsed_ms(&run->rt, MT_PHASE_FORWARD, STEP_END_MARK));
}

static void take_kernel(void *context, const struct mt_kernel *kernel)
{
    mt_alloc_kernel(((struct training *)context)->rt.alloc, kernel);
}

static mt_status device_collect(void *context)
{
    return mt_device_collect(((struct training *)context)->rt.device, take_kernel, context);
}

/* Hands over what ran until now, if as much waits as is asked for; also of a run that failed, since memory that ran out
 * leaves the device as it was. */
static void collect_kernels(struct training *run, uint64_t least)
{
    if (mt_device_waiting_kernels(run->rt.device) >= least)
        mt_runtime_settle(&run->rt, device_collect, run);
}

/* A step that failed has no end. */
static void end_step(struct training *run, int64_t step)
{
    struct mt_runtime *rt = &run->rt;
    if (rt->status == MT_OK)
        mt_runtime_fail(rt, mt_device_mark(rt->device, STEP_END_MARK));
    if (rt->status == MT_OK)
        mt_runtime_fail(rt, mt_device_synchronize(rt->device));
    mt_device_tag_step(rt->device, MT_NO_STEP);
    if (rt->status == MT_OK)
        mt_alloc_mark(rt->alloc, MT_EVENT_STEP_END, (uint64_t)step, 0);
}

/* Records of kernels wait until the run ends, so that their hand-over is in no step's time; only where so many are
 * there that they would take much memory, and more room than the recorder's ring has, they go before a step. */
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

mt_status mt_training_run(struct mt_device *device, struct mt_alloc *alloc, const struct mt_training_config *config,
                          const struct mt_training_observer *observer)
{
    struct training run = {.config = config, .observer = observer, .implementation = implementation_of(config)};
    mt_status status = mt_training_config_check(config);
    if (status == MT_OK)
        status = mt_token_source_open(config, &run.tokens);
    if (status != MT_OK)
        return status;
    mt_runtime_open(&run.rt, device, alloc);
    run.rt.grad_enabled = config->mode != MT_MODE_INFER;
    run.rt.math = config->math;
    run.model = run.implementation->create(&run.rt, config);
    if (run.rt.status == MT_OK)
        mt_runtime_fail(&run.rt, mt_device_synchronize(device)); /* the first step is to begin with an idle device */
    run_steps(&run);
    collect_kernels(&run, 1);
    mt_device_graph_forget(device);
    run.implementation->destroy(&run.rt, run.model);
    mt_op_workspaces_release(&run.rt);
    mt_token_source_close(run.tokens);
    return run.rt.status;
}
