/* Peaks by sequence length, next to published figures and PyTorch's measurements, and the runs that did not fit. */
#include "study/report_runs.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 1024.0 * 1024 * 1024;

/* The workspace of backward's matrix products. Measured processes that had run backward before still held it. */
enum { BACKWARD_WORKSPACE_BYTES = 33554432 };

/* True for forward runs except the first: they shared a process with full steps (tests/data/pytorch_h200.json). */
static bool held_backward_workspace(const struct mt_published_cell *cell)
{
    bool is_first = strcmp(cell->seq, "128") == 0 && strcmp(cell->autocast, "off") == 0;
    return strcmp(cell->mode, "fwd") == 0 && !is_first;
}

static const struct mt_field plain_fields[] = {
    MT_COLUMN(TEXT, const char *, struct mt_report_run, pass, "pass"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, steps.precision, "precision"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, seq, "seq"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, allocated_peak, "allocated"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, reserved_peak, "reserved"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, after_step, "after a step"),
    MT_FIELDS_END,
};
static const struct mt_field published_fields[] = {
    MT_COLUMN(TEXT, const char *, struct mt_report_run, pass, "pass"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, seq, "seq"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, allocated_peak, "allocated"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, measured_allocated, "PyTorch on H200"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, allocated_difference, "difference"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, reserved_peak, "reserved"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, measured_reserved, "PyTorch on H200"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, reserved_difference, "difference"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, published_reserved, "published reserved"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, after_step, "after a step"),
    MT_FIELDS_END,
};

/* Rows with published figures, or those without. */
typedef enum origin { ORIGIN_PUBLISHED, ORIGIN_OTHER } origin;

static struct mt_report_rows select_rows(const struct mt_report *report, mt_report_precision precision, origin wanted)
{
    struct mt_report_rows rows = mt_report_select(report, precision);
    size_t kept = 0;
    for (size_t i = 0; i < rows.count; i++)
        if ((rows.runs[i]->comparable != NULL) == (wanted == ORIGIN_PUBLISHED))
            rows.runs[kept++] = rows.runs[i];
    rows.count = kept;
    return rows;
}

/* The difference between memtrace's figures and others. Invariant: with_workspace <= rows. */
struct distance {
    size_t rows, with_workspace;
    int64_t allocated, reserved; /* the largest, without the workspace */
    double allocated_percent, reserved_percent;
    double published_gib;
};

static void widen(int64_t difference, uint64_t measured, int64_t *most, double *percent)
{
    if (llabs(difference) < llabs(*most))
        return;
    *most = difference;
    *percent = 100 * fabs((double)difference) / (double)measured;
}

static struct distance distance_of(const struct mt_report_rows *rows)
{
    struct distance distance = {0};
    for (size_t i = 0; i < rows->count; i++) {
        const struct mt_report_run *run = rows->runs[i];
        const struct mt_published_cell *cell = run->published;
        if (run->measured_reserved.text[0] == '\0')
            continue;
        int64_t workspace = held_backward_workspace(cell) ? BACKWARD_WORKSPACE_BYTES : 0;
        distance.rows++;
        distance.with_workspace += workspace > 0;
        widen((int64_t)(run->allocated.bytes - cell->measured_allocated_bytes) + workspace,
              cell->measured_allocated_bytes, &distance.allocated, &distance.allocated_percent);
        widen((int64_t)(run->reserved.bytes - cell->measured_reserved_bytes) + workspace, cell->measured_reserved_bytes,
              &distance.reserved, &distance.reserved_percent);
        if (!isnan(cell->reserved_gib))
            distance.published_gib =
                fmax(distance.published_gib, fabs((double)run->reserved.bytes / GIB - cell->reserved_gib));
    }
    return distance;
}

static void say_distance(struct mt_page *page, const struct mt_report_rows *rows)
{
    struct distance distance = distance_of(rows);
    assert(distance.with_workspace <= distance.rows && distance.rows <= rows->count);
    char allocated[MT_BYTES_TEXT], reserved[MT_BYTES_TEXT];
    if (distance.rows == 0)
        return;
    mt_format_bytes((uint64_t)llabs(distance.allocated), allocated);
    mt_format_bytes((uint64_t)llabs(distance.reserved), reserved);
    struct mt_text text = {0};
    mt_text_add(&text, "Allocated peaks are ");
    if (distance.allocated == 0)
        mt_text_add(&text, "equal to PyTorch's on an H200, to the byte");
    else
        mt_text_add(&text, "within %s (%.3f %%) of PyTorch's on an H200", allocated, distance.allocated_percent);
    if (distance.with_workspace > 0)
        mt_text_add(&text,
                    " less a workspace of %s in %zu forward rows, which backward had left there in the same process",
                    MT_SIZE(BACKWARD_WORKSPACE_BYTES), distance.with_workspace);
    mt_page_find(page, "%s; reserved ones are within %s (%.3f %%), and within %.2f GiB of the published figures.",
                 text.data, reserved, distance.reserved_percent, distance.published_gib);
    mt_text_release(&text);
}

/* Returns the bytes of the training state at the peak: parameters, their gradients, and the optimizer's moments. */
static uint64_t state_bytes(const struct mt_report_run *run)
{
    static const char *const categories[] = {"Param", "Gradient", "Opt State"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < run->allocated.share_count; i++)
        for (size_t j = 0; j < sizeof categories / sizeof categories[0]; j++)
            if (strcmp(run->allocated.shares[i].name, categories[j]) == 0)
                bytes += run->allocated.shares[i].allocated_bytes;
    return bytes;
}

/* Adds "12.82 GiB at either length", or "5.51 GiB (at 128) and 30.94 GiB (at 512)". */
static void add_two_sizes(struct mt_text *out, const struct mt_report_run *const runs[2], const uint64_t bytes[2])
{
    char a[MT_BYTES_TEXT], b[MT_BYTES_TEXT];
    mt_format_bytes(bytes[0], a);
    mt_format_bytes(bytes[1], b);
    if (strcmp(a, b) == 0)
        mt_text_add(out, "%s at either length", a);
    else
        mt_text_add(out, "%s (at %s) and %s (at %s)", a, runs[0]->seq_text, b, runs[1]->seq_text);
}

/* Adds a sentence: mt_page_say or mt_page_find. */
typedef void say_function(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes how the peak grows from the shortest to the longest sequence of a group. */
static void say_growth(struct mt_page *page, say_function *say, const struct mt_report_axes *axes,
                       const struct mt_report_run *first, const struct mt_report_run *last)
{
    struct mt_text text = {0};
    if (first->seq == last->seq || first->allocated.bytes == 0)
        return;
    bool is_step = strcmp(first->mode, "fwd_bwd") == 0;
    assert(first->seq < last->seq && strcmp(first->mode, last->mode) == 0);
    const struct mt_report_run *const runs[] = {first, last};
    const uint64_t state[] = {state_bytes(first), state_bytes(last)};
    const uint64_t rest[] = {first->allocated.bytes - state[0], last->allocated.bytes - state[1]};
    mt_report_describe(axes, first, &text);
    mt_text_add(&text,
                ", %s: for %.3g times the tokens (%s to %s) the allocated peak grows %.3g times, from %s to %s. ",
                first->steps.precision, (double)last->seq / (double)first->seq, first->seq_text, last->seq_text,
                (double)last->allocated.bytes / (double)first->allocated.bytes, MT_SIZE(first->allocated.bytes),
                MT_SIZE(last->allocated.bytes));
    mt_text_add(&text, "Of it %s take ", is_step ? "parameters, gradients and optimizer state" : "the parameters");
    add_two_sizes(&text, runs, state);
    mt_text_add(&text, "; the rest is ");
    add_two_sizes(&text, runs, rest);
    say(page, "%s.", text.data);
    mt_text_release(&text);
}

/* Writes the growth of each group, which is named by the axes in which runs of the page differ. The page also begins
 * with the growth of the group with most runs. */
static void say_group_growth(const struct mt_report *report, const struct mt_report_rows *rows)
{
    const struct mt_report_axes axes = mt_report_all_axes(report);
    size_t lead, lead_end;
    mt_report_lead(rows, &lead, &lead_end);
    for (size_t begin = 0, end; begin < rows->count; begin = end) {
        end = mt_report_group_end(rows, begin);
        const struct mt_report_run *last = mt_report_last_whole(rows, begin, end);
        if (last != NULL && !rows->runs[begin]->is_oom)
            say_growth(report->page, begin == lead ? mt_page_find : mt_page_say, &axes, rows->runs[begin], last);
    }
}

/* Returns the number of distinct published cells in the rows, on any device. */
static size_t count_present(const struct mt_report_rows *rows)
{
    size_t found = 0;
    for (size_t i = 0; i < rows->count; i++) {
        bool is_new = true;
        for (size_t j = 0; j < i; j++)
            is_new = is_new && rows->runs[j]->published != rows->runs[i]->published;
        found += is_new;
    }
    return found;
}

static void hint_at_study(struct mt_report *report, const struct mt_report_rows *published,
                          mt_report_precision precision)
{
    size_t there = count_present(published), all = mt_published_count(precision == MT_REPORT_FP32 ? "off" : "bf16");
    assert(there <= all);
    struct mt_text reason = {0};
    if (there == all)
        return;
    mt_text_add(&reason, "The trace has %zu of the %zu published configurations of this table", there, all);
    mt_page_hint(report->page, report->remedies[MT_LACKS_PUBLISHED], reason.data);
    mt_text_release(&reason);
}

void mt_report_peak_tables(struct mt_report *report, mt_report_precision precision)
{
    struct mt_report_rows published = select_rows(report, precision, ORIGIN_PUBLISHED);
    struct mt_report_rows other = select_rows(report, precision, ORIGIN_OTHER);
    if (published.count > 0) {
        mt_report_table(report, &published, "published", "Peaks of the published configuration", published_fields);
        mt_page_chart(report->page, "allocated", "PyTorch on H200", NULL);
        say_distance(report->page, &published);
        say_group_growth(report, &published);
    }
    hint_at_study(report, &published, precision);
    if (other.count > 0) {
        mt_report_table(report, &other, "peaks", published.count > 0 ? "Peaks of other configurations" : "Peaks",
                        plain_fields);
        mt_page_chart(report->page, "allocated", "reserved", NULL);
        say_group_growth(report, &other);
    }
    mt_report_rows_release(&published);
    mt_report_rows_release(&other);
}

static const struct mt_field refusal_fields[] = {
    MT_COLUMN(TEXT, const char *, struct mt_report_run, pass, "pass"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, steps.precision, "precision"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, seq, "seq"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_run, run.capacity_bytes, "card has"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_run, allocated.bytes, "allocated"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_run, reserved.bytes, "reserved"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_run, refused_bytes, "asked for"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, steps.oom_category, "for"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, steps.oom_span, "by"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_run, published_reserved, "published reserved"),
    MT_FIELDS_END,
};

/* Writes how many runs did not fit, and the refused request of the first. */
static void find_refusal(struct mt_report *report, const struct mt_report_run *run, size_t count)
{
    mt_page_find(
        report->page,
        "%zu of %zu runs ended out of memory. %s, %s, seq %s, %s on %s asked for %s (%s) with %s of %s reserved.",
        count, report->run_count, run->model, run->pass, run->seq_text, run->steps.precision, run->run.device,
        MT_SIZE(run->refused_bytes), run->steps.oom_category, MT_SIZE(run->reserved.bytes),
        MT_SIZE(run->run.capacity_bytes));
}

/* Adds the runs that did not fit. */
static void add_refusals(struct mt_report *report)
{
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_ANY);
    size_t kept = 0;
    for (size_t i = 0; i < rows.count; i++)
        if (rows.runs[i]->is_oom)
            rows.runs[kept++] = rows.runs[i];
    rows.count = kept;
    if (kept > 0) {
        mt_report_table(report, &rows, "out-of-memory", "Runs that ended out of memory, peaks until then",
                        refusal_fields);
        mt_page_chart(report->page, "card has", "reserved", NULL);
        find_refusal(report, rows.runs[0], kept);
    }
    mt_report_rows_release(&rows);
}

/* Writes which runs fit in 80 GiB or less although they were published as out of memory. */
static void say_narrow_fits(struct mt_report *report)
{
    static const double card_bytes = 80 * 1024.0 * 1024 * 1024;
    for (size_t i = 0; i < report->run_count; i++) {
        const struct mt_report_run *run = &report->runs[i];
        if (run->is_oom || run->comparable == NULL || !isnan(run->published->reserved_gib) ||
            (double)run->run.capacity_bytes > card_bytes)
            continue;
        mt_page_say(
            report->page,
            "On %s the %s in %s at %s fits, with %s of %s reserved. It was published as out of memory on a card "
            "of 80 GB, where the driver and CUDA's context also need memory.",
            run->run.device, run->pass, run->steps.precision, run->seq_text, MT_SIZE(run->reserved.bytes),
            MT_SIZE(run->run.capacity_bytes));
    }
}

/* Adds the parts of a peak, largest categories first: "Opt State has 25.38 GiB of it, Param 12.69 GiB, …". */
static void add_largest_shares(struct mt_text *out, const struct mt_peak_row *peak)
{
    enum { SHARES_SAID = 4 };
    size_t said = peak->share_count < SHARES_SAID ? peak->share_count : SHARES_SAID;
    for (size_t i = 0; i < said; i++) {
        mt_report_join(out, i, said);
        mt_text_add(out, i == 0 ? "%s has %s of it" : "%s %s", peak->shares[i].name,
                    MT_SIZE(peak->shares[i].allocated_bytes));
    }
}

/* Writes which run has the highest peak of those that fit, and its parts. */
static void find_highest(struct mt_report *report)
{
    const struct mt_report_run *highest = NULL;
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_ANY); /* the runs in the tables */
    struct mt_text shares = {0};
    for (size_t i = 0; i < rows.count; i++)
        if (!rows.runs[i]->is_oom && (highest == NULL || rows.runs[i]->allocated.bytes > highest->allocated.bytes))
            highest = rows.runs[i];
    mt_report_rows_release(&rows);
    if (highest == NULL || highest->allocated.share_count == 0)
        return;
    add_largest_shares(&shares, &highest->allocated);
    mt_page_find(report->page, "The highest peak is %s allocated, %s reserved: %s, %s, seq %s, %s on %s. %s.",
                 MT_SIZE(highest->allocated.bytes), MT_SIZE(highest->reserved.bytes), highest->model, highest->pass,
                 highest->seq_text, highest->steps.precision, highest->run.device, mt_text_get(&shares));
    mt_text_release(&shares);
}

/* Names the option that published forward passes may need, unless a run has it. */
static void hint_at_kept_output(struct mt_report *report)
{
    bool has_forward = false, keeps = false;
    for (size_t i = 0; i < report->run_count; i++) {
        has_forward = has_forward || strcmp(report->runs[i].mode, "fwd") == 0;
        keeps = keeps || strcmp(mt_settings_value(&report->runs[i].settings, "keep_output"), "on") == 0;
    }
    if (has_forward && !keeps)
        mt_page_hint(report->page, report->remedies[MT_LACKS_KEPT_OUTPUT],
                     "A loop that keeps its last output, as logits = model(x) does, has two graphs at the peak of a "
                     "forward pass");
}

mt_status mt_report_peaks(struct mt_report *report)
{
    mt_page_section(report->page, "peaks", "Peaks in fp32");
    find_highest(report);
    mt_report_peak_tables(report, MT_REPORT_FP32);
    hint_at_kept_output(report);
    add_refusals(report);
    say_narrow_fits(report);
    return MT_OK;
}
