/* The eager model on the simulated device against real training steps, event by event: tests/data/steps lists every
 * allocation and free of each, as PyTorch 2.11 recorded them: the 2.7B model on an H200, and two layers of the small
 * one (batch 4, sequence 256) on an H100. docs/eager.md explains the files. */
#include "recorded_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <zlib.h>

#include <cmocka.h>

enum { MODEL_PHASES = 3 }; /* forward with loss, backward, optimizer */

struct change {
    bool is_alloc;
    int part;
    uint64_t bytes;
};

struct changes {
    struct change *list;
    size_t count, capacity;
};

static void add(struct changes *changes, struct change change)
{
    if (changes->count == changes->capacity) {
        changes->capacity = changes->capacity * 2 + 1024;
        changes->list = mt_host_resize(changes->list, changes->capacity, sizeof change);
    }
    changes->list[changes->count++] = change;
}

/* The reference's own phase column is by position only: backward and the optimizer begin at these rows. */
static void read_reference(const char *name, size_t backward, size_t optimizer, struct changes *out)
{
    char path[512], line[512], action[16];
    snprintf(path, sizeof path, "%s/steps/%s", MT_TEST_DATA, name);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    assert_non_null(gzgets(file, line, sizeof line));
    for (size_t n = 0; gzgets(file, line, sizeof line) != NULL; n++) {
        unsigned long long bytes;
        assert_int_equal(sscanf(line, "%*u,%15[a-z],%*u,%llu", action, &bytes), 2);
        add(out, (struct change){strcmp(action, "alloc") == 0, (n >= backward) + (n >= optimizer), bytes});
    }
    gzclose(file);
}

static void record_step(const struct mt_training_config *config, struct changes *out)
{
    struct recording recording;
    recording_open(&recording);
    assert_int_equal(recording_train(&recording, "sim", "policy=torch", config, NULL, NULL), MT_OK);
    const struct mt_event *event;
    size_t count = recording_step(&recording, 2, &event);
    for (int part = 0; count > 0; count--, event++) {
        if (event->kind == MT_EVENT_PHASE)
            part = event->value == MT_PHASE_BACKWARD ? 1 : event->value == MT_PHASE_OPTIMIZER ? 2 : part;
        if (event->kind == MT_EVENT_ALLOC || event->kind == MT_EVENT_FREE)
            add(out, (struct change){event->kind == MT_EVENT_ALLOC, part, event->requested_bytes});
    }
    recording_close(&recording);
}

static int compare_bytes(const void *a, const void *b)
{
    uint64_t left = ((const struct change *)a)->bytes, right = ((const struct change *)b)->bytes;
    return (left > right) - (left < right);
}

/* Sorts the copies of weights that a region frees as its last act in backward: PyTorch's are in a hash map, whose order
 * means nothing. */
static void sort_casts(struct changes *changes, size_t optimizer, size_t casts)
{
    for (size_t i = optimizer - casts; i < optimizer; i++)
        assert_false(changes->list[i].is_alloc);
    qsort(changes->list + optimizer - casts, casts, sizeof *changes->list, compare_bytes);
}

static void compare(const char *name, const struct mt_training_config *config, size_t backward, size_t optimizer)
{
    struct changes reference = {0}, ours = {0};
    size_t events[MODEL_PHASES] = {0};
    bool holds_backward = config->autocast_end == MT_REGION_END_AFTER_BACKWARD;
    size_t casts = holds_backward ? 7 * (size_t)config->model.layers + 1 : 0;
    read_reference(name, backward, optimizer, &reference);
    record_step(config, &ours);
    assert_int_equal(ours.count, reference.count);
    sort_casts(&reference, optimizer, casts);
    sort_casts(&ours, optimizer, casts);
    for (size_t i = 0; i < ours.count; i++) {
        const struct change *a = &ours.list[i], *b = &reference.list[i];
        if (a->is_alloc != b->is_alloc || a->bytes != b->bytes || a->part != b->part)
            fail_msg("event %zu: ours %s %llu in part %d, reference %s %llu in part %d", i,
                     a->is_alloc ? "alloc" : "free", (unsigned long long)a->bytes, a->part,
                     b->is_alloc ? "alloc" : "free", (unsigned long long)b->bytes, b->part);
        events[a->part]++;
    }
    print_message("%s: equal, %zu events in forward, %zu in backward, %zu in the optimizer\n", name, events[0],
                  events[1], events[2]);
    free(reference.list);
    free(ours.list);
}

static struct mt_training_config config_of(bool autocast)
{
    struct mt_training_config config = mt_training_config_default();
    config.autocast = autocast;
    return config;
}

/* Two layers of the small model. */
static struct mt_training_config small_config_of(bool autocast)
{
    struct mt_training_config config = config_of(autocast);
    assert_int_equal(mt_model_config_named("small", &config.model), MT_OK);
    config.model.layers = 2;
    return config;
}

static void an_fp32_step_allocates_and_frees_as_the_real_one(void **state)
{
    (void)state;
    struct mt_training_config config = config_of(false);
    compare("cs336_2.7B_seq256_fp32_one_step.csv.gz", &config, 2239, 8113);
}

static void an_autocast_step_allocates_and_frees_as_the_real_one(void **state)
{
    (void)state;
    struct mt_training_config config = config_of(true);
    compare("cs336_2.7B_seq256_autocast_one_step.csv.gz", &config, 2819, 9919);
}

static void a_step_with_softmax_as_one_op_is_that_of_torch_softmax(void **state)
{
    (void)state;
    struct mt_training_config config = small_config_of(false);
    config.attention = MT_ATTENTION_SOFTMAX;
    compare("small2_softmax_fp32_one_step.csv.gz", &config, 161, 549);
    config.autocast = true;
    compare("small2_softmax_autocast_one_step.csv.gz", &config, 199, 675);
}

static void backward_in_the_autocast_region_is_that_of_the_real_one(void **state)
{
    (void)state;
    struct mt_training_config config = small_config_of(true);
    config.autocast_end = MT_REGION_END_AFTER_BACKWARD;
    compare("small2_autocast_after_backward_one_step.csv.gz", &config, 209, 745);
}

static void an_fp16_step_with_a_loss_scaler_is_that_of_the_real_one(void **state)
{
    (void)state;
    struct mt_training_config config = small_config_of(true);
    config.autocast = MT_AUTOCAST_FP16;
    compare("small2_fp16_one_step.csv.gz", &config, 209, 743);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_fp32_step_allocates_and_frees_as_the_real_one),
        cmocka_unit_test(an_autocast_step_allocates_and_frees_as_the_real_one),
        cmocka_unit_test(a_step_with_softmax_as_one_op_is_that_of_torch_softmax),
        cmocka_unit_test(backward_in_the_autocast_region_is_that_of_the_real_one),
        cmocka_unit_test(an_fp16_step_with_a_loss_scaler_is_that_of_the_real_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
