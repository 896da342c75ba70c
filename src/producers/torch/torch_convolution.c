#include "producers/torch/torch_convolution.h"

#include "base/lock.h"
#include "base/number_map.h"
#include "base/random.h"
#include "operators/cudnn/cudnn_source.h"
#include "operators/cudnn_plan.h"
#include "producers/torch/memtrace_torch.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Why convolutions are estimates. */
enum reason { NO_LIBRARY, NO_ANSWER, BENCHMARKED, NOT_CHECKED, NOT_CHOSEN, REASON_COUNT };

enum { MOST_WORDS = 512 };

static struct {
    struct mt_lock lock;
    struct mt_cudnn_source *source; /* NULL: there is no libcudnn */
    uint64_t counts[REASON_COUNT];
    char words[REASON_COUNT][MOST_WORDS];
    struct mt_number_map kept; /* by place_of: the plan that a thread's call took */
    atomic_bool keeps_cache;   /* after plans were tried */
} convolutions = {.lock = MT_LOCK(MT_RANK_LEAF)};

static void describe(enum reason reason, const struct mt_card *card)
{
    char *words = convolutions.words[reason];
    const int64_t version = convolutions.source != NULL ? mt_cudnn_source_version(convolutions.source) : 0;
    if (reason == NO_LIBRARY)
        snprintf(words, MOST_WORDS, "convolutions without libcudnn: " MT_CUDNN_ADVICE);
    else if (reason == NO_ANSWER)
        snprintf(words, MOST_WORDS, "convolutions without an answer: %s", mt_cudnn_source_error(convolutions.source));
    else if (reason == BENCHMARKED)
        snprintf(words, MOST_WORDS,
                 "convolutions under torch.backends.cudnn.benchmark, which takes the fastest of several kernels");
    else if (reason == NOT_CHECKED)
        snprintf(words, MOST_WORDS, "convolutions of cuDNN %" PRId64 ".%" PRId64 ", not checked on %s", version / 10000,
                 version / 100 % 100, card->name);
    else
        snprintf(words, MOST_WORDS, "convolutions whose kernel a card would have to choose");
}

static void count(enum reason reason, const struct mt_card *card)
{
    mt_lock_take(&convolutions.lock);
    if (convolutions.counts[reason]++ == 0)
        describe(reason, card);
    mt_lock_give(&convolutions.lock);
}

/* Returns why there is no answer. */
static enum reason reason_of_none(void)
{
    return convolutions.source == NULL                             ? NO_LIBRARY
           : mt_cudnn_source_error(convolutions.source)[0] != '\0' ? NO_ANSWER
                                                                   : NOT_CHOSEN;
}

/* Returns why an answer is an estimate. */
static enum reason reason_of_estimate(const struct mt_card *card, const struct mt_convolution_call *call)
{
    return call->is_benchmarked                                                      ? BENCHMARKED
           : mt_cudnn_is_checked(mt_cudnn_source_version(convolutions.source), card) ? NOT_CHOSEN
                                                                                     : NOT_CHECKED;
}

/* ---- what a thread runs ---- */

/* The convolution that this thread planned last. */
static _Thread_local uint64_t last_planned = MT_NUMBER_MAP_NO_KEY;

/* Returns a number of this thread's for a convolution: PyTorch keeps plans by sizes, and each thread its own. */
static uint64_t place_of(const struct mt_convolution_question *question)
{
    static _Thread_local uint64_t thread;
    static _Atomic uint64_t threads;
    uint64_t word, digest;
    if (thread == 0)
        thread = ++threads;
    digest = thread;
    for (size_t i = 0; i + sizeof word <= sizeof *question; i += sizeof word) {
        memcpy(&word, (const char *)question + i, sizeof word);
        digest = mt_splitmix64(digest ^ word);
    }
    return digest;
}

/* Gets the plan that this thread's last call with these sizes took. False if there was none. */
static bool find_kept(uint64_t *out)
{
    mt_lock_take(&convolutions.lock);
    if (convolutions.kept.pairs == NULL)
        mt_number_map_create(&convolutions.kept);
    const bool is_kept = mt_number_map_get(&convolutions.kept, last_planned, out);
    mt_lock_give(&convolutions.lock);
    return is_kept;
}

void mt_torch_convolutions_took(int plan)
{
    mt_lock_take(&convolutions.lock);
    mt_number_map_put(&convolutions.kept, last_planned, (uint64_t)plan);
    mt_lock_give(&convolutions.lock);
}

void mt_torch_convolutions_tried(void)
{
    if (!convolutions.keeps_cache)
        memtrace_torch_reset();
}

void mt_torch_convolutions_keep_cache(bool keeps_cache)
{
    convolutions.keeps_cache = keeps_cache;
}

/* Plans after the first are asked for if they are tried, or one was taken. */
static bool ask(void *state, const struct mt_card *card, const struct mt_convolution_question *question,
                const struct mt_convolution_call *call, struct mt_convolution_run *out)
{
    struct mt_convolution_question asked = *question;
    uint64_t kept = 0;
    (void)state;
    last_planned = place_of(question);
    const bool is_kept = find_kept(&kept) && !call->is_short;
    asked.wants_all = call->is_benchmarked || call->is_short || kept > 0;
    const bool is_answered =
        convolutions.source != NULL && mt_cudnn_source_ask(convolutions.source, card, &asked, &out->answer);
    if (!is_answered || out->answer.is_estimate || call->is_benchmarked)
        count(is_answered ? reason_of_estimate(card, call) : reason_of_none(), card);
    if (!is_answered)
        return false;
    if (call->is_benchmarked)
        out->answer.range = mt_convolution_choice_range(&out->answer);
    out->first = is_kept && (int64_t)kept < out->answer.count ? (int64_t)kept : 0;
    if (!call->is_benchmarked && out->first > 0)
        out->answer.range = (struct mt_byte_range){0}; /* of another plan */
    out->is_trial = call->is_benchmarked && !is_kept;
    mt_torch_convolutions_took((int)out->first);
    return true;
}

const struct mt_convolution_source *mt_torch_convolutions(void)
{
    static const struct mt_convolution_source source = {.ask = ask};
    return &source;
}

void mt_torch_convolutions_ask(const char *program, const char *library, const char *folder)
{
    mt_cudnn_source_close(convolutions.source);
    convolutions.source = mt_cudnn_source_open(program, library, folder);
}

const char *mt_torch_convolutions_estimate(int place, uint64_t *out_calls)
{
    const char *words = NULL;
    mt_lock_take(&convolutions.lock);
    for (int reason = 0; reason < REASON_COUNT && words == NULL; reason++)
        if (convolutions.counts[reason] > 0 && place-- == 0) {
            words = convolutions.words[reason];
            *out_calls = convolutions.counts[reason];
        }
    mt_lock_give(&convolutions.lock);
    return words;
}
