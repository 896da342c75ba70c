/* The library's runs: threads, real memory, programs that end abnormally, several runs and traces. */
#include "library_fixture.h"
#include "trace_edit.h"
#include "trace_opening.h"

#include <inttypes.h>
#include <memtrace.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static void memory_of_the_cpu_can_be_written(void **state)
{
    (void)state;
    memtrace_run *run = open_run("cpu:64MiB");
    uint64_t address = take(run, MIB, "Data");
    memset(memtrace_pointer(address), 0x5A, MIB);
    assert_null(memtrace_stream_handle(run, 0));
    assert_ok(memtrace_use_on(run, address, 3));
    assert_ok(memtrace_give(run, address));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

enum { THREADS = 4, ROUNDS = 300 };

struct worker {
    memtrace_run *run;
    int number;
};

static void *work(void *given)
{
    struct worker *worker = given;
    char name[32];
    snprintf(name, sizeof name, "worker%c", 'a' + worker->number);
    assert_ok(memtrace_span_begin(worker->run, name));
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes = (uint64_t)(worker->number + 1) * 4096, noted = ((uint64_t)worker->number + 1) << 40;
        uint64_t address = take(worker->run, bytes, "Data");
        assert_ok(memtrace_note_take(worker->run, noted, bytes * 3, 0, NULL));
        assert_ok(memtrace_measure(worker->run, name, i));
        memtrace_note_give(worker->run, noted);
        assert_ok(memtrace_give(worker->run, address));
    }
    return NULL;
}

static void threads_have_places_of_their_own(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){run, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_fails(memtrace_span_end(run), MEMTRACE_USAGE, "this thread");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    const memtrace_top_row *const *rows;
    size_t count;
    memtrace_trace *trace = open_trace(&row);
    assert_ok(memtrace_trace_top(trace, row, MEMTRACE_WHOLE_RUN, 100, &rows, &count));
    assert_int_equal(count, 2 * THREADS);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = (uint64_t)(rows[i]->span[strlen("worker")] - 'a');
        bool is_noted = strcmp(rows[i]->category, "Other") == 0;
        assert_int_equal(rows[i]->count, ROUNDS);
        assert_int_equal(rows[i]->bytes, (number + 1) * 4096 * (is_noted ? 3 : 1));
    }
    memtrace_free(rows);
    memtrace_trace_close(trace);
}

static void a_killed_program_leaves_its_run(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        memtrace_run *run = open_run("sim");
        take(run, 7 * MIB, "Mine");
        raise(SIGKILL);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    assert_string_equal(row->state, "interrupted");
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_REQUESTED);
    assert_int_equal(share_of(peak, "Mine")->requested_bytes, 7 * MIB);
    memtrace_free(peak);
    memtrace_trace_close(trace);
}

static void runs_are_found_by_number_and_name(void **state)
{
    (void)state;
    memtrace_run_options options = {.size = sizeof options,
                                    .trace = TRACE,
                                    .name = "baseline",
                                    .settings = (const char *const[]){"model", "mine", NULL},
                                    .noted_device = "my card",
                                    .noted_capacity_bytes = 5 * MIB};
    memtrace_run *run = NULL;
    assert_ok(memtrace_run_open(&options, &run));
    int64_t number = memtrace_run_number(run);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_FAILED));
    assert_ok(memtrace_run_close(open_run("sim"), MEMTRACE_RUN_DONE));

    const memtrace_run_row *newest, *named, *numbered;
    const memtrace_run_row *const *rows;
    size_t count;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    memtrace_trace *trace = open_trace(&newest), *other = NULL;
    assert_ok(memtrace_trace_find_run(trace, "baseline", &named));
    assert_ok(memtrace_trace_find_run(trace, text, &numbered));
    assert_ptr_equal(named, numbered);
    assert_string_equal(named->name, "baseline");
    assert_string_equal(named->state, "failed");
    assert_string_equal(named->device, "my card");
    assert_int_equal(named->capacity_bytes, 5 * MIB);
    assert_int_equal(newest->number, number + 1);
    assert_string_equal(newest->name, "");
    assert_fails(memtrace_trace_find_run(trace, "nobody", &named), MEMTRACE_USAGE, "nobody");
    assert_ok(memtrace_trace_runs(trace, &rows, &count));
    assert_ptr_equal(rows[count - 1], newest);
    memtrace_free(rows);
    const memtrace_category_row *const *categories;
    assert_ok(memtrace_trace_open(TRACE, &other));
    assert_fails(memtrace_trace_categories(other, newest, NULL, &categories, &count), MEMTRACE_USAGE,
                 "not one of this");
    memtrace_trace_close(other);
    memtrace_trace_close(trace);
    assert_fails(memtrace_trace_open("nothing.db", &other), MEMTRACE_BAD_TRACE, "nothing.db");
}

/* For instance from a program that knows of no limit. */
static void a_capacity_that_no_device_has_is_not_known(void **state)
{
    (void)state;
    memtrace_run_options options = {.size = sizeof options, .trace = TRACE, .noted_capacity_bytes = UINT64_MAX};
    memtrace_run *run;
    const memtrace_run_row *row;
    assert_ok(memtrace_run_open(&options, &run));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    memtrace_trace *trace = open_trace(&row);
    assert_int_equal(row->capacity_bytes, 0);
    memtrace_trace_close(trace);
}

static void how_the_allocator_was_set_is_the_librarys_to_say(void **state)
{
    (void)state;
    static const char *const settings[] = {"alloc", "mine", "author", "me", NULL};
    memtrace_run_options options = {
        .size = sizeof options, .trace = TRACE, .device = "sim", .alloc = "policy=torch", .settings = settings};
    memtrace_run *run;
    const struct mt_run *row;
    struct mt_setting_row *known;
    size_t count;
    assert_ok(memtrace_run_open(&options, &run));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    struct mt_trace *trace = open_newest(TRACE, &row);
    assert_int_equal(mt_trace_settings(trace, row, &known, &count), MT_OK);
    assert_int_equal(strncmp(mt_setting_find(known, count, "alloc"), "policy=torch", strlen("policy=torch")), 0);
    assert_string_equal(mt_setting_find(known, count, "author"), "me");
    free(known);
    mt_trace_close(trace);
}

static void runs_of_two_traces_do_not_meet(void **state)
{
    (void)state;
    memtrace_run_options options = {.size = sizeof options, .trace = "other.db", .device = "sim"};
    memtrace_run *run = open_run("sim"), *other = NULL;
    assert_ok(memtrace_run_open(&options, &other));
    assert_ok(memtrace_span_begin(run, "here"));
    assert_ok(memtrace_span_begin(other, "there"));
    take(run, MIB, "Mine");
    uint64_t address = take(other, 2 * MIB, "Theirs");
    memtrace_statistics statistics = {.size = sizeof statistics};
    assert_ok(memtrace_run_statistics(run, &statistics));
    assert_int_equal(statistics.requested_bytes, MIB);
    assert_ok(memtrace_give(other, address));
    assert_ok(memtrace_run_close(other, MEMTRACE_RUN_DONE));
    assert_ok(memtrace_span_end(run));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    assert_string_equal(row->state, "running");
    memtrace_trace_close(trace);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    trace = open_trace(&row);
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_REQUESTED);
    assert_int_equal(peak->bytes, MIB);
    assert_string_equal(peak->span, "here");
    memtrace_free(peak);
    memtrace_trace_close(trace);
}

static void assert_rank_refused(int32_t rank, int32_t local_rank, int32_t world_size)
{
    memtrace_run_options options = {
        .size = sizeof options, .trace = TRACE, .rank = rank, .local_rank = local_rank, .world_size = world_size};
    memtrace_run *run = NULL;
    assert_fails(memtrace_run_open(&options, &run), MEMTRACE_USAGE, "rank");
}

static void a_run_knows_its_rank(void **state)
{
    (void)state;
    memtrace_run_options options = {
        .size = sizeof options, .trace = TRACE, .rank = 5, .local_rank = 1, .world_size = 8, .job = "night run"};
    memtrace_run *run;
    const struct mt_run *row;
    assert_ok(memtrace_run_open(&options, &run));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    struct mt_trace *trace = open_newest(TRACE, &row);
    assert_int_equal(row->rank, 5);
    assert_int_equal(row->local_rank, 1);
    assert_int_equal(row->world_size, 8);
    assert_string_equal(row->job, "night run");
    mt_trace_close(trace);
    assert_rank_refused(8, 0, 8);
    assert_rank_refused(-1, 0, 8);
    assert_rank_refused(0, 8, 8);
    assert_rank_refused(0, -2, 8);
    assert_rank_refused(0, 0, -1);
}

static void a_host_numbers_its_ranks_as_it_likes(void **state)
{
    (void)state;
    memtrace_run_options options = {
        .size = sizeof options, .trace = TRACE, .rank = 0, .local_rank = 3, .world_size = 4, .job = "night run"};
    memtrace_run *run;
    const memtrace_run_row *row;
    char host[256] = "";
    assert_ok(memtrace_run_open(&options, &run));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    memtrace_trace *trace = open_trace(&row);
    assert_int_equal(row->rank, 0);
    assert_int_equal(row->local_rank, 3);
    assert_int_equal(row->world_size, 4);
    assert_string_equal(row->job, "night run");
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    assert_string_equal(row->host, host);
    assert_int_equal(row->missing_records, 0);
    memtrace_trace_close(trace);
}

static void a_row_tells_the_records_that_recovery_lost(void **state)
{
    (void)state;
    const memtrace_run_row *row;
    assert_ok(memtrace_run_close(open_run("sim"), MEMTRACE_RUN_DONE));
    edit_trace(TRACE, "UPDATE run SET missing_records = 7");
    memtrace_trace *trace = open_trace(&row);
    assert_int_equal(row->missing_records, 7);
    assert_int_equal(row->rank, -1);
    assert_int_equal(row->local_rank, -1);
    assert_int_equal(row->world_size, -1);
    assert_string_equal(row->job, "");
    memtrace_trace_close(trace);
}

/* Version 0.1 had no ranks: what lies behind its options is not the library's to read. */
static void options_of_version_0_1_have_no_rank(void **state)
{
    (void)state;
    memtrace_run_options options = {
        .size = offsetof(memtrace_run_options, rank), .trace = TRACE, .rank = 9, .world_size = 7, .job = (char *)1};
    memtrace_run *run;
    const struct mt_run *row;
    assert_ok(memtrace_run_open(&options, &run));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    struct mt_trace *trace = open_newest(TRACE, &row);
    assert_int_equal(row->rank, -1);
    mt_trace_close(trace);
}

static void a_run_of_one_process_has_no_rank(void **state)
{
    (void)state;
    const struct mt_run *row;
    assert_ok(memtrace_run_close(open_run("sim"), MEMTRACE_RUN_DONE));
    struct mt_trace *trace = open_newest(TRACE, &row);
    assert_int_equal(row->rank, -1);
    assert_int_equal(row->world_size, -1);
    mt_trace_close(trace);
}

/* Callers of the library do not have the options of the program `memtrace`. */
static void errors_name_no_options_of_the_program(void **state)
{
    (void)state;
    memtrace_run_options options = {.size = sizeof options, .trace = "nowhere/test.db"};
    memtrace_run *run = NULL;
    memtrace_trace *trace = NULL;
    assert_fails(memtrace_run_open(&options, &run), MEMTRACE_NOT_WRITTEN,
                 "nowhere/test.db-ring): No such file or directory");
    assert_null(strstr(memtrace_last_error(), "--"));
    assert_fails(memtrace_trace_open("nowhere/test.db", &trace), MEMTRACE_BAD_TRACE, "there is no trace");
    assert_null(strstr(memtrace_last_error(), "--"));
    options = (memtrace_run_options){.size = sizeof options, .trace = TRACE, .device = "cuda:63"};
    assert_fails(memtrace_run_open(&options, &run), MEMTRACE_NO_DEVICE, "");
    assert_null(strstr(memtrace_last_error(), "--"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(memory_of_the_cpu_can_be_written),
        LIBRARY_TEST(threads_have_places_of_their_own),
        LIBRARY_TEST(a_killed_program_leaves_its_run),
        LIBRARY_TEST(runs_are_found_by_number_and_name),
        LIBRARY_TEST(runs_of_two_traces_do_not_meet),
        LIBRARY_TEST(a_capacity_that_no_device_has_is_not_known),
        LIBRARY_TEST(how_the_allocator_was_set_is_the_librarys_to_say),
        LIBRARY_TEST(a_run_knows_its_rank),
        LIBRARY_TEST(a_host_numbers_its_ranks_as_it_likes),
        LIBRARY_TEST(a_row_tells_the_records_that_recovery_lost),
        LIBRARY_TEST(options_of_version_0_1_have_no_rank),
        LIBRARY_TEST(a_run_of_one_process_has_no_rank),
        LIBRARY_TEST(errors_name_no_options_of_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
