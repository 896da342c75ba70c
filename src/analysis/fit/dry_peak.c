#include "analysis/fit/dry_peak.h"

#include "analysis/fit/dry_fit.h"

static uint64_t needed_bytes(const struct mt_dry_peak *peak)
{
    return peak->peak.reserved_bytes + peak->counted.reserve_bytes;
}

/* Adds a process. `is_first`: there was none before. */
static mt_status add_process(const struct mt_question *run, const struct mt_fit_device *device, bool is_first,
                             struct mt_dry_peak *out)
{
    struct mt_dry_peak added = {.counted = *device, .rank = run->run->rank};
    MT_TRY(mt_fit_device_count_outside(&added.counted, run->trace, run->run));
    MT_TRY(mt_dry_run_peak(run, added.counted.memory_bytes - added.counted.reserve_bytes, &added.peak));
    const bool fits = added.peak.fits && (is_first || out->peak.fits);
    if (is_first || needed_bytes(&added) > needed_bytes(out))
        *out = added;
    out->peak.fits = fits;
    return MT_OK;
}

static mt_status add_run(const struct mt_record_answer *answer, const struct mt_fit_device *device, bool is_first,
                         struct mt_dry_peak *out)
{
    struct mt_question run = {0};
    MT_TRY(mt_trace_open(answer->text, &run.trace));
    mt_status status = mt_trace_find_numbered(run.trace, answer->number, &run.run);
    MT_THEN(status, add_process(&run, device, is_first, out));
    mt_trace_close(run.trace);
    return status;
}

mt_status mt_dry_peak_find(const struct mt_program_outcome *outcome, const struct mt_fit_device *device,
                           struct mt_dry_peak *out)
{
    bool is_first = true;
    for (size_t i = 0; i < outcome->count; i++) {
        if (outcome->answers[i].kind != MT_RECORD_RUN)
            continue;
        MT_TRY(add_run(&outcome->answers[i], device, is_first, out));
        is_first = false;
    }
    if (is_first)
        return mt_fail(MT_NO_DRY_RUN,
                       "the program allocated nothing on a card with PyTorch, so there is nothing to fit");
    return MT_OK;
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
