/* Workspaces of cuSOLVER: what it said on an H200 (tests/data/operators/solver.txt). */
#include "operators/solver_memory.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A question, and the answer in elements: a line of the file. */
struct question {
    char routine[16];
    int64_t m, n, k, mode, batch, elements;
};

static int64_t answer(const struct question *asked)
{
    const char *routine = asked->routine;
    if (strcmp(routine, "geqrf") == 0)
        return mt_solver_reflect(asked->n);
    if (strcmp(routine, "orgqr") == 0)
        return mt_solver_reflections(asked->m, asked->k);
    if (strcmp(routine, "ormqr") == 0)
        return (asked->mode ? mt_solver_multiply_left : mt_solver_multiply_right)(asked->m, asked->n, asked->k);
    if (strcmp(routine, "gesvdj") == 0)
        return mt_solver_singular(asked->m, asked->n, asked->mode != 0);
    if (strcmp(routine, "syevj") == 0)
        return mt_solver_rotate_symmetric(asked->n);
    assert_true(strncmp(routine, "xsyev", 5) == 0);
    return mt_solver_divide_symmetric(asked->batch, asked->n);
}

static bool read_question(FILE *file, struct question *out)
{
    return fscanf(file, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, out->routine,
                  &out->m, &out->n, &out->k, &out->mode, &out->batch, &out->elements) == 7;
}

static void workspaces_are_what_cusolver_says(void **state)
{
    (void)state;
    FILE *file = fopen(MT_TEST_DATA "/operators/solver.txt", "r");
    struct question asked;
    int count = 0;
    assert_non_null(file);
    for (; read_question(file, &asked); count++)
        if (answer(&asked) != asked.elements)
            fail_msg("%s %" PRId64 " x %" PRId64 ": %" PRId64 ", not %" PRId64, asked.routine, asked.m, asked.n,
                     answer(&asked), asked.elements);
    assert_true(count > 1000);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(workspaces_are_what_cusolver_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
