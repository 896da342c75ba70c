/* One page over HTTP on the loopback, for `GET /metrics`.
 *
 *   listener ──accept──▶ connection: request, at most 4 KiB ──▶ answer ──▶ closed, at the latest a second after it came
 *
 * Several connections are served at once. None waits for another, and the caller waits for none. Only requests whose
 * Host is a name of the loopback are answered, so a page in a browser can't read them through its own name (DNS
 * rebinding).
 *
 * Threads: one at a time. */
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* A served port. */
struct mt_metrics_port;

/* Listens on 127.0.0.1:port with a socket that no child inherits; 0: nowhere. Fails if the port is in use. The caller
 * closes *out. */
mt_status mt_metrics_port_open(int64_t port, struct mt_metrics_port **out);

/* Ends all connections. NULL is allowed. */
void mt_metrics_port_close(struct mt_metrics_port *port);

/* Serves clients until something has happened, for at most `most_ms` milliseconds. `page` appends the
 * answer to a request. Returns false once the file `stop` is readable. */
bool mt_metrics_port_serve(struct mt_metrics_port *port, int stop, int most_ms,
                           void (*page)(void *context, struct mt_text *out), void *context);
