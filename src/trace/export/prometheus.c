#include "trace/export/prometheus.h"

#include "answer/escape.h"

#include <inttypes.h>

typedef enum metric_type { GAUGE, COUNTER } metric_type;
static const char *const type_names[] = {[GAUGE] = "gauge", [COUNTER] = "counter"};

/* A metric with one value for each run. */
struct metric {
    const char *name, *help;
    metric_type type;
    uint64_t (*value)(const struct mt_watched *run);
};

/* A metric with one value for each part of a run. `label` is the name of the label that identifies the part. */
struct part_metric {
    const char *name, *help, *label;
    size_t (*parts)(const struct mt_watched *run, const struct mt_watched_part **out);
};

#define BYTES(function, array, measure)                                                                                \
    static uint64_t function(const struct mt_watched *run)                                                             \
    {                                                                                                                  \
        return run->array[MT_MEASURE_##measure];                                                                       \
    }
BYTES(allocated, now, ALLOCATED)
BYTES(requested, now, REQUESTED)
BYTES(reserved, now, RESERVED)
BYTES(peak_allocated, peak, ALLOCATED)
BYTES(peak_reserved, peak, RESERVED)
BYTES(recent_allocated, recent_peak, ALLOCATED)
BYTES(recent_reserved, recent_peak, RESERVED)
BYTES(step_allocated, step_peak, ALLOCATED)
BYTES(step_reserved, step_peak, RESERVED)
#undef BYTES

#define FIELD(function, field)                                                                                         \
    static uint64_t function(const struct mt_watched *run)                                                             \
    {                                                                                                                  \
        return (uint64_t)run->field;                                                                                   \
    }
FIELD(capacity, capacity_bytes)
FIELD(running, is_running)
FIELD(allocations, allocations)
FIELD(frees, frees)
FIELD(steps, steps)
FIELD(refusals, refusals)
#undef FIELD

static const struct metric metrics[] = {
    {"memtrace_running", "1 while the run goes on, 0 once it has ended.", GAUGE, running},
    {"memtrace_device_memory_bytes", "Memory of the device.", GAUGE, capacity},
    {"memtrace_allocated_bytes", "Bytes of live blocks, with rounding.", GAUGE, allocated},
    {"memtrace_requested_bytes", "Bytes of live blocks, as asked for.", GAUGE, requested},
    {"memtrace_reserved_bytes", "Bytes that the allocator holds of the device.", GAUGE, reserved},
    {"memtrace_peak_allocated_bytes", "Peak of allocated bytes since the run began.", GAUGE, peak_allocated},
    {"memtrace_peak_reserved_bytes", "Peak of reserved bytes since the run began.", GAUGE, peak_reserved},
    {"memtrace_recent_peak_allocated_bytes", "Peak of allocated bytes since the last scrape.", GAUGE, recent_allocated},
    {"memtrace_recent_peak_reserved_bytes", "Peak of reserved bytes since the last scrape.", GAUGE, recent_reserved},
    {"memtrace_step_peak_allocated_bytes", "Peak of allocated bytes of the last step.", GAUGE, step_allocated},
    {"memtrace_step_peak_reserved_bytes", "Peak of reserved bytes of the last step.", GAUGE, step_reserved},
    {"memtrace_allocations_total", "Blocks allocated.", COUNTER, allocations},
    {"memtrace_frees_total", "Blocks freed.", COUNTER, frees},
    {"memtrace_steps_total", "Steps that ended.", COUNTER, steps},
    {"memtrace_out_of_memory_total", "Requests that were refused for lack of memory.", COUNTER, refusals},
};

#define PARTS(function, array)                                                                                         \
    static size_t function(const struct mt_watched *run, const struct mt_watched_part **out)                           \
    {                                                                                                                  \
        *out = run->array;                                                                                             \
        return run->function##_count;                                                                                  \
    }
PARTS(category, categories)
PARTS(role, roles)
PARTS(outside, outside)
#undef PARTS

static const struct part_metric part_metrics[] = {
    {"memtrace_category_allocated_bytes", "Bytes of live blocks by category.", "category", category},
    {"memtrace_role_allocated_bytes", "Bytes of live blocks by role.", "role", role},
    {"memtrace_outside_bytes", "Bytes of the device outside of the allocator, by holder.", "category", outside},
};

/* Adds the value of a label. The format requires UTF-8 on one line, and a backslash before its special characters. */
static void add_value(struct mt_text *out, const char *value)
{
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, value);
    for (const char *rest = mt_text_get(&visible); *rest != '\0'; rest++)
        mt_text_add(out, "%s%c", *rest == '\\' || *rest == '"' ? "\\" : "", *rest);
    mt_text_release(&visible);
}

static void add_label(struct mt_text *out, const char *name, const char *value)
{
    mt_text_add(out, ",%s=\"", name);
    add_value(out, value);
    mt_text_add(out, "\"");
}

/* Adds the metric's name and the run's common labels, without the closing brace. */
static void add_start(struct mt_text *out, const char *name, const struct mt_watched *run)
{
    mt_text_add(out, "%s{run=\"", name);
    if (run->name != NULL)
        add_value(out, run->name);
    else
        mt_text_add(out, "%" PRId64, run->run);
    mt_text_add(out, "\"");
    if (run->rank >= 0)
        mt_text_add(out, ",rank=\"%" PRId64 "\"", run->rank);
    add_label(out, "device", run->device);
}

static void add_head(struct mt_text *out, const char *name, const char *help, metric_type type)
{
    mt_text_add(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type_names[type]);
}

static void add_metric(struct mt_text *out, const struct metric *metric, const struct mt_watched *const *runs,
                       size_t count)
{
    add_head(out, metric->name, metric->help, metric->type);
    for (size_t i = 0; i < count; i++) {
        if (runs[i] == NULL)
            continue;
        add_start(out, metric->name, runs[i]);
        mt_text_add(out, "} %" PRIu64 "\n", metric->value(runs[i]));
    }
}

static void add_parts(struct mt_text *out, const struct part_metric *metric, const struct mt_watched *run)
{
    const struct mt_watched_part *parts;
    const size_t count = metric->parts(run, &parts);
    for (size_t i = 0; i < count; i++) {
        add_start(out, metric->name, run);
        add_label(out, metric->label, parts[i].name);
        mt_text_add(out, "} %" PRIu64 "\n", parts[i].bytes);
    }
}

void mt_prometheus_add(struct mt_text *out, const struct mt_watched *const *runs, size_t count)
{
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        add_metric(out, &metrics[i], runs, count);
    for (size_t i = 0; i < sizeof part_metrics / sizeof part_metrics[0]; i++) {
        add_head(out, part_metrics[i].name, part_metrics[i].help, GAUGE);
        for (size_t j = 0; j < count; j++)
            if (runs[j] != NULL)
                add_parts(out, &part_metrics[i], runs[j]);
    }
}
