/* One page over HTTP on the loopback: what `GET /metrics` asks for.
 *
 *   listener ──accept──▶ connection: request, at most 4 KiB ──▶ answer ──▶ closed, at the latest a second after it came
 *
 * Several connections are served at once, none of which another or the caller waits for. Answers go only to requests whose
 * Host is this machine's name for itself, so a page in a browser can't read them through a name of its own (DNS rebinding).
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* A port that is served. */
struct mt_metrics_port;

/* Listens on 127.0.0.1:port with a socket that no child inherits; 0: nowhere. Fails if the port is taken. The caller closes
 * *out. */
mt_status mt_metrics_port_open(int64_t port, struct mt_metrics_port **out);

/* Ends all connections. NULL is allowed. */
void mt_metrics_port_close(struct mt_metrics_port *port);

/* Serves what clients ask for until something has happened, at most for so many milliseconds. Requests are answered with what
 * `page` appends. Returns false once the file `stop` can be read. */
bool mt_metrics_port_serve(struct mt_metrics_port *port, int stop, int most_ms,
                           void (*page)(void *context, struct mt_text *out), void *context);
