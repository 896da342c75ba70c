/* Budgets, and the measurement of runs against them. */
#include "analysis/check/check.h"

#include "analysis/advise/observe.h"
#include "base/label.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/text.h"
#include "trace/query/blocks.h"
#include "trace/query/groups.h"
#include "trace/query/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct mt_budget mt_budget_empty(void)
{
    struct mt_budget budget = {.tolerance_percent = MT_NO_TOLERANCE};
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        budget.most_bytes[measure] = MT_NO_BOUND;
    return budget;
}

void mt_budget_release(struct mt_budget *budget)
{
    for (size_t i = 0; i < budget->bound_count; i++)
        free(budget->bounds[i].name);
    free(budget->bounds);
    free(budget->against);
    *budget = mt_budget_empty();
}

void mt_budget_set_against(struct mt_budget *budget, const char *against)
{
    free(budget->against);
    budget->against = mt_host_strdup(against);
}

void mt_budget_set_bound(struct mt_budget *budget, mt_bound_kind kind, const char *name, uint64_t bytes)
{
    for (size_t i = 0; i < budget->bound_count; i++) {
        struct mt_bound *bound = &budget->bounds[i];
        if (bound->kind == kind && strcmp(bound->name, name) == 0) {
            bound->bytes = bytes;
            return;
        }
    }
    assert(name[0] != '\0');
    *MT_HOST_ADD(budget->bounds, budget->bound_count) =
        (struct mt_bound){.kind = kind, .name = mt_host_strdup(name), .bytes = bytes};
}

bool mt_budget_demands(const struct mt_budget *budget)
{
    bool demands = budget->bound_count > 0 || budget->no_leaks || budget->against != NULL;
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        demands |= budget->most_bytes[measure] != MT_NO_BOUND;
    return demands;
}

double mt_budget_tolerance(const struct mt_budget *budget)
{
    return budget->tolerance_percent >= 0 ? budget->tolerance_percent : MT_DEFAULT_TOLERANCE_PERCENT;
}

/* The measurements of a run. Zero-initialized is ready to load; release in any case. */
struct measured {
    struct mt_peak_row peaks[MT_MEASURE_COUNT];
    struct mt_category_row *largest; /* by category, over all phases */
    size_t largest_count;            /* 0 also if no category is bounded */
};

#define X(name, text) text,
static const char *const our_categories[] = {MT_CATEGORIES(X)};
static const char *const roles[] = {MT_ROLES(X)};
static const char *const phases[] = {MT_PHASES(X)};
#undef X

static uint64_t largest_bytes(const struct measured *measured, const char *category)
{
    for (size_t i = 0; i < measured->largest_count; i++)
        if (strcmp(measured->largest[i].category, category) == 0)
            return measured->largest[i].max_bytes;
    return 0;
}

/* Fails if a category that is live at the peak has no allocation. This happens only in a damaged trace, where the
 * category would pass any bound. */
static mt_status check_largest(const struct mt_question *question, const struct measured *measured)
{
    const struct mt_peak_row *peak = &measured->peaks[MT_MEASURE_REQUESTED];
    for (size_t i = 0; i < peak->share_count; i++)
        if (peak->shares[i].requested_bytes > 0 && largest_bytes(measured, peak->shares[i].name) == 0)
            return mt_fail(MT_BAD_TRACE, "the trace is damaged: run %" PRId64 " has %s, and no allocation of it",
                           question->run->id, peak->shares[i].name);
    return MT_OK;
}

static mt_status measure_peaks(const struct mt_question *question, struct measured *out)
{
    *out = (struct measured){0};
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        MT_TRY(mt_trace_peak(question->trace, question->run, (mt_measure)i, &out->peaks[i]));
    return MT_OK;
}

static void measured_release(struct measured *measured)
{
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        mt_peak_row_release(&measured->peaks[i]);
    free(measured->largest);
}

/* Returns the bytes of a category that were live at the allocated peak. */
static uint64_t live_bytes(const struct measured *measured, const char *category)
{
    const struct mt_peak_row *peak = &measured->peaks[MT_MEASURE_ALLOCATED];
    for (size_t i = 0; i < peak->share_count; i++)
        if (strcmp(peak->shares[i].name, category) == 0)
            return peak->shares[i].allocated_bytes;
    return 0;
}

static bool is_listed(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool is_of_category(const struct mt_bound *bound)
{
    return bound->kind == MT_BOUND_LIVE || bound->kind == MT_BOUND_LARGEST;
}

/* Fails for a bound of a category that neither memtrace nor the run has: a misspelled bound would always pass. */
static mt_status check_categories(const struct mt_budget *budget, const struct measured *measured)
{
    size_t count = sizeof our_categories / sizeof our_categories[0];
    const char **names = mt_host_alloc((count + measured->largest_count) * sizeof *names);
    memcpy(names, our_categories, sizeof our_categories);
    for (size_t i = 0; i < measured->largest_count; i++)
        if (!is_listed(names, count, measured->largest[i].category))
            names[count++] = measured->largest[i].category;
    mt_status status = MT_OK;
    for (size_t i = 0; i < budget->bound_count && status == MT_OK; i++)
        if (is_of_category(&budget->bounds[i]) && !is_listed(names, count, budget->bounds[i].name))
            status = mt_fail_unknown("category", budget->bounds[i].name, names, count);
    free(names);
    return status;
}

static void add_criterion(struct mt_check *check, struct mt_criterion criterion)
{
    if (criterion.kind != MT_CRITERION_ENDED)
        criterion.passed = criterion.value_bytes <= criterion.bound_bytes;
    if (criterion.name == NULL)
        criterion.name = "";
    *MT_HOST_ADD(check->criteria, check->count) = criterion;
    check->failed += !criterion.passed;
    assert(check->failed <= check->count);
}

bool mt_run_ended_well(const struct mt_run *run)
{
    return mt_run_is(run, MT_RUN_DONE);
}

static void check_most(struct mt_check *check, const struct measured *measured)
{
    const struct mt_budget *budget = check->budget;
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        if (budget->most_bytes[i] != MT_NO_BOUND)
            add_criterion(check, (struct mt_criterion){.kind = MT_CRITERION_PEAK,
                                                       .measure = (mt_measure)i,
                                                       .value_bytes = measured->peaks[i].bytes,
                                                       .bound_bytes = budget->most_bytes[i]});
}

/* ---- bounds of a role, a module or a phase; a misspelled one fails, since it would always pass ---- */

static mt_status check_name(const char *kind, const char *name, const char *const *names, size_t count)
{
    return is_listed(names, count, name) ? MT_OK : mt_fail_unknown(kind, name, names, count);
}

/* True if the path is the module's or a submodule's path. */
static bool is_within(const char *path, const char *module)
{
    size_t length = strlen(module);
    return strncmp(path, module, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

static mt_status check_module(const struct mt_question *question, const char *module)
{
    struct mt_label_row *labels;
    size_t count;
    bool is_found = false;
    mt_status status = mt_trace_labels(question->trace, question->run, &labels, &count);
    for (size_t i = 1; i < count && status == MT_OK && !is_found; i++)
        is_found = is_within(labels[i].place, module);
    free(labels);
    if (status != MT_OK || is_found)
        return status;
    return mt_fail(MT_USAGE, "run %" PRId64 " has no module \"%s\"; in a path * stands for the number of a layer",
                   question->run->id, module);
}

/* Sums the groups of the allocated peak with this name. For modules, includes submodules. */
static mt_status sum_groups(const struct mt_question *question, mt_group_key key, const char *name, uint64_t *out)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak_by(question->trace, question->run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, key, &peak);
    *out = 0;
    for (size_t i = 0; i < peak.share_count && status == MT_OK; i++) {
        const char *group = peak.shares[i].name;
        if (key == MT_GROUP_MODULE ? is_within(group, name) : strcmp(group, name) == 0)
            *out += peak.shares[i].allocated_bytes;
    }
    mt_peak_row_release(&peak);
    return status;
}

static mt_status role_bytes(const struct mt_question *question, const char *role, uint64_t *out)
{
    MT_TRY(check_name("role", role, roles, sizeof roles / sizeof roles[0]));
    return sum_groups(question, MT_GROUP_ROLE, role, out);
}

static mt_status module_bytes(const struct mt_question *question, const char *module, uint64_t *out)
{
    MT_TRY(check_module(question, module));
    return sum_groups(question, MT_GROUP_MODULE, module, out);
}

static mt_status phase_bytes(const struct mt_question *question, const char *phase, uint64_t *out)
{
    struct mt_phase_peak *peaks;
    size_t count;
    MT_TRY(check_name("phase", phase, phases, sizeof phases / sizeof phases[0]));
    mt_status status = mt_trace_phase_peaks(question->trace, question->run, &peaks, &count);
    *out = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (strcmp(peaks[i].phase, phase) == 0)
            *out = peaks[i].bytes;
    free(peaks);
    return status;
}

/* Finds the value to compare with a bound. */
static mt_status find_value(const struct mt_check *check, const struct measured *measured, const struct mt_bound *bound,
                            uint64_t *out)
{
    switch (bound->kind) {
    case MT_BOUND_ROLE:
        return role_bytes(check->question, bound->name, out);
    case MT_BOUND_MODULE:
        return module_bytes(check->question, bound->name, out);
    case MT_BOUND_PHASE:
        return phase_bytes(check->question, bound->name, out);
    default:
        assert(is_of_category(bound));
        *out = (bound->kind == MT_BOUND_LIVE ? live_bytes : largest_bytes)(measured, bound->name);
        return MT_OK;
    }
}

static mt_status check_bound(struct mt_check *check, const struct measured *measured, const struct mt_bound *bound)
{
    static const mt_criterion_kind kinds[MT_BOUND_COUNT] = {[MT_BOUND_LIVE] = MT_CRITERION_CATEGORY,
                                                            [MT_BOUND_LARGEST] = MT_CRITERION_LARGEST,
                                                            [MT_BOUND_ROLE] = MT_CRITERION_ROLE,
                                                            [MT_BOUND_MODULE] = MT_CRITERION_MODULE,
                                                            [MT_BOUND_PHASE] = MT_CRITERION_PHASE};
    struct mt_criterion criterion = {.kind = kinds[bound->kind], .name = bound->name, .bound_bytes = bound->bytes};
    MT_TRY(find_value(check, measured, bound, &criterion.value_bytes));
    add_criterion(check, criterion);
    return MT_OK;
}

static mt_status check_bounds(struct mt_check *check, const struct measured *measured)
{
    check_most(check, measured);
    for (size_t i = 0; i < check->budget->bound_count; i++)
        MT_TRY(check_bound(check, measured, &check->budget->bounds[i]));
    return MT_OK;
}

static uint64_t sum_leaks(const struct mt_leaks *leaks)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < leaks->row_count; i++)
        bytes += leaks->rows[i].last_bytes - leaks->rows[i].first_bytes;
    return bytes;
}

/* True for what steps leave if it is only numbers, such as losses for a log: a million steps keep less than a GiB. */
static bool are_numbers(const struct mt_leaks *leaks)
{
    enum { MOST_BYTES = 256 }; /* a step */
    return sum_leaks(leaks) <= (uint64_t)(leaks->last_step - leaks->first_step) * MOST_BYTES;
}

const struct mt_observed *mt_check_growth(const struct mt_check *check)
{
    for (size_t i = 0; i < check->observations.count; i++) {
        const struct mt_observed *observed = &check->observations.items[i];
        if (mt_observed_is_growth(observed) && observed->line > 0 && mt_stack_file_is_own(observed->file) &&
            observed->change != MT_OBSERVED_CHANGE_HISTORY_SIZE)
            return observed;
    }
    return NULL;
}

/* Adds the leak criterion. Numbers pass. Memory that is freed at the end of an epoch is live at the end of no step, so a
 * loop's growth that was measured while the program ran counts, too. A run that did not end well fails in any case, so it may
 * be too short to show leaks. */
static mt_status check_leaks(struct mt_check *check)
{
    const struct mt_run *run = check->question->run;
    bool too_short = run->last_full_step + 1 < MT_LEAK_LEAST_STEPS;
    if (!check->budget->no_leaks || (too_short && !mt_run_ended_well(run)))
        return MT_OK;
    MT_TRY(mt_observations_load(check->question, &check->observations));
    const struct mt_observed *growth = mt_check_growth(check);
    mt_status status = mt_trace_leaks(check->question->trace, run, &check->leaks);
    check->leaks_unknown = status != MT_OK && (status != MT_USAGE || growth == NULL);
    if (check->leaks_unknown)
        return status;
    const bool is_small = are_numbers(&check->leaks);
    const uint64_t leaked = is_small && growth != NULL ? growth->bytes : sum_leaks(&check->leaks);
    add_criterion(check, (struct mt_criterion){.kind = MT_CRITERION_LEAKS,
                                               .value_bytes = leaked,
                                               .bound_bytes = is_small && growth == NULL ? leaked : 0});
    check->leaks_are_numbers = is_small;
    return MT_OK;
}

/* Returns the bytes plus the tolerance, at most INT64_MAX. */
static uint64_t allowed(const struct mt_budget *budget, uint64_t bytes)
{
    double more = (double)bytes * mt_budget_tolerance(budget) / 100;
    if (more < (double)budget->floor_bytes)
        more = (double)budget->floor_bytes;
    return more < (double)(INT64_MAX - (int64_t)bytes) ? bytes + (uint64_t)more : INT64_MAX;
}

/* Adds a criterion of a peak. Returns true if it passed. */
static bool compare_peak(struct mt_check *check, mt_measure measure, const struct measured *ours,
                         const struct measured *theirs)
{
    add_criterion(check, (struct mt_criterion){.kind = MT_CRITERION_PEAK,
                                               .measure = measure,
                                               .is_relative = true,
                                               .value_bytes = ours->peaks[measure].bytes,
                                               .bound_bytes = allowed(check->budget, theirs->peaks[measure].bytes),
                                               .against_bytes = theirs->peaks[measure].bytes});
    return check->criteria[check->count - 1].passed;
}

static int compare_growths(const void *left, const void *right)
{
    const struct mt_category_growth *a = left, *b = right;
    int order = MT_COMPARE(b->bytes - b->against_bytes, a->bytes - a->against_bytes);
    return order != 0 ? order : strcmp(a->category, b->category);
}

/* Finds the categories that exceed the tolerance. A category that is live only in the other run can't. */
static void find_growths(struct mt_check *check, const struct measured *ours, const struct measured *theirs)
{
    const struct mt_peak_row *peak = &ours->peaks[MT_MEASURE_ALLOCATED];
    check->growths = mt_host_alloc((peak->share_count + 1) * sizeof *check->growths);
    for (size_t i = 0; i < peak->share_count; i++) {
        const struct mt_peak_share *share = &peak->shares[i];
        uint64_t against_bytes = live_bytes(theirs, share->name);
        if (share->allocated_bytes > allowed(check->budget, against_bytes))
            check->growths[check->growth_count++] =
                (struct mt_category_growth){mt_host_strdup(share->name), share->allocated_bytes, against_bytes};
    }
    if (check->growth_count > 0)
        qsort(check->growths, check->growth_count, sizeof *check->growths, compare_growths);
}

/* Adds the criterion of the categories: the sum of those that grew too much, against their tolerated sum. */
static void compare_categories(struct mt_check *check)
{
    struct mt_criterion criterion = {.kind = MT_CRITERION_CATEGORY, .is_relative = true};
    for (size_t i = 0; i < check->growth_count; i++) {
        criterion.value_bytes += check->growths[i].bytes;
        criterion.against_bytes += check->growths[i].against_bytes;
        criterion.bound_bytes += allowed(check->budget, check->growths[i].against_bytes);
    }
    add_criterion(check, criterion);
}

/* Compares the allocated peak and, if that passes, its categories and the reserved peak. */
static void compare(struct mt_check *check, const struct measured *ours, const struct measured *theirs)
{
    find_growths(check, ours, theirs);
    if (!compare_peak(check, MT_MEASURE_ALLOCATED, ours, theirs))
        return;
    compare_categories(check);
    (void)compare_peak(check, MT_MEASURE_RESERVED, ours, theirs);
}

static mt_status check_relative(struct mt_check *check, const struct measured *ours)
{
    if (check->against == NULL)
        return MT_OK;
    struct measured theirs;
    mt_status status = measure_peaks(check->against, &theirs);
    if (status == MT_OK)
        compare(check, ours, &theirs);
    measured_release(&theirs);
    return status;
}

/* Measures the run, and checks it by each criterion of the budget. */
static mt_status check_all(struct mt_check *check, struct measured *measured)
{
    const struct mt_question *question = check->question;
    MT_TRY(measure_peaks(question, measured));
    if (check->budget->bound_count > 0) {
        MT_TRY(mt_trace_categories(question->trace, question->run, NULL, &measured->largest, &measured->largest_count));
        MT_TRY(check_largest(question, measured));
    }
    MT_TRY(check_categories(check->budget, measured));
    add_criterion(check, (struct mt_criterion){.kind = MT_CRITERION_ENDED, .passed = mt_run_ended_well(question->run)});
    MT_TRY(check_bounds(check, measured));
    MT_TRY(check_leaks(check));
    return check_relative(check, measured);
}

mt_status mt_check_run(const struct mt_budget *budget, const struct mt_question *question,
                       const struct mt_question *against, struct mt_check *out)
{
    assert(against == NULL || mt_run_ended_well(against->run));
    *out = (struct mt_check){.budget = budget, .question = question, .against = against};
    struct measured measured;
    mt_status status = check_all(out, &measured);
    measured_release(&measured);
    return status;
}

void mt_check_release(struct mt_check *check)
{
    for (size_t i = 0; i < check->growth_count; i++)
        free((char *)check->growths[i].category);
    free(check->growths);
    free(check->criteria);
    mt_leaks_release(&check->leaks);
    mt_observations_release(&check->observations);
}
