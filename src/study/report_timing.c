/* How long forward, backward and optimizer took, and what warming up changes. */
#include "base/memory.h"
#include "study/report_sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mt_timed_part parts[] = {MT_TIMED_FORWARD, MT_TIMED_BACKWARD, MT_TIMED_OPTIMIZER, MT_TIMED_STEP};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Of milliseconds with two digits. */
static const double LEAST_SHOWN = 0.005;

/* A deviation that would be shown as nothing is not shown. */
static void add_time(struct mt_page *page, const struct mt_time_statistics *time)
{
    char text[2 * MT_BYTES_TEXT];
    if (time->count == 0) {
        mt_page_cell_absent(page);
        return;
    }
    if (time->count == 1 || time->deviation < LEAST_SHOWN)
        snprintf(text, sizeof text, "%.2f", time->mean);
    else
        snprintf(text, sizeof text, "%.2f ± %.2f", time->mean, time->deviation);
    mt_page_cell_number(page, time->mean, text);
}

/* Of one configuration the full step says it all; a forward pass by itself is timed where there is no step. */
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

static void keep_timed(struct mt_report_rows *rows, const struct mt_report_rows *all)
{
    rows->count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct mt_report_run *run = all->runs[i];
        bool is_timed = !run->is_oom && run->steps.part[MT_TIMED_STEP].count > 0;
        if (is_timed && (strcmp(run->mode, "fwd_bwd") == 0 || !has_full_step(all, run)))
            rows->runs[rows->count++] = run;
    }
}

static void add_row(struct mt_page *page, const struct mt_report_columns *columns, const struct mt_report_run *run)
{
    mt_report_axis_cells(page, columns, run);
    mt_page_cell(page, mt_report_mode(run));
    mt_page_cell(page, run->steps.precision);
    mt_page_cell_count(page, run->seq);
    mt_page_cell_count(page, run->steps.warmup);
    mt_page_cell_count(page, run->steps.part[MT_TIMED_STEP].count);
    for (int i = 0; i < PARTS; i++)
        add_time(page, &run->steps.part[parts[i]]);
    mt_page_cell(page, run->is_estimated ? "estimate" : "measured");
}

static void add_table(struct mt_page *page, const struct mt_report_rows *rows)
{
    struct mt_report_columns columns = mt_report_columns_of(rows);
    mt_report_column(&columns, "pass", MT_ALIGN_LEFT);
    mt_report_column(&columns, "precision", MT_ALIGN_LEFT);
    mt_report_column(&columns, "seq", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "warm-up", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "steps", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "forward ms", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "backward ms", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "optimizer ms", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "step ms", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "time is", MT_ALIGN_LEFT);
    mt_report_table(page, rows, &columns, "steps", "Time of a step, mean ± standard deviation where there is one");
    for (size_t i = 0; i < rows->count; i++)
        add_row(page, &columns, rows->runs[i]);
}

static void say_estimates(struct mt_page *page, const struct mt_report_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->runs[i]->is_estimated) {
            mt_page_say(page,
                        "Times on sim are estimates, since nothing is executed there: each op takes the longer of "
                        "its operations over the card's peak rate and its bytes over the card's bandwidth.");
            return;
        }
}

/* The smallest and largest of numbers. */
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

/* The same run without warm-up and with. */
struct warmth {
    const struct mt_report_run *cold, *warm;
};

/* Runs are in order of warm-up, so the warm one follows the cold one. */
static bool is_pair(const struct mt_report_run *cold, const struct mt_report_run *warm)
{
    static const char *const but[] = {"warmup", NULL};
    return mt_report_agree(cold, warm, but) && cold->steps.warmup == 0 && warm->steps.warmup > 0 && !cold->is_oom &&
           !warm->is_oom;
}

static double mean_change(const struct warmth *pair, mt_timed_part part)
{
    return pair->cold->steps.part[part].mean - pair->warm->steps.part[part].mean;
}

/* The phase that the first steps make longer by most. */
static mt_timed_part slowest_phase(const struct warmth *pair)
{
    mt_timed_part slowest = MT_TIMED_FORWARD;
    for (int part = 0; part < MT_TIMED_STEP; part++)
        if (mean_change(pair, (mt_timed_part)part) > mean_change(pair, slowest) || isnan(mean_change(pair, slowest)))
            slowest = (mt_timed_part)part;
    return slowest;
}

static void add_pair(struct mt_page *page, const struct mt_report_columns *columns, const struct warmth *pair)
{
    char text[MT_BYTES_TEXT];
    double change = mean_change(pair, MT_TIMED_STEP);
    mt_report_axis_cells(page, columns, pair->warm);
    mt_page_cell(page, pair->warm->steps.precision);
    mt_page_cell_count(page, pair->warm->seq);
    add_time(page, &pair->cold->steps.part[MT_TIMED_STEP]);
    add_time(page, &pair->warm->steps.part[MT_TIMED_STEP]);
    snprintf(text, sizeof text, "%+.2f", change);
    mt_page_cell_number(page, change, text);
    mt_page_cell(page, mt_timed_part_name(slowest_phase(pair)));
}

static void say_pairs(struct mt_page *page, const struct warmth *pairs, size_t count)
{
    double most = 0;
    bool is_optimizer = true;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, 100 * mean_change(&pairs[i], MT_TIMED_STEP) / pairs[i].warm->steps.part[MT_TIMED_STEP].mean);
        is_optimizer = is_optimizer && slowest_phase(&pairs[i]) == MT_TIMED_OPTIMIZER;
    }
    if (most <= 0)
        return;
    mt_page_say(page,
                "Without warm-up the first step counts, too: the mean of a step is up to %.1f %% longer, and the "
                "deviation speaks of that one step.%s",
                most,
                is_optimizer ? " In every row it is the optimizer that is longer at first: it makes and clears its "
                               "state in the first step."
                             : "");
}

static size_t find_pairs(const struct mt_report *report, struct warmth *pairs)
{
    size_t count = 0;
    for (size_t i = 1; i < report->run_count; i++)
        if (is_pair(&report->runs[i - 1], &report->runs[i]))
            pairs[count++] = (struct warmth){&report->runs[i - 1], &report->runs[i]};
    return count;
}

static void add_warmup(struct mt_report *report, struct mt_report_rows *rows, struct warmth *pairs)
{
    size_t count = find_pairs(report, pairs);
    rows->count = count;
    for (size_t i = 0; i < count; i++)
        rows->runs[i] = pairs[i].warm;
    if (count == 0) {
        mt_page_hint(report->page, report->remedies[MT_LACKS_WARMUP],
                     "No run differs from another in its warm-up only, so what that changes is not shown");
        return;
    }
    struct mt_report_columns columns = mt_report_columns_of(rows);
    mt_report_column(&columns, "precision", MT_ALIGN_LEFT);
    mt_report_column(&columns, "seq", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "without warm-up, ms", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "with, ms", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "difference", MT_ALIGN_RIGHT);
    mt_report_column(&columns, "most of it in", MT_ALIGN_LEFT);
    mt_report_table(report->page, rows, &columns, "warm-up", "A step without and with warm-up");
    for (size_t i = 0; i < count; i++)
        add_pair(report->page, &columns, &pairs[i]);
    say_pairs(report->page, pairs, count);
}

mt_status mt_report_timing(struct mt_report *report)
{
    mt_page_section(report->page, "timing", "Timing");
    struct mt_report_rows all = mt_report_select(report, NULL, NULL), rows = mt_report_select(report, NULL, NULL);
    keep_timed(&rows, &all);
    if (rows.count > 0) {
        add_table(report->page, &rows);
        say_estimates(report->page, &rows);
        say_times(report->page, &rows);
    }
    struct warmth *pairs = mt_host_alloc((report->run_count + 1) * sizeof *pairs);
    mt_report_rows_release(&rows);
    rows.runs = mt_host_alloc((report->run_count + 1) * sizeof(void *));
    add_warmup(report, &rows, pairs);
    free(pairs);
    mt_report_rows_release(&rows);
    mt_report_rows_release(&all);
    return MT_OK;
}
