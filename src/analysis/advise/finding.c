#include "analysis/advise/finding.h"

#include <assert.h>
#include <string.h>

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

/* Returns the settings that reserved less or, if none did, what else would help. */
static mt_hint reserved_hint(const struct mt_finding *finding)
{
    if (finding->saved_bytes == 0)
        return MT_HINT_ALLOCATE_LONG_FIRST;
    return mt_alloc_grows(&finding->alloc) ? MT_HINT_POLICY_TIGHT : MT_HINT_POLICY_TORCH;
}

mt_hint mt_finding_hint(const struct mt_finding *finding)
{
    mt_role role;
    mt_hint hint = 0;
    unsigned roles = mt_role_find(finding->role, &role) ? 1u << role : 0;
    if (mt_finding_is_of_reserved(finding))
        return reserved_hint(finding);
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

/* True if `part` is equal to `whole`, or `whole` leaves the text open. */
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
