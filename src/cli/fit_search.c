#include "fit_search.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

/* More memory than any run asks for: a capacity that is no limit. */
#define UNLIMITED_BYTES ((uint64_t)1 << 60)

/* The plan on a device with so many bytes. */
static mt_status simulate_with(const struct mt_run_plan *plan, uint64_t capacity_bytes, struct mt_simulation *out)
{
    char device[MT_BYTES_TEXT];
    struct mt_run_plan other = *plan;
    snprintf(device, sizeof device, "sim:%" PRIu64, capacity_bytes);
    other.device = device;
    return mt_simulate(&other, out);
}

/* The least capacity that does, above the device's, which does not. No capacity below the peak of allocated bytes can, and
 * without a limit on memory none but the peak of reserved bytes is touched: the rest is bisected. */
static mt_status find_need(const struct mt_run_plan *plan, const struct mt_simulation *unlimited, struct mt_fit *fit)
{
    uint64_t low = fit->capacity_bytes, high = unlimited->peak_reserved_bytes;
    if (low < unlimited->peak_allocated_bytes)
        low = unlimited->peak_allocated_bytes - 1;
    while (high > low + MT_FIT_UNIT) {
        uint64_t middle = low + (high - low) / 2;
        struct mt_simulation simulation;
        mt_status status = simulate_with(plan, middle, &simulation);
        if (status != MT_OK)
            return status;
        *(simulation.fits ? &high : &low) = middle;
    }
    fit->needs_bytes = high;
    return MT_OK;
}

static mt_status measure(const struct mt_run_plan *plan, struct mt_fit *out)
{
    struct mt_simulation here, unlimited;
    mt_status status = mt_simulate(plan, &here);
    if (status == MT_OK)
        status = simulate_with(plan, UNLIMITED_BYTES, &unlimited);
    if (status != MT_OK)
        return status;
    if (!unlimited.fits)
        return mt_fail(MT_USAGE, "the run needs more memory than any device could have");
    *out = (struct mt_fit){.fits = here.fits,
                           .capacity_bytes = here.capacity_bytes,
                           .needs_bytes = here.peak_reserved_bytes,
                           .unlimited_bytes = unlimited.peak_reserved_bytes};
    return here.fits ? MT_OK : find_need(plan, &unlimited, out);
}

/* A configuration that can't be run does not fit either. */
static mt_status check(const struct mt_run_plan *plan, bool *out_fits)
{
    struct mt_simulation simulation;
    *out_fits = false;
    if (mt_training_config_check(&plan->config) != MT_OK)
        return MT_OK;
    mt_status status = mt_simulate(plan, &simulation);
    *out_fits = status == MT_OK && simulation.fits;
    return status;
}

static int64_t size_of(const struct mt_run_plan *plan, mt_fit_change change)
{
    return change == MT_CHANGE_BATCH ? plan->config.batch : plan->config.seq;
}

static struct mt_run_plan with_size(struct mt_run_plan plan, mt_fit_change change, int64_t size)
{
    *(change == MT_CHANGE_BATCH ? &plan.config.batch : &plan.config.seq) = size;
    return plan;
}

static mt_status check_size(const struct mt_run_plan *plan, mt_fit_change change, int64_t size, bool *out_fits)
{
    const struct mt_run_plan probe = with_size(*plan, change, size);
    return check(&probe, out_fits);
}

/* The largest batch or sequence that fits, beginning with `first`; 0: none. It doubles until that does not fit, which the
 * range of a configuration ends, and bisects. */
static mt_status find_largest(const struct mt_run_plan *plan, mt_fit_change change, int64_t first, int64_t *out)
{
    int64_t low = 0, high = first;
    bool fits;
    mt_status status = check_size(plan, change, high, &fits);
    while (status == MT_OK && fits) {
        low = high;
        high *= 2;
        status = check_size(plan, change, high, &fits);
    }
    while (status == MT_OK && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        status = check_size(plan, change, middle, &fits);
        *(fits ? &low : &high) = middle;
    }
    *out = low;
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
            status = check(&probe, &fits);
        if (status != MT_OK)
            return status;
        if (fits)
            *out = mt_model_names[i];
    }
    return MT_OK;
}

mt_status mt_fit_find_smallest_card(const struct mt_run_plan *plan, const char **out)
{
    uint64_t least_bytes = UINT64_MAX;
    *out = NULL;
    for (const char *const *card = mt_device_cards(); *card != NULL; card++) {
        char device[MT_BYTES_TEXT];
        struct mt_run_plan probe = *plan;
        struct mt_simulation simulation;
        snprintf(device, sizeof device, "sim:%s", *card);
        probe.device = device;
        mt_status status = mt_simulate(&probe, &simulation);
        if (status != MT_OK)
            return status;
        if (!simulation.fits || simulation.capacity_bytes >= least_bytes)
            continue;
        least_bytes = simulation.capacity_bytes;
        *out = *card;
    }
    return MT_OK;
}

static bool takes_flash(const struct mt_training_config *config)
{
    struct mt_training_config flash = *config;
    flash.attention = MT_ATTENTION_FLASH;
    return mt_training_config_check(&flash) == MT_OK;
}

static bool is_change(const struct mt_run_plan *plan, mt_fit_change change)
{
    const struct mt_training_config *config = &plan->config;
    switch (change) {
    case MT_CHANGE_ZERO_GRAD:
        return config->mode == MT_MODE_FWD_BWD && config->zero_grad != MT_ZERO_GRAD_BEFORE_FORWARD;
    case MT_CHANGE_ALLOC:
        return plan->alloc.policy != MT_POLICY_TIGHT;
    case MT_CHANGE_AUTOCAST:
        return config->parameter_dtype == MT_F32;
    case MT_CHANGE_ATTENTION:
        return config->attention != MT_ATTENTION_FLASH && takes_flash(config);
    case MT_CHANGE_BATCH:
        return config->batch > 1;
    case MT_CHANGE_SEQ:
        return config->seq > 1;
    case MT_CHANGE_COUNT:
        break;
    }
    return false;
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
        plan->config.autocast = !plan->config.autocast;
        return;
    case MT_CHANGE_ATTENTION:
        plan->config.attention = MT_ATTENTION_FLASH;
        return;
    case MT_CHANGE_BATCH:
    case MT_CHANGE_SEQ:
        *plan = with_size(*plan, change, 1);
        return;
    case MT_CHANGE_COUNT:
        return;
    }
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

/* Measures what comes of the remedy's changes. */
static mt_status make_remedy(const struct mt_run_plan *plan, struct mt_fit_remedy *remedy)
{
    mt_fit_change dearest = MT_CHANGE_COUNT;
    remedy->plan = with_changes(*plan, remedy->changes, &dearest);
    if (dearest == MT_CHANGE_BATCH || dearest == MT_CHANGE_SEQ) {
        int64_t largest;
        mt_status status = find_largest(&remedy->plan, dearest, size_of(plan, dearest), &largest);
        if (status != MT_OK)
            return status;
        if (largest > 0)
            remedy->plan = with_size(remedy->plan, dearest, largest);
    }
    return measure(&remedy->plan, &remedy->fit);
}

static mt_status find_singles(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    mt_status status = MT_OK;
    for (mt_fit_change change = 0; change < MT_CHANGE_COUNT && status == MT_OK; change++) {
        if (!is_change(plan, change))
            continue;
        struct mt_fit_remedy *remedy = &answer->single[answer->single_count++];
        remedy->changes.has[change] = true;
        status = make_remedy(plan, remedy);
    }
    return status;
}

/* Adds the remedy that is all of these changes. */
static mt_status combine(const struct mt_run_plan *plan, struct mt_fit_changes changes, struct mt_fit_answer *answer)
{
    struct mt_fit_remedy *remedy = &answer->combined[answer->combined_count++];
    remedy->changes = changes;
    return make_remedy(plan, remedy);
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
            mt_status status = check(&least, &fits);
            if (status != MT_OK || fits)
                return status == MT_OK ? combine(plan, both, answer) : status;
        }
    }
    return MT_OK;
}

/* The single remedy that needs least, but for `other`. */
static const struct mt_fit_remedy *find_least(const struct mt_fit_answer *answer, const struct mt_fit_remedy *other)
{
    const struct mt_fit_remedy *least = NULL;
    for (const struct mt_fit_remedy *single = answer->single; single < answer->single + answer->single_count; single++)
        if (single != other && (least == NULL || single->fit.needs_bytes < least->fit.needs_bytes))
            least = single;
    return least;
}

/* All changes that help each by itself; how many in *out_count. */
static struct mt_fit_changes helpful(const struct mt_fit_answer *answer, size_t *out_count)
{
    struct mt_fit_changes all = {0};
    *out_count = 0;
    for (size_t i = 0; i < answer->single_count; i++) {
        if (answer->single[i].fit.needs_bytes >= answer->fit.needs_bytes)
            continue;
        all = joined(all, answer->single[i].changes);
        ++*out_count;
    }
    return all;
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

static mt_status add_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    mt_status status = find_singles(plan, answer);
    if (status != MT_OK || mt_fit_best_remedy(answer) != NULL)
        return status;
    status = find_pair(plan, answer);
    return status == MT_OK && answer->combined_count == 0 ? find_best_effort(plan, answer) : status;
}

mt_status mt_fit_find_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *out)
{
    *out = (struct mt_fit_answer){0};
    mt_status status = measure(plan, &out->fit);
    return status == MT_OK && !out->fit.fits ? add_remedies(plan, out) : status;
}

mt_status mt_fit_find(const struct mt_run_plan *plan, struct mt_fit_answer *out)
{
    mt_status status = mt_fit_find_remedies(plan, out);
    if (status == MT_OK)
        status = find_largest(plan, MT_CHANGE_BATCH, plan->config.batch, &out->largest_batch);
    if (status == MT_OK)
        status = find_largest(plan, MT_CHANGE_SEQ, plan->config.seq, &out->largest_seq);
    if (status == MT_OK)
        status = find_largest_model(plan, &out->largest_model);
    return status == MT_OK ? mt_fit_find_smallest_card(plan, &out->smallest_card) : status;
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
