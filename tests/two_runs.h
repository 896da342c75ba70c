/* For tests of commands: a folder of their own for each, with a trace of two runs, `first` on sim and `second` on the
 * CPU, of a model that runs in no time. */
#pragma once

#include "base/status.h"
#include "program.h"

#define TINY "run --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --seq 8 --batch 2 "

static inline int set_up_two_runs(void **state)
{
    *state = enter_folder("test_commands");
    assert_int_equal(MEMTRACE(TINY "--device sim --steps 2 --name first")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--device cpu --mode fwd_bwd --name second --init reference --data reference")->code,
                     0);
    return 0;
}

#define TEST_WITH_TWO_RUNS(test) cmocka_unit_test_setup_teardown(test, set_up_two_runs, leave_folder)

static inline size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* Checks that there is a row, and that every row has these keys. */
static inline void assert_rows(const json_t *object, size_t count, const char *const *keys)
{
    const json_t *rows = json_object_get(object, "rows");
    assert_true(json_array_size(rows) > 0);
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (size_t key = 0; key < count; key++)
            if (json_object_get(json_array_get(rows, i), keys[key]) == NULL)
                fail_msg("row %zu has no %s", i, keys[key]);
}

#define ASSERT_ROWS(object, ...)                                                                                       \
    do {                                                                                                               \
        static const char *const keys[] = {__VA_ARGS__};                                                               \
        assert_rows(object, sizeof keys / sizeof keys[0], keys);                                                       \
    } while (0)
