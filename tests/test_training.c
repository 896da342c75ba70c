/* Tests of the message of a training run that fails: that of its first failure, whatever else fails while the run
 * ends. */
#include "alloc_opening.h"
#include "device/backend.h"
#include "producers/model/token_source.h"
#include "producers/model/training.h"
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static mt_status begin_graph(struct mt_device *device, uint64_t key)
{
    (void)device;
    (void)key;
    return MT_OK;
}

static mt_status fail_graph_end(struct mt_device *device)
{
    (void)device;
    return mt_fail(MT_FAILED, "the graph does not end");
}

static mt_status fail_synchronize(struct mt_device *device)
{
    (void)device;
    return mt_fail(MT_FAILED, "the queue does not rest");
}

static struct mt_training_config small_config(void)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 512, .d_model = 128, .d_ff = 256, .layers = 2, .heads = 4, .rope = true};
    config.batch = 4;
    config.seq = 256;
    config.cuda_graph = true;
    return config;
}

/* A simulated card that fails to synchronize, or to end a graph. */
static void break_queue(struct mt_device_table *table)
{
    table->synchronize = fail_synchronize;
}

static void break_graph(struct mt_device_table *table)
{
    table->graph_begin = begin_graph;
    table->graph_end = fail_graph_end;
    table->graph_drop = fail_graph_end;
}

/* Trains on such a card of `capacity_bytes`. The message is the last error of the thread. */
static mt_status train_on_broken(void (*break_table)(struct mt_device_table *), uint64_t capacity_bytes)
{
    const struct mt_training_config config = small_config();
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_device *device;
    assert_int_equal(mt_device_open_simulated(NULL, capacity_bytes, &device), MT_OK);
    struct mt_device_table table = *device->table;
    break_table(&table);
    device->table = &table;
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    mt_status status = mt_training_run(device, alloc, &config, NULL);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    mt_interner_destroy(interner);
    return status;
}

static void expect_words(const char *words)
{
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", mt_last_error(), words);
}

static void a_failure_among_the_parameters_keeps_its_words(void **state)
{
    (void)state;
    assert_int_equal(train_on_broken(break_queue, 1 << 20), MT_OUT_OF_MEMORY);
    expect_words("out of device memory");
}

/* The parameters fit, and the workspace of the first product does not. */
static void a_failure_inside_of_a_graph_keeps_its_words(void **state)
{
    (void)state;
    assert_int_equal(train_on_broken(break_graph, 8 << 20), MT_OUT_OF_MEMORY);
    expect_words("out of device memory");
}

static void what_fails_first_at_the_end_says_so(void **state)
{
    (void)state;
    assert_int_equal(train_on_broken(break_queue, 1 << 30), MT_FAILED);
    expect_words("the queue does not rest");
    assert_int_equal(train_on_broken(break_graph, 1 << 30), MT_FAILED);
    expect_words("the graph does not end");
}

/* Nothing writes into the pipe, so opening it to read would wait for ever. */
static void a_pipe_is_no_text_to_train_on(void **state)
{
    (void)state;
    char path[64];
    struct mt_training_config config = small_config();
    struct mt_token_source *tokens = NULL;
    snprintf(path, sizeof path, "test_training_%d.pipe", (int)getpid());
    config.data = MT_DATA_FILE;
    config.data_file = path;
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    mt_status status = mt_token_source_open(&config, &tokens);
    alarm(0);
    unlink(path);
    assert_int_equal(status, MT_FAILED);
    expect_words("is no regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_among_the_parameters_keeps_its_words),
        cmocka_unit_test(a_failure_inside_of_a_graph_keeps_its_words),
        cmocka_unit_test(what_fails_first_at_the_end_says_so),
        cmocka_unit_test(a_pipe_is_no_text_to_train_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
