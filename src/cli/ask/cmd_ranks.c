/* memtrace ranks: compares the ranks of a job. */
#include "analysis/diff/diff.h"
#include "analysis/ranks/rank_job.h"
#include "base/memory.h"
#include "base/order.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/rank_list.h"
#include "trace/query/holders.h"
#include "words/diff_words.h"
#include "words/observed_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_EXCESSES = 2, SHOWN_CAUSES = 3, SHOWN_PROBLEMS = 5 };

struct ranks_options {
    bool help, json, each;
    struct mt_option_list places;
    const char *job;
    int64_t rows;
};

static const struct mt_option options[] = {
    MT_OPTION(LIST, struct ranks_options, places, "PLACE", .value = "PLACE...", .takes = MT_TAKES_FILE,
              .help = "a folder of traces, or traces (default: the current folder)"),
    MT_OPTION(TEXT, struct ranks_options, job, "--job", .value = "JOB",
              .help = "the job, if there are several (default: the one that started last)"),
    MT_OPTION(FLAG, struct ranks_options, each, "--each", .help = "list each rank, instead of one row for equal ranks"),
    MT_OPTION(INTEGER, struct ranks_options, rows, "--rows", .value = "N", .low = 1, .high = INT32_MAX,
              .help = "number of rows in the table (default: 20)"),
    MT_OPTION_JSON(struct ranks_options),
    MT_OPTION_HELP(struct ranks_options),
    MT_OPTIONS_END,
};

/* ---- the answer ---- */

static const struct mt_field share_fields[] = {
    MT_CHOICE(struct mt_rank_share, key, "key", NULL, NULL, ((const char *const[]){"role", "category"})),
    MT_TEXT(struct mt_rank_share, name, "name", NULL, NULL),
    MT_BYTES(struct mt_rank_share, bytes, "allocated_bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type share_type = MT_ROW_TYPE(struct mt_rank_share, share_fields);

static const struct mt_field excess_fields[] = {
    MT_TEXT(struct mt_rank_excess, category, "category", NULL, NULL),
    MT_DIFFERENCE(struct mt_rank_excess, bytes, "bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type excess_type = MT_ROW_TYPE(struct mt_rank_excess, excess_fields);

/* A rank or several equal ones, for a table; for several, the values are the first one's. */
#define ROW struct rank_row
ROW
{
    struct mt_rank of;
    struct mt_job_rank in_job;
    const char *ranks; /* "0-3, 7" */
    int64_t count;
    struct mt_text excesses;
    const char *shown_excesses;
};

static const struct mt_field row_fields[] = {
    MT_INTEGER(ROW, of.rank, "rank", NULL, NULL),
    MT_SHOWN(TEXT, const char *, ROW, ranks, "ranks", "ranks"),
    MT_SHOWN(INTEGER, int64_t, ROW, count, "count", "count"),
    MT_TEXT(ROW, of.file, "file", "trace", NULL),
    MT_INTEGER(ROW, of.run, "run", NULL, "in the trace"),
    MT_NAME(ROW, of.host, "host", "host", "that recorded it"),
    MT_KNOWN(ROW, of.local_rank, "local_rank", NULL, "on its host"),
    MT_TEXT(ROW, of.state, "state", "state", NULL),
    MT_TEXT(ROW, of.device, "device", NULL, NULL),
    MT_INTEGER(ROW, of.steps, "steps", NULL, NULL),
    MT_BYTES(ROW, of.peak_bytes[MT_MEASURE_ALLOCATED], "allocated_bytes", "allocated", "the peak"),
    MT_BYTES(ROW, of.peak_bytes[MT_MEASURE_REQUESTED], "requested_bytes", NULL, "the peak"),
    MT_BYTES(ROW, of.peak_bytes[MT_MEASURE_RESERVED], "reserved_bytes", "reserved", "the peak"),
    MT_STEP(ROW, of.step, "step", "step", "of the peak of allocated bytes"),
    MT_NAME(ROW, of.phase, "phase", "phase", "of that moment"),
    MT_NAME(ROW, of.span, "span", NULL, "of the module that allocated then"),
    MT_INTEGER(ROW, in_job.alike, "alike", NULL,
               "the same number for ranks with the same peaks of the same categories"),
    MT_DIFFERENCE(ROW, in_job.above_median_bytes, "above_median_bytes", "than median",
                  "more than the median rank's peak"),
    MT_ROWS(ROW, in_job.excesses, in_job.excess_count, "excesses", &excess_type,
            "what that is made of, the largest first"),
    MT_SHOWN(TEXT, const char *, ROW, shown_excesses, "by", "by"),
    MT_INTEGER(ROW, of.growing_steps, "growing_steps", NULL, "so many of the last steps each went higher"),
    MT_BYTES(ROW, of.growth_bytes, "growth_bytes", NULL, "in all of them"),
    MT_ROWS(ROW, of.shares, of.share_count, "shares", &share_type, "of the peak of allocated bytes"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(ROW, row_fields);
#undef ROW

#define ROW struct stray_row
ROW
{
    int64_t card, rank;
    const char *host, *file;
    uint64_t allocated_bytes, reserved_bytes;
    const char *holder; /* owned */
};
static const struct mt_field stray_fields[] = {
    MT_INTEGER(ROW, card, "card", NULL, "of the host"),
    MT_NAME(ROW, host, "host", NULL, NULL),
    MT_INTEGER(ROW, rank, "rank", NULL, "that uses it in addition to its own card"),
    MT_TEXT(ROW, file, "file", NULL, NULL),
    MT_BYTES(ROW, allocated_bytes, "allocated_bytes", NULL, "the rank's peak there"),
    MT_BYTES(ROW, reserved_bytes, "reserved_bytes", NULL, "the rank's peak there"),
    MT_NAME(ROW, holder, "holder", NULL,
            "the variable or attribute that keeps most of it, with its line; null: not known"),
    MT_FIELDS_END,
};
static const struct mt_row_type stray_type = MT_ROW_TYPE(ROW, stray_fields);
#undef ROW

static const struct mt_field problem_fields[] = {
    MT_TEXT(struct mt_rank_problem, file, "file", NULL, NULL),
    MT_TEXT(struct mt_rank_problem, reason, "reason", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type problem_type = MT_ROW_TYPE(struct mt_rank_problem, problem_fields);

struct ranks_answer {
    const char *job;
    int64_t world_size, other_ranks, median_rank;
    const char *missing; /* "4, 6-7" */
    struct rank_row *rows;
    size_t count;
    struct stray_row *strays;
    size_t stray_count;
    const struct mt_rank_problem *problems;
    size_t problem_count;
};
static const struct mt_field answer_fields[] = {
    MT_NAME(struct ranks_answer, job, "job", NULL, NULL),
    MT_KNOWN(struct ranks_answer, world_size, "world_size", NULL, "processes of the job"),
    MT_INTEGER(struct ranks_answer, median_rank, "median_rank", NULL, NULL),
    MT_NAME(struct ranks_answer, missing, "missing", NULL, "ranks without a trace, as \"4, 6-7\""),
    MT_INTEGER(struct ranks_answer, other_ranks, "other_ranks", NULL, "of other jobs, and left out"),
    MT_ROWS(struct ranks_answer, rows, count, "rows", &row_type, "the highest peak first"),
    MT_ROWS(struct ranks_answer, strays, stray_count, "other_cards", &stray_type,
            "memory of ranks on other cards than their own"),
    MT_ROWS(struct ranks_answer, problems, problem_count, "problems", &problem_type, "files without a readable rank"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct ranks_answer, answer_fields);

/* Adds "Loss +1.00 GiB, Data +3.00 MiB". */
static void add_excesses(const struct mt_job_rank *rank, struct mt_text *out)
{
    for (size_t i = 0; i < rank->excess_count && i < SHOWN_EXCESSES; i++)
        mt_text_add(out, "%s%s %s", i > 0 ? ", " : "", rank->excesses[i].category,
                    MT_SIZE_DIFFERENCE(rank->excesses[i].bytes));
}

static struct rank_row row_of(const struct mt_job_rank *rank, const char *ranks, size_t count)
{
    struct rank_row row = {.of = *rank->of, .in_job = *rank, .ranks = ranks, .count = (int64_t)count};
    add_excesses(rank, &row.excesses);
    row.shown_excesses = mt_text_get(&row.excesses);
    return row;
}

/* ---- text ---- */

#define FIGURES " allocated_bytes reserved_bytes above_median_bytes step phase by"

static void print_rows(const char *fields, const struct rank_row *rows, size_t count, size_t most)
{
    mt_rows_print(&row_type, fields, "host state step phase count", rows, count < most ? count : most);
    if (count > most)
        mt_say("%zu more rows: --rows %zu shows them", count - most, count);
}

static void print_groups(const struct mt_rank_job *job, size_t most)
{
    struct rank_row *rows = mt_host_alloc(job->group_count * sizeof *rows);
    struct mt_text *lists = mt_host_alloc(job->group_count * sizeof *lists);
    for (size_t i = 0; i < job->group_count; i++) {
        const struct mt_rank_group *group = &job->groups[i];
        mt_rank_group_add(group, &lists[i]);
        rows[i] = row_of(group->ranks[0], mt_text_get(&lists[i]), group->count);
        rows[i].of.peak_bytes[MT_MEASURE_RESERVED] = group->reserved_bytes;
    }
    print_rows("ranks count" FIGURES, rows, job->group_count, most);
    for (size_t i = 0; i < job->group_count; i++) {
        mt_text_release(&rows[i].excesses);
        mt_text_release(&lists[i]);
    }
    free(rows);
    free(lists);
}

/* Prints "Rank 0 has 1.20 GiB more than rank 4, the median: …, …." with the causes from a diff of the two. */
static void print_causes(const struct mt_rank *low, const struct mt_rank *high, const struct mt_diff *diff)
{
    const struct mt_diff_parts *parts = &diff->allocated;
    struct mt_text line = {0};
    mt_text_add(&line, "\nRank %" PRId64 " has %s more than rank %" PRId64 ", the median", high->rank,
                MT_SIZE((uint64_t)parts->delta_bytes), low->rank);
    for (size_t i = 0; i < parts->cause_count && i < SHOWN_CAUSES; i++) {
        mt_text_add(&line, "%s", i == 0 ? ": " : ", ");
        mt_diff_cause_add_title(diff, &parts->causes[i], &line);
        mt_text_add(&line, " (%s)", MT_SIZE_DIFFERENCE(parts->causes[i].bytes));
    }
    mt_text_add(&line, ". memtrace diff ");
    mt_text_add_shell_word(&line, low->file);
    mt_text_add(&line, ":%" PRId64 " ", low->run);
    mt_text_add_shell_word(&line, high->file);
    mt_text_add(&line, ":%" PRId64 " shows more.", high->run);
    mt_print_line(&line);
}

/* Prints the causes of the difference between the highest and the median rank, if their traces have enough data. */
static void tell_causes(const struct mt_rank_job *job)
{
    const struct mt_rank *low = job->median->of, *high = job->ranks[0].of;
    struct mt_question a = {0}, b = {0};
    struct mt_diff diff = {0};
    if (job->ranks[0].above_median_bytes == 0)
        return;
    mt_status status = mt_rank_question_open(low, &a);
    MT_THEN(status, mt_rank_question_open(high, &b));
    MT_THEN(status, mt_trace_diff(&a, &b, &diff));
    if (status == MT_OK)
        print_causes(low, high, &diff);
    else
        mt_note("can't say why rank %" PRId64 " has more: %s", high->rank, mt_last_error());
    mt_diff_release(&diff);
    mt_question_close(&a);
    mt_question_close(&b);
}

static void tell_growth(const struct mt_rank_job *job)
{
    const struct mt_rank *most = NULL;
    for (size_t i = 0; i < job->count; i++) {
        const struct mt_rank *rank = job->ranks[i].of;
        if (mt_rank_is_growing(rank) && (most == NULL || rank->growth_bytes > most->growth_bytes))
            most = rank;
    }
    if (most != NULL)
        mt_say("\nEach of the last %" PRId64 " steps of rank %" PRId64
               " went higher than the one before, by %s in all: "
               "something is kept that a step should free.",
               most->growing_steps, most->rank, MT_SIZE(most->growth_bytes));
}

/* Returns what keeps most of a rank's memory on another rank's card; "" if the trace does not say it. The caller frees
 * it. */
static char *holder_of(const struct mt_rank *rank)
{
    struct mt_text name = {0};
    struct mt_trace *trace = NULL;
    const struct mt_run *run;
    struct mt_holder_row *holders = NULL;
    size_t count = 0;
    mt_status status = mt_trace_open(rank->file, &trace);
    MT_THEN(status, mt_trace_find_numbered(trace, rank->run, &run));
    MT_THEN(status, mt_trace_holders(trace, run, &holders, &count));
    if (count > 0)
        mt_holder_add_name(&holders[0], &name);
    char *copy = mt_host_strdup(mt_text_get(&name));
    mt_text_release(&name);
    free(holders);
    mt_trace_close(trace);
    return copy;
}

static struct stray_row stray_of(const struct mt_rank_stray *stray)
{
    const struct mt_rank *rank = stray->of;
    return (struct stray_row){.card = stray->card,
                              .rank = rank->rank,
                              .host = rank->host,
                              .file = rank->file,
                              .holder = holder_of(rank),
                              .allocated_bytes = rank->peak_bytes[MT_MEASURE_ALLOCATED],
                              .reserved_bytes = rank->peak_bytes[MT_MEASURE_RESERVED]};
}

/* True if another rank's memory on the same card was printed before. */
static bool is_listed(const struct ranks_answer *answer, size_t index)
{
    const struct stray_row *row = &answer->strays[index];
    for (size_t i = 0; i < index; i++)
        if (answer->strays[i].card == row->card && strcmp(answer->strays[i].host, row->host) == 0)
            return true;
    return false;
}

/* Prints the memory of all the job's processes on a card that belongs to another rank: "Card 0: 645.03 MiB of rank 0,
 * 64.00 MiB of rank 1". */
static void tell_card(const struct mt_rank_job *job, const struct ranks_answer *answer, const struct stray_row *first)
{
    struct mt_text line = {0};
    uint64_t bytes = 0;
    size_t processes = 0;
    mt_text_add(&line, "\nCard %" PRId64 "%s%s:", first->card, first->host[0] != '\0' ? " of " : "", first->host);
    for (size_t i = 0; i < job->count; i++) {
        const struct mt_rank *rank = job->ranks[i].of;
        if (rank->local_rank != first->card || strcmp(rank->host, first->host) != 0)
            continue;
        mt_text_add(&line, " %s of rank %" PRId64, MT_SIZE(rank->peak_bytes[MT_MEASURE_ALLOCATED]), rank->rank);
        bytes += rank->peak_bytes[MT_MEASURE_ALLOCATED];
        processes++;
    }
    for (size_t i = 0; i < answer->stray_count; i++) {
        const struct stray_row *stray = &answer->strays[i];
        if (stray->card != first->card || strcmp(stray->host, first->host) != 0)
            continue;
        mt_text_add(&line, "%s %s of rank %" PRId64 ", whose own card is another", processes > 0 ? "," : "",
                    MT_SIZE(stray->allocated_bytes), stray->rank);
        if (stray->holder[0] != '\0')
            mt_text_add(&line, ", kept by %s", stray->holder);
        bytes += stray->allocated_bytes;
        processes++;
    }
    mt_text_add(&line, "; %s in all at their peaks, and a CUDA context for each of the %zu processes.", MT_SIZE(bytes),
                processes);
    mt_print_line(&line);
}

static void tell_cards(const struct mt_rank_job *job, const struct ranks_answer *answer)
{
    for (size_t i = 0; i < answer->stray_count; i++)
        if (!is_listed(answer, i))
            tell_card(job, answer, &answer->strays[i]);
    if (answer->stray_count > 0)
        mt_say("→ %s", mt_observed_change_words(MT_OBSERVED_CHANGE_OWN_CARD));
}

static void print_text(const struct ranks_options *asked, const struct mt_rank_job *job,
                       const struct ranks_answer *answer)
{
    struct mt_text title = {0};
    mt_text_add(&title, "%zu rank%s", job->count, job->count == 1 ? "" : "s");
    if (job->world_size > 0)
        mt_text_add(&title, " of %" PRId64, job->world_size);
    if (job->job[0] != '\0')
        mt_text_add(&title, ", job %s", job->job);
    mt_text_add(&title, "; peaks, the highest first");
    mt_print_line(&title);
    putchar('\n');
    if (asked->each)
        print_rows("ranks host state" FIGURES, answer->rows, answer->count, (size_t)asked->rows);
    else
        print_groups(job, (size_t)asked->rows);
    tell_cards(job, answer);
    tell_growth(job);
    tell_causes(job);
}

/* ---- the command ---- */

static int compare_numbers(const void *left, const void *right)
{
    const struct mt_job_rank *const *a = left, *const *b = right;
    return MT_COMPARE((*a)->of->rank, (*b)->of->rank);
}

/* Notes on stderr which ranks have this state. */
static void note_state(const struct mt_rank_job *job, mt_run_state state)
{
    struct mt_rank_group found = {0};
    struct mt_text list = {0};
    for (size_t i = 0; i < job->count; i++)
        if (strcmp(job->ranks[i].of->state, mt_run_state_name(state)) == 0)
            *MT_HOST_ADD(found.ranks, found.count) = &job->ranks[i];
    if (found.count > 0) {
        qsort(found.ranks, found.count, sizeof *found.ranks, compare_numbers);
        mt_rank_group_add(&found, &list);
        mt_note("rank %s %s", mt_text_get(&list), mt_run_state_words(mt_run_state_name(state)));
    }
    mt_text_release(&list);
    free(found.ranks);
}

/* Notes on stderr which ranks are left out, are missing or did not end well. */
static void note_rest(const struct mt_ranks *ranks, const struct mt_rank_job *job, const struct ranks_answer *answer)
{
    for (mt_run_state state = 0; state < MT_RUN_STATE_COUNT; state++)
        if (state != MT_RUN_DONE)
            note_state(job, state);
    for (size_t i = 0; i < ranks->problem_count && i < SHOWN_PROBLEMS; i++)
        mt_note("left out: %s", ranks->problems[i].reason);
    if (ranks->problem_count > SHOWN_PROBLEMS)
        mt_note("%zu more files are left out: --json names them", ranks->problem_count - SHOWN_PROBLEMS);
    if (answer->other_ranks > 0)
        mt_note("%" PRId64 " rank%s of other jobs %s left out: --job chooses", answer->other_ranks,
                answer->other_ranks == 1 ? "" : "s", answer->other_ranks == 1 ? "is" : "are");
    if (answer->missing[0] != '\0')
        mt_note("no trace of rank %s", answer->missing);
}

static void answer_job(const struct ranks_options *asked, const struct mt_ranks *ranks, const struct mt_rank_job *job)
{
    struct mt_text missing = {0}, *numbers = mt_host_alloc(job->count * sizeof *numbers);
    struct ranks_answer answer = {.job = job->job,
                                  .world_size = job->world_size,
                                  .other_ranks = (int64_t)job->others,
                                  .median_rank = job->median->of->rank,
                                  .rows = mt_host_alloc(job->count * sizeof *answer.rows),
                                  .count = job->count,
                                  .strays = mt_host_alloc((job->stray_count + 1) * sizeof *answer.strays),
                                  .stray_count = job->stray_count,
                                  .problems = ranks->problems,
                                  .problem_count = ranks->problem_count};
    mt_rank_list_add(job->missing, job->missing_count, &missing);
    answer.missing = mt_text_get(&missing);
    for (size_t i = 0; i < job->count; i++) {
        mt_text_add(&numbers[i], "%" PRId64, job->ranks[i].of->rank);
        answer.rows[i] = row_of(&job->ranks[i], mt_text_get(&numbers[i]), 1);
    }
    for (size_t i = 0; i < job->stray_count; i++)
        answer.strays[i] = stray_of(&job->strays[i]);
    note_rest(ranks, job, &answer);
    if (asked->json)
        mt_answer_print_json("ranks", &answer_type, &answer);
    else
        print_text(asked, job, &answer);
    for (size_t i = 0; i < job->count; i++) {
        mt_text_release(&answer.rows[i].excesses);
        mt_text_release(&numbers[i]);
    }
    for (size_t i = 0; i < job->stray_count; i++)
        free((char *)answer.strays[i].holder);
    mt_text_release(&missing);
    free(answer.rows);
    free(answer.strays);
    free(numbers);
}

static mt_status run_ranks(const void *given)
{
    static const char *const here[] = {"."};
    const struct ranks_options *asked = given;
    const bool is_given = asked->places.count > 0;
    struct mt_ranks ranks;
    struct mt_rank_job job = {0};
    mt_status status = mt_ranks_open(is_given ? asked->places.items : here, is_given ? asked->places.count : 1, &ranks);
    if (status == MT_OK) {
        status = mt_rank_job_open(&ranks, asked->job, &job);
        if (status != MT_OK && ranks.count == 0)
            mt_fail_hint(status, "%s",
                         ranks.problem_count > 0 ? ranks.problems[0].reason
                                                 : "memtrace dry-run or record makes one for each rank");
    }
    if (status == MT_OK)
        answer_job(asked, &ranks, &job);
    mt_rank_job_release(&job);
    mt_ranks_close(&ranks);
    return status;
}

const struct mt_command mt_command_ranks = {
    .name = "ranks",
    .summary = "Compares the ranks of a job: their peaks, which ranks are equal, and why the others differ.",
    .usage = "[PLACE...] [OPTIONS]",
    .details =
        "Each rank has its own trace, as record and dry-run write them. Ranks are equal if their peaks hold the\n"
        "same bytes of each category. One row shows all equal ranks, and the category in which they differ\n"
        "most from the median rank. Results are cached in the folder's file " MT_RANK_CATALOGUE ", which may be\n"
        "deleted.\n",
    .examples = "  memtrace ranks .\n"
                "  memtrace ranks . --each --json\n",
    .options = options,
    MT_OPTIONS_OF(struct ranks_options, .rows = 20),
    .answer = &answer_type,
    .run = run_ranks,
};
