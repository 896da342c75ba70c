/* Updates that are queued during backward (--optimizer-in-backward beside): work that touches bytes comes after all
 * earlier work that touched them, on any stream, even if a step fails half-way. */
#include "alloc_opening.h"
#include "queued_device.h"

#include "base/interner.h"
#include "listening_kernels.h"
#include "producers/model/training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Two streams whose kernels record the bytes that they touch. Invariant: queues comes first, since a device is its
 * first member. */
struct card {
    struct queued_device queues;
    struct mt_device_table table;
    struct listening_queue of_stream[QUEUED_STREAMS];
    int launches, fail_launch, beside; /* beside: on stream 1 */
};

static void touch(struct card *card, const struct mtk_view *view, mt_stream stream)
{
    uint64_t elements = 1;
    if (view == NULL || view->address == 0)
        return;
    for (int d = 0; d < MT_MAX_DIMS; d++)
        elements += (uint64_t)((view->shape[d] - 1) * view->stride[d]);
    uint64_t bytes = elements * mt_dtype_bytes(view->dtype);
    queued_own(&card->queues, view->address, bytes, stream);
    assert_true(queued_touch(&card->queues, view->address, bytes, stream));
}

static mt_status launch(struct listening_queue *queue, uint64_t op, const struct mtk_view *const *views, int count)
{
    struct card *card = queue->context;
    (void)op;
    if (++card->launches == card->fail_launch)
        return mt_fail(MT_OUT_OF_MEMORY, "launch number %d was made to find no memory", card->launches);
    card->beside += queue->stream == 1;
    for (int i = 0; i < count; i++)
        touch(card, views[i], queue->stream);
    return MT_OK;
}

static struct mtk_queue *queue_of(struct mt_device *device, mt_stream stream)
{
    assert_in_range(stream, 0, QUEUED_STREAMS - 1);
    return (struct mtk_queue *)&((struct card *)device)->of_stream[stream];
}

static mt_status read_zeros(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream)
{
    (void)from;
    (void)stream;
    memset(to, 0, bytes);
    return mt_device_synchronize(device);
}

static void card_open(struct card *card, int fail_launch)
{
    *card = (struct card){.table = queued_table, .fail_launch = fail_launch};
    queued_device_init(&card->queues, UINT64_C(1) << 32);
    card->table.queue = queue_of;
    card->table.read = read_zeros;
    card->queues.device.table = &card->table;
    card->queues.device.kernels = &listening_kernels;
    for (mt_stream stream = 0; stream < QUEUED_STREAMS; stream++)
        card->of_stream[stream] = (struct listening_queue){.launch = launch, .context = card, .stream = stream};
}

static struct mt_training_config beside_config(mt_checkpoint checkpoint)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 64, .d_model = 32, .d_ff = 64, .layers = 3, .heads = 2, .rope = true};
    config.batch = 2;
    config.seq = 16;
    config.steps = 3;
    config.implementation = MT_IMPLEMENTATION_FUSED;
    config.attention = MT_ATTENTION_FLASH;
    config.autocast = true;
    config.weight_cast = MT_WEIGHT_CAST_PERSISTENT;
    config.checkpoint = checkpoint;
    config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE;
    return config;
}

/* Trains, and then takes all the memory that was used once more, on the same stream. */
static mt_status train(struct card *card, const struct mt_training_config *config)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_alloc *alloc = create_alloc(&card->queues.device, "", &sink);
    mt_status status = mt_training_run(&card->queues.device, alloc, config, NULL);
    queued_own(&card->queues, 0, card->queues.next, 0);
    mt_alloc_destroy(alloc);
    mt_interner_destroy(interner);
    return status;
}

static void updates_and_backward_never_meet(void **state)
{
    (void)state;
    static struct card card;
    for (int way = 0; way < 8; way++) {
        struct mt_training_config config = beside_config(way % 2 == 1 ? MT_CHECKPOINT_BLOCK : MT_CHECKPOINT_OFF);
        config.moments = way < 6 ? (mtk_moments)(way / 2) : MTK_MOMENTS_FULL;
        config.loss_slices = way < 6 ? 1 + way : 1;
        config.math = way < 6 ? MTK_MATH_FP32 : MTK_MATH_FP8;
        card_open(&card, 0);
        assert_int_equal(train(&card, &config), MT_OK);
        assert_int_equal(card.queues.hazards, 0);
        assert_true(card.beside > 0);
    }
}

/* Otherwise the other tests here could not fail. */
static void streams_that_do_not_follow_are_found_out(void **state)
{
    (void)state;
    static struct card card;
    const struct mt_training_config config = beside_config(MT_CHECKPOINT_OFF);
    card_open(&card, 0);
    card.queues.is_deaf = true;
    assert_int_equal(train(&card, &config), MT_OK);
    assert_true(card.queues.hazards > 0);
}

static void memory_of_a_step_that_failed_is_free_only_after_its_updates(void **state)
{
    (void)state;
    static struct card card;
    const struct mt_training_config config = beside_config(MT_CHECKPOINT_OFF);
    card_open(&card, 0);
    assert_int_equal(train(&card, &config), MT_OK);
    int all = card.launches, beside = 0;
    for (int fails = 1; fails <= all; fails += 3) {
        card_open(&card, fails);
        assert_int_equal(train(&card, &config), MT_OUT_OF_MEMORY);
        assert_non_null(strstr(mt_last_error(), "was made to find no memory"));
        if (card.queues.hazards > 0)
            fail_msg("launch %d of %d failed, and %d times somebody's bytes were taken too early", fails, all,
                     (int)card.queues.hazards);
        beside += card.beside;
    }
    assert_true(beside > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_and_backward_never_meet),
        cmocka_unit_test(streams_that_do_not_follow_are_found_out),
        cmocka_unit_test(memory_of_a_step_that_failed_is_free_only_after_its_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
