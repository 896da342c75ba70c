/* memtrace import of snapshots of programs that others wrote: what blocks are, against the programs' own figures. */
#include "module_spans.h"
#include "program.h"
#include "same_rows.h"

#define PROGRAM(name) "\"$D\"/import/program_" name ".pickle.gz"

enum { LLAMA_BYTES = 49682944 * 4, GPT2_BYTES = 81912576 * 4 };

static int set_up(void **state)
{
    *state = enter_folder("test_import_programs");
    expect_success(MEMTRACE("import " PROGRAM("hf_trainer_llama") " --trace all.db --name trainer"));
    expect_success(MEMTRACE("import " PROGRAM("expandable_llama") " --trace all.db --name expandable"));
    expect_success(MEMTRACE("import " PROGRAM("oom_gpt2") " --trace all.db --name oom"));
    return 0;
}

/* Returns the requested bytes at the peak whose key has this value; 0 if none has. */
static json_int_t peak_bytes(const char *run, const char *key, const char *value)
{
    json_t *said = json_of(shell("\"$M\" peak --trace all.db --run %s --by %s --json", run, key)), *row;
    json_int_t bytes = 0;
    size_t i;
    json_array_foreach(json_object_get(said, "rows"), i, row) if (strcmp(text_of(row, key), value) == 0) bytes =
        integer_of(row, "requested_bytes");
    json_decref(said);
    return bytes;
}

/* Within 1 %. */
static void expect_near(json_int_t bytes, json_int_t expected)
{
    if (llabs(bytes - expected) * 100 > expected)
        fail_msg("%" JSON_INTEGER_FORMAT " bytes, not %" JSON_INTEGER_FORMAT, bytes, expected);
}

static void a_model_is_as_large_as_its_parameters(void **state)
{
    (void)state;
    expect_near(peak_bytes("trainer", "role", "parameter"), LLAMA_BYTES);
    expect_near(peak_bytes("expandable", "role", "parameter"), LLAMA_BYTES);
    expect_near(peak_bytes("oom", "role", "parameter"), GPT2_BYTES);
}

static void adam_keeps_two_moments(void **state)
{
    (void)state;
    expect_near(peak_bytes("trainer", "role", "optimizer state"), 2 * LLAMA_BYTES);
    expect_near(peak_bytes("expandable", "role", "optimizer state"), 2 * LLAMA_BYTES);
    expect_near(peak_bytes("oom", "role", "optimizer state"), 2 * GPT2_BYTES);
}

/* The second micro-batch adds to the gradients of the first. The others were freed before the peak. */
static void gradients_are_what_is_live_of_them(void **state)
{
    (void)state;
    expect_near(peak_bytes("trainer", "role", "gradient"), LLAMA_BYTES);
    assert_int_equal(peak_bytes("expandable", "role", "gradient"), 0);
    assert_int_equal(peak_bytes("oom", "role", "gradient"), 0);
}

static void hardly_a_byte_is_of_no_kind(void **state)
{
    (void)state;
    static const char *const runs[] = {"trainer", "expandable", "oom"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        assert_int_equal(peak_bytes(runs[i], "role", "other"), 0);
        assert_true(peak_bytes(runs[i], "category", "Other") < 1000);
    }
}

static void activations_lie_in_modules(void **state)
{
    (void)state;
    for (int run = 1; run <= 3; run++) {
        expect_activations_in_modules("all.db", run);
        expect_hardly_any_other("all.db", run);
    }
}

static void the_loss_is_not_all_that_a_function_computes_that_calls_the_model(void **state)
{
    (void)state;
    expect_near(peak_bytes("trainer", "phase", "loss"), 125LL << 20); /* two copies of the logits */
}

static void micro_batches_belong_to_one_step(void **state)
{
    (void)state;
    static const struct {
        const char *run;
        json_int_t steps;
    } all[] = {{"trainer", 3}, {"expandable", 3}, {"oom", 2}};
    json_t *said = json_of(MEMTRACE("runs --trace all.db --json"));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const json_t *row = json_array_get(json_object_get(said, "rows"), i);
        assert_string_equal(text_of(row, "name"), all[i].run);
        assert_int_equal(integer_of(row, "steps"), all[i].steps);
    }
    json_decref(said);
}

/* A step that was refused memory did not end. */
static void steps_have_times(void **state)
{
    (void)state;
    static const json_int_t ended[] = {3, 3, 1};
    json_t *said = json_of(MEMTRACE("steps --trace all.db --json"));
    for (size_t i = 0; i < sizeof ended / sizeof ended[0]; i++) {
        const json_t *ms = json_object_get(json_array_get(json_object_get(said, "rows"), i), "ms");
        const json_t *step = json_object_get(ms, "step"), *backward = json_object_get(ms, "backward");
        assert_int_equal(integer_of(step, "count"), ended[i]);
        assert_true(json_number_value(json_object_get(backward, "min")) > 0);
        assert_true(json_number_value(json_object_get(step, "max")) >
                    json_number_value(json_object_get(backward, "max")));
    }
    json_decref(said);
}

/* The first block is a parameter. Events that are no allocations are no blocks. */
static void the_evidence_for_a_role_is_told(void **state)
{
    (void)state;
    long long id = -1;
    const struct said *rows = MEMTRACE("events --trace all.db --run expandable --csv | head -2");
    assert_int_equal(sscanf(strchr(rows->out, '\n'), "%*d,alloc,%lld", &id), 1);
    json_t *explained = json_of(shell("\"$M\" events --trace all.db --run expandable --explain %lld --json", id));
    const json_t *block = json_object_get(explained, "explained");
    assert_string_equal(text_of(block, "role"), "parameter");
    assert_string_equal(text_of(block, "found"), "inferred");
    assert_string_equal(text_of(block, "sureness"), "likely");
    assert_string_equal(text_of(block, "evidence"), "it was there before the first forward, and stayed");
    assert_true(json_is_null(json_object_get(block, "freed")));
    json_decref(explained);
    assert_says(MEMTRACE("events --trace all.db --run expandable --explain 0")->err, "has no allocation with the id 0");
}

static void a_refused_request_is_in_the_phase_of_its_own_frames(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("oom --trace all.db --run oom");
    assert_says(said->out, "in forward of step 1");
    assert_says(said->out, "a limit of the process refused it");
}

/* The stack of each allocation, by its number, and what it and its caller are. */
static const char stacks[] = "SELECT event.stack, parent, function, file, line FROM event JOIN stack ON stack.run = 1"
                             " AND stack.id = event.stack JOIN frame ON frame.run = 1 AND frame.id = stack.frame"
                             " WHERE kind = 2 ORDER BY event.id";
static const char callers[] = "SELECT stack.id, parent, function, file, line FROM stack JOIN frame"
                              " ON frame.run = stack.run AND frame.id = stack.frame ORDER BY stack.id";

static void call_stacks_come_with_files_and_lines_and_go_out_again(void **state)
{
    (void)state;
    expect_success(MEMTRACE("import " PROGRAM("hf_trainer_llama") " --trace in.db"));
    expect_success(MEMTRACE("export --trace in.db --format pickle -o out.pickle"));
    expect_success(MEMTRACE("import out.pickle --trace out.db"));
    assert_int_equal(expect_same("out.db", stacks, "in.db", stacks), 5720);
    assert_true(expect_same("out.db", callers, "in.db", callers) > 4000);
    static const char known[] = "SELECT function || ':' || line, file LIKE '%/loss_utils.py' FROM frame"
                                " WHERE function = 'ForCausalLMLoss' ORDER BY line LIMIT 1";
    assert_int_equal(expect_same("in.db", known, "in.db", "SELECT 'ForCausalLMLoss:59', 1"), 1);
    assert_int_equal(
        expect_same("in.db", "SELECT count(*) > 50 FROM frame WHERE function LIKE 'at::_ops::%'", "in.db", "SELECT 1"),
        1);
}

static void the_line_that_asked_is_shown(void **state)
{
    (void)state;
    json_t *said = json_of(MEMTRACE("top 1 --each --trace all.db --run trainer --json"));
    const json_t *row = json_array_get(json_object_get(said, "rows"), 0);
    assert_string_equal(text_of(row, "line"), "snaps.py:18");
    assert_says(text_of(row, "frames"), "at::_ops::");
    assert_says(text_of(row, "frames"), "; ForCausalLMLoss /");
    json_decref(said);
    assert_says(MEMTRACE("top 1 --each --trace all.db --run trainer")->out, "snaps.py:18");
    assert_says(MEMTRACE("events --csv --trace all.db --run trainer | sed -n 2p")->out, "snaps.py:17");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_as_large_as_its_parameters),
        cmocka_unit_test(adam_keeps_two_moments),
        cmocka_unit_test(gradients_are_what_is_live_of_them),
        cmocka_unit_test(hardly_a_byte_is_of_no_kind),
        cmocka_unit_test(activations_lie_in_modules),
        cmocka_unit_test(the_loss_is_not_all_that_a_function_computes_that_calls_the_model),
        cmocka_unit_test(micro_batches_belong_to_one_step),
        cmocka_unit_test(steps_have_times),
        cmocka_unit_test(the_evidence_for_a_role_is_told),
        cmocka_unit_test(a_refused_request_is_in_the_phase_of_its_own_frames),
        cmocka_unit_test(call_stacks_come_with_files_and_lines_and_go_out_again),
        cmocka_unit_test(the_line_that_asked_is_shown),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
