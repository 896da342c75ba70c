/* The section of runs that do not say what was trained, as imported and recorded ones: their peaks, by role, category,
 * module and phase. */
#include "study/report_runs.h"
#include "trace/query/groups.h"

#include <inttypes.h>
#include <stdio.h>

/* The runs of the section, newest last, and the rows of a table of groups for each of them. */
enum { MOST_RUNS = 8, MOST_GROUPS = 10 };

/* A peak of a run. */
struct peak_row {
    struct mt_run run;
    const char *measure;
    struct mt_peak_row peak;
};

static const struct mt_field peak_fields[] = {
    MT_COLUMN(INTEGER, int64_t, struct peak_row, run.id, "run"),
    MT_COLUMN(TEXT, const char *, struct peak_row, run.name, "name"),
    MT_COLUMN(TEXT, const char *, struct peak_row, run.device, "device"),
    MT_COLUMN(TEXT, const char *, struct peak_row, run.state, "ended"),
    MT_COLUMN(TEXT, const char *, struct peak_row, measure, "peak of"),
    MT_COLUMN(BYTES, uint64_t, struct peak_row, peak.bytes, "size"),
    MT_COLUMN(STEP, int64_t, struct peak_row, peak.step, "step"),
    MT_COLUMN(TEXT, const char *, struct peak_row, peak.phase, "phase"),
    MT_COLUMN(TEXT, const char *, struct peak_row, peak.span, "module"),
    MT_FIELDS_END,
};
static const struct mt_row_type peak_type = MT_ROW_TYPE(struct peak_row, peak_fields);

/* The share of a run's allocated peak that live blocks of one word have. */
struct group_row {
    int64_t run;
    struct mt_peak_share share;
    double part;
};

static const struct mt_field group_fields[] = {
    MT_COLUMN(INTEGER, int64_t, struct group_row, run, "run"),
    MT_COLUMN(TEXT, const char *, struct group_row, share.name, "blocks of"),
    MT_COLUMN(BYTES, uint64_t, struct group_row, share.allocated_bytes, "allocated"),
    MT_COLUMN(SHARE, double, struct group_row, part, "share"),
    MT_COLUMN(COUNT, uint64_t, struct group_row, share.blocks, "blocks"),
    MT_FIELDS_END,
};
static const struct mt_row_type group_type = MT_ROW_TYPE(struct group_row, group_fields);

/* The highest moment of a phase of a run. */
struct phase_row {
    int64_t run;
    struct mt_phase_peak peak;
};

static const struct mt_field phase_fields[] = {
    MT_COLUMN(INTEGER, int64_t, struct phase_row, run, "run"),
    MT_COLUMN(TEXT, const char *, struct phase_row, peak.phase, "phase"),
    MT_COLUMN(BYTES, uint64_t, struct phase_row, peak.bytes, "allocated"),
    MT_COLUMN(STEP, int64_t, struct phase_row, peak.step, "step"),
    MT_FIELDS_END,
};
static const struct mt_row_type phase_type = MT_ROW_TYPE(struct phase_row, phase_fields);

static mt_status add_peaks(const struct mt_report *report, const struct mt_run *run)
{
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++) {
        struct peak_row row = {.run = *run, .measure = mt_measure_name((mt_measure)measure)};
        status = mt_trace_peak(report->trace, run, (mt_measure)measure, &row.peak);
        if (status == MT_OK) {
            mt_page_row(report->page, &peak_type, &row);
            mt_report_link(report, run);
        }
        mt_peak_row_release(&row.peak);
    }
    return status;
}

/* Adds the largest groups of the run's peak, and the sum of the others. */
static void add_shares(const struct mt_report *report, const struct mt_run *run, const struct mt_peak_row *peak)
{
    struct group_row rest = {.run = run->id};
    char more[MT_BYTES_TEXT];
    for (size_t i = 0; i < peak->share_count; i++) {
        struct group_row row = {.run = run->id, .share = peak->shares[i]};
        row.part = (double)row.share.allocated_bytes / (double)peak->bytes;
        row.share.name = row.share.name[0] != '\0' ? row.share.name : "(none)";
        if (i < MOST_GROUPS) {
            mt_page_row(report->page, &group_type, &row);
            continue;
        }
        rest.share.allocated_bytes += row.share.allocated_bytes;
        rest.share.blocks += row.share.blocks;
        rest.part += row.part;
    }
    if (peak->share_count <= MOST_GROUPS)
        return;
    snprintf(more, sizeof more, "(%zu more)", peak->share_count - MOST_GROUPS);
    rest.share.name = more;
    mt_page_row(report->page, &group_type, &rest);
}

static mt_status add_groups(const struct mt_report *report, const struct mt_run *run, mt_group_key key)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak_by(report->trace, run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, key, &peak);
    if (status == MT_OK)
        add_shares(report, run, &peak);
    mt_peak_row_release(&peak);
    return status;
}

static mt_status add_phases(const struct mt_report *report, const struct mt_run *run)
{
    struct mt_phase_peak *peaks;
    size_t count;
    mt_status status = mt_trace_phase_peaks(report->trace, run, &peaks, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        const struct phase_row row = {run->id, peaks[i]};
        mt_page_row(report->page, &phase_type, &row);
    }
    free(peaks);
    return status;
}

/* Adds a table of groups of all the runs. */
static mt_status add_group_table(const struct mt_report *report, size_t first, mt_group_key key, const char *name,
                                 const char *title)
{
    mt_status status = MT_OK;
    mt_page_table(report->page, name, title, &group_type, NULL, 0);
    for (size_t i = first; i < report->other_count && status == MT_OK; i++)
        status = add_groups(report, report->others[i], key);
    mt_page_chart(report->page, "allocated", NULL);
    return status;
}

mt_status mt_report_others(struct mt_report *report)
{
    size_t first = report->other_count > MOST_RUNS ? report->other_count - MOST_RUNS : 0;
    mt_status status = MT_OK;
    if (report->other_count == 0)
        return MT_OK;
    mt_page_section(report->page, "other-runs", "Runs that do not say what was trained");
    if (first > 0)
        mt_page_say(report->page, "These are the newest %d of %zu.", MOST_RUNS, report->other_count);
    mt_page_table(report->page, "other-peaks", "Their peaks", &peak_type, NULL, 0);
    for (size_t i = first; i < report->other_count && status == MT_OK; i++)
        status = add_peaks(report, report->others[i]);
    mt_page_chart(report->page, "size", NULL);
    MT_THEN(status, add_group_table(report, first, MT_GROUP_ROLE, "other-roles", "The allocated peak by role"));
    MT_THEN(status, add_group_table(report, first, MT_GROUP_CATEGORY, "other-categories", "The same by category"));
    MT_THEN(status, add_group_table(report, first, MT_GROUP_MODULE, "other-modules", "The same by module"));
    if (status != MT_OK)
        return status;
    mt_page_table(report->page, "other-phases", "The highest moment of each phase", &phase_type, NULL, 0);
    for (size_t i = first; i < report->other_count && status == MT_OK; i++)
        status = add_phases(report, report->others[i]);
    mt_page_chart(report->page, "allocated", NULL);
    return status;
}
