/* A training run that fails wherever it can: at each launch of its first steps, and at each request that the device
 * serves. It ends with the status and the text of the failure, the allocator is consistent, and nothing stays
 * allocated; AddressSanitizer would report host memory. */
#include "alloc_opening.h"
#include "device/backend.h"
#include "listening_kernels.h"
#include "producers/model/training.h"
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A simulated card with kernels that compute nothing. One of them may fail. */
struct card {
    struct mt_device *device;
    const struct mt_device_table *simulated;
    struct mt_device_table table;
    struct listening_queue queue;
    int launches, fail_launch; /* by number, from 1; 0: none */
    uint64_t reserves, refuse_from;
};

/* The card that the table's functions use, since a simulated device has no room for a pointer. There is one at a
 * time. */
static struct card card;

static mt_status launch(struct listening_queue *queue, uint64_t op, const struct mtk_view *const *views, int count)
{
    (void)queue;
    (void)op;
    (void)views;
    (void)count;
    if (++card.launches == card.fail_launch)
        return mt_fail(MT_FAILED, "launch number %d was made to fail", card.launches);
    return MT_OK;
}

static struct mtk_queue *queue_of(struct mt_device *device, mt_stream stream)
{
    (void)device;
    (void)stream;
    return (struct mtk_queue *)&card.queue;
}

static mt_status read_zeros(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream)
{
    (void)device;
    (void)from;
    (void)stream;
    memset(to, 0, bytes);
    return MT_OK;
}

/* From some request on, all memory is refused, even after cached segments were released. */
static mt_status reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    if (++card.reserves >= card.refuse_from && card.refuse_from > 0)
        return mt_fail(MT_OUT_OF_MEMORY, "request number %d was made to fail", (int)card.reserves);
    return card.simulated->reserve(device, bytes, out_address);
}

static void card_open(int fail_launch, uint64_t refuse_from)
{
    card = (struct card){.queue = {.launch = launch}, .fail_launch = fail_launch, .refuse_from = refuse_from};
    assert_int_equal(mt_device_open_simulated(NULL, UINT64_C(1) << 40, &card.device), MT_OK);
    card.simulated = card.device->table;
    card.table = *card.simulated;
    card.table.queue = queue_of;
    card.table.read = read_zeros;
    card.table.reserve = reserve;
    card.device->table = &card.table;
    card.device->kernels = &listening_kernels;
}

static void card_close(void)
{
    mt_device_close(card.device);
}

/* Checks that spans end in a failed run, too, and that every block was freed. */
static void expect_ends(const struct recording *recording)
{
    int64_t spans = 0, blocks = 0;
    for (size_t i = 0; i < recording->count; i++) {
        mt_event_kind kind = recording->events[i].kind;
        spans += (kind == MT_EVENT_SPAN_BEGIN) - (kind == MT_EVENT_SPAN_END);
        blocks += (kind == MT_EVENT_ALLOC) - (kind == MT_EVENT_FREE);
        assert_true(spans >= 0 && blocks >= 0);
    }
    assert_int_equal(spans, 0);
    assert_int_equal(blocks, 0);
}

static const struct setup {
    mt_implementation_kind implementation;
    mt_attention_kind attention;
    bool autocast, rope;
    mt_mode mode;
    mt_weight_cast weight_cast;
    mt_checkpoint checkpoint;
    mt_optimizer_in_backward optimizer_in_backward;
    mtk_moments moments;
    int64_t loss_slices; /* 0: 1 */
} setups[] = {
    {.attention = MT_ATTENTION_CUSTOM, .mode = MT_MODE_FWD_BWD},
    {.attention = MT_ATTENTION_CUSTOM, .mode = MT_MODE_FWD_BWD, .autocast = true, .rope = true},
    {.attention = MT_ATTENTION_SOFTMAX, .mode = MT_MODE_FWD_BWD, .autocast = true},
    {.attention = MT_ATTENTION_WEIGHTS, .mode = MT_MODE_FWD},
    {.attention = MT_ATTENTION_FLASH, .mode = MT_MODE_FWD_BWD, .rope = true},
    {.attention = MT_ATTENTION_CUSTOM, .mode = MT_MODE_INFER},
    {.implementation = MT_IMPLEMENTATION_FUSED, .attention = MT_ATTENTION_FLASH, .mode = MT_MODE_FWD_BWD},
    {.implementation = MT_IMPLEMENTATION_FUSED,
     .attention = MT_ATTENTION_WEIGHTS,
     .mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .rope = true,
     .weight_cast = MT_WEIGHT_CAST_LAYER,
     .checkpoint = MT_CHECKPOINT_BLOCK},
    {.implementation = MT_IMPLEMENTATION_FUSED,
     .attention = MT_ATTENTION_FLASH,
     .mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .checkpoint = MT_CHECKPOINT_BLOCK,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON},
    {.implementation = MT_IMPLEMENTATION_FUSED,
     .attention = MT_ATTENTION_FLASH,
     .mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .weight_cast = MT_WEIGHT_CAST_PERSISTENT,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_BESIDE},
    {.implementation = MT_IMPLEMENTATION_FUSED,
     .attention = MT_ATTENTION_FLASH,
     .mode = MT_MODE_FWD_BWD,
     .moments = MTK_MOMENTS_8BIT},
    {.implementation = MT_IMPLEMENTATION_FUSED,
     .attention = MT_ATTENTION_FLASH,
     .mode = MT_MODE_FWD_BWD,
     .autocast = true,
     .optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON,
     .loss_slices = 3},
    {.implementation = MT_IMPLEMENTATION_FUSED, .attention = MT_ATTENTION_WEIGHTS, .mode = MT_MODE_INFER},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

/* Tensors of a few MiB: the device serves most requests, not the cache. */
static struct mt_training_config config_of(const struct setup *setup)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 3000, .d_model = 512, .d_ff = 1500, .layers = 1, .heads = 8, .rope = setup->rope};
    config.mode = setup->mode;
    config.batch = 2;
    config.seq = 700;
    config.steps = 2;
    config.implementation = setup->implementation;
    config.attention = setup->attention;
    config.autocast = setup->autocast;
    config.weight_cast = setup->weight_cast;
    config.checkpoint = setup->checkpoint;
    config.optimizer_in_backward = setup->optimizer_in_backward;
    config.moments = setup->moments;
    if (setup->loss_slices != 0)
        config.loss_slices = setup->loss_slices;
    return config;
}

/* Trains on the card, and leaves it open. Checks that the allocator is consistent afterwards, every block was freed
 * and every span has ended. */
static mt_status train(const struct setup *setup, int fail_launch, uint64_t refuse_from)
{
    const struct mt_training_config config = config_of(setup);
    struct recording recording;
    struct mt_alloc_stats stats;
    recording_open(&recording);
    const struct mt_sink sink = recording_sink(&recording);
    card_open(fail_launch, refuse_from);
    struct mt_alloc *alloc = create_alloc(card.device, "policy=torch", &sink);
    mt_status status = mt_training_run(card.device, alloc, &config, NULL);
    assert_int_equal(mt_alloc_check(alloc), MT_OK);
    mt_alloc_stats(alloc, &stats);
    assert_int_equal(stats.all.blocks, 0);
    expect_ends(&recording);
    mt_alloc_destroy(alloc);
    recording_close(&recording);
    return status;
}

static void expect_words(size_t setup, uint64_t number, const char *words)
{
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("setup %zu, failure %d: \"%s\" does not say \"%s\"", setup, (int)number, mt_last_error(), words);
}

static void any_launch_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        assert_int_equal(train(&setups[i], 0, 0), MT_OK);
        int launches = card.launches;
        card_close();
        for (int n = 1; n <= launches; n += 1 + n / 40) {
            assert_int_equal(train(&setups[i], n, 0), MT_FAILED);
            expect_words(i, (uint64_t)n, "was made to fail");
            assert_int_equal(card.launches, n);
            card_close();
        }
    }
}

static void any_request_may_be_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUPS; i++) {
        assert_int_equal(train(&setups[i], 0, 0), MT_OK);
        uint64_t reserves = card.reserves;
        card_close();
        for (uint64_t n = 1; n <= reserves; n++) {
            assert_int_equal(train(&setups[i], 0, n), MT_OUT_OF_MEMORY);
            expect_words(i, n, "out of device memory");
            card_close();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_launch_may_fail),
        cmocka_unit_test(any_request_may_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
