/* A peer in a process of its own that measures when it is asked to, so that it and we can take turns in one run:
 *
 *   we write    pair 4096 50000        a line of words on its stdin
 *   it writes   712.4                  a line of numbers on its stdout, or "failed"
 *
 * Before that it writes "ready", once it is; where its library or a card is missing it ends instead, and every answer
 * is NAN. What it says on stderr passes through. It ends when its stdin does; one that says nothing for longer than any
 * model takes to compile is ended, with all that it has started. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEER_MOST_SECONDS = 540 };

struct peer {
    pid_t process; /* and the group of what it starts; 0: there is none */
    FILE *to, *from;
    int most_seconds; /* for an answer */
};

/* Waits for a line; it is never behind another, since each is asked for. */
static inline void peer_wait(struct peer *peer)
{
    struct pollfd said = {.fd = fileno(peer->from), .events = POLLIN, .revents = 0};
    int count;
    do
        count = poll(&said, 1, peer->most_seconds * 1000);
    while (count < 0 && errno == EINTR);
    if (count != 0)
        return;
    fprintf(stderr, "a peer has said nothing for %d s: it is ended\n", peer->most_seconds);
    kill(-peer->process, SIGKILL);
}

/* Reads a line into `line`, without its end; false if there is none. */
static inline bool peer_read(struct peer *peer, char *line, size_t bytes)
{
    peer_wait(peer);
    if (fgets(line, (int)bytes, peer->from) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static inline void peer_close(struct peer *peer)
{
    if (peer->process == 0)
        return;
    fclose(peer->to);
    fclose(peer->from);
    waitpid(peer->process, NULL, 0);
    peer->process = 0;
    peer->to = peer->from = NULL;
}

/* In the child: becomes the shell's command. The pipes' own ends close with that. */
static inline void peer_become(const char *command, const int in[2], const int out[2])
{
    setpgid(0, 0);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static inline void peer_close_pipe(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* Starts a shell's command as a peer, which is to be awaited. NULL: there is none. Our ends of the pipes close in every
 * process that is started later: a peer that held another's would keep that from ever reading its end. */
static inline struct peer peer_start(const char *command)
{
    const struct peer none = {0, NULL, NULL, 0};
    struct peer peer = {0, NULL, NULL, PEER_MOST_SECONDS};
    int in[2], out[2];
    if (command == NULL || pipe2(in, O_CLOEXEC) != 0)
        return none;
    if (pipe2(out, O_CLOEXEC) != 0) {
        peer_close_pipe(in);
        return none;
    }
    signal(SIGPIPE, SIG_IGN); /* one that has ended is seen by what it no longer answers */
    fflush(NULL);
    peer.process = fork();
    if (peer.process == 0)
        peer_become(command, in, out);
    if (peer.process < 0) {
        peer_close_pipe(in);
        peer_close_pipe(out);
        return none;
    }
    setpgid(peer.process, peer.process); /* here and there, since either may come first */
    close(in[0]);
    close(out[1]);
    peer.to = fdopen(in[1], "w");
    peer.from = fdopen(out[0], "r");
    return peer;
}

/* Waits until it is ready; from then on there is none if it has ended instead. */
static inline void peer_await(struct peer *peer)
{
    char line[64];
    if (peer->process == 0 || (peer_read(peer, line, sizeof line) && strcmp(line, "ready") == 0))
        return;
    fprintf(stderr, "a peer has ended before it was ready\n");
    peer_close(peer);
}

static inline struct peer peer_open(const char *command)
{
    struct peer peer = peer_start(command);
    peer_await(&peer);
    return peer;
}

static inline bool peer_is_there(const struct peer *peer)
{
    return peer->process != 0;
}

/* Asks for `count` numbers; all NAN if there is no peer or it failed. */
static inline void peer_ask(struct peer *peer, double *numbers, int count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static inline void peer_ask(struct peer *peer, double *numbers, int count, const char *format, ...)
{
    char line[4096] = "";
    for (int i = 0; i < count; i++)
        numbers[i] = NAN;
    if (!peer_is_there(peer))
        return;
    va_list values;
    va_start(values, format);
    vfprintf(peer->to, format, values);
    va_end(values);
    fputc('\n', peer->to);
    fflush(peer->to);
    char *rest = peer_read(peer, line, sizeof line) ? line : NULL;
    for (int i = 0; i < count && rest != NULL; i++) {
        char *end;
        double number = strtod(rest, &end);
        if (end == rest)
            break;
        numbers[i] = number;
        rest = end;
    }
}
