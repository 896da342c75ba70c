#include "producers/program/python_server.h"

#include "base/memory.h"
#include "base/text.h"
#include "producers/program/program_words.h"
#include "producers/program/python_start.h"
#include "run/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUTS = 2, ENDED_BY_SIGNAL = 128 };

/* ---- the server ---- */

/* Reads a number from the server. False if the server has ended, or a signal requests this process's end. */
static bool read_number(const struct mt_python_server *server, struct mt_children *children, int64_t *out)
{
    enum { LOOK_MS = 100 };
    struct pollfd socket = {.fd = server->socket, .events = POLLIN};
    while (children->ending == 0 && poll(&socket, 1, LOOK_MS) <= 0)
        mt_children_take_signals(children);
    return children->ending == 0 && recv(server->socket, out, sizeof *out, MSG_WAITALL) == sizeof *out;
}

/* Ends the process of the server. */
static void stop(struct mt_python_server *server)
{
    if (server->pid == 0)
        return;
    close(server->socket);
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    prctl(PR_SET_CHILD_SUBREAPER, server->adopted_before, 0, 0, 0);
    server->pid = 0;
}

void mt_python_server_end(struct mt_python_server *server)
{
    stop(server);
    for (size_t i = 0; i < server->count; i++)
        free(server->words[i]);
    free(server->words);
    *server = (struct mt_python_server){0};
}

/* Starts the process, with one end of the socket. It prints nothing: its processes get their files with each
 * request. */
static mt_status start_process(struct mt_python_server *server, struct mt_children *children, char *const *words,
                               const struct mt_environment *environment, int end)
{
    struct mt_environment own;
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0)
        return mt_fail(MT_FAILED, "can't open /dev/null: %s", strerror(errno));
    mt_environment_copy_of(environment, &own);
    mt_server_give(end, &own);
    mt_status status = mt_helper_start(children, words, &own, nowhere, end, &server->pid);
    mt_environment_release(&own);
    close(nowhere);
    return status;
}

/* Starts the server, and waits until its imports are done. If that fails, the server does not run. */
static void start(struct mt_python_server *server, struct mt_children *children, char *const *words, size_t script,
                  const struct mt_environment *environment)
{
    int ends[2];
    int64_t ready;
    server->was_started = true;
    for (size_t i = 0; i <= script; i++)
        *MT_HOST_ADD(server->words, server->count) = mt_host_strdup(words[i]);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    server->socket = ends[0];
    prctl(PR_GET_CHILD_SUBREAPER, &server->adopted_before, 0, 0, 0);
    if (start_process(server, children, words, environment, ends[1]) != MT_OK) {
        server->pid = 0;
        close(ends[0]);
        close(ends[1]);
        return;
    }
    close(ends[1]);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (!read_number(server, children, &ready))
        stop(server);
}

/* ---- requests ---- */

/* Adds texts, each with its NUL. */
static void add_texts(struct mt_text *out, char *const *texts)
{
    for (; *texts != NULL; texts++)
        mt_text_add(out, "%s%c", *texts, '\0');
}

static void make_request(char *const *words, size_t script, const struct mt_environment *environment,
                         struct mt_text *out)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    mt_text_add(out, "%zu%c%zu%c", script, '\0', count, '\0');
    add_texts(out, words);
    add_texts(out, environment->entries);
}

/* Sends the length of a request, with the files that its process prints to. */
static bool send_head(int socket, uint64_t length, int output)
{
    const int outputs[OUTPUTS] = {output != MT_OWN_OUTPUT ? output : STDOUT_FILENO,
                                  output != MT_OWN_OUTPUT ? output : STDERR_FILENO};
    union {
        char bytes[CMSG_SPACE(sizeof outputs)];
        struct cmsghdr aligned;
    } control = {{0}};
    struct iovec data = {&length, sizeof length};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *files = CMSG_FIRSTHDR(&message);
    files->cmsg_level = SOL_SOCKET;
    files->cmsg_type = SCM_RIGHTS;
    files->cmsg_len = CMSG_LEN(sizeof outputs);
    memcpy(CMSG_DATA(files), outputs, sizeof outputs);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof length;
}

static bool send_all(int socket, const char *data, size_t length)
{
    while (length > 0) {
        const ssize_t sent = send(socket, data, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Requests a process. Returns 0 if the server declines or has ended. */
static pid_t request(struct mt_python_server *server, struct mt_children *children, char *const *words, size_t script,
                     const struct mt_environment *environment, int output)
{
    struct mt_text text = {0};
    int64_t pid = 0;
    make_request(words, script, environment, &text);
    if (!send_head(server->socket, text.length, output) || !send_all(server->socket, text.data, text.length) ||
        !read_number(server, children, &pid))
        stop(server);
    mt_text_release(&text);
    return (pid_t)pid;
}

static bool has_words(const struct mt_python_server *server, char *const *words, size_t script)
{
    for (size_t i = 0; i < server->count; i++)
        if (i > script || strcmp(words[i], server->words[i]) != 0)
            return false;
    return server->count == script + 1;
}

/* True if the interpreter is a binary. A script instead may run other code, which would run a second time for the
 * server. */
static bool is_binary(const char *interpreter)
{
    static const char elf[] = {'\x7f', 'E', 'L', 'F'};
    char *path = mt_program_find(interpreter), head[sizeof elf];
    FILE *file = path != NULL ? fopen(path, "rb") : NULL;
    const bool is_elf = file != NULL && fread(head, sizeof head, 1, file) == 1 && memcmp(head, elf, sizeof elf) == 0;
    if (file != NULL)
        fclose(file);
    free(path);
    return is_elf;
}

/* Returns a process of the server; 0 if the program must be started without it. */
static pid_t start_served(struct mt_python_server *server, struct mt_children *children, char *const *words,
                          const struct mt_environment *environment, int output)
{
    const size_t script = mt_python_script(words);
    if (script == 0 || !is_binary(words[0]))
        return 0;
    if (!server->was_started)
        start(server, children, words, script, environment);
    if (server->pid == 0 || !has_words(server, words, script))
        return 0;
    return request(server, children, words, script, environment, output);
}

mt_status mt_python_server_start(struct mt_python_server *server, struct mt_children *children, char *const *words,
                                 const struct mt_environment *environment, int output, pid_t *out, int *out_code)
{
    const pid_t pid = server != NULL ? start_served(server, children, words, environment, output) : 0;
    if (pid > 0) {
        mt_child_adopt(children, pid);
        *out = pid;
        return MT_OK;
    }
    if (children->ending == 0)
        return mt_child_start(children, words, environment, output, out, out_code);
    *out_code = ENDED_BY_SIGNAL + children->ending;
    return mt_fail(MT_FAILED, "interrupted");
}
