#include "cli/explain/oom_answer.h"

#include "analysis/run_settings.h"
#include "base/memory.h"
#include "cli/run/fit_report.h"
#include "cli/run/run_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *mt_oom_proof_name(mt_oom_proof proof)
{
    return proof == MT_PROOF_SIMULATION ? "simulation" : "replay";
}

uint64_t mt_oom_answer_left(const struct mt_oom_answer *answer)
{
    const struct mt_refusal *refusal = &answer->refusal;
    return refusal->capacity_bytes > refusal->reserved_bytes ? refusal->capacity_bytes - refusal->reserved_bytes : 0;
}

/* The event of the last refusal in the last `extent` events of the run; 0: there is none. */
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

/* A refusal is near the end of a run, as a rule: so the end is looked at first. */
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
    return mt_fail(MT_USAGE,
                   "run %" PRId64 " did not run out of memory (its state is %s): memtrace runs lists those that did, "
                   "memtrace fit --run %" PRId64 " --device sim:24GiB tells whether this one fits another device",
                   run->id, run->state, run->id);
}

/* The number of the step that the window ends in. */
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
    if (a->allocated_bytes != b->allocated_bytes)
        return a->allocated_bytes < b->allocated_bytes ? 1 : -1;
    return compare_kinds(left, right);
}

/* Makes one of those that are of one kind, drops those of no block, and orders the rest. */
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

/* A share for each label, of what is live of it at the window's end. */
static struct mt_oom_shares share_labels(const struct mt_advice_input *input)
{
    struct mt_oom_shares shares = {mt_host_alloc((input->label_count + 1) * sizeof *shares.items), input->label_count};
    for (size_t i = 0; i < input->label_count; i++)
        shares.items[i] = (struct mt_oom_share){.category = input->labels[i].category, .place = input->labels[i].place};
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
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
    answer->places = share_labels(&answer->material.input);
    answer->categories = share_labels(&answer->material.input);
    for (size_t i = 0; i < answer->categories.count; i++)
        answer->categories.items[i].place = "";
    merge_shares(&answer->places);
    merge_shares(&answer->categories);
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

/* The other policy, where it is not one of the changes that are tried anyway. */
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

/* What a simulation has answered for the whole run needs no replay. */
static bool is_settled(const struct mt_oom_answer *answer, const struct mt_relief *relief)
{
    if (!answer->is_simulated)
        return false;
    return relief->kind == MT_RELIEF_POLICY ||
           (relief->kind == MT_RELIEF_PATTERN && relief->finding.pattern == MT_PATTERN_KEPT_GRADIENTS);
}

/* Freeing everything at its last use is told where nothing less would do. */
static void add_reliefs(struct mt_oom_answer *answer)
{
    size_t room = answer->change_count > 1 ? 1 : MT_MOST_OOM_SIMULATED - answer->change_count;
    for (size_t i = 0; i < answer->reliefs.count && room > 0; i++) {
        const struct mt_relief *relief = &answer->reliefs.items[i];
        const struct mt_oom_change change = {
            .proof = MT_PROOF_REPLAY, .relief = *relief, .reserved_bytes = relief->replay.reserved_bytes};
        if (is_settled(answer, relief) || (relief->kind == MT_RELIEF_USED_ONLY && answer->change_count > 0))
            continue;
        add_change(answer, &change);
        room--;
    }
}

static mt_status load_refusal(struct mt_oom_answer *answer)
{
    enum { MOST_PATTERNS = 12 };
    int64_t event;
    const struct mt_question *question = answer->question;
    mt_status status = find_refusal(question, &event);
    if (status == MT_OK && event == 0)
        return fail_without_refusal(question->run);
    if (status == MT_OK)
        status = mt_advice_material_load_until(question, event, &answer->material);
    if (status == MT_OK)
        status = mt_refusal_create(&answer->material.input, &answer->refusal);
    if (status == MT_OK)
        status = mt_reliefs_create(&answer->material.input, &answer->refusal, MOST_PATTERNS, &answer->reliefs);
    return status;
}

mt_status mt_oom_answer_load(const struct mt_question *question, struct mt_oom_answer *out)
{
    *out = (struct mt_oom_answer){.question = question};
    mt_status status = load_refusal(out);
    if (status != MT_OK)
        return status;
    out->step = step_at_end(&out->material.input);
    out->limit_bytes = out->reliefs.capacity_bytes;
    find_shares(out);
    status = simulate(out);
    if (status == MT_OK)
        add_reliefs(out);
    return status;
}

void mt_oom_answer_release(struct mt_oom_answer *answer)
{
    mt_reliefs_release(&answer->reliefs);
    mt_refusal_release(&answer->refusal);
    mt_advice_material_release(&answer->material);
    free(answer->categories.items);
    free(answer->places.items);
}

/* "Softmax of softmax.exp at model.layers.*.attn": what the blocks of a pattern have in common. */
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

static void add_relief(const struct mt_relief *relief, struct mt_text *out)
{
    if (relief->kind == MT_RELIEF_POLICY)
        mt_text_add(out, "--alloc policy=%s", mt_policy_name(relief->policy));
    else if (relief->kind == MT_RELIEF_USED_ONLY)
        mt_text_add(out, "every block from its first to its last use only");
    else
        add_pattern(&relief->finding, out);
}

void mt_oom_change_add(const struct mt_oom_change *change, struct mt_text *out)
{
    if (change->proof == MT_PROOF_SIMULATION)
        mt_fit_remedy_add_changes(&change->remedy, out);
    else
        add_relief(&change->relief, out);
}

void mt_oom_change_add_way(const struct mt_oom_change *change, struct mt_text *out)
{
    if (change->proof == MT_PROOF_SIMULATION)
        mt_run_command_add(&change->remedy.plan, out);
    else if (change->relief.kind == MT_RELIEF_PATTERN)
        mt_text_add(out, "%s", mt_finding_hint(&change->relief.finding));
    else if (change->relief.kind == MT_RELIEF_USED_ONLY)
        mt_text_add(out, "free at the last use and allocate at the first: memtrace advise tells where that saves most");
    else if (change->relief.policy == MT_POLICY_TIGHT)
        mt_text_add(out, "memtrace run --alloc policy=tight; in PyTorch, "
                         "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    else
        mt_text_add(out, "memtrace run --alloc policy=torch");
}
