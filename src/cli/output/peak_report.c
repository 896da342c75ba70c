#include "cli/output/peak_report.h"

#include "answer/table.h"
#include "cli/output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

mt_status mt_run_peaks_load(const struct mt_question *question, struct mt_run_peaks *out)
{
    *out = (struct mt_run_peaks){0};
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++)
        status = mt_trace_peak(question->trace, question->run, (mt_measure)measure, &out->of[measure]);
    return status;
}

void mt_run_peaks_release(struct mt_run_peaks *peaks)
{
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        mt_peak_row_release(&peaks->of[measure]);
}

struct mt_run_peaks mt_run_peaks_of_stats(const struct mt_alloc_stats *stats)
{
    return (struct mt_run_peaks){{
        [MT_MEASURE_ALLOCATED] = {.bytes = stats->all.peak_allocated_bytes},
        [MT_MEASURE_REQUESTED] = {.bytes = stats->all.peak_requested_bytes},
        [MT_MEASURE_RESERVED] = {.bytes = stats->peak_reserved_bytes},
    }};
}

/* Peaks of stats have no event, and a run that never got a block has no peak. */
static bool has_moment(const struct mt_peak_row *peak)
{
    return peak->event != 0 && peak->bytes > 0;
}

static const struct mt_field share_fields[] = {
    MT_TEXT(struct mt_peak_share, category, "category", NULL, NULL),
    MT_BYTES(struct mt_peak_share, allocated_bytes, "allocated_bytes", NULL, NULL),
    MT_BYTES(struct mt_peak_share, requested_bytes, "requested_bytes", NULL, NULL),
    MT_COUNT(struct mt_peak_share, blocks, "blocks", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type share_type = MT_ROW_TYPE(struct mt_peak_share, share_fields);

#define ROW struct mt_peak_row
#define MOMENT_FIELDS                                                                                                  \
    MT_BYTES(ROW, bytes, "bytes", NULL, NULL), MT_STEP(ROW, step, "step", NULL, "null: before the first"),             \
        MT_TEXT(ROW, phase, "phase", NULL, NULL), MT_TEXT(ROW, span, "span", NULL, "the module that was running"),     \
        MT_NANOSECONDS(ROW, time_ns, "time_ns", NULL, "since the run began, by the device's clock")
static const struct mt_field moment_fields[] = {
    MOMENT_FIELDS,
    MT_ROWS(ROW, shares, share_count, "by_category", &share_type, "the largest first; they add up to `bytes`"),
    MT_FIELDS_END,
};
static const struct mt_field reserved_fields[] = {
    MOMENT_FIELDS,
    MT_BYTES(ROW, cached_bytes, "cached_bytes", NULL, "segments' bytes that no block held"),
    MT_ROWS(ROW, shares, share_count, "by_category", &share_type, "with `cached_bytes` they add up to `bytes`"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type moment_type = MT_ROW_TYPE(struct mt_peak_row, moment_fields);
static const struct mt_row_type reserved_type = MT_ROW_TYPE(struct mt_peak_row, reserved_fields);

/* The peaks as JSON has them: those whose moment is not known are NULL. */
struct peaks_answer {
    uint64_t bytes[MT_MEASURE_COUNT];
    const struct mt_peak_row *of[MT_MEASURE_COUNT];
    const struct mt_peak_share *shares; /* of the allocated peak; NULL: not known */
    size_t share_count;
};

#define ROW struct peaks_answer
static const struct mt_field peaks_fields[] = {
    MT_BYTES(ROW, bytes[MT_MEASURE_ALLOCATED], "allocated_bytes", NULL, "the peak of live blocks, rounded up"),
    MT_BYTES(ROW, bytes[MT_MEASURE_REQUESTED], "requested_bytes", NULL, "the same without rounding"),
    MT_BYTES(ROW, bytes[MT_MEASURE_RESERVED], "reserved_bytes", NULL, "the peak of what was taken from the device"),
    MT_SOME_ROWS(ROW, shares, share_count, "by_category", &share_type, "those of `allocated`"),
    MT_ROW_OR_NULL(ROW, of[MT_MEASURE_ALLOCATED], "allocated", &moment_type, "the moment of that peak"),
    MT_ROW_OR_NULL(ROW, of[MT_MEASURE_REQUESTED], "requested", &moment_type, "likewise"),
    MT_ROW_OR_NULL(ROW, of[MT_MEASURE_RESERVED], "reserved", &reserved_type, "likewise"),
    MT_FIELDS_END,
};
#undef ROW
const struct mt_row_type mt_run_peaks_type = MT_ROW_TYPE(struct peaks_answer, peaks_fields);

void mt_run_peaks_add_json(const struct mt_run_peaks *peaks, json_t *object)
{
    static const struct mt_peak_share none[1];
    const struct mt_peak_row *allocated = &peaks->of[MT_MEASURE_ALLOCATED];
    struct peaks_answer answer = {.share_count = allocated->share_count};
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        answer.bytes[measure] = peaks->of[measure].bytes;
        answer.of[measure] = has_moment(&peaks->of[measure]) ? &peaks->of[measure] : NULL;
    }
    if (has_moment(allocated))
        answer.shares = allocated->shares;
    else if (allocated->bytes == 0)
        answer.shares = none;
    mt_row_add_json(&mt_run_peaks_type, &answer, object);
}

static void add_moment(struct mt_table *table, const struct mt_peak_row *peak)
{
    char text[MT_BYTES_TEXT];
    if (!has_moment(peak)) {
        for (int i = 0; i < 4; i++)
            mt_table_add(table, "-");
        return;
    }
    mt_table_add(table, mt_format_step(peak->step, text));
    mt_table_add(table, peak->phase);
    mt_table_add(table, peak->span);
    snprintf(text, sizeof text, "%.3f ms", (double)peak->time_ns / 1e6);
    mt_table_add(table, text);
}

static void print_peaks(const struct mt_run_peaks *peaks)
{
    static const struct mt_column columns[] = {
        {"peak of", MT_ALIGN_LEFT}, {"size", MT_ALIGN_RIGHT}, {"bytes", MT_ALIGN_RIGHT}, {"step", MT_ALIGN_LEFT},
        {"phase", MT_ALIGN_LEFT},   {"span", MT_ALIGN_LEFT},  {"time", MT_ALIGN_RIGHT}};
    static const char *const spare[] = {"time", "bytes", "phase", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        const struct mt_peak_row *peak = &peaks->of[measure];
        mt_table_add(table, mt_measure_name((mt_measure)measure));
        mt_table_add_bytes(table, peak->bytes);
        mt_table_add_number(table, (int64_t)peak->bytes);
        add_moment(table, peak);
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

/* What a category had at a peak; nothing if it had nothing. */
static struct mt_peak_share find_share(const struct mt_peak_row *peak, const char *category)
{
    for (size_t i = 0; i < peak->share_count; i++)
        if (strcmp(peak->shares[i].category, category) == 0)
            return peak->shares[i];
    return (struct mt_peak_share){.category = category};
}

/* A row of the table of shares: of the allocated peak size, share and blocks, then the sizes at the other two. */
static void add_share(struct mt_table *table, const struct mt_run_peaks *peaks, const char *category)
{
    struct mt_peak_share allocated = find_share(&peaks->of[MT_MEASURE_ALLOCATED], category);
    mt_table_add(table, category);
    mt_table_add_bytes(table, allocated.allocated_bytes);
    mt_table_add_share(table, (double)allocated.allocated_bytes, (double)peaks->of[MT_MEASURE_ALLOCATED].bytes);
    mt_table_add_number(table, (int64_t)allocated.blocks);
    mt_table_add_bytes(table, find_share(&peaks->of[MT_MEASURE_REQUESTED], category).requested_bytes);
    mt_table_add_bytes(table, find_share(&peaks->of[MT_MEASURE_RESERVED], category).allocated_bytes);
}

/* The categories of `peak` that none of the `before` peaks had. */
static void add_shares(struct mt_table *table, const struct mt_run_peaks *peaks, int measure)
{
    const struct mt_peak_row *peak = &peaks->of[measure];
    for (size_t i = 0; i < peak->share_count; i++) {
        bool was_shown = false;
        for (int before = 0; before < measure; before++)
            was_shown = was_shown || find_share(&peaks->of[before], peak->shares[i].category).blocks > 0;
        if (!was_shown)
            add_share(table, peaks, peak->shares[i].category);
    }
}

static void add_cached(struct mt_table *table, uint64_t cached_bytes)
{
    mt_table_add(table, "(cached)");
    for (int i = 0; i < 4; i++)
        mt_table_add(table, "");
    mt_table_add_bytes(table, cached_bytes);
}

static void add_total(struct mt_table *table, const struct mt_run_peaks *peaks)
{
    const struct mt_peak_row *allocated = &peaks->of[MT_MEASURE_ALLOCATED];
    uint64_t blocks = 0;
    for (size_t i = 0; i < allocated->share_count; i++)
        blocks += allocated->shares[i].blocks;
    mt_table_add(table, "total");
    mt_table_add_bytes(table, allocated->bytes);
    mt_table_add_share(table, (double)allocated->bytes, (double)allocated->bytes);
    mt_table_add_number(table, (int64_t)blocks);
    mt_table_add_bytes(table, peaks->of[MT_MEASURE_REQUESTED].bytes);
    mt_table_add_bytes(table, peaks->of[MT_MEASURE_RESERVED].bytes);
}

/* Each column is what was live at its own peak, so each adds up to it. */
static void print_shares(const struct mt_run_peaks *peaks)
{
    static const struct mt_column columns[] = {{"made of", MT_ALIGN_LEFT},    {"allocated", MT_ALIGN_RIGHT},
                                               {"share", MT_ALIGN_RIGHT},     {"blocks", MT_ALIGN_RIGHT},
                                               {"requested", MT_ALIGN_RIGHT}, {"reserved", MT_ALIGN_RIGHT}};
    static const char *const spare[] = {"blocks", "requested", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        add_shares(table, peaks, measure);
    add_cached(table, peaks->of[MT_MEASURE_RESERVED].cached_bytes);
    add_total(table, peaks);
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
}

void mt_run_peaks_print(const struct mt_run_peaks *peaks)
{
    print_peaks(peaks);
    if (peaks->of[MT_MEASURE_ALLOCATED].share_count > 0)
        print_shares(peaks);
}
