/* Modules are opened from where the program was installed, and from nowhere else. */
#include "program.h"

static int enter(void **state)
{
    *state = enter_folder("module");
    assert_int_equal(shell("mkdir -p home/bin home/lib/memtrace && cp \"$M\" home/bin/memtrace")->code, 0);
    return 0;
}

/* Has a copy of the program in home/bin look for its library. Returns what it says. */
static const char *open_by(const char *environment)
{
    return shell("cd home/bin && %s ./memtrace record -- true", environment)->err;
}

static void what_is_planted_elsewhere_is_not_opened(void **state)
{
    (void)state;
    static const char *const places[] = {"home", "home/bin/lib", "home/memtrace", "home/bin/memtrace.d"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        assert_int_equal(shell("mkdir -p %s && echo planted >%s/libmemtrace_inject.so", places[i], places[i])->code, 0);
    assert_says(open_by("LD_LIBRARY_PATH=$PWD/..:$PWD/lib"), "libmemtrace_inject.so is not installed");
}

static void what_lies_beside_the_program_or_in_its_library_folder_is(void **state)
{
    (void)state;
    static const char *const places[] = {"lib/memtrace", "bin"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_int_equal(shell("echo none >home/%s/libmemtrace_inject.so", places[i])->code, 0);
        assert_says(open_by(""), places[i]);
        assert_int_equal(shell("rm home/%s/libmemtrace_inject.so", places[i])->code, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_planted_elsewhere_is_not_opened, enter, leave_folder),
        cmocka_unit_test_setup_teardown(what_lies_beside_the_program_or_in_its_library_folder_is, enter, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
