/* What analyses assume of each role: how its blocks grow with the batch, and what is advised where they are idle. */
#include "analysis/fit/scaled_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What is assumed of a role: a block of forward grows with the batch; one that is idle gets that hint. */
static const struct {
    mt_role role;
    bool grows;
    mt_hint hint;
} assumed[MT_ROLE_COUNT] = {
    {MT_ROLE_PARAMETER, false, MT_HINT_OFFLOAD_PARAMETERS},
    {MT_ROLE_GRADIENT, false, MT_HINT_UPDATE_IN_BACKWARD},
    {MT_ROLE_OPTIMIZER_STATE, false, MT_HINT_OFFLOAD_STATE},
    {MT_ROLE_ACTIVATION, true, MT_HINT_CHECKPOINT},
    {MT_ROLE_TEMPORARY, true, MT_HINT_RECOMPUTE},
    {MT_ROLE_WEIGHT_CAST, false, MT_HINT_CAST_AGAIN},
    {MT_ROLE_WORKSPACE, false, MT_HINT_SHRINK_WORKSPACE},
    {MT_ROLE_INPUT, true, MT_HINT_COPY_AGAIN},
    {MT_ROLE_OTHER, true, MT_HINT_RECOMPUTE},
    {MT_ROLE_BUFFER, false, MT_HINT_COPY_AGAIN},
    {MT_ROLE_KEY_VALUE_CACHE, true, MT_HINT_COPY_AGAIN},
    {MT_ROLE_KEPT, false, MT_HINT_COPY_AGAIN},
    {MT_ROLE_GATHERED_PARAMETER, false, MT_HINT_RECOMPUTE},
    {MT_ROLE_UNKNOWN, true, MT_HINT_RECOMPUTE},
};

static void roles_grow_with_the_batch_as_assumed(void **state)
{
    (void)state;
    enum { BATCH = 4 };
    struct mt_label_row labels[MT_ROLE_COUNT];
    for (int i = 0; i < MT_ROLE_COUNT; i++)
        labels[i] = (struct mt_label_row){.category = "", .role = mt_role_name(assumed[i].role), .phase = "forward"};
    const struct mt_advice_input input = {.labels = labels, .label_count = MT_ROLE_COUNT};
    struct mt_scaling scaling = mt_scaling_create(&input, BATCH, NULL, 0);
    for (int i = 0; i < MT_ROLE_COUNT; i++) {
        assert_int_equal(assumed[i].role, i);
        assert_true(scaling.growths[i] == (assumed[i].grows ? 1.0 / BATCH : 0));
    }
    mt_scaling_release(&scaling);
}

static void an_idle_block_gets_the_hint_of_its_role(void **state)
{
    (void)state;
    for (int i = 0; i < MT_ROLE_COUNT; i++) {
        const struct mt_finding finding = {.pattern = MT_PATTERN_IDLE, .role = mt_role_name(assumed[i].role)};
        assert_int_equal(mt_finding_hint(&finding), assumed[i].hint);
    }
    const struct mt_finding of_several = {.pattern = MT_PATTERN_IDLE, .role = ""};
    assert_int_equal(mt_finding_hint(&of_several), MT_HINT_RECOMPUTE);
}

/* Of a buffer in every step's forward one is there, however many steps there are. */
static void lasting_roles_count_once(void **state)
{
    (void)state;
    static const mt_role lasting[] = {MT_ROLE_PARAMETER, MT_ROLE_OPTIMIZER_STATE, MT_ROLE_BUFFER, MT_ROLE_KEPT};
    enum { STEPS = 4 };
    for (size_t i = 0; i < sizeof lasting / sizeof lasting[0]; i++) {
        const struct mt_label_row label = {.category = "", .role = mt_role_name(lasting[i]), .phase = "forward"};
        const struct mt_block_row small = {.requested_bytes = 100}, large = {.requested_bytes = 150};
        const struct mt_mark_row marks[STEPS] = {{.kind = MT_EVENT_STEP_BEGIN},
                                                 {.kind = MT_EVENT_STEP_BEGIN},
                                                 {.kind = MT_EVENT_STEP_BEGIN},
                                                 {.kind = MT_EVENT_STEP_BEGIN}};
        const struct mt_advice_input four = {.labels = &label,
                                             .label_count = 1,
                                             .blocks = &small,
                                             .block_count = 1,
                                             .marks = marks,
                                             .mark_count = STEPS};
        const struct mt_advice_input one = {
            .labels = &label, .label_count = 1, .blocks = &large, .block_count = 1, .marks = marks, .mark_count = 1};
        struct mt_scaling scaling = mt_scaling_create(&four, 1, &one, 2);
        assert_true(scaling.growths[0] == 0.5);
        mt_scaling_release(&scaling);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_grow_with_the_batch_as_assumed),
        cmocka_unit_test(an_idle_block_gets_the_hint_of_its_role),
        cmocka_unit_test(lasting_roles_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
