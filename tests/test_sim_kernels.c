/* Kernels on sim: each op counts as one, with its label, step and estimated time; answers call them estimates; and the
 * shares of matrix products are near the shares of PyTorch's kernels on an H200 (tests/data/kernels_h200.json). */
#include "device/device.h"
#include "report_reader.h"

#include <math.h>

/* The most that a share of products in a phase, and the time of its kernels, may be off: they are up to 7.9 points and
 * 14.7 %. */
static const double MOST_POINTS = 10, MOST_PERCENT = 20;

struct taken {
    struct mt_kernel kernels[4];
    size_t count;
};

static void take(void *context, const struct mt_kernel *kernel)
{
    struct taken *taken = context;
    assert_true(taken->count < sizeof taken->kernels / sizeof taken->kernels[0]);
    taken->kernels[taken->count++] = *kernel;
}

static void an_op_is_a_kernel_of_its_label_and_step(void **state)
{
    (void)state;
    struct taken taken = {0};
    struct mt_device *device;
    const struct mt_work work = {.op = "matmul", .bytes = 4800000, .dtype = MT_F32};
    assert_int_equal(mt_device_open("sim", &device), MT_OK);
    mt_device_spend(device, &work);
    assert_int_equal(mt_device_watch_kernels(device), MT_OK);
    mt_device_spend(device, &work);
    mt_device_tag(device, 7);
    mt_device_tag_step(device, 3);
    mt_device_spend(device, &work);
    assert_int_equal(mt_device_waiting_kernels(device), 2);
    assert_int_equal(mt_device_collect(device, take, &taken), MT_OK);
    assert_int_equal(mt_device_waiting_kernels(device), 0);
    assert_int_equal(taken.count, 2);
    assert_int_equal(taken.kernels[0].step, MT_NO_STEP);
    assert_int_equal(taken.kernels[1].step, 3);
    assert_int_equal(taken.kernels[1].label, 7);
    assert_string_equal(taken.kernels[1].name, "matmul");
    assert_true(taken.kernels[0].start_ns > 0 && taken.kernels[0].end_ns <= taken.kernels[1].start_ns);
    assert_true(taken.kernels[1].end_ns - taken.kernels[1].start_ns >= 1000); /* 4.8 MB at 4.8 TB/s */
    mt_device_close(device);
}

static const json_t *times_of(const json_t *steps, size_t row)
{
    return json_object_get(json_array_get(json_object_get(steps, "rows"), row), "ms");
}

/* Kernels do not overlap, so they take no longer than the step; and they change nothing of it. */
static void kernels_of_a_run_are_estimates_within_its_steps(void **state)
{
    (void)state;
    run(TINY "--seq 8 --kernels");
    json_t *kernels = json_of(MEMTRACE("kernels --json"));
    assert_true(json_is_true(json_object_get(kernels, "estimated")));
    const json_t *attention = json_object_get(kernels, "attention"); /* its products are of one size here */
    assert_true(integer_of(attention, "score_ns") > 0);
    assert_int_equal(2 * integer_of(attention, "score_ns"), integer_of(attention, "product_ns"));
    const struct said *said = MEMTRACE("kernels");
    assert_says(said->out, "Estimated time on the GPU (est.), of a step");
    assert_says(said->out, "\nqueries with keys (QKᵀ)   ");
    double ms = json_number_value(json_object_get(json_object_get(kernels, "step"), "ms_per_step"));
    run(TINY "--seq 8");
    assert_says(MEMTRACE("kernels")->out, "`memtrace run --kernels` does that");
    json_t *steps = json_of(MEMTRACE("steps --json"));
    const json_t *watched = times_of(steps, 0), *plain = times_of(steps, 1);
    assert_true(json_equal(watched, plain));
    assert_true(ms > 0 && ms <= json_number_value(json_object_get(json_object_get(plain, "step"), "mean")) * 1.001);
    json_decref(kernels);
    json_decref(steps);
}

/* Returns a number of the answer's phase. */
static double estimated(const json_t *answer, const char *name, const char *key)
{
    size_t i;
    json_t *phase;
    json_array_foreach(json_object_get(answer, "phases"), i, phase)
    {
        if (strcmp(text_of(phase, "phase"), name) == 0)
            return json_number_value(json_object_get(phase, key));
    }
    fail_msg("no kernels of phase %s", name);
    return 0;
}

static double measured(const json_t *run, const char *phase, const char *key)
{
    return json_number_value(json_object_get(json_object_get(json_object_get(run, "phases"), phase), key));
}

static void assert_near(double estimate, double measurement, double most, const char *what)
{
    if (!(fabs(estimate - measurement) <= most))
        fail_msg("%s: %.3f estimated, %.3f measured", what, estimate, measurement);
}

/* Checks a run beside its measurement, and that the report shows the measured shares. */
static void compare(const json_t *reference)
{
    static const char *const phases[] = {"forward", "backward"};
    assert_int_equal(
        shell("\"$M\" run --device sim --model 2.7B --kernels --seq %d --autocast %s --steps 1 --trace k.db",
              (int)integer_of(reference, "seq"), json_is_true(json_object_get(reference, "autocast")) ? "bf16" : "off")
            ->code,
        0);
    json_t *answer = json_of(MEMTRACE("kernels --json --trace k.db"));
    json_t *page = json_of(MEMTRACE("report --json --trace k.db")), *table = table_of(page, "kernels", "kernels");
    for (size_t i = 0; i < 2; i++) {
        double share = measured(reference, phases[i], "gemm_share"), ms = measured(reference, phases[i], "gpu_ms");
        assert_near(100 * estimated(answer, phases[i], "product_share"), 100 * share, MOST_POINTS, phases[i]);
        assert_near(estimated(answer, phases[i], "ms_per_step"), ms, ms * MOST_PERCENT / 100, phases[i]);
        const json_t *shown = cell_of(table, row_of(table, "phase", phases[i]), "PyTorch's share");
        assert_true(fabs(json_number_value(json_object_get(shown, "value")) - 100 * share) < 0.01);
    }
    assert_true(is_said(page, "kernels", "Nothing ran on sim:h200"));
    assert_int_equal(shell("rm k.db*")->code, 0);
    json_decref(answer);
    json_decref(page);
}

static void shares_of_products_are_near_those_of_pytorch(void **state)
{
    (void)state;
    size_t i;
    json_error_t error;
    json_t *rows = json_load_file(MT_TEST_DATA "/kernels_h200.json", 0, &error), *reference;
    assert_non_null(rows);
    assert_int_equal(json_array_size(rows), 4);
    json_array_foreach(rows, i, reference) compare(reference);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_is_a_kernel_of_its_label_and_step),
        TEST(kernels_of_a_run_are_estimates_within_its_steps),
        TEST(shares_of_products_are_near_those_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
