/* From candidates to findings.
 *
 * A finding's claim takes a walk along the curve, its check a replay. Since no peak falls by more than what is absent at
 * it, candidates are weighed in the order of that bound, and only until the rest can't be among the best. */
#include "analysis/advice.h"

#include "analysis/candidates.h"
#include "analysis/fragmentation.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What wastes less of all byte-seconds, and saves nothing, is not worth a line. */
static const double WORTHWHILE_SHARE = 0.01;

#define X(name, text) text,
static const char *const pattern_names[] = {MT_PATTERNS(X)};
#undef X

const char *mt_pattern_name(mt_pattern pattern)
{
    return pattern_names[pattern];
}

/* Advice under way. */
struct adviser {
    struct mt_scene scene;
    struct mt_candidates candidates;
    mt_advice_extent extent;
    size_t limit, set_aside; /* candidates that are parts of others */
    struct mt_advice *out;
};

static uint64_t saved_by(const struct adviser *adviser, const struct mt_candidate *candidate)
{
    return adviser->scene.curve.peak_bytes - candidate->curve.peak_bytes;
}

static int compare_bounds(const void *left, const void *right)
{
    const struct mt_candidate *a = left, *b = right;
    if (a->peak_bytes != b->peak_bytes)
        return a->peak_bytes < b->peak_bytes ? 1 : -1;
    return (a->byte_seconds < b->byte_seconds) - (a->byte_seconds > b->byte_seconds);
}

/* Whether none that comes after `weighed` candidates can be among the best. `best` holds the best ones' savings, of which
 * there are up to `limit`, largest first. */
static bool are_best_known(const struct adviser *adviser, const uint64_t *best, size_t best_count, size_t weighed)
{
    return best_count == adviser->limit && best[best_count - 1] >= adviser->candidates.items[weighed].peak_bytes;
}

/* Enters a saving at its place. */
static size_t enter_best(uint64_t *best, size_t count, size_t limit, uint64_t saved)
{
    size_t at = count < limit ? count : limit;
    while (at > 0 && best[at - 1] < saved)
        at--;
    if (at == limit)
        return count;
    size_t kept = count < limit ? count : limit - 1;
    memmove(best + at + 1, best + at, (kept - at) * sizeof *best);
    best[at] = saved;
    return kept + 1;
}

/* Whether what `part` says is that of `whole`, or `whole` leaves it open. */
static bool is_within(const char *part, const char *whole)
{
    return whole[0] == '\0' || strcmp(part, whole) == 0;
}

bool mt_finding_is_part(const struct mt_finding *part, const struct mt_finding *whole)
{
    const char *const texts[][2] = {{part->category, whole->category},
                                    {part->role, whole->role},
                                    {part->op, whole->op},
                                    {part->phase, whole->phase},
                                    {part->place, whole->place}};
    bool is_equal = true;
    if (part->pattern != whole->pattern || whole->category[0] != '\0')
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!is_within(texts[i][0], texts[i][1]))
            return false;
        is_equal = is_equal && strcmp(texts[i][0], texts[i][1]) == 0;
    }
    return !is_equal;
}

static struct mt_finding finding_of(const struct mt_candidate *candidate)
{
    return (struct mt_finding){.pattern = candidate->pattern,
                               .category = candidate->category,
                               .role = candidate->role,
                               .op = candidate->op,
                               .phase = candidate->phase,
                               .place = candidate->place};
}

static bool has_whole(const struct mt_candidates *candidates, const struct mt_candidate *candidate)
{
    struct mt_finding part = finding_of(candidate);
    for (size_t i = 0; i < candidates->count; i++) {
        struct mt_finding whole = finding_of(&candidates->items[i]);
        if (mt_finding_is_part(&part, &whole))
            return true;
    }
    return false;
}

static void set_parts_aside(struct adviser *adviser)
{
    struct mt_candidates *candidates = &adviser->candidates;
    bool *is_part = mt_host_alloc((candidates->count + 1) * sizeof *is_part);
    for (size_t i = 0; i < candidates->count; i++)
        is_part[i] = has_whole(candidates, &candidates->items[i]);
    size_t kept = 0;
    for (size_t i = 0; i < candidates->count; i++)
        if (!is_part[i])
            candidates->items[kept++] = candidates->items[i];
    adviser->set_aside = candidates->count - kept;
    candidates->count = kept;
    free(is_part);
}

/* Weighs candidates, most promising first, and drops those that can't be among the best. Those that save nothing count
 * by byte-seconds. */
static void weigh(struct adviser *adviser)
{
    struct mt_candidates *candidates = &adviser->candidates;
    qsort(candidates->items, candidates->count, sizeof *candidates->items, compare_bounds);
    size_t room = adviser->limit < candidates->count ? adviser->limit : candidates->count, best_count = 0, weighed = 0;
    uint64_t *best = mt_host_alloc((room + 1) * sizeof *best);
    for (; weighed < candidates->count; weighed++) {
        struct mt_candidate *candidate = &candidates->items[weighed];
        if (candidate->peak_bytes == 0 || are_best_known(adviser, best, best_count, weighed))
            break;
        candidate->curve = mt_curve_cut(&adviser->scene.curve, candidate->cuts, candidate->count);
        best_count = enter_best(best, best_count, room, saved_by(adviser, candidate));
    }
    for (; weighed < candidates->count; weighed++)
        candidates->items[weighed].curve.peak_bytes = adviser->scene.curve.peak_bytes;
    free(best);
}

static int compare_savings(const void *left, const void *right)
{
    const struct mt_candidate *a = left, *b = right;
    if (a->curve.peak_bytes != b->curve.peak_bytes)
        return a->curve.peak_bytes > b->curve.peak_bytes ? 1 : -1;
    if (a->byte_seconds != b->byte_seconds)
        return a->byte_seconds < b->byte_seconds ? 1 : -1;
    return (a->pattern > b->pattern) - (a->pattern < b->pattern);
}

/* Bytes times seconds of everything that was live. */
static double all_byte_seconds(const struct mt_curve *curve)
{
    double sum = 0;
    for (size_t k = 0; k + 1 < curve->count; k++)
        sum += (double)curve->live[k] * (double)(curve->ns[k + 1] - curve->ns[k]) * 1e-9;
    return sum;
}

/* How many of the candidates, best first, are told. */
static size_t count_told(const struct adviser *adviser)
{
    const struct mt_candidates *candidates = &adviser->candidates;
    double least = WORTHWHILE_SHARE * all_byte_seconds(&adviser->scene.curve);
    size_t count = 0;
    while (count < candidates->count && count < adviser->limit) {
        const struct mt_candidate *candidate = &candidates->items[count];
        bool is_worthwhile = saved_by(adviser, candidate) > 0 || candidate->byte_seconds >= least;
        if (adviser->extent == MT_ADVICE_WORTHWHILE && !is_worthwhile)
            break;
        count++;
    }
    return count;
}

static int compare_numbers(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The lower of the two in the middle. Reorders. */
static uint64_t median(uint64_t *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, compare_numbers);
    return count > 0 ? numbers[(count - 1) / 2] : 0;
}

/* The event at or before a position; after the window, its last. */
static int64_t event_until(const struct adviser *adviser, int64_t position)
{
    int64_t event = position / 2, last = adviser->scene.input->last_event;
    return event < last ? event : last;
}

/* What is wasted at `moment`, and for how long. */
static void describe_moment(const struct adviser *adviser, const struct mt_candidate *candidate, int64_t moment,
                            struct mt_finding *finding)
{
    uint64_t *events = mt_host_alloc((candidate->count + 1) * sizeof *events);
    uint64_t *ns = mt_host_alloc((candidate->count + 1) * sizeof *ns);
    for (size_t i = 0; i < candidate->count; i++) {
        const struct mt_cut *cut = &candidate->cuts[i];
        if (moment < cut->from || moment >= cut->to)
            continue;
        finding->bytes += adviser->scene.input->blocks[cut->block].requested_bytes;
        events[finding->blocks] = (uint64_t)(event_until(adviser, cut->to) - event_until(adviser, cut->from));
        ns[finding->blocks++] =
            mt_curve_ns(&adviser->scene.curve, cut->to) - mt_curve_ns(&adviser->scene.curve, cut->from);
    }
    finding->events = (int64_t)median(events, finding->blocks);
    finding->ns = median(ns, finding->blocks);
    free(events);
    free(ns);
}

static uint64_t count_blocks(const struct mt_candidate *candidate)
{
    uint64_t count = 0;
    for (size_t i = 0; i < candidate->count; i++)
        count += i == 0 || candidate->cuts[i].block != candidate->cuts[i - 1].block;
    return count;
}

static mt_status replay_without(const struct adviser *adviser, const struct mt_cut *cuts, size_t count,
                                struct mt_replay_result *out)
{
    const struct mt_advice_input *input = adviser->scene.input;
    size_t lifetime_count;
    struct mt_lifetime *lifetimes = mt_lifetimes_with_cuts(&adviser->scene, cuts, count, &lifetime_count);
    mt_status status = mt_replay_run(lifetimes, lifetime_count, &input->settings, input->capacity_bytes, out);
    free(lifetimes);
    return status;
}

static mt_status tell(struct adviser *adviser, struct mt_candidate *candidate, struct mt_finding *out)
{
    *out = finding_of(candidate);
    out->total_blocks = count_blocks(candidate);
    out->byte_seconds = candidate->byte_seconds;
    out->claim_bytes = candidate->curve.peak_bytes;
    out->saved_bytes = saved_by(adviser, candidate);
    out->policy = adviser->scene.input->settings.policy;
    int64_t moment = adviser->scene.curve.peak_position;
    if (candidate->peak_bytes == 0)
        moment = mt_curve_cut(&adviser->scene.curve, candidate->cuts, candidate->count).most_position;
    describe_moment(adviser, candidate, moment, out);
    return replay_without(adviser, candidate->cuts, candidate->count, &out->replay);
}

static mt_status tell_best(struct adviser *adviser)
{
    struct mt_candidates *candidates = &adviser->candidates;
    struct mt_advice *out = adviser->out;
    qsort(candidates->items, candidates->count, sizeof *candidates->items, compare_savings);
    size_t count = count_told(adviser);
    out->left_out = candidates->count + adviser->set_aside - count;
    out->findings = mt_host_alloc((count + 1) * sizeof *out->findings); /* and one of fragmentation */
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = tell(adviser, &candidates->items[i], &out->findings[out->count++]);
    return status;
}

static bool knows_uses(const struct mt_advice_input *input)
{
    for (size_t i = 0; i < input->block_count; i++)
        if (input->uses[i].known)
            return true;
    return false;
}

static mt_status replay_unchanged(struct adviser *adviser)
{
    struct mt_cut_list unused = {0};
    struct mt_advice *out = adviser->out;
    mt_status status = replay_without(adviser, NULL, 0, &out->as_it_was);
    if (!out->knows_uses)
        return status;
    for (size_t i = 0; i < adviser->scene.input->block_count && status == MT_OK; i++)
        mt_cut_unused(&adviser->scene, i, &unused);
    if (status == MT_OK)
        status = replay_without(adviser, unused.items, unused.count, &out->used_only);
    mt_cut_list_release(&unused);
    return status;
}

static mt_status replay_with_other_policy(const struct adviser *adviser, mt_policy *out_policy,
                                          struct mt_replay_result *out)
{
    static const char *const other[] = {[MT_POLICY_TIGHT] = "policy=torch", [MT_POLICY_TORCH] = "policy=tight"};
    struct mt_advice_input input = *adviser->scene.input;
    mt_status status = mt_alloc_settings_parse(other[input.settings.policy], &input.settings);
    *out_policy = input.settings.policy;
    struct adviser with_other = *adviser;
    with_other.scene.input = &input;
    return status == MT_OK ? replay_without(&with_other, NULL, 0, out) : status;
}

/* Puts the finding where it belongs. There is room for one more than are told. */
static void insert_finding(struct mt_advice *advice, const struct mt_finding *finding, size_t limit)
{
    size_t at = advice->count;
    while (at > 0 && advice->findings[at - 1].saved_bytes < finding->saved_bytes)
        at--;
    memmove(advice->findings + at + 1, advice->findings + at, (advice->count - at) * sizeof *finding);
    advice->findings[at] = *finding;
    advice->count++;
    if (advice->count <= limit)
        return;
    advice->count = limit;
    advice->left_out++;
}

static mt_status tell_fragmentation(struct adviser *adviser)
{
    struct mt_advice *out = adviser->out;
    const struct mt_advice_input *input = adviser->scene.input;
    out->fragmentation = mt_fragmentation_find(input);
    const struct mt_fragmentation *found = &out->fragmentation;
    struct mt_finding finding = {.pattern = MT_PATTERN_FRAGMENTATION,
                                 .category = input->labels[found->culprit].category,
                                 .role = input->labels[found->culprit].role,
                                 .op = input->labels[found->culprit].op,
                                 .phase = input->labels[found->culprit].phase,
                                 .place = input->labels[found->culprit].place,
                                 .blocks = found->hole_count,
                                 .bytes = found->idle_bytes + found->hole_bytes,
                                 .claim_bytes = adviser->scene.curve.peak_bytes};
    mt_status status = replay_with_other_policy(adviser, &finding.policy, &finding.replay);
    if (status != MT_OK)
        return status;
    if (finding.replay.fits && finding.replay.reserved_bytes < out->as_it_was.reserved_bytes)
        finding.saved_bytes = out->as_it_was.reserved_bytes - finding.replay.reserved_bytes;
    bool is_worthwhile = (double)finding.bytes >= WORTHWHILE_SHARE * (double)found->reserved_bytes;
    if (finding.saved_bytes > 0 || (finding.bytes > 0 && (is_worthwhile || adviser->extent == MT_ADVICE_ALL)))
        insert_finding(out, &finding, adviser->limit);
    return MT_OK;
}

mt_status mt_advice_create(const struct mt_advice_input *input, mt_advice_extent extent, size_t limit,
                           struct mt_advice *out)
{
    assert(limit >= 1);
    *out = (struct mt_advice){.knows_uses = knows_uses(input)};
    struct adviser adviser = {.extent = extent, .limit = limit, .out = out};
    mt_scene_create(input, &adviser.scene);
    mt_candidates_create(&adviser.scene, &adviser.candidates);
    out->peak_bytes = adviser.scene.curve.peak_bytes;
    out->peak_event = adviser.scene.curve.peak_position / 2;
    if (extent == MT_ADVICE_WORTHWHILE)
        set_parts_aside(&adviser);
    weigh(&adviser);
    mt_status status = replay_unchanged(&adviser);
    if (status == MT_OK)
        status = tell_best(&adviser);
    if (status == MT_OK)
        status = tell_fragmentation(&adviser);
    mt_candidates_release(&adviser.candidates);
    mt_scene_release(&adviser.scene);
    return status;
}

void mt_advice_release(struct mt_advice *advice)
{
    free(advice->findings);
    *advice = (struct mt_advice){0};
}
