/* memtrace_cudnn: a process that asks cuDNN about convolutions on a card that is not there, so that cuDNN is never
 * loaded into a program that is run dry, and nothing that goes wrong in it ends that program.
 *
 *     memtrace_cudnn LIBRARY PROPERTIES SECONDS
 *
 * LIBRARY is the path of libcudnn.so.9, PROPERTIES the card's, in JSON. Answers over the socket that is its standard
 * input (cudnn_messages.h), until that is closed. A question that takes longer than SECONDS ends it. */
#include "operators/cudnn/cudnn_messages.h"
#include "operators/cudnn/helper/cudnn_chooser.h"
#include "operators/cudnn/helper/cudnn_reasons.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool send_all(const void *message, size_t bytes)
{
    return send(MT_CUDNN_SOCKET, message, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* Returns why cuDNN does not accept a card. Newer versions load the driver's library, which a machine without a card
 * lacks. */
static const char *reason_of_refusal(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY) != NULL
               ? "cuDNN does not accept the card's properties"
               : "this version of cuDNN needs NVIDIA's driver, libcuda.so.1; try " MT_CUDNN_ADVICE;
}

/* Loads cuDNN and describes the card. Returns why not, or NULL. */
static const char *load(const char *library, const char *properties, struct cudnn_backend *backend,
                        cudnn_descriptor *card)
{
    const char *error = cudnn_backend_load(library, backend);
    if (error != NULL)
        return error;
    if (backend->version() < MT_CUDNN_OLDEST)
        return "it is older than cuDNN 9.8; try " MT_CUDNN_ADVICE;
    cudnn_reasons_follow(backend);
    *card = cudnn_card(backend, properties);
    return *card != NULL ? NULL : reason_of_refusal();
}

static bool is_valid(const struct mt_convolution_question *question)
{
    return question->kind >= 0 && question->kind < MT_CONVOLUTION_KIND_COUNT && question->dims > 3 &&
           question->dims <= MT_CONVOLUTION_MOST_DIMS;
}

static void answer(struct cudnn_backend *backend, cudnn_descriptor card, unsigned seconds)
{
    struct mt_convolution_question question;
    struct mt_cudnn_plans plans;
    while (recv(MT_CUDNN_SOCKET, &question, sizeof question, 0) == sizeof question && is_valid(&question)) {
        alarm(seconds);
        cudnn_choose(backend, card, &question, &plans);
        alarm(0);
        if (!send_all(&plans, sizeof plans))
            return;
    }
}

/* Continues as a process that nobody waits for: the program that is run dry may wait for all of its children. */
static bool leave_parent(void)
{
    return fork() == 0 && setsid() >= 0;
}

int main(int argc, char **argv)
{
    struct cudnn_backend backend;
    struct mt_cudnn_greeting greeting = {0};
    cudnn_descriptor card = NULL;
    if (argc != 4) {
        fputs("memtrace_cudnn is started by memtrace's dry runs\n", stderr);
        return 2;
    }
    if (!leave_parent())
        return 0;
    const unsigned seconds = (unsigned)atoi(argv[3]);
    alarm(seconds);
    const char *error = load(argv[1], argv[2], &backend, &card);
    alarm(0);
    greeting.version = error == NULL ? (int64_t)backend.version() : 0;
    snprintf(greeting.error, sizeof greeting.error, "%s", error != NULL ? error : "");
    if (send_all(&greeting, sizeof greeting) && error == NULL)
        answer(&backend, card, seconds);
    return 0;
}
