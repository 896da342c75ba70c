/* memtrace advise: what it claims of gradients against runs that let go of them earlier; what it says, and when it can't. */
#include "base/status.h"
#include "program.h"

/* The finding of gradients in an answer of the program; checks what holds of all findings on the way. */
static const json_t *gradients_of(const json_t *answer)
{
    const json_t *found = NULL, *findings = json_object_get(answer, "findings"), *finding;
    static const char *const measures[] = {"requested_bytes", "allocated_bytes", "reserved_bytes"};
    for (int i = 0; i < 3; i++) /* the run replayed without a change is the run */
        assert_int_equal(integer_of(json_object_get(answer, "peak"), measures[i]),
                         integer_of(json_object_get(answer, "replayed"), measures[i]));
    size_t index;
    json_array_foreach(findings, index, finding)
    {
        assert_int_equal(integer_of(finding, "claimed_bytes"),
                         integer_of(json_object_get(finding, "replayed"), "requested_bytes"));
        if (strcmp(text_of(finding, "pattern"), "gradients in forward") == 0)
            found = finding;
    }
    assert_non_null(found);
    return found;
}

static void expect_claim_to_come_true(const char *settings)
{
    const char *run = "\"$M\" run --device sim --steps 2 --json";
    json_t *answer = json_of(shell("%s %s >run.json && \"$M\" advise --all --top 30 --json", run, settings));
    json_t *mended = json_of(shell("%s %s --zero-grad before-forward >run.json && \"$M\" peak --json", run, settings));
    const json_t *finding = gradients_of(answer), *replayed = json_object_get(finding, "replayed");
    assert_schema(answer, "memtrace.advise/1");
    assert_true(integer_of(finding, "saved_bytes") > 0);
    static const char *const measures[] = {"requested_bytes", "allocated_bytes", "reserved_bytes"};
    for (int i = 0; i < 3; i++)
        if (integer_of(replayed, measures[i]) != integer_of(mended, measures[i]))
            fail_msg("%s: %s", settings, measures[i]);
    json_decref(answer);
    json_decref(mended);
}

/* Of requested, allocated and reserved bytes. */
static void earlier_zero_grad_lowers_the_peaks_by_what_was_claimed(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "--model small --alloc policy=tight",
        "--model small --alloc policy=torch --autocast bf16",
        "--model 2.7B --alloc policy=torch",
        "--model 2.7B --alloc policy=tight --autocast bf16",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        expect_claim_to_come_true(settings[i]);
}

static void sentences_explain_what_the_table_tells(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 64 --steps 2")->code, 0);
    const struct said *said = MEMTRACE("advise");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "gradients in forward");
    assert_says(said->out, "--zero-grad before-forward");
    assert_says(said->out, "used only");
    assert_int_equal(MEMTRACE("advise --trace none.db")->code, MT_BAD_TRACE);
    assert_int_equal(MEMTRACE("advise --run 9")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("advise --top 0")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("run --device sim:rtx4090 --seq 512 --json")->code, MT_OUT_OF_MEMORY);
    said = MEMTRACE("advise --all");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "idle between uses");
}

static int set_up(void **state)
{
    *state = enter_folder("test_advise");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(earlier_zero_grad_lowers_the_peaks_by_what_was_claimed, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(sentences_explain_what_the_table_tells, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
