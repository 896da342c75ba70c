/* Questions over ranks: a folder of traces, one of each rank. The traces are the library's, with blocks of known
 * sizes. */
#include "base/status.h"
#include "library_fixture.h"
#include "page_reader.h"
#include "program.h"
#include "seed.h"

#include <memtrace.h>
#include <signal.h>

enum { WORLD = 4, LOSS_MIB = 3, DAMAGES = 80 };

/* Writes the trace of a rank: 8 MiB of parameters, and in each of `steps` steps a loss of so many MiB more. */
static void write_rank(int rank, const char *job, int loss_mib, int steps, int growth_mib)
{
    char path[64];
    snprintf(path, sizeof path, "memtrace-rank%d.db", rank);
    const memtrace_run_options options = {.size = sizeof options,
                                          .trace = path,
                                          .device = "sim",
                                          .rank = rank,
                                          .local_rank = rank,
                                          .world_size = WORLD,
                                          .job = job};
    memtrace_run *run = NULL;
    assert_ok(memtrace_run_open(&options, &run));
    take(run, 8 * MIB, "Param");
    for (int step = 0; step < steps; step++) {
        memtrace_step_begin(run);
        const uint64_t loss = take(run, (uint64_t)(loss_mib + step * growth_mib) * MIB, "Loss");
        assert_ok(memtrace_give(run, loss));
        memtrace_step_end(run);
    }
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

/* Rank 0 has a larger loss than the three others, which are alike. */
static void write_job(void)
{
    for (int rank = 0; rank < WORLD; rank++)
        write_rank(rank, "train", rank == 0 ? 2 * LOSS_MIB : LOSS_MIB, 2, 0);
}

static const json_t *row_of_rank(const json_t *answer, int rank)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "rows"), i, row) if (integer_of(row, "rank") == rank) return row;
    fail_msg("no row of rank %d", rank);
    return NULL;
}

static void ranks_tells_which_are_alike_and_by_what_the_others_differ(void **state)
{
    (void)state;
    write_job();
    json_t *answer = json_of(MEMTRACE("ranks --json"));
    assert_schema(answer, "memtrace.ranks/1");
    const json_t *rows = json_object_get(answer, "rows");
    assert_int_equal(json_array_size(rows), WORLD);
    assert_int_equal(integer_of(json_array_get(rows, 0), "rank"), 0);
    assert_int_equal(integer_of(row_of_rank(answer, 0), "above_median_bytes"), LOSS_MIB * MIB);
    assert_int_equal(integer_of(row_of_rank(answer, 0), "alike"), 1);
    for (int rank = 1; rank < WORLD; rank++)
        assert_int_equal(integer_of(row_of_rank(answer, rank), "alike"), 2);
    const json_t *excess = json_array_get(json_object_get(row_of_rank(answer, 0), "excesses"), 0);
    assert_string_equal(text_of(excess, "category"), "Loss");
    assert_int_equal(integer_of(excess, "bytes"), LOSS_MIB * MIB);
    json_decref(answer);

    const struct said *said = MEMTRACE("ranks");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "1-3        3  11.00 MiB");
    assert_says(said->out, "+3.00 MiB  step 0  init   Loss +3.00 MiB");
    assert_says(said->out, "Rank 0 has 3.00 MiB more than rank 2, the median");
}

/* Rank 1 also has a trace of rank 0's card, with more steps and a later start than its own. */
static void memory_on_another_rank_s_card_is_no_rank(void **state)
{
    (void)state;
    write_job();
    assert_int_equal(rename("memtrace-rank1.db", "first.db"), 0);
    write_rank(1, "train", 2, 1, 0);
    assert_int_equal(rename("memtrace-rank1.db", "memtrace-rank1-cuda0.db"), 0);
    assert_int_equal(rename("first.db", "memtrace-rank1.db"), 0);
    json_t *answer = json_of(MEMTRACE("ranks --json")), *strays = json_object_get(answer, "other_cards");
    assert_int_equal(json_array_size(json_object_get(answer, "rows")), WORLD);
    assert_int_equal(integer_of(row_of_rank(answer, 1), "allocated_bytes"), (8 + LOSS_MIB) * MIB);
    assert_int_equal(json_array_size(strays), 1);
    assert_int_equal(integer_of(json_array_get(strays, 0), "card"), 0);
    assert_int_equal(integer_of(json_array_get(strays, 0), "allocated_bytes"), 10 * MIB);
    json_decref(answer);
    const struct said *said = MEMTRACE("ranks");
    assert_says(said->out, "14.00 MiB of rank 0, 10.00 MiB of rank 1, whose own card is another; 24.00 MiB in all");
    assert_int_equal(unlink("memtrace-rank1-cuda0.db"), 0);
}

static void what_is_missing_damaged_or_of_another_job_is_named_and_the_rest_answered(void **state)
{
    (void)state;
    write_job();
    assert_int_equal(shell("rm memtrace-rank3.db; head -c 3000 memtrace-rank1.db >x; mv x memtrace-rank1.db")->code, 0);
    write_rank(2, "earlier", 1, 1, 0);
    assert_int_equal(shell("mv memtrace-rank2.db earlier.db")->code, 0);
    write_rank(2, "train", LOSS_MIB, 1, 0);
    const struct said *said = MEMTRACE("ranks");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "2 ranks of 4, job train");
    assert_says(said->err, "no trace of rank 1, 3");
    assert_says(said->err, "left out: memtrace-rank1.db is damaged");
    assert_says(said->err, "1 rank of other jobs is left out");
    said = MEMTRACE("ranks --job earlier");
    assert_says(said->out, "1 rank of 4, job earlier");
    assert_int_equal(MEMTRACE("ranks --job none")->code, 2);
}

static void a_trace_that_changed_is_read_anew_and_one_that_did_not_is_not(void **state)
{
    (void)state;
    write_job();
    assert_int_equal(MEMTRACE("ranks")->code, 0);
    /* The catalogue, and not the trace: what lies in it is believed as long as the trace is the same. */
    assert_int_equal(shell("\"$M\" sql --trace memtrace-rank1.db 'SELECT 1' >x && rm memtrace-rank3.db &&"
                           " touch -r memtrace-rank1.db time && size=$(stat -c %%s memtrace-rank1.db) &&"
                           " head -c $size /dev/zero >memtrace-rank1.db && touch -r time memtrace-rank1.db")
                         ->code,
                     0);
    const struct said *said = MEMTRACE("ranks");
    assert_says(said->out, "3 ranks of 4");
    assert_says(said->err, "no trace of rank 3");
    assert_int_equal(shell("touch memtrace-rank1.db; sleep 0")->code, 0);
    said = MEMTRACE("ranks");
    assert_says(said->out, "2 ranks of 4");
}

static void a_damaged_catalogue_is_made_anew_and_a_stranger_s_file_is_left_alone(void **state)
{
    (void)state;
    write_job();
    assert_int_equal(MEMTRACE("ranks")->code, 0);
    assert_int_equal(shell("size=$(stat -c %%s memtrace.ranks); { head -c 100 memtrace.ranks;"
                           " head -c $((size - 100)) /dev/zero | tr '\\0' x; } >x; mv x memtrace.ranks")
                         ->code,
                     0);
    const struct said *said = MEMTRACE("ranks");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "4 ranks of 4");
    assert_int_equal(shell("echo mine >memtrace.ranks; \"$M\" ranks; cat memtrace.ranks")->code, 0);
    assert_says(shell("cat memtrace.ranks")->out, "mine");
    assert_says(MEMTRACE("ranks")->out, "4 ranks of 4");
}

static void change_byte(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_true(fputc(byte ^ 0x55, file) != EOF);
    assert_int_equal(fclose(file), 0);
}

/* Changes a byte of a catalogue anywhere: what is believed would be another answer. */
static void no_damage_of_a_catalogue_changes_the_answer(void **state)
{
    const uint64_t seed = take_seed();
    (void)state;
    write_job();
    assert_int_equal(shell("\"$M\" ranks --json >right && cp memtrace.ranks whole && stat -c %%s whole")->code, 0);
    const long bytes = strtol(shell("stat -c %%s whole")->out, NULL, 10);
    assert_true(bytes > 4096);
    for (uint64_t i = 0; i < attack_count(DAMAGES); i++) {
        const long at = (long)(mt_splitmix64(seed + i) % (uint64_t)bytes);
        assert_int_equal(shell("cp whole memtrace.ranks")->code, 0);
        change_byte("memtrace.ranks", at);
        if (shell("\"$M\" ranks --json >now && cmp right now")->code != 0)
            fail_msg("byte %ld of the catalogue changes the answer", at);
    }
}

/* With few files, the program can open the catalogue but no trace. */
static void a_trace_that_could_not_be_read_once_is_read_later(void **state)
{
    enum { LEAST_FILES = 4, MOST_FILES = 9 };
    (void)state;
    int partial = 0;
    write_job();
    assert_int_equal(shell("\"$M\" ranks >right")->code, 0);
    for (int files = LEAST_FILES; files < MOST_FILES; files++) {
        shell("rm -f memtrace.ranks; (ulimit -n %d; \"$M\" ranks)", files);
        partial += shell("test -e memtrace.ranks")->code == 0;
        assert_int_equal(shell("\"$M\" ranks >now; cmp right now")->code, 0);
    }
    assert_true(partial > 0);
}

static void a_catalogue_is_not_written_through_a_link(void **state)
{
    (void)state;
    write_job();
    assert_int_equal(
        shell("\"$M\" ranks >right && mv memtrace.ranks elsewhere && ln -s elsewhere memtrace.ranks &&"
              " touch memtrace-rank1.db && cksum <elsewhere >before && \"$M\" ranks >now && cmp right now &&"
              " cksum <elsewhere | cmp before - && rm elsewhere && \"$M\" ranks | cmp right - && test ! -e elsewhere")
            ->code,
        0);
}

static void a_folder_is_a_trace_whose_runs_are_ranks(void **state)
{
    (void)state;
    write_job();
    const struct said *said = MEMTRACE("peak --trace .");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "14.00 MiB");
    assert_says(said->err, "rank 0 has the highest peak");
    assert_says(MEMTRACE("peak --trace . --run rank2")->out, "11.00 MiB");
    said = MEMTRACE("diff --trace . rank1 rank0");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "B needs 3.00 MiB more than A");
    assert_int_equal(MEMTRACE("peak --trace . --run rank9")->code, 2);
    assert_int_equal(MEMTRACE("peak --trace . --run 2")->code, 2);
    assert_int_equal(MEMTRACE("runs --trace .")->code, 2);
}

static void many_snapshots_become_ranks_of_one_trace(void **state)
{
    (void)state;
    assert_int_equal(
        shell("for r in 0 1; do cp \"$D\"/import/program_hf_trainer_llama.pickle.gz rank$r.pickle.gz; done;"
              " cp \"$D\"/import/program_oom_gpt2.pickle.gz snapshot_rank_2.pickle.gz; echo no >rank3.pickle")
            ->code,
        0);
    const struct said *said = MEMTRACE("import *rank* --trace job.db");
    assert_int_equal(said->code, MT_BAD_TRACE);
    assert_says(said->err, "rank3.pickle can't be imported");
    assert_says(said->out, "snapshot_rank_2.pickle.gz");
    json_t *answer = json_of(MEMTRACE("ranks job.db --json"));
    assert_int_equal(json_array_size(json_object_get(answer, "rows")), 3);
    assert_int_equal(integer_of(json_array_get(json_object_get(answer, "rows"), 0), "rank"), 2);
    json_decref(answer);
    answer = json_of(MEMTRACE("import rank0.pickle.gz rank1.pickle.gz --json --trace two.db"));
    assert_schema(answer, "memtrace.imports/1");
    assert_int_equal(json_array_size(json_object_get(answer, "rows")), 2);
    json_decref(answer);
}

/* 9999999999999999999 has more than 63 bits, and 2147483648 more than 31. */
static void a_number_too_large_for_a_rank_is_none(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *number = i == 0 ? "9999999999999999999" : "2147483648";
        assert_int_equal(
            shell("rm -f big.db; cp \"$D\"/import/program_oom_gpt2.pickle.gz rank%s.pickle.gz", number)->code, 0);
        assert_int_equal(shell("\"$M\" import rank%s.pickle.gz --trace big.db", number)->code, 0);
        const struct said *said = MEMTRACE("sql --trace big.db \"SELECT count(*) FROM run WHERE rank IS NULL\"");
        assert_says(strchr(said->out, '\n'), "1");
    }
}

static void a_rank_tells_how_exact_its_clock_is(void **state)
{
    (void)state;
    write_rank(1, "train", 1, 1, 0);
    const struct said *said = MEMTRACE("sql --trace memtrace-rank1.db \"SELECT coalesce(value, 0) >= 0 FROM "
                                       "measurement WHERE name = 'clock:error_us'\"");
    assert_int_equal(said->code, 0);
    assert_non_null(strstr(said->out, "\n"));
    assert_says(strchr(said->out, '\n'), "1");
}

static void steps_that_go_higher_and_higher_hint_at_a_leak(void **state)
{
    (void)state;
    write_rank(0, "train", 1, 5, 1);
    write_rank(1, "train", 1, 5, 0);
    const struct said *said = MEMTRACE("ranks");
    assert_says(said->out, "Each of the last 4 steps of rank 0 went higher than the one before, by 4.00 MiB");
}

static void ranks_that_did_not_end_are_named(void **state)
{
    (void)state;
    write_job();
    if (fork() == 0) {
        const memtrace_run_options options = {.size = sizeof options,
                                              .trace = "memtrace-rank3.db",
                                              .device = "sim",
                                              .rank = 3,
                                              .world_size = WORLD,
                                              .job = "train"};
        memtrace_run *run = NULL;
        memtrace_run_open(&options, &run);
        take(run, MIB, "Param");
        kill(getpid(), SIGKILL);
    }
    int how;
    assert_true(wait(&how) > 0);
    const struct said *said = MEMTRACE("ranks");
    assert_int_equal(said->code, 0);
    assert_says(said->err, "rank 3 was interrupted");
    assert_says(said->out, "4 ranks of 4");
}

static struct page page_at(const char *path)
{
    struct page page;
    char *text = malloc(OUTPUT_BYTES);
    read_file(path, text);
    page_read(text, strlen(text), &page);
    return page;
}

static void assert_opens_with(const struct page *page, const char *set, int64_t allocated_bytes)
{
    json_t *description = page_description(page, set);
    const json_t *peaks = json_object_get(json_array_get(json_object_get(description, "runs"), 0), "peaks");
    assert_int_equal(integer_of(json_object_get(peaks, "allocated"), "bytes"), allocated_bytes);
    json_decref(description);
}

/* Returns the most bytes of a rank's chart. */
static int64_t highest_of(const json_t *rank)
{
    int64_t highest = 0;
    size_t i;
    const json_t *bytes;
    json_array_foreach(json_object_get(rank, "bytes"), i, bytes) highest =
        json_integer_value(bytes) > highest ? json_integer_value(bytes) : highest;
    return highest;
}

static void the_page_has_a_chart_and_the_run_of_each_rank(void **state)
{
    (void)state;
    write_job();
    assert_int_equal(shell("rm memtrace-rank3.db")->code, 0);
    assert_int_equal(MEMTRACE("timeline --trace .")->code, 0);
    struct page page = page_at("timeline.html");
    json_t *ranks = page_description(&page, "ranks-");
    const json_t *list = json_object_get(ranks, "ranks"), *first = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), WORLD - 1);
    assert_int_equal(integer_of(ranks, "shown"), 0);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(ranks, "missing"), 0)), 3);
    assert_int_equal(integer_of(first, "rank"), 0);
    assert_int_equal(integer_of(first, "above_median_bytes"), LOSS_MIB * MIB);
    assert_string_equal(text_of(json_object_get(first, "excess"), "category"), "Loss");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *rank = json_array_get(list, i);
        assert_true(json_is_true(json_object_get(rank, "is_whole")));
        assert_int_equal(highest_of(rank), integer_of(rank, "peak_bytes"));
    }
    json_decref(ranks);
    assert_opens_with(&page, "", 14 * MIB);
    assert_opens_with(&page, "rank1-", 11 * MIB);
    assert_opens_with(&page, "rank2-", 11 * MIB);
    assert_null(strstr(page.text, "rank0-chunk"));
    page_release(&page);

    assert_int_equal(MEMTRACE("timeline --trace . --run rank2")->code, 0);
    page = page_at("timeline.html");
    assert_opens_with(&page, "", 11 * MIB);
    assert_opens_with(&page, "rank0-", 14 * MIB);
    page_release(&page);
}

static void the_page_of_one_rank_or_of_two_compared_has_no_charts(void **state)
{
    (void)state;
    write_job();
    static const char *const words[] = {"--trace memtrace-rank2.db", "--trace . --run rank1 --diff rank0"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(shell("\"$M\" timeline %s", words[i])->code, 0);
        struct page page = page_at("timeline.html");
        assert_null(strstr(page.text, "id=\"ranks-chunk"));
        page_release(&page);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(ranks_tells_which_are_alike_and_by_what_the_others_differ),
        LIBRARY_TEST(memory_on_another_rank_s_card_is_no_rank),
        LIBRARY_TEST(what_is_missing_damaged_or_of_another_job_is_named_and_the_rest_answered),
        LIBRARY_TEST(a_trace_that_changed_is_read_anew_and_one_that_did_not_is_not),
        LIBRARY_TEST(a_damaged_catalogue_is_made_anew_and_a_stranger_s_file_is_left_alone),
        LIBRARY_TEST(no_damage_of_a_catalogue_changes_the_answer),
        LIBRARY_TEST(a_trace_that_could_not_be_read_once_is_read_later),
        LIBRARY_TEST(a_catalogue_is_not_written_through_a_link),
        LIBRARY_TEST(a_folder_is_a_trace_whose_runs_are_ranks),
        LIBRARY_TEST(many_snapshots_become_ranks_of_one_trace),
        LIBRARY_TEST(a_number_too_large_for_a_rank_is_none),
        LIBRARY_TEST(a_rank_tells_how_exact_its_clock_is),
        LIBRARY_TEST(steps_that_go_higher_and_higher_hint_at_a_leak),
        LIBRARY_TEST(ranks_that_did_not_end_are_named),
        LIBRARY_TEST(the_page_has_a_chart_and_the_run_of_each_rank),
        LIBRARY_TEST(the_page_of_one_rank_or_of_two_compared_has_no_charts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
