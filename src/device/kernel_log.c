#include "device/kernel_log.h"

#include "base/interner.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>

struct launch {
    uint32_t number;
    uint32_t order; /* in which they were told */
    mt_label_id label;
};

/* Invariants: the counts are at most the capacities; spellings[i] is of the name that the interner calls i. */
struct mt_kernel_log {
    pthread_mutex_t lock; /* of the launches and runs */
    struct launch *launches;
    size_t launch_count, launch_capacity;
    struct mt_kernel_run *runs;
    size_t run_count, run_capacity;
    struct mt_interner *names; /* as spans of its root */
    char **spellings;
    size_t spelling_count;
    char *(*spell)(const char *name);
};

struct mt_kernel_log *mt_kernel_log_create(char *(*spell)(const char *name))
{
    struct mt_kernel_log *log = mt_host_alloc(sizeof *log);
    pthread_mutex_init(&log->lock, NULL);
    log->names = mt_interner_create();
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
    mt_interner_destroy(log->names);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

/* `items`, grown if needed, so that one more fits after `count`. */
static void *make_room(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    *capacity = *capacity == 0 ? 1024 : *capacity * 2;
    return mt_host_resize(items, *capacity, size);
}

/* A call of the runtime and the call of the driver inside it often share a number, so the same is told twice in a row. */
void mt_kernel_log_launch(struct mt_kernel_log *log, uint32_t launch, mt_label_id label)
{
    pthread_mutex_lock(&log->lock);
    size_t count = log->launch_count;
    if (count == 0 || log->launches[count - 1].number != launch || log->launches[count - 1].label != label) {
        log->launches = make_room(log->launches, count, &log->launch_capacity, sizeof *log->launches);
        log->launches[log->launch_count++] =
            (struct launch){.number = launch, .order = (uint32_t)count, .label = label};
    }
    pthread_mutex_unlock(&log->lock);
}

void mt_kernel_log_ran(struct mt_kernel_log *log, const struct mt_kernel_run *run)
{
    pthread_mutex_lock(&log->lock);
    log->runs = make_room(log->runs, log->run_count, &log->run_capacity, sizeof *log->runs);
    log->runs[log->run_count++] = *run;
    pthread_mutex_unlock(&log->lock);
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_number(const void *left, const void *right)
{
    const struct launch *a = left, *b = right;
    int order = compare(a->number, b->number);
    return order != 0 ? order : compare(a->order, b->order);
}

static int by_start(const void *left, const void *right)
{
    const struct mt_kernel_run *a = left, *b = right;
    int order = compare(a->start_ns, b->start_ns);
    return order != 0 ? order : compare(a->launch, b->launch);
}

static void sort(void *items, size_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(items, count, size, order);
}

/* The label of the last launch of that number; 0: there is none. The launches are sorted. */
static mt_label_id find_label(const struct mt_kernel_log *log, uint32_t number)
{
    size_t low = 0, high = log->launch_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->launches[middle].number <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && log->launches[low - 1].number == number ? log->launches[low - 1].label : 0;
}

/* A name made readable, once. */
static const char *find_spelling(struct mt_kernel_log *log, const char *name)
{
    mt_span_id id = mt_interner_span(log->names, 0, name != NULL ? name : "", NULL);
    if (id >= log->spelling_count) {
        log->spellings = mt_host_resize(log->spellings, id + 1, sizeof *log->spellings);
        while (log->spelling_count <= id)
            log->spellings[log->spelling_count++] = NULL;
        log->spellings[id] = log->spell(mt_interner_find_span(log->names, id)->name);
    }
    return log->spellings[id] != NULL ? log->spellings[id] : mt_interner_find_span(log->names, id)->name;
}

void mt_kernel_log_take(struct mt_kernel_log *log, int64_t shift_ns,
                        void (*take)(void *context, const struct mt_kernel *kernel), void *context)
{
    pthread_mutex_lock(&log->lock);
    sort(log->launches, log->launch_count, sizeof *log->launches, by_number);
    sort(log->runs, log->run_count, sizeof *log->runs, by_start);
    for (size_t i = 0; i < log->run_count; i++) {
        const struct mt_kernel_run *run = &log->runs[i];
        const struct mt_kernel kernel = {.start_ns = run->start_ns + (uint64_t)shift_ns,
                                         .end_ns = run->end_ns + (uint64_t)shift_ns,
                                         .name = find_spelling(log, run->name),
                                         .label = find_label(log, run->launch),
                                         .stream = run->stream};
        take(context, &kernel);
    }
    log->launch_count = 0;
    log->run_count = 0;
    pthread_mutex_unlock(&log->lock);
}
