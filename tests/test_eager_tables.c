/* The eager model on the simulated device against the published tables and against measured runs of the reference
 * program: largest allocation per category, allocations per category, peaks. tests/data/pytorch_h200.json holds what
 * PyTorch 2.11 measured on an H200. */
#include "recorded_training.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { FULL_STEP = 2, MEASURED_STEPS = 8, SECOND_WORKSPACE_BYTES = 33554432 };

static const double MIB = 1024 * 1024;

static struct mt_training_config config_of(int64_t seq, mt_mode mode, mt_dtype autocast)
{
    struct mt_training_config config = mt_training_config_default();
    config.seq = seq;
    config.mode = mode;
    config.autocast = autocast == MT_BF16;
    config.steps = MEASURED_STEPS;
    return config;
}

/* True if an allocation counts for its category in the published tables: activations count in forward, not in
 * backward. */
static bool is_counted(const struct mt_label *label)
{
    switch (label->category) {
    case MT_CATEGORY_GRADIENT:
        return label->phase == MT_PHASE_BACKWARD;
    case MT_CATEGORY_OPT_STATE:
    case MT_CATEGORY_OPTIMIZER:
        return label->phase == MT_PHASE_OPTIMIZER;
    default:
        return label->phase == MT_PHASE_FORWARD || label->phase == MT_PHASE_LOSS;
    }
}

struct table {
    uint64_t max_bytes[MT_CATEGORY_COUNT]; /* over the run, requested */
    uint64_t per_step[MT_CATEGORY_COUNT];  /* in a full step */
    struct mt_alloc_stats stats;
};

static void make_table(const struct mt_training_config *config, struct table *out)
{
    struct recording recording;
    uint64_t step = UINT64_MAX;
    recording_open(&recording);
    *out = (struct table){0};
    assert_int_equal(recording_train(&recording, "sim", "policy=torch", config, NULL, &out->stats), MT_OK);
    for (size_t i = 0; i < recording.count; i++) {
        const struct mt_event *event = &recording.events[i];
        if (event->kind == MT_EVENT_STEP_BEGIN)
            step = event->value;
        if (event->kind != MT_EVENT_ALLOC || !is_counted(recording_label_of(&recording, event)))
            continue;
        mt_category category = mt_label_category(event->label);
        if (event->requested_bytes > out->max_bytes[category])
            out->max_bytes[category] = event->requested_bytes;
        out->per_step[category] += step == FULL_STEP;
    }
    recording_close(&recording);
}

/* One column pair of the published tables: MiB, baseline and autocast. */
struct published {
    mt_category category;
    double baseline, autocast;
};

enum { PUBLISHED_ROWS = 9 };

static const struct {
    int64_t seq;
    struct published rows[PUBLISHED_ROWS];
} published[] = {
    {128,
     {{MT_CATEGORY_ATTN_SCORES, 8, 4},
      {MT_CATEGORY_ATTN_OUT, 8, 4},
      {MT_CATEGORY_SOFTMAX, 8, 8},
      {MT_CATEGORY_FFN, 20, 10},
      {MT_CATEGORY_NORM, 5, 5},
      {MT_CATEGORY_EMBED, 5, 5},
      {MT_CATEGORY_ATTN, 5, 2.5},
      {MT_CATEGORY_EINSUM, 20, 50},
      {MT_CATEGORY_BLOCK, 5, 5}}},
    {256,
     {{MT_CATEGORY_ATTN_SCORES, 32, 16},
      {MT_CATEGORY_ATTN_OUT, 32, 16},
      {MT_CATEGORY_SOFTMAX, 32, 32},
      {MT_CATEGORY_FFN, 40, 20},
      {MT_CATEGORY_NORM, 10, 10},
      {MT_CATEGORY_EMBED, 10, 10},
      {MT_CATEGORY_ATTN, 10, 5},
      {MT_CATEGORY_EINSUM, 40, 50},
      {MT_CATEGORY_BLOCK, 10, 10}}},
    {512,
     {{MT_CATEGORY_ATTN_SCORES, 128, 64},
      {MT_CATEGORY_ATTN_OUT, 128, 64},
      {MT_CATEGORY_SOFTMAX, 128, 128},
      {MT_CATEGORY_FFN, 80, 40},
      {MT_CATEGORY_NORM, 20, 20},
      {MT_CATEGORY_EMBED, 20, 20},
      {MT_CATEGORY_ATTN, 20, 10},
      {MT_CATEGORY_EINSUM, 128, 64},
      {MT_CATEGORY_BLOCK, 20, 20}}},
};

static void check_cell(int64_t seq, mt_category category, const struct table *table, double mib)
{
    double ours = (double)table->max_bytes[category] / MIB;
    if (ours != mib)
        fail_msg("seq %lld, %s: %g MiB, published %g", (long long)seq, mt_category_name(category), ours, mib);
}

static void check_published(mt_mode mode, size_t lengths)
{
    for (size_t i = 0; i < lengths; i++) {
        struct table baseline, autocast;
        struct mt_training_config config = config_of(published[i].seq, mode, MT_NONE);
        make_table(&config, &baseline);
        config.autocast = true;
        make_table(&config, &autocast);
        for (int row = 0; row < PUBLISHED_ROWS; row++) {
            const struct published *cell = &published[i].rows[row];
            check_cell(published[i].seq, cell->category, &baseline, cell->baseline);
            check_cell(published[i].seq, cell->category, &autocast, cell->autocast);
        }
        double state = mode == MT_MODE_FWD_BWD ? 100 : 0;
        check_cell(published[i].seq, MT_CATEGORY_GRADIENT, &baseline, state);
        check_cell(published[i].seq, MT_CATEGORY_GRADIENT, &autocast, state);
        check_cell(published[i].seq, MT_CATEGORY_OPT_STATE, &baseline, state);
        check_cell(published[i].seq, MT_CATEGORY_OPT_STATE, &autocast, state);
    }
}

static void forward_tables_are_the_published_ones(void **state)
{
    (void)state;
    check_published(MT_MODE_FWD, 3);
}

static void full_step_tables_are_the_published_ones(void **state)
{
    (void)state;
    check_published(MT_MODE_FWD_BWD, 2);
}

static uint64_t bytes_of(const json_t *row, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(row, key));
}

/* The categories whose forward allocations the measured runs counted. In the first run the count of einsum is an
 * average that includes a workspace. */
static void check_counts(const json_t *row, const struct table *table)
{
    static const mt_category counted[] = {MT_CATEGORY_DATA,     MT_CATEGORY_EMBED,   MT_CATEGORY_NORM,
                                          MT_CATEGORY_EINSUM,   MT_CATEGORY_ATTN,    MT_CATEGORY_ATTN_SCORES,
                                          MT_CATEGORY_ATTN_OUT, MT_CATEGORY_SOFTMAX, MT_CATEGORY_BLOCK,
                                          MT_CATEGORY_FFN,      MT_CATEGORY_LOSS,    MT_CATEGORY_OPTIMIZER};
    const json_t *measured = json_object_get(row, "category_allocs_per_step");
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        const char *name = mt_category_name(counted[i]);
        double expected = json_number_value(json_object_get(measured, name));
        if ((uint64_t)expected != table->per_step[counted[i]])
            fail_msg("%s: %llu allocations a step, measured %g", name, (unsigned long long)table->per_step[counted[i]],
                     expected);
    }
}

static void check_peak(const char *what, uint64_t ours, uint64_t measured, double tolerance)
{
    double difference = (double)ours / (double)measured - 1;
    print_message("  %s %llu, measured %llu, %+.4f %%\n", what, (unsigned long long)ours, (unsigned long long)measured,
                  100 * difference);
    assert_true(difference <= tolerance && difference >= -tolerance);
}

static void check_row(const json_t *row)
{
    const char *mode = json_string_value(json_object_get(row, "mode"));
    bool autocast = strcmp(json_string_value(json_object_get(row, "autocast")), "off") != 0;
    bool is_forward = strcmp(mode, "fwd") == 0;
    struct mt_training_config config = config_of(
        (int64_t)bytes_of(row, "seq"), is_forward ? MT_MODE_FWD : MT_MODE_FWD_BWD, autocast ? MT_BF16 : MT_NONE);
    struct table table;
    make_table(&config, &table);
    print_message("%s seq %lld %s\n", mode, (long long)config.seq, autocast ? "autocast" : "fp32");
    check_counts(row, &table);
    /* All forward runs but the first ran in a process that had run backward, so they have its workspace, too. */
    bool first = config.seq == 128 && !autocast;
    uint64_t before = is_forward && !first ? SECOND_WORKSPACE_BYTES : 0;
    check_peak("allocated", table.stats.all.peak_allocated_bytes + before, bytes_of(row, "peak_allocated_bytes"),
               0.001);
    check_peak("reserved", table.stats.peak_reserved_bytes + before, bytes_of(row, "peak_reserved_bytes"), 0.005);
}

static void counts_and_peaks_are_the_measured_ones(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(MT_TEST_DATA "/pytorch_h200.json", 0, &error), *row;
    if (root == NULL)
        fail_msg("%s", error.text);
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "cs336"), i, row)
    {
        if (json_object_get(row, "category_allocs_per_step") == NULL)
            continue;
        check_row(row);
        checked++;
    }
    assert_int_equal(checked, 12);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_tables_are_the_published_ones),
        cmocka_unit_test(full_step_tables_are_the_published_ones),
        cmocka_unit_test(counts_and_peaks_are_the_measured_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
