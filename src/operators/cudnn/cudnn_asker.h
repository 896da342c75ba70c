/* A helper process that asks cuDNN (helper/cudnn_helper.c), as whoever asks sees it. If it crashes, hangs or can't
 * begin, a function fails and says why; it is then of no further use. One thread at a time. */
#pragma once

#include "base/status.h"
#include "operators/cudnn/cudnn_messages.h"

struct mt_cudnn_asker;

/* How a helper is started. */
struct mt_cudnn_start {
    const char *program, *library; /* paths of the helper and of libcudnn.so.9 */
    const char *properties;        /* of the card (device/card_properties.h) */
    int seconds;                   /* that a question may take */
};

/* Starts a helper and waits for its greeting. The caller stops *out. Fails with MT_FAILED. */
mt_status mt_cudnn_asker_start(const struct mt_cudnn_start *start, struct mt_cudnn_asker **out);

/* Stops the helper, which ends by itself soon after. NULL: does nothing. */
void mt_cudnn_asker_stop(struct mt_cudnn_asker *asker);

/* Returns the version of cuDNN: 91900 is 9.19.0. */
int64_t mt_cudnn_asker_version(const struct mt_cudnn_asker *asker);

/* Asks. Fails with MT_FAILED if there is no answer in time. */
mt_status mt_cudnn_asker_ask(struct mt_cudnn_asker *asker, const struct mt_convolution_question *question,
                             struct mt_cudnn_plans *out);
