/* Patterns of names: matches, against a matcher that tries everything, and the time that they take. */
#include "base/random.h"
#include "producers/file/glob.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 200000, MOST_LETTERS = 9 };

/* One alternative, by its definition. */
static bool fits_by_definition(const char *pattern, const char *text)
{
    if (*pattern == '\0' || *pattern == '|')
        return *text == '\0';
    if (*pattern == '*')
        return fits_by_definition(pattern + 1, text) || (*text != '\0' && fits_by_definition(pattern, text + 1));
    return *pattern == *text && fits_by_definition(pattern + 1, text + 1);
}

static bool some_fits_by_definition(const char *pattern, const char *text)
{
    if (fits_by_definition(pattern, text))
        return true;
    const char *next = strchr(pattern, '|');
    return next != NULL && some_fits_by_definition(next + 1, text);
}

static bool some_part_fits_by_definition(const char *pattern, const char *path)
{
    if (some_fits_by_definition(pattern, path))
        return true;
    const char *slash = strchr(path, '/');
    return slash != NULL && some_part_fits_by_definition(pattern, slash + 1);
}

static void draw(uint64_t *random, const char *letters, char *out)
{
    size_t length = mt_splitmix64((*random)++) % MOST_LETTERS, count = strlen(letters);
    for (size_t i = 0; i < length; i++)
        out[i] = letters[mt_splitmix64((*random)++) % count];
    out[length] = '\0';
}

static void patterns_mean_what_they_say(void **state)
{
    (void)state;
    uint64_t random = take_seed() << 32;
    size_t fitting = 0, fitting_files = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char pattern[MOST_LETTERS], text[MOST_LETTERS];
        draw(&random, "ab/**|", pattern);
        draw(&random, "aab//", text);
        bool fits = some_fits_by_definition(pattern, text), fits_file = some_part_fits_by_definition(pattern, text);
        if (mt_glob_fits(pattern, text) != fits || mt_glob_fits_file(pattern, text) != fits_file)
            fail_msg("\"%s\" and \"%s\"", pattern, text);
        fitting += fits;
        fitting_files += fits_file;
    }
    assert_in_range(fitting, ROUNDS / 100, ROUNDS);
    assert_in_range(fitting_files, fitting + 1, ROUNDS);
}

/* A path of parts alone, and a pattern that nearly matches at each. */
static void a_long_path_takes_no_longer_than_its_length(void **state)
{
    (void)state;
    static char path[1 << 20];
    memset(path, '/', sizeof path - 1);
    clock_t since = clock();
    assert_false(mt_glob_fits_file("*site-packages/*|*lib/python3*|torch/*|/*x", path));
    assert_true(clock() - since < 5 * CLOCKS_PER_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_mean_what_they_say),
        cmocka_unit_test(a_long_path_takes_no_longer_than_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
