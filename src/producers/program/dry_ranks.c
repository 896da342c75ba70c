#include "producers/program/dry_ranks.h"

#include "base/memory.h"
#include "producers/program/rank_choice.h"
#include "producers/program/rank_runs.h"
#include "trace/query/trace.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_ALL = 8, MOST_RUN = 64 };

/* A rank's requests, to compare ranks. All zero: it requested no memory. */
struct print {
    double requests; /* a number that depends on all requests, in their order (python/memtrace/dry/program.py) */
    uint64_t peaks[MT_MEASURE_COUNT];
    int64_t events;
};

struct job {
    const struct mt_dry_ranks *how;
    const struct mt_rank_program *program;
    struct mt_rank_runs runs;
    struct mt_rank_choice choice;
    struct mt_program_outcome *outcome;
    struct print *prints; /* of runs[0 .. runs.started), once they have been compared */
};

/* ---- the requests of a rank ---- */

struct search {
    int64_t pid;
    struct print print;
    bool is_out_of_memory;
};

static mt_status read_print(struct mt_trace *trace, int64_t number, struct search *search)
{
    const struct mt_run *run;
    struct mt_measurement_row *rows = NULL;
    size_t count = 0;
    MT_TRY(mt_trace_find_numbered(trace, number, &run));
    search->is_out_of_memory = mt_run_is(run, MT_RUN_OOM);
    search->print.events = run->event_count;
    for (mt_measure measure = 0; measure < MT_MEASURE_COUNT; measure++)
        MT_TRY(mt_trace_peak_bytes(trace, run, measure, &search->print.peaks[measure]));
    MT_TRY(mt_trace_measurements(trace, run, "requests", &rows, &count));
    if (count > 0)
        search->print.requests = rows[count - 1].value;
    free(rows);
    return MT_OK;
}

static void look_at(void *context, const struct mt_record_answer *answer)
{
    struct search *search = context;
    struct mt_trace *trace = NULL;
    if (answer->kind != MT_RECORD_RUN || answer->pid != search->pid)
        return;
    if (mt_trace_open(answer->text, &trace) == MT_OK)
        (void)read_print(trace, answer->number, search); /* the results report a trace that can't be read */
    mt_trace_close(trace);
}

static struct search search_for(const struct job *job, int64_t pid)
{
    struct search search = {.pid = pid};
    (void)mt_record_answers_read(job->how->job->answers, look_at, &search);
    return search;
}

static void compare(struct job *job)
{
    free(job->prints);
    job->prints = mt_host_alloc((size_t)(job->runs.started + 1) * sizeof *job->prints);
    for (int64_t i = 0; i < job->runs.started; i++)
        job->prints[i] = search_for(job, job->runs.runs[i].pid).print;
}

static bool are_alike(const struct print *a, const struct print *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static const struct print *print_of(const struct job *job, int64_t rank)
{
    for (int64_t i = 0; i < job->runs.started; i++)
        if (job->runs.runs[i].rank == rank)
            return &job->prints[i];
    assert(false);
    return NULL;
}

/* ---- running ---- */

/* Continues after a rank that is out of memory, since the others may fit. */
static bool goes_on(void *context, const struct mt_rank_run *run)
{
    const struct job *job = context;
    return run->code == 0 || search_for(job, run->pid).is_out_of_memory;
}

static mt_status run_added(struct job *job)
{
    MT_TRY(mt_rank_runs_run(&job->runs, job->how->children, goes_on, job));
    compare(job);
    return MT_OK;
}

static void add(void *context, int64_t rank)
{
    struct job *job = context;
    mt_rank_runs_add(&job->runs, rank);
}

static bool is_like_first(void *context, int64_t rank)
{
    const struct job *job = context;
    return are_alike(print_of(job, 0), print_of(job, rank));
}

/* True if all added ranks ran, and none failed except out of memory. */
static bool is_whole(const struct job *job)
{
    for (int64_t i = 0; i < job->runs.started; i++)
        if (!goes_on((void *)job, &job->runs.runs[i]))
            return false;
    return job->runs.started == job->runs.count;
}

static mt_status add_stand_ins(struct job *job)
{
    for (int64_t rank = 0; rank < job->program->ranks; rank++) {
        mt_rank_runs_add(&job->runs, mt_rank_choice_stand_in(&job->choice, rank));
        if (job->runs.count > MOST_RUN)
            return mt_fail(MT_USAGE, "more than %d ranks are unlike each other: list the ranks to run", MOST_RUN);
    }
    return MT_OK;
}

/* Records which ranks stand for others, and which rank's run contradicts that. */
static void keep_choice(const struct job *job)
{
    struct mt_program_outcome *outcome = job->outcome;
    for (int64_t i = 0; i < job->runs.started; i++) {
        const int64_t rank = job->runs.runs[i].rank, other = mt_rank_choice_stand_in(&job->choice, rank);
        const bool differs = other != rank && !are_alike(print_of(job, rank), print_of(job, other));
        struct mt_rank_stand_in *row = MT_HOST_ADD(outcome->stand_ins, outcome->stand_in_count);
        *row = (struct mt_rank_stand_in){.rank = rank, .differs_from = differs ? other : -1};
        for (int64_t each = 0; each < job->program->ranks; each++)
            row->like += mt_rank_choice_stand_in(&job->choice, each) == rank;
    }
}

static mt_status run_some(struct job *job)
{
    mt_rank_choice_begin(job->program->ranks, &job->choice);
    mt_rank_choice_first(&job->choice, add, job);
    MT_TRY(run_added(job));
    if (!is_whole(job))
        return MT_OK;
    mt_rank_choice_learn(&job->choice, is_like_first, job);
    MT_TRY(add_stand_ins(job));
    MT_TRY(run_added(job));
    if (is_whole(job))
        keep_choice(job);
    return MT_OK;
}

static mt_status run_listed(struct job *job, const char *only)
{
    int64_t *ranks, count;
    MT_TRY(mt_rank_list_read(only, job->program->ranks, &ranks, &count));
    for (int64_t i = 0; i < count; i++)
        mt_rank_runs_add(&job->runs, ranks[i]);
    free(ranks);
    return run_added(job);
}

static mt_status run_all(struct job *job)
{
    for (int64_t rank = 0; rank < job->program->ranks; rank++)
        mt_rank_runs_add(&job->runs, rank);
    return run_added(job);
}

/* ---- answers ---- */

static bool is_note(const struct mt_record_answer *answer)
{
    return answer->kind == MT_RECORD_NOTE || answer->kind == MT_RECORD_LOST;
}

/* Keeps an answer. Notes of ranks are merged; notes of other processes are not. */
static void take_answer(struct job *job, const struct mt_record_answer *answer)
{
    const struct mt_rank_run *run = mt_rank_runs_find(&job->runs, (pid_t)answer->pid);
    struct mt_text words = {0};
    if (run == NULL || !is_note(answer)) {
        mt_program_outcome_keep(job->outcome, answer);
        return;
    }
    mt_program_note_add(answer, &words);
    mt_rank_notes_add(&job->outcome->notes, run->rank, mt_text_get(&words));
    mt_text_release(&words);
}

/* Takes the answers in the order of ranks, since parallel ranks answer in any order, and then the answers of other
 * processes. */
static mt_status take_answers(struct job *job)
{
    struct mt_program_outcome all = {0};
    mt_status status = mt_record_answers_read(job->how->job->answers, mt_program_outcome_keep, &all);
    for (int64_t i = 0; i < job->runs.started; i++)
        for (size_t k = 0; k < all.count; k++)
            if (all.answers[k].pid == job->runs.runs[i].pid)
                take_answer(job, &all.answers[k]);
    for (size_t k = 0; k < all.count; k++)
        if (mt_rank_runs_find(&job->runs, (pid_t)all.answers[k].pid) == NULL)
            take_answer(job, &all.answers[k]);
    mt_program_outcome_release(&all);
    return status;
}

static mt_status run_chosen(struct job *job, const char *only)
{
    if (only != NULL)
        return run_listed(job, only);
    return job->program->ranks <= RUN_ALL ? run_all(job) : run_some(job);
}

mt_status mt_dry_ranks_run(const struct mt_dry_ranks *ranks, struct mt_program_outcome *outcome)
{
    struct job job = {.how = ranks,
                      .program = ranks->program,
                      .runs = {.program = ranks->program,
                               .environment = ranks->environment,
                               .server = ranks->server,
                               .output = ranks->output,
                               .limit = ranks->limit},
                      .outcome = outcome};
    outcome->ranks = ranks->program->ranks;
    mt_status status = mt_rank_runs_begin(&job.runs, ranks->job->folder.path);
    MT_THEN(status, run_chosen(&job, ranks->only));
    MT_THEN(status, take_answers(&job));
    for (int64_t i = 0; i < job.runs.started && outcome->code == 0; i++)
        outcome->code = job.runs.runs[i].code;
    outcome->is_interrupted = ranks->children->ending != 0;
    mt_rank_runs_end(&job.runs);
    free(job.prints);
    return status;
}
