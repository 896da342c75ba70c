#include "analysis/ranks/rank_job.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LEAK_STEPS = 3, MOST_MISSING = 65536 };

bool mt_rank_is_growing(const struct mt_rank *rank)
{
    return rank->growing_steps >= LEAK_STEPS;
}

static uint64_t allocated(const struct mt_rank *rank)
{
    return rank->peak_bytes[MT_MEASURE_ALLOCATED];
}

/* ---- the job ---- */

static const char *newest_job(const struct mt_ranks *ranks)
{
    const struct mt_rank *newest = &ranks->items[0];
    for (size_t i = 1; i < ranks->count; i++)
        if (strcmp(ranks->items[i].started_at, newest->started_at) > 0)
            newest = &ranks->items[i];
    return newest->job;
}

/* Returns the card's number in the name of a trace, "job-rank1-cuda0.db"; -1 for a rank's first card, whose name has
 * none. */
static int64_t card_of(const struct mt_rank *rank)
{
    static const char MARK[] = "-cuda";
    const char *name = strrchr(rank->file, '/'), *mark = NULL;
    for (const char *at = name != NULL ? name : rank->file; (at = strstr(at, MARK)) != NULL; at++)
        mark = at;
    char *end = NULL;
    const int64_t card = mark != NULL ? strtoll(mark + strlen(MARK), &end, 10) : -1;
    return mark != NULL && end > mark + strlen(MARK) && strcmp(end, ".db") == 0 ? card : -1;
}

/* Returns a score for being the trace of the rank's own card: highest with its local rank, then the first card that it
 * used. */
static int ownness(const struct mt_rank *rank)
{
    const int64_t card = card_of(rank);
    return card >= 0 && card == rank->local_rank ? 2 : card < 0;
}

/* True if trace `a` of a rank represents it better: it belongs to the rank's own card or, on equal cards, began
 * later. */
static bool is_better(const struct mt_rank *a, const struct mt_rank *b)
{
    const int order = MT_COMPARE(ownness(a), ownness(b));
    return order != 0 ? order > 0 : strcmp(a->started_at, b->started_at) > 0;
}

/* Lists memory of ranks on other cards. A rank's own card has its local rank as number, whatever the trace's name. */
static void find_strays(const struct mt_ranks *ranks, struct mt_rank_job *job)
{
    for (size_t place = 0; place < job->count; place++) {
        const struct mt_rank *own = job->ranks[place].of;
        for (size_t i = 0; i < ranks->count; i++) {
            const struct mt_rank *rank = &ranks->items[i];
            if (rank == own || rank->rank != own->rank || strcmp(rank->job, job->job) != 0 ||
                card_of(rank) == card_of(own))
                continue;
            const int64_t card = card_of(rank);
            *MT_HOST_ADD(job->strays, job->stray_count) = (struct mt_rank_stray){rank, card < 0 ? 0 : card};
        }
    }
}

/* Adds the ranks of the job, ordered by rank, each with the latest trace of its own card. */
static void add_ranks(const struct mt_ranks *ranks, struct mt_rank_job *job)
{
    for (size_t i = 0; i < ranks->count; i++) {
        const struct mt_rank *rank = &ranks->items[i];
        struct mt_job_rank *last = job->count > 0 ? &job->ranks[job->count - 1] : NULL;
        if (strcmp(rank->job, job->job) != 0)
            job->others++;
        else if (last == NULL || last->of->rank != rank->rank)
            *MT_HOST_ADD(job->ranks, job->count) = (struct mt_job_rank){.of = rank};
        else if (is_better(rank, last->of))
            last->of = rank;
    }
}

static void find_missing(struct mt_rank_job *job)
{
    job->world_size = -1;
    for (size_t i = 0; i < job->count; i++)
        if (job->ranks[i].of->world_size > job->world_size)
            job->world_size = job->ranks[i].of->world_size;
    size_t place = 0;
    for (int64_t rank = 0; rank < job->world_size && job->missing_count < MOST_MISSING; rank++) {
        while (place < job->count && job->ranks[place].of->rank < rank)
            place++;
        if (place == job->count || job->ranks[place].of->rank != rank)
            *MT_HOST_ADD(job->missing, job->missing_count) = rank;
    }
}

static int compare_peaks(const void *left, const void *right)
{
    const struct mt_rank *a = ((const struct mt_job_rank *)left)->of, *b = ((const struct mt_job_rank *)right)->of;
    const int order = MT_COMPARE(allocated(b), allocated(a));
    return order != 0 ? order : MT_COMPARE(a->rank, b->rank);
}

/* ---- differences ---- */

static int compare_excesses(const void *left, const void *right)
{
    const struct mt_rank_excess *a = left, *b = right;
    const int order = MT_COMPARE(llabs(b->bytes), llabs(a->bytes));
    return order != 0 ? order : strcmp(a->category, b->category);
}

static uint64_t share_of(const struct mt_rank *rank, const char *category)
{
    for (size_t i = 0; i < rank->share_count; i++)
        if (rank->shares[i].key == MT_RANK_CATEGORY && strcmp(rank->shares[i].name, category) == 0)
            return rank->shares[i].bytes;
    return 0;
}

static void add_excess(struct mt_job_rank *rank, const char *category, int64_t bytes)
{
    if (bytes != 0)
        *MT_HOST_ADD(rank->excesses, rank->excess_count) = (struct mt_rank_excess){category, bytes};
}

static void compare_with_median(const struct mt_rank *median, struct mt_job_rank *rank)
{
    rank->above_median_bytes = (int64_t)(allocated(rank->of) - allocated(median));
    for (size_t i = 0; i < rank->of->share_count; i++) {
        const struct mt_rank_share *share = &rank->of->shares[i];
        if (share->key == MT_RANK_CATEGORY)
            add_excess(rank, share->name, (int64_t)(share->bytes - share_of(median, share->name)));
    }
    for (size_t i = 0; i < median->share_count; i++)
        if (median->shares[i].key == MT_RANK_CATEGORY && share_of(rank->of, median->shares[i].name) == 0)
            add_excess(rank, median->shares[i].name, -(int64_t)median->shares[i].bytes);
    if (rank->excess_count > 0)
        qsort(rank->excesses, rank->excess_count, sizeof *rank->excesses, compare_excesses);
}

static bool are_alike(const struct mt_rank *a, const struct mt_rank *b)
{
    if (allocated(a) != allocated(b) || a->peak_bytes[MT_MEASURE_REQUESTED] != b->peak_bytes[MT_MEASURE_REQUESTED] ||
        a->share_count != b->share_count)
        return false;
    for (size_t i = 0; i < a->share_count; i++)
        if (a->shares[i].key != b->shares[i].key || a->shares[i].bytes != b->shares[i].bytes ||
            strcmp(a->shares[i].name, b->shares[i].name) != 0)
            return false;
    return true;
}

/* Finds the group of a rank. Groups with the same peak come last, since ranks are ordered by peak. */
static struct mt_rank_group *find_group(struct mt_rank_job *job, const struct mt_rank *rank)
{
    for (size_t i = job->group_count; i > 0; i--) {
        struct mt_rank_group *group = &job->groups[i - 1];
        if (are_alike(group->ranks[0]->of, rank))
            return group;
        if (allocated(group->ranks[0]->of) != allocated(rank))
            break;
    }
    struct mt_rank_group *added = MT_HOST_ADD(job->groups, job->group_count);
    *added = (struct mt_rank_group){0};
    return added;
}

static void add_to_group(struct mt_rank_job *job, struct mt_job_rank *rank)
{
    struct mt_rank_group *group = find_group(job, rank->of);
    rank->alike = group - job->groups + 1;
    *MT_HOST_ADD(group->ranks, group->count) = rank;
    group->reserved_bytes = mt_larger(group->reserved_bytes, rank->of->peak_bytes[MT_MEASURE_RESERVED]);
}

mt_status mt_rank_job_open(const struct mt_ranks *ranks, const char *job, struct mt_rank_job *out)
{
    *out = (struct mt_rank_job){.world_size = -1};
    if (ranks->count == 0)
        return mt_fail(MT_USAGE, "there is no trace of a rank");
    out->job = job != NULL ? job : newest_job(ranks);
    add_ranks(ranks, out);
    find_strays(ranks, out);
    if (out->count == 0)
        return mt_fail(MT_USAGE, "no rank is of job \"%s\"; one is of \"%s\"", job, ranks->items[0].job);
    find_missing(out);
    qsort(out->ranks, out->count, sizeof *out->ranks, compare_peaks);
    out->median = &out->ranks[out->count / 2];
    for (size_t i = 0; i < out->count; i++) {
        compare_with_median(out->median->of, &out->ranks[i]);
        add_to_group(out, &out->ranks[i]);
    }
    return MT_OK;
}

void mt_rank_job_release(struct mt_rank_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        free(job->ranks[i].excesses);
    for (size_t i = 0; i < job->group_count; i++)
        free(job->groups[i].ranks);
    free(job->ranks);
    free(job->groups);
    free(job->missing);
    free(job->strays);
    *job = (struct mt_rank_job){0};
}

mt_status mt_rank_job_find(const struct mt_rank_job *job, int64_t rank, const struct mt_job_rank **out)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->ranks[i].of->rank == rank) {
            *out = &job->ranks[i];
            return MT_OK;
        }
    return mt_fail(MT_USAGE, "rank %" PRId64 " has no trace", rank);
}
