/* memtrace fit --largest: what it refuses before anything is run. tests/python has the searches. */
#include "program.h"

static int set_up(void **state)
{
    *state = enter_folder("test_fit_largest");
    return 0;
}

static void expect_refusal(const char *arguments, const char *words)
{
    const struct said *said = shell("\"$M\" fit %s", arguments);
    assert_int_equal(said->code, 2);
    assert_string_equal(said->out, "");
    if (strstr(said->err, words) == NULL)
        fail_msg("%s: %s", arguments, said->err);
}

static void values_are_a_range_or_a_list(void **state)
{
    (void)state;
    expect_refusal("--largest batch -- python3 @batch", "not \"batch\"; see --largest NAME=LOW..HIGH");
    expect_refusal("--largest batch=8..1 -- python3 @batch", "ends at 1, below its begin 8");
    expect_refusal("--largest batch=0..8 -- python3 @batch", "batch 0: expected a whole number");
    expect_refusal("--largest batch=-4..8 -- python3 @batch", "batch -4: expected");
    expect_refusal("--largest batch=1..9999999999 -- python3 @batch", "9999999999");
    expect_refusal("--largest batch=1..8:0 -- python3 @batch", "batch 0: expected a whole number");
    expect_refusal("--largest batch=one..two -- python3 @batch", "one");
    expect_refusal("--largest batch=4,2 -- python3 @batch", "2 follows 4");
}

static void names_and_arguments_belong_together(void **state)
{
    (void)state;
    expect_refusal("--largest batch=1..8 -- python3 train.py", "no argument of the program is @batch");
    expect_refusal("--largest batch=1..8 -- python3 train.py @batch @seq", "@seq does not vary");
    expect_refusal("--largest batch=1..8 --vary batch=1,2 -- python3 @batch", "batch is given twice");
    expect_refusal("--largest batch=1..8 --vary seq=1 -- python3 @batch", "no argument of the program is @seq");
}

static void options_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    expect_refusal("--largest batch=1..8 --device sim:l4", "about a program's arguments");
    expect_refusal("--vary seq=1,2 --device sim:l4", "about a program's arguments");
    expect_refusal("--vary seq=1,2 -- python3 @seq", "--vary goes with --largest");
    expect_refusal("--largest batch=1..8 --batch 4 -- python3 @batch", "--batch is of memtrace's own model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_a_range_or_a_list),
        cmocka_unit_test(names_and_arguments_belong_together),
        cmocka_unit_test(options_that_do_not_go_together_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
