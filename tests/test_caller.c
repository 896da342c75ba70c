/* The library that called, found on the stack. */
#include "producers/cuda/caller.h"

#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int look(const void *key, const void *element)
{
    (void)element;
    *(const char **)(uintptr_t)key = mt_caller_library();
    return 0;
}

static void the_innermost_library_that_is_not_ours_called(void **state)
{
    (void)state;
    const char *found = NULL;
    int one = 1;
    size_t count = 1;
    assert_non_null(lfind(&found, &one, &count, sizeof one, look));
    assert_non_null(found);
    assert_int_equal(strncmp(found, "libc.so", 7), 0);
    assert_null(strchr(found, '/'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_innermost_library_that_is_not_ours_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
