#include "analysis/fit/card_need.h"

#include "base/memory.h"
#include "producers/program/dry_tasks.h"
#include "producers/program/rank_program.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the dry runs ---- */

/* Finds the numbers of nodes and of cards per node from the command line: the cards that it names, or one per rank. */
static mt_status find_cards(const struct mt_dry_options *program, struct mt_program_need *out)
{
    struct mt_rank_program ranks;
    mt_status status = mt_rank_program_read(program->words, program->ranks, program->cards, &ranks);
    const int64_t processes = ranks.per_node > 0 ? ranks.per_node : 1;
    const int64_t seen = program->cards > 0 ? program->cards : ranks.cards;
    out->nodes = ranks.ranks > 0 ? ranks.ranks / ranks.per_node : 1;
    out->has_cards = seen > 0;
    if (!out->has_cards)
        out->per_node = processes;
    else
        out->per_node = ranks.launch.cards_are_own && program->cards == 0 ? processes * seen : seen;
    mt_rank_program_release(&ranks);
    return status;
}

/* Creates the dry run of a program, with a folder for its trace. */
static mt_status make_task(const struct mt_dry_options *program, const char *device, struct mt_program_need *need,
                           struct mt_text *trace, struct mt_dry_task *task)
{
    need->program = program;
    MT_TRY(mt_dry_options_check(program, device));
    MT_TRY(find_cards(program, need));
    MT_TRY(mt_job_folder_make(&need->folder));
    mt_text_add(trace, "%s/need.db", need->folder.path);
    task->child = (struct mt_dry_child){.options = program, .device = device, .trace = trace->data};
    task->words = program->words;
    task->output = MT_KEEP_OUTPUT;
    return MT_OK;
}

/* Keeps the first failure to start a program, and stops the others. `context` is a struct mt_error. */
static void end_task(void *context, struct mt_dry_task *task)
{
    struct mt_error *error = context;
    mt_status status = task->status == MT_FAILED ? mt_fail(MT_NO_DRY_RUN, "%s", mt_last_error()) : task->status;
    if (status != MT_OK && error->status == MT_OK)
        *error = mt_error_save(status);
    task->ends_all = status != MT_OK;
}

static mt_status run_tasks(struct mt_dry_task *tasks, struct mt_card_need *need)
{
    struct mt_error error = {0};
    mt_status status = mt_dry_tasks_run(tasks, need->count, need->programs[0].program->jobs, end_task, &error);
    for (size_t i = 0; i < need->count; i++)
        need->programs[i].outcome = tasks[i].outcome;
    return mt_error_restore(&error, status);
}

static mt_status run_programs(const struct mt_dry_options *programs, const char *device, struct mt_card_need *need)
{
    struct mt_dry_task *tasks = mt_host_alloc(need->count * sizeof *tasks);
    struct mt_text *traces = mt_host_alloc(need->count * sizeof *traces);
    mt_status status = MT_OK;
    for (size_t i = 0; i < need->count; i++)
        MT_THEN(status, make_task(&programs[i], device, &need->programs[i], &traces[i], &tasks[i]));
    MT_THEN(status, run_tasks(tasks, need));
    for (size_t i = 0; i < need->count; i++)
        mt_text_release(&traces[i]);
    free(traces);
    free(tasks);
    return status;
}

/* ---- the sum ---- */

static mt_status fail_program(const struct mt_program_outcome *outcome)
{
    struct mt_text words = {0};
    const int signal = mt_program_outcome_killed_by(outcome);
    if (mt_program_outcome_is_interrupted(outcome))
        return mt_fail(MT_FAILED, "interrupted");
    if (signal != 0)
        return mt_fail(MT_FAILED, "there is no answer: the dry run was killed by signal %d", signal);
    mt_program_outcome_add_failure(outcome, &words);
    mt_fail(MT_FAILED, "the program fails: %s", mt_text_get(&words));
    mt_text_release(&words);
    return MT_FAILED;
}

/* Counts the cards in use, unless the command line names their number, or some ranks were not run. */
static void count_used_cards(struct mt_program_need *need)
{
    const bool has_all_ranks = need->outcome.ranks == need->peak.ranks || !need->outcome.is_many;
    if (!need->has_cards && has_all_ranks && need->peak.cards > 0)
        need->per_node = need->peak.cards;
}

/* Reads a program's needs from the traces of its processes. */
static mt_status measure(struct mt_program_need *need, const struct mt_fit_device *device)
{
    if (need->outcome.code != 0) {
        MT_TRY(mt_dry_outcome_is_out(&need->outcome, &need->is_too_large));
        need->peak.rank = -1;
        return need->is_too_large ? MT_OK : fail_program(&need->outcome);
    }
    MT_TRY(mt_dry_peak_find(&need->outcome, device, &need->peak));
    if (device->asked_reserve_bytes == MT_RESERVE_UNSET)
        need->outside_bytes = need->peak.counted.reserve_bytes;
    need->bytes = need->peak.peak.reserved_bytes + need->outside_bytes;
    count_used_cards(need);
    return MT_OK;
}

/* True if a needs more than b. */
static bool is_larger(const struct mt_program_need *a, const struct mt_program_need *b)
{
    return a->is_too_large != b->is_too_large ? a->is_too_large : a->bytes > b->bytes;
}

/* Sums the needs of all programs, and compares the sum with the card. */
static void add_up(const struct mt_fit_device *device, uint64_t limit_bytes, struct mt_card_need *need)
{
    bool is_too_large = false;
    const struct mt_program_need *programs = need->programs;
    need->memory_bytes = limit_bytes > 0 && limit_bytes < device->memory_bytes ? limit_bytes : device->memory_bytes;
    need->outside_bytes = device->asked_reserve_bytes != MT_RESERVE_UNSET ? device->asked_reserve_bytes : 0;
    need->bytes = need->outside_bytes;
    for (size_t i = 0; i < need->count; i++) {
        is_too_large |= programs[i].is_too_large;
        need->bytes += programs[i].bytes;
        need->outside_bytes += programs[i].outside_bytes;
        if (is_larger(&programs[i], &programs[need->largest]))
            need->largest = i;
    }
    const bool has_room = need->bytes <= need->memory_bytes;
    need->fits_by_reuse = !is_too_large && !has_room && need->count == 1 &&
                          need->memory_bytes == device->memory_bytes && programs[0].peak.peak.fits;
    need->fits = !is_too_large && (has_room || need->fits_by_reuse);
}

mt_status mt_card_need_find(const struct mt_dry_options *programs, size_t count, const struct mt_fit_device *device,
                            uint64_t limit_bytes, struct mt_card_need *out)
{
    char roomy[MT_DEVICE_NAME];
    assert(count > 0 && count <= MT_MOST_PROGRAMS);
    *out = (struct mt_card_need){.programs = mt_host_alloc(count * sizeof *out->programs), .count = count};
    MT_TRY(mt_fit_device_spell_roomy(device, roomy));
    MT_TRY(run_programs(programs, roomy, out));
    for (size_t i = 0; i < count; i++)
        MT_TRY(measure(&out->programs[i], device));
    add_up(device, limit_bytes, out);
    return MT_OK;
}

void mt_card_need_release(struct mt_card_need *need)
{
    for (size_t i = 0; i < need->count; i++) {
        mt_program_outcome_release(&need->programs[i].outcome);
        mt_job_folder_remove(&need->programs[i].folder);
    }
    free(need->programs);
    *need = (struct mt_card_need){0};
}
