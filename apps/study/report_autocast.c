/* The section of autocast: the peaks, their difference from fp32, and the causes of the difference. */
#include "analysis/diff/diff.h"
#include "base/memory.h"
#include "study/report_runs.h"
#include "words/diff_words.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 1024.0 * 1024 * 1024;

static const struct mt_field pair_fields[] = {
    MT_COLUMN(TEXT, const char *, struct mt_report_pair, autocast.pass, "pass"),
    MT_COLUMN(TEXT, const char *, struct mt_report_pair, autocast.autocast, "autocast"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_pair, autocast.seq, "seq"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_pair, baseline.allocated.bytes, "allocated, fp32"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_pair, autocast.allocated.bytes, "allocated, autocast"),
    MT_COLUMN(DIFFERENCE, int64_t, struct mt_report_pair, allocated_bytes, "difference"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_pair, baseline.reserved.bytes, "reserved, fp32"),
    MT_COLUMN(BYTES, uint64_t, struct mt_report_pair, autocast.reserved.bytes, "reserved, autocast"),
    MT_COLUMN(DIFFERENCE, int64_t, struct mt_report_pair, reserved_bytes, "difference, reserved"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_pair, measured, "PyTorch on H200"),
    MT_COLUMN(FIGURE, struct mt_figure, struct mt_report_pair, published, "published"),
    MT_FIELDS_END,
};

/* Writes how close the differences are to published and measured ones. */
static void say_nearness(struct mt_page *page, const struct mt_report_pairs *pairs)
{
    double measured = -1, published = -1;
    bool has_first = false;
    for (size_t i = 0; i < pairs->autocast.count; i++) {
        const struct mt_report_pair *pair = &pairs->pairs[i];
        if (pair->measured.text[0] == '\0')
            continue;
        const struct mt_published_cell *cell = pair->baseline.published;
        double gib = (double)pair->reserved_bytes / GIB;
        measured = fmax(measured, fabs(gib - (double)pair->measured.bytes / GIB));
        published = fmax(published, fabs(gib - pair->autocast.published->autocast_gib)); /* ignores NAN */
        has_first = has_first || (strcmp(cell->mode, "fwd") == 0 && strcmp(cell->seq, "128") == 0);
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
    const struct mt_report_axes *axes;       /* in which it differs from the page's other groups */
    struct mt_diff *diffs;
    size_t count; /* number of diffs and runs */
};

static mt_status load_group(struct mt_report *report, const struct mt_report_pairs *pairs, size_t begin, size_t end,
                            struct group *out)
{
    mt_status status = MT_OK;
    assert(begin < end && end <= pairs->autocast.count);
    out->runs = pairs->autocast.runs + begin;
    out->diffs = mt_host_alloc((end - begin) * sizeof *out->diffs);
    for (size_t i = begin; i < end && status == MT_OK; i++) {
        const struct mt_question a = {.trace = report->trace, .run = &pairs->pairs[i].baseline.run};
        const struct mt_question b = {.trace = report->trace, .run = &pairs->pairs[i].autocast.run};
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

/* A row of causes: the text, then the bytes at each length. */
struct cause_row {
    char *text; /* owned */
    mt_cause kind;
    int64_t bytes[];
};

/* The rows of a group. Causes with equal kind and text are one row; their texts also contain category and direction. */
struct causes {
    struct mt_row_type type; /* of rows */
    char *rows;
    size_t count;
};

/* Returns the row with this number, which may be the one after the last. */
static struct cause_row *row_at(const struct causes *causes, size_t number)
{
    assert(number <= causes->count);
    return (struct cause_row *)(causes->rows + number * causes->type.bytes);
}

static struct cause_row *find_or_add(struct causes *causes, mt_cause kind, const char *text)
{
    for (size_t i = 0; i < causes->count; i++)
        if (row_at(causes, i)->kind == kind && strcmp(row_at(causes, i)->text, text) == 0)
            return row_at(causes, i);
    causes->rows = mt_host_room(causes->rows, causes->count, causes->type.bytes);
    struct cause_row *row = row_at(causes, causes->count++);
    memset(row, 0, causes->type.bytes);
    row->kind = kind;
    row->text = mt_host_strdup(text);
    return row;
}

/* Returns a column for the texts and one for each length. The caller frees the columns and all headings except the
 * first. */
static struct mt_field *cause_fields(const struct group *group)
{
    struct mt_field *fields = mt_host_alloc((group->count + 2) * sizeof *fields);
    fields[0] = (struct mt_field)MT_COLUMN(TEXT, char *, struct cause_row, text, "difference at the allocated peak");
    for (size_t i = 0; i < group->count; i++) {
        struct mt_text title = {0};
        mt_text_add(&title, "seq %s", group->runs[i]->seq_text);
        fields[i + 1] = (struct mt_field){.kind = MT_FIELD_DIFFERENCE,
                                          .name = title.data,
                                          .heading = title.data,
                                          .offset = offsetof(struct cause_row, bytes) + i * sizeof(int64_t)};
    }
    return fields;
}

static void add_causes(struct mt_page *page, const struct group *group)
{
    struct mt_field *fields = cause_fields(group);
    struct causes causes = {.type = {sizeof(struct cause_row) + group->count * sizeof(int64_t), fields}};
    struct mt_text title = {0};
    for (size_t i = 0; i < group->count; i++)
        for (size_t j = 0; j < group->diffs[i].allocated.cause_count; j++) {
            const struct mt_diff_cause *cause = &group->diffs[i].allocated.causes[j];
            struct mt_text cause_title = {0};
            mt_diff_cause_add_title(&group->diffs[i], cause, &cause_title);
            find_or_add(&causes, cause->kind, mt_text_get(&cause_title))->bytes[i] += cause->bytes;
            mt_text_release(&cause_title);
        }
    size_t count = causes.count;
    struct cause_row *sum = find_or_add(&causes, MT_CAUSE_COUNT, "sum");
    for (size_t i = 0; i < group->count; i++)
        sum->bytes[i] = group->diffs[i].allocated.delta_bytes;
    mt_text_add(&title, "What autocast adds and takes: ");
    mt_report_describe(group->axes, group->runs[0], &title);
    mt_page_table(page, "causes", title.data, &causes.type, causes.rows, count);
    mt_page_chart(page, fields[1].heading, fields[group->count > 1 ? group->count : 1].heading, NULL);
    mt_page_row(page, &causes.type, row_at(&causes, count));
    for (size_t i = 1; i <= group->count; i++)
        free((char *)fields[i].heading);
    for (size_t i = 0; i < causes.count; i++)
        free(row_at(&causes, i)->text);
    free(fields);
    free(causes.rows);
    mt_text_release(&title);
}

static int sign_of(const struct mt_diff *diff)
{
    return (diff->allocated.delta_bytes > 0) - (diff->allocated.delta_bytes < 0);
}

/* Adds "higher at 128 and 256" for the lengths whose difference has this sign. Returns false if there are none. */
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

/* Adds "+1.50 GiB, +2.00 GiB and -3.00 GiB", or one size "at every length". */
static void add_sizes(struct mt_text *out, const struct group *group, int64_t (*bytes)(const struct mt_diff *diff))
{
    bool all_equal = group->count > 1;
    for (size_t i = 1; i < group->count; i++)
        all_equal = all_equal && bytes(&group->diffs[i]) == bytes(&group->diffs[0]);
    size_t shown = all_equal ? 1 : group->count;
    for (size_t i = 0; i < shown; i++) {
        mt_report_join(out, i, shown);
        mt_text_add(out, "%s", MT_SIZE_DIFFERENCE(bytes(&group->diffs[i])));
    }
    if (all_equal)
        mt_text_add(out, " at every length");
}

static int64_t other_bytes(const struct mt_diff *diff)
{
    return diff->allocated.delta_bytes - cast_bytes(diff);
}

/* Adds the reason: the bytes of weight copies, compared with all other causes. */
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
    mt_text_add(out,
                all ? ", because %s copies of weights, kept for the length of the autocast region, change it by "
                    : " Copies of weights in %s change it by ",
                group->runs[0]->autocast);
    add_sizes(out, group, cast_bytes);
    mt_text_add(out, " and everything else by ");
    add_sizes(out, group, other_bytes);
    mt_text_add(out, ".");
}

/* Writes at which lengths the peak is higher or lower. For the first printed group, the page also begins with it. */
static void say_direction(struct mt_page *page, const struct group *group, bool is_first)
{
    struct mt_text text = {0};
    mt_report_describe(group->axes, group->runs[0], &text);
    mt_text_add(&text, ": under autocast the allocated peak is ");
    bool follows = add_lengths(&text, group, 1, "higher", false);
    follows = add_lengths(&text, group, -1, "lower", follows) || follows;
    add_lengths(&text, group, 0, "the same", follows);
    add_reason(&text, group);
    (is_first ? mt_page_find : mt_page_say)(page, "%s", text.data);
    mt_text_release(&text);
}

/* Returns the number of lengths in the longest group. */
static size_t longest_group(const struct mt_report_rows *rows)
{
    size_t longest = 0;
    for (size_t begin = 0, end; begin < rows->count; begin = end) {
        end = mt_report_group_end(rows, begin);
        longest = end - begin > longest ? end - begin : longest;
    }
    return longest;
}

static mt_status add_groups(struct mt_report *report, const struct mt_report_pairs *pairs)
{
    const struct mt_report_axes axes = mt_report_axes_of(&pairs->autocast);
    size_t least = longest_group(&pairs->autocast) > 1 ? 2 : 1; /* groups with one length only if no group has more */
    mt_status status = MT_OK;
    bool is_first = true;
    for (size_t begin = 0, end; begin < pairs->autocast.count && status == MT_OK; begin = end) {
        struct group group = {.axes = &axes};
        end = mt_report_group_end(&pairs->autocast, begin);
        if (end - begin < least)
            continue;
        status = load_group(report, pairs, begin, end, &group);
        if (status == MT_OK) {
            add_causes(report->page, &group);
            say_direction(report->page, &group, is_first);
            is_first = false;
        }
        group_release(&group);
    }
    return status;
}

mt_status mt_report_autocast(struct mt_report *report)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    mt_status status = MT_OK;
    mt_page_section(report->page, "autocast", "Peaks under autocast");
    mt_report_peak_tables(report, MT_REPORT_AUTOCAST);
    if (pairs.autocast.count > 0) {
        mt_report_table(report, &pairs.autocast, "comparison",
                        "fp32 against autocast; PyTorch's and the published difference are of reserved bytes",
                        pair_fields);
        mt_page_chart(report->page, "allocated, fp32", "allocated, autocast", NULL);
        say_nearness(report->page, &pairs);
        status = add_groups(report, &pairs);
    } else {
        mt_page_hint(report->page, report->remedies[MT_LACKS_AUTOCAST_PAIRS],
                     "No two runs differ in autocast only, so there is nothing to compare");
    }
    mt_report_pairs_release(&pairs);
    return status;
}
