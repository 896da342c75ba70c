#include "analysis/fit/dry_fit.h"

#include "analysis/advise/advise.h"
#include "analysis/fit/replayed_fit.h"
#include "analysis/lifetimes.h"

#include <assert.h>

static const char *const names[MT_DRY_CHANGE_COUNT] = {
#define X(name, text, trial) [MT_DRY_##name] = (text),
    MT_DRY_CHANGES(X)
#undef X
};

/* True for changes that are tried only if the program has a place for them. */
static bool needs_place(mt_dry_change change)
{
    enum { ALWAYS, HAS_PLACE };
    static const bool needed[MT_DRY_CHANGE_COUNT] = {
#define X(name, text, trial) [MT_DRY_##name] = (trial) == HAS_PLACE,
        MT_DRY_CHANGES(X)
#undef X
    };
    return needed[change];
}

void mt_dry_changes_add_places(struct mt_text *out)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (needs_place(change))
            mt_text_add(out, "%s?%s", out->length > 0 ? "," : "", names[change]);
}

const char *mt_dry_change_name(mt_dry_change change)
{
    assert((unsigned)change < MT_DRY_CHANGE_COUNT);
    return names[change];
}

void mt_dry_changes_add_names(const struct mt_dry_changes *changes, struct mt_text *out)
{
    const char *before = "";
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        if (!changes->has[change])
            continue;
        mt_text_add(out, "%s%s", before, names[change]);
        before = ",";
    }
}

static bool fits(const struct mt_dry_trial *trial)
{
    return trial->outcome == MT_TRIAL_RAN && trial->peak.fits;
}

/* True if the trial reserves less than the other one. */
static bool is_less(const struct mt_dry_trial *trial, const struct mt_dry_trial *other)
{
    return trial->outcome == MT_TRIAL_RAN && trial->peak.reserved_bytes < other->peak.reserved_bytes;
}

/* True if either change makes the other one pointless. */
static bool overlap(mt_dry_change a, mt_dry_change b)
{
    static const mt_dry_change pairs[][2] = {{MT_DRY_FUSED_OPTIMIZER, MT_DRY_LOOP_OPTIMIZER},
                                             {MT_DRY_AUTOCAST, MT_DRY_BF16_WEIGHTS}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if ((a == pairs[i][0] && b == pairs[i][1]) || (a == pairs[i][1] && b == pairs[i][0]))
            return true;
    return false;
}

/* True if the change is worth a trial in addition to these changes: it worked alone, or it is flash, which needs bf16
 * and is refused without it. */
static bool can_add(const struct mt_dry_fit *fit, const struct mt_dry_changes *changes, mt_dry_change added)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (changes->has[change] && (change == added || overlap(change, added)))
            return false;
    if (added == MT_DRY_FLASH && (changes->has[MT_DRY_AUTOCAST] || changes->has[MT_DRY_BF16_WEIGHTS]))
        return true;
    return fit->single[added].outcome == MT_TRIAL_RAN;
}

/* Returns the change that may be added, was not tried yet and reserves least alone; MT_DRY_CHANGE_COUNT if there is
 * none. A change that was refused alone comes last. */
static mt_dry_change next_change(const struct mt_dry_fit *fit, const struct mt_dry_changes *changes, const bool *tried)
{
    mt_dry_change best = MT_DRY_CHANGE_COUNT;
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        if (tried[change] || !can_add(fit, changes, change))
            continue;
        if (best == MT_DRY_CHANGE_COUNT || is_less(&fit->single[change], &fit->single[best]))
            best = change;
    }
    return best;
}

/* Returns the single change that reserves least, if it reserves less than the unchanged program; otherwise NULL. */
static const struct mt_dry_trial *least_single(const struct mt_dry_fit *fit)
{
    const struct mt_dry_trial *least = &fit->plain;
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (is_less(&fit->single[change], least))
            least = &fit->single[change];
    return least != &fit->plain ? least : NULL;
}

/* Adds changes to the best single one, one after another. Keeps those that lower the reserved peak, until the program
 * fits. */
static mt_status combine(mt_dry_try make, void *context, struct mt_dry_fit *fit)
{
    const struct mt_dry_trial *base = least_single(fit);
    bool tried[MT_DRY_CHANGE_COUNT] = {false};
    while (base != NULL && !fits(base)) {
        const mt_dry_change added = next_change(fit, &base->changes, tried);
        if (added == MT_DRY_CHANGE_COUNT)
            break;
        assert(fit->combined_count < MT_DRY_CHANGE_COUNT);
        struct mt_dry_trial *trial = &fit->combined[fit->combined_count];
        tried[added] = true;
        *trial = (struct mt_dry_trial){.changes = base->changes};
        trial->changes.has[added] = true;
        mt_status status = make(context, &trial, 1);
        if (status == MT_OK && trial->outcome == MT_TRIAL_KILLED)
            status = mt_fail(MT_FAILED, "%s", mt_text_get(&trial->words));
        if (status == MT_OK && is_less(trial, base)) {
            base = trial;
            fit->combined_count++;
            continue;
        }
        mt_text_release(&trial->words);
        MT_TRY(status);
    }
    return MT_OK;
}

/* True if the program fits unchanged or with a single change. */
static bool is_found(const struct mt_dry_fit *fit)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (fits(&fit->single[change]))
            return true;
    return fits(&fit->plain);
}

/* Tries changes alone: the unchanged program and the changes that are always tried, then those that have a place in
 * it. */
static mt_status try_singles(mt_dry_try make, void *context, struct mt_dry_fit *out)
{
    struct mt_dry_trial *trials[1 + MT_DRY_CHANGE_COUNT] = {&out->plain};
    size_t count = 1;
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        out->single[change].changes.has[change] = true;
        if (!needs_place(change))
            trials[count++] = &out->single[change];
    }
    MT_TRY(make(context, trials, count));
    if (out->plain.outcome != MT_TRIAL_RAN)
        return MT_OK;
    count = 0;
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (needs_place(change) && out->plain.places.has[change])
            trials[count++] = &out->single[change];
    return count > 0 ? make(context, trials, count) : MT_OK;
}

mt_status mt_dry_fit_find(mt_dry_try make, void *context, struct mt_dry_fit *out)
{
    *out = (struct mt_dry_fit){0};
    MT_TRY(try_singles(make, context, out));
    if (out->plain.outcome != MT_TRIAL_RAN || is_found(out))
        return MT_OK;
    return combine(make, context, out);
}

void mt_dry_fit_release(struct mt_dry_fit *fit)
{
    mt_text_release(&fit->plain.words);
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        mt_text_release(&fit->single[change].words);
        mt_text_release(&fit->combined[change].words);
    }
}

const struct mt_dry_trial *mt_dry_fit_best(const struct mt_dry_fit *fit)
{
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (fits(&fit->single[change]))
            return &fit->single[change];
    for (size_t i = 0; i < fit->combined_count; i++)
        if (fits(&fit->combined[i]))
            return &fit->combined[i];
    return NULL;
}

/* Sets *out to true if the run fits when the allocator frees cached memory. */
static mt_status replay_fits(const struct mt_question *run, uint64_t capacity_bytes, bool *out)
{
    struct mt_advice_material material;
    struct mt_window window;
    struct mt_replay_result replayed;
    mt_status status = mt_advice_material_load(run, NULL, &material);
    if (status == MT_OK) {
        material.input.capacity_bytes = capacity_bytes;
        mt_window_create(&material.input, &window);
        status = mt_window_replay(&window, NULL, 0, &material.input.settings, &replayed);
        *out = status == MT_OK && replayed.fits;
        mt_window_release(&window);
    }
    mt_advice_material_release(&material);
    return status;
}

mt_status mt_dry_run_peak(const struct mt_question *run, uint64_t capacity_bytes, struct mt_replay_result *out)
{
    MT_TRY(mt_run_own_peaks(run, out));
    out->fits = out->fits && out->reserved_bytes <= capacity_bytes;
    if (out->reserved_bytes <= capacity_bytes || out->allocated_bytes > capacity_bytes)
        return MT_OK;
    return replay_fits(run, capacity_bytes, &out->fits);
}
