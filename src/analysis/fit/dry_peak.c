#include "analysis/fit/dry_peak.h"

#include "analysis/fit/dry_fit.h"
#include "base/memory.h"
#include "run/process_trace.h"

#include <stdlib.h>

/* A process's memory on a card. */
struct process {
    struct mt_dry_peak need;
    int64_t node, card; /* -1: unknown */
};

struct processes {
    struct process *items; /* an array for MT_HOST_ADD */
    size_t count;
};

static uint64_t needed_bytes(const struct mt_dry_peak *peak)
{
    return peak->peak.reserved_bytes + peak->counted.reserve_bytes;
}

/* ---- reading ---- */

/* Finds the number of the run's card on its host; -1: unknown. */
static mt_status find_card(const struct mt_question *run, int64_t *out)
{
    struct mt_setting_row *rows;
    size_t count;
    MT_TRY(mt_trace_settings(run->trace, run->run, &rows, &count));
    const char *number = mt_setting_find(rows, count, MT_CARD_NUMBER_SETTING);
    *out = number[0] != '\0' ? strtoll(number, NULL, 10) : -1;
    free(rows);
    return MT_OK;
}

static mt_status read_process(const struct mt_question *run, const struct mt_fit_device *device, struct process *out)
{
    struct mt_dry_peak *need = &out->need;
    *need = (struct mt_dry_peak){.counted = *device, .rank = run->run->rank, .sharers = 1};
    out->node = run->run->local_rank >= 0 ? run->run->rank - run->run->local_rank : -1;
    MT_TRY(find_card(run, &out->card));
    MT_TRY(mt_fit_device_count_outside(&need->counted, run->trace, run->run));
    return mt_dry_run_peak(run, need->counted.memory_bytes - need->counted.reserve_bytes, &need->peak);
}

/* True if both processes are ranks of one node that use the same card. */
static bool share_card(const struct process *a, const struct process *b)
{
    return a->need.rank >= 0 && b->need.rank >= 0 && a->card >= 0 && a->card == b->card && a->node == b->node;
}

/* Adds a process. If a rank has several on one card, such as consecutive runs, the one that needs most counts. */
static void add_process(struct processes *all, const struct process *added)
{
    for (size_t i = 0; i < all->count; i++) {
        struct process *other = &all->items[i];
        if (other->need.rank != added->need.rank || !share_card(other, added))
            continue;
        const bool fits = other->need.peak.fits && added->need.peak.fits;
        if (needed_bytes(&added->need) > needed_bytes(&other->need))
            *other = *added;
        other->need.peak.fits = fits;
        return;
    }
    *MT_HOST_ADD(all->items, all->count) = *added;
}

static mt_status add_run(const struct mt_record_answer *answer, const struct mt_fit_device *device,
                         struct processes *all)
{
    struct mt_question run = {0};
    struct process added;
    MT_TRY(mt_trace_open(answer->text, &run.trace));
    mt_status status = mt_trace_find_numbered(run.trace, answer->number, &run.run);
    MT_THEN(status, read_process(&run, device, &added));
    if (status == MT_OK)
        add_process(all, &added);
    mt_trace_close(run.trace);
    return status;
}

static mt_status read_processes(const struct mt_program_outcome *outcome, const struct mt_fit_device *device,
                                struct processes *out)
{
    for (size_t i = 0; i < outcome->count; i++)
        if (outcome->answers[i].kind == MT_RECORD_RUN)
            MT_TRY(add_run(&outcome->answers[i], device, out));
    if (out->count > 0)
        return MT_OK;
    return mt_fail(MT_NO_DRY_RUN, "the program allocated nothing on a card with PyTorch, so there is nothing to fit");
}

/* ---- cards ---- */

/* Adds another rank's memory on the card. A requested reserve belongs to the card, and is not added again. */
static void add_sharer(const struct mt_dry_peak *other, struct mt_dry_peak *sum)
{
    struct mt_fit_device *counted = &sum->counted;
    sum->peak.requested_bytes += other->peak.requested_bytes;
    sum->peak.allocated_bytes += other->peak.allocated_bytes;
    sum->peak.reserved_bytes += other->peak.reserved_bytes;
    if (counted->asked_reserve_bytes == MT_RESERVE_UNSET)
        counted->reserve_bytes += other->counted.reserve_bytes;
    if (counted->reserve_bytes > counted->memory_bytes) { /* contexts alone fill the card */
        sum->peak.reserved_bytes += counted->reserve_bytes - counted->memory_bytes;
        counted->reserve_bytes = counted->memory_bytes;
    }
    sum->sharers++;
}

/* Returns the total needs of all processes on the card of one process. */
static struct mt_dry_peak add_up_card(const struct processes *all, size_t place)
{
    struct mt_dry_peak sum = all->items[place].need;
    for (size_t i = 0; i < all->count; i++)
        if (i != place && share_card(&all->items[i], &all->items[place]))
            add_sharer(&all->items[i].need, &sum);
    if (sum.sharers > 1)
        sum.peak.fits = needed_bytes(&sum) <= sum.counted.memory_bytes;
    return sum;
}

/* True if no earlier process has the same rank. */
static bool is_first_of_rank(const struct processes *all, size_t place)
{
    for (size_t i = 0; i < place; i++)
        if (all->items[i].need.rank == all->items[place].need.rank)
            return false;
    return all->items[place].need.rank >= 0;
}

/* Returns the needs of the card on which most memory is needed. */
static struct mt_dry_peak find_fullest(const struct processes *all)
{
    struct mt_dry_peak fullest = {0};
    uint64_t own_bytes = 0;
    int64_t cards = 0, ranks = 0;
    bool fits = true;
    for (size_t i = 0; i < all->count; i++) {
        const struct mt_dry_peak sum = add_up_card(all, i);
        const uint64_t own = needed_bytes(&all->items[i].need), bytes = needed_bytes(&sum),
                       most = needed_bytes(&fullest);
        fits = fits && sum.peak.fits;
        cards = all->items[i].card >= cards ? all->items[i].card + 1 : cards;
        ranks += is_first_of_rank(all, i);
        if (i > 0 && (bytes < most || (bytes == most && own <= own_bytes)))
            continue;
        fullest = sum;
        own_bytes = own;
    }
    fullest.peak.fits = fits;
    fullest.cards = cards;
    fullest.ranks = ranks;
    return fullest;
}

mt_status mt_dry_peak_find(const struct mt_program_outcome *outcome, const struct mt_fit_device *device,
                           struct mt_dry_peak *out)
{
    struct processes all = {0};
    mt_status status = read_processes(outcome, device, &all);
    if (status == MT_OK)
        *out = find_fullest(&all);
    free(all.items);
    return status;
}

mt_status mt_dry_outcome_is_out(const struct mt_program_outcome *outcome, bool *out)
{
    *out = false;
    for (size_t i = 0; i < outcome->count && !*out; i++) {
        struct mt_question run = {0};
        if (outcome->answers[i].kind != MT_RECORD_RUN)
            continue;
        MT_TRY(mt_trace_open(outcome->answers[i].text, &run.trace));
        mt_status status = mt_trace_find_numbered(run.trace, outcome->answers[i].number, &run.run);
        *out = status == MT_OK && mt_run_is(run.run, MT_RUN_OOM);
        mt_trace_close(run.trace);
        MT_TRY(status);
    }
    return MT_OK;
}
