/* memtrace fit of a traced run: it is repeated from its settings, whatever its options were, but for its allocator. */
#include "base/random.h"
#include "fit_answer.h"
#include "seed.h"

#include <sqlite3.h>

#define SIZES "--vocab 1000 --d-model 256 --d-ff 1024 --layers 4 --heads 4 --seq 128 --batch 8 "

/* Options of a random run, by the stream of `seed`. */
struct options {
    uint64_t seed, count;
    char text[1024];
};

static size_t draw(struct options *options, size_t below)
{
    return (size_t)(mt_random_unit(options->seed, options->count++) * (double)below);
}

/* Adds the option with one of `count` values, or leaves it out. */
static void add(struct options *options, const char *option, size_t count, const char *const *values)
{
    size_t length = strlen(options->text), chosen = draw(options, count + 1);
    if (chosen < count)
        snprintf(options->text + length, sizeof options->text - length, "%s '%s' ", option, values[chosen]);
}

#define ADD(options, option, ...)                                                                                      \
    do {                                                                                                               \
        static const char *const values[] = {__VA_ARGS__};                                                             \
        add(options, option, sizeof values / sizeof values[0], values);                                                \
    } while (0)

static void add_model(struct options *options)
{
    ADD(options, "--model", "small", "small.json");
    ADD(options, "--vocab", "300", "1000");
    ADD(options, "--layers", "1", "2", "3");
    ADD(options, "--heads", "4", "8");
    ADD(options, "--d-model", "64", "128");
    ADD(options, "--d-ff", "99", "256");
    ADD(options, "--rope", "on", "off");
}

static void add_training(struct options *options)
{
    ADD(options, "--batch", "1", "2", "7");
    ADD(options, "--seq", "5", "16", "33");
    ADD(options, "--mode", "infer", "fwd", "fwd_bwd");
    ADD(options, "--autocast", "off", "bf16");
    ADD(options, "--attention", "custom", "softmax", "weights");
    ADD(options, "--matmul", "fp32", "tf32");
    ADD(options, "--steps", "1", "2", "14");
    ADD(options, "--warmup", "0", "1", "2");
    ADD(options, "--zero-grad", "before-backward", "before-forward");
    ADD(options, "--init", "random", "reference");
    ADD(options, "--data", "random", "reference", "its text", "./random");
    ADD(options, "--seed", "0", "9", "9223372036854775807");
    ADD(options, "--impl", "eager");
    ADD(options, "--alloc", "policy=torch,max_split=64MiB", "policy=torch,roundup_power2_divisions=4,gc_threshold=0.7");
    ADD(options, "--device", "sim:16GiB", "sim:12.5 GB");
}

/* Every setting of the trace's run, one a line. */
static void settings_of(const char *trace, char *out)
{
    const struct said *said = shell("\"$M\" sql --csv --trace %s \"SELECT name, value FROM setting\"", trace);
    assert_int_equal(said->code, 0);
    assert_says(said->out, "\nseed,");
    strcpy(out, said->out);
}

/* From options through the trace's settings and the plan that they make to options again. */
static void assert_comes_back(const char *given)
{
    static char first[OUTPUT_BYTES], second[OUTPUT_BYTES];
    static const char remove[] = "rm -f a.db b.db";
    assert_int_equal(shell("%s", remove)->code, 0);
    if (shell("\"$M\" run --device sim %s --trace a.db", given)->code != 0)
        fail_msg("can't be run: %s", given);
    json_t *answer = fit("--trace a.db");
    if (code_of(text_of(answer, "command"), "") != 0)
        fail_msg("%s: can't be run: %s", given, text_of(answer, "command"));
    assert_int_equal(shell("PATH=$PWD:$PATH; %s --trace b.db", text_of(answer, "command"))->code, 0);
    settings_of("a.db", first);
    settings_of("b.db", second);
    if (strcmp(first, second) != 0)
        fail_msg("%s is not %s:\n%s\n%s", given, text_of(answer, "command"), first, second);
    json_decref(answer);
}

static void a_traced_run_is_repeated_from_its_settings(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    static const char files[] =
        "printf %01000d 0 | tee 'its text' >random;"
        " echo '{\"vocab\": 500, \"d_model\": 64, \"d_ff\": 128, \"heads\": 2, \"layers\": 2}' >small.json";
    assert_int_equal(shell("%s", files)->code, 0);
    for (uint64_t i = 0; i < 4; i++) {
        struct options options = {.seed = seed + i};
        strcpy(options.text, "--model small.json --heads 4 --alloc policy=torch ");
        add_model(&options);
        add_training(&options);
        assert_comes_back(options.text);
    }
}

static void a_run_that_goes_on_is_asked_about_as_a_whole(void **state)
{
    (void)state;
    sqlite3 *trace;
    assert_int_equal(MEMTRACE("run " SIZES "--device sim --steps 5")->code, 0);
    assert_int_equal(sqlite3_open("memtrace.db", &trace), SQLITE_OK);
    assert_int_equal(sqlite3_exec(trace, "UPDATE run SET state = 'running'", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(trace);
    const struct said *said = MEMTRACE("fit --device sim:2GiB --json");
    assert_string_equal(said->err, "");
    json_t *answer = json_of(said);
    assert_int_equal(integer_of(answer, "steps"), 5);
    json_decref(answer);
}

/* A run of memtrace's own policy, with options or traced. */
static void it_is_about_pytorchs_allocator_unless_told_otherwise(void **state)
{
    (void)state;
    static const char *const asked[][2] = {{"", "policy=torch"},
                                           {"--device sim:1GiB " SIZES, "policy=torch"},
                                           {"--alloc policy=tight", "policy=tight"},
                                           {"--run 1 --alloc policy=torch,max_split=64MiB", "policy=torch,max_split="},
                                           {"--alloc policy=tight --device sim:1GiB " SIZES, "policy=tight"}};
    assert_int_equal(MEMTRACE("run " SIZES "--device sim:1GiB --steps 2")->code, 0);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        json_t *answer = fit(asked[i][0]);
        assert_int_equal(strncmp(text_of(answer, "alloc"), asked[i][1], strlen(asked[i][1])), 0);
        json_decref(answer);
    }
    assert_says(MEMTRACE("fit")->out, "with PyTorch's allocator (--alloc policy=torch)");
    assert_says(MEMTRACE("fit --alloc policy=tight")->out, "with memtrace's own allocator (--alloc policy=tight)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_traced_run_is_repeated_from_its_settings, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_run_that_goes_on_is_asked_about_as_a_whole, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(it_is_about_pytorchs_allocator_unless_told_otherwise, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
