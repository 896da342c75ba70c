#include "operators/cudnn/cudnn_source.h"

#include "base/lock.h"
#include "base/memory.h"
#include "device/card_properties.h"
#include "operators/cudnn/cudnn_answers.h"
#include "operators/cudnn/cudnn_asker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIME_LIMIT_SECONDS = 60 }; /* the first question reads 300 MB from disk */

/* Invariants: asker and answers are both there or both NULL; both are NULL once has_failed is true. The mutex guards
 * all but the atomic fields. */
struct mt_cudnn_source {
    struct mt_mutex mutex;
    char *program, *library, *folder;
    struct mt_cudnn_asker *asker;
    struct mt_cudnn_answers *answers;
    pid_t process; /* that started the helper; one that is forked from it starts its own */
    _Atomic int64_t version;
    atomic_bool has_failed;          /* `error` is written, and stays as it is */
    char error[MT_ERROR_TEXT_BYTES]; /* valid once has_failed is true */
};

struct mt_cudnn_source *mt_cudnn_source_open(const char *program, const char *library, const char *folder)
{
    struct mt_cudnn_source *source = mt_host_alloc(sizeof *source);
    mt_mutex_create(&source->mutex, MT_RANK_CUDNN);
    source->program = mt_host_strdup(program);
    source->library = mt_host_strdup(library);
    source->folder = folder != NULL ? mt_host_strdup(folder) : NULL;
    return source;
}

static void stop(struct mt_cudnn_source *source)
{
    mt_cudnn_asker_stop(source->asker);
    mt_cudnn_answers_close(source->answers);
    source->asker = NULL;
    source->answers = NULL;
}

void mt_cudnn_source_close(struct mt_cudnn_source *source)
{
    if (source == NULL)
        return;
    stop(source);
    mt_mutex_destroy(&source->mutex);
    free(source->program);
    free(source->library);
    free(source->folder);
    free(source);
}

/* Starts the helper, and reads the answers that are kept for its version of cuDNN and the card. */
static mt_status start_with(struct mt_cudnn_source *source, const char *properties)
{
    const struct mt_cudnn_start start = {source->program, source->library, properties, TIME_LIMIT_SECONDS};
    MT_TRY(mt_cudnn_asker_start(&start, &source->asker));
    source->process = getpid();
    source->version = mt_cudnn_asker_version(source->asker);
    source->answers = mt_cudnn_answers_open(source->folder, source->version, properties);
    return MT_OK;
}

static mt_status start(struct mt_cudnn_source *source, const struct mt_card *card)
{
    struct mt_text properties = {0};
    const mt_status status =
        mt_card_add_properties(card, &properties)
            ? start_with(source, mt_text_get(&properties))
            : mt_fail(MT_FAILED, "memtrace does not know the properties of %s that cuDNN needs", card->name);
    mt_text_release(&properties);
    return status;
}

/* Finds cuDNN's plans, or asks for them. */
static mt_status find_plans(struct mt_cudnn_source *source, const struct mt_card *card,
                            const struct mt_convolution_question *question, struct mt_cudnn_plans *out)
{
    if (source->asker != NULL && source->process != getpid())
        stop(source);
    if (source->asker == NULL)
        MT_TRY(start(source, card));
    const struct mt_cudnn_plans *kept = mt_cudnn_answers_find(source->answers, question);
    if (kept != NULL) {
        *out = *kept;
        return MT_OK;
    }
    MT_TRY(mt_cudnn_asker_ask(source->asker, question, out));
    mt_cudnn_answers_add(source->answers, question, out);
    return MT_OK;
}

bool mt_cudnn_source_ask(struct mt_cudnn_source *source, const struct mt_card *card,
                         const struct mt_convolution_question *question, struct mt_convolution_answer *out)
{
    struct mt_cudnn_plans plans;
    mt_mutex_take(&source->mutex);
    bool is_found = !source->has_failed;
    if (is_found && find_plans(source, card, question, &plans) != MT_OK) {
        snprintf(source->error, sizeof source->error, "%s", mt_last_error());
        stop(source);
        source->has_failed = true;
        is_found = false;
    }
    mt_mutex_give(&source->mutex);
    return is_found && mt_cudnn_plan_answer(source->version, card, question, &plans, out);
}

const char *mt_cudnn_source_error(const struct mt_cudnn_source *source)
{
    return source->has_failed ? source->error : "";
}

int64_t mt_cudnn_source_version(const struct mt_cudnn_source *source)
{
    return source->version;
}
