#include "study/report_runs.h"

#include "base/memory.h"
#include "base/order.h"
#include "device/device.h"
#include "trace/query/blocks.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *setting(const struct mt_report_run *run, const char *name)
{
    return mt_settings_value(&run->settings, name);
}

bool mt_report_agree(const struct mt_report_run *a, const struct mt_report_run *b, const char *const but[])
{
    return mt_settings_agree(&a->settings, &b->settings, MT_SETTINGS_OF_STEPS, but);
}

static int64_t number(const struct mt_report_run *run, const char *name)
{
    return strtoll(setting(run, name), NULL, 10);
}

/* Returns the text, "" if nothing was added. The caller frees it. */
static char *text_of(struct mt_text *text)
{
    return text->data != NULL ? text->data : mt_host_strdup("");
}

static char *model_text(const struct mt_report_run *run)
{
    struct mt_text text = {0};
    if (strcmp(setting(run, "model"), "custom") != 0)
        mt_text_add(&text, "%s", setting(run, "model"));
    else
        mt_text_add(&text, "%s layers of %s (d_ff %s, %s heads, vocabulary %s)", setting(run, "layers"),
                    setting(run, "d_model"), setting(run, "d_ff"), setting(run, "heads"), setting(run, "vocab"));
    return text_of(&text);
}

/* Returns "policy=torch", and the settings that differ from its defaults. The caller frees it. */
static char *allocator_text(const struct mt_report_run *run)
{
    struct mt_text text = {0};
    mt_setting_add_value("alloc", setting(run, "alloc"), &text);
    return text_of(&text);
}

static const char *pass_name(const char *mode)
{
    if (strcmp(mode, "fwd_bwd") == 0)
        return "full step";
    return strcmp(mode, "fwd") == 0 ? "forward pass" : "inference";
}

/* Sets the values of the axes. An axis is a setting in which runs differ and that no table compares. */
static void load_axes(struct mt_report_run *run)
{
    mt_setting axes[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_REPORT, axes);
    for (size_t i = 0; i < count; i++)
        run->axis[axes[i]] = setting(run, mt_setting_table[axes[i]].name);
    run->axis[MT_SETTING_MODEL] = run->model;
    run->axis[MT_SETTING_ALLOC] = run->allocator;
    run->axis[MT_SETTING_DEVICE] = run->run.device;
}

static mt_status load_settings(struct mt_trace *trace, struct mt_report_run *run)
{
    mt_status status = mt_settings_load(trace, &run->run, &run->settings);
    run->mode = setting(run, "mode");
    run->autocast = setting(run, "autocast");
    run->seq_text = setting(run, "seq");
    run->name = run->run.name != NULL ? run->run.name : "";
    run->pass = pass_name(run->mode);
    run->batch = number(run, "batch");
    run->seq = number(run, "seq");
    run->d_model = number(run, "d_model");
    run->is_oom = mt_run_is(&run->run, MT_RUN_OOM);
    run->is_estimated = mt_device_is_simulated(run->run.device);
    run->basis = run->is_estimated ? "estimate" : "measured";
    run->published = mt_published_find(&run->settings);
    run->comparable = mt_published_is_comparable(&run->settings) ? run->published : NULL;
    run->model = model_text(run);
    run->allocator = allocator_text(run);
    load_axes(run);
    return status;
}

static void run_release(struct mt_report_run *run)
{
    mt_peak_row_release(&run->allocated);
    mt_peak_row_release(&run->reserved);
    mt_settings_release(&run->settings);
    free(run->model);
    free(run->allocator);
    *run = (struct mt_report_run){0};
}

/* True if the run's peaks would not rise in another step. Out of memory in the first step is also steady. */
static bool is_steady(const struct mt_report_run *run)
{
    return run->is_oom || run->run.last_full_step >= 1 || strcmp(run->mode, "fwd_bwd") != 0;
}

/* True if PyTorch's rules determine the run's reserved memory, in steps that repeat: its peaks are comparable with
 * PyTorch's. */
static bool is_prediction(const struct mt_report_run *run)
{
    return !run->is_oom && is_steady(run) && strncmp(setting(run, "alloc"), "policy=torch", 12) == 0;
}

/* Replaces an older run of the same configuration, or adds the run at the end. Takes the run. */
static void keep_run(struct mt_report *report, struct mt_report_run *run)
{
    for (size_t i = 0; i < report->run_count; i++) {
        struct mt_report_run *old = &report->runs[i];
        if (!mt_report_agree(run, old, NULL))
            continue;
        bool is_better = is_steady(run) || !is_steady(old);
        run_release(is_better ? old : run);
        if (is_better)
            *old = *run;
        return;
    }
    report->runs[report->run_count++] = *run;
}

/* True if the run has the settings by which tables are ordered. Imported runs and runs of other programs do not. */
static bool has_settings(const struct mt_report_run *run)
{
    return run->mode[0] != '\0' && run->seq > 0 && run->batch > 0;
}

/* True for runs in the tables. Runs in progress are not included. */
static bool is_wanted(const struct mt_report_run *run)
{
    return has_settings(run) && (run->is_oom || mt_run_is(&run->run, MT_RUN_DONE));
}

static mt_status keep_runs(struct mt_report *report)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(report->trace, &count);
    mt_status status = MT_OK;
    report->runs = mt_host_alloc((count + 1) * sizeof *report->runs);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_report_run run = {.run = runs[i]};
        status = load_settings(report->trace, &run);
        if (status == MT_OK && !has_settings(&run) && !mt_run_is(&run.run, MT_RUN_RUNNING) && run.run.event_count > 0)
            *MT_HOST_ADD(report->others, report->other_count) = &runs[i];
        if (status == MT_OK && is_wanted(&run))
            keep_run(report, &run);
        else
            run_release(&run);
    }
    return status;
}

/* Does not show a standard deviation that would round to 0. */
static struct mt_figure time_figure(const struct mt_time_statistics *time)
{
    static const double least_shown = 0.005;
    if (time->count == 0)
        return (struct mt_figure){0};
    if (time->count == 1 || time->deviation < least_shown)
        return mt_figure_number(time->mean, "%.2f", time->mean);
    return mt_figure_number(time->mean, "%.2f ± %.2f", time->mean, time->deviation);
}

/* True if the measurement is comparable: on a smaller card, an allocator releases segments that it keeps on a larger
 * one. */
static bool has_measured(const struct mt_report_run *run)
{
    return run->comparable != NULL && is_prediction(run) &&
           run->run.capacity_bytes > run->published->measured_reserved_bytes;
}

/* Sets the published and measured figures next to the run's. */
static void compare_with_others(struct mt_report_run *run)
{
    const struct mt_published_cell *cell = run->comparable;
    if (cell == NULL)
        return;
    run->published_reserved = isnan(cell->reserved_gib)
                                  ? mt_figure_words("out of memory")
                                  : mt_figure_number(cell->reserved_gib, "%.2f GiB", cell->reserved_gib);
    if (!has_measured(run))
        return;
    run->measured_allocated = mt_figure_bytes(cell->measured_allocated_bytes);
    run->measured_reserved = mt_figure_bytes(cell->measured_reserved_bytes);
    run->allocated_difference = mt_figure_difference((int64_t)(run->allocated.bytes - cell->measured_allocated_bytes));
    run->reserved_difference = mt_figure_difference((int64_t)(run->reserved.bytes - cell->measured_reserved_bytes));
}

/* Finds the allocated bytes at the end of the last full step, if any. */
static mt_status load_after_step(struct mt_trace *trace, struct mt_report_run *run)
{
    struct mt_block_row *blocks = NULL;
    size_t count = 0;
    int64_t first, last;
    uint64_t bytes = 0;
    if (run->run.last_full_step < 0)
        return MT_OK;
    MT_TRY(mt_trace_step_events(trace, &run->run, run->run.last_full_step, &first, &last));
    mt_status status = mt_trace_live(trace, &run->run, last, &blocks, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        bytes += blocks[i].block_bytes;
    if (status == MT_OK)
        run->after_step = mt_figure_bytes(bytes);
    free(blocks);
    return status;
}

static mt_status load_figures(struct mt_trace *trace, struct mt_report_run *run)
{
    MT_TRY(mt_trace_steps(trace, &run->run, &run->steps));
    MT_TRY(mt_trace_peak(trace, &run->run, MT_MEASURE_ALLOCATED, &run->allocated));
    MT_TRY(mt_trace_peak(trace, &run->run, MT_MEASURE_RESERVED, &run->reserved));
    MT_TRY(load_after_step(trace, run));
    for (int part = 0; part < MT_TIMED_PART_COUNT; part++)
        run->times[part] = time_figure(&run->steps.part[part]);
    const struct mt_figure oom = mt_figure_words("out of memory");
    run->allocated_peak = run->is_oom ? oom : mt_figure_bytes(run->allocated.bytes);
    run->reserved_peak = run->is_oom ? oom : mt_figure_bytes(run->reserved.bytes);
    run->refused_bytes = run->steps.oom_bytes >= 0 ? (uint64_t)run->steps.oom_bytes : 0;
    compare_with_others(run);
    assert(run->seq > 0 && run->batch > 0 && (run->comparable == NULL || run->comparable == run->published));
    return MT_OK;
}

/* Returns a number roughly proportional to the number of parameters, for sorting models. */
static double size_of(const struct mt_report_run *run)
{
    return (double)number(run, "layers") * (double)run->d_model * (double)run->d_model;
}

/* Orders small models before large ones, and large cards before small ones. */
static int compare_axes(const struct mt_report_run *a, const struct mt_report_run *b)
{
    mt_setting axes[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_REPORT, axes);
    double size_a = size_of(a), size_b = size_of(b);
    int order = MT_COMPARE(size_a, size_b);
    if (order == 0)
        order = MT_COMPARE(b->run.capacity_bytes, a->run.capacity_bytes);
    for (size_t i = 0; i < count && order == 0; i++)
        order = strcmp(a->axis[axes[i]], b->axis[axes[i]]);
    return order;
}

static int compare_runs(const void *left, const void *right)
{
    const struct mt_report_run *a = left, *b = right;
    int order = compare_axes(a, b);
    if (order == 0)
        order = strcmp(a->mode, b->mode);
    if (order == 0)
        order = -strcmp(a->autocast, b->autocast); /* "off" before "fp16" and "bf16" */
    if (order == 0)
        order = MT_COMPARE(a->seq, b->seq);
    return order != 0 ? order : MT_COMPARE(a->steps.warmup, b->steps.warmup);
}

mt_status mt_report_load(struct mt_trace *trace, struct mt_report *out)
{
    out->trace = trace;
    out->run_count = out->other_count = 0;
    mt_status status = keep_runs(out);
    for (size_t i = 0; i < out->run_count && status == MT_OK; i++)
        status = load_figures(trace, &out->runs[i]);
    if (status == MT_OK)
        qsort(out->runs, out->run_count, sizeof *out->runs, compare_runs);
    return status;
}

void mt_report_release(struct mt_report *report)
{
    for (size_t i = 0; i < report->run_count; i++)
        run_release(&report->runs[i]);
    free(report->runs);
    free((void *)report->others);
    report->others = NULL;
    report->runs = NULL;
    report->run_count = 0;
}

static bool is_of_precision(const struct mt_report_run *run, mt_report_precision precision)
{
    bool is_autocast = strcmp(run->autocast, "off") != 0;
    return precision == MT_REPORT_ANY || is_autocast == (precision == MT_REPORT_AUTOCAST);
}

struct mt_report_rows mt_report_select(const struct mt_report *report, mt_report_precision precision)
{
    static const char *const but[] = {"warmup", NULL};
    struct mt_report_rows rows = {.runs = mt_host_alloc((report->run_count + 1) * sizeof(void *))};
    for (size_t i = 0; i < report->run_count; i++) {
        const struct mt_report_run *run = &report->runs[i];
        if (!is_of_precision(run, precision))
            continue;
        bool repeats = rows.count > 0 && mt_report_agree(run, rows.runs[rows.count - 1], but);
        rows.runs[repeats ? rows.count - 1 : rows.count++] = run;
    }
    return rows;
}

void mt_report_rows_release(struct mt_report_rows *rows)
{
    free(rows->runs);
    *rows = (struct mt_report_rows){0};
}

size_t mt_report_group_end(const struct mt_report_rows *rows, size_t begin)
{
    static const char *const but[] = {"seq", "warmup", NULL};
    assert(begin < rows->count);
    const struct mt_report_run *first = rows->runs[begin];
    size_t end = begin + 1;
    while (end < rows->count && mt_report_agree(first, rows->runs[end], but))
        end++;
    return end;
}

const struct mt_report_run *mt_report_last_whole(const struct mt_report_rows *rows, size_t begin, size_t end)
{
    assert(begin <= end && end <= rows->count);
    while (end > begin && rows->runs[end - 1]->is_oom)
        end--;
    return end > begin ? rows->runs[end - 1] : NULL;
}

void mt_report_lead(const struct mt_report_rows *rows, size_t *begin, size_t *end)
{
    size_t most = 0;
    *begin = *end = 0;
    for (size_t from = 0; from < rows->count;) {
        size_t to = mt_report_group_end(rows, from), whole = 0;
        for (size_t i = from; i < to; i++)
            whole += !rows->runs[i]->is_oom;
        if (whole >= most && whole > 0) {
            most = whole;
            *begin = from;
            *end = to;
        }
        from = to;
    }
}

const struct mt_report_run *mt_report_longest(const struct mt_report_rows *rows)
{
    size_t begin, end;
    mt_report_lead(rows, &begin, &end);
    return mt_report_last_whole(rows, begin, end);
}

/* True if the run completed and allocated memory. */
static bool has_peak(const struct mt_report_run *run)
{
    return !run->is_oom && run->allocated.bytes > 0;
}

/* Returns the last run in fp32 that agrees, which has the most warm-up; NULL if there is none. */
static const struct mt_report_run *find_baseline(const struct mt_report *report, const struct mt_report_run *run)
{
    static const char *const but[] = {"autocast", "warmup", NULL};
    const struct mt_report_run *found = NULL;
    for (size_t i = 0; i < report->run_count; i++)
        if (is_of_precision(&report->runs[i], MT_REPORT_FP32) && mt_report_agree(run, &report->runs[i], but))
            found = &report->runs[i];
    return found;
}

/* Sets the differences of a pair, memtrace's and other implementations'. */
static void fill_pair(struct mt_report_pair *pair)
{
    const struct mt_report_run *a = &pair->baseline, *b = &pair->autocast;
    pair->allocated_bytes = (int64_t)(b->allocated.bytes - a->allocated.bytes);
    pair->reserved_bytes = (int64_t)(b->reserved.bytes - a->reserved.bytes);
    if (a->published == NULL || b->published == NULL || !is_prediction(b))
        return;
    pair->measured =
        mt_figure_difference((int64_t)(b->published->measured_reserved_bytes - a->published->measured_reserved_bytes));
    if (!isnan(b->published->autocast_gib))
        pair->published = mt_figure_number(b->published->autocast_gib, "%+.2f GiB", b->published->autocast_gib);
}

struct mt_report_pairs mt_report_pair(const struct mt_report *report)
{
    struct mt_report_pairs pairs = {.autocast = mt_report_select(report, MT_REPORT_AUTOCAST)};
    size_t kept = 0;
    pairs.pairs = mt_host_alloc((pairs.autocast.count + 1) * sizeof *pairs.pairs);
    for (size_t i = 0; i < pairs.autocast.count; i++) {
        const struct mt_report_run *run = pairs.autocast.runs[i], *baseline = find_baseline(report, run);
        if (!has_peak(run) || baseline == NULL || !has_peak(baseline))
            continue;
        pairs.pairs[kept] = (struct mt_report_pair){.autocast = *run, .baseline = *baseline};
        fill_pair(&pairs.pairs[kept]);
        pairs.autocast.runs[kept] = &pairs.pairs[kept].autocast;
        kept++;
    }
    pairs.autocast.count = kept;
    return pairs;
}

void mt_report_pairs_release(struct mt_report_pairs *pairs)
{
    mt_report_rows_release(&pairs->autocast);
    free(pairs->pairs);
    pairs->pairs = NULL;
}

mt_status mt_report_add_longest(struct mt_report *report, const struct mt_report_pairs *pairs,
                                const struct mt_report_rows *rows,
                                mt_status (*add)(struct mt_report *report, const struct mt_report_run *run))
{
    const struct mt_report_run *run = mt_report_longest(&pairs->autocast);
    if (run != NULL)
        MT_TRY(add(report, &((const struct mt_report_pair *)run)->baseline)); /* a pair begins with its run */
    else
        run = mt_report_longest(rows);
    return run != NULL ? add(report, run) : MT_OK;
}

static bool axis_varies(const struct mt_report_rows *rows, mt_setting axis)
{
    for (size_t i = 1; i < rows->count; i++)
        if (strcmp(rows->runs[0]->axis[axis], rows->runs[i]->axis[axis]) != 0)
            return true;
    return false;
}

struct mt_report_axes mt_report_axes_of(const struct mt_report_rows *rows)
{
    struct mt_report_axes varying = {0};
    mt_setting axes[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_REPORT, axes);
    for (size_t i = 0; i < count; i++)
        if (axis_varies(rows, axes[i]))
            varying.axes[varying.count++] = axes[i];
    return varying;
}

struct mt_report_axes mt_report_all_axes(const struct mt_report *report)
{
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_ANY);
    struct mt_report_axes axes = mt_report_axes_of(&rows);
    mt_report_rows_release(&rows);
    return axes;
}

static bool has_axis(const struct mt_report_axes *axes, mt_setting axis)
{
    for (size_t i = 0; i < axes->count; i++)
        if (axes->axes[i] == axis)
            return true;
    return false;
}

/* Adds the axes that are equal in all rows, of those that are most interesting. */
static void add_common(struct mt_text *out, const struct mt_report_rows *rows, const struct mt_report_axes *axes)
{
    static const mt_setting told[] = {MT_SETTING_MODEL, MT_SETTING_BATCH, MT_SETTING_DEVICE};
    const char *before = ": ";
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        if (has_axis(axes, told[i]))
            continue;
        mt_text_add(out, "%s%s%s", before, told[i] == MT_SETTING_BATCH ? "batch " : "", rows->runs[0]->axis[told[i]]);
        before = ", ";
    }
}

/* Returns the column for an axis. */
static struct mt_field axis_field(mt_setting axis)
{
    const struct mt_setting_entry *entry = &mt_setting_table[axis];
    return (struct mt_field){.kind = entry->kind == MT_SETTING_IS_INTEGER ? MT_FIELD_DIGITS : MT_FIELD_TEXT,
                             .name = entry->name,
                             .heading = entry->title,
                             .offset = offsetof(struct mt_report_run, axis) + axis * sizeof(const char *)};
}

/* True if a timeline is written for the run: not if a newer run has the same configuration. */
static bool has_timeline(const struct mt_report *report, int64_t id)
{
    for (size_t i = 0; i < report->run_count; i++)
        if (report->runs[i].run.id == id)
            return true;
    for (size_t i = 0; i < report->other_count; i++)
        if (report->others[i]->id == id)
            return true;
    return false;
}

void mt_report_link(const struct mt_report *report, const struct mt_run *run)
{
    struct mt_text target = {0};
    if (report->timelines == NULL || !has_timeline(report, run->id))
        return;
    mt_text_add(&target, "%s/run-%" PRId64 ".html", report->timelines, run->id);
    mt_page_link(report->page, mt_text_get(&target));
    mt_text_release(&target);
}

void mt_report_table(const struct mt_report *report, const struct mt_report_rows *rows, const char *key,
                     const char *title, const struct mt_field *fields)
{
    enum { MOST_COLUMNS = 2 * MT_SETTING_COUNT };
    struct mt_field columns[MOST_COLUMNS + 1] = {0};
    struct mt_report_axes axes = mt_report_axes_of(rows);
    struct mt_text whole = {0};
    size_t count = axes.count;
    assert(rows->count > 0);
    for (size_t i = 0; i < axes.count; i++)
        columns[i] = axis_field(axes.axes[i]);
    for (const struct mt_field *field = fields; field->name != NULL; field++) {
        assert(count < MOST_COLUMNS);
        columns[count++] = *field;
    }
    mt_text_add(&whole, "%s", title);
    add_common(&whole, rows, &axes);
    const struct mt_row_type type = MT_ROW_TYPE(struct mt_report_run, columns);
    mt_page_table(report->page, key, whole.data, &type, NULL, 0);
    for (size_t i = 0; i < rows->count; i++) {
        mt_page_row(report->page, &type, rows->runs[i]);
        mt_report_link(report, &rows->runs[i]->run);
    }
    mt_text_release(&whole);
}

void mt_report_describe(const struct mt_report_axes *axes, const struct mt_report_run *run, struct mt_text *out)
{
    mt_text_add(out, "%s, %s", run->model, run->pass);
    for (size_t i = 0; i < axes->count; i++)
        if (axes->axes[i] != MT_SETTING_MODEL)
            mt_text_add(out, ", %s%s", axes->axes[i] == MT_SETTING_BATCH ? "batch " : "", run->axis[axes->axes[i]]);
}

void mt_report_join(struct mt_text *out, size_t index, size_t count)
{
    assert(index < count);
    if (index > 0)
        mt_text_add(out, "%s", index + 1 == count ? " and " : ", ");
}
