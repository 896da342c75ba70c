/* Loads a run up to its last refused request, sums the live blocks at that time, and tries changes. */
#include "analysis/oom/oom.h"

#include "analysis/advise/observe.h"
#include "analysis/run_settings.h"
#include "analysis/traced_card.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds the last refusal in the last `extent` events of the run; 0 if there is none. */
static mt_status find_refusal_in(const struct mt_question *question, int64_t extent, int64_t *out_event)
{
    const struct mt_run *run = question->run;
    int64_t last = run->first_event + run->event_count - 1;
    struct mt_mark_row *marks;
    size_t count;
    mt_status status = mt_trace_marks(question->trace, run, last - extent + 1, last, &marks, &count);
    *out_event = 0;
    for (size_t i = count; i-- > 0 && *out_event == 0;)
        if (marks[i].kind == MT_EVENT_OOM)
            *out_event = marks[i].event;
    free(marks);
    return status;
}

/* Finds the last refusal of the run; 0 if there is none. It is usually near the end, so the end is read first. */
static mt_status find_refusal(const struct mt_question *question, int64_t *out_event)
{
    enum { FIRST_EXTENT = 1 << 16, GROWTH = 16 };
    const struct mt_run *run = question->run;
    mt_status status = MT_OK;
    *out_event = 0;
    for (int64_t extent = FIRST_EXTENT; status == MT_OK && *out_event == 0; extent *= GROWTH) {
        bool is_all = extent >= run->event_count;
        status = find_refusal_in(question, is_all ? run->event_count : extent, out_event);
        if (is_all)
            break;
    }
    return status;
}

static mt_status fail_without_refusal(const struct mt_run *run)
{
    if (mt_run_is(run, MT_RUN_OOM))
        return mt_fail(MT_USAGE, "run %" PRId64 " ran out of memory, but the event that says so is not in the trace",
                       run->id);
    return mt_fail(MT_USAGE, "run %" PRId64 " did not run out of memory (its state is %s)", run->id, run->state);
}

/* Returns the number of the step in which the window ends; MT_NO_STEP if it ends between steps. */
static int64_t step_at_end(const struct mt_advice_input *input)
{
    for (size_t i = input->mark_count; i-- > 0;) {
        if (input->marks[i].kind == MT_EVENT_STEP_BEGIN)
            return (int64_t)input->marks[i].value;
        if (input->marks[i].kind == MT_EVENT_STEP_END)
            break;
    }
    return MT_NO_STEP;
}

static int compare_kinds(const void *left, const void *right)
{
    const struct mt_oom_share *a = left, *b = right;
    int order = strcmp(a->category, b->category);
    return order != 0 ? order : strcmp(a->place, b->place);
}

static int compare_shares(const void *left, const void *right)
{
    const struct mt_oom_share *a = left, *b = right;
    int order = MT_COMPARE(b->allocated_bytes, a->allocated_bytes);
    return order != 0 ? order : compare_kinds(left, right);
}

/* Merges shares of one kind, drops those without blocks, and sorts the rest. */
static void merge_shares(struct mt_oom_shares *shares)
{
    size_t count = 0;
    qsort(shares->items, shares->count, sizeof *shares->items, compare_kinds);
    for (size_t i = 0; i < shares->count; i++) {
        const struct mt_oom_share *share = &shares->items[i];
        struct mt_oom_share *last = count > 0 ? &shares->items[count - 1] : NULL;
        if (share->blocks == 0)
            continue;
        if (last == NULL || compare_kinds(last, share) != 0) {
            shares->items[count++] = *share;
            continue;
        }
        last->allocated_bytes += share->allocated_bytes;
        last->requested_bytes += share->requested_bytes;
        last->blocks += share->blocks;
    }
    shares->count = count;
    qsort(shares->items, shares->count, sizeof *shares->items, compare_shares);
}

/* Returns a share for each label, with its live blocks at the window's end. */
static struct mt_oom_shares share_labels(const struct mt_advice_input *input)
{
    struct mt_oom_shares shares = {mt_host_alloc((input->label_count + 1) * sizeof *shares.items), input->label_count};
    for (size_t i = 0; i < input->label_count; i++)
        shares.items[i] = (struct mt_oom_share){.category = input->labels[i].category, .place = input->labels[i].place};
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        assert(block->label < input->label_count);
        if (block->free_event != 0)
            continue;
        shares.items[block->label].allocated_bytes += block->block_bytes;
        shares.items[block->label].requested_bytes += block->requested_bytes;
        shares.items[block->label].blocks++;
    }
    return shares;
}

static void find_shares(struct mt_oom_answer *answer)
{
    const struct mt_advice_input *input = &answer->material.input;
    answer->places = share_labels(input);
    answer->categories = share_labels(input);
    answer->roles = share_labels(input);
    for (size_t i = 0; i < answer->roles.count; i++) {
        answer->roles.items[i].category = input->labels[i].role;
        answer->roles.items[i].place = "";
    }
    for (size_t i = 0; i < answer->categories.count; i++)
        answer->categories.items[i].place = "";
    merge_shares(&answer->roles);
    merge_shares(&answer->places);
    merge_shares(&answer->categories);
}

const char *mt_oom_proof_name(mt_oom_proof proof)
{
    assert(proof == MT_PROOF_SIMULATION || proof == MT_PROOF_REPLAY);
    return proof == MT_PROOF_SIMULATION ? "simulation" : "replay";
}

static void add_change(struct mt_oom_answer *answer, const struct mt_oom_change *change)
{
    assert(change->reserved_bytes <= answer->limit_bytes);
    if (answer->change_count < MT_MOST_OOM_CHANGES)
        answer->changes[answer->change_count++] = *change;
}

/* Adds the remedies that fit while there is room. */
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

/* Plans the unchanged run on a simulated device with the memory that was available to it. */
static mt_status plan_simulation(struct mt_oom_answer *answer, struct mt_run_plan *plan)
{
    const struct mt_run *run = answer->question->run;
    mt_status status = mt_run_plan_of_run(answer->question->trace, run, plan);
    snprintf(answer->device, sizeof answer->device, "%.*s", (int)strcspn(run->device, " "), run->device);
    if (status != MT_OK)
        return status == MT_USAGE ? MT_OK : status;
    struct mt_traced_card traced;
    MT_TRY(mt_traced_card_find(answer->question->trace, run, &traced));
    plan->card = mt_traced_card_with(&traced, answer->limit_bytes, &answer->card);
    mt_device_spell_simulated(&traced.card, answer->limit_bytes, answer->simulated_device);
    if (traced.is_spelled && strlen(run->device) < sizeof answer->device && answer->limit_bytes == run->capacity_bytes)
        strcpy(answer->simulated_device, answer->device);
    plan->device = answer->simulated_device;
    answer->is_ours = true;
    return MT_OK;
}

/* Tries the other policy, which is not one of the usual changes. */
static mt_status simulate_torch(struct mt_oom_answer *answer, const struct mt_run_plan *plan)
{
    struct mt_fit_remedy remedy = {.plan = *plan};
    struct mt_simulation simulation;
    remedy.plan.alloc = mt_alloc_settings_of(MT_POLICY_TORCH);
    MT_TRY(mt_simulate(&remedy.plan, &simulation));
    remedy.changes.has[MT_SETTING_ALLOC] = true;
    remedy.fit = (struct mt_fit){.fits = simulation.fits,
                                 .capacity_bytes = simulation.capacity_bytes,
                                 .reserved_bytes = simulation.peak_reserved_bytes};
    add_remedies(answer, &remedy, 1);
    return MT_OK;
}

/* Adds simulated changes, cheapest first: gradients cleared early, the policy, and the others. */
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

/* If the run can be repeated, simulates it. If that also runs out of memory, simulates it with changes. */
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

/* True if a simulation of the whole run already tried the change. */
static bool is_settled(const struct mt_oom_answer *answer, const struct mt_replayed_change *replayed)
{
    if (!answer->is_simulated)
        return false;
    return replayed->kind == MT_REPLAYED_POLICY ||
           (replayed->kind == MT_REPLAYED_PATTERN && mt_finding_is_optional(&replayed->finding));
}

/* Adds replayed changes. Freeing everything at its last use is added only if nothing else suffices. */
static void add_replayed(struct mt_oom_answer *answer)
{
    size_t room = answer->change_count > 1 ? 1 : MT_MOST_OOM_SIMULATED - answer->change_count;
    if (!answer->is_ours)
        room = MT_MOST_OOM_REPLAYED;
    for (size_t i = 0; i < answer->replayed.count && room > 0; i++) {
        const struct mt_replayed_change *replayed = &answer->replayed.items[i];
        const struct mt_oom_change change = {
            .proof = MT_PROOF_REPLAY, .replayed = *replayed, .reserved_bytes = replayed->replay.reserved_bytes};
        if (is_settled(answer, replayed) || (replayed->kind == MT_REPLAYED_USED_ONLY && answer->change_count > 0))
            continue;
        add_change(answer, &change);
        room--;
    }
}

/* Sets the device's free memory at the refusal, if the run measured it. A damaged trace may contain any value. */
static mt_status load_free(struct mt_oom_answer *answer)
{
    static const double MOST_BYTES = (double)(UINT64_C(1) << 53);
    struct mt_measurement_row *rows;
    size_t count;
    mt_status status =
        mt_trace_measurements(answer->question->trace, answer->question->run, MT_FREE_AT_REFUSAL, &rows, &count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].value >= 0 && rows[i].value <= MOST_BYTES)
            mt_refusal_set_free(&answer->refusal, (uint64_t)rows[i].value);
    free(rows);
    return status;
}

mt_status mt_oom_answer_load_refusal(const struct mt_question *question, struct mt_oom_answer *out)
{
    *out = (struct mt_oom_answer){.question = question};
    MT_TRY(find_refusal(question, &out->event));
    if (out->event == 0)
        return fail_without_refusal(question->run);
    MT_TRY(mt_advice_material_load_until(question, out->event, &out->material));
    MT_TRY(mt_refusal_create(&out->material.input, &out->refusal));
    out->step = step_at_end(&out->material.input);
    return load_free(out);
}

mt_status mt_oom_answer_load(const struct mt_question *question, struct mt_oom_answer *out)
{
    enum { MOST_FINDINGS = 12 };
    MT_TRY(mt_oom_answer_load_refusal(question, out));
    MT_TRY(mt_replayed_changes_create(&out->material.input, &out->refusal, MOST_FINDINGS, &out->replayed));
    out->limit_bytes = out->replayed.capacity_bytes;
    find_shares(out);
    if (out->material.input.program.kind != MT_PROGRAM_MODEL)
        MT_TRY(mt_observations_load(question, &out->observations));
    mt_status status = simulate(out);
    if (status == MT_OK)
        add_replayed(out);
    return status;
}

void mt_oom_answer_release(struct mt_oom_answer *answer)
{
    mt_observations_release(&answer->observations);
    mt_replayed_changes_release(&answer->replayed);
    mt_refusal_release(&answer->refusal);
    mt_advice_material_release(&answer->material);
    free(answer->roles.items);
    free(answer->categories.items);
    free(answer->places.items);
}
