#include "study/report_runs.h"

#include "base/memory.h"
#include "device/device.h"

#include <assert.h>
#include <inttypes.h>
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

static char *model_text(const struct mt_report_run *run)
{
    struct mt_text text = {0};
    if (strcmp(setting(run, "model"), "custom") != 0)
        mt_text_add(&text, "%s", setting(run, "model"));
    else
        mt_text_add(&text, "%s layers of %s (d_ff %s, %s heads, vocabulary %s)", setting(run, "layers"),
                    setting(run, "d_model"), setting(run, "d_ff"), setting(run, "heads"), setting(run, "vocab"));
    return text.data != NULL ? text.data : mt_host_strdup("");
}

/* Returns "policy=torch", and the settings that are not usual for it. The caller frees it. */
static char *allocator_text(const struct mt_report_run *run)
{
    struct mt_text text = {0};
    mt_setting_add_value("alloc", setting(run, "alloc"), &text);
    return text.data != NULL ? text.data : mt_host_strdup("");
}

static mt_status load_settings(struct mt_trace *trace, struct mt_report_run *run)
{
    mt_status status = mt_settings_load(trace, run->run, &run->settings);
    run->mode = setting(run, "mode");
    run->autocast = setting(run, "autocast");
    run->seq_text = setting(run, "seq");
    run->batch = number(run, "batch");
    run->seq = number(run, "seq");
    run->d_model = number(run, "d_model");
    run->is_oom = mt_run_is(run->run, MT_RUN_OOM);
    run->is_estimated = mt_device_is_simulated(run->run->device);
    run->published = mt_published_find(&run->settings);
    run->model = model_text(run);
    run->allocator = allocator_text(run);
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

/* True if the run's peaks would not rise in a further step. Out of memory in a first step is steady, too. */
static bool is_steady(const struct mt_report_run *run)
{
    return run->is_oom || run->run->last_full_step >= 1 || strcmp(run->mode, "fwd_bwd") != 0;
}

bool mt_report_is_prediction(const struct mt_report_run *run)
{
    return !run->is_oom && is_steady(run) && strncmp(setting(run, "alloc"), "policy=torch", 12) == 0;
}

/* Puts a run in the place of an older one of its configuration, or at the end. Takes the run. */
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

/* True if the run has the settings that tables are ordered by. Imported runs and those of other programs lack them. */
static bool has_settings(const struct mt_report_run *run)
{
    return run->mode[0] != '\0' && run->seq > 0 && run->batch > 0;
}

/* True of a run for the tables. Those under way have no place there. */
static bool is_wanted(const struct mt_report_run *run)
{
    return has_settings(run) && (run->is_oom || mt_run_is(run->run, MT_RUN_DONE));
}

static mt_status keep_runs(struct mt_report *report)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(report->trace, &count);
    mt_status status = MT_OK;
    report->runs = mt_host_alloc((count + 1) * sizeof *report->runs);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_report_run run = {.run = &runs[i]};
        status = load_settings(report->trace, &run);
        report->without_settings += status == MT_OK && !has_settings(&run);
        if (status == MT_OK && is_wanted(&run))
            keep_run(report, &run);
        else
            run_release(&run);
    }
    return status;
}

static mt_status load_figures(struct mt_trace *trace, struct mt_report_run *run)
{
    mt_status status = mt_trace_steps(trace, run->run, &run->steps);
    if (status == MT_OK)
        status = mt_trace_peak(trace, run->run, MT_MEASURE_ALLOCATED, &run->allocated);
    if (status == MT_OK)
        status = mt_trace_peak(trace, run->run, MT_MEASURE_RESERVED, &run->reserved);
    return status;
}

/* Returns a number nearly proportional to the count of parameters, to put models in order. */
static double size_of(const struct mt_report_run *run)
{
    return (double)number(run, "layers") * (double)run->d_model * (double)run->d_model;
}

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* Returns the value of an axis (MT_ORDER_OF_REPORT), a setting in which runs differ that no table compares. */
static const char *axis_value(const struct mt_report_run *run, mt_setting axis)
{
    if (axis == MT_SETTING_MODEL)
        return run->model;
    if (axis == MT_SETTING_ALLOC)
        return run->allocator;
    return axis == MT_SETTING_DEVICE ? run->run->device : setting(run, mt_setting_table[axis].name);
}

/* Orders small models before large ones, and large cards before small ones. */
static int compare_axes(const struct mt_report_run *a, const struct mt_report_run *b)
{
    mt_setting axes[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_REPORT, axes);
    int order = compare_numbers(size_of(a), size_of(b));
    if (order == 0)
        order = -compare_numbers((double)a->run->capacity_bytes, (double)b->run->capacity_bytes);
    for (size_t i = 0; i < count && order == 0; i++)
        order = strcmp(axis_value(a, axes[i]), axis_value(b, axes[i]));
    return order;
}

static int compare_runs(const void *left, const void *right)
{
    const struct mt_report_run *a = left, *b = right;
    int order = compare_axes(a, b);
    if (order == 0)
        order = strcmp(a->mode, b->mode);
    if (order == 0)
        order = -strcmp(a->autocast, b->autocast); /* "off" before "bf16" */
    if (order == 0)
        order = compare_numbers((double)a->seq, (double)b->seq);
    return order != 0 ? order : compare_numbers((double)a->steps.warmup, (double)b->steps.warmup);
}

mt_status mt_report_load(struct mt_trace *trace, struct mt_report *out)
{
    out->trace = trace;
    out->run_count = out->without_settings = 0;
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
    report->runs = NULL;
    report->run_count = 0;
}

static bool is_selected(const struct mt_report_run *run, const char *autocast, const char *mode)
{
    return (autocast == NULL || strcmp(run->autocast, autocast) == 0) && (mode == NULL || strcmp(run->mode, mode) == 0);
}

struct mt_report_rows mt_report_select(const struct mt_report *report, const char *autocast, const char *mode)
{
    static const char *const but[] = {"warmup", NULL};
    struct mt_report_rows rows = {.runs = mt_host_alloc((report->run_count + 1) * sizeof(void *))};
    for (size_t i = 0; i < report->run_count; i++) {
        const struct mt_report_run *run = &report->runs[i];
        if (!is_selected(run, autocast, mode))
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
    const struct mt_report_run *first = rows->runs[begin];
    size_t end = begin + 1;
    while (end < rows->count && mt_report_agree(first, rows->runs[end], but))
        end++;
    return end;
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

/* True if the run went to its end and had memory. */
static bool has_peak(const struct mt_report_run *run)
{
    return !run->is_oom && run->allocated.bytes > 0;
}

/* Returns the last run in fp32 that agrees, which is the one with most warm-up; NULL if there is none. */
static const struct mt_report_run *find_baseline(const struct mt_report *report, const struct mt_report_run *run)
{
    static const char *const but[] = {"autocast", "warmup", NULL};
    const struct mt_report_run *found = NULL;
    for (size_t i = 0; i < report->run_count; i++)
        if (strcmp(report->runs[i].autocast, "off") == 0 && mt_report_agree(run, &report->runs[i], but))
            found = &report->runs[i];
    return found;
}

struct mt_report_pairs mt_report_pair(const struct mt_report *report)
{
    struct mt_report_pairs pairs = {.autocast = mt_report_select(report, "bf16", NULL)};
    size_t kept = 0;
    pairs.baselines = mt_host_alloc((pairs.autocast.count + 1) * sizeof(void *));
    for (size_t i = 0; i < pairs.autocast.count; i++) {
        const struct mt_report_run *run = pairs.autocast.runs[i], *baseline = find_baseline(report, run);
        if (!has_peak(run) || baseline == NULL || !has_peak(baseline))
            continue;
        pairs.baselines[kept] = baseline;
        pairs.autocast.runs[kept++] = run;
    }
    pairs.autocast.count = kept;
    return pairs;
}

void mt_report_pairs_release(struct mt_report_pairs *pairs)
{
    mt_report_rows_release(&pairs->autocast);
    free(pairs->baselines);
    pairs->baselines = NULL;
}

static bool axis_varies(const struct mt_report_rows *rows, mt_setting axis)
{
    for (size_t i = 1; i < rows->count; i++)
        if (strcmp(axis_value(rows->runs[0], axis), axis_value(rows->runs[i], axis)) != 0)
            return true;
    return false;
}

void mt_report_column(struct mt_report_columns *columns, const char *title, mt_align align)
{
    assert(columns->count < MT_REPORT_COLUMNS);
    columns->items[columns->count++] = (struct mt_column){title, align};
}

struct mt_report_columns mt_report_columns_of(const struct mt_report_rows *rows)
{
    struct mt_report_columns columns = {0};
    mt_setting axes[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_REPORT, axes);
    for (size_t i = 0; i < count; i++) {
        const struct mt_setting_entry *entry = &mt_setting_table[axes[i]];
        if (!axis_varies(rows, axes[i]))
            continue;
        columns.axes[columns.axis_count++] = axes[i];
        mt_report_column(&columns, entry->title, entry->kind == MT_SETTING_IS_INTEGER ? MT_ALIGN_RIGHT : MT_ALIGN_LEFT);
    }
    return columns;
}

void mt_report_axis_cells(struct mt_page *page, const struct mt_report_columns *columns,
                          const struct mt_report_run *run)
{
    for (size_t i = 0; i < columns->axis_count; i++)
        mt_page_cell(page, axis_value(run, columns->axes[i]));
}

static bool has_axis(const struct mt_report_columns *columns, mt_setting axis)
{
    for (size_t i = 0; i < columns->axis_count; i++)
        if (columns->axes[i] == axis)
            return true;
    return false;
}

/* Adds the axes that all rows share, of those that a reader asks for first. */
static void add_common(struct mt_text *out, const struct mt_report_rows *rows, const struct mt_report_columns *columns)
{
    static const mt_setting told[] = {MT_SETTING_MODEL, MT_SETTING_BATCH, MT_SETTING_DEVICE};
    const char *before = ": ";
    for (size_t i = 0; i < sizeof told / sizeof told[0] && rows->count > 0; i++) {
        if (has_axis(columns, told[i]))
            continue;
        mt_text_add(out, "%s%s%s", before, told[i] == MT_SETTING_BATCH ? "batch " : "",
                    axis_value(rows->runs[0], told[i]));
        before = ", ";
    }
}

void mt_report_table(struct mt_page *page, const struct mt_report_rows *rows, const struct mt_report_columns *columns,
                     const char *key, const char *title)
{
    struct mt_text whole = {0};
    mt_text_add(&whole, "%s", title);
    add_common(&whole, rows, columns);
    mt_page_table(page, key, whole.data, columns->items, columns->count);
    mt_text_release(&whole);
}

void mt_report_describe(const struct mt_report_columns *columns, const struct mt_report_run *run, struct mt_text *out)
{
    mt_text_add(out, "%s, %s", run->model, mt_report_mode(run));
    for (size_t i = 0; i < columns->axis_count; i++)
        if (columns->axes[i] != MT_SETTING_MODEL)
            mt_text_add(out, ", %s%s", columns->axes[i] == MT_SETTING_BATCH ? "batch " : "",
                        axis_value(run, columns->axes[i]));
}

const char *mt_report_mode(const struct mt_report_run *run)
{
    if (strcmp(run->mode, "fwd_bwd") == 0)
        return "full step";
    return strcmp(run->mode, "fwd") == 0 ? "forward pass" : "inference";
}

void mt_report_join(struct mt_text *out, size_t index, size_t count)
{
    if (index > 0)
        mt_text_add(out, "%s", index + 1 == count ? " and " : ", ");
}
