#include "device/kernel_log.h"

#include "base/interner.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/number_map.h"

#include <assert.h>
#include <stdlib.h>

/* Invariants: spellings[i] belongs to the name with number i + 1; launch_count and run_count are the lengths of the
 * arrays. */
struct mt_kernel_log {
    struct mt_mutex launch_lock; /* guards the launches */
    struct mt_kernel_launch *launches;
    size_t launch_count;
    struct mt_mutex run_lock; /* guards the runs */
    struct mt_kernel_run *runs;
    size_t run_count;
    struct mt_name_set *names; /* mangled */
    char **spellings;
    size_t spelling_count;
    char *(*spell)(const char *name);
};

struct mt_kernel_log *mt_kernel_log_create(char *(*spell)(const char *name))
{
    struct mt_kernel_log *log = mt_host_alloc(sizeof *log);
    mt_mutex_create(&log->launch_lock, MT_RANK_KERNEL_LAUNCHES);
    mt_mutex_create(&log->run_lock, MT_RANK_KERNEL_RUNS);
    log->names = mt_name_set_create();
    log->spell = spell;
    return log;
}

void mt_kernel_log_destroy(struct mt_kernel_log *log)
{
    if (log == NULL)
        return;
    for (size_t i = 0; i < log->spelling_count; i++)
        free(log->spellings[i]);
    free(log->spellings);
    free(log->launches);
    free(log->runs);
    mt_name_set_destroy(log->names);
    mt_mutex_destroy(&log->run_lock);
    mt_mutex_destroy(&log->launch_lock);
    free(log);
}

static bool launches_equal(const struct mt_kernel_launch *a, const struct mt_kernel_launch *b)
{
    return a->number == b->number && a->label == b->label && a->step == b->step;
}

/* Ignores a launch with the same number as the last one: a call of the runtime and the driver call inside it often
 * share a number. */
void mt_kernel_log_launch(struct mt_kernel_log *log, const struct mt_kernel_launch *launch)
{
    mt_mutex_take(&log->launch_lock);
    size_t count = log->launch_count;
    if (count == 0 || !launches_equal(&log->launches[count - 1], launch))
        *MT_HOST_ADD(log->launches, log->launch_count) = *launch;
    mt_mutex_give(&log->launch_lock);
}

void mt_kernel_log_ran(struct mt_kernel_log *log, const struct mt_kernel_run *run)
{
    assert(run->start_ns <= run->end_ns);
    mt_mutex_take(&log->run_lock);
    *MT_HOST_ADD(log->runs, log->run_count) = *run;
    mt_mutex_give(&log->run_lock);
}

uint64_t mt_kernel_log_waiting(struct mt_kernel_log *log)
{
    mt_mutex_take(&log->launch_lock);
    uint64_t count = log->launch_count;
    mt_mutex_give(&log->launch_lock);
    return count;
}

static int by_start(const void *left, const void *right)
{
    const struct mt_kernel_run *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns > b->start_ns ? 1 : -1;
    return (a->launch > b->launch) - (a->launch < b->launch);
}

/* Sorts the runs by start. Runs of a single stream are already sorted, which is checked first. */
static void sort_runs(struct mt_kernel_log *log)
{
    for (size_t i = 1; i < log->run_count; i++)
        if (by_start(&log->runs[i - 1], &log->runs[i]) > 0) {
            qsort(log->runs, log->run_count, sizeof *log->runs, by_start);
            return;
        }
}

/* Maps the number of each launch to its index; for equal numbers, to the last one. */
static void index_launches(const struct mt_kernel_log *log, struct mt_number_map *out)
{
    mt_number_map_create(out);
    for (size_t i = 0; i < log->launch_count; i++)
        mt_number_map_put(out, log->launches[i].number, i);
}

/* Returns the readable name, which is created once per name. */
static const char *find_spelling(struct mt_kernel_log *log, const char *name)
{
    bool is_new;
    uint32_t number = mt_name_set_number(log->names, name != NULL ? name : "", &is_new);
    const char *known = mt_name_set_name(log->names, number);
    if (is_new) {
        *MT_HOST_ADD(log->spellings, log->spelling_count) = log->spell(known);
    }
    assert(number >= 1 && number <= log->spelling_count);
    return log->spellings[number - 1] != NULL ? log->spellings[number - 1] : known;
}

static struct mt_kernel join(struct mt_kernel_log *log, const struct mt_number_map *launches,
                             const struct mt_kernel_run *run, int64_t shift_ns)
{
    static const struct mt_kernel_launch nobody = {.step = MT_NO_STEP};
    uint64_t index;
    const struct mt_kernel_launch *launch =
        mt_number_map_get(launches, run->launch, &index) ? &log->launches[index] : &nobody;
    return (struct mt_kernel){.start_ns = run->start_ns + (uint64_t)shift_ns,
                              .end_ns = run->end_ns + (uint64_t)shift_ns,
                              .name = find_spelling(log, run->name),
                              .step = launch->step,
                              .label = launch->label,
                              .stream = run->stream};
}

/* Moves the start of each run to the end of the previous run in its stream: a kernel may occupy its place on the card
 * while the previous one still runs, and wait there. The runs are ordered by when they occupied their places. */
static void begin_at_turns(struct mt_kernel_log *log)
{
    struct mt_number_map ends; /* the end of the last run of each stream */
    mt_number_map_create(&ends);
    for (size_t i = 0; i < log->run_count; i++) {
        struct mt_kernel_run *run = &log->runs[i];
        uint64_t last_ns = 0;
        (void)mt_number_map_get(&ends, run->stream, &last_ns);
        if (run->start_ns < last_ns)
            run->start_ns = last_ns < run->end_ns ? last_ns : run->end_ns;
        assert(run->start_ns <= run->end_ns);
        if (run->end_ns > last_ns)
            mt_number_map_put(&ends, run->stream, run->end_ns);
    }
    mt_number_map_release(&ends);
}

void mt_kernel_log_take(struct mt_kernel_log *log, int64_t shift_ns,
                        void (*take)(void *context, const struct mt_kernel *kernel), void *context)
{
    struct mt_number_map launches;
    mt_mutex_take(&log->launch_lock);
    mt_mutex_take(&log->run_lock);
    index_launches(log, &launches);
    sort_runs(log);
    begin_at_turns(log);
    for (size_t i = 0; i < log->run_count; i++) {
        const struct mt_kernel kernel = join(log, &launches, &log->runs[i], shift_ns);
        take(context, &kernel);
    }
    log->launch_count = 0;
    log->run_count = 0;
    mt_mutex_give(&log->run_lock);
    mt_mutex_give(&log->launch_lock);
    mt_number_map_release(&launches);
}
