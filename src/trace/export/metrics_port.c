#include "trace/export/metrics_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST_REQUEST_BYTES = 4096, WAITING_CONNECTIONS = 8 };

static mt_status listen_at(int file, int64_t port)
{
    const struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    (void)setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(file, (const struct sockaddr *)&place, sizeof place) == 0 && listen(file, WAITING_CONNECTIONS) == 0)
        return MT_OK;
    return mt_fail(MT_FAILED, "can't serve metrics at 127.0.0.1:%" PRId64 ": %s", port, strerror(errno));
}

mt_status mt_metrics_port_open(int64_t port, int *out_socket)
{
    *out_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*out_socket < 0)
        return mt_fail(MT_FAILED, "can't serve metrics: %s", strerror(errno));
    mt_status status = listen_at(*out_socket, port);
    if (status != MT_OK) {
        close(*out_socket);
        *out_socket = -1;
    }
    return status;
}

/* Reads the head of a request, up to its empty line. False if it is longer than the buffer, or doesn't come. */
static bool read_request(int connection, char *buffer)
{
    size_t length = 0;
    while (length < MOST_REQUEST_BYTES - 1) {
        const ssize_t got = recv(connection, buffer + length, MOST_REQUEST_BYTES - 1 - length, 0);
        if (got <= 0)
            return false;
        length += (size_t)got;
        buffer[length] = '\0';
        if (strstr(buffer, "\r\n\r\n") != NULL || strstr(buffer, "\n\n") != NULL)
            return true;
    }
    return false;
}

static void send_all(int connection, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t sent = send(connection, data, bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        data += sent;
        bytes -= (size_t)sent;
    }
}

/* Returns the status line of the answer to a request: only the page is there, and only to be read. */
static const char *status_of(const char *request)
{
    static const char *const pages[] = {"/metrics ", "/metrics?"};
    if (strncmp(request, "GET ", strlen("GET ")) != 0)
        return "405 Method Not Allowed";
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strncmp(request + strlen("GET "), pages[i], strlen(pages[i])) == 0)
            return "200 OK";
    return "404 Not Found";
}

static void answer(int connection, void (*page)(void *context, struct mt_text *out), void *context)
{
    char request[MOST_REQUEST_BYTES];
    struct mt_text head = {0}, body = {0};
    const char *status = read_request(connection, request) ? status_of(request) : "400 Bad Request";
    if (strcmp(status, "200 OK") == 0)
        page(context, &body);
    else
        mt_text_add(&body, "%s: metrics are at /metrics\n", status);
    mt_text_add(&head,
                "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n",
                status, body.length);
    send_all(connection, head.data, head.length);
    send_all(connection, mt_text_get(&body), body.length);
    mt_text_release(&head);
    mt_text_release(&body);
}

void mt_metrics_port_answer(int socket, void (*page)(void *context, struct mt_text *out), void *context)
{
    const struct timeval most = {.tv_sec = 1};
    const int connection = accept4(socket, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0)
        return;
    (void)setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    (void)setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    answer(connection, page, context);
    close(connection);
}
