#include "producers/torch/torch_convolution.h"

#include "base/lock.h"
#include "operators/cudnn/cudnn_source.h"
#include "operators/cudnn_plan.h"

#include <inttypes.h>
#include <stdio.h>

/* Why convolutions are estimates. */
enum reason { NO_LIBRARY, NO_ANSWER, BENCHMARKED, NOT_CHECKED, NOT_CHOSEN, REASON_COUNT };

enum { MOST_WORDS = 512 };

static struct {
    struct mt_lock lock;
    struct mt_cudnn_source *source; /* NULL: there is no libcudnn */
    uint64_t counts[REASON_COUNT];
    char words[REASON_COUNT][MOST_WORDS];
} convolutions;

static void describe(enum reason reason, const struct mt_card *card)
{
    char *words = convolutions.words[reason];
    const int64_t version = convolutions.source != NULL ? mt_cudnn_source_version(convolutions.source) : 0;
    if (reason == NO_LIBRARY)
        snprintf(words, MOST_WORDS, "convolutions without libcudnn: " MT_CUDNN_ADVICE);
    else if (reason == NO_ANSWER)
        snprintf(words, MOST_WORDS, "convolutions without an answer: %s", mt_cudnn_source_error(convolutions.source));
    else if (reason == BENCHMARKED)
        snprintf(words, MOST_WORDS, "convolutions under torch.backends.cudnn.benchmark, without its trials");
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
static enum reason reason_of_estimate(const struct mt_card *card, const struct mt_convolution_question *question)
{
    return question->is_benchmarked                                                  ? BENCHMARKED
           : mt_cudnn_is_checked(mt_cudnn_source_version(convolutions.source), card) ? NOT_CHOSEN
                                                                                     : NOT_CHECKED;
}

static bool ask(void *state, const struct mt_card *card, const struct mt_convolution_question *question,
                struct mt_convolution_answer *out)
{
    (void)state;
    const bool is_answered =
        convolutions.source != NULL && mt_cudnn_source_ask(convolutions.source, card, question, out);
    if (!is_answered || out->is_estimate)
        count(is_answered ? reason_of_estimate(card, question) : reason_of_none(), card);
    return is_answered;
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
