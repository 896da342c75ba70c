/* The sections of time: the durations of a step's phases, the effect of warm-up, and the GPU time by kernel in runs
 * with watched kernels. */
#include "answer/kernel_text.h"
#include "base/memory.h"
#include "device/device.h"
#include "study/report_runs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_full_step(const struct mt_report_rows *rows, const struct mt_report_run *run)
{
    static const char *const but[] = {"mode", "warmup", NULL};
    for (size_t i = 0; i < rows->count; i++) {
        const struct mt_report_run *other = rows->runs[i];
        if (strcmp(other->mode, "fwd_bwd") == 0 && !other->is_oom && mt_report_agree(run, other, but))
            return true;
    }
    return false;
}

/* Returns the runs that were timed; for each configuration only the full step. The caller releases the rows. */
static struct mt_report_rows select_timed(const struct mt_report *report)
{
    struct mt_report_rows all = mt_report_select(report, MT_REPORT_ANY), rows = mt_report_select(report, MT_REPORT_ANY);
    rows.count = 0;
    for (size_t i = 0; i < all.count; i++) {
        const struct mt_report_run *run = all.runs[i];
        bool is_timed = !run->is_oom && run->steps.part[MT_TIMED_STEP].count > 0;
        if (is_timed && (strcmp(run->mode, "fwd_bwd") == 0 || !has_full_step(&all, run)))
            rows.runs[rows.count++] = run;
    }
    mt_report_rows_release(&all);
    return rows;
}

#define TIME(part, title) MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, times[MT_TIMED_##part], title)
static const struct mt_field step_fields[] = {
    MT_COLUMN(TEXT, const char *, struct mt_report_run, pass, "pass"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, steps.precision, "precision"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, seq, "seq"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, steps.warmup, "warm-up"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, steps.part[MT_TIMED_STEP].count, "steps"),
    TIME(FORWARD, "forward ms"),
    TIME(BACKWARD, "backward ms"),
    TIME(OPTIMIZER, "optimizer ms"),
    TIME(STEP, "step ms"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, basis, "time is"),
    MT_FIELDS_END,
};
#undef TIME

static void say_estimates(struct mt_page *page, const struct mt_report_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->runs[i]->is_estimated) {
            mt_page_say(page,
                        "Times on sim are estimates, since nothing is executed there: each kernel begins when "
                        "the host has launched it, and takes the longer of its operations over the card's rate and its "
                        "bytes over the card's bandwidth.");
            return;
        }
}

/* The minimum and maximum of numbers. */
struct range {
    double low, high;
};

static void widen(struct range *range, double number)
{
    range->low = fmin(range->low, number);
    range->high = fmax(range->high, number);
}

static void say_times(struct mt_page *page, const struct mt_report_rows *rows)
{
    struct range ratio = {INFINITY, -INFINITY}, spread = {INFINITY, -INFINITY};
    for (size_t i = 0; i < rows->count; i++) {
        const struct mt_time_statistics *part = rows->runs[i]->steps.part;
        if (part[MT_TIMED_BACKWARD].count > 0 && part[MT_TIMED_FORWARD].mean > 0)
            widen(&ratio, part[MT_TIMED_BACKWARD].mean / part[MT_TIMED_FORWARD].mean);
        if (part[MT_TIMED_STEP].count > 1 && rows->runs[i]->steps.warmup > 0)
            widen(&spread, 100 * part[MT_TIMED_STEP].deviation / part[MT_TIMED_STEP].mean);
    }
    if (ratio.high > 0)
        mt_page_say(page, "Backward takes %.2f to %.2f times as long as forward.", ratio.low, ratio.high);
    if (spread.high >= 0.005)
        mt_page_say(page, "After the warm-up the standard deviation of a step is at most %.2f %% of its mean.",
                    spread.high);
    else if (spread.high >= 0)
        mt_page_say(page, "After the warm-up every step takes as long as the others.");
}

/* The same run with and without warm-up. Begins with the run of its row. */
struct warmth {
    struct mt_report_run warm; /* borrowed from the report */
    struct mt_figure cold_ms, change_ms;
    double change; /* of a step's mean time, ms */
    const char *slowest;
    double percent; /* the change, relative to the warm mean */
};

static const struct mt_field warmth_fields[] = {
    MT_COLUMN(TEXT, const char *, struct warmth, warm.steps.precision, "precision"),
    MT_COLUMN(INTEGER, int64_t, struct warmth, warm.seq, "seq"),
    MT_COLUMN(FIGURE, struct mt_figure, struct warmth, cold_ms, "without warm-up, ms"),
    MT_COLUMN(FIGURE, struct mt_figure, struct warmth, warm.times[MT_TIMED_STEP], "with, ms"),
    MT_COLUMN(FIGURE, struct mt_figure, struct warmth, change_ms, "difference"),
    MT_COLUMN(TEXT, const char *, struct warmth, slowest, "most of it in"),
    MT_FIELDS_END,
};

/* True for neighbours, since runs are ordered by warm-up. */
static bool is_pair(const struct mt_report_run *cold, const struct mt_report_run *warm)
{
    static const char *const but[] = {"warmup", NULL};
    return mt_report_agree(cold, warm, but) && cold->steps.warmup == 0 && warm->steps.warmup > 0 && !cold->is_oom &&
           !warm->is_oom;
}

static double mean_change(const struct mt_report_run *cold, const struct mt_report_run *warm, int part)
{
    return cold->steps.part[part].mean - warm->steps.part[part].mean;
}

/* Returns the phase whose first steps are slowest compared with later ones. */
static mt_timed_part slowest_phase(const struct mt_report_run *cold, const struct mt_report_run *warm)
{
    int slowest = MT_TIMED_FORWARD;
    for (int part = 0; part < MT_TIMED_STEP; part++)
        if (mean_change(cold, warm, part) > mean_change(cold, warm, slowest) || isnan(mean_change(cold, warm, slowest)))
            slowest = part;
    return (mt_timed_part)slowest;
}

static struct warmth warmth_of(const struct mt_report_run *cold, const struct mt_report_run *warm)
{
    double change = mean_change(cold, warm, MT_TIMED_STEP);
    assert(cold->steps.warmup == 0 && warm->steps.warmup > 0);
    return (struct warmth){.warm = *warm,
                           .cold_ms = cold->times[MT_TIMED_STEP],
                           .change_ms = mt_figure_number(change, "%+.2f", change),
                           .change = change,
                           .slowest = mt_timed_part_name(slowest_phase(cold, warm)),
                           .percent = 100 * change / warm->steps.part[MT_TIMED_STEP].mean};
}

static void say_warmth(struct mt_page *page, const struct warmth *pairs, size_t count)
{
    double most = 0;
    bool is_optimizer = true;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, pairs[i].percent);
        is_optimizer = is_optimizer && strcmp(pairs[i].slowest, mt_timed_part_name(MT_TIMED_OPTIMIZER)) == 0;
    }
    if (most <= 0)
        return;
    mt_page_say(page,
                "Without warm-up the first step counts, too: the mean of a step is up to %.1f %% longer, and the "
                "deviation comes from that one step.%s",
                most,
                is_optimizer ? " In every row the optimizer takes most of that: it creates and clears its state in "
                               "the first step."
                             : "");
}

static void add_warmup(struct mt_report *report)
{
    struct warmth *pairs = mt_host_alloc((report->run_count + 1) * sizeof *pairs);
    struct mt_report_rows rows = {.runs = mt_host_alloc((report->run_count + 1) * sizeof(void *))};
    for (size_t i = 1; i < report->run_count; i++)
        if (is_pair(&report->runs[i - 1], &report->runs[i])) {
            pairs[rows.count] = warmth_of(&report->runs[i - 1], &report->runs[i]);
            rows.runs[rows.count] = &pairs[rows.count].warm;
            rows.count++;
        }
    if (rows.count > 0) {
        mt_report_table(report, &rows, "warm-up", "A step without and with warm-up", warmth_fields);
        mt_page_chart(report->page, "without warm-up, ms", "with, ms", NULL);
        say_warmth(report->page, pairs, rows.count);
    } else {
        mt_page_hint(report->page, report->remedies[MT_LACKS_WARMUP],
                     "No run differs from another in its warm-up only, so what that changes is not shown");
    }
    mt_report_rows_release(&rows);
    free(pairs);
}

mt_status mt_report_timing(struct mt_report *report)
{
    struct mt_report_rows rows = select_timed(report);
    mt_page_section(report->page, "timing", "Timing");
    if (rows.count > 0) {
        mt_report_table(report, &rows, "steps", "Time of a step, mean ± standard deviation where there is one",
                        step_fields);
        mt_page_chart(report->page, "forward ms", "backward ms", "optimizer ms", NULL);
        say_estimates(report->page, &rows);
        say_times(report->page, &rows);
    }
    mt_report_rows_release(&rows);
    add_warmup(report);
    return MT_OK;
}

/* A phase of a run's kernels, per step. */
struct phase_row {
    const char *phase;
    struct mt_figure ms, share, product_ms, product_share;
    struct mt_figure published_ms, published_share; /* PyTorch's time, and its share of matrix products */
    uint64_t kernels;
    struct mt_figure other_ms; /* of the largest kernel that is not a matrix product */
    const char *other;         /* its name; NULL: none */
};

#define OUR_COLUMNS                                                                                                    \
    MT_COLUMN(TEXT, const char *, struct phase_row, phase, "phase"),                                                   \
        MT_COLUMN(FIGURE, struct mt_figure, struct phase_row, ms, "ms"),                                               \
        MT_COLUMN(FIGURE, struct mt_figure, struct phase_row, share, "share"),                                         \
        MT_COLUMN(COUNT, uint64_t, struct phase_row, kernels, "kernels"),                                              \
        MT_COLUMN(FIGURE, struct mt_figure, struct phase_row, product_ms, "products"),                                 \
        MT_COLUMN(FIGURE, struct mt_figure, struct phase_row, product_share, "share of phase"),                        \
        MT_COLUMN(FIGURE, struct mt_figure, struct phase_row, other_ms, "largest other"),                              \
        MT_COLUMN(TEXT, const char *, struct phase_row, other, "")

static const struct mt_field phase_fields[] = {OUR_COLUMNS, MT_FIELDS_END};
static const struct mt_row_type phase_type = MT_ROW_TYPE(struct phase_row, phase_fields);

/* Compared with PyTorch's kernels, if these were measured. */
static const struct mt_field compared_fields[] = {
    OUR_COLUMNS,
    MT_COLUMN(FIGURE, struct mt_figure, struct phase_row, published_ms, "PyTorch's on H200"),
    MT_COLUMN(FIGURE, struct mt_figure, struct phase_row, published_share, "PyTorch's share"),
    MT_FIELDS_END,
};
static const struct mt_row_type compared_type = MT_ROW_TYPE(struct phase_row, compared_fields);
#undef OUR_COLUMNS

static double ms_a_step(const struct mt_kernels *kernels, uint64_t total_ns)
{
    return (double)total_ns * 1e-6 / (double)kernels->steps;
}

static struct mt_figure ms_figure(const struct mt_kernels *kernels, uint64_t total_ns)
{
    double ms = ms_a_step(kernels, total_ns);
    return mt_figure_number(ms, "%.3f", ms);
}

static struct mt_figure share_figure(uint64_t part, uint64_t whole)
{
    char text[MT_BYTES_TEXT];
    double percent = whole > 0 ? 100 * (double)part / (double)whole : 0;
    return mt_figure_number(percent, "%s", mt_format_share((double)part, (double)whole, text));
}

/* Returns PyTorch's kernels of the phase in a run of this published cell; NULL: no cell, or unknown. */
static const struct mt_published_kernels *published_kernels(const struct mt_published_cell *cell,
                                                            const struct mt_kernel_phase *phase)
{
    return cell != NULL ? mt_published_kernels_find(cell, phase->phase) : NULL;
}

static const struct mt_row_type *type_of_phases(const struct mt_kernels *kernels, const struct mt_published_cell *cell)
{
    for (size_t i = 0; i < kernels->phase_count; i++)
        if (published_kernels(cell, &kernels->phases[i]) != NULL)
            return &compared_type;
    return &phase_type;
}

static void add_phase(struct mt_page *page, const struct mt_kernels *kernels, const struct mt_published_cell *cell,
                      const struct mt_kernel_phase *phase)
{
    const struct mt_published_kernels *published = published_kernels(cell, phase);
    const struct mt_kernel_row *other = mt_kernel_phase_top_other(phase);
    struct mt_text name = {0};
    assert(kernels->steps > 0);
    struct phase_row row = {.phase = phase->phase[0] != '\0' ? phase->phase : "no op",
                            .ms = ms_figure(kernels, phase->total_ns),
                            .share = share_figure(phase->total_ns, kernels->total_ns),
                            .product_ms = ms_figure(kernels, phase->product_ns),
                            .product_share = share_figure(phase->product_ns, phase->total_ns),
                            .kernels = phase->count / kernels->steps};
    if (published != NULL) {
        double share = 100 * published->product_ms / published->ms;
        row.published_ms = mt_figure_number(published->ms, "%.3f", published->ms);
        row.published_share = mt_figure_number(share, "%.1f %%", share);
    }
    if (other != NULL) {
        mt_kernel_text_add(&name, other->name);
        row.other_ms = ms_figure(kernels, other->total_ns);
        row.other = mt_text_get(&name);
    }
    mt_page_row(page, type_of_phases(kernels, cell), &row);
    mt_text_release(&name);
}

static void say_shares(struct mt_page *page, const struct mt_kernels *kernels)
{
    char share[MT_BYTES_TEXT];
    mt_page_say(page, "Matrix products take %s of the kernels' time of a step.",
                mt_format_share((double)kernels->product_ns, (double)kernels->total_ns, share));
    if (kernels->softmax_ns > 0 && kernels->attention_product_ns > 0)
        mt_page_say(
            page, "Softmax of the forward pass takes %.3f ms and attention's two products %.3f ms: %.2f times as long.",
            ms_a_step(kernels, kernels->softmax_ns), ms_a_step(kernels, kernels->attention_product_ns),
            (double)kernels->softmax_ns / (double)kernels->attention_product_ns);
    if (kernels->lost > 0)
        mt_page_say(page, "Of %zu kernels there is no record, so the figures are too low.", (size_t)kernels->lost);
}

/* Writes how much times and shares of products differ from PyTorch's, if these exist. */
static void say_distance(struct mt_page *page, const struct mt_kernels *kernels, const struct mt_published_cell *cell)
{
    double points = -1, percent = -1;
    for (size_t i = 0; i < kernels->phase_count; i++) {
        const struct mt_kernel_phase *phase = &kernels->phases[i];
        const struct mt_published_kernels *published = published_kernels(cell, phase);
        if (published == NULL || phase->total_ns == 0)
            continue;
        double share = (double)phase->product_ns / (double)phase->total_ns;
        points = fmax(points, fabs(100 * share - 100 * published->product_ms / published->ms));
        percent = fmax(percent, fabs(100 * ms_a_step(kernels, phase->total_ns) / published->ms - 100));
    }
    if (points >= 0)
        mt_page_say(page,
                    "The times of phases are within %.1f %% of PyTorch's kernels, and the shares of products within "
                    "%.1f points.",
                    percent, points);
}

static void add_kernels(struct mt_page *page, const struct mt_run *run, const struct mt_steps_row *steps,
                        const struct mt_kernels *kernels, const struct mt_published_cell *cell)
{
    bool is_estimated = mt_device_is_simulated(run->device);
    struct mt_text title = {0};
    mt_text_add(&title, "Kernels of a step%s: %s, %s, seq %s, %s on %s", is_estimated ? ", estimated (est.)" : "",
                steps->model, steps->mode, steps->seq, steps->precision, run->device);
    mt_page_table(page, "kernels", title.data, type_of_phases(kernels, cell), NULL, 0);
    for (size_t i = 0; i < kernels->phase_count; i++)
        add_phase(page, kernels, cell, &kernels->phases[i]);
    mt_page_chart(page, "ms", "products", NULL);
    if (is_estimated)
        mt_page_say(page, "Nothing ran on %s: each op counts as a kernel of its name and of its estimated time.",
                    run->device);
    say_shares(page, kernels);
    say_distance(page, kernels, cell);
    mt_text_release(&title);
}

/* True if the device is, or simulates, the card on which PyTorch's kernels were measured. */
static bool is_h200(const char *device)
{
    struct mt_card card;
    bool is_known = mt_device_is_simulated(device) ? mt_device_find_card(device, &card) == MT_OK
                                                   : mt_card_find_product(device, &card);
    return is_known && strcmp(card.name, "h200") == 0;
}

/* Adds the kernels of a run, if they were watched, and counts the run in *shown. */
static mt_status add_watched(struct mt_report *report, const struct mt_run *run, size_t *shown)
{
    struct mt_settings settings;
    struct mt_steps_row steps;
    struct mt_kernels kernels = {0};
    mt_status status = mt_settings_load(report->trace, run, &settings);
    bool is_watched = status == MT_OK && strcmp(mt_settings_value(&settings, "kernels"), "on") == 0;
    const struct mt_published_cell *cell = is_watched && is_h200(run->device) ? mt_published_find(&settings) : NULL;
    mt_settings_release(&settings);
    if (!is_watched)
        return status;
    status = mt_trace_steps(report->trace, run, &steps);
    MT_THEN(status, mt_trace_kernels(report->trace, run, &kernels));
    if (status == MT_OK && kernels.total_ns > 0 && kernels.steps > 0) {
        add_kernels(report->page, run, &steps, &kernels, cell);
        ++*shown;
    }
    mt_kernels_release(&kernels);
    return status;
}

mt_status mt_report_kernels(struct mt_report *report)
{
    size_t count, shown = 0;
    const struct mt_run *runs = mt_trace_runs(report->trace, &count);
    mt_status status = MT_OK;
    mt_page_section(report->page, "kernels", "Kernels");
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = add_watched(report, &runs[i], &shown);
    if (status == MT_OK && shown == 0)
        mt_page_hint(report->page, report->remedies[MT_LACKS_KERNELS],
                     "No run has records of kernels; this adds them, measured on an NVIDIA GPU and estimated on sim");
    return status;
}
