/* What does each pair of blocks come from? Every pair has a cause, or two that share its bytes, so nothing is left over. */
#include "analysis/diff_parts.h"
#include "base/memory.h"
#include "trace/query/query.h"

#include <stdlib.h>
#include <string.h>

static bool has_role(const struct diff_kind *kind, mt_role role)
{
    return strcmp(kind->role, mt_role_name(role)) == 0;
}

bool diff_is_operand_copy(const struct diff_kind *kind)
{
    return has_role(kind, MT_ROLE_SAVED) && strcmp(kind->op, "cast") == 0 &&
           strcmp(kind->category, mt_category_name(MT_CATEGORY_EINSUM)) == 0;
}

/* Whether what blocks are for says already why there are more or fewer of them. */
static bool find_cause_of_role(const struct diff_kind *kind, mt_cause *out)
{
    static const struct {
        mt_role role;
        mt_cause cause;
    } causes[] = {{MT_ROLE_PARAM, MT_CAUSE_PARAMETERS},
                  {MT_ROLE_GRAD, MT_CAUSE_GRADIENTS},
                  {MT_ROLE_OPT_STATE, MT_CAUSE_OPTIMIZER_STATE},
                  {MT_ROLE_TEMPORARY, MT_CAUSE_TEMPORARIES},
                  {MT_ROLE_WEIGHT_CAST, MT_CAUSE_WEIGHT_CASTS},
                  {MT_ROLE_WORKSPACE, MT_CAUSE_WORKSPACES},
                  {MT_ROLE_DATA, MT_CAUSE_DATA}};
    *out = kind->is_of_earlier_step ? MT_CAUSE_LAST_GRADIENTS : MT_CAUSE_OPERAND_COPIES;
    if (kind->is_of_earlier_step || diff_is_operand_copy(kind))
        return true;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        *out = causes[i].cause;
        if (has_role(kind, causes[i].role))
            return true;
    }
    return false;
}

static struct diff_finding *finding_of(struct diff_findings *findings, mt_cause cause, const char *category)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].cause == cause && findings->items[i].category == category)
            return &findings->items[i];
    findings->items = mt_host_room(findings->items, findings->count, sizeof *findings->items);
    findings->items[findings->count] = (struct diff_finding){.cause = cause, .category = category};
    return &findings->items[findings->count++];
}

static void add_to(struct diff_finding *finding, const struct diff_pair *pair, int64_t bytes)
{
    finding->bytes = (int64_t)((uint64_t)finding->bytes + (uint64_t)bytes);
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        if (pair->of[side] == NULL)
            continue;
        finding->blocks[side] += pair->count;
        finding->requested_bytes[side] += pair->count * pair->of[side]->requested_bytes;
    }
    if (bytes > finding->most_up_bytes) {
        finding->most_up = pair;
        finding->most_up_bytes = bytes;
    }
    if (bytes < finding->most_down_bytes) {
        finding->most_down = pair;
        finding->most_down_bytes = bytes;
    }
}

/* Bytes of an element; 0: no precision that we know. */
static uint64_t element_bytes(const char *dtype)
{
    for (int i = 0; i < MT_DTYPE_COUNT; i++)
        if (strcmp(dtype, mt_dtype_name((mt_dtype)i)) == 0)
            return mt_dtype_bytes((mt_dtype)i);
    return 0;
}

/* The part of a pair's bytes that its precision explains. Of blocks whose size and precision both changed, n elements of
 * s bytes having become m of t: n s - m t = (s - t)(n + m)/2 + (n - m)(s + t)/2, the first term being it. */
static int64_t precision_bytes(const struct diff_pair *pair)
{
    const struct diff_kind *a = pair->of[MT_SIDE_A], *b = pair->of[MT_SIDE_B];
    if (a->dtype == b->dtype)
        return 0;
    if (a->shape == b->shape)
        return diff_pair_bytes(pair);
    uint64_t a_element = element_bytes(a->dtype), b_element = element_bytes(b->dtype);
    if (a_element == 0 || b_element == 0)
        return 0;
    uint64_t elements = a->requested_bytes / a_element + b->requested_bytes / b_element;
    return (int64_t)((b_element - a_element) * elements * pair->count) / 2;
}

static void add_share(struct diff_finding *finding, const struct diff_pair *pair, int64_t bytes, bool is_shared)
{
    add_to(finding, pair, bytes);
    finding->is_shared = finding->is_shared || is_shared;
}

static void collect_activation(const struct diff_pair *pair, const struct diff_kind *kind, struct diff_findings *out)
{
    int64_t bytes = diff_pair_bytes(pair);
    if (pair->is_momentary) {
        add_to(finding_of(out, MT_CAUSE_ACTIVATION_MOMENT, ""), pair, bytes);
        return;
    }
    if (pair->of[MT_SIDE_A] == NULL || pair->of[MT_SIDE_B] == NULL) {
        add_to(finding_of(out, MT_CAUSE_ACTIVATION_COUNT, kind->category), pair, bytes);
        return;
    }
    int64_t of_precision = precision_bytes(pair), of_size = (int64_t)((uint64_t)bytes - (uint64_t)of_precision);
    bool is_shared = of_precision != 0 && of_size != 0;
    if (of_precision != 0)
        add_share(finding_of(out, MT_CAUSE_ACTIVATION_PRECISION, kind->category), pair, of_precision, is_shared);
    if (of_size != 0)
        add_share(finding_of(out, MT_CAUSE_ACTIVATION_SIZE, kind->category), pair, of_size, is_shared);
}

void diff_findings_collect(const struct diff_pairs *pairs, struct diff_findings *out)
{
    for (size_t i = 0; i < pairs->count; i++) {
        const struct diff_pair *pair = &pairs->items[i];
        const struct diff_kind *kind = pair->of[pair->of[MT_SIDE_A] != NULL ? MT_SIDE_A : MT_SIDE_B];
        mt_cause cause;
        if (find_cause_of_role(kind, &cause))
            add_to(finding_of(out, cause, ""), pair, diff_pair_bytes(pair));
        else
            collect_activation(pair, kind, out);
    }
}
