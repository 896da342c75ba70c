#include "analysis/relief.h"

#include "analysis/retold.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Replays what is retold as it was, but for the settings. What is unmet in *out is an index of its blocks. */
static mt_status replay(const struct mt_retold *retold, const struct mt_alloc_settings *settings,
                        struct mt_replay_result *out)
{
    const struct mt_advice_input *input = &retold->input;
    struct mt_lifetime *lifetimes =
        mt_lifetimes_of_blocks(input->blocks, input->block_count, input->labels, input->label_count);
    mt_status status = mt_replay_run(lifetimes, input->block_count, settings, input->capacity_bytes, out);
    free(lifetimes);
    return status;
}

/* Finds the capacity at which it ends as it did. */
static mt_status reproduce(struct mt_retold *retold, const struct mt_refusal *refusal, struct mt_reliefs *out)
{
    struct mt_replay_result result;
    size_t count = retold->input.block_count;
    mt_status status = replay(retold, &retold->input.settings, &result);
    if (status == MT_OK && result.fits) {
        retold->input.capacity_bytes = refusal->reserved_bytes + refusal->given_back_bytes;
        status = replay(retold, &retold->input.settings, &result);
    }
    out->capacity_bytes = retold->input.capacity_bytes;
    out->is_reproduced = status == MT_OK && !result.fits && result.unmet == count - 1;
    return status;
}

static void add(struct mt_reliefs *reliefs, const struct mt_relief *relief)
{
    reliefs->items = mt_host_resize(reliefs->items, reliefs->count + 1, sizeof *relief);
    reliefs->items[reliefs->count++] = *relief;
}

static mt_status try_policy(const struct mt_retold *retold, struct mt_reliefs *out)
{
    static const char *const other[] = {[MT_POLICY_TIGHT] = "policy=torch", [MT_POLICY_TORCH] = "policy=tight"};
    struct mt_relief relief = {.kind = MT_RELIEF_POLICY};
    struct mt_alloc_settings settings;
    mt_status status = mt_alloc_settings_parse(other[retold->input.settings.policy], &settings);
    if (status == MT_OK)
        status = replay(retold, &settings, &relief.replay);
    relief.policy = settings.policy;
    if (status == MT_OK && relief.replay.fits)
        add(out, &relief);
    return status;
}

static bool is_mended_alike(const struct mt_reliefs *reliefs, const struct mt_finding *finding)
{
    for (size_t i = 0; i < reliefs->count; i++) {
        const struct mt_relief *other = &reliefs->items[i];
        if (other->kind == MT_RELIEF_PATTERN && strcmp(mt_finding_hint(&other->finding), mt_finding_hint(finding)) == 0)
            return true;
    }
    return false;
}

/* Findings come by what they save, most first. That of fragmentation is the other policy, which was tried. */
static void add_findings(const struct mt_retold *retold, const struct mt_advice *advice, struct mt_reliefs *out)
{
    mt_policy policy = retold->input.settings.policy;
    for (size_t i = 0; i < advice->count; i++) {
        const struct mt_finding *finding = &advice->findings[i];
        bool is_met = finding->replay.fits && finding->pattern != MT_PATTERN_FRAGMENTATION;
        const struct mt_relief relief = {MT_RELIEF_PATTERN, *finding, policy, finding->replay};
        if (is_met && !is_mended_alike(out, finding))
            add(out, &relief);
    }
    const struct mt_relief used_only = {.kind = MT_RELIEF_USED_ONLY, .policy = policy, .replay = advice->used_only};
    if (advice->knows_uses && advice->used_only.fits)
        add(out, &used_only);
}

static mt_status try_patterns(const struct mt_retold *retold, size_t limit, struct mt_reliefs *out)
{
    struct mt_advice advice;
    mt_status status = mt_advice_create(&retold->input, MT_ADVICE_ALL, limit, &advice);
    if (status == MT_OK)
        add_findings(retold, &advice, out);
    mt_advice_release(&advice);
    return status;
}

/* What a change costs who makes it: one that is a setting or a line comes before one that moves or computes anew, and
 * this before one that changes everything. */
static int cost_of(const struct mt_relief *relief)
{
    static const int costs[MT_PATTERN_COUNT] = {
        [MT_PATTERN_KEPT_GRADIENTS] = 0, [MT_PATTERN_LEAK] = 2,          [MT_PATTERN_NEVER_USED] = 2,
        [MT_PATTERN_DEAD_WRITE] = 2,     [MT_PATTERN_LATE_FREE] = 3,     [MT_PATTERN_EARLY_ALLOCATION] = 3,
        [MT_PATTERN_TWO_PRECISIONS] = 4, [MT_PATTERN_FRAGMENTATION] = 1, [MT_PATTERN_IDLE] = 5};
    enum { COST_OF_STATE = 6, COST_OF_ALL = 7 };
    if (relief->kind == MT_RELIEF_POLICY)
        return costs[MT_PATTERN_FRAGMENTATION];
    if (relief->kind == MT_RELIEF_USED_ONLY)
        return COST_OF_ALL;
    const char *role = relief->finding.role;
    bool is_state = strcmp(role, mt_role_name(MT_ROLE_PARAM)) == 0 || strcmp(role, mt_role_name(MT_ROLE_GRAD)) == 0 ||
                    strcmp(role, mt_role_name(MT_ROLE_OPT_STATE)) == 0;
    return relief->finding.pattern == MT_PATTERN_IDLE && is_state ? COST_OF_STATE : costs[relief->finding.pattern];
}

static int compare_reliefs(const void *left, const void *right)
{
    const struct mt_relief *a = left, *b = right;
    int order = cost_of(a) - cost_of(b);
    if (order != 0)
        return order;
    return (a->finding.saved_bytes < b->finding.saved_bytes) - (a->finding.saved_bytes > b->finding.saved_bytes);
}

mt_status mt_reliefs_create(const struct mt_advice_input *input, const struct mt_refusal *refusal, size_t limit,
                            struct mt_reliefs *out)
{
    *out = (struct mt_reliefs){0};
    struct mt_retold retold;
    mt_retold_create(input, refusal, &retold);
    mt_status status = reproduce(&retold, refusal, out);
    if (status == MT_OK && out->is_reproduced)
        status = try_policy(&retold, out);
    if (status == MT_OK && out->is_reproduced)
        status = try_patterns(&retold, limit, out);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_reliefs);
    mt_retold_release(&retold);
    return status;
}

void mt_reliefs_release(struct mt_reliefs *reliefs)
{
    free(reliefs->items);
    *reliefs = (struct mt_reliefs){0};
}
