/* The gate of the fused model where it is computed within its products: the same results as with kernels of its own,
 * and the same events on every device. The device may be given as an argument (default: cpu). */
#include "fused_bench.h"
#include "gpu.h"
#include "kernels/gate_plan.h"

/* A wide feed-forward net, whose gate a card of compute capability 9.0 computes with its products. */
static struct mt_training_config config_of_wide_gate(void)
{
    struct mt_training_config config = small_config();
    config.model.d_model = 16;
    config.model.heads = 2;
    config.model.layers = 1;
    config.model.d_ff = 8200;
    config.batch = 8;
    config.seq = 256;
    config.autocast = true;
    config.attention = MT_ATTENTION_WEIGHTS;
    return config;
}

/* Trains on the device as if it had that compute capability. */
static void losses_of_capability(int capability, const struct mt_training_config *config, int steps, double *losses)
{
    struct bench_model m;
    open_model(&m, config);
    m.device->card.capability = capability;
    m.rt.choosing = MTK_CHOOSING_GUESSES; /* by time, it may be another order of sums in the next run */
    for (int64_t step = 0; step < steps; step++)
        losses[step] = train_step(&m, step, NULL, NULL);
    close_model(&m);
}

static void a_gate_within_its_products_gives_the_same_losses(void **state)
{
    (void)state;
    enum { STEPS = 2, APART = 80, WITHIN = 90 };
    double apart[STEPS], within[STEPS], again[STEPS];
    struct mt_training_config config = config_of_wide_gate();
    const int64_t rows = config.batch * config.seq;
    assert_true(mtk_gate_in_product(WITHIN, MT_BF16, rows, config.model.d_model, config.model.d_ff));
    assert_false(mtk_gate_in_product(APART, MT_BF16, rows, config.model.d_model, config.model.d_ff));
    losses_of_capability(APART, &config, STEPS, apart);
    losses_of_capability(WITHIN, &config, STEPS, within);
    for (int step = 0; step < STEPS; step++)
        assert_true(fabs(within[step] / apart[step] - 1) < 1e-3);
    assert_true(within[STEPS - 1] < within[0] - 0.05);
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    losses_of_capability(WITHIN, &config, STEPS, again);
    assert_memory_equal(again, within, sizeof within);
}

static void sim_and_the_device_compute_a_gate_in_one_place(void **state)
{
    (void)state;
    struct mt_training_config config = config_of_wide_gate();
    config.steps = 2;
    assert_int_equal(first_difference(&config, ""), -1);
    config.steps = 1;
    config.checkpoint = MT_CHECKPOINT_BLOCK;
    config.weight_cast = MT_WEIGHT_CAST_LAYER;
    assert_int_equal(first_difference(&config, ""), -1);
}

int main(int count, char **arguments)
{
    if (!take_device(count, arguments, &test_device))
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_within_its_products_gives_the_same_losses),
        cmocka_unit_test(sim_and_the_device_compute_a_gate_in_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
