#include "cli/output/peak_report.h"

#include "analysis/advise/observe.h"
#include "analysis/verdict.h"
#include "answer/table.h"
#include "base/memory.h"
#include "cli/output/output.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tuning[] = "Autotune"; /* the category, with its name from python/memtrace/dry */

mt_status mt_run_peaks_load(const struct mt_question *question, mt_group_key key, struct mt_run_peaks *out)
{
    *out = (struct mt_run_peaks){.key = key};
    mt_status status = MT_OK;
    for (int measure = 0; measure < MT_MEASURE_COUNT && status == MT_OK; measure++) {
        struct mt_run_peak *peak = &out->of[measure];
        status = mt_trace_peak(question->trace, question->run, (mt_measure)measure, &peak->by_category);
        if (status == MT_OK)
            status =
                mt_trace_peak_by(question->trace, question->run, MT_ALL_STEPS, (mt_measure)measure, key, &peak->by_key);
    }
    MT_TRY(status);
    MT_TRY(mt_trace_phase_peaks(question->trace, question->run, &out->phases, &out->phase_count));
    MT_TRY(mt_trace_outside(question->trace, question->run, &out->outside, &out->outside_count));
    out->used = mt_outside_sum(out->outside, out->outside_count, out->of[MT_MEASURE_RESERVED].by_category.bytes);
    MT_TRY(mt_caveat_lists_load(question->trace, question->run, &out->caveats));
    MT_TRY(mt_trace_peak_without(question->trace, question->run, tuning, &out->is_tuned, &out->untuned_bytes));
    MT_TRY(mt_observations_load(question, &out->observations));
    int64_t event = out->of[MT_MEASURE_ALLOCATED].by_category.event;
    return event == 0 ? MT_OK : mt_trace_pools(question->trace, question->run, event, &out->pools, &out->pool_count);
}

void mt_run_peaks_release(struct mt_run_peaks *peaks)
{
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        mt_peak_row_release(&peaks->of[measure].by_category);
        mt_peak_row_release(&peaks->of[measure].by_key);
    }
    free(peaks->phases);
    free(peaks->pools);
    free(peaks->outside);
    mt_caveat_lists_release(&peaks->caveats);
    mt_observations_release(&peaks->observations);
}

struct mt_run_peaks mt_run_peaks_of_stats(const struct mt_alloc_stats *stats)
{
    return (struct mt_run_peaks){.of = {
                                     [MT_MEASURE_ALLOCATED] = {.by_category.bytes = stats->all.peak_allocated_bytes},
                                     [MT_MEASURE_REQUESTED] = {.by_category.bytes = stats->all.peak_requested_bytes},
                                     [MT_MEASURE_RESERVED] = {.by_category.bytes = stats->peak_reserved_bytes},
                                 }};
}

/* True if the time of the peak is known. Peaks from statistics have no event, and a run without blocks has no peak. */
static bool has_moment(const struct mt_run_peak *peak)
{
    return peak->by_category.event != 0 && peak->by_category.bytes > 0;
}

#define ROW struct mt_peak_row
static const struct mt_field moment_fields[] = {
    MT_BYTES(ROW, bytes, "bytes", NULL, NULL),
    MT_STEP(ROW, step, "step", NULL, NULL),
    MT_TEXT(ROW, phase, "phase", NULL, NULL),
    MT_TEXT(ROW, span, "span", NULL, NULL),
    MT_NANOSECONDS(ROW, time_ns, "time_ns", NULL, "since the run began, by the device's clock"),
    MT_FIELDS_END,
};
static const struct mt_row_type moment_type = MT_ROW_TYPE(ROW, moment_fields);
static const struct mt_field cached_fields[] = {
    MT_BYTES(ROW, cached_bytes, "cached_bytes", NULL, "segments' bytes that no block held"),
    MT_FIELDS_END,
};
static const struct mt_row_type cached_type = MT_ROW_TYPE(ROW, cached_fields);
#undef ROW

/* The shares of a peak by one key. */
#define X(KEY, text)                                                                                                   \
    static const struct mt_field share_fields_##KEY[] = {                                                              \
        MT_TEXT(struct mt_peak_share, name, text, NULL, NULL),                                                         \
        MT_BYTES(struct mt_peak_share, requested_bytes, "requested_bytes", NULL, NULL),                                \
        MT_BYTES(struct mt_peak_share, allocated_bytes, "allocated_bytes", NULL, NULL),                                \
        MT_COUNT(struct mt_peak_share, blocks, "blocks", NULL, NULL),                                                  \
        MT_FIELDS_END,                                                                                                 \
    };                                                                                                                 \
    static const struct mt_row_type share_##KEY = MT_ROW_TYPE(struct mt_peak_share, share_fields_##KEY);
MT_GROUP_KEYS(X)
#undef X

#define ROW struct mt_run_peak
#define SHARES(KEY, words)                                                                                             \
    MT_ROWS(ROW, by_key.shares, by_key.share_count, "rows", &share_##KEY, words),                                      \
        MT_ROWS(ROW, by_category.shares, by_category.share_count, "by_category", &share_CATEGORY, NULL), MT_FIELDS_END
#define X(KEY, text)                                                                                                   \
    static const struct mt_field live_fields_##KEY[] = {MT_PART(ROW, by_category, &moment_type),                       \
                                                        SHARES(KEY, "add up to `bytes`")};                             \
    static const struct mt_row_type live_##KEY = MT_ROW_TYPE(ROW, live_fields_##KEY);                                  \
    static const struct mt_field reserved_fields_##KEY[] = {MT_PART(ROW, by_category, &moment_type),                   \
                                                            MT_PART(ROW, by_key, &cached_type),                        \
                                                            SHARES(KEY, "with `cached_bytes` add up to `bytes`")};     \
    static const struct mt_row_type reserved_##KEY = MT_ROW_TYPE(ROW, reserved_fields_##KEY);
MT_GROUP_KEYS(X)
#undef X
#undef SHARES
#undef ROW

#define ROW struct mt_phase_peak
static const struct mt_field phase_fields[] = {
    MT_TEXT(ROW, phase, "phase", "phase", NULL),
    MT_BYTES(ROW, bytes, "allocated_bytes", "highest", NULL),
    MT_SHOWN(COUNT, uint64_t, ROW, bytes, "bytes", "bytes"),
    MT_STEP(ROW, step, "step", "step", NULL),
    MT_NANOSECONDS(ROW, time_ns, "time_ns", "time", NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type phase_type = MT_ROW_TYPE(ROW, phase_fields);
#undef ROW

#define ROW struct mt_pool_row
static const struct mt_field pool_fields[] = {
    MT_TEXT(ROW, name, "pool", "pool", NULL),
    MT_BYTES(ROW, reserved_bytes, "reserved_bytes", "reserved", NULL),
    MT_BYTES(ROW, allocated_bytes, "allocated_bytes", "allocated", NULL),
    MT_COUNT(ROW, blocks, "blocks", "blocks", NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type pool_type = MT_ROW_TYPE(ROW, pool_fields);
#undef ROW

#define ROW struct mt_outside_row
static const struct mt_field sum_fields[] = {
    MT_BYTES(ROW, bytes, "bytes", "size", NULL),
    MT_BYTES(ROW, low_bytes, "low_bytes", "from", "the range of an estimate"),
    MT_BYTES(ROW, high_bytes, "high_bytes", "to", NULL),
    MT_FLAG(ROW, is_estimate, "estimated", "estimated", "from the card's profile; else measured"),
    MT_FIELDS_END,
};
static const struct mt_row_type sum_type = MT_ROW_TYPE(ROW, sum_fields);
static const struct mt_field holder_fields[] = {
    MT_TEXT(ROW, kind, "kind", NULL, "as in table `outside`"),
    MT_NAME(ROW, name, "name", NULL, "of the holder within its kind"),
    MT_FIELDS_OF(&sum_type),
    MT_FIELDS_END,
};
static const struct mt_row_type holder_type = MT_ROW_TYPE(ROW, holder_fields);
#undef ROW

#define ROW struct mt_run_peaks_answer
#define X(KEY, text)                                                                                                   \
    static const struct mt_field peaks_fields_##KEY[] = {                                                              \
        MT_BYTES(ROW, bytes[MT_MEASURE_ALLOCATED], "allocated_bytes", NULL, "the peak of live blocks, rounded up"),    \
        MT_BYTES(ROW, bytes[MT_MEASURE_REQUESTED], "requested_bytes", NULL, "the same without rounding"),              \
        MT_BYTES(ROW, bytes[MT_MEASURE_RESERVED], "reserved_bytes", NULL,                                              \
                 "the peak of memory that was reserved on the device"),                                                \
        MT_BYTES(ROW, untuned_bytes, "untuned_bytes", NULL,                                                            \
                 "the peak of live blocks without autotuning, which later runs find in a cache"),                      \
        MT_CHOICE(ROW, by, "by", NULL, "role, or as `--by` says: the name of the first field of `rows`",               \
                  mt_group_key_names),                                                                                 \
        MT_SOME_ROWS(ROW, rows, row_count, "rows", &share_##KEY, "live at the peak of allocated bytes"),               \
        MT_SOME_ROWS(ROW, by_category, category_count, "by_category", &share_CATEGORY, "the same blocks"),             \
        MT_ROW_OR_NULL(ROW, of[MT_MEASURE_ALLOCATED], "allocated", &live_##KEY, "the peak of allocated bytes"),        \
        MT_ROW_OR_NULL(ROW, of[MT_MEASURE_REQUESTED], "requested", &live_##KEY, NULL),                                 \
        MT_ROW_OR_NULL(ROW, of[MT_MEASURE_RESERVED], "reserved", &reserved_##KEY, NULL),                               \
        MT_ROWS(ROW, phases, phase_count, "phases", &phase_type,                                                       \
                "the highest moment of each, in the step that went highest; none if it has no phases"),                \
        MT_ROWS(ROW, pools, pool_count, "pools", &pool_type,                                                           \
                "private pools of PyTorch, at the peak of allocated bytes"),                                           \
        MT_ROWS(ROW, outside, outside_count, "outside", &holder_type,                                                  \
                "holders of memory outside the allocator, with the peak of each"),                                     \
        MT_ROW_OR_NULL(ROW, used, "used", &sum_type,                                                                   \
                       "`reserved_bytes` and those, which the driver counts; null: nothing is known of them"),         \
        MT_PART(ROW, caveats, &mt_caveat_lists_type),                                                                  \
        MT_PART(ROW, observations, &mt_observations_type),                                                             \
        MT_FIELDS_END,                                                                                                 \
    };
MT_GROUP_KEYS(X)
#undef X
#define X(KEY, text) [MT_GROUP_##KEY] = MT_ROW_TYPE(ROW, peaks_fields_##KEY),
const struct mt_row_type mt_run_peaks_types[] = {MT_GROUP_KEYS(X)};
#undef X
#undef ROW

struct mt_run_peaks_answer mt_run_peaks_answer_of(const struct mt_run_peaks *peaks)
{
    static const struct mt_peak_share none[1];
    const struct mt_run_peak *allocated = &peaks->of[MT_MEASURE_ALLOCATED];
    struct mt_run_peaks_answer answer = {.by = peaks->key,
                                         .row_count = allocated->by_key.share_count,
                                         .category_count = allocated->by_category.share_count,
                                         .phases = peaks->phases,
                                         .phase_count = peaks->phase_count,
                                         .pools = peaks->pools,
                                         .pool_count = peaks->pool_count,
                                         .outside = peaks->outside,
                                         .outside_count = peaks->outside_count,
                                         .used = peaks->outside_count > 0 ? &peaks->used : NULL,
                                         .caveats = peaks->caveats,
                                         .observations = peaks->observations};
    answer.untuned_bytes = peaks->is_tuned ? peaks->untuned_bytes : allocated->by_category.bytes;
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        answer.bytes[measure] = peaks->of[measure].by_category.bytes;
        answer.of[measure] = has_moment(&peaks->of[measure]) ? &peaks->of[measure] : NULL;
    }
    if (has_moment(allocated)) {
        answer.rows = allocated->by_key.shares;
        answer.by_category = allocated->by_category.shares;
    } else if (allocated->by_category.bytes == 0) {
        answer.rows = answer.by_category = none;
    }
    return answer;
}

/* A peak, for the table. */
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

static void print_peaks(const struct mt_run_peaks *peaks, const struct mt_peaks_form *form)
{
    struct peak_row rows[MT_MEASURE_COUNT];
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        const struct mt_peak_row *peak = &peaks->of[measure].by_category;
        struct peak_row *row = &rows[measure];
        *row = (struct peak_row){mt_measure_name((mt_measure)measure), "-", "-", "-", .bytes = peak->bytes};
        if (!has_moment(&peaks->of[measure]))
            continue;
        row->step = mt_format_step(peak->step, row->step_text);
        row->phase = peak->phase;
        row->span = peak->span;
        row->time = mt_figure_number((double)peak->time_ns, "%.3f ms", (double)peak->time_ns / 1e6);
    }
    if (form->has_bytes)
        mt_rows_print(&peak_type, "measure size bytes step phase span time", "time bytes phase", rows,
                      MT_MEASURE_COUNT);
    else
        mt_rows_print(&peak_type, "measure size step phase span time", "time phase", rows, MT_MEASURE_COUNT);
}

/* A holder of memory outside the allocator, for the table. */
struct holder_row {
    const char *name;
    struct mt_outside_row row;
    char text[MT_BYTES_TEXT * 2];
};

#define ROW struct holder_row
static const struct mt_field shown_holder_fields[] = {
    MT_SHOWN(TEXT, const char *, ROW, name, "name", "outside"),
    MT_SHOWN(BYTES, uint64_t, ROW, row.bytes, "size", "size"),
    MT_SHOWN(COUNT, uint64_t, ROW, row.bytes, "bytes", "bytes"),
    MT_SHOWN(BYTES, uint64_t, ROW, row.low_bytes, "low", "from"),
    MT_SHOWN(BYTES, uint64_t, ROW, row.high_bytes, "high", "to"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type shown_holder_type = MT_ROW_TYPE(struct holder_row, shown_holder_fields);

/* Prints the holders of memory outside the allocator, and the driver's total including reserved memory. */
static void print_outside(const struct mt_run_peaks *peaks, const struct mt_peaks_form *form)
{
    static const char *const fields[2][2] = {{"name size", "name size bytes"},
                                             {"name size low high", "name size bytes low high"}};
    static const char *const spared[2][2] = {{NULL, "bytes"}, {"high low", "bytes high low"}};
    const size_t count = peaks->outside_count;
    struct holder_row *rows = mt_host_alloc((count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        const struct mt_outside_row *row = &peaks->outside[i];
        snprintf(rows[i].text, sizeof rows[i].text, "%s%s%s", row->kind, row->name[0] != '\0' ? ": " : "", row->name);
        rows[i].name = rows[i].text;
        rows[i].row = *row;
    }
    rows[count] = (struct holder_row){.name = "with reserved", .row = peaks->used};
    if (count > 0) {
        putchar('\n');
        mt_rows_print(&shown_holder_type, fields[peaks->used.is_estimate][form->has_bytes],
                      spared[peaks->used.is_estimate][form->has_bytes], rows, count + 1);
    }
    free(rows);
}

static void add_row(struct mt_table *table, const struct mt_peak_share *part, uint64_t whole)
{
    mt_table_add(table, part->name[0] != '\0' ? part->name : "(none)");
    mt_table_add_bytes(table, part->allocated_bytes);
    mt_table_add_share(table, (double)part->allocated_bytes, (double)whole);
    mt_table_add_number(table, (int64_t)part->blocks);
}

/* Returns the sum of the parts from `first` on. */
static struct mt_peak_share sum_parts(const struct mt_peak_row *peak, size_t first, const char *name)
{
    struct mt_peak_share sum = {.name = name};
    for (size_t i = first; i < peak->share_count; i++) {
        sum.allocated_bytes += peak->shares[i].allocated_bytes;
        sum.blocks += peak->shares[i].blocks;
    }
    return sum;
}

/* Prints the parts of the allocated peak, largest first, and their sum. */
static void print_shares(const struct mt_peak_row *peak, const char *heading, size_t most_rows)
{
    const struct mt_column columns[] = {
        {heading, MT_ALIGN_LEFT}, {"allocated", MT_ALIGN_RIGHT}, {"share", MT_ALIGN_RIGHT}, {"blocks", MT_ALIGN_RIGHT}};
    static const char *const spare[] = {"blocks", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    const struct mt_peak_share total = sum_parts(peak, 0, "total");
    const size_t shown = peak->share_count <= most_rows ? peak->share_count : most_rows;
    char more[MT_BYTES_TEXT];
    mt_table_spare(table, spare);
    for (size_t i = 0; i < shown; i++)
        add_row(table, &peak->shares[i], total.allocated_bytes);
    snprintf(more, sizeof more, "(%zu more)", peak->share_count - shown);
    const struct mt_peak_share rest = sum_parts(peak, shown, more);
    if (shown < peak->share_count)
        add_row(table, &rest, total.allocated_bytes);
    add_row(table, &total, total.allocated_bytes);
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_phases(const struct mt_run_peaks *peaks, const struct mt_peaks_form *form)
{
    if (peaks->phase_count == 0)
        return;
    putchar('\n');
    mt_rows_print(&phase_type,
                  form->has_bytes ? "phase allocated_bytes bytes step time_ns" : "phase allocated_bytes step time_ns",
                  "time_ns", peaks->phases, peaks->phase_count);
}

/* Prints the private pools. The other tables include their memory. */
static void print_pools(const struct mt_run_peaks *peaks)
{
    if (peaks->pool_count == 0)
        return;
    putchar('\n');
    mt_rows_print(&pool_type, "pool reserved_bytes allocated_bytes blocks", NULL, peaks->pools, peaks->pool_count);
}

/* Prints the peak of a run with cached autotuning choices. */
static void print_untuned(const struct mt_run_peaks *peaks)
{
    if (peaks->is_tuned)
        printf("\nallocated without autotuning, as with a warm cache: %s\n", MT_SIZE(peaks->untuned_bytes));
}

/* Prints what is unknown about the peaks. */
static void print_unknown(const struct mt_run_peaks *peaks)
{
    struct mt_text text = {0};
    mt_caveat_add_unknown(&peaks->caveats, &text);
    if (text.length > 0)
        printf("\n%s", mt_text_get(&text));
    mt_text_release(&text);
}

/* ---- the headline ---- */

/* Adds " at gpt2.py:7", the line of the block that reached the peak, or else the module that allocated it. */
static mt_status add_place(const struct mt_question *question, const struct mt_peak_row *peak, struct mt_text *out)
{
    struct mt_stack_row *stacks = NULL;
    struct mt_text line = {0};
    size_t count = 0;
    uint32_t stack = 0;
    mt_status status = mt_trace_event_stack(question->trace, question->run, peak->event, &stack);
    if (status == MT_OK && stack != 0)
        status = mt_trace_stacks(question->trace, question->run, &stacks, &count);
    if (status == MT_OK)
        mt_stack_line(stacks, count, stack, &line);
    const char *place = line.length > 0 ? mt_text_get(&line) : peak->span != NULL ? peak->span : "";
    if (place[0] != '\0') {
        mt_text_add(out, line.length > 0 ? " at " : " in ");
        mt_text_add_visible(out, place);
    }
    mt_text_release(&line);
    free(stacks);
    return status;
}

/* Adds "; 15.88 of 23.52 GiB of the card", with both units if they differ. */
static void add_part(struct mt_text *out, uint64_t used, uint64_t card)
{
    char part[MT_BYTES_TEXT], whole[MT_BYTES_TEXT];
    char *const unit = strchr(mt_format_bytes(used, part), ' ');
    const char *const unit_of_whole = strchr(mt_format_bytes(card, whole), ' ');
    if (unit != NULL && unit_of_whole != NULL && strcmp(unit, unit_of_whole) == 0)
        *unit = '\0';
    mt_text_add(out, "; %s of %s of the card", part, whole);
}

/* Adds the used part of the card, or the reserved memory if the card is unknown. */
static mt_status add_card(const struct mt_question *question, const struct mt_run_peaks *peaks, struct mt_text *out)
{
    const uint64_t reserved = peaks->of[MT_MEASURE_RESERVED].by_category.bytes;
    const uint64_t used = peaks->outside_count > 0 ? peaks->used.bytes : reserved;
    uint64_t card = question->run->capacity_bytes;
    struct mt_verdict verdict = {0};
    mt_status status = mt_run_is(question->run, MT_RUN_OOM) ? MT_OK : mt_verdict_find(question, &verdict);
    if (status == MT_OK && verdict.card_bytes > 0)
        card = verdict.card_bytes;
    mt_verdict_release(&verdict);
    if (card > 0)
        add_part(out, used, card);
    else
        mt_text_add(out, "; %s reserved", MT_SIZE(reserved));
    return status;
}

mt_status mt_run_peaks_headline(const struct mt_question *question, const struct mt_run_peaks *peaks)
{
    const struct mt_run_peak *allocated = &peaks->of[MT_MEASURE_ALLOCATED];
    const struct mt_peak_row *peak = &allocated->by_category, *parts = &allocated->by_key;
    struct mt_text line = {0};
    char step[MT_BYTES_TEXT];
    if (!has_moment(allocated)) {
        mt_say("Nothing was allocated.");
        return MT_OK;
    }
    mt_text_add(&line, "%s live", MT_SIZE(peak->bytes));
    mt_status status = add_place(question, peak, &line);
    mt_text_add(&line, " (%s, %s)", peak->phase, mt_format_step(peak->step, step));
    MT_THEN(status, add_card(question, peaks, &line));
    if (parts->share_count > 0 && parts->shares[0].name[0] != '\0')
        mt_text_add(&line, "; %s %.0f %%", parts->shares[0].name,
                    100 * (double)parts->shares[0].allocated_bytes / (double)peak->bytes);
    if (status == MT_OK)
        mt_print_line(&line);
    else
        mt_text_release(&line);
    return status;
}

void mt_run_peaks_print(const struct mt_run_peaks *peaks, const struct mt_peaks_form *form)
{
    const struct mt_run_peak *allocated = &peaks->of[MT_MEASURE_ALLOCATED];
    assert(peaks->key < MT_GROUP_KEY_COUNT);
    print_peaks(peaks, form);
    print_untuned(peaks);
    print_outside(peaks, form);
    print_pools(peaks);
    print_unknown(peaks);
    const struct mt_screen screen = mt_output_screen();
    mt_program_phases_print(&peaks->observations, &screen);
    if (mt_observations_have_words(&peaks->observations))
        mt_screen_gap(&screen);
    mt_observations_print(&peaks->observations, &screen);
    if (allocated->by_key.share_count == 0)
        return;
    print_shares(&allocated->by_key, mt_group_key_names[peaks->key], form->most_rows);
    if (peaks->key == MT_GROUP_ROLE || peaks->key == MT_GROUP_PHASE)
        print_phases(peaks, form);
}
