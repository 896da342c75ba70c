/* The user's own runs, of any program: a list, and for each of the newest a section with its needs, its memory over
 * time, and the parts of its peak. */
#include "analysis/run_settings.h"
#include "analysis/verdict.h"
#include "study/report_runs.h"
#include "trace/query/curve.h"
#include "trace/query/groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of the list, of runs with a section, newest last, and of rows in a table of parts. */
enum { MOST_LISTED = 50, MOST_RUNS = 8, MOST_GROUPS = 10 };

/* A run in the list. Owns its settings and peaks. */
struct own_run {
    struct mt_run run;
    struct mt_settings settings;
    const char *program; /* the file or model; NULL: unknown */
    char date[20];       /* "2026-01-31 23:59:59", UTC */
    const char *started; /* date */
    struct mt_peak_row allocated, reserved;
};

static const struct mt_field run_fields[] = {
    MT_COLUMN(INTEGER, int64_t, struct own_run, run.id, "run"),
    MT_COLUMN(TEXT, const char *, struct own_run, run.name, "name"),
    MT_COLUMN(TEXT, const char *, struct own_run, program, "program"),
    MT_COLUMN(TEXT, const char *, struct own_run, run.device, "card"),
    MT_COLUMN(TEXT, const char *, struct own_run, started, "started, UTC"),
    MT_COLUMN(TEXT, const char *, struct own_run, run.state, "ended"),
    MT_COLUMN(COUNT, int64_t, struct own_run, run.steps, "steps"),
    MT_COLUMN(BYTES, uint64_t, struct own_run, allocated.bytes, "allocated"),
    MT_COLUMN(BYTES, uint64_t, struct own_run, reserved.bytes, "reserved"),
    MT_FIELDS_END,
};
static const struct mt_row_type run_type = MT_ROW_TYPE(struct own_run, run_fields);

/* The share of the allocated peak in live blocks of one group. */
struct group_row {
    struct mt_peak_share share;
    double part;
};

static const struct mt_field group_fields[] = {
    MT_COLUMN(TEXT, const char *, struct group_row, share.name, "blocks of"),
    MT_COLUMN(BYTES, uint64_t, struct group_row, share.allocated_bytes, "allocated"),
    MT_COLUMN(SHARE, double, struct group_row, part, "share"),
    MT_COLUMN(COUNT, uint64_t, struct group_row, share.blocks, "blocks"),
    MT_FIELDS_END,
};
static const struct mt_row_type group_type = MT_ROW_TYPE(struct group_row, group_fields);

/* The peak of a phase. */
static const struct mt_field phase_fields[] = {
    MT_COLUMN(TEXT, const char *, struct mt_phase_peak, phase, "phase"),
    MT_COLUMN(BYTES, uint64_t, struct mt_phase_peak, bytes, "allocated"),
    MT_COLUMN(STEP, int64_t, struct mt_phase_peak, step, "step"),
    MT_FIELDS_END,
};
static const struct mt_row_type phase_type = MT_ROW_TYPE(struct mt_phase_peak, phase_fields);

/* ---- the list ---- */

static mt_status load(struct mt_trace *trace, const struct mt_run *run, struct own_run *out)
{
    *out = (struct own_run){.run = *run, .started = out->date};
    snprintf(out->date, sizeof out->date, "%s", run->started_at);
    if (strlen(out->date) > 10)
        out->date[10] = ' ';
    MT_TRY(mt_settings_load(trace, run, &out->settings));
    for (const char *const *name = (const char *const[]){"program", "model", NULL}; *name != NULL; name++)
        if (out->program == NULL && mt_settings_value(&out->settings, *name)[0] != '\0')
            out->program = mt_settings_value(&out->settings, *name);
    MT_TRY(mt_trace_peak(trace, run, MT_MEASURE_ALLOCATED, &out->allocated));
    return mt_trace_peak(trace, run, MT_MEASURE_RESERVED, &out->reserved);
}

static void own_run_release(struct own_run *run)
{
    mt_settings_release(&run->settings);
    mt_peak_row_release(&run->allocated);
    mt_peak_row_release(&run->reserved);
}

/* True for a run that ended and allocated memory. */
static bool is_shown(const struct mt_run *run)
{
    return !mt_run_is(run, MT_RUN_RUNNING) && run->event_count > 0;
}

/* Adds a run to the list, linked to its section if it has one. */
static void add_to_list(const struct mt_report *report, const struct own_run *run, bool has_section)
{
    char link[MT_BYTES_TEXT];
    mt_page_row(report->page, &run_type, run);
    snprintf(link, sizeof link, "#run-%" PRId64, run->run.id);
    if (has_section)
        mt_page_link(report->page, link);
}

/* ---- a run ---- */

/* Writes how much memory was missing, and where. */
static void hint_at_oom(const struct mt_report *report, const struct own_run *run, const struct mt_verdict *verdict)
{
    struct mt_text reason = {0}, command = {0};
    const char *line = mt_text_get(&verdict->line);
    mt_text_add(&reason, "%s were short%s%s; for changes that would have avoided it", MT_SIZE(verdict->short_bytes),
                line[0] != '\0' ? " at " : "", line);
    mt_text_add(&command, "%s %" PRId64, report->remedies[MT_LACKS_MEMORY], run->run.id);
    mt_page_hint(report->page, command.data, reason.data);
    mt_text_release(&reason);
    mt_text_release(&command);
}

/* Writes a dry run's needs of its card. */
static mt_status say_need(const struct mt_report *report, const struct own_run *run)
{
    const struct mt_question question = {.trace = report->trace, .run = &run->run};
    struct mt_verdict verdict = {0};
    if (!mt_program_of_settings(&run->settings).is_dry)
        return MT_OK;
    mt_status status = mt_verdict_find(&question, &verdict);
    if (status == MT_OK && verdict.is_out_of_memory)
        hint_at_oom(report, run, &verdict);
    else if (status == MT_OK)
        mt_page_say(report->page, "It needs %s, %s of them outside the allocator, of the card's %s: %s %s.",
                    MT_SIZE(verdict.needed_bytes), MT_SIZE(verdict.outside_bytes), MT_SIZE(verdict.card_bytes),
                    MT_SIZE(verdict.fits ? verdict.free_bytes : verdict.short_bytes), verdict.fits ? "free" : "short");
    mt_verdict_release(&verdict);
    return status;
}

/* Writes the peak, when it occurred, and its largest part; or the refused request. */
static mt_status find_peak(const struct mt_report *report, const struct own_run *run, const struct mt_peak_row *roles)
{
    struct mt_steps_row steps;
    struct mt_text text = {0};
    char step[MT_BYTES_TEXT];
    MT_TRY(mt_trace_steps(report->trace, &run->run, &steps));
    mt_text_add(&text, "Run %" PRId64, run->run.id);
    if (run->program != NULL)
        mt_text_add(&text, " (%s)", run->program);
    mt_text_add(&text, " on %s ", run->run.device);
    if (steps.oom_bytes >= 0)
        mt_text_add(&text, "ran out of memory: it asked for %s (%s) in %s. Until then it ",
                    MT_SIZE((uint64_t)steps.oom_bytes), steps.oom_category, steps.oom_phase);
    mt_text_add(&text, "peaks at %s allocated, ", MT_SIZE(run->allocated.bytes));
    if (run->allocated.step == MT_NO_STEP)
        mt_text_add(&text, "before the first step");
    else
        mt_text_add(&text, "in %s of %s", run->allocated.phase, mt_format_step(run->allocated.step, step));
    if (roles->share_count > 0 && run->allocated.bytes > 0)
        mt_text_add(&text, "; %s has %.0f %% of it", roles->shares[0].name,
                    100 * (double)roles->shares[0].allocated_bytes / (double)run->allocated.bytes);
    mt_page_find(report->page, "%s.", mt_text_get(&text));
    mt_text_release(&text);
    return MT_OK;
}

static mt_status add_curve(const struct mt_report *report, const struct own_run *run)
{
    struct mt_curve curve;
    char end[MT_BYTES_TEXT];
    bool is_dry = mt_program_of_settings(&run->settings).is_dry; /* its times are the host's */
    MT_TRY(mt_trace_curve(report->trace, &run->run, is_dry ? MT_CURVE_BY_EVENT : MT_CURVE_BY_TIME, &curve));
    if (is_dry)
        snprintf(end, sizeof end, "%" PRIu64 " events", curve.end + 1);
    else
        snprintf(end, sizeof end, "%.3g s", (double)curve.end / 1e9);
    mt_page_curve(report->page, is_dry ? "Allocated over the run's events" : "Allocated over time", curve.bytes,
                  curve.count, end);
    return MT_OK;
}

/* Adds a table of the largest parts of the peak, and the sum of the others. */
static void add_parts(const struct mt_report *report, const struct mt_peak_row *peak, const char *key,
                      const char *title)
{
    struct group_row rest = {0};
    char more[MT_BYTES_TEXT];
    mt_page_table(report->page, key, title, &group_type, NULL, 0);
    for (size_t i = 0; i < peak->share_count; i++) {
        struct group_row row = {.share = peak->shares[i]};
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
    mt_page_chart(report->page, "allocated", NULL);
    if (peak->share_count <= MOST_GROUPS)
        return;
    snprintf(more, sizeof more, "(%zu more)", peak->share_count - MOST_GROUPS);
    rest.share.name = more;
    mt_page_row(report->page, &group_type, &rest);
}

static mt_status add_groups(const struct mt_report *report, const struct own_run *run, mt_group_key key,
                            const char *name, const char *title)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak_by(report->trace, &run->run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, key, &peak);
    if (status == MT_OK)
        add_parts(report, &peak, name, title);
    mt_peak_row_release(&peak);
    return status;
}

static mt_status add_phases(const struct mt_report *report, const struct own_run *run)
{
    struct mt_phase_peak *peaks;
    size_t count;
    mt_status status = mt_trace_phase_peaks(report->trace, &run->run, &peaks, &count);
    if (status == MT_OK)
        mt_page_table(report->page, "phases", "The highest moment of each phase", &phase_type, peaks, count);
    free(peaks);
    return status;
}

/* Adds the peak's roles: first as a sentence, then as a table below the curve. */
static mt_status add_roles(const struct mt_report *report, const struct own_run *run)
{
    struct mt_peak_row roles;
    mt_status status =
        mt_trace_peak_by(report->trace, &run->run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, MT_GROUP_ROLE, &roles);
    MT_THEN(status, find_peak(report, run, &roles));
    MT_THEN(status, say_need(report, run));
    MT_THEN(status, add_curve(report, run));
    if (status == MT_OK) {
        mt_page_table(report->page, "run", "The run", &run_type, run, 1);
        mt_page_keep_columns(report->page);
        mt_report_link(report, &run->run);
        add_parts(report, &roles, "roles", "The allocated peak by role");
    }
    mt_peak_row_release(&roles);
    return status;
}

static mt_status add_run(const struct mt_report *report, const struct own_run *run)
{
    char key[MT_BYTES_TEXT];
    struct mt_text title = {0};
    const char *name = run->run.name != NULL ? run->run.name : run->program;
    mt_text_add(&title, "Run %" PRId64 "%s%s", run->run.id, name != NULL ? ": " : "", name != NULL ? name : "");
    snprintf(key, sizeof key, "run-%" PRId64, run->run.id);
    mt_page_section(report->page, key, mt_text_get(&title));
    mt_text_release(&title);
    mt_status status = add_roles(report, run);
    MT_THEN(status, add_groups(report, run, MT_GROUP_CATEGORY, "categories", "The same by category"));
    MT_THEN(status, add_groups(report, run, MT_GROUP_MODULE, "modules", "The same by module"));
    MT_THEN(status, add_phases(report, run));
    return status;
}

/* Finds the newest shown runs, newest first; returns their number. */
static size_t find_newest(const struct mt_report *report, const struct mt_run *newest[MOST_LISTED], size_t *out_all)
{
    size_t count, found = 0;
    const struct mt_run *runs = mt_trace_runs(report->trace, &count);
    *out_all = 0;
    for (size_t i = count; i-- > 0;) {
        *out_all += is_shown(&runs[i]);
        if (is_shown(&runs[i]) && found < MOST_LISTED)
            newest[found++] = &runs[i];
    }
    return found;
}

mt_status mt_report_own(struct mt_report *report)
{
    const struct mt_run *newest[MOST_LISTED];
    struct own_run runs[MOST_LISTED];
    size_t all, count = find_newest(report, newest, &all), loaded = 0;
    mt_status status = MT_OK;
    mt_page_section(report->page, "own-runs", "Your runs");
    if (all > count)
        mt_page_say(report->page, "These are the newest %zu of %zu.", count, all);
    mt_page_table(report->page, "own-runs", "Your runs, newest first", &run_type, NULL, 0);
    while (loaded < count && status == MT_OK) {
        status = load(report->trace, newest[loaded], &runs[loaded]);
        if (status == MT_OK)
            add_to_list(report, &runs[loaded], loaded < MOST_RUNS);
        loaded++;
    }
    mt_page_chart(report->page, "allocated", "reserved", NULL);
    for (size_t i = 0; i < count && i < MOST_RUNS && status == MT_OK; i++)
        status = add_run(report, &runs[i]);
    for (size_t i = 0; i < loaded; i++)
        own_run_release(&runs[i]);
    return status;
}
