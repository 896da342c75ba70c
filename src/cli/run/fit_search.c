#include "cli/run/fit_search.h"

#include "base/text.h"
#include "cli/run/fit_sizes.h"

#include <inttypes.h>
#include <stdio.h>

/* Raises *high until the run fits there, and *low to the last capacity before that, which does not do. The peak of reserved
 * bytes where memory has no end does mostly; but a policy may take other segments of a card with less. */
static mt_status find_bracket(const struct mt_placed_run *run, uint64_t *low, uint64_t *high)
{
    if (*high <= *low)
        *high = *low + MT_FIT_UNIT;
    for (uint64_t stride = MT_FIT_UNIT;; stride *= 2) {
        struct mt_simulation simulation;
        mt_status status = mt_fit_simulate_with(run, *high, &simulation);
        if (status != MT_OK || simulation.fits)
            return status;
        *low = *high;
        *high += stride;
    }
}

/* A capacity that does, above the device's, which does not, and less of which does not: between the two it is bisected. No
 * capacity below the peak of allocated bytes can do. */
static mt_status find_enough(const struct mt_placed_run *run, const struct mt_simulation *unlimited, struct mt_fit *fit)
{
    uint64_t low = fit->capacity_bytes, high = unlimited->peak_reserved_bytes;
    if (low < unlimited->peak_allocated_bytes)
        low = unlimited->peak_allocated_bytes - 1;
    mt_status status = find_bracket(run, &low, &high);
    while (status == MT_OK && high > low + MT_FIT_UNIT) {
        uint64_t middle = low + (high - low) / 2;
        struct mt_simulation simulation;
        status = mt_fit_simulate_with(run, middle, &simulation);
        if (status == MT_OK)
            *(simulation.fits ? &high : &low) = middle;
    }
    fit->enough_bytes = high;
    return status;
}

static mt_status measure_placed(const struct mt_placed_run *run, struct mt_fit *out)
{
    struct mt_simulation here, unlimited;
    mt_status status = mt_simulate_placed(run, run->plan.device, &here);
    if (status == MT_OK)
        status = mt_fit_simulate_with(run, MT_FIT_UNLIMITED_BYTES, &unlimited);
    if (status != MT_OK)
        return status;
    if (!unlimited.fits)
        return mt_fail(MT_USAGE, "the run needs more memory than any device could have");
    *out = (struct mt_fit){.fits = here.fits,
                           .capacity_bytes = here.capacity_bytes,
                           .reserved_bytes = here.fits ? here.peak_reserved_bytes : 0,
                           .unlimited_bytes = unlimited.peak_reserved_bytes};
    return here.fits ? MT_OK : find_enough(run, &unlimited, out);
}

static mt_status measure(const struct mt_run_plan *plan, struct mt_fit *out)
{
    struct mt_placed_run run = mt_placed_run_create(plan);
    mt_status status = measure_placed(&run, out);
    mt_placed_run_release(&run);
    return status;
}

/* Names are ordered by size, so the first that fits from the end is it. */
static mt_status find_largest_model(const struct mt_run_plan *plan, const char **out)
{
    size_t count = 0;
    while (mt_model_names[count] != NULL)
        count++;
    *out = NULL;
    for (size_t i = count; i-- > 0 && *out == NULL;) {
        struct mt_run_plan probe = *plan;
        bool fits = false;
        mt_status status = mt_model_config_named(mt_model_names[i], &probe.config.model);
        probe.config.model.rope = plan->config.model.rope;
        if (status == MT_OK)
            status = mt_fit_check(&probe, &fits);
        if (status != MT_OK)
            return status;
        if (fits)
            *out = mt_model_names[i];
    }
    return MT_OK;
}

/* What a run may take of the card's memory. */
static mt_status card_bytes(const char *card, uint64_t reserve_bytes, uint64_t *out)
{
    char spelling[MT_BYTES_TEXT];
    struct mt_device *device;
    snprintf(spelling, sizeof spelling, "sim:%s", card);
    mt_status status = mt_device_open(spelling, &device);
    if (status != MT_OK)
        return status;
    *out = device->capacity_bytes > reserve_bytes ? device->capacity_bytes - reserve_bytes : 0;
    mt_device_close(device);
    return MT_OK;
}

static mt_status find_smallest_card(const struct mt_placed_run *run, uint64_t reserve_bytes, const char **out)
{
    uint64_t least_bytes = UINT64_MAX;
    *out = NULL;
    for (const char *const *card = mt_device_cards(); *card != NULL; card++) {
        uint64_t bytes;
        struct mt_simulation simulation = {0};
        mt_status status = card_bytes(*card, reserve_bytes, &bytes);
        if (status == MT_OK && bytes > 0 && bytes < least_bytes)
            status = mt_fit_simulate_with(run, bytes, &simulation);
        if (status != MT_OK)
            return status;
        if (!simulation.fits)
            continue;
        least_bytes = bytes;
        *out = *card;
    }
    return MT_OK;
}

mt_status mt_fit_find_smallest_card(const struct mt_run_plan *plan, uint64_t reserve_bytes, const char **out)
{
    struct mt_placed_run run = mt_placed_run_create(plan);
    mt_status status = find_smallest_card(&run, reserve_bytes, out);
    mt_placed_run_release(&run);
    return status;
}

/* The attention that keeps least of those that the heads allow. */
static mt_attention_kind least_attention(const struct mt_training_config *config)
{
    struct mt_training_config flash = *config;
    flash.attention = MT_ATTENTION_FLASH;
    return mt_training_config_check(&flash) == MT_OK ? MT_ATTENTION_FLASH : MT_ATTENTION_WEIGHTS;
}

static bool is_change(const struct mt_run_plan *plan, mt_fit_change change)
{
    const struct mt_training_config *config = &plan->config;
    switch (change) {
    case MT_CHANGE_ZERO_GRAD:
        return config->mode == MT_MODE_FWD_BWD && config->zero_grad != MT_ZERO_GRAD_BEFORE_FORWARD &&
               config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_ON;
    case MT_CHANGE_ALLOC:
        return plan->alloc.policy != MT_POLICY_TIGHT;
    case MT_CHANGE_AUTOCAST:
        return config->parameter_dtype == MT_F32 &&
               !(config->implementation == MT_IMPLEMENTATION_FUSED && config->autocast);
    case MT_CHANGE_ATTENTION:
        return config->attention < least_attention(config);
    case MT_CHANGE_IMPL:
        return config->implementation != MT_IMPLEMENTATION_FUSED;
    case MT_CHANGE_WEIGHT_CAST:
        return config->implementation == MT_IMPLEMENTATION_FUSED && config->autocast &&
               config->weight_cast != MT_WEIGHT_CAST_LAYER;
    case MT_CHANGE_OPTIMIZER:
        return config->mode == MT_MODE_FWD_BWD && config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_ON;
    case MT_CHANGE_CHECKPOINT:
        return config->mode != MT_MODE_INFER && config->checkpoint != MT_CHECKPOINT_BLOCK;
    case MT_CHANGE_BATCH:
        return config->batch > 1;
    case MT_CHANGE_SEQ:
        return config->seq > 1;
    case MT_CHANGE_COUNT:
        break;
    }
    return false;
}

/* The other one, with casts that the implementation knows. */
static void apply_autocast(struct mt_training_config *config)
{
    config->autocast = !config->autocast;
    if (config->implementation != MT_IMPLEMENTATION_FUSED)
        config->weight_cast = MT_WEIGHT_CAST_REGION;
}

/* What `run` takes with --impl fused and nothing else said, but for the casts of autocast, where it takes the fastest. */
static void apply_fused(struct mt_training_config *config)
{
    config->implementation = MT_IMPLEMENTATION_FUSED;
    config->attention = least_attention(config);
    config->weight_cast = config->autocast ? MT_WEIGHT_CAST_LAYER : MT_WEIGHT_CAST_PERSISTENT;
}

/* Sizes become 1, the least that there is. */
static void apply(struct mt_run_plan *plan, mt_fit_change change)
{
    switch (change) {
    case MT_CHANGE_ZERO_GRAD:
        plan->config.zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD;
        return;
    case MT_CHANGE_ALLOC:
        plan->alloc = (struct mt_alloc_settings){.policy = MT_POLICY_TIGHT, .max_split_bytes = UINT64_MAX};
        return;
    case MT_CHANGE_AUTOCAST:
        apply_autocast(&plan->config);
        return;
    case MT_CHANGE_ATTENTION:
        plan->config.attention = least_attention(&plan->config);
        return;
    case MT_CHANGE_IMPL:
        apply_fused(&plan->config);
        return;
    case MT_CHANGE_WEIGHT_CAST:
        plan->config.weight_cast = MT_WEIGHT_CAST_LAYER;
        return;
    case MT_CHANGE_OPTIMIZER:
        plan->config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
        return;
    case MT_CHANGE_CHECKPOINT:
        plan->config.checkpoint = MT_CHECKPOINT_BLOCK;
        return;
    case MT_CHANGE_BATCH:
    case MT_CHANGE_SEQ:
        *plan = mt_fit_with_size(*plan, change, 1);
        return;
    case MT_CHANGE_COUNT:
        return;
    }
}

/* The change, and of an eager run the implementation that knows it. */
static struct mt_fit_changes changes_for(const struct mt_run_plan *plan, mt_fit_change change)
{
    struct mt_fit_changes changes = {0};
    changes.has[change] = true;
    if (change == MT_CHANGE_OPTIMIZER || change == MT_CHANGE_CHECKPOINT)
        changes.has[MT_CHANGE_IMPL] = plan->config.implementation != MT_IMPLEMENTATION_FUSED;
    return changes;
}

/* The plan with all of these changes; the dearest of them in *out_dearest. */
static struct mt_run_plan with_changes(struct mt_run_plan plan, struct mt_fit_changes changes,
                                       mt_fit_change *out_dearest)
{
    for (mt_fit_change change = 0; change < MT_CHANGE_COUNT; change++) {
        if (!changes.has[change])
            continue;
        apply(&plan, change);
        *out_dearest = change;
    }
    return plan;
}

bool mt_fit_remedy_make(const struct mt_run_plan *plan, mt_fit_change change, struct mt_fit_remedy *out)
{
    mt_fit_change dearest;
    *out = (struct mt_fit_remedy){.changes = changes_for(plan, change)};
    out->plan = with_changes(*plan, out->changes, &dearest);
    return is_change(plan, change) && mt_training_config_check(&out->plan.config) == MT_OK;
}

static mt_fit_change dearest_of(struct mt_fit_changes changes)
{
    mt_fit_change dearest = MT_CHANGE_COUNT;
    for (mt_fit_change change = 0; change < MT_CHANGE_COUNT; change++)
        if (changes.has[change])
            dearest = change;
    return dearest;
}

static bool is_cut(mt_fit_change change)
{
    return change == MT_CHANGE_BATCH || change == MT_CHANGE_SEQ;
}

/* Measures what comes of the remedy's changes. */
static mt_status make_remedy(const struct mt_run_plan *plan, uint64_t capacity_bytes, struct mt_fit_remedy *remedy)
{
    mt_fit_change dearest = MT_CHANGE_COUNT;
    remedy->plan = with_changes(*plan, remedy->changes, &dearest);
    if (is_cut(dearest)) {
        struct mt_run_plan asked = mt_fit_with_size(remedy->plan, dearest, mt_fit_size(plan, dearest));
        struct mt_fit_largest largest;
        mt_status status = mt_fit_find_largest(&asked, dearest, capacity_bytes, &largest);
        if (status != MT_OK)
            return status;
        int64_t most = mt_fit_size(plan, dearest);
        if (largest.size > 0)
            remedy->plan = mt_fit_with_size(remedy->plan, dearest, largest.size < most ? largest.size : most);
    }
    return measure(&remedy->plan, &remedy->fit);
}

/* Whether what the change brings along makes the run fit by itself. */
static bool is_more_than_needed(const struct mt_fit_answer *answer, mt_fit_change change, struct mt_fit_changes changes)
{
    if (change == MT_CHANGE_IMPL || !changes.has[MT_CHANGE_IMPL])
        return false;
    for (size_t i = 0; i < answer->single_count; i++)
        if (dearest_of(answer->single[i].changes) == MT_CHANGE_IMPL)
            return answer->single[i].fit.fits;
    return false;
}

static mt_status find_singles(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    mt_status status = MT_OK;
    for (mt_fit_change change = 0; change < MT_CHANGE_COUNT && status == MT_OK; change++) {
        const struct mt_fit_changes changes = changes_for(plan, change);
        if (!is_change(plan, change) || is_more_than_needed(answer, change, changes))
            continue;
        struct mt_fit_remedy *remedy = &answer->single[answer->single_count++];
        remedy->changes = changes;
        status = make_remedy(plan, answer->fit.capacity_bytes, remedy);
    }
    return status;
}

/* Adds the remedy that is all of these changes. */
static mt_status combine(const struct mt_run_plan *plan, struct mt_fit_changes changes, struct mt_fit_answer *answer)
{
    struct mt_fit_remedy *remedy = &answer->combined[answer->combined_count++];
    remedy->changes = changes;
    return make_remedy(plan, answer->fit.capacity_bytes, remedy);
}

static struct mt_fit_changes joined(struct mt_fit_changes a, struct mt_fit_changes b)
{
    struct mt_fit_changes both;
    for (int change = 0; change < MT_CHANGE_COUNT; change++)
        both.has[change] = a.has[change] || b.has[change];
    return both;
}

/* The first pair that fits, by its dearer change, then by the other one. */
static mt_status find_pair(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    for (size_t dearer = 1; dearer < answer->single_count; dearer++) {
        for (size_t cheaper = 0; cheaper < dearer; cheaper++) {
            const struct mt_fit_changes both = joined(answer->single[cheaper].changes, answer->single[dearer].changes);
            mt_fit_change dearest;
            const struct mt_run_plan least = with_changes(*plan, both, &dearest);
            bool fits;
            mt_status status = mt_fit_check(&least, &fits);
            if (status != MT_OK || fits)
                return status == MT_OK ? combine(plan, both, answer) : status;
        }
    }
    return MT_OK;
}

/* What to order runs by, whether or not they fit. */
static uint64_t taken_bytes(const struct mt_fit *fit)
{
    return fit->fits ? fit->reserved_bytes : fit->enough_bytes;
}

/* The single remedy that needs least, but for `other`. */
static const struct mt_fit_remedy *find_least(const struct mt_fit_answer *answer, const struct mt_fit_remedy *other)
{
    const struct mt_fit_remedy *least = NULL;
    for (const struct mt_fit_remedy *single = answer->single; single < answer->single + answer->single_count; single++)
        if (single != other && (least == NULL || taken_bytes(&single->fit) < taken_bytes(&least->fit)))
            least = single;
    return least;
}

/* What another change of them makes pointless goes: fused comes with an attention of its own, and where gradients update
 * parameters in backward, none are left to let go of. */
static struct mt_fit_changes without_overlap(struct mt_fit_changes changes)
{
    if (changes.has[MT_CHANGE_IMPL])
        changes.has[MT_CHANGE_ATTENTION] = false;
    if (changes.has[MT_CHANGE_OPTIMIZER])
        changes.has[MT_CHANGE_ZERO_GRAD] = false;
    return changes;
}

/* All changes that help each by itself; how many in *out_count. */
static struct mt_fit_changes helpful(const struct mt_fit_answer *answer, size_t *out_count)
{
    struct mt_fit_changes all = {0};
    *out_count = 0;
    for (size_t i = 0; i < answer->single_count; i++) {
        if (taken_bytes(&answer->single[i].fit) >= taken_bytes(&answer->fit))
            continue;
        all = joined(all, answer->single[i].changes);
        ++*out_count;
    }
    return without_overlap(all);
}

/* No pair fits: how far the two best go, and all that help together. */
static mt_status find_best_effort(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    size_t helpful_count;
    const struct mt_fit_changes all = helpful(answer, &helpful_count);
    if (helpful_count < 2)
        return MT_OK;
    const struct mt_fit_remedy *best = find_least(answer, NULL), *second = find_least(answer, best);
    mt_status status = combine(plan, joined(best->changes, second->changes), answer);
    return status == MT_OK && helpful_count > 2 ? combine(plan, all, answer) : status;
}

/* The changes that help and cost training nothing: it computes the same with them. */
static struct mt_fit_changes free_changes(const struct mt_fit_answer *answer)
{
    size_t count;
    struct mt_fit_changes changes = helpful(answer, &count);
    changes.has[MT_CHANGE_AUTOCAST] = changes.has[MT_CHANGE_BATCH] = changes.has[MT_CHANGE_SEQ] = false;
    return changes;
}

/* Where the least change is a cut, what of it remains after everything that is free: nothing, maybe. */
static mt_status find_gentler(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    const struct mt_fit_remedy *best = mt_fit_best_remedy(answer);
    struct mt_fit_changes changes = free_changes(answer);
    mt_fit_change cut = best != NULL ? dearest_of(best->changes) : MT_CHANGE_COUNT;
    if (!is_cut(cut) || dearest_of(changes) == MT_CHANGE_COUNT)
        return MT_OK;
    changes.has[cut] = true;
    answer->gentler.changes = changes;
    mt_status status = make_remedy(plan, answer->fit.capacity_bytes, &answer->gentler);
    answer->has_gentler = status == MT_OK && answer->gentler.fit.fits &&
                          mt_fit_size(&answer->gentler.plan, cut) > mt_fit_size(&best->plan, cut);
    if (mt_fit_size(&answer->gentler.plan, cut) == mt_fit_size(plan, cut))
        answer->gentler.changes.has[cut] = false;
    return status;
}

static mt_status add_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    mt_status status = find_singles(plan, answer);
    if (status == MT_OK && mt_fit_best_remedy(answer) == NULL) {
        status = find_pair(plan, answer);
        if (status == MT_OK && answer->combined_count == 0)
            status = find_best_effort(plan, answer);
    }
    return status == MT_OK ? find_gentler(plan, answer) : status;
}

mt_status mt_fit_find_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *out)
{
    *out = (struct mt_fit_answer){0};
    mt_status status = measure(plan, &out->fit);
    return status == MT_OK && !out->fit.fits ? add_remedies(plan, out) : status;
}

mt_status mt_fit_find(const struct mt_run_plan *plan, uint64_t card_reserve_bytes, struct mt_fit_answer *out)
{
    mt_status status = mt_fit_find_remedies(plan, out);
    if (status == MT_OK)
        status = mt_fit_find_largest(plan, MT_CHANGE_BATCH, out->fit.capacity_bytes, &out->batch);
    if (status == MT_OK)
        status = mt_fit_find_largest(plan, MT_CHANGE_SEQ, out->fit.capacity_bytes, &out->seq);
    if (status == MT_OK)
        status = find_largest_model(plan, &out->largest_model);
    return status == MT_OK ? mt_fit_find_smallest_card(plan, card_reserve_bytes, &out->smallest_card) : status;
}

static const struct mt_fit_remedy *first_that_fits(const struct mt_fit_remedy *remedies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (remedies[i].fit.fits)
            return &remedies[i];
    return NULL;
}

const struct mt_fit_remedy *mt_fit_best_remedy(const struct mt_fit_answer *answer)
{
    const struct mt_fit_remedy *single = first_that_fits(answer->single, answer->single_count);
    return single != NULL ? single : first_that_fits(answer->combined, answer->combined_count);
}
