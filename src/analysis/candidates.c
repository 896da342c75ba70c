#include "analysis/candidates.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { ALIKE_TEXTS = 5 };

/* What blocks of a label have in common with others of their group. */
struct kind {
    const char *texts[ALIKE_TEXTS]; /* in the order of the MT_ALIKE bits; "" where they may differ */
    uint32_t label;
};

/* The labels' groups. Invariants: group_of_label[label] < count; kinds[group] is that of its labels. */
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

/* Texts are compared as such: those of a trace are kept once, but "" is not of it. */
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
    return order != 0 ? order : (a->label > b->label) - (a->label < b->label);
}

static void groups_create(const struct mt_scene *scene, const struct mt_lens *lens, struct groups *out)
{
    size_t labels = scene->input->label_count;
    *out = (struct groups){.kinds = mt_host_alloc((labels + 1) * sizeof *out->kinds),
                           .group_of_label = mt_host_alloc((labels + 1) * sizeof *out->group_of_label)};
    for (size_t i = 0; i < labels; i++)
        out->kinds[i] = kind_of(&scene->input->labels[i], (uint32_t)i, lens->alike(&scene->input->labels[i]));
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

static uint32_t group_of(const struct mt_scene *scene, const struct groups *groups, const struct mt_cut *cut)
{
    return groups->group_of_label[scene->input->blocks[cut->block].label];
}

/* The cuts by group, in their order in each; ends[group] is where those of the group end. The caller's. */
static struct mt_cut *sort_by_group(const struct mt_scene *scene, const struct groups *groups,
                                    const struct mt_cut_list *list, size_t *ends)
{
    struct mt_cut *sorted = mt_host_resize(NULL, list->count + 1, sizeof *sorted);
    for (size_t i = 0; i < list->count; i++)
        ends[group_of(scene, groups, &list->items[i])]++;
    size_t before = 0;
    for (size_t group = 0; group < groups->count; group++) {
        size_t count = ends[group];
        ends[group] = before;
        before += count;
    }
    for (size_t i = 0; i < list->count; i++)
        sorted[ends[group_of(scene, groups, &list->items[i])]++] = list->items[i];
    return sorted;
}

static void weigh_cut(const struct mt_scene *scene, const struct mt_cut *cut, struct mt_candidate *candidate)
{
    uint64_t bytes = scene->input->blocks[cut->block].requested_bytes;
    int64_t peak = scene->curve.peak_position;
    if (cut->from <= peak && peak < cut->to)
        candidate->peak_bytes += bytes;
    uint64_t ns = mt_curve_ns(&scene->curve, cut->to) - mt_curve_ns(&scene->curve, cut->from);
    candidate->byte_seconds += (double)bytes * (double)ns * 1e-9;
}

static void add_candidate(struct mt_candidates *candidates, const struct mt_scene *scene, struct mt_candidate candidate)
{
    for (size_t i = 0; i < candidate.count; i++)
        weigh_cut(scene, &candidate.cuts[i], &candidate);
    candidates->items = mt_host_room(candidates->items, candidates->count, sizeof candidate);
    candidates->items[candidates->count++] = candidate;
}

static void add_groups(struct mt_candidates *candidates, const struct mt_scene *scene, const struct mt_lens *lens,
                       const struct mt_cut_list *list, struct mt_cut **out_cuts)
{
    struct groups groups;
    groups_create(scene, lens, &groups);
    size_t *ends = mt_host_alloc((groups.count + 1) * sizeof *ends), begin = 0;
    *out_cuts = sort_by_group(scene, &groups, list, ends);
    for (size_t group = 0; group < groups.count; begin = ends[group++]) {
        const char *const *texts = groups.kinds[group].texts;
        struct mt_candidate candidate = {.pattern = lens->pattern,
                                         .category = texts[0],
                                         .role = texts[1],
                                         .op = texts[2],
                                         .phase = texts[3],
                                         .place = texts[4],
                                         .cuts = *out_cuts + begin,
                                         .count = ends[group] - begin};
        if (candidate.count > 0)
            add_candidate(candidates, scene, candidate);
    }
    free(ends);
    groups_release(&groups);
}

void mt_candidates_create(const struct mt_scene *scene, struct mt_candidates *out)
{
    *out = (struct mt_candidates){.items = mt_host_alloc(sizeof *out->items)};
    for (int i = 0; i < MT_LENS_COUNT; i++) {
        struct mt_cut_list list = {0};
        for (size_t block = 0; block < scene->input->block_count; block++)
            mt_lenses[i].cut(scene, block, &list);
        add_groups(out, scene, &mt_lenses[i], &list, &out->cuts[i]);
        mt_cut_list_release(&list);
    }
}

void mt_candidates_release(struct mt_candidates *candidates)
{
    for (int i = 0; i < MT_LENS_COUNT; i++)
        free(candidates->cuts[i]);
    free(candidates->items);
    *candidates = (struct mt_candidates){0};
}
