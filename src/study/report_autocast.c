/* The peaks under autocast, how they compare with fp32, and what the difference is made of. */
#include "analysis/diff.h"
#include "base/memory.h"
#include "study/report_sections.h"
#include "words/diff_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 1024.0 * 1024 * 1024;

/* A difference as it is shown beside published ones, which have two digits. */
static void add_gib(struct mt_page *page, double gib)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, "%+.2f GiB", gib);
    if (isnan(gib))
        mt_page_cell_absent(page);
    else
        mt_page_cell_number(page, gib, text);
}

static void add_others(struct mt_page *page, const struct mt_report_run *baseline, const struct mt_report_run *autocast)
{
    const struct mt_published_cell *a = baseline->published, *b = autocast->published;
    if (a == NULL || b == NULL || !mt_report_is_prediction(autocast)) {
        mt_page_cell_absent(page);
        mt_page_cell_absent(page);
        return;
    }
    mt_page_cell_difference(page, (int64_t)(b->measured_reserved_bytes - a->measured_reserved_bytes));
    add_gib(page, b->autocast_gib);
}

static void add_pair(struct mt_page *page, const struct mt_report_columns *columns, const struct mt_report_pairs *pairs,
                     size_t index)
{
    const struct mt_report_run *baseline = pairs->baselines[index], *autocast = pairs->autocast.runs[index];
    mt_report_axis_cells(page, columns, autocast);
    mt_page_cell(page, mt_report_mode(autocast));
    mt_page_cell_count(page, autocast->seq);
    mt_page_cell_bytes(page, baseline->allocated.bytes);
    mt_page_cell_bytes(page, autocast->allocated.bytes);
    mt_page_cell_difference(page, (int64_t)(autocast->allocated.bytes - baseline->allocated.bytes));
    mt_page_cell_bytes(page, baseline->reserved.bytes);
    mt_page_cell_bytes(page, autocast->reserved.bytes);
    mt_page_cell_difference(page, (int64_t)(autocast->reserved.bytes - baseline->reserved.bytes));
    add_others(page, baseline, autocast);
}

static void add_comparison(struct mt_page *page, const struct mt_report_pairs *pairs)
{
    static const char *const titles[] = {"seq",
                                         "allocated, fp32",
                                         "allocated, autocast",
                                         "difference",
                                         "reserved, fp32",
                                         "reserved, autocast",
                                         "difference, reserved",
                                         "PyTorch on H200",
                                         "published"};
    struct mt_report_columns columns = mt_report_columns_of(&pairs->autocast);
    mt_report_column(&columns, "pass", MT_ALIGN_LEFT);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        mt_report_column(&columns, titles[i], MT_ALIGN_RIGHT);
    mt_report_table(page, &pairs->autocast, &columns, "comparison",
                    "fp32 against bf16 autocast; PyTorch's and the published difference are of reserved bytes");
    for (size_t i = 0; i < pairs->autocast.count; i++)
        add_pair(page, &columns, pairs, i);
}

/* How near the differences are to others'. */
static void say_nearness(struct mt_page *page, const struct mt_report_pairs *pairs)
{
    double measured = -1, published = -1;
    bool has_first = false;
    for (size_t i = 0; i < pairs->autocast.count; i++) {
        const struct mt_report_run *baseline = pairs->baselines[i], *autocast = pairs->autocast.runs[i];
        const struct mt_published_cell *a = baseline->published, *b = autocast->published;
        if (a == NULL || b == NULL || !mt_report_is_prediction(autocast))
            continue;
        double gib = ((double)autocast->reserved.bytes - (double)baseline->reserved.bytes) / GIB;
        double theirs = ((double)b->measured_reserved_bytes - (double)a->measured_reserved_bytes) / GIB;
        measured = fmax(measured, fabs(gib - theirs));
        published = fmax(published, fabs(gib - b->autocast_gib)); /* not where that is NAN */
        has_first = has_first || (strcmp(a->mode, "fwd") == 0 && strcmp(a->seq, "128") == 0);
    }
    if (measured < 0)
        return;
    struct mt_text text = {0};
    mt_text_add(&text, "Differences of reserved bytes are within %.2f GiB of those that PyTorch measured", measured);
    if (published >= 0)
        mt_text_add(&text, ", and within %.2f GiB of the published ones", published);
    mt_page_say(page, "%s.", text.data);
    mt_text_release(&text);
    if (has_first)
        mt_page_say(page,
                    "PyTorch's forward pass at 128 in fp32, the first of its process, held one workspace of 32 MiB "
                    "less than the one under autocast, which is 0.03 GiB of its difference.");
}

/* The differences of a group's pairs, shortest sequence first. */
struct group {
    const struct mt_report_run *const *runs; /* under autocast */
    struct mt_report_columns columns;        /* of all groups */
    struct mt_diff *diffs;
    size_t count;
};

static mt_status load_group(struct mt_report *report, const struct mt_report_pairs *pairs, size_t begin, size_t end,
                            struct group *out)
{
    *out = (struct group){.runs = pairs->autocast.runs + begin, .columns = mt_report_columns_of(&pairs->autocast)};
    out->diffs = mt_host_alloc((end - begin) * sizeof *out->diffs);
    mt_status status = MT_OK;
    for (size_t i = begin; i < end && status == MT_OK; i++) {
        const struct mt_question a = {.trace = report->trace, .run = pairs->baselines[i]->run};
        const struct mt_question b = {.trace = report->trace, .run = pairs->autocast.runs[i]->run};
        status = mt_trace_diff(&a, &b, &out->diffs[out->count++]);
    }
    return status;
}

static void group_release(struct group *group)
{
    for (size_t i = 0; i < group->count; i++)
        mt_diff_release(&group->diffs[i]);
    free(group->diffs);
}

/* True if the title of the cause is `title`, which contains category and direction. */
static bool has_title(const struct mt_diff *diff, const struct mt_diff_cause *cause, const char *title)
{
    struct mt_text text = {0};
    mt_diff_cause_add_title(diff, cause, &text);
    bool is_same = strcmp(mt_text_get(&text), title) == 0;
    mt_text_release(&text);
    return is_same;
}

/* Returns the bytes of the cause of that kind and title; 0 if there is none. Causes with both equal are one row. */
static int64_t bytes_of(const struct mt_diff *diff, mt_cause kind, const char *title)
{
    for (size_t i = 0; i < diff->allocated.cause_count; i++)
        if (diff->allocated.causes[i].kind == kind && has_title(diff, &diff->allocated.causes[i], title))
            return diff->allocated.causes[i].bytes;
    return 0;
}

static bool was_shown(const struct group *group, size_t before, mt_cause kind, const char *title)
{
    for (size_t i = 0; i < before; i++)
        if (bytes_of(&group->diffs[i], kind, title) != 0)
            return true;
    return false;
}

/* Adds the row of a cause of diff `index`, unless it is a cause of an earlier diff, too. */
static void add_cause(struct mt_page *page, const struct group *group, size_t index, const struct mt_diff_cause *cause)
{
    struct mt_text text = {0};
    mt_diff_cause_add_title(&group->diffs[index], cause, &text);
    const char *title = mt_text_get(&text);
    if (!was_shown(group, index, cause->kind, title)) {
        mt_page_cell(page, title);
        for (size_t i = 0; i < group->count; i++)
            mt_page_cell_difference(page, bytes_of(&group->diffs[i], cause->kind, title));
    }
    mt_text_release(&text);
}

static void add_sum(struct mt_page *page, const struct group *group)
{
    mt_page_cell(page, "sum");
    for (size_t i = 0; i < group->count; i++)
        mt_page_cell_difference(page, group->diffs[i].allocated.delta_bytes);
}

/* In what it is another one than the page's other groups. */
static void describe_group(const struct group *group, struct mt_text *out)
{
    mt_report_describe(&group->columns, group->runs[0], out);
}

/* A column a length, after the one of causes; titles are the caller's. */
static struct mt_column *cause_columns(const struct group *group)
{
    struct mt_column *columns = mt_host_alloc((group->count + 1) * sizeof *columns);
    columns[0] = (struct mt_column){mt_host_strdup("difference at the allocated peak"), MT_ALIGN_LEFT};
    for (size_t i = 0; i < group->count; i++) {
        struct mt_text title = {0};
        mt_text_add(&title, "seq %s", group->runs[i]->seq_text);
        columns[i + 1] = (struct mt_column){title.data, MT_ALIGN_RIGHT};
    }
    return columns;
}

static void cause_columns_release(struct mt_column *columns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((char *)columns[i].title);
    free(columns);
}

static void add_causes(struct mt_page *page, const struct group *group)
{
    struct mt_column *columns = cause_columns(group);
    struct mt_text title = {0};
    mt_text_add(&title, "What autocast adds and takes: ");
    describe_group(group, &title);
    mt_page_table(page, "causes", title.data, columns, group->count + 1);
    for (size_t i = 0; i < group->count; i++)
        for (size_t j = 0; j < group->diffs[i].allocated.cause_count; j++)
            add_cause(page, group, i, &group->diffs[i].allocated.causes[j]);
    add_sum(page, group);
    cause_columns_release(columns, group->count + 1);
    mt_text_release(&title);
}

static int sign_of(const struct mt_diff *diff)
{
    return (diff->allocated.delta_bytes > 0) - (diff->allocated.delta_bytes < 0);
}

/* "higher at 128 and 256" of the lengths whose difference has that sign; false if there are none. */
static bool add_lengths(struct mt_text *out, const struct group *group, int sign, const char *word, bool follows)
{
    size_t total = 0, index = 0;
    for (size_t i = 0; i < group->count; i++)
        total += sign_of(&group->diffs[i]) == sign;
    if (total == 0)
        return false;
    mt_text_add(out, "%s%s at ", follows ? ", and " : "", word);
    for (size_t i = 0; i < group->count; i++)
        if (sign_of(&group->diffs[i]) == sign) {
            mt_report_join(out, index++, total);
            mt_text_add(out, "%s", group->runs[i]->seq_text);
        }
    return true;
}

static int64_t cast_bytes(const struct mt_diff *diff)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < diff->allocated.cause_count; i++)
        if (diff->allocated.causes[i].kind == MT_CAUSE_WEIGHT_CASTS)
            bytes += diff->allocated.causes[i].bytes;
    return bytes;
}

/* "+1.50 GiB, +2.00 GiB and -3.00 GiB", or one size "at every length". */
static void add_sizes(struct mt_text *out, const struct group *group, int64_t (*bytes)(const struct mt_diff *diff))
{
    char text[MT_BYTES_TEXT];
    bool all_equal = group->count > 1;
    for (size_t i = 1; i < group->count; i++)
        all_equal = all_equal && bytes(&group->diffs[i]) == bytes(&group->diffs[0]);
    size_t shown = all_equal ? 1 : group->count;
    for (size_t i = 0; i < shown; i++) {
        mt_report_join(out, i, shown);
        mt_text_add(out, "%s", mt_format_difference(bytes(&group->diffs[i]), text));
    }
    if (all_equal)
        mt_text_add(out, " at every length");
}

static int64_t other_bytes(const struct mt_diff *diff)
{
    return diff->allocated.delta_bytes - cast_bytes(diff);
}

/* Why: what the copies of weights add, against all the rest. */
static void add_reason(struct mt_text *out, const struct group *group)
{
    bool any = false, all = true;
    for (size_t i = 0; i < group->count; i++) {
        any = any || cast_bytes(&group->diffs[i]) > 0;
        all = all && cast_bytes(&group->diffs[i]) > 0;
    }
    if (!any) {
        mt_text_add(out, " No copy of a weight is live at the peaks.");
        return;
    }
    mt_text_add(out, all ? ", because bf16 copies of weights, kept for the length of the autocast region, change it by "
                         : " Copies of weights in bf16 change it by ");
    add_sizes(out, group, cast_bytes);
    mt_text_add(out, " and everything else by ");
    add_sizes(out, group, other_bytes);
    mt_text_add(out, ".");
}

static void say_direction(struct mt_page *page, const struct group *group)
{
    struct mt_text text = {0};
    describe_group(group, &text);
    mt_text_add(&text, ": under autocast the allocated peak is ");
    bool follows = add_lengths(&text, group, 1, "higher", false);
    follows = add_lengths(&text, group, -1, "lower", follows) || follows;
    add_lengths(&text, group, 0, "the same", follows);
    add_reason(&text, group);
    mt_page_say(page, "%s", text.data);
    mt_text_release(&text);
}

/* Groups of one length are shown where no group has more. */
static size_t longest_group(const struct mt_report_rows *rows)
{
    size_t longest = 0;
    for (size_t begin = 0; begin < rows->count;) {
        size_t end = mt_report_group_end(rows, begin);
        longest = end - begin > longest ? end - begin : longest;
        begin = end;
    }
    return longest;
}

static mt_status add_groups(struct mt_report *report, const struct mt_report_pairs *pairs)
{
    size_t least = longest_group(&pairs->autocast) > 1 ? 2 : 1;
    mt_status status = MT_OK;
    for (size_t begin = 0; begin < pairs->autocast.count && status == MT_OK;) {
        size_t end = mt_report_group_end(&pairs->autocast, begin);
        struct group group;
        if (end - begin >= least) {
            status = load_group(report, pairs, begin, end, &group);
            if (status == MT_OK) {
                add_causes(report->page, &group);
                say_direction(report->page, &group);
            }
            group_release(&group);
        }
        begin = end;
    }
    return status;
}

mt_status mt_report_autocast(struct mt_report *report)
{
    mt_page_section(report->page, "autocast", "Peaks under autocast");
    struct mt_report_pairs pairs = mt_report_pair(report);
    mt_status status = MT_OK;
    mt_report_peak_tables(report, "bf16");
    if (pairs.autocast.count > 0) {
        add_comparison(report->page, &pairs);
        say_nearness(report->page, &pairs);
        status = add_groups(report, &pairs);
    } else {
        mt_page_hint(report->page, report->remedies[MT_LACKS_AUTOCAST_PAIRS],
                     "No two runs differ in autocast only, so there is nothing to compare");
    }
    mt_report_pairs_release(&pairs);
    return status;
}
