/* The cases of the golden file, which PyTorch computed from the model's formulas. A case has its settings, its
 * losses, and the norm and the first elements of tensors. Cases that a GPU computed have a GPU's tolerance; autocast
 * cases round to bf16 at every product, in another order of summation. */
#pragma once

#include "producers/model/training.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { GOLDEN_STEPS = 5, GOLDEN_LEAST_CASES = 12 };

static const char *golden_path = MT_TEST_DATA "/golden_model.json";

/* The tolerances of a case. `first` is relative to the root mean square of the tensor. */
struct golden_tolerance {
    double loss, norm, first;
};

static inline struct golden_tolerance golden_tolerance_of(const struct mt_training_config *config)
{
    static const struct golden_tolerance fp32 = {1e-5, 1e-4, 1e-4}, fp64 = {1e-7, 5e-7, 2e-6}, bf16 = {3e-3, 3e-2, 0.2};
    return config->autocast ? bf16 : config->parameter_dtype == MT_F64 ? fp64 : fp32;
}

/* All cases; release them. */
static inline json_t *golden_load(void)
{
    json_error_t error;
    json_t *cases = json_load_file(golden_path, 0, &error);
    if (cases == NULL)
        fail_msg("%s: %s", golden_path, error.text);
    return cases;
}

static inline int64_t golden_size(const json_t *golden, const char *key)
{
    return json_integer_value(json_object_get(golden, key));
}

/* Returns the settings of a case, for the eager model. */
static inline struct mt_training_config golden_config(const json_t *golden)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){.name = "custom",
                                            .vocab = golden_size(golden, "vocab"),
                                            .d_model = golden_size(golden, "d_model"),
                                            .d_ff = golden_size(golden, "d_ff"),
                                            .layers = golden_size(golden, "layers"),
                                            .heads = golden_size(golden, "heads"),
                                            .rope = json_is_true(json_object_get(golden, "rope"))};
    config.batch = golden_size(golden, "batch");
    config.seq = golden_size(golden, "seq");
    config.init = MT_INIT_REFERENCE;
    config.data = MT_DATA_REFERENCE;
    config.autocast = json_is_true(json_object_get(golden, "autocast"));
    bool is_fp64 = strcmp(json_string_value(json_object_get(golden, "dtype")), "torch.float64") == 0;
    config.parameter_dtype = is_fp64 ? MT_F64 : MT_F32;
    return config;
}

static inline void golden_near(const char *what, double ours, double golden, double allowed)
{
    if (!(fabs(ours - golden) <= allowed))
        fail_msg("%s: %.10g, golden %.10g, off by %.3g where %.3g is allowed", what, ours, golden, ours - golden,
                 allowed);
}

/* Compares the loss of step `step`. */
static inline void golden_expect_loss(const json_t *golden, int64_t step, double loss,
                                      const struct golden_tolerance *tolerance)
{
    double expected = json_number_value(json_array_get(json_object_get(golden, "losses"), (size_t)step));
    golden_near("loss", loss, expected, tolerance->loss * expected);
}

/* Compares a tensor's elements with its golden norm and first elements, {"norm": ..., "first": [...]}. */
static inline void golden_expect_values(const char *what, const json_t *golden, const double *values, size_t count,
                                        const struct golden_tolerance *tolerance)
{
    assert_non_null(golden);
    double norm = json_number_value(json_object_get(golden, "norm")), sum = 0;
    size_t i;
    const json_t *first;
    for (i = 0; i < count; i++)
        sum += values[i] * values[i];
    golden_near(what, sqrt(sum), norm, tolerance->norm * norm);
    json_array_foreach(json_object_get(golden, "first"), i, first)
        golden_near(what, values[i], json_number_value(first), tolerance->first * norm / sqrt((double)count));
}
