#include "operators/cudnn/cudnn_asker.h"

#include "base/environment.h"
#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE = 30, MS = 1000 }; /* the helper ends at its time limit; GRACE seconds later nobody waits for it */

struct mt_cudnn_asker {
    int socket, patience_ms;
    int64_t version;
};

/* ---- the process ---- */

/* Adds the folders of a wheel's other libraries: cuBLASLt and nvrtc, for CUDA 13 and 12. */
static void add_folders(const char *library, struct mt_text *out)
{
    static const char *const folders[] = {"", "/../../cu13/lib", "/../../cublas/lib", "/../../cuda_nvrtc/lib"};
    const char *slash = strrchr(library, '/');
    const int length = slash != NULL ? (int)(slash - library) : 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && length > 0; i++)
        mt_text_add(out, "%s%.*s%s", i > 0 ? ":" : "", length, library, folders[i]);
}

/* Describes the helper's environment: cuDNN finds its libraries, writes the log that the helper reads, and sees no
 * card. */
static void describe(const char *library, struct mt_environment *out)
{
    struct mt_text folders = {0};
    mt_environment_copy(out);
    const char *before = mt_environment_get(out, "LD_LIBRARY_PATH");
    add_folders(library, &folders);
    if (before != NULL)
        mt_text_add(&folders, ":%s", before);
    mt_environment_set(out, "LD_LIBRARY_PATH", mt_text_get(&folders));
    mt_environment_set(out, "CUDNN_LOGLEVEL_DBG", "3");
    mt_environment_set(out, "CUDNN_LOGDEST_DBG", NULL);
    mt_environment_set(out, "CUDA_VISIBLE_DEVICES", "");
    mt_text_release(&folders);
}

/* Starts the program with one end of the socket as its standard input. Returns an errno. */
static int spawn(const struct mt_cudnn_start *start, int end, pid_t *out)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", start->seconds);
    char *const words[] = {(char *)start->program, (char *)start->library, (char *)start->properties, seconds, NULL};
    struct mt_environment environment;
    posix_spawn_file_actions_t actions;
    describe(start->library, &environment);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, end, MT_CUDNN_SOCKET);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawn(out, start->program, &actions, NULL, words, environment.entries);
    posix_spawn_file_actions_destroy(&actions);
    mt_environment_release(&environment);
    return error;
}

/* Waits for the process that was started, which ends once it has a child that goes on. */
static void wait_for(pid_t child)
{
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* ---- messages ---- */

/* Receives a message of that size. */
static mt_status receive(const struct mt_cudnn_asker *asker, void *out, size_t bytes)
{
    struct pollfd waited = {.fd = asker->socket, .events = POLLIN};
    int count;
    do
        count = poll(&waited, 1, asker->patience_ms);
    while (count < 0 && errno == EINTR);
    if (count == 0)
        return mt_fail(MT_FAILED, "cuDNN did not answer within %d seconds", asker->patience_ms / MS);
    if (count < 0 || recv(asker->socket, out, bytes, 0) != (ssize_t)bytes)
        return mt_fail(MT_FAILED, "cuDNN ended without an answer");
    return MT_OK;
}

static mt_status greet(struct mt_cudnn_asker *asker, const char *library)
{
    struct mt_cudnn_greeting greeting;
    MT_TRY(receive(asker, &greeting, sizeof greeting));
    if (greeting.version == 0)
        return mt_fail(MT_FAILED, "%s: %.*s", library, (int)sizeof greeting.error, greeting.error);
    asker->version = greeting.version;
    return MT_OK;
}

mt_status mt_cudnn_asker_start(const struct mt_cudnn_start *start, struct mt_cudnn_asker **out)
{
    int ends[2];
    pid_t child;
    *out = NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return mt_fail(MT_FAILED, "can't make a socket: %s", strerror(errno));
    struct mt_cudnn_asker *asker = mt_host_alloc(sizeof *asker);
    asker->socket = ends[0];
    asker->patience_ms = (start->seconds + GRACE) * MS;
    const int error = spawn(start, ends[1], &child);
    close(ends[1]);
    if (error == 0)
        wait_for(child);
    const mt_status status = error == 0 ? greet(asker, start->library)
                                        : mt_fail(MT_FAILED, "can't start %s: %s", start->program, strerror(error));
    if (status != MT_OK) {
        mt_cudnn_asker_stop(asker);
        return status;
    }
    *out = asker;
    return MT_OK;
}

void mt_cudnn_asker_stop(struct mt_cudnn_asker *asker)
{
    if (asker == NULL)
        return;
    close(asker->socket);
    free(asker);
}

int64_t mt_cudnn_asker_version(const struct mt_cudnn_asker *asker)
{
    return asker->version;
}

/* A program that closes all files may have another file at the number of the socket: sending to a plain file fails. */
mt_status mt_cudnn_asker_ask(struct mt_cudnn_asker *asker, const struct mt_convolution_question *question,
                             struct mt_cudnn_plans *out)
{
    if (send(asker->socket, question, sizeof *question, MSG_NOSIGNAL) != (ssize_t)sizeof *question)
        return mt_fail(MT_FAILED, "cuDNN ended: %s", strerror(errno));
    return receive(asker, out, sizeof *out);
}
