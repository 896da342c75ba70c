/* One page over HTTP on the loopback: what `GET /metrics` asks for. Requests are answered one at a time, each read and written
 * within a second, at most 4 KiB of it read.
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/* Opens a socket that listens on 127.0.0.1:port, which no child inherits. Fails if the port is taken. */
mt_status mt_metrics_port_open(int64_t port, int *out_socket);

/* Takes one connection that waits at the socket, and answers with what `page` appends. */
void mt_metrics_port_answer(int socket, void (*page)(void *context, struct mt_text *out), void *context);
