/* Compares two runs: reads both sides, and derives rows and causes from their blocks. Finds two runs to compare if none
 * is named. */
#include "analysis/diff/diff_kinds.h"
#include "analysis/run_settings.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int64_t difference(uint64_t a, uint64_t b)
{
    return (int64_t)(b - a);
}

static void add_row(struct mt_diff_parts *parts, struct mt_diff_row row)
{
    row.delta_bytes = difference(row.a_bytes, row.b_bytes);
    *MT_HOST_ADD(parts->rows, parts->row_count) = row;
}

/* Adds a row for each category, role, phase and op. */
static void make_rows(const struct diff_kinds *kinds, struct mt_diff_parts *parts)
{
    for (size_t begin = 0, end; begin < kinds->count; begin = end) {
        const struct diff_kind *first = &kinds->items[begin];
        struct mt_diff_row row = {
            .category = first->category, .role = first->role, .phase = first->phase, .op = first->op};
        for (end = begin; end < kinds->count && diff_kinds_share_row(first, &kinds->items[end]); end++) {
            const struct diff_kind *kind = &kinds->items[end];
            row.a_bytes += kind->block_bytes[MT_SIDE_A];
            row.b_bytes += kind->block_bytes[MT_SIDE_B];
            row.a_blocks += kind->count[MT_SIDE_A];
            row.b_blocks += kind->count[MT_SIDE_B];
        }
        if (row.a_blocks > 0 || row.b_blocks > 0)
            add_row(parts, row);
    }
}

/* Derives the parts of reserved bytes: the parts of allocated bytes, plus free memory in segments. */
static void make_reserved(const struct mt_diff_side side[MT_SIDE_COUNT], const struct mt_diff_parts *allocated,
                          struct mt_diff_parts *reserved)
{
    const struct mt_diff_side *a = &side[MT_SIDE_A], *b = &side[MT_SIDE_B];
    struct mt_diff_row cached = {.category = MT_DIFF_CACHED,
                                 .role = "",
                                 .phase = "",
                                 .op = "",
                                 .a_bytes = a->reserved_bytes - a->allocated_bytes,
                                 .b_bytes = b->reserved_bytes - b->allocated_bytes};
    for (size_t i = 0; i < allocated->row_count; i++)
        add_row(reserved, allocated->rows[i]);
    add_row(reserved, cached);
    reserved->causes = mt_host_resize(NULL, allocated->cause_count + 1, sizeof *reserved->causes);
    if (allocated->cause_count > 0)
        memcpy(reserved->causes, allocated->causes, allocated->cause_count * sizeof *reserved->causes);
    reserved->cause_count = allocated->cause_count;
    int64_t bytes = difference(cached.a_bytes, cached.b_bytes);
    if (bytes != 0)
        reserved->causes[reserved->cause_count++] =
            (struct mt_diff_cause){.kind = MT_CAUSE_CACHED, .category = "", .bytes = bytes};
}

static uint64_t magnitude(int64_t bytes)
{
    return bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
}

/* Orders by magnitude, largest first. */
static int compare_magnitudes(int64_t left, int64_t right)
{
    return MT_COMPARE(magnitude(right), magnitude(left));
}

static int compare_rows(const void *left, const void *right)
{
    const struct mt_diff_row *a = left, *b = right;
    int order = compare_magnitudes(a->delta_bytes, b->delta_bytes);
    const char *const texts[][2] = {
        {a->category, b->category}, {a->role, b->role}, {a->phase, b->phase}, {a->op, b->op}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && order == 0; i++)
        order = strcmp(texts[i][0], texts[i][1]);
    return order;
}

static int compare_causes(const void *left, const void *right)
{
    const struct mt_diff_cause *a = left, *b = right;
    int order = compare_magnitudes(a->bytes, b->bytes);
    if (order == 0)
        order = MT_COMPARE(a->kind, b->kind);
    return order != 0 ? order : strcmp(a->category, b->category);
}

static void sort_parts(struct mt_diff_parts *parts)
{
    if (parts->row_count > 1)
        qsort(parts->rows, parts->row_count, sizeof *parts->rows, compare_rows);
    if (parts->cause_count > 1)
        qsort(parts->causes, parts->cause_count, sizeof *parts->causes, compare_causes);
}

/* True if the rows' and the causes' bytes each sum to the difference. */
static __attribute__((unused)) bool is_complete(const struct mt_diff_parts *parts)
{
    uint64_t of_rows = 0, of_causes = 0, delta = (uint64_t)parts->delta_bytes;
    for (size_t i = 0; i < parts->row_count; i++)
        of_rows += (uint64_t)parts->rows[i].delta_bytes;
    for (size_t i = 0; i < parts->cause_count; i++)
        of_causes += (uint64_t)parts->causes[i].bytes;
    return of_rows == delta && of_causes == delta;
}

static void compare_sides(const struct diff_live live[MT_SIDE_COUNT], struct mt_diff *out)
{
    const struct mt_diff_side *a = &out->side[MT_SIDE_A], *b = &out->side[MT_SIDE_B];
    struct diff_kinds kinds;
    diff_kinds_create(live, &kinds);
    out->allocated.delta_bytes = difference(a->allocated_bytes, b->allocated_bytes);
    out->reserved.delta_bytes = difference(a->reserved_bytes, b->reserved_bytes);
    make_rows(&kinds, &out->allocated);
    diff_causes_add(&kinds, out->side, &out->allocated);
    make_reserved(out->side, &out->allocated, &out->reserved);
    assert(is_complete(&out->allocated) && is_complete(&out->reserved));
    sort_parts(&out->allocated);
    sort_parts(&out->reserved);
    diff_kinds_release(&kinds);
}

mt_status mt_trace_diff(const struct mt_question *a, const struct mt_question *b, struct mt_diff *out)
{
    *out = (struct mt_diff){0};
    const struct mt_question *const runs[] = {[MT_SIDE_A] = a, [MT_SIDE_B] = b};
    struct diff_live live[MT_SIDE_COUNT] = {0};
    mt_status status = MT_OK;
    for (int side = 0; side < MT_SIDE_COUNT && status == MT_OK; side++)
        status = diff_live_load(runs[side], a->trace, &out->side[side], &live[side]);
    if (status == MT_OK)
        compare_sides(live, out);
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        diff_live_release(&live[side]);
    return status;
}

void mt_diff_release(struct mt_diff *diff)
{
    struct mt_diff_parts *parts[] = {&diff->allocated, &diff->reserved};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        free(parts[i]->rows);
        free(parts[i]->causes);
    }
    *diff = (struct mt_diff){0};
}

struct groups {
    struct mt_diff_group *items;
    size_t count;
};

/* Returns the row of a group, and adds it if necessary. */
static struct mt_diff_group *group_of(struct groups *groups, const char *name)
{
    for (size_t i = 0; i < groups->count; i++)
        if (strcmp(groups->items[i].name, name) == 0)
            return &groups->items[i];
    struct mt_diff_group *group = MT_HOST_ADD(groups->items, groups->count);
    *group = (struct mt_diff_group){.name = name};
    return group;
}

static int compare_groups(const void *left, const void *right)
{
    const struct mt_diff_group *a = left, *b = right;
    int order = compare_magnitudes(a->delta_bytes, b->delta_bytes);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static mt_status add_groups(const struct mt_question *of, mt_group_key key, mt_side side, struct groups *groups)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak_by(of->trace, of->run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, key, &peak);
    for (size_t i = 0; i < peak.share_count && status == MT_OK; i++) {
        struct mt_diff_group *group = group_of(groups, peak.shares[i].name);
        group->bytes[side] = peak.shares[i].allocated_bytes;
        group->blocks[side] = peak.shares[i].blocks;
    }
    mt_peak_row_release(&peak);
    return status;
}

/* Completes the groups and sorts them. */
static void finish_groups(struct groups *groups, int (*compare)(const void *, const void *),
                          struct mt_diff_group **out_rows, size_t *out_count)
{
    for (size_t i = 0; i < groups->count; i++) {
        struct mt_diff_group *group = &groups->items[i];
        group->delta_bytes = difference(group->bytes[MT_SIDE_A], group->bytes[MT_SIDE_B]);
    }
    if (groups->count > 1)
        qsort(groups->items, groups->count, sizeof *groups->items, compare);
    *out_rows = groups->items;
    *out_count = groups->count;
}

mt_status mt_diff_groups(const struct mt_question *a, const struct mt_question *b, mt_group_key key,
                         struct mt_diff_group **out_rows, size_t *out_count)
{
    struct groups groups = {0};
    mt_status status = add_groups(a, key, MT_SIDE_A, &groups);
    MT_THEN(status, add_groups(b, key, MT_SIDE_B, &groups));
    finish_groups(&groups, compare_groups, out_rows, out_count);
    return status;
}

static int compare_categories(const void *left, const void *right)
{
    const struct mt_diff_group *a = left, *b = right;
    int order = MT_COMPARE(mt_larger(b->bytes[MT_SIDE_A], b->bytes[MT_SIDE_B]),
                           mt_larger(a->bytes[MT_SIDE_A], a->bytes[MT_SIDE_B]));
    return order != 0 ? order : strcmp(a->name, b->name);
}

static mt_status add_categories(const struct mt_question *of, mt_side side, struct groups *groups)
{
    struct mt_category_row *rows = NULL;
    size_t count = 0;
    mt_status status = mt_trace_categories(of->trace, of->run, NULL, &rows, &count);
    for (size_t i = 0; i < count; i++)
        group_of(groups, rows[i].category)->bytes[side] = rows[i].max_bytes;
    free(rows);
    return status;
}

mt_status mt_diff_categories(const struct mt_question *a, const struct mt_question *b, struct mt_diff_group **out_rows,
                             size_t *out_count)
{
    struct groups groups = {0};
    mt_status status = add_categories(a, MT_SIDE_A, &groups);
    MT_THEN(status, add_categories(b, MT_SIDE_B, &groups));
    finish_groups(&groups, compare_categories, out_rows, out_count);
    return status;
}

static bool is_candidate(const struct mt_run *run)
{
    return mt_run_is(run, MT_RUN_DONE) && run->event_count > 0;
}

/* Returns the newest run before `newer` that differs from it in exactly one setting; NULL if there is none. */
static const struct mt_run *find_partner(const struct mt_run *runs, const struct mt_settings *settings, size_t newer)
{
    struct mt_settings_difference difference;
    for (size_t older = newer; older-- > 0;) {
        if (!is_candidate(&runs[older]))
            continue;
        mt_settings_compare(&settings[older], &settings[newer], MT_SETTINGS_OF_MEMORY, &difference);
        if (difference.different_count == 1 && difference.unknown_count == 0)
            return &runs[older];
    }
    return NULL;
}

mt_status mt_diff_pair_find(struct mt_trace *trace, const struct mt_run **out_a, const struct mt_run **out_b)
{
    *out_a = *out_b = NULL;
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count), *newest;
    mt_status status = mt_trace_find_run(trace, NULL, &newest); /* fails if there is no run */
    if (status != MT_OK)
        return status;
    struct mt_settings *settings = mt_host_alloc(count * sizeof *settings);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = mt_settings_load(trace, &runs[i], &settings[i]);
    for (size_t newer = count; status == MT_OK && *out_a == NULL && newer-- > 0;) {
        *out_b = &runs[newer];
        if (is_candidate(*out_b))
            *out_a = find_partner(runs, settings, newer);
    }
    for (size_t i = 0; i < count; i++)
        mt_settings_release(&settings[i]);
    free(settings);
    return status;
}
