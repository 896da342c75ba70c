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

/* True if it is known when the peak was. Peaks of statistics have no event, and a run without a block has no peak. */
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
static const struct mt_field moment_fields[] = {
    MT_BYTES(ROW, bytes, "bytes", NULL, NULL),
    MT_STEP(ROW, step, "step", NULL, "null before the first"),
    MT_TEXT(ROW, phase, "phase", NULL, NULL),
    MT_TEXT(ROW, span, "span", NULL, "the module that was running"),
    MT_NANOSECONDS(ROW, time_ns, "time_ns", NULL, "since the run began, by the device's clock"),
    MT_FIELDS_END,
};
static const struct mt_row_type moment_type = MT_ROW_TYPE(ROW, moment_fields);
static const struct mt_field live_fields[] = {
    MT_FIELDS_OF(&moment_type),
    MT_ROWS(ROW, shares, share_count, "by_category", &share_type, "the largest first; they add up to `bytes`"),
    MT_FIELDS_END,
};
static const struct mt_row_type live_type = MT_ROW_TYPE(ROW, live_fields);
static const struct mt_field reserved_fields[] = {
    MT_FIELDS_OF(&moment_type),
    MT_BYTES(ROW, cached_bytes, "cached_bytes", NULL, "segments' bytes that no block held"),
    MT_ROWS(ROW, shares, share_count, "by_category", &share_type, "with `cached_bytes` they add up to `bytes`"),
    MT_FIELDS_END,
};
static const struct mt_row_type reserved_type = MT_ROW_TYPE(ROW, reserved_fields);
#undef ROW

#define ROW struct mt_run_peaks_answer
static const struct mt_field peaks_fields[] = {
    MT_BYTES(ROW, bytes[MT_MEASURE_ALLOCATED], "allocated_bytes", NULL, "the peak of live blocks, rounded up"),
    MT_BYTES(ROW, bytes[MT_MEASURE_REQUESTED], "requested_bytes", NULL, "the same without rounding"),
    MT_BYTES(ROW, bytes[MT_MEASURE_RESERVED], "reserved_bytes", NULL, "the peak of what was taken from the device"),
    MT_SOME_ROWS(ROW, shares, share_count, "by_category", &share_type, "live at the peak of allocated bytes"),
    MT_ROW_OR_NULL(ROW, of[MT_MEASURE_ALLOCATED], "allocated", &live_type, "that peak by itself"),
    MT_ROW_OR_NULL(ROW, of[MT_MEASURE_REQUESTED], "requested", &live_type, NULL),
    MT_ROW_OR_NULL(ROW, of[MT_MEASURE_RESERVED], "reserved", &reserved_type, NULL),
    MT_FIELDS_END,
};
#undef ROW
const struct mt_row_type mt_run_peaks_type = MT_ROW_TYPE(struct mt_run_peaks_answer, peaks_fields);

struct mt_run_peaks_answer mt_run_peaks_answer_of(const struct mt_run_peaks *peaks)
{
    static const struct mt_peak_share none[1];
    const struct mt_peak_row *allocated = &peaks->of[MT_MEASURE_ALLOCATED];
    struct mt_run_peaks_answer answer = {.share_count = allocated->share_count};
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        answer.bytes[measure] = peaks->of[measure].bytes;
        answer.of[measure] = has_moment(&peaks->of[measure]) ? &peaks->of[measure] : NULL;
    }
    if (has_moment(allocated))
        answer.shares = allocated->shares;
    else if (allocated->bytes == 0)
        answer.shares = none;
    return answer;
}

/* A peak as the table shows it. */
struct peak_row {
    const char *measure, *step, *phase, *span;
    uint64_t bytes;
    struct mt_figure time;
    char step_text[MT_BYTES_TEXT];
};

static const struct mt_field peak_fields[] = {
    MT_SHOWN(TEXT, const char *, struct peak_row, measure, "measure", "peak of"),
    MT_SHOWN(BYTES, uint64_t, struct peak_row, bytes, "size", "size"),
    MT_SHOWN(COUNT, uint64_t, struct peak_row, bytes, "bytes", "bytes"),
    MT_SHOWN(TEXT, const char *, struct peak_row, step, "step", "step"),
    MT_SHOWN(TEXT, const char *, struct peak_row, phase, "phase", "phase"),
    MT_SHOWN(TEXT, const char *, struct peak_row, span, "span", "span"),
    MT_SHOWN(FIGURE, struct mt_figure, struct peak_row, time, "time", "time"),
    MT_FIELDS_END,
};
static const struct mt_row_type peak_type = MT_ROW_TYPE(struct peak_row, peak_fields);

static void print_peaks(const struct mt_run_peaks *peaks)
{
    struct peak_row rows[MT_MEASURE_COUNT];
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        const struct mt_peak_row *peak = &peaks->of[measure];
        struct peak_row *row = &rows[measure];
        *row = (struct peak_row){mt_measure_name((mt_measure)measure), "-", "-", "-", .bytes = peak->bytes};
        if (!has_moment(peak))
            continue;
        row->step = mt_format_step(peak->step, row->step_text);
        row->phase = peak->phase;
        row->span = peak->span;
        row->time = mt_figure_number((double)peak->time_ns, "%.3f ms", (double)peak->time_ns / 1e6);
    }
    mt_rows_print(&peak_type, "measure size bytes step phase span time", "time bytes phase", rows, MT_MEASURE_COUNT);
}

/* A category, what no block held, or their sum: at the allocated peak, and the sizes at the other two. */
struct made_of_row {
    const char *category;
    struct mt_figure allocated, share, blocks, requested, reserved;
};

static const struct mt_field made_of_fields[] = {
    MT_SHOWN(TEXT, const char *, struct made_of_row, category, "category", "made of"),
    MT_SHOWN(FIGURE, struct mt_figure, struct made_of_row, allocated, "allocated", "allocated"),
    MT_SHOWN(FIGURE, struct mt_figure, struct made_of_row, share, "share", "share"),
    MT_SHOWN(FIGURE, struct mt_figure, struct made_of_row, blocks, "blocks", "blocks"),
    MT_SHOWN(FIGURE, struct mt_figure, struct made_of_row, requested, "requested", "requested"),
    MT_SHOWN(FIGURE, struct mt_figure, struct made_of_row, reserved, "reserved", "reserved"),
    MT_FIELDS_END,
};
static const struct mt_row_type made_of_type = MT_ROW_TYPE(struct made_of_row, made_of_fields);

/* Returns the part of a category at a peak; one of no blocks if it had none. */
static struct mt_peak_share find_share(const struct mt_peak_row *peak, const char *category)
{
    for (size_t i = 0; i < peak->share_count; i++)
        if (strcmp(peak->shares[i].category, category) == 0)
            return peak->shares[i];
    return (struct mt_peak_share){.category = category};
}

/* Adds a row of bytes at the three peaks. */
static void add_row(struct mt_table *table, const struct mt_run_peaks *peaks, const char *category,
                    const uint64_t bytes[MT_MEASURE_COUNT], uint64_t blocks)
{
    char share[MT_BYTES_TEXT];
    mt_format_share((double)bytes[MT_MEASURE_ALLOCATED], (double)peaks->of[MT_MEASURE_ALLOCATED].bytes, share);
    const struct made_of_row row = {.category = category,
                                    .allocated = mt_figure_bytes(bytes[MT_MEASURE_ALLOCATED]),
                                    .share = mt_figure_words(share),
                                    .blocks = mt_figure_number((double)blocks, "%" PRIu64, blocks),
                                    .requested = mt_figure_bytes(bytes[MT_MEASURE_REQUESTED]),
                                    .reserved = mt_figure_bytes(bytes[MT_MEASURE_RESERVED])};
    mt_table_add_rows(table, &row, 1);
}

/* Adds the categories of a peak that none of the peaks before it had. */
static void add_shares(struct mt_table *table, const struct mt_run_peaks *peaks, int measure)
{
    const struct mt_peak_row *of = peaks->of;
    for (size_t i = 0; i < of[measure].share_count; i++) {
        const char *category = of[measure].shares[i].category;
        struct mt_peak_share allocated = find_share(&of[MT_MEASURE_ALLOCATED], category);
        const uint64_t bytes[] = {
            [MT_MEASURE_ALLOCATED] = allocated.allocated_bytes,
            [MT_MEASURE_REQUESTED] = find_share(&of[MT_MEASURE_REQUESTED], category).requested_bytes,
            [MT_MEASURE_RESERVED] = find_share(&of[MT_MEASURE_RESERVED], category).allocated_bytes};
        bool was_shown = false;
        for (int before = 0; before < measure; before++)
            was_shown = was_shown || find_share(&of[before], category).blocks > 0;
        if (!was_shown)
            add_row(table, peaks, category, bytes, allocated.blocks);
    }
}

/* Adds the bytes of segments that no block held, and the sums. */
static void add_totals(struct mt_table *table, const struct mt_run_peaks *peaks)
{
    const struct mt_figure none = mt_figure_words(" ");
    const struct made_of_row cached = {"(cached)", none, none,
                                       none,       none, mt_figure_bytes(peaks->of[MT_MEASURE_RESERVED].cached_bytes)};
    const struct mt_peak_row *allocated = &peaks->of[MT_MEASURE_ALLOCATED];
    uint64_t bytes[MT_MEASURE_COUNT], blocks = 0;
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        bytes[measure] = peaks->of[measure].bytes;
    for (size_t i = 0; i < allocated->share_count; i++)
        blocks += allocated->shares[i].blocks;
    mt_table_add_rows(table, &cached, 1);
    add_row(table, peaks, "total", bytes, blocks);
}

/* Prints the parts. Each column has the bytes live at its own peak, and adds up to it. */
static void print_shares(const struct mt_run_peaks *peaks)
{
    struct mt_table *table = mt_table_of_rows(mt_output_screen(), &made_of_type,
                                              "category allocated share blocks requested reserved", "blocks requested");
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        add_shares(table, peaks, measure);
    add_totals(table, peaks);
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
