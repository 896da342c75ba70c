/* An interpreter that has imported PyTorch, and forks a process for each of several dry runs of the same script
 * (python/memtrace/dry/server.py). Its processes are only faster than interpreters that are started one by one. If they
 * could differ in anything else, the server declines, and an interpreter is started.
 *
 *   this process ──request──▶ server ──fork──▶ process of a dry run
 *                ◀──its pid───                 which this process adopts, and waits for
 *
 * A request is its length (8 bytes), with the files for stdout and stderr, and then texts, each ended by NUL: the index
 * of the script among the words, the number of words, the words, and the environment's entries. The answer is a pid (8
 * bytes); 0: declined.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/program/child_program.h"

#include <stdbool.h>

/* Zero-initialized: was not started. */
struct mt_python_server {
    bool was_started;
    pid_t pid; /* 0: it does not run */
    int socket;
    char **words; /* an array for MT_HOST_ADD: of the interpreter and its options, and the script; owned */
    size_t count;
    int adopted_before; /* whether this process adopted processes before */
};

/* Ends the server. Its forked processes continue. */
void mt_python_server_end(struct mt_python_server *server);

/* Starts a program like mt_child_start, as a process of the server if possible. The first call that can be served
 * starts the server, which takes as long as the imports. `server` may be NULL. */
mt_status mt_python_server_start(struct mt_python_server *server, struct mt_children *children, char *const *words,
                                 const struct mt_environment *environment, int output, pid_t *out, int *out_code);
