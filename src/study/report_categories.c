/* The largest allocation of each category, in fp32 and under autocast. */
#include "base/memory.h"
#include "study/report_sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The categories of a pair of runs; `autocast` is NULL where fp32 stands alone. */
struct comparison {
    const struct mt_report_run *baseline, *autocast;
    struct mt_report_columns axes; /* in which runs of the page differ */
    struct mt_category_row *rows[2];
    size_t counts[2];
};

static mt_status load(struct mt_report *report, struct comparison *comparison)
{
    const struct mt_report_run *const runs[] = {comparison->baseline, comparison->autocast};
    mt_status status = MT_OK;
    for (int i = 0; i < 2 && status == MT_OK; i++)
        if (runs[i] != NULL)
            status =
                mt_trace_categories(report->trace, runs[i]->run, NULL, &comparison->rows[i], &comparison->counts[i]);
    return status;
}

static const struct mt_category_row *find(const struct comparison *comparison, int side, const char *category)
{
    for (size_t i = 0; i < comparison->counts[side]; i++)
        if (strcmp(comparison->rows[side][i].category, category) == 0)
            return &comparison->rows[side][i];
    return NULL;
}

static void add_mib(struct mt_page *page, double mib)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, "%g MiB", mib);
    mt_page_cell_number(page, mib, text);
}

static void add_published(struct mt_page *page, const struct mt_published_largest *published, bool with_autocast)
{
    if (published == NULL)
        mt_page_cell_absent(page);
    else
        add_mib(page, published->baseline_mib);
    if (published == NULL && with_autocast)
        mt_page_cell_absent(page);
    else if (with_autocast)
        add_mib(page, published->autocast_mib);
}

static void add_row(struct mt_page *page, const struct comparison *comparison, const char *category)
{
    const struct mt_category_row *a = find(comparison, 0, category), *b = find(comparison, 1, category);
    const struct mt_published_cell *cell = comparison->baseline->published;
    mt_page_cell(page, category);
    mt_page_cell_bytes(page, a != NULL ? a->max_bytes : 0);
    if (comparison->autocast != NULL) {
        mt_page_cell_bytes(page, b != NULL ? b->max_bytes : 0);
        mt_page_cell_difference(page, (int64_t)((b != NULL ? b->max_bytes : 0) - (a != NULL ? a->max_bytes : 0)));
    }
    if (cell != NULL)
        add_published(page, mt_published_largest_find(cell, category), comparison->autocast != NULL);
    mt_page_cell_count(page, a != NULL ? (int64_t)a->per_step : 0);
    if (comparison->autocast != NULL)
        mt_page_cell_count(page, b != NULL ? (int64_t)b->per_step : 0);
}

static void add_columns(struct mt_report_columns *columns, const struct comparison *comparison)
{
    bool both = comparison->autocast != NULL, published = comparison->baseline->published != NULL;
    const struct {
        const char *title;
        bool is_there;
    } all[] = {{"largest, fp32", true},
               {"autocast", both},
               {"difference", both},
               {"published, fp32", published},
               {"published, autocast", published && both},
               {"a step, fp32", true},
               {"a step, autocast", both}};
    mt_report_column(columns, "category", MT_ALIGN_LEFT);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].is_there)
            mt_report_column(columns, all[i].title, MT_ALIGN_RIGHT);
}

/* What became of a category's largest allocation. */
typedef enum change { CHANGE_HALVED, CHANGE_NONE, CHANGE_GROWN, CHANGE_OTHER } change;

static change change_of(const struct comparison *comparison, const struct mt_category_row *a)
{
    const struct mt_category_row *b = find(comparison, 1, a->category);
    if (b == NULL)
        return CHANGE_OTHER;
    if (b->max_bytes == a->max_bytes)
        return CHANGE_NONE;
    if (b->max_bytes > a->max_bytes)
        return CHANGE_GROWN;
    return 2 * b->max_bytes == a->max_bytes ? CHANGE_HALVED : CHANGE_OTHER;
}

/* "Softmax, Norm and Block" of the categories with that change; how many there are. */
static size_t add_changed(struct mt_text *out, const struct comparison *comparison, change wanted)
{
    size_t total = 0, index = 0;
    for (size_t i = 0; i < comparison->counts[0]; i++)
        total += change_of(comparison, &comparison->rows[0][i]) == wanted;
    for (size_t i = 0; i < comparison->counts[0]; i++)
        if (change_of(comparison, &comparison->rows[0][i]) == wanted) {
            mt_report_join(out, index++, total);
            mt_text_add(out, "%s", comparison->rows[0][i].category);
        }
    return total;
}

static void say_changes(struct mt_page *page, const struct comparison *comparison)
{
    static const struct {
        change change;
        const char *words;
    } kinds[] = {{CHANGE_HALVED, "halves for"}, {CHANGE_NONE, "stays as it is for"}, {CHANGE_GROWN, "grows for"}};
    struct mt_text text = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct mt_text list = {0};
        if (add_changed(&list, comparison, kinds[i].change) > 0)
            mt_text_add(&text, "%s %s %s", text.length > 0 ? ";" : "Under autocast the largest allocation",
                        kinds[i].words, list.data);
        mt_text_release(&list);
    }
    if (text.length > 0)
        mt_page_say(page, "%s.", text.data);
    mt_text_release(&text);
}

static void add_table(struct mt_page *page, const struct comparison *comparison)
{
    struct mt_report_columns columns = {0};
    struct mt_text title = {0};
    add_columns(&columns, comparison);
    mt_text_add(&title, "Largest allocation, and how many a step: ");
    mt_report_describe(&comparison->axes, comparison->baseline, &title);
    mt_text_add(&title, ", seq %s", comparison->baseline->seq_text);
    mt_page_table(page, "categories", title.data, columns.items, columns.count);
    mt_text_release(&title);
    for (size_t i = 0; i < comparison->counts[0]; i++)
        add_row(page, comparison, comparison->rows[0][i].category);
    for (size_t i = 0; i < comparison->counts[1]; i++)
        if (find(comparison, 0, comparison->rows[1][i].category) == NULL)
            add_row(page, comparison, comparison->rows[1][i].category);
    if (comparison->autocast != NULL)
        say_changes(page, comparison);
    if (comparison->baseline->published != NULL && isnan(comparison->baseline->published->reserved_gib))
        mt_page_say(page, "The published figures at %s are of the forward pass, since the full step was out of memory.",
                    comparison->baseline->seq_text);
}

static mt_status add_comparison(struct mt_report *report, const struct mt_report_run *baseline,
                                const struct mt_report_run *autocast)
{
    struct mt_report_rows all = mt_report_select(report, NULL, NULL);
    struct comparison comparison = {.baseline = baseline, .autocast = autocast, .axes = mt_report_columns_of(&all)};
    mt_report_rows_release(&all);
    mt_status status = load(report, &comparison);
    if (status == MT_OK)
        add_table(report->page, &comparison);
    free(comparison.rows[0]);
    free(comparison.rows[1]);
    return status;
}

/* Without a pair: the runs of the lead group, whatever their precision. */
static mt_status add_single(struct mt_report *report)
{
    struct mt_report_rows rows = mt_report_select(report, NULL, NULL);
    size_t begin, end;
    mt_status status = MT_OK;
    mt_report_lead(&rows, &begin, &end);
    for (size_t i = begin; i < end && status == MT_OK; i++)
        if (!rows.runs[i]->is_oom)
            status = add_comparison(report, rows.runs[i], NULL);
    mt_report_rows_release(&rows);
    return status;
}

mt_status mt_report_categories(struct mt_report *report)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    size_t begin, end;
    mt_status status = MT_OK;
    mt_page_section(report->page, "categories", "Categories");
    mt_report_lead(&pairs.autocast, &begin, &end);
    for (size_t i = begin; i < end && status == MT_OK; i++)
        status = add_comparison(report, pairs.baselines[i], pairs.autocast.runs[i]);
    if (begin == end)
        status = add_single(report);
    mt_report_pairs_release(&pairs);
    return status;
}
