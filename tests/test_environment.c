/* Copies of the environment, with variables set and removed. */
#include "base/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char first[] = "NAME=old", other[] = "NAMES=kept", second[] = "NAME=older", plain[] = "no equals sign";
static char *given[] = {first, other, second, plain, NULL};

/* Counts the entries that begin so. */
static int count(const struct mt_environment *environment, const char *beginning)
{
    int found = 0;
    for (size_t i = 0; i < environment->count; i++)
        found += strncmp(environment->entries[i], beginning, strlen(beginning)) == 0;
    assert_null(environment->entries[environment->count]);
    return found;
}

static void copy_given(struct mt_environment *out)
{
    char **before = environ;
    environ = given;
    mt_environment_copy(out);
    environ = before;
}

static void a_variable_that_is_there_twice_is_set_once(void **state)
{
    (void)state;
    struct mt_environment environment;
    copy_given(&environment);
    assert_int_equal(environment.count, 4);
    mt_environment_set(&environment, "NAME", "new");
    assert_int_equal(count(&environment, "NAME="), 1);
    assert_int_equal(count(&environment, "NAME=new"), 1);
    assert_int_equal(count(&environment, "NAMES=kept"), 1);
    mt_environment_release(&environment);
}

static void no_value_removes_a_variable(void **state)
{
    (void)state;
    struct mt_environment environment;
    copy_given(&environment);
    mt_environment_set(&environment, "NAME", NULL);
    mt_environment_set(&environment, "ABSENT", NULL);
    assert_int_equal(environment.count, 2);
    assert_int_equal(count(&environment, "NAME="), 0);
    mt_environment_release(&environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_that_is_there_twice_is_set_once),
        cmocka_unit_test(no_value_removes_a_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
