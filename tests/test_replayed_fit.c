/* memtrace fit of runs that can't be made again. They are runs of memtrace run from whose trace is taken what says so:
 * the truth is the simulation of the same run. */
#include "program.h"
#include "same_rows.h"

#include <sqlite3.h>

#define RUN                                                                                                            \
    "run --device sim:h200 --model small --seq 256 --impl eager --alloc policy=torch --steps 2 --warmup 0 --json"      \
    " --trace theirs.db --name %s --batch %d >run.json"

static const int batches[] = {4, 8};
static const char *const names[] = {"four", "eight"};

/* Runs of two batches, and nothing known of them but their blocks and the allocator. */
static int set_up(void **state)
{
    sqlite3 *trace;
    *state = enter_folder("test_replayed_fit");
    for (int i = 0; i < 2; i++)
        expect_success(shell("\"$M\" " RUN, names[i], batches[i]));
    expect_success(shell("cp theirs.db ours.db"));
    assert_int_equal(sqlite3_open("theirs.db", &trace), SQLITE_OK);
    assert_int_equal(sqlite3_exec(trace, "DELETE FROM setting WHERE name IN ('memtrace', 'batch')", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(trace);
    return 0;
}

static json_int_t bytes_of(const json_t *answer, const char *peak)
{
    return integer_of(json_object_get(answer, peak), "reserved_bytes");
}

static void a_replay_says_if_the_run_fits_and_what_would_make_it_fit(void **state)
{
    (void)state;
    json_t *roomy = json_of(MEMTRACE("fit --trace theirs.db --run four --device sim:h200 --json"));
    json_t *tight = json_of_code(MEMTRACE("fit --trace theirs.db --run four --device sim:3GiB --json"), 1);
    assert_schema(roomy, "memtrace.fit_replay/1");
    assert_true(json_is_true(json_object_get(roomy, "fits")));
    assert_int_equal(bytes_of(roomy, "peak"), bytes_of(roomy, "replayed"));
    assert_false(json_is_true(json_object_get(tight, "fits")));
    assert_int_equal(integer_of(tight, "room_bytes"), (INT64_C(3) << 30) - bytes_of(tight, "replayed"));
    size_t index, fitting = 0, short_of = 0;
    const json_t *change;
    json_array_foreach(json_object_get(tight, "changes"), index, change)
    {
        bool fits = json_is_true(json_object_get(change, "fits"));
        json_int_t allocated = integer_of(json_object_get(change, "replayed"), "allocated_bytes");
        fitting += fits;
        short_of += !fits;
        if (fits && allocated > (INT64_C(3) << 30))
            fail_msg("%s fits", text_of(change, "change"));
    }
    assert_true(fitting > 0 && short_of > 0);
    json_decref(roomy);
    json_decref(tight);
}

static void two_runs_tell_the_largest_batch(void **state)
{
    (void)state;
    json_t *truth = json_of(MEMTRACE("fit --trace ours.db --run four --device sim:12GiB --json"));
    json_t *told =
        json_of(MEMTRACE("fit --trace theirs.db --run four --with eight --batches 4,8 --device sim:12GiB --json"));
    json_int_t largest = integer_of(told, "largest_batch"),
               simulated = integer_of(json_object_get(truth, "largest"), "batch");
    assert_false(json_is_true(json_object_get(told, "batch_is_assumed")));
    assert_true(largest >= simulated - 1 && largest <= simulated + 1);
    /* The run, replayed with the other's batch, reserves what that one did, but for 0.2 %: other sizes tie
     * elsewhere. */
    json_int_t replayed = bytes_of(told, "other_replayed"), had = bytes_of(told, "other_peak");
    assert_true(replayed < had + had / 500 && had < replayed + replayed / 500);
    json_decref(truth);
    json_decref(told);
}

static void one_run_tells_it_by_assumption(void **state)
{
    (void)state;
    json_t *told = json_of(MEMTRACE("fit --trace theirs.db --run four --device sim:12GiB --json"));
    assert_true(json_is_true(json_object_get(told, "batch_is_assumed")));
    assert_true(json_is_null(json_object_get(told, "largest_batch")));
    double factor = json_real_value(json_object_get(told, "largest_batch_factor"));
    assert_true(factor > 5 && factor < 6.5); /* 22 of 4, by simulation */
    const struct said *said = MEMTRACE("fit --trace theirs.db --run four --device sim:12GiB");
    assert_says(said->out, " times the run's batch fits, if inputs and what forward and backward take grow");
    assert_says(said->out, "That is assumed, and its error is not known");
    assert_says(said->out, ", to the byte what it had.");
    json_decref(told);
}

static void what_is_missing_is_asked_for(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("fit --trace theirs.db --run four --with eight --device sim:12GiB");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "--batches A,B");
    said = MEMTRACE("fit --trace theirs.db --run four --with eight --batches 4,4 --device sim:12GiB");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "two different batches");
    said = MEMTRACE("fit --trace ours.db --run four --with eight --device sim:12GiB");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "every batch is simulated");
    expect_success(MEMTRACE("import \"$D\"/import/pytorch_limited.json.gz --trace small.db"));
    said = MEMTRACE("fit --trace small.db");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "--device sim:a100-80gb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_says_if_the_run_fits_and_what_would_make_it_fit),
        cmocka_unit_test(two_runs_tell_the_largest_batch),
        cmocka_unit_test(one_run_tells_it_by_assumption),
        cmocka_unit_test(what_is_missing_is_asked_for),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
