/* Eigenvalues and least squares: sequences of allocations that calls on an H200 made (tests/data/operators). */
#include "base/text.h"
#include "device/card.h"
#include "operators/operator_plan.h"
#include "operators/solver_memory.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIMS = 4, LONGEST_LINE = 4096, OUTPUTS = 4 };

/* Shapes of a call's tensors. */
struct shape {
    int64_t dims, sizes[DIMS], strides[DIMS];
};

static int64_t next(char **text)
{
    return strtoll(*text, text, 10);
}

static struct shape read_shape(char **text)
{
    struct shape shape = {.dims = next(text)};
    assert_in_range(shape.dims, 1, DIMS);
    for (int64_t i = 0; i < shape.dims; i++)
        shape.sizes[i] = next(text);
    return shape;
}

/* Borrows the shape, whose strides it sets. */
static struct mt_operand operand(struct shape *shape, int64_t item_bytes, bool is_complex)
{
    struct mt_operand made = {.sizes = shape->sizes,
                              .strides = shape->strides,
                              .dims = (int32_t)shape->dims,
                              .elements = 1,
                              .item_bytes = item_bytes,
                              .is_contiguous = true};
    made.dtype = is_complex ? (item_bytes == 8 ? MT_SCALAR_COMPLEX_FLOAT : MT_SCALAR_COMPLEX_DOUBLE)
                            : (item_bytes == 4 ? MT_SCALAR_FLOAT : MT_SCALAR_DOUBLE);
    for (int64_t i = shape->dims - 1; i >= 0; i--) {
        shape->strides[i] = made.elements;
        made.elements *= shape->sizes[i];
    }
    return made;
}

static void add(struct mt_text *text, char sign, int64_t bytes)
{
    mt_text_add(text, " %c%" PRId64, sign, bytes);
}

/* Writes what the plan of a call takes and frees: " +400 -400". Results of no bytes and those on the host take
 * nothing. */
static void write_plan(const struct mt_operator_call *call, struct mt_text *out)
{
    const struct mt_card card = mt_card_reference();
    struct mt_inner plan[MT_INNER_MOST];
    int64_t bytes[MT_INNER_MOST];
    const int count = mt_operator_plan(&card, NULL, call, plan);
    for (int i = 0; i < count; i++) {
        const struct mt_inner *action = &plan[i];
        if (action->kind == MT_INNER_TAKE)
            add(out, '+', bytes[action->number] = action->bytes);
        else if (action->kind == MT_INNER_GIVE)
            add(out, '-', bytes[action->number]);
        else if (action->kind == MT_INNER_OUTPUT)
            add(out, '+', mt_greater(action->bytes, mt_operand_bytes(&call->outputs[action->number])));
    }
}

/* Compares the plan with the rest of a line, behind its colon. */
static void expect(const struct mt_operator_call *call, const char *recorded)
{
    struct mt_text planned = {0};
    write_plan(call, &planned);
    const char *begin = strchr(recorded, ':') + 1;
    if (strncmp(mt_text_get(&planned), begin, strcspn(begin, "\n")) != 0 ||
        strlen(mt_text_get(&planned)) != strcspn(begin, "\n"))
        fail_msg("%s of a call is\n%s, recorded as\n%s", call->name, mt_text_get(&planned), recorded);
    mt_text_release(&planned);
}

/* Calls `check` with each line of a file, and returns their count. */
static int for_each_line(const char *path, void (*check)(char *line))
{
    char line[LONGEST_LINE];
    int count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file) != NULL; count++)
        check(line);
    fclose(file);
    return count;
}

static void check_eigenvalues(char *line)
{
    char *text = strchr(line, ' ');
    const bool has_vectors = strncmp(line, "eig ", 4) == 0;
    const int64_t item_bytes = next(&text);
    const bool is_complex = next(&text) != 0;
    struct shape matrices = read_shape(&text), vectors = matrices, values = matrices;
    values.dims--;
    const struct mt_operand input = operand(&matrices, item_bytes, is_complex);
    const int64_t result_bytes = is_complex ? item_bytes : 2 * item_bytes;
    const struct mt_operand outputs[] = {operand(&values, result_bytes, true), operand(&vectors, result_bytes, true)};
    const struct mt_argument argument = {.kind = MT_ARGUMENT_TENSORS, .name = "self", .tensors = &input, .count = 1};
    const struct mt_operator_call call = {.name = has_vectors ? "aten::linalg_eig" : "aten::_linalg_eigvals",
                                          .arguments = &argument,
                                          .argument_count = 1,
                                          .outputs = outputs,
                                          .output_count = has_vectors ? 2 : 1};
    expect(&call, line);
}

static void check_least_squares(char *line)
{
    char *text = line;
    const int64_t item_bytes = next(&text);
    const bool is_complex = next(&text) != 0;
    struct shape left = read_shape(&text), right = read_shape(&text), nothing = {.dims = 1};
    const struct mt_operand tensors[] = {operand(&left, item_bytes, is_complex),
                                         operand(&right, item_bytes, is_complex)},
                            empty = operand(&nothing, item_bytes, false),
                            outputs[OUTPUTS] = {empty, empty, empty, empty};
    const struct mt_argument arguments[] = {
        {.kind = MT_ARGUMENT_TENSORS, .name = "self", .tensors = &tensors[0], .count = 1},
        {.kind = MT_ARGUMENT_TENSORS, .name = "b", .tensors = &tensors[1], .count = 1}};
    const struct mt_operator_call call = {.name = "aten::linalg_lstsq",
                                          .arguments = arguments,
                                          .argument_count = 2,
                                          .outputs = outputs,
                                          .output_count = OUTPUTS};
    expect(&call, line);
}

static void check_workspace(char *line)
{
    char *text = line;
    const int64_t item_bytes = next(&text);
    const bool is_complex = next(&text) != 0;
    const int64_t n = next(&text), bytes = next(&text);
    assert_int_equal(mt_solver_eigenvalues_bytes(n, item_bytes, is_complex), bytes);
}

static void eigenvalues_take_what_they_took_on_a_card(void **state)
{
    (void)state;
    assert_int_equal(for_each_line(MT_TEST_DATA "/operators/eigen.txt", check_eigenvalues), 316);
}

static void least_squares_take_what_they_took_on_a_card(void **state)
{
    (void)state;
    assert_in_range(for_each_line(MT_TEST_DATA "/operators/least_squares.txt", check_least_squares), 400, 1000);
}

static void workspaces_of_eigenvalues_are_what_cusolver_says(void **state)
{
    (void)state;
    assert_int_equal(for_each_line(MT_TEST_DATA "/operators/eigenvalues.txt", check_workspace), 716);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvalues_take_what_they_took_on_a_card),
        cmocka_unit_test(least_squares_take_what_they_took_on_a_card),
        cmocka_unit_test(workspaces_of_eigenvalues_are_what_cusolver_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
