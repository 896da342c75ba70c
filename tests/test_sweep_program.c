/* memtrace sweep of a program's arguments: what it refuses before anything is run. tests/python has the sweeps. */
#include "program.h"

static int set_up(void **state)
{
    *state = enter_folder("test_sweep_program");
    return 0;
}

static void expect_refusal(const char *arguments, const char *words)
{
    const struct said *said = shell("\"$M\" sweep %s", arguments);
    assert_int_equal(said->code, 2);
    assert_string_equal(said->out, "");
    assert_non_null(strstr(said->err, words));
}

static void a_name_that_does_not_vary_is_named(void **state)
{
    (void)state;
    expect_refusal("--vary batch=2 -- python3 train.py --batch @batch --seq @seq", "@seq does not vary");
    expect_refusal("--vary batch=2 -- python3 train.py --batch @batch --seq=@seq", "@seq does not vary");
    expect_refusal("-- python3 @script", "@script does not vary");
}

static void a_list_that_no_argument_uses_is_named(void **state)
{
    (void)state;
    expect_refusal("--vary batch=2 --vary seq=4 -- python3 train.py @batch", "no argument of the program is @seq");
    expect_refusal("--vary seq=4 -- python3 train.py user@seq", "no argument of the program is @seq");
}

static void lists_have_a_name_and_values_that_differ(void **state)
{
    (void)state;
    expect_refusal("--vary batch -- python3 @batch", "a list of values is NAME=VALUE,..., not \"batch\"");
    expect_refusal("--vary =2 -- python3 @batch", "a list of values is NAME=VALUE");
    expect_refusal("--vary batch=2, -- python3 @batch", "batch=2,: a value of the list is empty");
    expect_refusal("--vary batch=2,3,2 -- python3 @batch", "the list has 2 twice");
    expect_refusal("--vary batch=2 --vary batch=3 -- python3 @batch", "batch is given twice; see --vary");
}

static void options_of_the_model_and_of_programs_are_not_mixed(void **state)
{
    (void)state;
    expect_refusal("--vary batch=2", "--vary is of a program's arguments");
    expect_refusal("--model small --vary batch=2 -- python3 @batch", "--model is of memtrace's own model");
    expect_refusal("--vary batch=2 --device cpu -- python3 @batch", "needs a simulated card");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_does_not_vary_is_named),
        cmocka_unit_test(a_list_that_no_argument_uses_is_named),
        cmocka_unit_test(lists_have_a_name_and_values_that_differ),
        cmocka_unit_test(options_of_the_model_and_of_programs_are_not_mixed),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
