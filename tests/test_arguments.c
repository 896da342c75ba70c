/* Words on the command line: help that explains, and what is said of words that are none. */
#include "two_runs.h"

/* Every command that the program knows, so also one that is new. */
static void every_command_explains_itself_with_examples(void **state)
{
    (void)state;
    json_t *table = json_of(MEMTRACE("help --json"));
    const json_t *rows = json_object_get(table, "rows");
    assert_true(json_array_size(rows) >= 24);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *command = text_of(json_array_get(rows, i), "name");
        const struct said *said = shell("\"$M\" %s --help", command);
        assert_int_equal(said->code, 0);
        assert_string_equal(said->err, "");
        assert_true(strcspn(said->out, ".\n") == strcspn(said->out, ".")); /* the first line is a sentence */
        assert_says(said->out, "Examples:\n  memtrace ");
        assert_says(shell("\"$M\" help %s", command)->out, "Examples:");
        assert_says(shell("\"$M\" %s -h", command)->out, "Examples:");
        assert_says(MEMTRACE("")->out, command);
    }
    json_decref(table);
}

static void unknown_words_are_wrong_usage_with_the_nearest_and_the_list(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *nearest;
        int code;
    } cases[] = {
        {"pek", "\"peak\"", MT_USAGE},
        {"run --modell small", "\"--model\"", MT_USAGE},
        {"run --modl=2.7B", "\"--model\"", MT_USAGE},
        {"run --device smi", "\"sim\"", MT_NO_DEVICE},
        {"run --model 2.7b", "\"2.7B\"", MT_USAGE},
        {"run --mode forward", "fwd_bwd", MT_USAGE},
        {"run --autocast bf1", "\"bf16\"", MT_USAGE},
        {"run --matmul tf33", "\"tf32\"", MT_USAGE},
        {"run --device simm", "\"sim\"", MT_NO_DEVICE},
        {"run --device sim:h2000", "\"h200\"", MT_NO_DEVICE},
        {"run --alloc polcy=torch", "\"policy\"", MT_USAGE},
        {"peak --run secnd", "\"second\"", MT_USAGE},
        {"categories --phase backwards", "\"backward\"", MT_USAGE},
        {"help toop", "\"top\"", MT_USAGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i].arguments);
        if (said->code != cases[i].code)
            fail_msg("%s: exit code %d: %s", cases[i].arguments, said->code, said->err);
        assert_string_equal(said->out, "");
        assert_says(said->err, cases[i].nearest);
        assert_says(said->err, "here are ");
    }
}

static void values_out_of_range_are_wrong_usage(void **state)
{
    (void)state;
    static const char *const cases[] = {"run --steps 0",
                                        "run --steps",
                                        "run --steps 1x",
                                        "run --batch -1",
                                        "run --heads 7",
                                        "run --json=yes",
                                        "run --seq 99999999999999999999",
                                        "top 0",
                                        "top ten",
                                        "top 1 2",
                                        "events --step -1",
                                        "events --step 99",
                                        "events --csv --json",
                                        "sql",
                                        "export blocks -o ''",
                                        "timeline -o ''",
                                        "report -o ''",
                                        "check --max-allocated 1TiB --junit ''",
                                        "run --device sim:12parsecs"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i]);
        bool refused = said->code == MT_USAGE || (said->code == MT_NO_DEVICE && strstr(cases[i], "--device") != NULL);
        if (!refused || said->out[0] != '\0' || said->err[0] == '\0')
            fail_msg("%s: exit code %d: %s", cases[i], said->code, said->err);
    }
}

static void what_is_said_names_what_could_be_meant(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"run --stps 3", "did you mean \"--steps\", \"--"},
        {"run --stps 3", "; --help explains them"},
        {"peek", "did you mean \"peak\""},
        {"run --mode forward", "--mode: unknown value \"forward\""},
        {"run --device sim:24GX", "\"24GX\" is not a size"},
        {"run --device sim:24GX", "or name a card"},
        {"run --model nope.json", "the model's sizes can't be read: unable to open nope.json: No such file"},
        {"check --budget nope.json", "the budget can't be read: unable to open nope.json: No such file"},
        {"run --model sizes.txt", "; a file of sizes is given as FILE.json or ./FILE"},
        {"peak --trace 'my trace.db'", "; memtrace run --trace 'my trace.db' makes one"},
        {"import memtrace.db", "it is already a trace: memtrace runs lists"},
        {"run --device sim --data .", "no regular file"},
        {"run --device sim --data /dev/zero", "no regular file"},
        {"run --device sim --name ''", "--name"},
        {"run --device sim --name 12", "--name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i][0]);
        assert_int_not_equal(said->code, 0);
        assert_says(said->err, cases[i][1]);
        assert_null(strstr(said->err, "line -1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(every_command_explains_itself_with_examples),
        TEST_WITH_TWO_RUNS(unknown_words_are_wrong_usage_with_the_nearest_and_the_list),
        TEST_WITH_TWO_RUNS(values_out_of_range_are_wrong_usage),
        TEST_WITH_TWO_RUNS(what_is_said_names_what_could_be_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
