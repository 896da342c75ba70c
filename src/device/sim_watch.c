#include "device/sim_watch.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* Invariant: kernels are ordered by start, since the clock never decreases. */
struct sim_watch {
    struct mt_kernel_watch watch;
    struct mt_kernel *kernels; /* not yet passed on */
    size_t count;
    int64_t step;
    mt_label_id label;
};

static void tag(struct mt_kernel_watch *watch, mt_label_id label)
{
    ((struct sim_watch *)watch)->label = label;
}

static void tag_step(struct mt_kernel_watch *watch, int64_t step)
{
    ((struct sim_watch *)watch)->step = step;
}

static uint64_t waiting(struct mt_kernel_watch *watch)
{
    return ((struct sim_watch *)watch)->count;
}

static mt_status collect(struct mt_kernel_watch *watch, void (*take)(void *context, const struct mt_kernel *kernel),
                         void *context)
{
    struct sim_watch *sim = (struct sim_watch *)watch;
    for (size_t i = 0; i < sim->count; i++)
        take(context, &sim->kernels[i]);
    free(sim->kernels);
    sim->kernels = NULL;
    sim->count = 0;
    return MT_OK;
}

static void end(struct mt_kernel_watch *watch)
{
    free(((struct sim_watch *)watch)->kernels);
    free(watch);
}

static const struct mt_kernel_watch_table table = {
    .tag = tag, .tag_step = tag_step, .waiting = waiting, .collect = collect, .end = end};

struct mt_kernel_watch *mt_sim_watch_create(void)
{
    struct sim_watch *sim = mt_host_alloc(sizeof *sim);
    *sim = (struct sim_watch){.watch = {.table = &table}, .step = MT_NO_STEP};
    return &sim->watch;
}

void mt_sim_watch_add(struct mt_kernel_watch *watch, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    struct sim_watch *sim = (struct sim_watch *)watch;
    assert(name != NULL && start_ns <= end_ns &&
           (sim->count == 0 || sim->kernels[sim->count - 1].start_ns <= start_ns));
    *MT_HOST_ADD(sim->kernels, sim->count) = (struct mt_kernel){
        .start_ns = start_ns, .end_ns = end_ns, .name = name, .step = sim->step, .label = sim->label};
}
