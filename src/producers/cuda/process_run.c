#include "producers/cuda/process_run.h"

#include "base/memory.h"

#include <assert.h>

struct mt_process_run {
    struct mt_record_request request; /* of it, the file for answers and watches_kernels count */
    struct mt_live_run *live;
    struct mt_account *account;
};

static struct mt_process_run *begin(const struct mt_record_request *request, struct mt_live_run *live,
                                    char *(*spell)(const char *name))
{
    struct mt_process_run *run = mt_host_alloc(sizeof *run);
    const struct mt_account_settings settings = {.step = request->step, .device = request->device, .spell = spell};
    run->request = (struct mt_record_request){.answers = mt_host_strdup(request->answers),
                                              .watches_kernels = request->watches_kernels};
    run->live = live;
    run->account = mt_account_create(mt_live_run_sink(live), &settings);
    return run;
}

mt_status mt_process_run_open(const struct mt_record_request *request, const struct mt_process_card *card,
                              char *(*spell)(const char *name), struct mt_process_run **out)
{
    struct mt_live_run *live;
    MT_TRY(mt_process_trace_open(request, card, request->watches_kernels ? "memory, kernels" : "memory",
                                 MT_LIVE_ONE_THREAD, &live));
    *out = begin(request, live, spell);
    return MT_OK;
}

struct mt_account *mt_process_run_account(struct mt_process_run *run)
{
    return run->account;
}

uint64_t mt_process_run_now_ns(const struct mt_process_run *run)
{
    return mt_live_run_now_ns(run->live);
}

static void answer_lost(const struct mt_process_run *run, uint64_t count, const char *what)
{
    if (count > 0)
        mt_process_answer(&run->request, MT_RECORD_LOST, (int64_t)count, what);
}

static mt_run_state end_state(const struct mt_account_counts *counts, int exit_code)
{
    if (exit_code == 0)
        return MT_RUN_DONE;
    return counts->refused > 0 ? MT_RUN_OOM : MT_RUN_FAILED;
}

mt_status mt_process_run_close(struct mt_process_run *run, int exit_code, uint64_t lost_records)
{
    const struct mt_account_counts counts = mt_account_counts(run->account);
    assert(mt_live_run_is_traced(run->live));
    answer_lost(run, lost_records, "records of CUPTI");
    answer_lost(run, counts.doubtful, "allocations that CUPTI records and no call tells of");
    if (run->request.watches_kernels)
        mt_live_run_measure(run->live, MT_LOST_KERNELS, -1, (double)lost_records);
    mt_live_run_measure(run->live, "records:told", -1, (double)counts.matched_records);
    mt_live_run_measure(run->live, "records:filled_in", -1, (double)counts.filled_records);
    mt_status status = mt_live_run_end_trace(run->live, end_state(&counts, exit_code));
    if (status != MT_OK)
        mt_process_answer(&run->request, MT_RECORD_NOTE, 0, mt_last_error());
    return status;
}

void mt_process_run_disown(struct mt_process_run *run)
{
    mt_live_run_disown(run->live);
}
