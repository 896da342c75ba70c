/* The section of implementations: compares the eager model, op by op, with the fused one, which represents compiled
 * code: it computes the same with fewer launches, and keeps less memory. */
#include "base/memory.h"
#include "study/report_runs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An eager and a fused run of the same training. Begins with the run of its row. */
struct twin {
    struct mt_report_run fused, eager; /* borrowed from the report */
    struct mt_figure saved, speed_up;
    double saved_share, speed_up_ratio; /* NAN: one of them ran out of memory or was not timed */
};

static const struct mt_field twin_fields[] = {
    MT_COLUMN(TEXT, const char *, struct twin, fused.pass, "pass"),
    MT_COLUMN(TEXT, const char *, struct twin, fused.steps.precision, "precision"),
    MT_COLUMN(INTEGER, int64_t, struct twin, fused.seq, "seq"),
    MT_COLUMN(TEXT, const char *, struct twin, eager.axis[MT_SETTING_ATTENTION], "attention, eager"),
    MT_COLUMN(TEXT, const char *, struct twin, fused.axis[MT_SETTING_ATTENTION], "attention, fused"),
    MT_COLUMN(FIGURE, struct mt_figure, struct twin, eager.allocated_peak, "allocated, eager"),
    MT_COLUMN(FIGURE, struct mt_figure, struct twin, fused.allocated_peak, "allocated, fused"),
    MT_COLUMN(FIGURE, struct mt_figure, struct twin, saved, "saved"),
    MT_COLUMN(FIGURE, struct mt_figure, struct twin, eager.times[MT_TIMED_STEP], "step ms, eager"),
    MT_COLUMN(FIGURE, struct mt_figure, struct twin, fused.times[MT_TIMED_STEP], "step ms, fused"),
    MT_COLUMN(FIGURE, struct mt_figure, struct twin, speed_up, "speed-up"),
    MT_COLUMN(TEXT, const char *, struct twin, fused.basis, "time is"),
    MT_FIELDS_END,
};

static bool is_implementation(const struct mt_report_run *run, mt_implementation_kind kind)
{
    return strcmp(run->axis[MT_SETTING_IMPL], mt_implementation_names[kind]) == 0;
}

/* Returns the last eager run of the same training, which has the most warm-up; NULL if there is none. Attention and
 * casts of weights are considered parts of an implementation. */
static const struct mt_report_run *find_eager(const struct mt_report *report, const struct mt_report_run *fused)
{
    static const char *const but[] = {"impl", "attention", "weight_cast", "warmup", NULL};
    const struct mt_report_run *found = NULL;
    for (size_t i = 0; i < report->run_count; i++)
        if (is_implementation(&report->runs[i], MT_IMPLEMENTATION_EAGER) &&
            mt_report_agree(fused, &report->runs[i], but))
            found = &report->runs[i];
    return found;
}

static double step_ms(const struct mt_report_run *run)
{
    return run->is_oom ? NAN : run->steps.part[MT_TIMED_STEP].mean;
}

static struct twin twin_of(const struct mt_report_run *eager, const struct mt_report_run *fused)
{
    struct twin twin = {.fused = *fused, .eager = *eager, .saved_share = NAN};
    twin.speed_up_ratio = step_ms(eager) / step_ms(fused);
    if (twin.speed_up_ratio > 0 && isfinite(twin.speed_up_ratio))
        twin.speed_up = mt_figure_number(twin.speed_up_ratio, "%.2f", twin.speed_up_ratio);
    if (eager->is_oom || fused->is_oom || eager->allocated.bytes == 0)
        return twin;
    int64_t saved = (int64_t)(eager->allocated.bytes - fused->allocated.bytes);
    twin.saved = mt_figure_difference(-saved);
    twin.saved_share = (double)saved / (double)eager->allocated.bytes;
    return twin;
}

/* Writes the range of how much lower peaks and how much faster steps are. */
static void say_range(struct mt_page *page, const struct twin *twins, size_t count)
{
    double least_speed_up = NAN, most_speed_up = NAN, least_saved = NAN, most_saved = NAN;
    for (size_t i = 0; i < count; i++) {
        least_speed_up = fmin(least_speed_up, twins[i].speed_up_ratio);
        most_speed_up = fmax(most_speed_up, twins[i].speed_up_ratio);
        least_saved = fmin(least_saved, twins[i].saved_share);
        most_saved = fmax(most_saved, twins[i].saved_share);
    }
    if (isfinite(least_saved))
        mt_page_find(page, "The fused model's peak is %.0f to %.0f %% below the eager one's.", 100 * least_saved,
                     100 * most_saved);
    if (isfinite(least_speed_up))
        mt_page_find(page, "The fused model's step is %.2f to %.2f times as fast.", least_speed_up, most_speed_up);
}

mt_status mt_report_implementations(struct mt_report *report)
{
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_ANY);
    struct twin *twins = mt_host_alloc((rows.count + 1) * sizeof *twins);
    size_t count = 0;
    for (size_t i = 0; i < rows.count; i++) {
        const struct mt_report_run *run = rows.runs[i];
        const struct mt_report_run *eager =
            is_implementation(run, MT_IMPLEMENTATION_FUSED) ? find_eager(report, run) : NULL;
        if (eager == NULL)
            continue;
        twins[count] = twin_of(eager, run);
        rows.runs[count] = &twins[count].fused;
        count++;
    }
    assert(count <= rows.count);
    rows.count = count;
    mt_page_section(report->page, "implementations", "Eager against compiled-like");
    if (count > 0) {
        mt_report_table(report, &rows, "implementations", "Op by op (eager) against compiled-like (fused)",
                        twin_fields);
        mt_page_chart(report->page, "allocated, eager", "allocated, fused", NULL);
        say_range(report->page, twins, count);
    } else {
        mt_page_hint(report->page, report->remedies[MT_LACKS_IMPLEMENTATIONS],
                     "No eager and fused run are of the same training, so there is nothing to compare");
    }
    mt_report_rows_release(&rows);
    free(twins);
    return MT_OK;
}
