/* The detectors' cuts, grouped by the texts of their labels, and weighed. */
#include "analysis/advise/candidates.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIKE_TEXTS = 5 };

/* The texts that are equal in all labels of a group. */
struct kind {
    const char *texts[ALIKE_TEXTS]; /* in the order of the MT_ALIKE bits; "": not compared */
    uint32_t label;
};

/* The labels' groups. Invariants: group_of_label[label] < count; kinds[group] has the texts of its labels. */
struct groups {
    struct kind *kinds;
    uint32_t *group_of_label;
    size_t count;
};

static struct kind kind_of(const struct mt_label_row *label, uint32_t number, unsigned alike)
{
    const char *const texts[ALIKE_TEXTS] = {label->category, label->role, label->op, label->phase, label->place};
    struct kind kind = {.label = number};
    for (int i = 0; i < ALIKE_TEXTS; i++)
        kind.texts[i] = (alike >> i & 1) != 0 ? texts[i] : "";
    return kind;
}

/* Equal texts of a trace have equal pointers, except for "", which may come from elsewhere. */
static int compare_texts(const struct kind *a, const struct kind *b)
{
    int order = 0;
    for (int i = 0; i < ALIKE_TEXTS && order == 0; i++)
        order = a->texts[i] == b->texts[i] ? 0 : strcmp(a->texts[i], b->texts[i]);
    return order;
}

static int compare_kinds(const void *left, const void *right)
{
    const struct kind *a = left, *b = right;
    int order = compare_texts(a, b);
    return order != 0 ? order : MT_COMPARE(a->label, b->label);
}

/* Returns the MT_ALIKE bits by which blocks with the label are grouped. */
static unsigned alike_of(const struct mt_label_row *label, unsigned alike)
{
    static const mt_role whole[] = {
        MT_ROLE_PARAMETER, MT_ROLE_GRADIENT, MT_ROLE_OPTIMIZER_STATE, MT_ROLE_WEIGHT_CAST,
        MT_ROLE_INPUT,     MT_ROLE_BUFFER,   MT_ROLE_KEY_VALUE_CACHE, MT_ROLE_GATHERED_PARAMETER};
    if (alike != MT_ALIKE_BY_ROLE)
        return alike;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strcmp(label->role, mt_role_name(whole[i])) == 0)
            return MT_ALIKE_ROLE;
    return MT_ALIKE_ROLE | MT_ALIKE_CATEGORY;
}

static void groups_create(const struct mt_window *window, unsigned alike, struct groups *out)
{
    size_t labels = window->input->label_count;
    *out = (struct groups){.kinds = mt_host_alloc((labels + 1) * sizeof *out->kinds),
                           .group_of_label = mt_host_alloc((labels + 1) * sizeof *out->group_of_label)};
    for (size_t i = 0; i < labels; i++)
        out->kinds[i] = kind_of(&window->input->labels[i], (uint32_t)i, alike_of(&window->input->labels[i], alike));
    qsort(out->kinds, labels, sizeof *out->kinds, compare_kinds);
    for (size_t i = 0; i < labels; i++) {
        bool is_new = out->count == 0 || compare_texts(&out->kinds[out->count - 1], &out->kinds[i]) != 0;
        uint32_t label = out->kinds[i].label;
        if (is_new)
            out->kinds[out->count++] = out->kinds[i];
        out->group_of_label[label] = (uint32_t)(out->count - 1);
    }
}

static void groups_release(struct groups *groups)
{
    free(groups->kinds);
    free(groups->group_of_label);
}

static uint32_t group_of(const struct mt_window *window, const struct groups *groups, const struct mt_cut *cut)
{
    return groups->group_of_label[window->input->blocks[cut->block].label];
}

/* Returns the cuts ordered by group, with their order kept within each; sets ends[group] to the index where the group
 * ends. The caller frees them. */
static struct mt_cut *sort_by_group(const struct mt_window *window, const struct groups *groups,
                                    const struct mt_cut_list *list, size_t *ends)
{
    struct mt_cut *sorted = mt_host_resize(NULL, list->count + 1, sizeof *sorted);
    for (size_t i = 0; i < list->count; i++)
        ends[group_of(window, groups, &list->items[i])]++;
    size_t before = 0;
    for (size_t group = 0; group < groups->count; group++) {
        size_t count = ends[group];
        ends[group] = before;
        before += count;
    }
    for (size_t i = 0; i < list->count; i++)
        sorted[ends[group_of(window, groups, &list->items[i])]++] = list->items[i];
    assert(groups->count == 0 || ends[groups->count - 1] == list->count);
    return sorted;
}

/* Adds a cut to the upper bound of the candidate's saving, and to its byte-seconds. */
static void add_cut(const struct mt_window *window, const struct mt_cut *cut, struct mt_candidate *candidate)
{
    assert(cut->from < cut->to);
    uint64_t bytes = window->input->blocks[cut->block].requested_bytes;
    int64_t peak = window->usage.peak_position;
    if (cut->from <= peak && peak < cut->to)
        candidate->peak_bytes += bytes;
    uint64_t ns = mt_usage_ns(&window->usage, cut->to) - mt_usage_ns(&window->usage, cut->from);
    candidate->byte_seconds += (double)bytes * (double)ns * 1e-9;
}

static void add_candidate(struct mt_candidates *candidates, const struct mt_window *window,
                          struct mt_candidate candidate)
{
    for (size_t i = 0; i < candidate.count; i++)
        add_cut(window, &candidate.cuts[i], &candidate);
    *MT_HOST_ADD(candidates->items, candidates->count) = candidate;
}

static void add_groups(struct mt_candidates *candidates, const struct mt_window *window, mt_pattern pattern,
                       unsigned alike, const struct mt_cut_list *list, struct mt_cut **out_cuts)
{
    struct groups groups;
    groups_create(window, alike, &groups);
    size_t *ends = mt_host_alloc((groups.count + 1) * sizeof *ends), begin = 0;
    *out_cuts = sort_by_group(window, &groups, list, ends);
    for (size_t group = 0; group < groups.count; begin = ends[group++]) {
        const char *const *texts = groups.kinds[group].texts;
        struct mt_candidate candidate = {.finding = {.pattern = pattern,
                                                     .category = texts[0],
                                                     .role = texts[1],
                                                     .op = texts[2],
                                                     .phase = texts[3],
                                                     .place = texts[4]},
                                         .cuts = *out_cuts + begin,
                                         .count = ends[group] - begin};
        if (candidate.count > 0)
            add_candidate(candidates, window, candidate);
    }
    free(ends);
    groups_release(&groups);
}

/* Adds the candidates of a kind's detector for all blocks, or for blocks that were saved for backward. */
static void detect(struct mt_candidates *candidates, const struct mt_window *window, mt_pattern pattern,
                   bool is_of_saved)
{
    const struct mt_finding_kind *kind = &mt_finding_kinds[pattern];
    struct mt_cut_list list = {0};
    for (size_t block = 0; block < window->input->block_count; block++)
        if (!is_of_saved || window->roles[window->input->blocks[block].label] == MT_ROLE_ACTIVATION)
            kind->cut(window, block, &list);
    add_groups(candidates, window, pattern, is_of_saved ? MT_ALIKE_ROLE : kind->alike, &list,
               &candidates->cuts[pattern][is_of_saved]);
    mt_cut_list_release(&list);
}

void mt_candidates_create(const struct mt_window *window, struct mt_candidates *out)
{
    *out = (struct mt_candidates){.items = mt_host_alloc(sizeof *out->items)};
    for (mt_pattern pattern = 0; pattern < MT_PATTERN_COUNT; pattern++) {
        detect(out, window, pattern, false);
        if ((mt_finding_kinds[pattern].properties & MT_FINDS_ACTIVATIONS) != 0)
            detect(out, window, pattern, true);
    }
}

void mt_candidates_release(struct mt_candidates *candidates)
{
    for (mt_pattern pattern = 0; pattern < MT_PATTERN_COUNT; pattern++) {
        free(candidates->cuts[pattern][false]);
        free(candidates->cuts[pattern][true]);
    }
    free(candidates->items);
    *candidates = (struct mt_candidates){0};
}

/* Orders by the upper bound of the saving, largest first. */
static int compare_bounds(const void *left, const void *right)
{
    const struct mt_candidate *a = left, *b = right;
    int order = MT_COMPARE(b->peak_bytes, a->peak_bytes);
    return order != 0 ? order : MT_COMPARE(b->byte_seconds, a->byte_seconds);
}

/* Orders candidates that one option fixes before others, then by saving, largest first. */
static int compare_savings(const void *left, const void *right)
{
    const struct mt_candidate *a = left, *b = right;
    int order = MT_COMPARE(b->comes_first, a->comes_first);
    if (order == 0)
        order = MT_COMPARE(a->usage.peak_bytes, b->usage.peak_bytes);
    if (order == 0)
        order = MT_COMPARE(b->byte_seconds, a->byte_seconds);
    return order != 0 ? order : MT_COMPARE(a->finding.pattern, b->finding.pattern);
}

/* The largest savings so far. Invariants: count <= limit; bytes are descending. */
struct best {
    uint64_t *bytes;
    size_t count, limit;
};

/* Inserts a saving in order if it is among the best. */
static void enter_best(struct best *best, uint64_t saved)
{
    size_t at = best->count;
    while (at > 0 && best->bytes[at - 1] < saved)
        at--;
    if (at == best->limit)
        return;
    size_t kept = best->count < best->limit ? best->count : best->limit - 1;
    memmove(best->bytes + at + 1, best->bytes + at, (kept - at) * sizeof *best->bytes);
    best->bytes[at] = saved;
    best->count = kept + 1;
    assert(best->count <= best->limit);
}

/* True if no candidate with this bound can be among the best, or tie with one of them. */
static bool is_best_known(const struct best *best, uint64_t bound)
{
    return best->count == best->limit && best->bytes[best->count - 1] > bound;
}

uint64_t mt_candidate_saved(const struct mt_candidate *candidate, const struct mt_window *window)
{
    assert(candidate->usage.peak_bytes <= window->usage.peak_bytes);
    return window->usage.peak_bytes - candidate->usage.peak_bytes;
}

static bool is_part(const struct mt_candidates *candidates, const struct mt_candidate *candidate)
{
    for (size_t i = 0; i < candidates->count; i++)
        if (mt_finding_is_part(&candidate->finding, &candidates->items[i].finding))
            return true;
    return false;
}

void mt_candidates_drop_parts(struct mt_candidates *candidates)
{
    bool *dropped = mt_host_alloc((candidates->count + 1) * sizeof *dropped);
    for (size_t i = 0; i < candidates->count; i++)
        dropped[i] = is_part(candidates, &candidates->items[i]);
    size_t kept = 0;
    for (size_t i = 0; i < candidates->count; i++)
        if (!dropped[i])
            candidates->items[kept++] = candidates->items[i];
    candidates->left_out = candidates->count - kept;
    candidates->count = kept;
    free(dropped);
}

bool mt_finding_comes_first(const struct mt_finding *finding, uint64_t saved_bytes, uint64_t most_bytes)
{
    enum {
        ENOUGH_PART = 10,
        ENOUGH_PART_RESERVED = 2
    }; /* fragmentation must save more, since blocks of other findings may cause it */
    const int part = mt_finding_is_of_reserved(finding) ? ENOUGH_PART_RESERVED : ENOUGH_PART;
    return saved_bytes > 0 && saved_bytes >= most_bytes / (uint64_t)part && mt_finding_is_optional(finding);
}

static void find_first(struct mt_candidates *candidates, const struct mt_window *window)
{
    for (size_t i = 0; i < candidates->count; i++)
        if (mt_candidate_saved(&candidates->items[i], window) > candidates->most_bytes)
            candidates->most_bytes = mt_candidate_saved(&candidates->items[i], window);
    for (size_t i = 0; i < candidates->count; i++) {
        struct mt_candidate *candidate = &candidates->items[i];
        candidate->comes_first =
            mt_finding_comes_first(&candidate->finding, mt_candidate_saved(candidate, window), candidates->most_bytes);
    }
}

void mt_candidates_weigh(struct mt_candidates *candidates, struct mt_window *window, size_t limit)
{
    assert(limit >= 1);
    qsort(candidates->items, candidates->count, sizeof *candidates->items, compare_bounds);
    struct best best = {.limit = limit < candidates->count ? limit : candidates->count};
    best.bytes = mt_host_alloc((best.limit + 1) * sizeof *best.bytes);
    for (size_t i = 0; i < candidates->count; i++) {
        struct mt_candidate *candidate = &candidates->items[i];
        bool is_passed_over =
            is_best_known(&best, candidate->peak_bytes) && !mt_finding_is_optional(&candidate->finding);
        candidate->usage.peak_bytes = window->usage.peak_bytes;
        if (candidate->peak_bytes == 0 || is_passed_over)
            continue;
        candidate->usage = mt_usage_cut(&window->usage, candidate->cuts, candidate->count);
        assert(mt_candidate_saved(candidate, window) <= candidate->peak_bytes);
        enter_best(&best, mt_candidate_saved(candidate, window));
    }
    free(best.bytes);
    find_first(candidates, window);
    qsort(candidates->items, candidates->count, sizeof *candidates->items, compare_savings);
}

void mt_candidates_gather_parts(struct mt_candidates *candidates)
{
    size_t count = candidates->count, gathered = 0;
    struct mt_candidate *items = mt_host_alloc((count + 1) * sizeof *items);
    bool *taken = mt_host_alloc((count + 1) * sizeof *taken);
    for (size_t whole = 0; whole < count; whole++) {
        if (taken[whole] || is_part(candidates, &candidates->items[whole]))
            continue;
        items[gathered++] = candidates->items[whole];
        for (size_t i = 0; i < count; i++) {
            if (taken[i] || !mt_finding_is_part(&candidates->items[i].finding, &candidates->items[whole].finding))
                continue;
            items[gathered++] = candidates->items[i];
            taken[i] = true;
        }
    }
    assert(gathered == count);
    free(taken);
    free(candidates->items);
    candidates->items = items;
}
