#include "cli/explain/oom_answer.h"

#include "analysis/run_settings.h"
#include "cli/explain/hint_words.h"
#include "cli/output/way_out.h"
#include "cli/run/fit_report.h"
#include "cli/run/run_command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *mt_oom_proof_name(mt_oom_proof proof)
{
    return proof == MT_PROOF_SIMULATION ? "simulation" : "replay";
}

static void add_change(struct mt_oom_answer *answer, const struct mt_oom_change *change)
{
    if (answer->change_count < MT_MOST_OOM_CHANGES)
        answer->changes[answer->change_count++] = *change;
}

static void add_remedies(struct mt_oom_answer *answer, const struct mt_fit_remedy *remedies, size_t count)
{
    for (size_t i = 0; i < count && answer->change_count < MT_MOST_OOM_SIMULATED; i++) {
        struct mt_oom_change change = {
            .proof = MT_PROOF_SIMULATION, .remedy = remedies[i], .reserved_bytes = remedies[i].fit.reserved_bytes};
        change.remedy.plan.device = answer->device;
        if (remedies[i].fit.fits)
            add_change(answer, &change);
    }
}

/* Plans the run as it was, for a simulated device of the bytes that it could have had. */
static mt_status plan_simulation(struct mt_oom_answer *answer, struct mt_run_plan *plan)
{
    const struct mt_run *run = answer->question->run;
    bool is_simulated = mt_device_is_simulated(run->device);
    mt_status status = mt_run_plan_of_run(answer->question->trace, run, plan);
    snprintf(answer->device, sizeof answer->device, "%.*s", (int)strcspn(run->device, " "), run->device);
    mt_device_spell_simulated(answer->limit_bytes, answer->simulated_device);
    if (is_simulated && answer->limit_bytes == run->capacity_bytes)
        strcpy(answer->simulated_device, answer->device);
    plan->device = answer->simulated_device;
    answer->is_ours = status == MT_OK;
    return status == MT_USAGE ? MT_OK : status;
}

/* Tries the other policy, which is not among the changes that are tried anyway. */
static mt_status simulate_torch(struct mt_oom_answer *answer, const struct mt_run_plan *plan)
{
    struct mt_fit_remedy remedy = {.plan = *plan};
    struct mt_simulation simulation;
    mt_status status = mt_alloc_settings_parse("policy=torch", &remedy.plan.alloc);
    if (status == MT_OK)
        status = mt_simulate(&remedy.plan, &simulation);
    if (status != MT_OK)
        return status;
    remedy.changes.has[MT_SETTING_ALLOC] = true;
    remedy.fit = (struct mt_fit){.fits = simulation.fits,
                                 .capacity_bytes = simulation.capacity_bytes,
                                 .reserved_bytes = simulation.peak_reserved_bytes};
    add_remedies(answer, &remedy, 1);
    return MT_OK;
}

static mt_status add_simulated(struct mt_oom_answer *answer, const struct mt_run_plan *plan)
{
    const struct mt_fit_answer *fit = &answer->fit;
    mt_status status = MT_OK;
    size_t cheaper = fit->single_count > 0 && fit->single[0].changes.has[MT_SETTING_ZERO_GRAD];
    add_remedies(answer, fit->single, cheaper);
    if (plan->alloc.policy == MT_POLICY_TIGHT)
        status = simulate_torch(answer, plan);
    add_remedies(answer, fit->single + cheaper, fit->single_count - cheaper);
    add_remedies(answer, fit->combined, fit->combined_count);
    return status;
}

static mt_status simulate(struct mt_oom_answer *answer)
{
    struct mt_run_plan plan;
    mt_status status = plan_simulation(answer, &plan);
    if (status != MT_OK || !answer->is_ours)
        return status;
    status = mt_fit_find_remedies(&plan, &answer->fit);
    answer->is_simulated = status == MT_OK && !answer->fit.fit.fits;
    if (!answer->is_simulated)
        return status;
    status = add_simulated(answer, &plan);
    if (status == MT_OK && answer->change_count == 0)
        status = mt_fit_find_smallest_card(&plan, 0, &answer->smallest_card);
    return status;
}

/* True if a simulation of the whole run has tried the change already. */
static bool is_settled(const struct mt_oom_answer *answer, const struct mt_replayed_change *replayed)
{
    if (!answer->is_simulated)
        return false;
    return replayed->kind == MT_REPLAYED_POLICY ||
           (replayed->kind == MT_REPLAYED_PATTERN && replayed->finding.pattern == MT_PATTERN_KEPT_GRADIENTS);
}

/* Adds replayed changes. Freeing everything at its last use is added only if nothing less would do. */
static void add_replayed(struct mt_oom_answer *answer)
{
    size_t room = answer->change_count > 1 ? 1 : MT_MOST_OOM_SIMULATED - answer->change_count;
    for (size_t i = 0; i < answer->oom.replayed.count && room > 0; i++) {
        const struct mt_replayed_change *replayed = &answer->oom.replayed.items[i];
        const struct mt_oom_change change = {
            .proof = MT_PROOF_REPLAY, .replayed = *replayed, .reserved_bytes = replayed->replay.reserved_bytes};
        if (is_settled(answer, replayed) || (replayed->kind == MT_REPLAYED_USED_ONLY && answer->change_count > 0))
            continue;
        add_change(answer, &change);
        room--;
    }
}

mt_status mt_oom_answer_load(const struct mt_question *question, struct mt_oom_answer *out)
{
    *out = (struct mt_oom_answer){.question = question};
    mt_status status = mt_oom_load(question, &out->oom);
    if (status == MT_USAGE && out->oom.event == 0 && !mt_run_is(question->run, MT_RUN_OOM))
        return mt_fail_way_out(status,
                               "memtrace runs lists those that did, memtrace fit --run %" PRId64
                               " --device sim:24GiB tells whether this one fits another device",
                               question->run->id);
    if (status != MT_OK)
        return status;
    out->limit_bytes = out->oom.replayed.capacity_bytes;
    status = simulate(out);
    if (status == MT_OK)
        add_replayed(out);
    return status;
}

void mt_oom_answer_release(struct mt_oom_answer *answer)
{
    mt_oom_release(&answer->oom);
}

/* Adds the texts that the blocks of a finding have in common: "Softmax of softmax.exp at model.layers.*.attn". */
static void add_blocks(const struct mt_finding *finding, struct mt_text *out)
{
    bool has_category = finding->category[0] != '\0', has_op = finding->op[0] != '\0';
    mt_text_add(out, "%s", has_category ? finding->category : finding->role);
    if (has_category && !has_op)
        mt_text_add(out, " %s", finding->role);
    if (has_op)
        mt_text_add(out, " of %s", finding->op);
    if (finding->place[0] != '\0')
        mt_text_add(out, " at %s", finding->place);
}

static void add_pattern(const struct mt_finding *finding, struct mt_text *out)
{
    static const char *const mended[MT_PATTERN_COUNT] = {[MT_PATTERN_KEPT_GRADIENTS] = "gone before forward",
                                                         [MT_PATTERN_LATE_FREE] = "freed after the last use",
                                                         [MT_PATTERN_EARLY_ALLOCATION] = "allocated at the first use",
                                                         [MT_PATTERN_IDLE] = "not kept while idle",
                                                         [MT_PATTERN_NEVER_USED] = "not allocated",
                                                         [MT_PATTERN_DEAD_WRITE] = "not written",
                                                         [MT_PATTERN_TWO_PRECISIONS] = "made again when needed",
                                                         [MT_PATTERN_LEAK] = "not left behind by steps",
                                                         [MT_PATTERN_FRAGMENTATION] = ""};
    char size[MT_BYTES_TEXT];
    add_blocks(finding, out);
    mt_text_add(out, " (%s) %s", mt_format_bytes(finding->bytes, size), mended[finding->pattern]);
}

static void add_replayed_words(const struct mt_replayed_change *replayed, struct mt_text *out)
{
    if (replayed->kind == MT_REPLAYED_POLICY)
        mt_text_add(out, "--alloc policy=%s", mt_policy_name(replayed->policy));
    else if (replayed->kind == MT_REPLAYED_USED_ONLY)
        mt_text_add(out, "every block from its first to its last use only");
    else
        add_pattern(&replayed->finding, out);
}

void mt_oom_change_add(const struct mt_oom_change *change, struct mt_text *out)
{
    if (change->proof == MT_PROOF_SIMULATION)
        mt_fit_remedy_add_changes(&change->remedy, out);
    else
        add_replayed_words(&change->replayed, out);
}

void mt_oom_change_add_way(const struct mt_oom_change *change, struct mt_text *out)
{
    if (change->proof == MT_PROOF_SIMULATION)
        mt_run_command_add(&change->remedy.plan, out);
    else if (change->replayed.kind == MT_REPLAYED_PATTERN)
        mt_text_add(out, "%s", mt_hint_words(mt_finding_hint(&change->replayed.finding)));
    else if (change->replayed.kind == MT_REPLAYED_USED_ONLY)
        mt_text_add(out, "free at the last use and allocate at the first: memtrace advise tells where that saves most");
    else
        mt_text_add(
            out, "%s",
            mt_hint_words(change->replayed.policy == MT_POLICY_TIGHT ? MT_HINT_POLICY_TIGHT : MT_HINT_POLICY_TORCH));
}
