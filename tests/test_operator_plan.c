/* The table of operators, their arguments and the workspaces that threads keep. */
#include "operator_made.h"

/* addmm with and without out_dtype before beta, as overloads have it, and the other way round. */
static void arguments_are_found_by_their_names(void **state)
{
    (void)state;
    struct mt_inner plan[MT_INNER_MOST];
    struct made made = {.call.name = "aten::addmm"};
    add_integer(&made, "beta", 1);
    add_tensor(&made, "mat2", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, 32});
    add_integer(&made, "an_argument_of_tomorrow", 0);
    add_tensor(&made, "mat1", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){8, 16});
    add_integer(&made, "out_dtype", MT_SCALAR_FLOAT);
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){32});
    assert_int_equal(plan_of(&made, plan), 2);
    assert_int_equal(plan[1].number, MT_WORKSPACE_CUBLASLT);
    made.arguments[0].integer = 2;
    assert_int_equal(plan_of(&made, plan), 1);
}

static void a_workspace_is_what_is_configured(void **state)
{
    (void)state;
    assert_int_equal(mt_matmul_workspace(":4096:2:16:8", 1), 4096 * 2048 + 16 * 8192);
    assert_int_equal(mt_matmul_workspace(":16:8", 1), 16 * 8192);
    assert_int_equal(mt_matmul_workspace(NULL, 7), 7);
    assert_int_equal(mt_matmul_workspace(":nonsense", 7), 7);
    assert_int_equal(mt_matmul_workspace(":4096", 7), 7);
    assert_int_equal(mt_matmul_workspace(":99999999999999999:99999999", 7), 7);
}

static void an_operator_is_found_in_place_or_not(void **state)
{
    (void)state;
    assert_non_null(mt_operator_find("aten::add"));
    assert_ptr_equal(mt_operator_find("aten::add_"), mt_operator_find("aten::add"));
    assert_null(mt_operator_find("aten::ad"));
    assert_null(mt_operator_find("aten::"));
    assert_null(mt_operator_find("other::add"));
    assert_null(mt_operator_find("aten::no_such_operator"));
}

static void operators_of_other_libraries_have_their_namespace(void **state)
{
    (void)state;
    assert_non_null(mt_operator_find("torchvision::nms"));
    assert_null(mt_operator_find("nms"));
    assert_null(mt_operator_find("other::nms"));
}

static void no_operator_stands_twice_in_the_table(void **state)
{
    (void)state;
    for (int i = 0; i < mt_operator_row_count; i++) {
        char names[2048], *rest = names, name[128];
        assert_true(strlen(mt_operator_rows[i].names) < sizeof names);
        strcpy(names, mt_operator_rows[i].names);
        for (char *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
            snprintf(name, sizeof name, "aten::%s", word);
            assert_ptr_equal(mt_operator_find(name), &mt_operator_rows[i]);
        }
    }
}

static void what_is_not_contiguous_is_copied(void **state)
{
    (void)state;
    const char *names[] = {"aten::native_layer_norm", "aten::_softmax", "aten::_log_softmax"};
    for (int i = 0; i < 3; i++) {
        struct made made = {.call.name = names[i]};
        add_tensor(&made, i == 0 ? "input" : "self", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, 64});
        add_output(&made, MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, 64});
        assert_takes(&made, 0, NULL);
        made.tensors[0].is_contiguous = false;
        assert_takes(&made, 1, (int64_t[]){4096});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_found_by_their_names),
        cmocka_unit_test(a_workspace_is_what_is_configured),
        cmocka_unit_test(an_operator_is_found_in_place_or_not),
        cmocka_unit_test(operators_of_other_libraries_have_their_namespace),
        cmocka_unit_test(no_operator_stands_twice_in_the_table),
        cmocka_unit_test(what_is_not_contiguous_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
