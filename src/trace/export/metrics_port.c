#include "trace/export/metrics_port.h"

#include "base/clock.h"
#include "base/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_REQUEST_BYTES = 4096, CONNECTIONS = 8, DEADLINE_MS = 1000, NS_PER_MS = 1000000 };

enum { NO_FILE = -1 };

/* A client. Invariant: sent_bytes <= answer.length. It is read from until there is an answer, and written to from then
 * on. */
struct connection {
    int file; /* NO_FILE: free for another client */
    uint64_t deadline_ns;
    char request[MOST_REQUEST_BYTES]; /* ends with '\0' */
    size_t request_bytes;
    struct mt_text answer;
    size_t sent_bytes;
};

struct mt_metrics_port {
    int listener; /* NO_FILE: nothing is served */
    struct connection connections[CONNECTIONS];
};

static mt_status listen_at(int file, int64_t port)
{
    const struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    (void)setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(file, (const struct sockaddr *)&place, sizeof place) == 0 && listen(file, CONNECTIONS) == 0)
        return MT_OK;
    return mt_fail(MT_FAILED, "can't serve metrics at 127.0.0.1:%" PRId64 ": %s", port, strerror(errno));
}

static mt_status open_listener(struct mt_metrics_port *port, int64_t number)
{
    port->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (port->listener < 0)
        return mt_fail(MT_FAILED, "can't serve metrics: %s", strerror(errno));
    return listen_at(port->listener, number);
}

mt_status mt_metrics_port_open(int64_t port, struct mt_metrics_port **out)
{
    struct mt_metrics_port *opened = mt_host_alloc(sizeof *opened);
    opened->listener = NO_FILE;
    for (size_t i = 0; i < CONNECTIONS; i++)
        opened->connections[i] = (struct connection){.file = NO_FILE};
    mt_status status = port != 0 ? open_listener(opened, port) : MT_OK;
    *out = opened;
    if (status != MT_OK) {
        mt_metrics_port_close(opened);
        *out = NULL;
    }
    return status;
}

static void end(struct connection *connection)
{
    if (connection->file == NO_FILE)
        return;
    close(connection->file);
    mt_text_release(&connection->answer);
    *connection = (struct connection){.file = NO_FILE};
}

void mt_metrics_port_close(struct mt_metrics_port *port)
{
    if (port == NULL)
        return;
    for (size_t i = 0; i < CONNECTIONS; i++)
        end(&port->connections[i]);
    if (port->listener != NO_FILE)
        close(port->listener);
    free(port);
}

/* ---- a request ---- */

/* True if the value of a Host field is a name of the loopback, with or without a port. */
static bool is_own_host(const char *value)
{
    static const char *const names[] = {"localhost", "127.0.0.1"};
    value += strspn(value, " \t");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t length = strlen(names[i]);
        if (strncasecmp(value, names[i], length) == 0 && strchr(": \t\r\n", value[length]) != NULL)
            return true;
    }
    return false;
}

/* True if the request has a Host field, and every one names the loopback. */
static bool is_for_own_host(const char *request)
{
    static const char field[] = "host:";
    bool has_host = false;
    for (const char *line = strchr(request, '\n'); line != NULL; line = strchr(line + 1, '\n')) {
        if (strncasecmp(line + 1, field, strlen(field)) != 0)
            continue;
        if (!is_own_host(line + 1 + strlen(field)))
            return false;
        has_host = true;
    }
    return has_host;
}

/* Returns the status line of the answer to a request. There is only the page, and only GET. */
static const char *status_of(const char *request)
{
    static const char *const pages[] = {"/metrics ", "/metrics?"};
    if (strncmp(request, "GET ", strlen("GET ")) != 0)
        return "405 Method Not Allowed";
    if (!is_for_own_host(request))
        return "421 Misdirected Request";
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strncmp(request + strlen("GET "), pages[i], strlen(pages[i])) == 0)
            return "200 OK";
    return "404 Not Found";
}

/* The text of a page, which `add` appends. */
struct page {
    void (*add)(void *context, struct mt_text *out);
    void *context;
};

static void make_answer(const struct page *page, const char *status, struct mt_text *out)
{
    struct mt_text body = {0};
    if (strcmp(status, "200 OK") == 0)
        page->add(page->context, &body);
    else
        mt_text_add(&body, "%s: metrics are at http://localhost/metrics\n", status);
    mt_text_add(out,
                "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n%s",
                status, body.length, mt_text_get(&body));
    mt_text_release(&body);
}

/* Reads the next part of a request, and answers it at its empty line, at its end, or if it is too long. */
static void read_request(struct connection *connection, const struct page *page)
{
    char *request = connection->request;
    const size_t room = MOST_REQUEST_BYTES - 1 - connection->request_bytes;
    const ssize_t got = recv(connection->file, request + connection->request_bytes, room, 0);
    if (got < 0)
        return;
    connection->request_bytes += (size_t)got;
    request[connection->request_bytes] = '\0';
    if (strstr(request, "\r\n\r\n") != NULL || strstr(request, "\n\n") != NULL)
        make_answer(page, status_of(request), &connection->answer);
    else if (got == 0 || (size_t)got == room)
        make_answer(page, "400 Bad Request", &connection->answer);
}

/* Sends as much as the client accepts, and ends the connection after the answer. */
static void send_answer(struct connection *connection)
{
    const struct mt_text *answer = &connection->answer;
    const ssize_t sent = send(connection->file, answer->data + connection->sent_bytes,
                              answer->length - connection->sent_bytes, MSG_NOSIGNAL);
    if (sent > 0)
        connection->sent_bytes += (size_t)sent;
    if (connection->sent_bytes == answer->length || (sent < 0 && errno != EAGAIN && errno != EINTR))
        end(connection);
}

/* ---- the port ---- */

static void take_client(struct mt_metrics_port *port)
{
    size_t i = 0;
    while (i < CONNECTIONS && port->connections[i].file != NO_FILE)
        i++;
    const int file = i < CONNECTIONS ? accept4(port->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : NO_FILE;
    if (file < 0)
        return;
    port->connections[i].file = file;
    port->connections[i].deadline_ns = mt_clock_ns() + (uint64_t)DEADLINE_MS * NS_PER_MS;
}

/* Lists the files to wait for: the connections in their order, the listener if there is room for a client, and `stop`.
 * poll ignores -1. */
enum { LISTENER = CONNECTIONS, STOP, FILES };
static void list_files(const struct mt_metrics_port *port, int stop, struct pollfd out[FILES])
{
    bool has_room = false;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        const struct connection *connection = &port->connections[i];
        const bool is_read = connection->answer.length == 0;
        out[i] = (struct pollfd){.fd = connection->file, .events = is_read ? POLLIN : POLLOUT};
        has_room |= connection->file == NO_FILE;
    }
    out[LISTENER] = (struct pollfd){.fd = has_room ? port->listener : NO_FILE, .events = POLLIN};
    out[STOP] = (struct pollfd){.fd = stop, .events = POLLIN};
}

/* Returns the milliseconds until the first deadline, at most `most_ms`. */
static int wait_ms_of(const struct mt_metrics_port *port, int most_ms)
{
    const uint64_t now_ns = mt_clock_ns();
    for (size_t i = 0; i < CONNECTIONS; i++) {
        const struct connection *connection = &port->connections[i];
        const uint64_t deadline_ns = connection->file == NO_FILE ? UINT64_MAX : connection->deadline_ns;
        const uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / NS_PER_MS + 1 : 0;
        if (left_ms < (uint64_t)most_ms)
            most_ms = (int)left_ms;
    }
    return most_ms;
}

/* Serves a connection, which may be ready. */
static void serve(struct connection *connection, bool is_ready, const struct page *page)
{
    if (is_ready && connection->answer.length == 0)
        read_request(connection, page);
    if (connection->answer.length > 0)
        send_answer(connection);
    if (connection->file != NO_FILE && mt_clock_ns() >= connection->deadline_ns)
        end(connection);
}

bool mt_metrics_port_serve(struct mt_metrics_port *port, int stop, int most_ms,
                           void (*page)(void *context, struct mt_text *out), void *context)
{
    const struct page answered = {page, context};
    struct pollfd files[FILES];
    list_files(port, stop, files);
    if (poll(files, FILES, wait_ms_of(port, most_ms)) < 0)
        return true;
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (port->connections[i].file != NO_FILE)
            serve(&port->connections[i], files[i].revents != 0, &answered);
    if (files[LISTENER].revents != 0)
        take_client(port);
    return files[STOP].revents == 0;
}
