/* PyTorch programs with threads, as the recorder and the dry run see them: threads allocate, free, push spans, set
 * steps and stop while the trace is written and its metrics are read over HTTP. No event is lost, and ThreadSanitizer
 * finds no race. */
#include "fake_card.h"
#include "folder.h"
#include "operators/cudnn/cudnn_source.h"
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_operator.h"
#include "producers/torch/torch_watch.h"
#include "trace/export/metrics.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { THREADS = 4, ROUNDS = 400, MIB = 1 << 20, SLOTS = 16 };
enum { ALLOC = 1, FREE, SEGMENT_ALLOC, SEGMENT_FREE, MAP, UNMAP, OOM };

static const struct memtrace_torch_abi abi = {.alloc = ALLOC,
                                              .free_requested = FREE,
                                              .segment_alloc = SEGMENT_ALLOC,
                                              .segment_free = SEGMENT_FREE,
                                              .segment_map = MAP,
                                              .segment_unmap = UNMAP,
                                              .oom = OOM};

static int begin(void **state)
{
    *state = enter_folder("test_torch_threads");
    mt_torch_forget();
    return 0;
}

static int end(void **state)
{
    mt_torch_forget();
    return leave_folder(state);
}

static int64_t count_in(const char *trace, const char *sql)
{
    sqlite3 *database;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(trace, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const int64_t count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return count;
}

/* ---- threads ---- */

/* A thread's number, and what it does in a round. */
struct worker {
    pthread_t thread;
    uint64_t number;
    void (*round)(const struct worker *worker, uint64_t round);
};

/* Labels memory as modules, phases and steps of a program do. */
static uint32_t begin_span(const struct worker *worker, uint64_t round)
{
    char name[32];
    snprintf(name, sizeof name, "layer%u", (unsigned)((worker->number + round) % 9));
    const int category = memtrace_torch_category(round % 50 == 0 ? name : "FFN");
    return memtrace_torch_span_begin(memtrace_torch_span(0, name, "Layer"), category);
}

static void advance(const struct worker *worker, uint64_t round)
{
    if (round % 20 == worker->number)
        (void)memtrace_torch_step_begin();
    if (round % 20 == 10 + worker->number)
        memtrace_torch_step_end();
    memtrace_torch_phase(memtrace_torch_phase_number(round % 2 == 0 ? "forward" : "backward"), 0);
    if (round % 40 == 0) {
        memtrace_torch_measure("loss", (double)round);
        memtrace_torch_set("threads", "many");
        memtrace_torch_program_phase("train");
        memtrace_torch_caveat("unknown_scratch", "aten::x", "train.py", 7, 1, 1, 0, 0);
    }
}

static void read_figures(void)
{
    struct memtrace_torch_figures figures;
    uint64_t counters[MEMTRACE_TORCH_COUNTERS];
    struct memtrace_torch_past past;
    (void)memtrace_torch_live();
    (void)memtrace_torch_statistics(0, MEMTRACE_TORCH_ALL, &figures);
    (void)memtrace_torch_counters(0, counters);
    memtrace_torch_history(&past);
}

static void *work(void *context)
{
    const struct worker *worker = context;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        advance(worker, round);
        const uint32_t depth = begin_span(worker, round);
        worker->round(worker, round);
        memtrace_torch_span_end(depth);
        if (round % 25 == 0)
            read_figures();
    }
    return NULL;
}

static void start(struct worker workers[THREADS], void (*round)(const struct worker *worker, uint64_t round))
{
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i].number = i;
        workers[i].round = round;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

static void join(const struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

/* ---- the reader of metrics ---- */

struct scraper {
    pthread_t thread;
    struct mt_metrics *metrics;
    int port;
    atomic_bool is_over;
    int answers; /* so many pages were read; valid once the thread is joined */
};

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int free_port(void)
{
    struct sockaddr_in place = address_of(0);
    socklen_t length = sizeof place;
    const int taken = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(taken, (struct sockaddr *)&place, length), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&place, &length), 0);
    close(taken);
    return ntohs(place.sin_port);
}

/* True if the port answered with the page. */
static bool scrape(int port)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const struct sockaddr_in place = address_of(port);
    char answer[1 << 14];
    size_t length = 0;
    const int asking = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(asking, (const struct sockaddr *)&place, sizeof place) == 0 &&
        send(asking, request, sizeof request - 1, MSG_NOSIGNAL) > 0)
        for (ssize_t got; (got = recv(asking, answer + length, sizeof answer - 1 - length, 0)) > 0;)
            length += (size_t)got;
    close(asking);
    answer[length] = '\0';
    return strstr(answer, "200 OK") != NULL;
}

/* Scrapes until the threads are done, and until there was an answer, which a busy machine may give late. */
static void *scrape_often(void *context)
{
    enum { MOST_TRIES = 2000 };
    struct scraper *scraper = context;
    for (int i = 0; i < MOST_TRIES && (!atomic_load(&scraper->is_over) || scraper->answers == 0); i++) {
        scraper->answers += scrape(scraper->port);
        usleep(5000);
    }
    return NULL;
}

static void start_scraping(struct scraper *scraper)
{
    *scraper = (struct scraper){.port = free_port()};
    const struct mt_metrics_options options = {.file = "run.prom", .port = scraper->port};
    assert_int_equal(mt_metrics_start(&options, "memtrace.db", MT_METRICS_RANKS, &scraper->metrics), MT_OK);
    assert_int_equal(pthread_create(&scraper->thread, NULL, scrape_often, scraper), 0);
}

static void stop_scraping(struct scraper *scraper)
{
    atomic_store(&scraper->is_over, true);
    pthread_join(scraper->thread, NULL);
    assert_int_equal(mt_metrics_stop(scraper->metrics), MT_OK);
    assert_true(scraper->answers > 0);
}

/* ---- PyTorch's own allocator, watched ---- */

static void tell(int action, uint64_t address, uint64_t bytes, uint64_t pool)
{
    const struct mt_torch_entry entry = {
        .action = action, .address = address, .bytes = bytes, .stream = pool * 7, .first = pool};
    mt_torch_watch_entry(&entry);
}

static uint64_t segment_of(const struct worker *worker)
{
    return (worker->number + 1) * 256 * MIB;
}

/* A block in a segment of the thread's own, and what a library takes from CUDA. */
static void watch_round(const struct worker *worker, uint64_t round)
{
    const uint64_t begin = segment_of(worker), address = begin + round % SLOTS * MIB, piece = begin + 128 * MIB + round;
    const uint64_t pool = round / SLOTS % 2;
    if (round % SLOTS == 0)
        tell(SEGMENT_ALLOC, begin, SLOTS * MIB, pool);
    memtrace_torch_outside_take(0, piece, 512, worker->number % 2 == 0 ? "libnccl.so.2" : "libcufft.so");
    tell(ALLOC, address, 1000, pool);
    mt_torch_watch_report(0, address, 1024, 0, 0);
    if (round % 3 == 0)
        (void)memtrace_torch_relabel((const void *)(uintptr_t)address, 0, 0, NULL);
    tell(FREE, address, 1000, pool);
    memtrace_torch_outside_give(piece);
    if (round % SLOTS == SLOTS - 1)
        tell(SEGMENT_FREE, begin, SLOTS * MIB, pool);
}

static void watch(const char *trace)
{
    assert_int_equal(mt_torch_watch_begin(&abi, trace, NULL), MT_OK);
    memtrace_torch_card(0, "a card", (uint64_t)1 << 34);
    memtrace_torch_stacks_begin("/somewhere/memtrace");
}

#define COUNT_OF(kind) "SELECT count(*) FROM event JOIN event_kind ON event_kind.id = kind WHERE name = '" kind "'"

static void threads_of_a_watched_program_lose_no_event(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    struct scraper scraper;
    start_scraping(&scraper);
    watch("memtrace.db");
    tell(SEGMENT_ALLOC, MIB, MIB, 0); /* opens the trace before the first step */
    start(workers, watch_round);
    join(workers);
    assert_int_equal(memtrace_torch_close(0), 0);
    stop_scraping(&scraper);
    assert_int_equal(count_in("memtrace.db", COUNT_OF("alloc")), THREADS * ROUNDS);
    assert_int_equal(count_in("memtrace.db", COUNT_OF("free")), THREADS * ROUNDS);
    assert_int_equal(count_in("memtrace.db", COUNT_OF("step_begin")), THREADS * ROUNDS / 20);
}

/* What threads do between two watches is stored nowhere, and the rest in one of the two. */
static void a_watch_ends_and_another_begins_while_threads_run(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    watch("memtrace.db");
    start(workers, watch_round);
    usleep(20000);
    assert_int_equal(memtrace_torch_close(0), 0);
    watch("second.db");
    join(workers);
    assert_int_equal(memtrace_torch_close(0), 0);
    if (access("second.db", F_OK) == 0)
        assert_true(count_in("second.db", COUNT_OF("alloc")) <= THREADS * ROUNDS);
    assert_int_equal(count_in("memtrace.db", "SELECT count(*) FROM run WHERE state = 'done'"), 1);
}

/* ---- the allocator of memtrace under PyTorch ---- */

static void own_round(const struct worker *worker, uint64_t round)
{
    mt_addr address;
    const int device = (int)(round % FAKE_CARDS);
    assert_int_equal(mt_torch_take((int64_t)(1000 + round), device, worker->number % 3, &address), MT_OK);
    void *block = (void *)(uintptr_t)address;
    memtrace_torch_use(device, address, round % 2 == 0);
    memtrace_torch_record_stream(block, (void *)(uintptr_t)(0x1000 + round % 3));
    if (round % 3 == 0)
        (void)memtrace_torch_relabel(block, 0, 0, NULL);
    if (round % 30 == 0)
        memtrace_torch_keep();
    memtrace_torch_free(block, (ssize_t)(1000 + round), device, NULL);
}

static void threads_of_a_program_with_our_allocator_lose_no_event(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    struct scraper scraper;
    assert_int_equal(memtrace_torch_configure("", "memtrace.db", "a program"), 0);
    start_scraping(&scraper);
    start(workers, own_round);
    join(workers);
    assert_int_equal(memtrace_torch_close(0), 0);
    stop_scraping(&scraper);
    int64_t allocs = 0;
    DIR *folder = opendir(".");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strstr(entry->d_name, ".db") != NULL && entry->d_name[strlen(entry->d_name) - 1] == 'b')
            allocs += count_in(entry->d_name, COUNT_OF("alloc"));
    closedir(folder);
    assert_int_equal(allocs, THREADS * ROUNDS);
}

/* ---- a simulated card ---- */

/* A block of a private pool, and one of none. */
static void simulated_round(const struct worker *worker, uint64_t round)
{
    uint32_t pool;
    uint64_t address;
    assert_int_equal(memtrace_torch_pool_use(0, worker->number + 1, 0, 0, &pool), 0);
    assert_int_equal(memtrace_torch_take((int64_t)(1000 + round), 0, 0, pool, NULL, &address), 0);
    memtrace_torch_free((void *)(uintptr_t)address, (ssize_t)(1000 + round), 0, NULL);
    assert_int_equal(memtrace_torch_pool_leave(0, worker->number + 1, 0), 0);
    memtrace_torch_communicate(0, 0, 2);
    own_round(worker, round);
}

static void threads_of_a_dry_run_lose_no_request(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    struct memtrace_torch_past before, after;
    assert_int_equal(memtrace_torch_configure("", "memtrace.db", "a program"), 0);
    assert_int_equal(memtrace_torch_simulate("sim:h100"), 0);
    memtrace_torch_history(&before);
    start(workers, simulated_round);
    join(workers);
    memtrace_torch_history(&after);
    assert_int_equal(after.request_count - before.request_count, 2 * THREADS * ROUNDS);
    assert_int_equal(memtrace_torch_close(0), 0);
}

/* A helper of cuDNN that can't start: one thread asks, and others read why there is no answer. */
static void *ask_about_convolutions(void *source)
{
    const struct mt_card card = mt_card_reference();
    const struct mt_convolution_question question = {0};
    struct mt_convolution_answer answer;
    (void)mt_cudnn_source_ask(source, &card, &question, &answer);
    return NULL;
}

static void threads_read_why_cudnn_gives_no_answer(void **state)
{
    (void)state;
    pthread_t thread;
    struct mt_cudnn_source *source = mt_cudnn_source_open("/nowhere/helper", "/nowhere/libcudnn.so.9", NULL);
    assert_int_equal(pthread_create(&thread, NULL, ask_about_convolutions, source), 0);
    while (mt_cudnn_source_error(source)[0] == '\0')
        assert_int_equal(mt_cudnn_source_version(source), 0);
    assert_non_null(strstr(mt_cudnn_source_error(source), "/nowhere/helper"));
    pthread_join(thread, NULL);
    mt_cudnn_source_close(source);
}

static void the_trace_ends_while_threads_allocate(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    assert_int_equal(memtrace_torch_configure("", "memtrace.db", "a program"), 0);
    start(workers, own_round);
    usleep(20000);
    assert_int_equal(memtrace_torch_close(0), 0);
    join(workers);
    for (int device = 0; device < FAKE_CARDS; device++) {
        struct memtrace_torch_figures figures;
        assert_int_equal(memtrace_torch_statistics(device, MEMTRACE_TORCH_ALL, &figures), MT_OK);
        assert_int_equal(figures.blocks, 0);
        assert_int_equal(figures.unknown_frees, 0);
    }
}

int main(void)
{
#define THREADED(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        THREADED(threads_of_a_watched_program_lose_no_event),
        THREADED(a_watch_ends_and_another_begins_while_threads_run),
        THREADED(threads_of_a_program_with_our_allocator_lose_no_event),
        THREADED(the_trace_ends_while_threads_allocate),
        THREADED(threads_of_a_dry_run_lose_no_request),
        cmocka_unit_test(threads_read_why_cudnn_gives_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
