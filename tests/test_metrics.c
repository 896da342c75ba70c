/* Metrics of a run that is being written, and its view on the screen. */
#include "trace/export/prometheus.h"
#include "trace/store/recorder.h"
#include "two_runs.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

/* ---- the format ---- */

static struct mt_watched run_of_rank(int64_t rank, const char *name)
{
    static const struct mt_watched_part categories[] = {{"FFN", 40}, {"a\"b\\c\n\xff", 2}};
    return (struct mt_watched){.run = 7,
                               .name = name,
                               .rank = rank,
                               .device = "NVIDIA H200",
                               .is_running = true,
                               .now = {42, 40, 64},
                               .peak = {50, 48, 64},
                               .categories = categories,
                               .category_count = 2};
}

static void metrics_of_one_name_stand_together_and_labels_are_escaped(void **state)
{
    (void)state;
    const struct mt_watched first = run_of_rank(0, "base\"line"), second = run_of_rank(1, NULL);
    const struct mt_watched *const runs[] = {&first, NULL, &second};
    struct mt_text text = {0};
    mt_prometheus_add(&text, runs, 3);
    assert_says(text.data, "# TYPE memtrace_allocated_bytes gauge\n"
                           "memtrace_allocated_bytes{run=\"base\\\"line\",rank=\"0\",device=\"NVIDIA H200\"} 42\n"
                           "memtrace_allocated_bytes{run=\"7\",rank=\"1\",device=\"NVIDIA H200\"} 42\n"
                           "# HELP");
    assert_says(text.data, "memtrace_category_allocated_bytes{run=\"7\",rank=\"1\",device=\"NVIDIA H200\","
                           "category=\"a\\\"b\\\\c\\\\x0a\\\\xff\"} 2\n");
    assert_says(text.data, "# TYPE memtrace_frees_total counter\n");
    mt_text_release(&text);
}

/* ---- a run ---- */

#define LONG_RUN TINY "--device sim --steps 60 --name long "

static void metrics_of_a_run_that_ended_are_in_the_file(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE(LONG_RUN "--metrics run.prom")->code, 0);
    json_t *answer = json_of(MEMTRACE("peak --json"));
    const json_int_t peak = integer_of(answer, "allocated_bytes");
    json_decref(answer);
    const struct said *said = shell("cat run.prom; ls -A");
    char expected[160];
    snprintf(expected, sizeof expected, "memtrace_peak_allocated_bytes{run=\"long\",device=\"sim:h200\"} %lld\n",
             (long long)peak);
    assert_says(said->out, expected);
    assert_says(said->out, "memtrace_steps_total{run=\"long\",device=\"sim:h200\"} 60\n");
    assert_says(said->out, "memtrace_running{run=\"long\",device=\"sim:h200\"} 0\n");
    assert_null(strstr(said->out, "run.prom.")); /* what the file was written as */
    assert_null(strstr(said->out, "first"));     /* a run from before */
}

static void prometheus_accepts_the_metrics(void **state)
{
    (void)state;
    if (shell("command -v \"" MT_PROMTOOL "\"")->code != 0)
        skip();
    assert_int_equal(MEMTRACE(LONG_RUN "--metrics run.prom")->code, 0);
    const struct said *said = shell("\"" MT_PROMTOOL "\" check metrics <run.prom");
    if (said->code != 0)
        fail_msg("%s%s", said->out, said->err);
    assert_string_equal(said->out, "");
    assert_string_equal(said->err, "");
}

static void places_for_metrics_that_cannot_be_are_refused_before_the_run(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(LONG_RUN "--metrics nowhere/run.prom");
    assert_int_not_equal(said->code, 0);
    assert_says(said->err, "nowhere/run.prom");
    said = MEMTRACE(LONG_RUN "--metrics memtrace.db");
    assert_int_equal(said->code, 2);
    said = shell("mkfifo pipe.prom && timeout 20 \"$M\" " LONG_RUN "--metrics pipe.prom");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "--metrics pipe.prom: this is a pipe");
    said = MEMTRACE(LONG_RUN "--no-trace --metrics run.prom");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "--no-trace");
    assert_null(strstr(MEMTRACE("runs")->out, "long"));
}

/* ---- the port ---- */

/* Returns a socket that listens at a port of the loopback which the system chose. */
static int take_port(int *out_port)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    const int taken = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(taken, (struct sockaddr *)&place, length), 0);
    assert_int_equal(listen(taken, 1), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&place, &length), 0);
    *out_port = ntohs(place.sin_port);
    return taken;
}

static void a_port_that_is_taken_is_refused_before_the_run(void **state)
{
    (void)state;
    int port;
    const int taken = take_port(&port);
    const struct said *said = shell("\"$M\" " LONG_RUN "--metrics-port %d", port);
    assert_int_equal(said->code, 1);
    assert_says(said->err, "127.0.0.1");
    close(taken);
}

/* Returns a connection to the port, once it is served. */
static int connect_to(int port)
{
    const struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int asking = socket(AF_INET, SOCK_STREAM, 0);
    while (connect(asking, (const struct sockaddr *)&place, sizeof place) != 0) {
        close(asking);
        usleep(1000);
        asking = socket(AF_INET, SOCK_STREAM, 0);
    }
    return asking;
}

/* Asks the port for a page. */
static void ask(int port, const char *request, char *out, size_t bytes)
{
    const int asking = connect_to(port);
    assert_int_equal(send(asking, request, strlen(request), 0), (ssize_t)strlen(request));
    size_t length = 0;
    ssize_t got;
    while (length < bytes - 1 && (got = recv(asking, out + length, bytes - 1 - length, 0)) > 0)
        length += (size_t)got;
    out[length] = '\0';
    close(asking);
}

/* Records a program that goes on until a line is written to `hold`. Returns the port of its metrics. */
static int record_held(void)
{
    int port;
    close(take_port(&port));
    assert_int_equal(shell("mkfifo hold; printf '#!/bin/sh\\nread line <hold\\nexit 7\\n' >held; chmod +x held;"
                           " ((\"$M\" record --no-torch --metrics-port %d ./held >/dev/null 2>said; echo $? >code) &)",
                           port)
                         ->code,
                     0);
    return port;
}

static void the_port_serves_metrics_and_nothing_else(void **state)
{
    (void)state;
    static char page[1 << 16];
    const int port = record_held();
    ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", page, sizeof page);
    assert_says(page, "HTTP/1.1 200 OK\r\n");
    assert_says(page, "text/plain; version=0.0.4");
    assert_says(page, "\r\n\r\n# HELP memtrace_running");
    ask(port, "GET /metrics HTTP/1.1\r\nUser-Agent: x\r\nhost:  127.0.0.1:9410\r\n\r\n", page, sizeof page);
    assert_says(page, "HTTP/1.1 200 OK\r\n");
    ask(port, "GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", page, sizeof page);
    assert_says(page, "HTTP/1.1 404 ");
    ask(port, "POST /metrics HTTP/1.1\r\n\r\n", page, sizeof page);
    assert_says(page, "HTTP/1.1 405 ");
    static const char *const elsewhere[] = {"Host: example.com\r\n", "Host: localhost.example.com\r\n", "",
                                            "Host: localhost\r\nHost: example.com\r\n", "X-Host: localhost\r\n"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        char request[128];
        snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\n%s\r\n", elsewhere[i]);
        ask(port, request, page, sizeof page);
        assert_says(page, "HTTP/1.1 421 ");
    }
    assert_int_equal(shell("echo >hold")->code, 0);
}

/* One client sends a byte now and then, others nothing; one takes no answer. */
static void slow_clients_hold_neither_others_nor_the_run(void **state)
{
    (void)state;
    enum { SLOW = 7 };
    static char page[1 << 16];
    int slow[SLOW];
    const int port = record_held();
    for (int i = 0; i < SLOW; i++)
        slow[i] = connect_to(port);
    assert_int_equal(send(slow[0], "G", 1, 0), 1);
    ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", page, sizeof page);
    assert_says(page, "HTTP/1.1 200 OK\r\n");
    assert_int_equal(send(slow[0], "E", 1, 0), 1);
    /* The others are still connected: the answer waited for none of them. */
    assert_int_equal(recv(slow[SLOW - 1], page, 1, MSG_DONTWAIT), -1);
    assert_true(recv(slow[0], page, 1, 0) <= 0); /* its deadline has passed, whatever it sent */
    const int dripping = connect_to(port);
    assert_int_equal(send(dripping, "GET", 3, 0), 3);
    assert_int_equal(shell("echo >hold; timeout 20 sh -c 'until test -s code; do sleep 0.05; done'; cat code")->code,
                     0);
    assert_true(recv(dripping, page, 1, 0) <= 0); /* closed, or reset if what was sent was not read */
    close(dripping);
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
}

/* ---- watching ---- */

enum { MIB = 1 << 20 };

/* A run that is being written, by events of our own in one segment. */
struct live {
    struct mt_recorder *recorder;
    const struct mt_sink *sink;
    uint64_t sequence;
};

static void begin_live(struct live *live)
{
    const struct mt_run_info info = {.name = "live", .device = "sim", .capacity_bytes = 64 * MIB};
    *live = (struct live){0};
    assert_int_equal(mt_recorder_open("live.db", &info, &live->recorder), MT_OK);
    live->sink = mt_recorder_sink(live->recorder);
}

static void emit(struct live *live, struct mt_event event)
{
    event.sequence = live->sequence;
    event.time_ns = live->sequence++;
    live->sink->emit(live->sink->context, &event);
}

static void emit_block(struct live *live, mt_event_kind kind, uint64_t offset, uint64_t bytes, mt_category category)
{
    const struct mt_label label = {.category = category, .role = MT_ROLE_TEMPORARY, .op = "op"};
    emit(live, (struct mt_event){.kind = (uint16_t)kind,
                                 .requested_bytes = bytes,
                                 .block_bytes = bytes,
                                 .offset = offset,
                                 .label = live->sink->intern_label(live->sink->context, &label)});
}

static const struct mt_watched *look(struct live *live, struct mt_watch *watch)
{
    const struct mt_watched *seen;
    if (live->recorder != NULL)
        assert_int_equal(mt_recorder_flush(live->recorder), MT_OK);
    assert_int_equal(mt_watch_look(watch, &seen), MT_OK);
    assert_non_null(seen);
    return seen;
}

static void watch_follows_a_run_from_its_events(void **state)
{
    (void)state;
    struct live live;
    struct mt_watch *watch = mt_watch_create("live.db", 0);
    const struct mt_watched *seen;
    assert_int_equal(shell(": >live.db")->code, 0); /* as its writer begins to make it */
    assert_int_equal(mt_watch_look(watch, &seen), MT_OK);
    assert_null(seen);
    begin_live(&live);
    emit(&live, (struct mt_event){.kind = MT_EVENT_SEGMENT_MAP, .segment_address = 1 << 21, .block_bytes = 32 * MIB});
    emit_block(&live, MT_EVENT_ALLOC, 0, 8 * MIB, MT_CATEGORY_PARAM);
    emit(&live, (struct mt_event){.kind = MT_EVENT_STEP_BEGIN});
    emit_block(&live, MT_EVENT_ALLOC, 8 * MIB, 4 * MIB, MT_CATEGORY_LOSS);

    seen = look(&live, watch);
    assert_true(seen->is_running);
    assert_int_equal(seen->now[MT_MEASURE_ALLOCATED], 12 * MIB);
    assert_int_equal(seen->now[MT_MEASURE_RESERVED], 32 * MIB);
    assert_int_equal(seen->steps, 0);
    assert_int_equal(seen->category_count, 2);
    mt_watch_begin_recent(watch);

    emit_block(&live, MT_EVENT_FREE, 8 * MIB, 4 * MIB, MT_CATEGORY_LOSS);
    emit(&live, (struct mt_event){.kind = MT_EVENT_STEP_END});
    emit_block(&live, MT_EVENT_ALLOC, 8 * MIB, MIB, MT_CATEGORY_OTHER);
    seen = look(&live, watch);
    assert_int_equal(seen->now[MT_MEASURE_ALLOCATED], 9 * MIB);
    assert_int_equal(seen->peak[MT_MEASURE_ALLOCATED], 12 * MIB);
    assert_int_equal(seen->step_peak[MT_MEASURE_ALLOCATED], 12 * MIB);
    assert_int_equal(seen->steps, 1);
    assert_int_equal(seen->frees, 1);
    mt_watch_begin_recent(watch);

    assert_int_equal(mt_recorder_close(live.recorder, MT_RUN_DONE), MT_OK);
    live.recorder = NULL;
    seen = look(&live, watch);
    assert_false(seen->is_running);
    assert_int_equal(seen->recent_peak[MT_MEASURE_ALLOCATED], 9 * MIB);
    assert_int_equal(seen->peak[MT_MEASURE_ALLOCATED], 12 * MIB);
    mt_watch_destroy(watch);
}

static void watch_ends_with_a_run_whose_process_was_killed(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        struct live live;
        begin_live(&live);
        raise(SIGKILL);
    }
    waitpid(child, NULL, 0);
    const struct said *said = MEMTRACE("watch live.db");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "ended");
}

static void watch_shows_the_end_of_a_run_that_has_ended(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("watch");
    assert_int_equal(said->code, 0);
    assert_int_equal(count_lines(said->out), 1);
    assert_says(said->out, "peak ");
    assert_int_equal(MEMTRACE("watch nothing.txt --interval 0")->code, 2);
    assert_int_equal(shell("echo text >notes.db; \"$M\" watch notes.db")->code, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_of_one_name_stand_together_and_labels_are_escaped),
        TEST_WITH_TWO_RUNS(metrics_of_a_run_that_ended_are_in_the_file),
        TEST_WITH_TWO_RUNS(prometheus_accepts_the_metrics),
        TEST_WITH_TWO_RUNS(places_for_metrics_that_cannot_be_are_refused_before_the_run),
        TEST_WITH_TWO_RUNS(a_port_that_is_taken_is_refused_before_the_run),
        TEST_WITH_TWO_RUNS(the_port_serves_metrics_and_nothing_else),
        TEST_WITH_TWO_RUNS(slow_clients_hold_neither_others_nor_the_run),
        TEST_WITH_TWO_RUNS(watch_follows_a_run_from_its_events),
        TEST_WITH_TWO_RUNS(watch_ends_with_a_run_whose_process_was_killed),
        TEST_WITH_TWO_RUNS(watch_shows_the_end_of_a_run_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
