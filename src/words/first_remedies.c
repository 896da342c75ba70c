#include "words/first_remedies.h"

#include "answer/escape.h"
#include "base/order.h"
#include "words/advice_words.h"
#include "words/change_words.h"
#include "words/finding_words.h"
#include "words/observed_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>

/* ---- a finding and a change ---- */

/* True if a replay reserves clearly more or less than the run did, such as of a program that empties the cache. */
static bool differs_in_replay(const struct mt_advice_answer *answer, uint64_t replayed_bytes)
{
    enum { CLEAR_PART = 50 };
    const uint64_t had = answer->peaks[MT_MEASURE_RESERVED].bytes;
    const uint64_t difference = had > replayed_bytes ? had - replayed_bytes : replayed_bytes - had;
    return difference > had / CLEAR_PART;
}

/* Adds "The peak of 66.15 GiB reserved can fall by 2.53 GiB: ". */
static void add_saving(const struct mt_advice_answer *answer, const struct mt_finding *finding, struct mt_text *out)
{
    const struct mt_advice *advice = &answer->advice;
    const struct mt_advice_input *input = &answer->material.input;
    const bool is_reserved = mt_finding_is_of_reserved(finding);
    if (is_reserved && input->is_another) {
        mt_text_add(out, "With ");
        mt_replayed_allocator_add(input, out);
        mt_text_add(out, " the");
    } else {
        const bool differs = is_reserved && differs_in_replay(answer, advice->as_it_was.reserved_bytes);
        mt_text_add(out, differs ? "In a replay, the" : "The");
    }
    mt_text_add(out, " peak of %s %s can fall by %s: ",
                MT_SIZE(is_reserved ? advice->as_it_was.reserved_bytes : advice->peak_bytes),
                is_reserved ? "reserved" : "requested", MT_SIZE(finding->saved_bytes));
}

/* Adds "gradients stay allocated during the next forward pass, which does not need them (gradient, 12.69 GiB in 291
 * blocks)." */
static void add_waste(const struct mt_finding *finding, struct mt_text *out)
{
    mt_text_add(out, "%s (", mt_finding_words[finding->pattern].waste);
    size_t begin = out->length;
    mt_finding_add_short_blocks(finding, out);
    mt_text_add(out, "%s%s", out->length > begin ? ", " : "", MT_SIZE(finding->bytes));
    if (finding->blocks > 0)
        mt_text_add(out, " in %" PRIu64 " %s%s", finding->blocks, mt_finding_is_of_reserved(finding) ? "gap" : "block",
                    finding->blocks == 1 ? "" : "s");
    if (finding->taken_at[0] != '\0') {
        mt_text_add(out, ", at ");
        mt_text_add_visible(out, finding->taken_at);
    }
    mt_text_add(out, ")");
    if (finding->holder != NULL) {
        mt_text_add(out, ": ");
        mt_holder_add(finding->holder, out);
    }
    mt_text_add(out, ".");
}

static void add_finding(struct mt_remedy_list *remedies, const struct mt_advice_answer *answer)
{
    const struct mt_finding *finding = answer->advice.findings;
    const struct mt_program *program = &answer->material.input.program;
    struct mt_remedy *remedy = mt_remedy_list_add(remedies);
    add_saving(answer, finding, &remedy->what);
    add_waste(finding, &remedy->what);
    mt_finding_add_hint(finding, program, &remedy->how);
    mt_finding_add_mended(finding, program, &remedy->change);
}

static void add_change(struct mt_remedy_list *remedies, const struct mt_advice_answer *answer,
                       const struct mt_program_change *change)
{
    const struct mt_program *program = &answer->material.input.program;
    struct mt_remedy *remedy = mt_remedy_list_add(remedies);
    mt_change_add(change, program, &remedy->change);
    const uint64_t before = answer->changes.as_it_was.reserved_bytes;
    mt_text_add(&remedy->what, "%s %s reserved fall to %s with %s.",
                differs_in_replay(answer, before) ? "In a replay, the" : "The", MT_SIZE(before),
                MT_SIZE(change->replay.reserved_bytes), mt_text_get(&remedy->change));
    mt_change_add_hint(change, program, &remedy->how);
}

/* Returns what the first finding saves; 0 if there is none. */
static uint64_t saved_by_finding(const struct mt_advice_answer *answer)
{
    return answer->advice.count > 0 ? answer->advice.findings[0].saved_bytes : 0;
}

/* True if an observation is about memory that an error of the program keeps: without it, the memory is not needed. */
static bool is_error(const struct mt_observed *observed)
{
    return mt_observed_is_growth(observed) || observed->kind == MT_OBSERVED_ONE_GRAPH ||
           observed->kind == MT_OBSERVED_TRACEBACK || observed->kind == MT_OBSERVED_EXCEPTIONS;
}

/* True if an observation already reports a finding: memory of the same holder, or activations without a holder of their
 * own where graphs are kept. */
static bool reports(const struct mt_observed *observed, const struct mt_finding *finding)
{
    if (finding->holder != NULL)
        return is_error(observed) && observed->holder == finding->holder;
    return (observed->kind == MT_OBSERVED_KEPT_GRAPHS || observed->kind == MT_OBSERVED_ONE_GRAPH) &&
           mt_finding_hint(finding) == MT_HINT_NO_BACKWARD;
}

/* True if an observation about a loop already reports the first finding. */
static bool is_repeated(const struct mt_advice_answer *answer)
{
    const struct mt_finding *finding = &answer->advice.findings[0];
    const struct mt_observations *known = &answer->observations;
    for (size_t i = 0; i < known->count; i++)
        if (reports(&known->items[i], finding))
            return true;
    return finding->pattern == MT_PATTERN_LEAK && mt_observations_have_growth(known);
}

/* Returns the bytes that an observation explains: of a loop, after all its iterations. UINT64_MAX: unknown. */
static uint64_t bytes_explained(const struct mt_observed *observed)
{
    if (!mt_observed_is_growth(observed))
        return observed->kind == MT_OBSERVED_ONE_GRAPH ? UINT64_MAX : observed->bytes;
    return observed->iterations > 0 ? observed->bytes * (uint64_t)observed->iterations : UINT64_MAX;
}

/* Returns what a change must save to be named: more than the first finding, than a few percent next to a cause that is
 * observed, and than what an error of the program keeps, which no change of training removes. */
static uint64_t least_saving(const struct mt_advice_answer *answer, uint64_t saved_by_finding)
{
    enum { SMALL_PART = 20 };
    const struct mt_observations *known = &answer->observations;
    uint64_t least = saved_by_finding;
    if (known->count > 0)
        least = mt_larger(least, answer->changes.as_it_was.reserved_bytes / SMALL_PART);
    for (size_t i = 0; i < known->count; i++)
        if (is_error(&known->items[i]))
            least = mt_larger(least, bytes_explained(&known->items[i]));
    return least;
}

/* True if the first finding comes before a change that saves so much: its holder is known, so it costs no speed, and it
 * saves at least half as much. */
static bool precedes(const struct mt_advice_answer *answer, const struct mt_program_change *change)
{
    const struct mt_finding *finding = answer->advice.findings;
    const uint64_t saved_bytes = answer->changes.as_it_was.reserved_bytes - change->replay.reserved_bytes;
    return finding->holder != NULL && finding->saved_bytes >= saved_bytes / 2;
}

void mt_first_remedies_add_waste(struct mt_remedy_list *remedies, const struct mt_advice_answer *answer)
{
    enum { LEAST_SAVING = 1 << 12 }; /* a list of numbers is listed below, but no remedy */
    const uint64_t saved_bytes = saved_by_finding(answer);
    const bool is_option = saved_bytes > 0 && mt_finding_is_optional(answer->advice.findings);
    const struct mt_program_change *change =
        mt_changes_first(&answer->changes, least_saving(answer, is_option ? 2 * saved_bytes : saved_bytes));
    const bool has_finding = saved_bytes >= LEAST_SAVING && !is_repeated(answer);
    const bool is_first = has_finding && change != NULL && precedes(answer, change);
    if (is_first)
        add_finding(remedies, answer);
    if (change != NULL)
        add_change(remedies, answer, change);
    if (has_finding && !is_first)
        add_finding(remedies, answer);
}

/* ---- an option ---- */

/* Returns the option that lowers the peak most; NULL if none lowers it by more than `least_bytes`. The peak of a run
 * that ended out of memory is none to compare with. */
static const struct mt_simulated_option *best_option(const struct mt_simulated_advice *simulated, uint64_t least_bytes)
{
    const struct mt_simulated_option *best = NULL;
    const uint64_t before = simulated->as_it_is.peak_requested_bytes;
    for (size_t i = 0; i < simulated->count && simulated->as_it_is.fits; i++) {
        const uint64_t after = simulated->options[i].simulation.peak_requested_bytes;
        assert(after < before);
        if (before - after <= least_bytes)
            continue;
        best = &simulated->options[i];
        least_bytes = before - after;
    }
    return best;
}

void mt_first_remedies_add_option(struct mt_remedy_list *remedies, const struct mt_advice_answer *answer)
{
    const struct mt_simulated_advice *simulated = &answer->simulated;
    const struct mt_simulated_option *best = best_option(simulated, saved_by_finding(answer));
    if (best == NULL)
        return;
    struct mt_remedy *remedy = mt_remedy_list_add(remedies);
    mt_fit_remedy_add_changes(&best->remedy, &remedy->change);
    mt_text_add(&remedy->what, "With memtrace run %s, the peak of requested bytes falls by %s.",
                mt_text_get(&remedy->change),
                MT_SIZE(simulated->as_it_is.peak_requested_bytes - best->simulation.peak_requested_bytes));
}
