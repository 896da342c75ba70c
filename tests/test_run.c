/* `memtrace run`: what it prints and what it leaves in the trace, on each device. */
#include "two_runs.h"

#include <dlfcn.h>

static void run_tells_what_it_found(void **state)
{
    (void)state;
    json_t *run = json_of(MEMTRACE(TINY "--device cpu --json --warmup 1 --steps 2 --trace other.db"));
    assert_schema(run, "memtrace.run/2");
    assert_int_equal(integer_of(run, "run"), 1);
    assert_string_equal(json_string_value(json_object_get(run, "device")), "cpu");
    assert_int_equal(json_array_size(json_object_get(run, "losses")), 3);
    assert_int_equal(json_array_size(json_object_get(run, "step_ms")), 2);
    assert_int_equal(json_array_size(json_object_get(run, "wall_ms")), 2);
    assert_true(json_integer_value(json_object_get(run, "parameters")) > 0);
    assert_true(json_real_value(json_array_get(json_object_get(run, "wall_ms"), 1)) > 0);
    assert_true(json_real_value(json_array_get(json_object_get(run, "losses"), 0)) > 0);
    const json_t *norms = json_object_get(run, "grad_norms");
    assert_int_equal(json_object_size(norms), 3 + 9 * 3);
    assert_true(json_real_value(json_object_get(norms, "layers.2.ffn.w2.weight")) > 0);
    assert_true(integer_of(run, "events") > 0);
    const json_t *peak = json_object_get(run, "peak");
    assert_true(integer_of(peak, "allocated_bytes") >= integer_of(peak, "requested_bytes"));
    assert_true(integer_of(peak, "reserved_bytes") >= integer_of(peak, "allocated_bytes"));
    assert_true(json_array_size(json_object_get(peak, "by_category")) > 5);
    json_decref(run);
}

static void a_loss_that_was_not_computed_is_absent(void **state)
{
    (void)state;
    assert_says(MEMTRACE(TINY "--device sim")->out, "not computed");
    json_t *run = json_of(MEMTRACE(TINY "--device sim --json"));
    const json_t *losses = json_object_get(run, "losses");
    assert_int_equal(json_array_size(losses), 3);
    assert_true(json_is_null(json_array_get(losses, 0)));
    assert_int_equal(json_array_size(json_object_get(run, "wall_ms")), 0);
    json_decref(run);
}

static void a_run_without_a_trace_leaves_none(void **state)
{
    (void)state;
    json_t *traced = json_of(MEMTRACE(TINY "--device sim --json --trace a.db"));
    json_t *untraced = json_of(MEMTRACE(TINY "--device sim --json --no-trace --trace b.db"));
    assert_int_equal(access("b.db", F_OK), -1);
    static const char *const keys[] = {"allocated_bytes", "requested_bytes", "reserved_bytes"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(integer_of(json_object_get(traced, "peak"), keys[i]),
                         integer_of(json_object_get(untraced, "peak"), keys[i]));
    assert_true(json_is_null(json_object_get(untraced, "run")));
    json_decref(traced);
    json_decref(untraced);
}

static void auto_takes_a_gpu_or_says_that_nothing_is_executed(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(TINY "--json");
    bool is_noted = strstr(said->err, "nothing is executed") != NULL;
    json_t *run = json_of(said);
    const char *device = json_string_value(json_object_get(run, "device"));
    assert_int_equal(strncmp(device, is_noted ? "sim" : "cuda", 3), 0);
    json_decref(run);
}

/* Checks that a missing driver is named, and that the exit code is 4. Skipped if there is a driver. */
static void a_driver_that_is_missing_is_named_and_exits_with_4(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != NULL) {
        dlclose(driver);
        skip();
    }
    const struct said *said = MEMTRACE(TINY "--device cuda --trace none.db");
    assert_int_equal(said->code, MT_NO_DEVICE);
    assert_int_equal(said->code, 4);
    assert_says(said->err, "no NVIDIA driver");
    assert_says(said->err, "libcuda.so.1");
    assert_says(said->err, "; --device sim plans without a GPU");
    assert_int_equal(access("none.db", F_OK), -1);
}

/* The libraries say what is wrong, and the command which of its options helps. */
/* Nor does the trace get a run that nothing is known of, and that questions would be about. */
static void a_run_without_its_data_does_not_begin(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(TINY "--device sim --vocab 256 --data nofile --trace none.db");
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->err, "can't read nofile: No such file");
    assert_string_equal(said->out, "");
    assert_int_equal(access("none.db", F_OK), -1);
    said = shell("echo short >short.txt; \"$M\" " TINY "--device sim --vocab 256 --data short.txt --trace none.db");
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->err, "short.txt has 6 bytes");
    assert_int_equal(access("none.db", F_OK), -1);
}

static void failures_are_told_with_the_options_that_help(void **state)
{
    (void)state;
    static const struct {
        const char *command, *says;
    } cases[] = {
        {"run --device sim --trace nowhere/a.db", "No such file or directory; --trace FILE writes the trace elsewhere, "
                                                  "memtrace run --no-trace none"},
        {"attention --device sim --trace nowhere/a.db", "writes the trace elsewhere, --no-trace none"},
        {"import log.csv --trace nowhere/a.db", "No such file or directory; --trace FILE writes the trace elsewhere"},
        {"top --trace nowhere/a.db", "there is no trace \"nowhere/a.db\"; memtrace run --trace nowhere/a.db makes one"},
        {"used", "memtrace run --device cuda reads the driver"},
        {"check --no-leaks --run first", "; memtrace run --steps 4 traces enough"}};
    assert_int_equal(shell("printf 'Thread,Time,Action,Pointer,Size,Stream\n' >log.csv")->code, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i].command);
        assert_int_not_equal(said->code, 0);
        assert_says(said->err, cases[i].says);
    }
    assert_null(strstr(MEMTRACE("import nofile.csv")->err, "elsewhere"));
}

#define SMALLEST "--device sim --vocab 16 --d-model 4 --d-ff 8 --layers 1 --heads 1 --steps 1"

/* Even root can make no file in /proc. */
static void a_trace_that_can_not_be_written_exits_with_6(void **state)
{
    (void)state;
    static const char *const commands[] = {"run " SMALLEST, "sweep --seq 4,8 " SMALLEST,
                                           "attention --device sim --d 16 --seq 64", "import log.csv"};
    static const char *const traces[] = {"nowhere/a.db", "/proc/a.db", "two.db"};
    assert_int_equal(shell("printf 'Thread,Time,Action,Pointer,Size,Stream\n' >log.csv")->code, 0);
    assert_int_equal(shell("\"$M\" run " SMALLEST " --trace one.db && ln one.db two.db")->code, 0);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0] * 3; i++) {
        const struct said *said = shell("\"$M\" %s --trace %s", commands[i / 3], traces[i % 3]);
        if (said->code != MT_NOT_WRITTEN)
            fail_msg("%s: exit code %d: %s", commands[i / 3], said->code, said->err);
        assert_string_equal(said->out, "");
    }
    assert_int_equal(MEMTRACE("run " SMALLEST " --trace log.csv")->code, MT_BAD_TRACE);
}

static void kernels_that_can_not_be_watched_leave_a_note_and_the_run(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(TINY "--device cpu --kernels --json");
    assert_says(said->err, "without records of kernels");
    json_decref(json_of(said));
    assert_string_equal(MEMTRACE("sql --csv \"SELECT value FROM setting WHERE run = :run AND name = 'kernels'\"")->out,
                        "value\noff\n");
}

/* They are read back from the device, which takes long where it is large. */
static void gradients_are_read_back_only_for_json(void **state)
{
    (void)state;
#define COUNT_NORMS "sql --csv \"SELECT count(*) AS n FROM measurement WHERE run = :run AND name LIKE 'grad_norm:%%'\""
    assert_string_equal(MEMTRACE(COUNT_NORMS)->out, "n\n0\n");
    assert_int_equal(MEMTRACE(TINY "--device cpu --json --no-grad-norms")->code, 0);
    assert_string_equal(MEMTRACE(COUNT_NORMS)->out, "n\n0\n");
    assert_int_equal(MEMTRACE(TINY "--device cpu --json")->code, 0);
    assert_string_equal(MEMTRACE(COUNT_NORMS)->out, "n\n30\n");
}

static void every_setting_of_a_run_is_in_the_trace(void **state)
{
    (void)state;
    json_t *runs = json_of(MEMTRACE("runs --run second --json"));
    const json_t *settings = json_object_get(json_array_get(json_object_get(runs, "rows"), 0), "settings");
    static const char *const expected[][2] = {{"model", "custom"},   {"vocab", "64"},
                                              {"d_model", "16"},     {"d_ff", "32"},
                                              {"layers", "3"},       {"heads", "2"},
                                              {"rope", "off"},       {"batch", "2"},
                                              {"seq", "8"},          {"mode", "fwd_bwd"},
                                              {"autocast", "off"},   {"steps", "3"},
                                              {"matmul", "fp32"},    {"kernels", "off"},
                                              {"warmup", "0"},       {"seed", "0"},
                                              {"init", "reference"}, {"data", "reference"},
                                              {"impl", "eager"},     {"alloc", "policy=tight"},
                                              {"device", "cpu"},     {"zero_grad", "before-backward"}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const char *value = json_string_value(json_object_get(settings, expected[i][0]));
        assert_non_null(value);
        assert_string_equal(value, expected[i][1]);
    }
    json_decref(runs);
}

static void a_model_may_come_from_a_file(void **state)
{
    (void)state;
    const struct said *said = shell("echo '{\"vocab\": 32, \"d_model\": 8, \"d_ff\": 16, \"layers\": 1, \"heads\": 2,"
                                    " \"rope\": true}' >model.json; \"$M\" run --model model.json --layers 2 --seq 4"
                                    " --device sim --json --name from_file");
    json_decref(json_of(said));
    json_t *answer =
        json_of(MEMTRACE("sql --json \"SELECT group_concat(value) FROM setting WHERE run = :run AND name IN"
                         " ('d_model', 'layers', 'rope')\""));
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    assert_string_equal(json_string_value(json_array_get(row, 0)), "8,2,on");
    json_decref(answer);
}

/* What a file does not say is never taken from another model. */
static void a_model_file_names_all_sizes(void **state)
{
    (void)state;
    static const char complete[] =
        "{\"vocab\": 10000, \"d_model\": 768, \"d_ff\": 3072, \"layers\": 12, \"heads\": 12}";
    const struct said *said =
        shell("echo '{\"vocab\": 32000}' >model.json; \"$M\" run --model model.json --device sim");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "model.json lacks d_model, d_ff, layers, heads: ");
    assert_says(said->err, complete);
    said = shell("echo '%s' >model.json; \"$M\" run --model model.json --steps 1 --device sim", complete);
    assert_int_equal(said->code, 0);
    assert_says(said->out, "(128,625,408 parameters)");
}

#define ATTENTION "SELECT value FROM setting WHERE run = :run AND name = 'attention'"

/* Flash where the heads allow it, else what takes any. */
static void fused_attention_goes_by_the_heads(void **state)
{
    (void)state;
    static const struct {
        const char *sizes, *attention;
    } models[] = {{"--d-model 160 --heads 2", "value\nflash\n"},
                  {"--d-model 34 --heads 2", "value\nweights\n"},
                  {"--d-model 272 --heads 2", "value\nweights\n"}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const char *run = "run --device sim --impl fused --layers 1 --vocab 64 --d-ff 64 --seq 8";
        assert_int_equal(shell("\"$M\" %s %s", run, models[i].sizes)->code, 0);
        assert_string_equal(MEMTRACE("sql --csv \"" ATTENTION "\"")->out, models[i].attention);
        assert_int_equal(shell("\"$M\" %s %s --attention flash", run, models[i].sizes)->code, i == 0 ? 0 : 2);
    }
}

static void the_title_says_what_ran(void **state)
{
    (void)state;
    assert_says(MEMTRACE(TINY "--device sim --no-trace")->out, "custom (9,840 parameters), eager");
    assert_says(MEMTRACE("run --model small --device sim --no-trace")->out, "small (128,625,408 parameters), eager");
    assert_says(MEMTRACE("run --model 2.7B --device sim --no-trace")->out, "2.7B (3,406,809,600 parameters), eager");
    assert_says(MEMTRACE(TINY "--device sim --no-trace")->out, "parameters), eager, batch 2");
    assert_says(MEMTRACE(TINY "--device sim --no-trace --impl fused")->out, "parameters), fused, batch 2");
}

/* In backward, where that updates parameters. */
static void the_optimizers_state_is_counted_wherever_it_was_made(void **state)
{
    (void)state;
    static const char *const runs[] = {"off", "on", "beside"};
    for (int run = 0; run < 3; run++) {
        assert_int_equal(shell("\"$M\" " TINY "--device sim --impl fused --optimizer-in-backward %s", runs[run])->code,
                         0);
        json_t *answer = json_of(MEMTRACE("categories --json")), *row;
        size_t i, found = 0;
        json_array_foreach(json_object_get(answer, "rows"), i, row)
        {
            found += strcmp(text_of(row, "category"), "Opt State") == 0;
        }
        assert_int_equal(found, 1);
        json_decref(answer);
    }
}

static void hints_quote_the_path_for_a_shell(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(TINY "--device sim --trace \"it's my.db\"");
    assert_says(said->out, "top 10 --at peak --trace 'it'\\''s my.db' ");
    assert_says(MEMTRACE(TINY "--device sim --trace my.db")->out, "top 10 --at peak --trace my.db ");
    /* What a terminal would obey is spelled, and still the same word. */
    said = shell("name=$(printf 'a\\033[31m'\\''b.db'); \"$M\" " TINY "--device sim --trace \"$name\"");
    assert_says(said->out, "top 10 --at peak --trace $'a\\x1b[31m\\'b.db' ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(run_tells_what_it_found),
        TEST_WITH_TWO_RUNS(a_loss_that_was_not_computed_is_absent),
        TEST_WITH_TWO_RUNS(a_run_without_a_trace_leaves_none),
        TEST_WITH_TWO_RUNS(auto_takes_a_gpu_or_says_that_nothing_is_executed),
        TEST_WITH_TWO_RUNS(a_driver_that_is_missing_is_named_and_exits_with_4),
        TEST_WITH_TWO_RUNS(a_run_without_its_data_does_not_begin),
        TEST_WITH_TWO_RUNS(failures_are_told_with_the_options_that_help),
        TEST_WITH_TWO_RUNS(a_trace_that_can_not_be_written_exits_with_6),
        TEST_WITH_TWO_RUNS(kernels_that_can_not_be_watched_leave_a_note_and_the_run),
        TEST_WITH_TWO_RUNS(gradients_are_read_back_only_for_json),
        TEST_WITH_TWO_RUNS(every_setting_of_a_run_is_in_the_trace),
        TEST_WITH_TWO_RUNS(a_model_may_come_from_a_file),
        TEST_WITH_TWO_RUNS(a_model_file_names_all_sizes),
        TEST_WITH_TWO_RUNS(fused_attention_goes_by_the_heads),
        TEST_WITH_TWO_RUNS(the_title_says_what_ran),
        TEST_WITH_TWO_RUNS(the_optimizers_state_is_counted_wherever_it_was_made),
        TEST_WITH_TWO_RUNS(hints_quote_the_path_for_a_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
