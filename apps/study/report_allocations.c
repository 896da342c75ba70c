/* The sections of allocations: the size of one tensor of the residual stream, by formula and in the trace; the largest
 * allocation of each category; and the ten largest kinds of allocation.
 *
 * "Largest" has two meanings, and each column says which. Published tables include only forward; overall includes every
 * phase, as in `memtrace top`. They differ: in the 2.7B model at 512, softmax's largest is 128 MiB in forward and 256
 * MiB in backward. */
#include "base/checked.h"
#include "base/memory.h"
#include "study/report_runs.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the residual stream in one run. */
struct residual_row {
    const char *model, *precision;
    int64_t seq;
    struct mt_figure factors;
    uint64_t formula_bytes, measured_bytes;
    const char *verdict;
};

static const struct mt_field residual_fields[] = {
    MT_COLUMN(TEXT, const char *, struct residual_row, model, "model"),
    MT_COLUMN(TEXT, const char *, struct residual_row, precision, "precision"),
    MT_COLUMN(INTEGER, int64_t, struct residual_row, seq, "seq"),
    MT_COLUMN(FIGURE, struct mt_figure, struct residual_row, factors, "batch · seq · d_model · 4"),
    MT_COLUMN(BYTES, uint64_t, struct residual_row, formula_bytes, "by formula"),
    MT_COLUMN(BYTES, uint64_t, struct residual_row, measured_bytes, "in the trace"),
    MT_COLUMN(TEXT, const char *, struct residual_row, verdict, ""),
    MT_FIELDS_END,
};
static const struct mt_row_type residual_type = MT_ROW_TYPE(struct residual_row, residual_fields);

/* Sets batch · seq · d_model · 4, as text and as bytes; 0 bytes if that overflows. */
static void apply_formula(const struct mt_report_run *run, struct residual_row *out)
{
    enum { ELEMENT_BYTES = 4 };
    const int64_t factors[] = {run->batch, run->seq, run->d_model};
    uint64_t bytes = ELEMENT_BYTES;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        if (factors[i] < 0 || !mt_checked_mul(bytes, (uint64_t)factors[i], &bytes))
            bytes = 0;
    out->formula_bytes = bytes;
    out->factors = mt_figure_number(NAN, "%" PRId64 " · %" PRId64 " · %" PRId64 " · %d", run->batch, run->seq,
                                    run->d_model, ELEMENT_BYTES);
}

/* Finds the largest block in forward with the category of the sums x + f(x); 0 if there is none. */
static mt_status measure_stream(struct mt_report *report, const struct mt_run *run, uint64_t *out)
{
    struct mt_category_row *rows;
    size_t count;
    mt_status status = mt_trace_categories(report->trace, run, "forward", &rows, &count);
    *out = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (strcmp(rows[i].category, "Block") == 0)
            *out = rows[i].max_bytes;
    free(rows);
    return status;
}

/* True if an earlier row has the same model, batch, length and precision as row `index`. */
static bool was_before(const struct mt_report_rows *rows, size_t index)
{
    const struct mt_report_run *run = rows->runs[index];
    for (size_t i = 0; i < index; i++)
        if (strcmp(rows->runs[i]->model, run->model) == 0 && rows->runs[i]->batch == run->batch &&
            rows->runs[i]->seq == run->seq && strcmp(rows->runs[i]->autocast, run->autocast) == 0)
            return true;
    return false;
}

static mt_status add_residual_row(struct mt_report *report, const struct mt_report_run *run, size_t *equal)
{
    struct residual_row row = {.model = run->model, .precision = run->steps.precision, .seq = run->seq};
    MT_TRY(measure_stream(report, &run->run, &row.measured_bytes));
    apply_formula(run, &row);
    bool is_equal = row.measured_bytes == row.formula_bytes;
    row.verdict = is_equal ? "equal" : "different";
    *equal += is_equal;
    mt_page_row(report->page, &residual_type, &row);
    return MT_OK;
}

/* Keeps one row for each model, batch, length and precision. Each new row is compared with the kept ones. */
static void drop_repeated(struct mt_report_rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        rows->runs[kept] = rows->runs[i];
        kept += !was_before(rows, kept);
    }
    rows->count = kept;
}

static void say_residual(struct mt_page *page, const struct mt_report_rows *rows, size_t equal)
{
    bool any_autocast = false;
    for (size_t i = 0; i < rows->count; i++)
        any_autocast = any_autocast || strcmp(rows->runs[i]->autocast, "off") != 0;
    assert(equal <= rows->count);
    if (equal < rows->count)
        mt_page_say(page, "%zu of %zu rows are what the formula says.", equal, rows->count);
    else
        mt_page_say(page, "In every row the trace's tensor is what the formula says, to the byte.%s",
                    any_autocast ? " So the stream stays fp32 under autocast, too: it casts the operands of matrix "
                                   "products, not what they are added to."
                                 : "");
}

mt_status mt_report_residual(struct mt_report *report)
{
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_ANY);
    mt_status status = MT_OK;
    size_t equal = 0;
    drop_repeated(&rows);
    mt_page_section(report->page, "residual", "The residual stream");
    mt_page_table(report->page, "residual", "One tensor of the residual stream", &residual_type, NULL, 0);
    for (size_t i = 0; i < rows.count && status == MT_OK; i++)
        status = add_residual_row(report, rows.runs[i], &equal);
    if (status == MT_OK)
        say_residual(report->page, &rows, equal);
    mt_report_rows_release(&rows);
    return status;
}

/* A category in a run in fp32 and in one under autocast; all 0 if a run does not have it. */
struct category_pair {
    const char *category;
    struct mt_category_row baseline, autocast; /* max_bytes in forward; no category: not in the run */
    uint64_t overall[2];                       /* the largest in any phase, in fp32 and under autocast */
    int64_t difference;
    struct mt_figure published[2]; /* in fp32 and under autocast */
};

static const struct {
    struct mt_field field;
    bool of_pair, of_published;
} category_columns[] = {
    {MT_COLUMN(TEXT, const char *, struct category_pair, category, "category"), false, false},
    {MT_COLUMN(BYTES, uint64_t, struct category_pair, baseline.max_bytes, "largest in forward, fp32"), false, false},
    {MT_COLUMN(BYTES, uint64_t, struct category_pair, autocast.max_bytes, "autocast"), true, false},
    {MT_COLUMN(DIFFERENCE, int64_t, struct category_pair, difference, "difference"), true, false},
    {MT_COLUMN(FIGURE, struct mt_figure, struct category_pair, published[0], "published, fp32"), false, true},
    {MT_COLUMN(FIGURE, struct mt_figure, struct category_pair, published[1], "published, autocast"), true, true},
    {MT_COLUMN(BYTES, uint64_t, struct category_pair, overall[0], "largest overall, fp32"), false, false},
    {MT_COLUMN(BYTES, uint64_t, struct category_pair, overall[1], "overall, autocast"), true, false},
    {MT_COLUMN(COUNT, uint64_t, struct category_pair, baseline.per_step, "a step, fp32"), false, false},
    {MT_COLUMN(COUNT, uint64_t, struct category_pair, autocast.per_step, "a step, autocast"), true, false},
};
enum { CATEGORY_COLUMNS = sizeof category_columns / sizeof category_columns[0] };

/* The categories of two runs, starting with the first run's. `autocast` is NULL if there is only fp32. */
struct comparison {
    const struct mt_report_run *baseline, *autocast;
    struct category_pair *pairs;
    size_t count;
};

static struct category_pair *find_or_add(struct comparison *comparison, const char *category)
{
    for (size_t i = 0; i < comparison->count; i++)
        if (strcmp(comparison->pairs[i].category, category) == 0)
            return &comparison->pairs[i];
    comparison->pairs = mt_host_room(comparison->pairs, comparison->count, sizeof *comparison->pairs);
    struct category_pair *pair = &comparison->pairs[comparison->count++];
    *pair = (struct category_pair){.category = category};
    return pair;
}

/* Returns the largest in forward or, for categories that forward never allocates (parameters, gradients, optimizer
 * state), overall. */
static uint64_t published_bytes(const struct mt_category_row *row)
{
    return row->forward_bytes > 0 ? row->forward_bytes : row->max_bytes;
}

static mt_status load_run(struct mt_report *report, const struct mt_run *run, struct comparison *comparison, int side)
{
    struct mt_category_row *rows;
    size_t count;
    mt_status status = mt_trace_categories(report->trace, run, NULL, &rows, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct category_pair *pair = find_or_add(comparison, rows[i].category);
        pair->overall[side] = rows[i].max_bytes;
        rows[i].max_bytes = published_bytes(&rows[i]);
        *(side == 0 ? &pair->baseline : &pair->autocast) = rows[i];
    }
    free(rows);
    return status;
}

static mt_status load_categories(struct mt_report *report, struct comparison *comparison)
{
    const struct mt_report_run *const runs[] = {comparison->baseline, comparison->autocast};
    for (int side = 0; side < 2 && runs[side] != NULL; side++)
        MT_TRY(load_run(report, &runs[side]->run, comparison, side));
    return MT_OK;
}

static void fill_category(struct category_pair *pair, const struct mt_published_cell *cell)
{
    const struct mt_published_largest *published =
        cell != NULL ? mt_published_largest_find(cell, pair->category) : NULL;
    assert(pair->overall[0] >= pair->baseline.max_bytes && pair->overall[1] >= pair->autocast.max_bytes);
    pair->difference = (int64_t)(pair->autocast.max_bytes - pair->baseline.max_bytes);
    if (published != NULL) {
        pair->published[0] = mt_figure_number(published->baseline_mib, "%g MiB", published->baseline_mib);
        pair->published[1] = mt_figure_number(published->autocast_mib, "%g MiB", published->autocast_mib);
    }
}

/* The effect of autocast on a category's largest allocation. */
typedef enum change { CHANGE_HALVED, CHANGE_NONE, CHANGE_GROWN, CHANGE_OTHER } change;

static change change_of(const struct category_pair *pair)
{
    if (pair->baseline.category == NULL || pair->autocast.category == NULL)
        return CHANGE_OTHER;
    if (pair->difference == 0)
        return CHANGE_NONE;
    if (pair->autocast.max_bytes > pair->baseline.max_bytes)
        return CHANGE_GROWN;
    return 2 * pair->autocast.max_bytes == pair->baseline.max_bytes ? CHANGE_HALVED : CHANGE_OTHER;
}

/* Adds the categories with this change, "Softmax, Norm and Block"; returns their number. */
static size_t add_changed(struct mt_text *out, const struct comparison *comparison, change wanted)
{
    size_t total = 0, index = 0;
    for (size_t i = 0; i < comparison->count; i++)
        total += change_of(&comparison->pairs[i]) == wanted;
    for (size_t i = 0; i < comparison->count; i++)
        if (change_of(&comparison->pairs[i]) == wanted) {
            mt_report_join(out, index++, total);
            mt_text_add(out, "%s", comparison->pairs[i].category);
        }
    return total;
}

static void say_changes(struct mt_page *page, const struct comparison *comparison)
{
    static const char *const words[] = {
        [CHANGE_HALVED] = "halves for", [CHANGE_NONE] = "stays as it is for", [CHANGE_GROWN] = "grows for"};
    struct mt_text text = {0};
    for (int i = 0; i < CHANGE_OTHER; i++) {
        struct mt_text list = {0};
        if (add_changed(&list, comparison, (change)i) > 0)
            mt_text_add(&text, "%s %s %s", text.length > 0 ? ";" : "Under autocast the largest allocation in forward",
                        words[i], list.data);
        mt_text_release(&list);
    }
    if (text.length > 0)
        mt_page_say(page, "%s.", text.data);
    mt_text_release(&text);
}

/* Writes where the two meanings of "largest" differ most. */
static void say_overall(struct mt_page *page, const struct comparison *comparison)
{
    const struct category_pair *widest = &comparison->pairs[0];
    for (size_t i = 1; i < comparison->count; i++) {
        const struct category_pair *pair = &comparison->pairs[i];
        if (pair->overall[0] - pair->baseline.max_bytes > widest->overall[0] - widest->baseline.max_bytes)
            widest = pair;
    }
    if (widest->overall[0] == widest->baseline.max_bytes)
        return;
    mt_page_say(
        page,
        "In forward is of forward and loss, as in the published tables; parameters, gradients and optimizer state "
        "are counted where they are made. Overall is of every phase: furthest from forward is %s, with %s "
        "against %s.",
        widest->category, MT_SIZE(widest->overall[0]), MT_SIZE(widest->baseline.max_bytes));
}

static void add_categories(struct mt_report *report, const struct comparison *comparison)
{
    struct mt_field fields[CATEGORY_COLUMNS + 1] = {0};
    const struct mt_row_type type = MT_ROW_TYPE(struct category_pair, fields);
    const struct mt_report_axes axes = mt_report_all_axes(report);
    bool is_pair = comparison->autocast != NULL, is_published = comparison->baseline->published != NULL;
    struct mt_text title = {0};
    for (size_t i = 0, count = 0; i < CATEGORY_COLUMNS; i++)
        if ((is_pair || !category_columns[i].of_pair) && (is_published || !category_columns[i].of_published))
            fields[count++] = category_columns[i].field;
    mt_text_add(&title, "Largest allocation, and how many a step: ");
    mt_report_describe(&axes, comparison->baseline, &title);
    mt_text_add(&title, ", seq %s", comparison->baseline->seq_text);
    mt_page_table(report->page, "categories", title.data, &type, comparison->pairs, comparison->count);
    mt_page_chart(report->page, "largest in forward, fp32", "autocast", NULL);
    mt_text_release(&title);
    if (is_pair)
        say_changes(report->page, comparison);
    if (comparison->count > 0)
        say_overall(report->page, comparison);
    if (is_published && isnan(comparison->baseline->published->reserved_gib))
        mt_page_say(report->page,
                    "The published figures at %s are of the forward pass, since the full step was out of memory.",
                    comparison->baseline->seq_text);
}

static mt_status compare_categories(struct mt_report *report, const struct mt_report_run *baseline,
                                    const struct mt_report_run *autocast)
{
    struct comparison comparison = {.baseline = baseline, .autocast = autocast};
    mt_status status = load_categories(report, &comparison);
    for (size_t i = 0; i < comparison.count; i++)
        fill_category(&comparison.pairs[i], baseline->published);
    if (status == MT_OK)
        add_categories(report, &comparison);
    free(comparison.pairs);
    return status;
}

/* Adds the pairs of the lead group or, without pairs, the runs of the lead group with any precision. */
mt_status mt_report_categories(struct mt_report *report)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_ANY);
    size_t begin, end;
    mt_status status = MT_OK;
    mt_page_section(report->page, "categories", "Categories");
    mt_report_lead(&pairs.autocast, &begin, &end);
    bool has_pair = begin < end;
    for (size_t i = begin; i < end && status == MT_OK; i++)
        status = compare_categories(report, &pairs.pairs[i].baseline, &pairs.pairs[i].autocast);
    if (!has_pair)
        mt_report_lead(&rows, &begin, &end);
    for (size_t i = begin; i < end && !has_pair && status == MT_OK; i++)
        if (!rows.runs[i]->is_oom)
            status = compare_categories(report, rows.runs[i], NULL);
    mt_report_pairs_release(&pairs);
    mt_report_rows_release(&rows);
    return status;
}

enum { LARGEST_SHOWN = 10 };

static const struct mt_field largest_fields[] = {
    MT_COLUMN(BYTES, uint64_t, struct mt_top_row, bytes, "size"),
    MT_COLUMN(COUNT, uint64_t, struct mt_top_row, count, "count"),
    MT_COLUMN(TEXT, const char *, struct mt_top_row, category, "category"),
    MT_COLUMN(TEXT, const char *, struct mt_top_row, op, "op"),
    MT_COLUMN(TEXT, const char *, struct mt_top_row, phase, "phase"),
    MT_COLUMN(TEXT, const char *, struct mt_top_row, role, "role"),
    MT_COLUMN(TEXT, const char *, struct mt_top_row, dtype, "dtype"),
    MT_COLUMN(TEXT, const char *, struct mt_top_row, shape, "shape"),
    MT_COLUMN(TEXT, const char *, struct mt_top_row, span, "span"),
    MT_FIELDS_END,
};
static const struct mt_row_type largest_type = MT_ROW_TYPE(struct mt_top_row, largest_fields);

static void say_largest(struct mt_page *page, const struct mt_run *run, const struct mt_top_row *rows, size_t count)
{
    char size[MT_BYTES_TEXT];
    struct mt_text text = {0};
    size_t equal = 0;
    if (count == 0)
        return;
    while (equal < count && rows[equal].bytes == rows[0].bytes)
        equal++;
    mt_format_bytes(rows[0].bytes, size);
    if (equal == 1)
        mt_text_add(&text, "The largest kind, with %s a block, is", size);
    else if (equal < count)
        mt_text_add(&text, "%zu of the kinds shown are the largest, with %s a block: the first is", equal, size);
    else
        mt_text_add(&text, "All kinds shown are of %s a block: the first is", size);
    mt_page_say(page, "%s %s (%s), asked for %" PRIu64 " times in %" PRId64 " steps by %s, in %s.", text.data,
                rows[0].category, rows[0].op, rows[0].count, run->steps, rows[0].span, rows[0].phase);
    mt_text_release(&text);
}

static mt_status add_largest(struct mt_report *report, const struct mt_report_run *run)
{
    struct mt_text title = {0};
    struct mt_top_row *rows;
    size_t count;
    bool is_complete;
    mt_status status =
        mt_trace_top(report->trace, &run->run, &(struct mt_top_choice){0}, LARGEST_SHOWN, &rows, &count, &is_complete);
    if (status == MT_OK) {
        mt_text_add(&title, "The ten largest kinds of allocation overall: %s, %s, seq %s, %s", run->model, run->pass,
                    run->seq_text, run->steps.precision);
        mt_page_table(report->page, "largest", title.data, &largest_type, rows, count);
        say_largest(report->page, &run->run, rows, count);
    }
    mt_text_release(&title);
    free(rows);
    return status;
}

/* Keeps the runs with a mode. */
static void keep_mode(struct mt_report_rows *rows, mt_mode mode)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->runs[i]->mode, mt_mode_names[mode]) == 0)
            rows->runs[kept++] = rows->runs[i];
    rows->count = kept;
}

/* Adds the longest pair of a mode or, without pairs, its longest run. For forward passes, overall means only
 * forward. */
static mt_status add_largest_of_mode(struct mt_report *report, mt_mode mode)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    struct mt_report_rows all = mt_report_select(report, MT_REPORT_ANY);
    keep_mode(&pairs.autocast, mode);
    keep_mode(&all, mode);
    mt_status status = mt_report_add_longest(report, &pairs, &all, add_largest);
    mt_report_pairs_release(&pairs);
    mt_report_rows_release(&all);
    return status;
}

mt_status mt_report_largest(struct mt_report *report)
{
    mt_page_section(report->page, "largest", "Largest allocations");
    for (int mode = 0; mt_mode_names[mode] != NULL; mode++)
        MT_TRY(add_largest_of_mode(report, (mt_mode)mode));
    return MT_OK;
}
