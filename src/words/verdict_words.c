#include "words/verdict_words.h"

#include "answer/escape.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_NAMED = 3 }; /* of a kind of caveat in one line */

/* ---- rows ---- */

#define ROW struct mt_verdict_row
static const struct mt_field fields[] = {
    MT_INTEGER(ROW, run, "run", "run", "its number in the trace"),
    MT_TEXT(ROW, trace, "trace", NULL, "the file that it is in"),
    MT_KNOWN(ROW, rank, "rank", "rank", "of a job; null: the program is one process"),
    MT_FLAG(ROW, verdict.fits, "fits", "fits", "the program fits the card"),
    MT_BYTES(ROW, verdict.needed_bytes, "bytes", "needs", "of the card: reserved and outside"),
    MT_BYTES(ROW, verdict.live_bytes, "live", NULL, "the peak of live blocks"),
    MT_BYTES(ROW, verdict.reserved_bytes, "reserved", NULL, "the peak of reserved memory"),
    MT_BYTES(ROW, verdict.needed_range.low_bytes, "bytes_low", NULL,
             "needed with estimated scratch memory at its least"),
    MT_BYTES(ROW, verdict.needed_range.high_bytes, "bytes_high", NULL, "at its most"),
    MT_BYTES(ROW, verdict.live_range.low_bytes, "live_low", NULL, "live with estimated scratch memory at its least"),
    MT_BYTES(ROW, verdict.live_range.high_bytes, "live_high", NULL, "at its most"),
    MT_BYTES(ROW, verdict.outside_bytes, "outside", NULL, "outside of PyTorch's allocator: context, libraries, NCCL"),
    MT_BYTES(ROW, verdict.card_bytes, "card", NULL, "of the card that other processes leave"),
    MT_BYTES(ROW, verdict.free_bytes, "free", NULL, "of the card at the peak; 0 if the program does not fit"),
    MT_BYTES(ROW, verdict.short_bytes, "short", NULL, "that are missing; 0 if the program fits"),
    MT_KNOWN(ROW, verdict.iterations, "iterations", NULL,
             "of the loop whose memory grows and that was ended early; null: none, or not known"),
    MT_BYTES(ROW, verdict.rest_bytes, "rest", NULL, "that the iterations which did not run would add: an estimate"),
    MT_INTEGER(ROW, verdict.steps, "steps", NULL, "that ran"),
    MT_PART(ROW, caveats, &mt_caveat_lists_type),
    MT_PART(ROW, observations, &mt_observations_type),
    MT_FIELDS_END,
};
const struct mt_row_type mt_verdict_type = MT_ROW_TYPE(ROW, fields);
#undef ROW

/* ---- the answer ---- */

static void add_need(const struct mt_verdict *verdict, struct mt_text *out)
{
    mt_text_add(out, "peak %s live; needs %s of the %s%s%s (%s reserved", MT_SIZE(verdict->live_bytes),
                MT_SIZE(verdict->needed_bytes), verdict->is_shared ? "" : "card's ", MT_SIZE(verdict->card_bytes),
                verdict->is_shared ? " that others leave" : "", MT_SIZE(verdict->reserved_bytes));
    if (verdict->outside_bytes > 0)
        mt_text_add(out, ", %s outside PyTorch", MT_SIZE(verdict->outside_bytes));
    mt_text_add(out, "): ");
}

static void add_refusal(const struct mt_verdict *verdict, struct mt_text *out)
{
    mt_text_add(out, "out of memory: %s short", MT_SIZE(verdict->short_bytes));
    if (mt_text_get(&verdict->line)[0] != '\0') {
        mt_text_add(out, " at ");
        mt_text_add_visible(out, mt_text_get(&verdict->line));
    }
    if (verdict->step >= 0 && verdict->phase != NULL)
        mt_text_add(out, " (step %" PRId64 ", %s)", verdict->step, verdict->phase);
}

/* Adds how a run ended before the program was over. */
static void add_unfinished(const struct mt_verdict_row *row, struct mt_text *out)
{
    const char *ended_by = row->caveats.ended_by;
    const struct {
        mt_ended_by reason;
        const char *words;
    } ends[] = {{MT_ENDED_BY_ERROR, row->caveats.of[MT_CAVEAT_SHORTENED].count > 0
                                        ? "the program failed, maybe since loops were shortened; until then "
                                        : "the program failed; until then "},
                {MT_ENDED_BY_SIGNAL, "ended by a signal; until then "},
                {MT_ENDED_BY_TIME_LIMIT, "ended at the time limit; until then "}};
    if (ended_by == NULL)
        mt_text_add(out, "the process was killed, or ended in native code; until then ");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && ended_by != NULL; i++)
        if (strcmp(ended_by, mt_ended_by_name(ends[i].reason)) == 0)
            mt_text_add(out, "%s", ends[i].words);
}

void mt_verdict_add_end(const struct mt_verdict_row *row, struct mt_text *out)
{
    static const char *const ends[MT_ENDED_BY_COUNT] = {
        [MT_ENDED_BY_PROGRAM] = "then the program ended",
        [MT_ENDED_BY_SETTLED] = "ended since they repeat",
        [MT_ENDED_BY_UNSETTLED] = "ended although they do not repeat",
        [MT_ENDED_BY_STEPS] = "as many as --steps allows",
        [MT_ENDED_BY_TIME_LIMIT] = "ended at the time limit",
        [MT_ENDED_BY_SIGNAL] = "ended by a signal",
        [MT_ENDED_BY_ERROR] = "then the program failed",
        [MT_ENDED_BY_OUT_OF_MEMORY] = "ended out of memory",
        [MT_ENDED_BY_GROWTH] = "ended since memory grows with each iteration",
        [MT_ENDED_BY_VALUES] = "ended since a loop needs values that were not computed",
        [MT_ENDED_BY_CAUGHT] = "ended since the program kept catching the end of the run",
    };
    mt_ended_by reason;
    if (row->verdict.steps == 0)
        mt_text_add(out, "no training steps");
    else
        mt_text_add(out, "%" PRId64 " step%s", row->verdict.steps, row->verdict.steps == 1 ? "" : "s");
    if (row->caveats.ended_by != NULL && mt_ended_by_find(row->caveats.ended_by, &reason))
        mt_text_add(out, ", %s", ends[reason]);
}

int64_t mt_verdict_fills_at(const struct mt_verdict_row *row)
{
    const struct mt_caveat_list *growths = &row->caveats.of[MT_CAVEAT_GROWTH];
    int64_t first = -1;
    for (size_t i = 0; i < growths->count; i++) {
        const struct mt_caveat *growth = &growths->rows[i];
        const bool fills = growth->count >= 0 && (growth->total < 0 || growth->count <= growth->total) &&
                           growth->count <= row->verdict.grows_until;
        if (fills && (first < 0 || growth->count < first))
            first = growth->count;
    }
    return first;
}

/* Adds what all iterations need if memory grows and some did not run. */
static void add_rest(const struct mt_verdict *verdict, struct mt_text *out)
{
    const uint64_t needed_bytes = verdict->needed_bytes + verdict->rest_bytes;
    if (verdict->rest_bytes == 0)
        return;
    mt_text_add(out, "; after all %" PRId64 " iterations, by estimate: peak %s live, needs %s", verdict->iterations,
                MT_SIZE(verdict->live_bytes + verdict->rest_bytes), MT_SIZE(needed_bytes));
    if (needed_bytes > verdict->card_bytes)
        mt_text_add(out, ", %s short", MT_SIZE(needed_bytes - verdict->card_bytes));
    else
        mt_text_add(out, ", %s free", MT_SIZE(verdict->card_bytes - needed_bytes));
}

/* Adds whether the program fits, and how long if its memory grows. */
static void add_fit(const struct mt_verdict_row *row, struct mt_text *out)
{
    const struct mt_verdict *verdict = &row->verdict;
    const int64_t fills_at = mt_verdict_fills_at(row);
    if (verdict->fits && fills_at >= 0)
        mt_text_add(out, "fits until iteration %" PRId64 ", by estimate", fills_at);
    else if (verdict->fits)
        mt_text_add(out, "fits, %s free", MT_SIZE(verdict->free_bytes));
    else
        mt_text_add(out, "does not fit, %s short", MT_SIZE(verdict->short_bytes));
    add_rest(verdict, out);
}

void mt_verdict_add_answer(const struct mt_verdict_row *row, const char *explain, struct mt_text *out)
{
    const struct mt_verdict *verdict = &row->verdict;
    if (row->rank >= 0)
        mt_text_add(out, "rank %" PRId64 ": ", row->rank);
    if (verdict->is_out_of_memory) {
        add_refusal(verdict, out);
        mt_text_add(out, "; next: %s", explain);
        return;
    }
    add_unfinished(row, out);
    add_need(verdict, out);
    add_fit(row, out);
}

/* ---- caveats ---- */

/* Adds " (train.py:12)". */
static void add_place(const struct mt_caveat *caveat, struct mt_text *out)
{
    const char *slash = strrchr(caveat->file, '/');
    if (caveat->line == 0)
        return;
    mt_text_add(out, " (");
    mt_text_add_visible(out, slash != NULL ? slash + 1 : caveat->file);
    mt_text_add(out, ":%" PRId64 ")", caveat->line);
}

static void add_shortened(const struct mt_caveat *caveat, struct mt_text *out)
{
    mt_text_add_visible(out, caveat->name);
    add_place(caveat, out);
    mt_text_add(out, " after %" PRId64, caveat->count);
    if (caveat->total >= 0)
        mt_text_add(out, " of %" PRId64, caveat->total);
    mt_text_add(out, " iterations");
}

static void add_named(const struct mt_caveat *caveat, struct mt_text *out)
{
    mt_text_add_visible(out, caveat->name);
    add_place(caveat, out);
}

static void add_calls(const struct mt_caveat *caveat, struct mt_text *out)
{
    mt_text_add_visible(out, caveat->name);
    if (caveat->count >= 0)
        mt_text_add(out, " (%" PRId64 " call%s)", caveat->count, caveat->count == 1 ? "" : "s");
}

static void add_assumed(const struct mt_caveat *caveat, struct mt_text *out)
{
    add_named(caveat, out);
    if (!isnan(caveat->value))
        mt_text_add(out, " = %g", caveat->value);
}

static void add_growth(const struct mt_caveat *caveat, struct mt_text *out)
{
    mt_text_add(out, "%s an iteration", MT_SIZE(caveat->bytes > 0 ? (uint64_t)caveat->bytes : 0));
    add_place(caveat, out);
}

/* Adds "attention (train.py:12) of 8 (2 would request other bytes)". */
static void add_choice(const struct mt_caveat *caveat, struct mt_text *out)
{
    add_named(caveat, out);
    mt_text_add(out, " of %" PRId64, caveat->total);
    if (caveat->count > 0 && caveat->bytes > 0)
        mt_text_add(out, " (%" PRId64 " would request up to %s more or less)", caveat->count,
                    MT_SIZE((uint64_t)caveat->bytes));
    else if (caveat->count > 0)
        mt_text_add(out, " (%" PRId64 " would request other bytes)", caveat->count);
}

/* Adds "64.00 MiB on cuda:0". */
static void add_card(const struct mt_caveat *caveat, struct mt_text *out)
{
    mt_text_add(out, "%s on ", MT_SIZE(caveat->bytes > 0 ? (uint64_t)caveat->bytes : 0));
    mt_text_add_visible(out, caveat->name);
}

/* Adds "475.46 MiB of teacher (train.py:4)". */
static void add_gradients(const struct mt_caveat *caveat, struct mt_text *out)
{
    mt_text_add(out, "%s of ", MT_SIZE(caveat->bytes > 0 ? (uint64_t)caveat->bytes : 0));
    add_named(caveat, out);
}

/* Adds "33.04 MiB through fake (train.py:8), which is not detached". */
static void add_cleared(const struct mt_caveat *caveat, struct mt_text *out)
{
    mt_text_add(out, "%s through ", MT_SIZE(caveat->bytes > 0 ? (uint64_t)caveat->bytes : 0));
    add_named(caveat, out);
    mt_text_add(out, ", which is not detached");
}

/* How a kind of caveat is said: "shortened: training loader (train.py:15) after 3 of 100 iterations; --steps all runs
 * everything". */
static const struct kind_words {
    const char *begin, *end;
    void (*add)(const struct mt_caveat *caveat, struct mt_text *out);
} kinds[MT_CAVEAT_KIND_COUNT] = {
    [MT_CAVEAT_SHORTENED] = {"shortened", "; --steps all runs everything", add_shortened},
    [MT_CAVEAT_NOT_RUN] = {"did not run", "", add_named},
    [MT_CAVEAT_UNKNOWN] = {"unknown scratch memory, not counted", "", add_calls},
    [MT_CAVEAT_ESTIMATED] = {"estimated scratch memory", "", add_calls},
    [MT_CAVEAT_ASSUMED] = {"values that were not computed", "; see --assume", add_assumed},
    [MT_CAVEAT_GROWTH] = {"live memory grows", "", add_growth},
    [MT_CAVEAT_WEIGHTS] = {"weights from the configuration, not from a checkpoint", "", add_named},
    [MT_CAVEAT_CHOICE] = {"a card takes the fastest variant, here assumed", "", add_choice},
    [MT_CAVEAT_EAGER] = {"torch.compile was left out, the bytes are the eager program's", "", add_named},
    [MT_CAVEAT_OTHER_CARD] = {"memory on a card that is not this rank's own",
                              "; see torch.cuda.set_device, and map_location of torch.load", add_card},
    [MT_CAVEAT_NOT_UPDATED] = {"gradients that no optimizer uses", "; see requires_grad_(False) and torch.no_grad()",
                               add_gradients},
    [MT_CAVEAT_NOT_DETACHED] = {"gradients that are cleared without a use", "; see detach()", add_cleared},
    [MT_CAVEAT_ZEROED] = {"gradients that are kept as zeros", "; see zero_grad(set_to_none=True)", add_gradients},
};

static void add_list(const struct mt_caveat_list *list, const struct kind_words *words, struct mt_text *out)
{
    mt_text_add(out, "%s: ", words->begin);
    for (size_t i = 0; i < list->count && i < MOST_NAMED; i++) {
        mt_text_add(out, i > 0 ? ", " : "");
        words->add(&list->rows[i], out);
    }
    if (list->count > MOST_NAMED)
        mt_text_add(out, " and %zu more", list->count - MOST_NAMED);
    mt_text_add(out, "%s\n", words->end);
}

/* Adds who holds what grows, and checkpoints on the card. */
static void add_observations(const struct mt_observations *observations, struct mt_text *out)
{
    const struct mt_holder_row *said = NULL;
    for (size_t i = 0; i < observations->count; i++) {
        const struct mt_observed *observed = &observations->items[i];
        if (observed->kind == MT_OBSERVED_CHECKPOINT || observed->kind == MT_OBSERVED_WEIGHT_COPY)
            mt_observed_add(observed, out);
        else if (observed->holder != NULL && observed->holder != said)
            mt_holder_add(observed->holder, out);
        else
            continue;
        said = observed->holder;
        mt_text_add(out, "\n");
    }
}

static bool is_wide(const struct mt_peak_range *range)
{
    return range->high_bytes > range->low_bytes;
}

/* Adds "15.20 GiB to 15.43 GiB"; one size if both read alike. */
static void add_sizes(const struct mt_peak_range *range, struct mt_text *out)
{
    const char *low = MT_SIZE(range->low_bytes), *high = MT_SIZE(range->high_bytes);
    mt_text_add(out, "%s", low);
    if (strcmp(low, high) != 0)
        mt_text_add(out, " to %s", high);
}

/* Adds "range of the estimates: peak 15.20 GiB to 15.43 GiB live, needs 16.20 GiB to 16.43 GiB, which may not fit". */
static void add_range(const struct mt_verdict *verdict, struct mt_text *out)
{
    const struct mt_peak_range *live = &verdict->live_range, *needed = &verdict->needed_range;
    if (!verdict->has_bounds || verdict->is_out_of_memory)
        return;
    if (!is_wide(live) && !is_wide(needed)) {
        mt_text_add(out, "range of the estimates: no peak depends on them\n");
        return;
    }
    mt_text_add(out, "range of the estimates: peak ");
    add_sizes(live, out);
    mt_text_add(out, " live, needs ");
    add_sizes(needed, out);
    if (verdict->fits && needed->high_bytes > verdict->card_bytes)
        mt_text_add(out, ", which may not fit");
    else if (!verdict->fits && needed->low_bytes <= verdict->card_bytes)
        mt_text_add(out, ", which may fit");
    mt_text_add(out, "\n");
}

void mt_verdict_add_caveats(const struct mt_verdict_row *row, struct mt_text *out)
{
    for (int kind = 0; kind < MT_CAVEAT_KIND_COUNT; kind++) {
        if (row->caveats.of[kind].count > 0)
            add_list(&row->caveats.of[kind], &kinds[kind], out);
        if (kind == MT_CAVEAT_ESTIMATED)
            add_range(&row->verdict, out);
    }
    add_observations(&row->observations, out);
}

/* True if a variant that was not used requests other bytes. */
static bool has_differing_choice(const struct mt_caveat_list *choices)
{
    for (size_t i = 0; i < choices->count; i++)
        if (choices->rows[i].count > 0)
            return true;
    return false;
}

bool mt_verdict_is_uncertain(const struct mt_verdict_row *row)
{
    const struct mt_caveat_list *of = row->caveats.of;
    return of[MT_CAVEAT_UNKNOWN].count > 0 || of[MT_CAVEAT_ESTIMATED].count > 0 || of[MT_CAVEAT_NOT_RUN].count > 0 ||
           of[MT_CAVEAT_GROWTH].count > 0 || of[MT_CAVEAT_EAGER].count > 0 ||
           has_differing_choice(&of[MT_CAVEAT_CHOICE]);
}
