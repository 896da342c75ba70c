/* Training runs that follow a plan: they reserve little more than their peak, and nothing else changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"

/* Returns the answer of `memtrace run --json` with these options, which the caller frees. */
static json_t *run(const char *options)
{
    return json_of(shell("\"$M\" run --json --trace plan.db %s", options));
}

static double number_at(const json_t *answer, const char *object, const char *key)
{
    const json_t *number = json_object_get(json_object_get(answer, object), key);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

/* Options of the 2.7B model, and the most that may be reserved over the peak allocated. Packing is hardest if gradients
 * are freed before the forward pass, so that activations take their place. */
static const struct {
    const char *options;
    double most;
} packed[] = {
    {"--impl fused", 1.001},
    {"--impl fused --autocast bf16", 1.001},
    {"--impl fused --autocast bf16 --weight-cast layer --zero-grad before-forward --seq 512", 1.001},
    {"--impl fused --autocast bf16 --optimizer-in-backward on --checkpoint block", 1.001},
    {"--impl fused --autocast bf16 --moments 8bit --loss-slices 4", 1.001},
#ifndef __SANITIZE_ADDRESS__ /* seconds each, where nothing is optimized, and nothing that the others don't run */
    {"--impl eager", 1.001},
    {"--impl eager --autocast bf16", 1.001},
    {"--impl eager --zero-grad before-forward", 1.002},
    {"--impl eager --autocast bf16 --zero-grad before-forward", 1.002},
#endif
};

static void reserved_is_peak_allocated_for_the_largest_model(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "--no-trace --device sim --model 2.7B --plan on %s", packed[i].options);
        json_t *answer = run(text);
        double ratio = number_at(answer, "peak", "reserved_bytes") / number_at(answer, "peak", "allocated_bytes");
        print_message("%s: reserved over peak allocated %.5f\n", packed[i].options, ratio);
        assert_true(ratio >= 1 && ratio <= packed[i].most);
        assert_true(number_at(answer, "plan", "planned_requests") > 1000);
        assert_true(number_at(answer, "plan", "unplanned_requests") == 0);
        assert_true(number_at(answer, "plan", "bytes") >= number_at(answer, "plan", "peak_bytes"));
        json_decref(answer);
    }
}

#define TINY "--vocab 256 --d-model 64 --d-ff 128 --layers 2 --heads 4 --seq 32 --steps 5"

/* Losses and norms of gradients are equal to the bit; on the cpu device they are computed. */
static void losses_are_the_same_to_the_bit(void **unused)
{
    (void)unused;
    static const char *const options[] = {"--impl eager", "--impl eager --autocast bf16", "--impl fused",
                                          "--impl fused --autocast bf16 --zero-grad before-forward",
                                          "--impl fused --moments bf16 --loss-slices 3"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "--device cpu " TINY " %s", options[i]);
        json_t *without = run(text);
        strcat(text, " --plan on");
        json_t *with = run(text);
        assert_true(json_is_null(json_object_get(without, "plan")));
        assert_true(number_at(with, "plan", "unplanned_requests") == 0);
        assert_int_equal(json_array_size(json_object_get(with, "losses")), 5);
        assert_true(json_is_number(json_array_get(json_object_get(with, "losses"), 4)));
        assert_true(json_equal(json_object_get(without, "losses"), json_object_get(with, "losses")));
        assert_true(json_equal(json_object_get(without, "grad_norms"), json_object_get(with, "grad_norms")));
        json_decref(without);
        json_decref(with);
    }
}

/* Kind, bytes and place of every event, in order. */
#define SEQUENCE_QUERY                                                                                                 \
    "SELECT count(*), sum(((event.id - run.first_event) * 31 + kind * 7 + ifnull(block_bytes, 0) / 512 + "             \
    "ifnull(offset, 0) / 512 * 3 + ifnull(event.segment, 0)) %% 1000003) FROM event, run WHERE run.id = :run AND "     \
    "event.id >= run.first_event AND event.id < run.first_event + run.event_count"

/* The plan does not depend on the device. */
static void sim_and_cpu_follow_with_one_sequence(void **unused)
{
    (void)unused;
    static char first[OUTPUT_BYTES];
    json_decref(run("--device sim " TINY " --autocast bf16 --plan on"));
    const struct said *said = MEMTRACE("sql --trace plan.db --csv '" SEQUENCE_QUERY "'");
    assert_int_equal(said->code, 0);
    strcpy(first, said->out);
    json_decref(run("--device cpu " TINY " --autocast bf16 --plan on"));
    said = MEMTRACE("sql --trace plan.db --csv '" SEQUENCE_QUERY "'");
    assert_string_equal(said->out, first);
    json_decref(run("--device sim " TINY " --autocast bf16"));
    said = MEMTRACE("sql --trace plan.db --csv '" SEQUENCE_QUERY "'");
    assert_string_not_equal(said->out, first); /* or nothing is compared */
}

static void the_settings_say_that_a_run_follows_a_plan(void **unused)
{
    (void)unused;
    json_decref(run("--device sim " TINY));
    json_decref(run("--device sim " TINY " --plan on"));
    const struct said *said = MEMTRACE("diff --trace plan.db");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "plan: off → on");
    assert_says(said->out, ": its plan reserved a segment of ");
    said = MEMTRACE("sql --trace plan.db --csv \"SELECT value > 1000 FROM measurement WHERE run = :run AND name = "
                    "'plan:planned_requests'\"");
    assert_says(said->out, "\n1");
    said = MEMTRACE("run --no-trace --device sim " TINY " --plan on");
    assert_says(said->out, "requests got their place");
    said = MEMTRACE("run --no-trace --device sim " TINY);
    assert_null(strstr(said->out, "got their place"));
}

/* If the device has no room for the arena, the run goes on without it, and says so. */
static void a_device_without_room_is_run_without_a_plan(void **unused)
{
    (void)unused;
    const struct said *said = MEMTRACE("run --no-trace --device sim:1GiB --model 2.7B --impl fused --plan on");
    assert_int_equal(said->code, 5);
    assert_says(said->err, "the run goes on without a plan");
}

static int set_up(void **state)
{
    *state = enter_folder("plan_runs");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reserved_is_peak_allocated_for_the_largest_model, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(losses_are_the_same_to_the_bit, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(sim_and_cpu_follow_with_one_sequence, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(the_settings_say_that_a_run_follows_a_plan, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_device_without_room_is_run_without_a_plan, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
