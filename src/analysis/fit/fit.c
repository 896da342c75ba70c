#include "analysis/fit/fit.h"

#include "base/text.h"

#include <assert.h>

/* Practically unlimited memory. */
#define UNLIMITED_BYTES ((uint64_t)1 << 60)

/* The search for a larger size ends after this many consecutive sizes that do not fit. */
enum { SCANNED = 64 };

/* Sets *out_fits to true if the plan fits its device. An invalid configuration does not fit. */
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

/* A search for the largest size that passes a test. */
struct sizes {
    const struct mt_run_plan *plan;
    mt_setting change;
    uint64_t capacity_bytes;
    mt_status (*test)(const struct sizes *sizes, const struct mt_run_plan *probe, bool *out);
};

static mt_status test_fit(const struct sizes *sizes, const struct mt_run_plan *probe, bool *out)
{
    (void)sizes;
    return check(probe, out);
}

/* True if the peak of requested bytes is within the capacity, since no allocator needs less. Two steps are enough to
 * rule out a size. */
static mt_status test_bytes(const struct sizes *sizes, const struct mt_run_plan *probe, bool *out)
{
    struct mt_run_plan plan = *probe;
    struct mt_training_config *config = &plan.config;
    struct mt_placed_run run;
    struct mt_simulation simulation;
    *out = false;
    if (mt_training_config_check(config) != MT_OK)
        return MT_OK;
    plan.follows_plan = false; /* requested bytes do not depend on addresses */
    if (config->warmup + config->steps > 2) {
        config->warmup = 0;
        config->steps = 2;
    }
    MT_TRY(mt_placed_run_create(&plan, &run));
    mt_status status = mt_simulate_placed(&run, UNLIMITED_BYTES, &simulation);
    *out = status == MT_OK && simulation.fits && simulation.peak_requested_bytes <= sizes->capacity_bytes;
    return status;
}

static mt_status test_size(const struct sizes *sizes, int64_t size, bool *out)
{
    const struct mt_run_plan probe = mt_fit_with_size(*sizes->plan, sizes->change, size);
    return sizes->test(sizes, &probe, out);
}

/* Finds a size in [low, high) that passes the test while the next larger one fails. low passes or is 0, and high
 * fails. */
static mt_status bisect_sizes(const struct sizes *sizes, int64_t low, int64_t high, int64_t *out)
{
    assert(0 <= low && low < high);
    mt_status status = MT_OK;
    while (status == MT_OK && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        bool passes;
        status = test_size(sizes, middle, &passes);
        *(passes ? &low : &high) = middle;
    }
    *out = low;
    return status;
}

/* Finds the largest size that could fit with any allocator; 0 if there is none. Doubles the size until it is too large,
 * at the latest when the configuration becomes invalid. */
static mt_status find_bound(struct sizes *sizes, int64_t *out)
{
    int64_t low = 0, high = mt_setting_size(sizes->change, sizes->plan);
    bool passes;
    sizes->test = test_bytes;
    MT_TRY(test_size(sizes, high, &passes));
    while (passes) {
        low = high;
        high *= 2;
        MT_TRY(test_size(sizes, high, &passes));
    }
    return bisect_sizes(sizes, low, high, out);
}

/* Tries larger sizes than the one that fits (or 0) one by one, since some may fit. */
static mt_status scan_sizes(const struct sizes *sizes, int64_t bound, struct mt_fit_largest *out)
{
    while (out->tried_to < bound && out->tried_to - out->size < SCANNED) {
        bool fits;
        MT_TRY(test_size(sizes, ++out->tried_to, &fits));
        if (fits)
            out->size = out->tried_to;
    }
    out->is_certain = out->tried_to >= bound;
    return MT_OK;
}

/* Finds the largest batch or sequence that fits the plan's device of capacity_bytes. Starts from the plan's own size:
 * first finds a bound from the requested bytes, then a smaller size that fits, then any larger size that fits. */
static mt_status find_largest(const struct mt_run_plan *plan, mt_setting change, uint64_t capacity_bytes,
                              struct mt_fit_largest *out)
{
    struct sizes sizes = {plan, change, capacity_bytes, NULL};
    int64_t bound = 0;
    bool fits = false;
    *out = (struct mt_fit_largest){0};
    MT_TRY(find_bound(&sizes, &bound));
    sizes.test = test_fit;
    if (bound > 0)
        MT_TRY(test_size(&sizes, bound, &fits));
    if (fits)
        out->size = bound;
    else if (bound > 0)
        MT_TRY(bisect_sizes(&sizes, 0, bound, &out->size));
    out->tried_to = out->size;
    return scan_sizes(&sizes, bound, out);
}

/* Raises *high until the run fits there, and *low to the last capacity before, where it does not. The run usually fits
 * a capacity equal to its peak of reserved bytes without a limit, but a policy may choose other segments on a smaller
 * card. */
static mt_status find_bracket(const struct mt_placed_run *run, uint64_t *low, uint64_t *high)
{
    if (*high <= *low)
        *high = *low + MT_FIT_UNIT;
    for (uint64_t stride = MT_FIT_UNIT;; stride *= 2) {
        struct mt_simulation simulation;
        mt_status status = mt_simulate_placed(run, *high, &simulation);
        if (status != MT_OK || simulation.fits)
            return status;
        *low = *high;
        *high += stride;
    }
}

/* Bisects between a sufficient capacity and the device's, which is not sufficient. A capacity below the peak of
 * allocated bytes is never sufficient. */
static mt_status find_enough(const struct mt_placed_run *run, const struct mt_simulation *unlimited, struct mt_fit *fit)
{
    uint64_t low = fit->capacity_bytes, high = unlimited->peak_reserved_bytes;
    if (low < unlimited->peak_allocated_bytes)
        low = unlimited->peak_allocated_bytes - 1;
    mt_status status = find_bracket(run, &low, &high);
    while (status == MT_OK && high > low + MT_FIT_UNIT) {
        uint64_t middle = low + (high - low) / 2;
        struct mt_simulation simulation;
        status = mt_simulate_placed(run, middle, &simulation);
        if (status == MT_OK)
            *(simulation.fits ? &high : &low) = middle;
    }
    fit->enough_bytes = high;
    assert(status != MT_OK || fit->enough_bytes > fit->capacity_bytes);
    return status;
}

static mt_status measure_placed(const struct mt_placed_run *run, struct mt_fit *out)
{
    struct mt_simulation here, unlimited;
    MT_TRY(mt_simulate_placed(run, mt_card_usable_bytes(&run->card), &here));
    MT_TRY(mt_simulate_placed(run, UNLIMITED_BYTES, &unlimited));
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
    struct mt_placed_run run;
    MT_TRY(mt_placed_run_create(plan, &run));
    mt_status status = measure_placed(&run, out);
    mt_placed_run_release(&run);
    return status;
}

/* Finds the largest model that fits. Names are ordered by size, so the search starts from the end. */
static mt_status find_largest_model(const struct mt_run_plan *plan, const char **out)
{
    size_t count = 0;
    while (mt_model_names[count] != NULL)
        count++;
    *out = NULL;
    for (size_t i = count; i-- > 0 && *out == NULL;) {
        struct mt_run_plan probe = *plan;
        bool fits = false;
        MT_TRY(mt_model_config_named(mt_model_names[i], &probe.config.model));
        probe.config.model.rope = plan->config.model.rope;
        MT_TRY(check(&probe, &fits));
        if (fits)
            *out = mt_model_names[i];
    }
    return MT_OK;
}

/* Sets *out_fits to true if the run fits the card with this many bytes. */
static mt_status check_card(const struct mt_run_plan *plan, const struct mt_card *card, uint64_t bytes, bool *out_fits)
{
    struct mt_run_plan probe = *plan;
    char spelling[MT_DEVICE_NAME];
    probe.card = NULL;
    probe.device = mt_device_spell_simulated(card, bytes, spelling);
    return check(&probe, out_fits);
}

/* Returns the bytes of a card that are available to a run: its memory minus the context or another reserve. */
static uint64_t card_bytes(const struct mt_card *card, uint64_t reserve_bytes)
{
    if (reserve_bytes == MT_RESERVE_UNSET)
        return mt_card_usable_bytes(card);
    return card->memory_bytes > reserve_bytes ? card->memory_bytes - reserve_bytes : 0;
}

/* True if the card supports the run. */
static bool can_compute(const struct mt_card *card, const struct mt_run_plan *plan)
{
    return plan->config.math != MTK_MATH_FP8 || mt_card_takes_fp8(card);
}

/* Finds the card with the least available memory above *bytes that supports the run, and sets *bytes to it. Returns its
 * name, or NULL if there is none. */
static const char *next_card(const struct mt_run_plan *plan, uint64_t reserve_bytes, struct mt_card *card,
                             uint64_t *bytes)
{
    const char *found = NULL;
    uint64_t least_bytes = UINT64_MAX;
    for (const char *const *name = mt_card_names(); *name != NULL; name++) {
        struct mt_card other;
        (void)mt_card_find(*name, &other);
        uint64_t room = card_bytes(&other, reserve_bytes);
        if (room <= *bytes || room >= least_bytes || !can_compute(&other, plan))
            continue;
        least_bytes = room;
        *card = other;
        found = *name;
    }
    *bytes = least_bytes;
    return found;
}

mt_status mt_fit_find_smallest_card(const struct mt_run_plan *plan, uint64_t reserve_bytes, const char **out)
{
    struct mt_card card;
    uint64_t bytes = 0;
    bool fits = false;
    while (!fits && (*out = next_card(plan, reserve_bytes, &card, &bytes)) != NULL)
        MT_TRY(check_card(plan, &card, bytes, &fits));
    return MT_OK;
}

bool mt_fit_remedy_make(const struct mt_run_plan *plan, mt_setting change, struct mt_fit_remedy *out)
{
    *out = (struct mt_fit_remedy){.changes = mt_fit_changes_for(plan, change)};
    out->plan = mt_fit_changes_apply(*plan, out->changes);
    return mt_setting_can_change(change, plan) && mt_training_config_check(&out->plan.config) == MT_OK;
}

/* True for a change that makes a size smaller, so that the run trains on less data at once. */
static bool is_cut(mt_setting change)
{
    return change != MT_SETTING_COUNT && mt_setting_table[change].change.is_cut;
}

/* Applies the remedy's changes to the plan, and measures it. */
static mt_status make_remedy(const struct mt_run_plan *plan, uint64_t capacity_bytes, struct mt_fit_remedy *remedy)
{
    mt_setting dearest = mt_fit_changes_dearest(remedy->changes);
    remedy->plan = mt_fit_changes_apply(*plan, remedy->changes);
    if (is_cut(dearest)) {
        struct mt_run_plan asked = mt_fit_with_size(remedy->plan, dearest, mt_setting_size(dearest, plan));
        struct mt_fit_largest largest;
        MT_TRY(find_largest(&asked, dearest, capacity_bytes, &largest));
        int64_t most = mt_setting_size(dearest, plan);
        if (largest.size > mt_setting_size(dearest, &remedy->plan))
            remedy->plan = mt_fit_with_size(remedy->plan, dearest, largest.size < most ? largest.size : most);
    }
    return measure(&remedy->plan, &remedy->fit);
}

/* True if the implementation that the change needs already makes the run fit. */
static bool is_more_than_needed(const struct mt_fit_answer *answer, mt_setting change, struct mt_fit_changes changes)
{
    if (change == MT_SETTING_IMPL || !changes.has[MT_SETTING_IMPL])
        return false;
    for (size_t i = 0; i < answer->single_count; i++)
        if (mt_fit_changes_dearest(answer->single[i].changes) == MT_SETTING_IMPL)
            return answer->single[i].fit.fits;
    return false;
}

static mt_status find_singles(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_CHANGES, settings);
    mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        mt_setting change = settings[i];
        const struct mt_fit_changes changes = mt_fit_changes_for(plan, change);
        if (!mt_setting_can_change(change, plan) || is_more_than_needed(answer, change, changes))
            continue;
        if (change == MT_SETTING_AUTOCAST && !plan->config.autocast && answer->lacks_bf16)
            continue;
        assert(answer->single_count < MT_SETTING_COUNT);
        struct mt_fit_remedy *remedy = &answer->single[answer->single_count++];
        remedy->changes = changes;
        status = make_remedy(plan, answer->fit.capacity_bytes, remedy);
    }
    return status;
}

/* Adds the remedy that combines all these changes. */
static mt_status combine(const struct mt_run_plan *plan, struct mt_fit_changes changes, struct mt_fit_answer *answer)
{
    assert(answer->combined_count < MT_MOST_COMBINED);
    struct mt_fit_remedy *remedy = &answer->combined[answer->combined_count++];
    remedy->changes = changes;
    return make_remedy(plan, answer->fit.capacity_bytes, remedy);
}

/* Finds the first pair that fits, ordered by its more expensive change, then by the other one. */
static mt_status find_pair(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    for (size_t dearer = 1; dearer < answer->single_count; dearer++) {
        for (size_t cheaper = 0; cheaper < dearer; cheaper++) {
            const struct mt_fit_changes both =
                mt_fit_changes_join(answer->single[cheaper].changes, answer->single[dearer].changes);
            const struct mt_run_plan least = mt_fit_changes_apply(*plan, both);
            bool fits;
            mt_status status = check(&least, &fits);
            if (status != MT_OK || fits)
                return status == MT_OK ? combine(plan, both, answer) : status;
        }
    }
    return MT_OK;
}

/* Returns the bytes by which runs are ordered, whether they fit or not. */
static uint64_t taken_bytes(const struct mt_fit *fit)
{
    return fit->fits ? fit->reserved_bytes : fit->enough_bytes;
}

/* Returns the single remedy that needs least memory, except `other`. */
static const struct mt_fit_remedy *find_least(const struct mt_fit_answer *answer, const struct mt_fit_remedy *other)
{
    const struct mt_fit_remedy *least = NULL;
    for (const struct mt_fit_remedy *single = answer->single; single < answer->single + answer->single_count; single++)
        if (single != other && (least == NULL || taken_bytes(&single->fit) < taken_bytes(&least->fit)))
            least = single;
    return least;
}

/* Returns all changes that help alone, and their number. */
static struct mt_fit_changes helpful(const struct mt_fit_answer *answer, size_t *out_count)
{
    struct mt_fit_changes all = {0};
    *out_count = 0;
    for (size_t i = 0; i < answer->single_count; i++) {
        if (taken_bytes(&answer->single[i].fit) >= taken_bytes(&answer->fit))
            continue;
        all = mt_fit_changes_join(all, answer->single[i].changes);
        ++*out_count;
    }
    return mt_fit_changes_without_overlap(all);
}

/* If no pair fits, measures the two best changes together, and all changes that help. */
static mt_status find_best_effort(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    size_t helpful_count;
    const struct mt_fit_changes all = helpful(answer, &helpful_count);
    if (helpful_count < 2)
        return MT_OK;
    const struct mt_fit_remedy *best = find_least(answer, NULL), *second = find_least(answer, best);
    mt_status status = combine(plan, mt_fit_changes_join(best->changes, second->changes), answer);
    return status == MT_OK && helpful_count > 2 ? combine(plan, all, answer) : status;
}

/* Returns the changes that help and do not affect training: it computes the same with them. */
static struct mt_fit_changes free_changes(const struct mt_fit_answer *answer)
{
    size_t count;
    struct mt_fit_changes changes = helpful(answer, &count);
    for (mt_setting change = 0; change < MT_SETTING_COUNT; change++)
        changes.has[change] = changes.has[change] && !mt_setting_table[change].change.is_felt;
    return changes;
}

/* If the best change cuts the batch or the sequence, finds the smallest cut that is needed after all free changes. */
static mt_status find_gentler(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    const struct mt_fit_remedy *best = mt_fit_best_remedy(answer);
    struct mt_fit_changes changes = free_changes(answer);
    mt_setting cut = best != NULL ? mt_fit_changes_dearest(best->changes) : MT_SETTING_COUNT;
    if (!is_cut(cut) || mt_fit_changes_dearest(changes) == MT_SETTING_COUNT)
        return MT_OK;
    changes.has[cut] = true;
    answer->gentler.changes = changes;
    mt_status status = make_remedy(plan, answer->fit.capacity_bytes, &answer->gentler);
    answer->has_gentler = status == MT_OK && answer->gentler.fit.fits &&
                          mt_setting_size(cut, &answer->gentler.plan) > mt_setting_size(cut, &best->plan);
    if (mt_setting_size(cut, &answer->gentler.plan) == mt_setting_size(cut, plan))
        answer->gentler.changes.has[cut] = false;
    return status;
}

static mt_status add_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *answer)
{
    MT_TRY(find_singles(plan, answer));
    if (mt_fit_best_remedy(answer) == NULL) {
        MT_TRY(find_pair(plan, answer));
        if (answer->combined_count == 0)
            MT_TRY(find_best_effort(plan, answer));
    }
    return find_gentler(plan, answer);
}

mt_status mt_fit_find_remedies(const struct mt_run_plan *plan, struct mt_fit_answer *out)
{
    struct mt_card card;
    *out = (struct mt_fit_answer){0};
    MT_TRY(mt_planned_card_find(plan, &card));
    out->lacks_bf16 = card.bf16_matrix_rate == 0;
    mt_status status = measure(plan, &out->fit);
    return status == MT_OK && !out->fit.fits ? add_remedies(plan, out) : status;
}

mt_status mt_fit_find(const struct mt_run_plan *plan, uint64_t reserve_bytes, struct mt_fit_answer *out)
{
    MT_TRY(mt_fit_find_remedies(plan, out));
    MT_TRY(find_largest(plan, MT_SETTING_BATCH, out->fit.capacity_bytes, &out->batch));
    MT_TRY(find_largest(plan, MT_SETTING_SEQ, out->fit.capacity_bytes, &out->seq));
    MT_TRY(find_largest_model(plan, &out->largest_model));
    return mt_fit_find_smallest_card(plan, reserve_bytes, &out->smallest_card);
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
