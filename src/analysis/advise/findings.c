/* Findings: the best candidates, described and replayed, and fragmentation, replayed with the alternative to its
 * allocator. */
#include "analysis/advise/candidates.h"
#include "analysis/fragmentation.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

#define X(kind, name, detector, alike, properties) {name, mt_cut_##detector, alike, properties},
const struct mt_finding_kind mt_finding_kinds[MT_PATTERN_COUNT] = {MT_FINDING_KINDS(X)};
#undef X

/* By mt_hint. */
static const struct {
    mt_pattern pattern;
    unsigned roles;
    mt_remedy_cost cost;
} remedies[MT_HINT_COUNT] = {
#define X(change, kind, roles, cost) {MT_PATTERN_##kind, roles, MT_COST_##cost},
    MT_REMEDIES(X)
#undef X
};

bool mt_finding_is_of_reserved(const struct mt_finding *finding)
{
    return (mt_finding_kinds[finding->pattern].properties & MT_FINDS_RESERVED) != 0;
}

/* Returns the settings that reserved less or, if there are none, another change that helps. */
static mt_hint reserved_hint(const struct mt_finding *finding)
{
    if (finding->saved_bytes == 0)
        return MT_HINT_ALLOCATE_LONG_FIRST;
    return mt_alloc_grows(&finding->alloc) ? MT_HINT_POLICY_TIGHT : MT_HINT_POLICY_TORCH;
}

/* True if several tensors were copied to the card or to another dtype, and no step of the run reads them. */
static bool is_copied_ahead(const struct mt_finding *finding)
{
    return finding->pattern == MT_PATTERN_DEAD_WRITE && finding->blocks > 1 &&
           strcmp(finding->op, "aten::_to_copy") == 0;
}

mt_hint mt_finding_hint(const struct mt_finding *finding)
{
    mt_role role;
    mt_hint hint = 0;
    unsigned roles = mt_role_find(finding->role, &role) ? 1u << role : 0;
    if (mt_finding_is_of_reserved(finding))
        return reserved_hint(finding);
    if (is_copied_ahead(finding))
        return MT_HINT_COPY_AT_USE;
    while (remedies[hint].pattern != finding->pattern ||
           (remedies[hint].roles != 0 && (remedies[hint].roles & roles) == 0)) {
        hint++;
        assert(hint < MT_HINT_COUNT);
    }
    return hint;
}

mt_remedy_cost mt_finding_cost(const struct mt_finding *finding)
{
    return remedies[mt_finding_hint(finding)].cost;
}

bool mt_finding_is_optional(const struct mt_finding *finding)
{
    return mt_finding_cost(finding) <= MT_COST_SETTING;
}

const char *mt_remedy_cost_name(mt_remedy_cost cost)
{
#define X(cost, name) name,
    static const char *const names[MT_COST_COUNT] = {MT_REMEDY_COSTS(X)};
#undef X
    return names[cost];
}

/* True if `part` is equal to `whole`, or `whole` is "" and matches any text. */
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

/* ---- findings ---- */

/* The state of mt_advice_create. */
struct adviser {
    struct mt_window window;
    struct mt_candidates candidates;
    mt_advice_extent extent;
    size_t limit;
    struct mt_advice *out;
};

static bool is_growing(const struct mt_finding *finding)
{
    return (mt_finding_kinds[finding->pattern].properties & MT_FINDS_GROWTH) != 0;
}

/* True if the finding is reported by default: it saves a hundredth of the peak, or grows with more steps. */
static bool is_worthwhile(const struct mt_finding *finding, uint64_t saved_bytes, uint64_t peak_bytes)
{
    enum { WORTHWHILE_PART = 100 };
    return saved_bytes > 0 && (saved_bytes >= peak_bytes / WORTHWHILE_PART || is_growing(finding));
}

/* Returns the number of findings that the ordered candidates may become; drops those that may not. */
static size_t count_findings(struct adviser *adviser)
{
    struct mt_candidates *candidates = &adviser->candidates;
    const struct mt_window *window = &adviser->window;
    size_t count = 0;
    for (size_t i = 0; i < candidates->count && count < adviser->limit; i++) {
        struct mt_candidate *candidate = &candidates->items[i];
        uint64_t saved_bytes = mt_candidate_saved(candidate, window);
        if (adviser->extent == MT_ADVICE_ALL ||
            is_worthwhile(&candidate->finding, saved_bytes, window->usage.peak_bytes))
            candidates->items[count++] = *candidate;
    }
    return count;
}

/* Sorts the numbers and returns the median, the lower one of an even count; 0 if there are none. */
static uint64_t lower_median(uint64_t *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, mt_compare_uint64);
    return count > 0 ? numbers[(count - 1) / 2] : 0;
}

/* Returns the event at or before a position; the last event for a position after the window. */
static int64_t event_until(const struct adviser *adviser, int64_t position)
{
    int64_t event = position / 2, last = adviser->window.input->last_event;
    return event < last ? event : last;
}

/* Describes the blocks that are wasted at `moment`, and for how long. */
static void describe_moment(const struct adviser *adviser, const struct mt_candidate *candidate, int64_t moment,
                            struct mt_finding *finding)
{
    uint64_t *events = mt_host_alloc((candidate->count + 1) * sizeof *events);
    uint64_t *ns = mt_host_alloc((candidate->count + 1) * sizeof *ns);
    uint64_t largest = 0;
    for (size_t i = 0; i < candidate->count; i++) {
        const struct mt_cut *cut = &candidate->cuts[i];
        if (moment < cut->from || moment >= cut->to)
            continue;
        const struct mt_block_row *block = &adviser->window.input->blocks[cut->block];
        finding->bytes += block->requested_bytes;
        finding->event = block->requested_bytes > largest ? block->alloc_event : finding->event;
        largest = mt_larger(largest, block->requested_bytes);
        events[finding->blocks] = (uint64_t)(event_until(adviser, cut->to) - event_until(adviser, cut->from));
        ns[finding->blocks++] =
            mt_usage_ns(&adviser->window.usage, cut->to) - mt_usage_ns(&adviser->window.usage, cut->from);
    }
    finding->events = (int64_t)lower_median(events, finding->blocks);
    finding->ns = lower_median(ns, finding->blocks);
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

/* Turns a candidate into a finding. */
static mt_status make_finding(struct adviser *adviser, struct mt_candidate *candidate, struct mt_finding *out)
{
    *out = candidate->finding;
    out->taken_at = "";
    out->holder = NULL;
    out->total_blocks = count_blocks(candidate);
    out->byte_seconds = candidate->byte_seconds;
    out->claim_bytes = candidate->usage.peak_bytes;
    out->saved_bytes = mt_candidate_saved(candidate, &adviser->window);
    out->alloc = adviser->window.input->settings;
    int64_t moment = adviser->window.usage.peak_position;
    if (candidate->peak_bytes == 0)
        moment = mt_usage_cut(&adviser->window.usage, candidate->cuts, candidate->count).most_position;
    describe_moment(adviser, candidate, moment, out);
    mt_status status = mt_window_replay(&adviser->window, candidate->cuts, candidate->count,
                                        &adviser->window.input->settings, &out->replay);
    assert(status != MT_OK || !out->replay.fits || out->replay.requested_bytes == out->claim_bytes);
    return status;
}

/* True if a finding lowers the peak of requested bytes, but its cuts leave gaps, so that more is reserved. */
static bool costs_reserved(const struct adviser *adviser, const struct mt_finding *finding)
{
    const struct mt_replay_result *before = &adviser->out->as_it_was;
    const bool grows = (mt_finding_kinds[finding->pattern].properties & MT_FINDS_GROWTH) != 0;
    return adviser->extent == MT_ADVICE_WORTHWHILE && adviser->window.input->program.kind == MT_PROGRAM_PYTORCH &&
           !grows && before->fits && finding->replay.reserved_bytes > before->reserved_bytes;
}

static mt_status make_findings(struct adviser *adviser)
{
    struct mt_candidates *candidates = &adviser->candidates;
    struct mt_advice *out = adviser->out;
    size_t count = count_findings(adviser);
    out->left_out = candidates->count + candidates->left_out - count;
    out->findings = mt_host_alloc((count + 1) * sizeof *out->findings); /* one more for fragmentation */
    for (size_t i = 0; i < count; i++) {
        struct mt_finding *finding = &out->findings[out->count];
        MT_TRY(make_finding(adviser, &candidates->items[i], finding));
        const bool is_kept = !costs_reserved(adviser, finding);
        out->count += is_kept;
        out->left_out += !is_kept;
    }
    return MT_OK;
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
    const struct mt_alloc_settings *settings = &adviser->window.input->settings;
    MT_TRY(mt_window_replay(&adviser->window, NULL, 0, settings, &out->as_it_was));
    if (!out->knows_uses)
        return MT_OK;
    for (size_t i = 0; i < adviser->window.input->block_count; i++)
        mt_cut_unused(&adviser->window, i, &unused);
    mt_status status = mt_window_replay(&adviser->window, unused.items, unused.count, settings, &out->used_only);
    mt_cut_list_release(&unused);
    return status;
}

/* Describes the wasted reserved memory: of the run or, for another allocator, of its replay. */
static struct mt_finding describe_fragmentation(const struct adviser *adviser)
{
    const struct mt_advice_input *input = adviser->window.input;
    const struct mt_advice *advice = adviser->out;
    const struct mt_fragmentation *found = &advice->fragmentation;
    struct mt_finding finding = {.pattern = MT_PATTERN_FRAGMENTATION,
                                 .category = "",
                                 .role = "",
                                 .op = "",
                                 .phase = "",
                                 .place = "",
                                 .taken_at = ""};
    assert(found->culprit < input->label_count);
    finding.claim_bytes = adviser->window.usage.peak_bytes;
    if (input->is_another) {
        finding.bytes = advice->as_it_was.reserved_bytes - advice->as_it_was.allocated_bytes;
        return finding;
    }
    const struct mt_label_row *culprit = &input->labels[found->culprit];
    finding.category = culprit->category;
    finding.role = culprit->role;
    finding.op = culprit->op;
    finding.phase = culprit->phase;
    finding.place = culprit->place;
    finding.blocks = found->hole_count;
    finding.bytes = found->idle_bytes + found->hole_bytes;
    return finding;
}

/* True if the finding is a part of a finding before it. */
static bool follows_whole(const struct mt_advice *advice, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (mt_finding_is_part(&advice->findings[index], &advice->findings[i]))
            return true;
    return false;
}

/* Inserts a finding in order, but not between another one and its parts. There is room for it. Keeps the first
 * `limit`. */
static void insert_finding(const struct adviser *adviser, const struct mt_finding *finding)
{
    struct mt_advice *advice = adviser->out;
    uint64_t most_bytes = adviser->candidates.most_bytes;
    bool is_first = mt_finding_comes_first(finding, finding->saved_bytes, most_bytes);
    size_t at = 0;
    for (; at < advice->count; at++) {
        const struct mt_finding *other = &advice->findings[at];
        bool other_is_first = mt_finding_comes_first(other, other->saved_bytes, most_bytes);
        bool is_before = is_first != other_is_first ? is_first : finding->saved_bytes > other->saved_bytes;
        if (is_before && !follows_whole(advice, at))
            break;
    }
    memmove(advice->findings + at + 1, advice->findings + at, (advice->count - at) * sizeof *finding);
    advice->findings[at] = *finding;
    advice->count++;
    if (advice->count <= adviser->limit)
        return;
    advice->count = adviser->limit;
    advice->left_out++;
}

/* True if reserved memory is the bottleneck: at least a tenth of it is not allocated, and a twentieth can be saved. */
static bool is_short_of_reserved(const struct mt_replay_result *had, uint64_t saved_bytes)
{
    enum { UNUSED_PART = 10, SAVED_PART = 20 };
    return had->reserved_bytes - had->allocated_bytes >= had->reserved_bytes / UNUSED_PART &&
           saved_bytes >= had->reserved_bytes / SAVED_PART && saved_bytes > 0;
}

/* Adds the finding of fragmentation, if any. There is none for a program with an unknown allocator, which has no other
 * policy to choose, or if the replay with the other allocator runs out of memory, which can't be compared. */
static mt_status find_fragmentation(struct adviser *adviser)
{
    struct mt_advice *out = adviser->out;
    const struct mt_advice_input *input = adviser->window.input;
    const struct mt_alloc_settings settings = mt_advice_alternative(input);
    out->fragmentation = mt_fragmentation_find(input);
    struct mt_finding finding = describe_fragmentation(adviser);
    bool is_comparable = out->as_it_was.fits || !input->is_another;
    if (finding.bytes == 0 || input->program.kind == MT_PROGRAM_WATCHED || !is_comparable)
        return MT_OK;
    finding.alloc = settings;
    MT_TRY(mt_window_replay(&adviser->window, NULL, 0, &settings, &finding.replay));
    if (finding.replay.fits && finding.replay.reserved_bytes < out->as_it_was.reserved_bytes)
        finding.saved_bytes = out->as_it_was.reserved_bytes - finding.replay.reserved_bytes;
    if (adviser->extent == MT_ADVICE_ALL || is_short_of_reserved(&out->as_it_was, finding.saved_bytes))
        insert_finding(adviser, &finding);
    return MT_OK;
}

mt_status mt_advice_create(const struct mt_advice_input *input, mt_advice_extent extent, size_t limit,
                           struct mt_advice *out)
{
    assert(limit >= 1);
    *out = (struct mt_advice){.knows_uses = knows_uses(input)};
    struct adviser adviser = {.extent = extent, .limit = limit, .out = out};
    mt_window_create(input, &adviser.window);
    mt_candidates_create(&adviser.window, &adviser.candidates);
    out->peak_bytes = adviser.window.usage.peak_bytes;
    out->peak_event = adviser.window.usage.peak_position / 2;
    if (extent == MT_ADVICE_WORTHWHILE)
        mt_candidates_drop_parts(&adviser.candidates);
    mt_candidates_weigh(&adviser.candidates, &adviser.window, extent == MT_ADVICE_ALL ? SIZE_MAX : limit);
    if (extent == MT_ADVICE_ALL)
        mt_candidates_gather_parts(&adviser.candidates);
    mt_status status = replay_unchanged(&adviser);
    MT_THEN(status, make_findings(&adviser));
    MT_THEN(status, find_fragmentation(&adviser));
    mt_candidates_release(&adviser.candidates);
    mt_window_release(&adviser.window);
    return status;
}

void mt_advice_release(struct mt_advice *advice)
{
    free(advice->findings);
    *advice = (struct mt_advice){0};
}
