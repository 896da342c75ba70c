/* The claims of replayed changes against runs with these changes. The runs are from memtrace run. The settings that
 * show that they can be repeated are removed from the trace, so that only the blocks are known. */
#include "program.h"
#include "same_rows.h"

#include <sqlite3.h>

#define RUN                                                                                                            \
    "run --device sim:h200 --model small --seq 256 --batch 8 --steps 3 --warmup 0 --optimizer-in-backward off"         \
    " --impl fused --alloc policy=torch --json --trace "

static void forget_settings(const char *path)
{
    sqlite3 *trace;
    assert_int_equal(sqlite3_open(path, &trace), SQLITE_OK);
    assert_int_equal(sqlite3_exec(trace, "DELETE FROM setting WHERE name IN ('memtrace', 'batch')", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_changes(trace), 2);
    sqlite3_close(trace);
}

static int set_up(void **state)
{
    *state = enter_folder("test_changes_come_true");
    expect_success(MEMTRACE(RUN "theirs.db"));
    forget_settings("theirs.db");
    return 0;
}

/* Returns the change with a name; a failure if there is none. */
static const json_t *change_of(const json_t *answer, const char *name)
{
    const json_t *change;
    size_t index;
    json_array_foreach(json_object_get(answer, "changes"), index, change)
    {
        if (strcmp(text_of(change, "change"), name) == 0)
            return change;
    }
    fail_msg("no change %s", name);
    return NULL;
}

/* Makes a run with the options, and expects that the replay has its peaks, except for that part of them. */
static void expect_peaks(const char *name, const json_t *replayed, const char *options, double tolerance)
{
    static const char *const measures[] = {"requested_bytes", "allocated_bytes", "reserved_bytes"};
    json_t *peak = json_of(shell("\"$M\" " RUN "made.db %s >run.json && \"$M\" peak --trace made.db --json", options));
    for (int i = 0; i < 3; i++) {
        double claimed = (double)integer_of(replayed, measures[i]), had = (double)integer_of(peak, measures[i]);
        if (claimed > had * (1 + tolerance) || claimed < had * (1 - tolerance))
            fail_msg("%s, %s: %.0f claimed, %.0f needed", name, measures[i], claimed, had);
    }
    json_decref(peak);
}

static void expect_claim(const json_t *answer, const char *name, const char *options, double tolerance)
{
    expect_peaks(name, json_object_get(change_of(answer, name), "replayed"), options, tolerance);
}

static void settings_of_the_allocator_to_the_byte(void **state)
{
    (void)state;
    static const char *const settings[] = {"policy=torch,expandable_segments=on",
                                           "policy=torch,roundup_power2_divisions=8", "policy=torch,max_split=128MiB"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char options[128];
        json_t *answer = json_of(shell("\"$M\" advise --trace theirs.db --json --alloc %s", settings[i]));
        snprintf(options, sizeof options, "--alloc %s", settings[i]);
        expect_peaks(settings[i], json_object_get(answer, "replayed"), options, 0);
        json_decref(answer);
    }
}

/* A run with a change also makes other requests: a checkpointed layer keeps two inputs. */
static void changes_of_the_program_nearly(void **state)
{
    (void)state;
    json_t *answer = json_of(MEMTRACE("advise --trace theirs.db --json"));
    expect_claim(answer, "gradients freed before forward", "--zero-grad before-forward", 0.001);
    expect_claim(answer, "optimizer in backward", "--optimizer-in-backward on", 0.005);
    expect_claim(answer, "checkpoint of model.layers.*", "--checkpoint block", 0.025);
    json_decref(answer);
}

static void words_say_what_to_write_and_what_it_rests_on(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("advise --trace theirs.db");
    expect_success(said);
    assert_non_null(strstr(said->out, "The peak of ")); /* one option mends the first finding */
    assert_says(said->out, "\nChanges, each replayed with the run's own blocks, best first:\n");
    assert_says(said->out, "\ncheckpoint of model.layers.*: the blocks that each of 36 calls keeps are freed ");
    assert_says(said->out, "\n   → torch.utils.checkpoint.checkpoint(");
}

/* The run ends in its first forward pass, on a device with room for a checkpointed one. */
static void a_refused_request_is_met_with_changes(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$M\" run --device sim:2GiB --model small --seq 256 --batch 8 --impl eager --alloc "
                           "policy=torch --trace oom.db --json >run.json")
                         ->code,
                     5);
    forget_settings("oom.db");
    json_t *answer = json_of(MEMTRACE("oom --trace oom.db --json")), *roles = json_object_get(answer, "by_role");
    const json_t *change, *share, *checkpoint = NULL;
    size_t index;
    json_int_t sum = 0;
    json_array_foreach(json_object_get(answer, "changes"), index, change)
    {
        assert_string_equal(text_of(change, "proof"), "replay");
        assert_true(integer_of(change, "reserved_bytes") <= INT64_C(2) << 30);
        if (strcmp(text_of(change, "change"), "checkpoint of model.layers.*") == 0)
            checkpoint = change;
    }
    assert_non_null(checkpoint);
    assert_string_equal(text_of(checkpoint, "hint"),
                        "torch.utils.checkpoint.checkpoint(module, input, use_reentrant=False)");
    json_array_foreach(roles, index, share) sum += integer_of(share, "allocated_bytes");
    assert_int_equal(sum, integer_of(json_object_get(answer, "memory"), "allocated_bytes"));
    json_decref(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(settings_of_the_allocator_to_the_byte, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(changes_of_the_program_nearly, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_refused_request_is_met_with_changes, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(words_say_what_to_write_and_what_it_rests_on, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
